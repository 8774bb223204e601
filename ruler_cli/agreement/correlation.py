"""Whether two judges go wrong together: correlation of their scores, and of their errors, within groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ruler_cli.agreement.bootstrap import Totals

_FLAT = 1e-9
"""Scores of a group that differ by less are the same: what rounding leaves of one score is no signal."""
_NONE = 1e-12
"""Share of a variance below which a residual is rounding and no error."""


def sums(one: Sequence[float], other: Sequence[float], prefix: str) -> dict[str, float]:
    """What a group adds for the plain correlation: products of scores less the group's mean."""
    a, b = _centred(one), _centred(other)
    return {f"{prefix}aa": _dot(a, a), f"{prefix}bb": _dot(b, b), f"{prefix}ab": _dot(a, b)}


def error_sums(
    one: Sequence[float], other: Sequence[float], labels: Sequence[float], prefix: str
) -> dict[str, float]:
    """What a group adds for the correlation of errors: the same, and products with the labels."""
    a, b, y = _centred(one), _centred(other), _centred(labels)
    return sums(one, other, prefix) | {
        f"{prefix}ay": _dot(a, y),
        f"{prefix}by": _dot(b, y),
        f"{prefix}yy": _dot(y, y),
    }


def plain(prefix: str) -> Callable[[Totals], float | None]:
    """Pearson's r of two judges' scores, group means taken out."""

    def value(found: Totals) -> float | None:
        aa, bb, ab = (found.get(prefix + name, 0.0) for name in ("aa", "bb", "ab"))
        return _r(aa, bb, ab)

    return value


def of_errors(prefix: str) -> Callable[[Totals], float | None]:
    """Pearson's r of what is left of two judges' scores once each is regressed on the label.

    One slope over all groups for each judge, and a level for each group.
    """

    def value(found: Totals) -> float | None:
        aa, bb, ab, ay, by, yy = (found.get(prefix + n, 0.0) for n in ("aa", "bb", "ab", "ay", "by", "yy"))
        if not yy:
            return None
        left_a, left_b = aa - ay * ay / yy, bb - by * by / yy
        if left_a <= _NONE * aa or left_b <= _NONE * bb:  # a judge without error
            return None
        return _r(left_a, left_b, ab - ay * by / yy)

    return value


def _r(aa: float, bb: float, ab: float) -> float | None:
    below = math.sqrt(aa) * math.sqrt(bb) if aa > 0 and bb > 0 else 0.0
    return max(-1.0, min(1.0, ab / below)) if below else None


def _centred(values: Sequence[float]) -> list[float]:
    if max(values) - min(values) < _FLAT:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(map(float.__mul__, a, b))
