"""Running sums over the groups of a batch: correlations, pairs in order, length, the slot curve, quantiles.

Correlations are within groups: group means are taken out, and products are summed over groups.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, groupby
from math import fsum, log2, sqrt

from ruler_cli.observer import Length, PositionBin

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


_ENOUGH = 30
"""Rewarded rollouts below which a correlation of errors is not told: its own error is then about 0.2."""
_LARGEST = 1e50
"""Beyond it a reward is no scale: products of several must stay finite."""


@dataclass(slots=True)
class Moments:
    """Number, mean and sum of squares about it (Welford 1962)."""

    number: int = 0
    mean: float = 0.0
    square: float = 0.0

    def add(self, values: Iterable[float]) -> None:
        """Count values."""
        for value in values:
            self.number += 1
            off = value - self.mean
            self.mean += off / self.number
            self.square += off * (value - self.mean)

    def __add__(self, other: Moments) -> Moments:
        """Of both together (Chan, Golub & LeVeque 1983)."""
        number = self.number + other.number
        if not number:
            return Moments()
        off = other.mean - self.mean
        mean = self.mean + off * other.number / number
        between = off * off * self.number * other.number / number
        return Moments(number, mean, self.square + other.square + between)

    @property
    def deviation(self) -> float:
        """The standard deviation; 0 below two values."""
        return sqrt(self.square / (self.number - 1)) if self.number > 1 else 0.0


class LengthSums:
    """Regression of scores on the logarithm of their rollouts' bytes, within groups."""

    def __init__(self) -> None:
        self._groups = 0
        self._xx = self._xy = self._yy = 0.0
        # of a group's own sums: the slope's error takes groups, not rollouts, for independent
        self._xy2 = self._xyxx = self._xx2 = 0.0

    def add(self, sizes: Sequence[int], scores: Sequence[float]) -> None:
        """Count the distinct rollouts of one group."""
        found = products(a=[log2(max(size, 1)) for size in sizes], b=scores)
        xx, xy = found["aa"], found["ab"]
        if xx <= 0:
            return
        self._groups += 1
        self._xx, self._xy, self._yy = self._xx + xx, self._xy + xy, self._yy + found["bb"]
        self._xy2 += xy * xy
        self._xyxx += xy * xx
        self._xx2 += xx * xx

    def found(self) -> Length | None:
        """What the batch shows; None below two groups whose rollouts differ in length."""
        if self._groups < 2:
            return None
        slope = self._xy / self._xx
        square = max(0.0, self._xy2 - 2 * slope * self._xyxx + slope * slope * self._xx2)
        error = sqrt(square * self._groups / (self._groups - 1)) / self._xx
        below = sqrt(self._xx * self._yy)
        r = max(-1.0, min(1.0, self._xy / below)) if below else 0.0
        return Length(slope, error, r, self._groups)


class PairSums:
    """Two judges' scores and the original reward, all centred within groups."""

    def __init__(self) -> None:
        self.rollouts = self.rewarded = 0
        self._all: Counter[str] = Counter()
        self._of_rewarded: Counter[str] = Counter()

    def add(self, one: Sequence[float], other: Sequence[float], rewards: Sequence[float | None]) -> None:
        """Count the distinct rollouts of one group that both scored.

        In groups of at least two; `rewarded` counts those that have an original reward that is a number.
        """
        if len(one) < 2:
            return
        self.rollouts += len(one)
        self._all.update(products(a=one, b=other))
        rows = zip(one, other, rewards, strict=True)
        known = [(p, q, r) for p, q, r in rows if r is not None and abs(r) <= _LARGEST]
        if len(known) > 1:
            self.rewarded += len(known)
            a, b, y = zip(*known, strict=True)
            self._of_rewarded.update(products(a=a, b=b, y=y))

    def correlation(self) -> float | None:
        """Of the scores within groups; None where a judge tells nothing apart."""
        return correlation(self._all)

    def errors(self) -> float | None:
        """Of what regression on the reward leaves of both; None where too little is known."""
        return partial_correlation(self._of_rewarded) if self.rewarded >= _ENOUGH else None


_BITS = 7
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
    less = max(0, size.bit_length() - _BITS - 1)
    return size >> less << less


_STRETCHES = 6
"""Equal stretches between the first slot and the last, so that each slot of a group of 8 has its own bin."""

_BINS = _STRETCHES + 2

ENOUGH = 20
"""Groups below which a curve is mostly the noise of the rollouts themselves."""


@dataclass(slots=True)
class _BinSums:
    """Of one bin: a group's mean in it counts by its weight, the number of its scores in the bin."""

    groups: int = 0
    w: float = 0.0
    wm: float = 0.0
    ww: float = 0.0
    wwm: float = 0.0
    wwmm: float = 0.0

    def add(self, weight: int, mean: float) -> None:
        self.groups += 1
        self.w += weight
        self.wm += weight * mean
        self.ww += weight**2
        self.wwm += weight**2 * mean
        self.wwmm += weight**2 * mean**2

    @property
    def mean(self) -> float:
        return self.wm / self.w

    @property
    def square_error(self) -> float:
        """The squared standard error of the mean: the ratio estimator's, by whole groups.

        Scores of one group are not independent, groups are (Cochran 1977, on clusters of unequal sizes).
        """
        mean, g = self.mean, self.groups
        square = self.wwmm - 2 * mean * self.wwm + mean**2 * self.ww
        return max(0.0, square) / self.w**2 * g / (g - 1)


def _stretch_of(slot: int, size: int) -> int:
    """The first slot is bin 0, the last the last; a slot between stands for the stretch around it."""
    if slot == 0:
        return 0
    if slot == size - 1:
        return _BINS - 1
    return 1 + (2 * slot - 1) * _STRETCHES // (2 * (size - 2))


def middle(slot: int, size: int) -> float:
    """Where in its bin's stretch a slot of a request of `size` stands: 0 the first, 1 the last."""
    if slot in (0, size - 1):
        return float(slot > 0)
    return (2 * slot - 1) / (2 * (size - 2))


class SlotCurve:
    """Mean centred score by relative slot over a batch, as running sums (rule 6).

    It means something only where orders were random: then the rollouts behind a slot are alike on average.
    """

    def __init__(self) -> None:
        self._bins = [_BinSums() for _ in range(_BINS)]
        self.groups = 0

    def add(self, *requests: Sequence[float]) -> None:
        """Count one group: for each request that showed its rollouts the scores by slot.

        A request of one rollout says nothing and is ignored, a group without any other does not count.
        """
        sums, counts = [0.0] * _BINS, [0] * _BINS
        for scores in requests:
            size = len(scores)
            if size < 2:
                continue
            mean = fsum(scores) / size
            for slot, score in enumerate(scores):
                place = _stretch_of(slot, size)
                sums[place] += score - mean
                counts[place] += 1
        self.groups += any(counts)
        for bin_, total, count in zip(self._bins, sums, counts, strict=True):
            if count:
                bin_.add(count, total / count)

    @property
    def enough(self) -> bool:
        """Whether there are groups enough to correct by the curve."""
        return self.groups >= ENOUGH

    def curve(self) -> tuple[PositionBin, ...]:
        """The bins that any score fell into, from the first slot to the last."""
        edges = [0.0, *(i / _STRETCHES for i in range(_STRETCHES + 1)), 1.0]
        return tuple(
            PositionBin(
                edges[i],
                edges[i + 1],
                bin_.mean,
                sqrt(bin_.square_error) if bin_.groups > 1 else None,
                round(bin_.w),
            )
            for i, bin_ in enumerate(self._bins)
            if bin_.groups
        )

    def corrections(self, size: int) -> tuple[float, ...]:
        """What to subtract from the scores of a request of `size` rollouts, by slot; they sum to zero.

        Each bin's mean times τ²/(τ² + se²) (empirical Bayes, Efron & Morris 1975), τ² the variance of the
        bins' means beyond what their errors explain: a curve that is all noise corrects nothing. Zeros
        where there are not enough groups.
        """
        if not self.enough or size < 2:
            return (0.0,) * size
        shrunk = self._shrunk()
        found = [shrunk[_stretch_of(slot, size)] for slot in range(size)]
        mean = fsum(found) / size
        return tuple(value - mean for value in found)

    def _shrunk(self) -> list[float]:
        used = [b for b in self._bins if b.groups > 1]
        weight = fsum(b.w for b in used)
        mean = fsum(b.wm for b in used) / weight
        spread = fsum(b.w * (b.mean - mean) ** 2 for b in used) / weight * len(used) / (len(used) - 1)
        true = max(0.0, spread - fsum(b.w * b.square_error for b in used) / weight)
        if true <= 0:
            return [0.0] * _BINS
        return [b.mean * true / (true + b.square_error) if b.groups > 1 else 0.0 for b in self._bins]
