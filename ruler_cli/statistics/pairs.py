"""Two columns of numbers over the rollouts of a group: correlation, and pairs in the same order.

Correlations are within groups: group means are taken out, and products are summed over groups.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, groupby

_FLAT = 1e-9
"""Values of a group that differ by less are the same: what rounding leaves of them is no signal."""
_NOTHING = 1e-12
"""A share of a sum of squares below this is what rounding leaves of zero."""
_FEW = 64
"""Scores that are put into their places one by one."""

Sums = Mapping[str, float]
PRODUCTS = ("aa", "ab", "ay", "bb", "by", "yy")
"""Names of the sums of products of two columns a and b and a third, y."""


def products(**columns: Sequence[float]) -> dict[str, float]:
    """Sums of products of every two columns less their means, by the columns' names: `aa`, `ab`, `bb`."""
    less_mean = {name: _centred(column) for name, column in columns.items()}
    return {
        one + other: math.fsum(map(float.__mul__, less_mean[one], less_mean[other]))
        for one, other in combinations_with_replacement(less_mean, 2)
    }


def correlation(sums: Sums) -> float | None:
    """Pearson's r of a and b; None if one of them tells nothing apart."""
    aa, bb = sums.get("aa", 0.0), sums.get("bb", 0.0)
    below = math.sqrt(aa) * math.sqrt(bb) if aa > 0 and bb > 0 else 0.0
    return max(-1.0, min(1.0, sums.get("ab", 0.0) / below)) if below else None


def partial_correlation(sums: Sums) -> float | None:
    """Pearson's r of what is left of a and b once each is regressed on y; None if nothing is left.

    One slope over all groups for each of the two, and a level for each group.
    """
    aa, ab, ay, bb, by, yy = (sums.get(name, 0.0) for name in PRODUCTS)
    if not yy:
        return None
    left_a, left_b = aa - ay * ay / yy, bb - by * by / yy
    if left_a <= _NOTHING * aa or left_b <= _NOTHING * bb:  # a judge without error
        return None
    return correlation({"aa": left_a, "bb": left_b, "ab": ab - ay * by / yy})


def _centred(values: Sequence[float]) -> list[float]:
    if max(values) - min(values) < _FLAT:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


@dataclass(frozen=True, slots=True)
class Concordance:
    """Pairs of rollouts with different labels: how often the better one has the higher score.

    `spread` counts pairs with different scores, whatever their labels.
    """

    pairs: int
    won: int
    tied: int
    spread: int

    @property
    def lost(self) -> int:
        """Pairs in which the worse one has the higher score."""
        return self.pairs - self.won - self.tied

    @property
    def tau_b(self) -> float | None:
        """Kendall's τ_b; None where all labels or all scores are equal."""
        if not self.pairs or not self.spread:
            return None
        return (self.won - self.lost) / math.sqrt(self.pairs * self.spread)


def concordance(scores: Sequence[float], labels: Sequence[float]) -> Concordance:
    """Count pairs, in far less time than it takes to look at each."""
    lower: list[float] = []  # scores of what has a lower label than the rollouts that are looked at
    pairs = won = tied = 0
    for _, same in groupby(sorted(zip(labels, scores, strict=True)), key=lambda item: item[0]):
        found = [score for _, score in same]
        for score in found:
            below, upto = bisect_left(lower, score), bisect_right(lower, score)
            won += below
            tied += upto - below
        pairs += len(found) * len(lower)
        if len(found) < _FEW:  # where labels are many, sorting all anew for each takes minutes
            for score in found:
                insort(lower, score)
        else:
            lower = sorted(lower + found)
    equal = sum(n * (n - 1) // 2 for n in Counter(scores).values())
    return Concordance(pairs, won, tied, len(scores) * (len(scores) - 1) // 2 - equal)
