"""Quantiles of very many lengths in little memory."""

from __future__ import annotations

from collections import Counter

_STEPS = 7
"""Binary digits of a length that are told apart: a quantile is exact to one part in 128."""


def quantile(lengths: Counter[int], share: float) -> int:
    """The length that a share of all rollouts stays below or at; 0 where there are none."""
    left = share * lengths.total()
    for length, count in sorted(lengths.items()):
        left -= count
        if left <= 0:
            return length
    return 0


def rounded(size: int) -> int:
    """A size to its first binary digits: there are few different ones, however many rollouts."""
    less = max(0, size.bit_length() - _STEPS - 1)
    return size >> less << less
