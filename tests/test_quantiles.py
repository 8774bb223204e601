"""Quantiles of lengths."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.statistics.sums import quantile, rounded


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_quantile(lengths: list[int], share: float) -> None:
    """The quantile is a length that so many stay below or at, to one part in 128."""
    found = quantile(Counter(map(rounded, lengths)), share)
    exact = quantile(Counter(lengths), share)
    assert sum(n <= exact for n in lengths) >= share * len(lengths)
    assert exact in lengths
    assert exact * 127 / 128 <= found <= exact


def test_few_lengths() -> None:
    """However many lengths there are, few of them are told apart."""
    assert len({rounded(n) for n in range(1, 10**6)}) < 2_200


def test_none() -> None:
    """Of nothing the quantile is 0."""
    assert quantile(Counter(), 0.5) == 0


@pytest.mark.parametrize(("share", "wanted"), [(0.5, 2), (0.75, 3), (1.0, 9)])
def test_by_hand(share: float, wanted: int) -> None:
    """The median of 1, 2, 3 and 9 is 2: half of them are no longer."""
    assert quantile(Counter([1, 2, 3, 9]), share) == wanted
