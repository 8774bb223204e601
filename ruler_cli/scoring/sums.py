"""Running sums over the groups of a batch: correlation, concordance, moments, length, position bias.

Correlations are within groups: the group means are subtracted, and products are summed over groups. The
position bias is the mean centred score by position, with its errors and the correction for it; positions are
relative, from 0 (shown first) to 1 (shown last), so that groups of all sizes count together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, groupby
from math import fsum, log2, sqrt
from typing import Any

from ruler_cli.types import Length, PositionBin

_FLAT = 1e-9
"""Values of a group that differ by less are equal: such a difference is rounding and no signal."""
_NOTHING = 1e-12
"""A share of a sum of squares below this is zero but for rounding."""

Sums = Mapping[str, float]
PRODUCTS = ("aa", "ab", "ay", "bb", "by", "yy")
"""Keys of the sums of products of two columns a and b and a third column y."""


def products(**columns: Sequence[float]) -> dict[str, float]:
    """Sum the products of every two centred columns; the keys are the columns' names: `aa`, `ab`, `bb`."""
    centred: dict[str, list[float]] = {}
    for name, column in columns.items():
        mean, flat = fsum(column) / len(column), max(column) - min(column) < _FLAT
        centred[name] = [0.0 if flat else value - mean for value in column]
    return {
        one + other: fsum(map(float.__mul__, centred[one], centred[other]))
        for one, other in combinations_with_replacement(centred, 2)
    }


def correlation(sums: Sums) -> float | None:
    """Pearson's r of a and b; None if one of them is constant."""
    aa, bb = sums.get("aa", 0.0), sums.get("bb", 0.0)
    below = sqrt(aa) * sqrt(bb) if aa > 0 and bb > 0 else 0.0
    return max(-1.0, min(1.0, sums.get("ab", 0.0) / below)) if below else None


def partial_correlation(sums: Sums) -> float | None:
    """Pearson's r of the residuals of a and b, each regressed on y; None if a residual or y is constant.

    The regressions have one slope over all groups, and a level for each group.
    """
    aa, ab, ay, bb, by, yy = (sums.get(name, 0.0) for name in PRODUCTS)
    if not yy:
        return None
    left_a, left_b = aa - ay * ay / yy, bb - by * by / yy
    if left_a <= _NOTHING * aa or left_b <= _NOTHING * bb:
        return None
    return correlation({"aa": left_a, "bb": left_b, "ab": ab - ay * by / yy})


CORRELATIONS: dict[str, Callable[[Sums], float | None]] = {
    "scores": correlation,
    "errors": partial_correlation,
}
"""The correlation that each kind of `pair_products` gives."""


@dataclass(frozen=True, slots=True)
class Concordance:
    """Counts of the pairs of rollouts with different labels, by the order of their scores.

    `won`: the better rollout has the higher score; `tied`: the scores are equal. `spread` counts pairs
    with different scores, for any labels.
    """

    pairs: int
    won: int
    tied: int
    spread: int

    @property
    def lost(self) -> int:
        """Pairs in which the worse rollout has the higher score."""
        return self.pairs - self.won - self.tied

    @property
    def tau_b(self) -> float | None:
        """Kendall's τ_b; None if all labels or all scores are equal."""
        if not self.pairs or not self.spread:
            return None
        return (self.won - self.lost) / sqrt(self.pairs * self.spread)


def concordance(scores: Sequence[float], labels: Sequence[float]) -> Concordance:
    """Count the pairs by the sorted scores of the rollouts with lower labels, in O(n log n)."""
    lower: list[float] = []
    pairs = won = tied = 0
    for _, same in groupby(
        sorted(zip(labels, scores, strict=True)), key=lambda item: item[0]
    ):
        level = [score for _, score in same]
        for score in level:
            below, upto = bisect_left(lower, score), bisect_right(lower, score)
            won += below
            tied += upto - below
        pairs += len(level) * len(lower)
        for score in level:
            insort(lower, score)
    equal = sum(n * (n - 1) // 2 for n in Counter(scores).values())
    return Concordance(pairs, won, tied, len(scores) * (len(scores) - 1) // 2 - equal)


@dataclass(slots=True)
class Moments:
    """Number of values, their mean and the sum of squares about it (Welford 1962)."""

    number: int = 0
    mean: float = 0.0
    square: float = 0.0

    def add(self, values: Iterable[float]) -> None:
        """Add values."""
        for value in values:
            self.number += 1
            off = value - self.mean
            self.mean += off / self.number
            self.square += off * (value - self.mean)

    def __add__(self, other: Moments) -> Moments:
        """Combine the moments of two samples (Chan, Golub & LeVeque 1983)."""
        number = self.number + other.number
        if not number:
            return Moments()
        off = other.mean - self.mean
        mean = self.mean + off * other.number / number
        between = off * off * self.number * other.number / number
        return Moments(number, mean, self.square + other.square + between)

    @property
    def deviation(self) -> float:
        """The standard deviation; 0 for fewer than two values."""
        return sqrt(self.square / (self.number - 1)) if self.number > 1 else 0.0


@dataclass(slots=True)
class RatioSums:
    """Sums over groups of an x and a y, and of their products, for the ratio Σy / Σx and its error.

    The error is that of whole groups: scores of one group are not independent, groups are (Cochran 1977, on
    clusters of unequal sizes).
    """

    groups: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    def add(self, x: float, y: float) -> None:
        """Add one group."""
        self.groups += 1
        self.x += x
        self.y += y
        self.xx += x * x
        self.xy += x * y
        self.yy += y * y

    @property
    def ratio(self) -> float:
        """The slope of a line through the origin, or a weighted mean."""
        return self.y / self.x

    @property
    def square(self) -> float:
        """The sum of squares about the ratio."""
        ratio = self.ratio
        return max(0.0, self.yy - 2 * ratio * self.xy + ratio * ratio * self.xx)


class LengthSums:
    """Regression of scores on the logarithm of their rollouts' bytes, within groups."""

    def __init__(self) -> None:
        self._slope, self._yy = RatioSums(), 0.0

    def add(self, sizes: Sequence[int], scores: Sequence[float]) -> None:
        """Add the distinct rollouts of one group: their sizes in bytes and their scores, aligned."""
        own = products(a=[log2(max(size, 1)) for size in sizes], b=scores)
        if own["aa"] > 0:
            self._slope.add(own["aa"], own["ab"])
            self._yy += own["bb"]

    def trend(self) -> Length | None:
        """The regression over the batch; None for fewer than two groups whose rollouts differ in length."""
        sums = self._slope
        if sums.groups < 2:
            return None
        error = sqrt(sums.square * sums.groups / (sums.groups - 1)) / sums.x
        below = sqrt(sums.x * self._yy)
        r = max(-1.0, min(1.0, sums.y / below)) if below else 0.0
        return Length(sums.ratio, error, r, sums.groups)


_LARGEST = 1e50
"""Labels beyond this are ignored: products of several must stay finite."""


def pair_products(
    rows: Sequence[tuple[float, float, float | None]],
) -> dict[str, dict[str, float]]:
    """Sum the products of two judges' `scores` in one group, and those for their `errors` against the labels.

    A row has the two scores of a rollout, and its label or reward. `n` counts the rows of each kind. A kind
    is left out with fewer than two.
    """
    labelled = [row for row in rows if row[2] is not None and abs(row[2]) <= _LARGEST]
    found = {}
    for kind, columns, chosen in (("scores", "ab", rows), ("errors", "aby", labelled)):
        if len(chosen) > 1:
            by_name: Any = dict(zip(columns, zip(*chosen, strict=True), strict=False))
            found[kind] = {"n": len(chosen), **products(**by_name)}
    return found


def quantile(lengths: Counter[int], share: float) -> int:
    """The length at or below which a share of all rollouts is; 0 if there are none."""
    left = share * lengths.total()
    for length, count in sorted(lengths.items()):
        left -= count
        if left <= 0:
            return length
    return 0


_INNER = 6
"""Equal bins between the first position and the last, so that each position of a group of 8 has its own."""
_BINS = _INNER + 2

ENOUGH_GROUPS = 20
"""Groups below which the means are mostly the noise of the rollouts themselves."""


def _square_error(sums: RatioSums) -> float:
    """The squared standard error of a bin's mean, from at least two groups."""
    return sums.square / sums.x**2 * sums.groups / (sums.groups - 1)


@lru_cache(maxsize=64)
def _bins_of(size: int) -> tuple[int, ...]:
    """The bin of each position in a request of `size` rollouts, at least 2.

    The first position has the first bin, the last position the last, and the others share the inner ones.
    """
    inner = [
        1 + (2 * position - 1) * _INNER // (2 * (size - 2))
        for position in range(1, size - 1)
    ]
    return (0, *inner, _BINS - 1)


class PositionBias:
    """Mean centred score by relative position over a batch, as running sums.

    It is a bias only if orders are random: then the rollouts behind a position are alike on average.
    `groups` counts the groups with something to compare.
    """

    def __init__(self) -> None:
        # x is the number of a group's scores in the bin, y their sum less that of the means
        self._bins = [RatioSums() for _ in range(_BINS)]
        self.groups = 0

    def add(self, *requests: Sequence[float]) -> None:
        """Count one group: for each request its scores in the order shown.

        Requests of one rollout are ignored; a group without any other does not count.
        """
        sums, counts = [0.0] * _BINS, [0] * _BINS
        for scores in requests:
            size = len(scores)
            if size < 2:
                continue
            mean = fsum(scores) / size
            for number, score in zip(_bins_of(size), scores, strict=True):
                sums[number] += score - mean
                counts[number] += 1
        self.groups += any(counts)
        for bin_, total, count in zip(self._bins, sums, counts, strict=True):
            if count:
                bin_.add(count, total)

    @property
    def enough(self) -> bool:
        """Tell if there are enough groups to correct for the bias."""
        return self.groups >= ENOUGH_GROUPS

    def bins(self) -> tuple[PositionBin, ...]:
        """The bins with any score, from the first position to the last."""
        edges = [0.0, *(i / _INNER for i in range(_INNER + 1)), 1.0]
        return tuple(
            PositionBin(
                edges[i],
                edges[i + 1],
                bin_.ratio,
                sqrt(_square_error(bin_)) if bin_.groups > 1 else None,
                round(bin_.x),
            )
            for i, bin_ in enumerate(self._bins)
            if bin_.groups
        )

    def corrections(self, size: int) -> tuple[float, ...]:
        """Amounts to subtract from the scores of a request of `size` rollouts, by position; they sum to 0.

        Each bin's mean times τ²/(τ² + se²) (empirical Bayes, Efron & Morris 1975), with τ² the variance of
        the bins' means beyond what their errors explain: means that are all noise correct nothing. Zeros
        if there are not enough groups.
        """
        if not self.enough or size < 2:
            return (0.0,) * size
        used = [b for b in self._bins if b.groups > 1]
        weight = fsum(b.x for b in used)
        mean = fsum(b.y for b in used) / weight
        square = fsum(b.x * (b.ratio - mean) ** 2 for b in used) / weight
        errors = fsum(b.x * _square_error(b) for b in used) / weight
        true = max(0.0, square * len(used) / (len(used) - 1) - errors)
        # the means of all bins drawn towards 0; 0 for a bin with fewer than two groups
        shrunk = [
            b.ratio * true / (true + _square_error(b))
            if true > 0 and b.groups > 1
            else 0.0
            for b in self._bins
        ]
        amounts = [shrunk[number] for number in _bins_of(size)]
        middle = fsum(amounts) / size
        return tuple(amount - middle for amount in amounts)
