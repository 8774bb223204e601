"""Numbers in, numbers out: sums over the groups of a batch, and the reliability of the mean of passes.

Correlations are within groups: the group means are subtracted, and products are summed over groups. The
position bias is the mean centred score by position, with its errors and the correction for it; positions are
relative, from 0 (shown first) to 1 (shown last), so that groups of all sizes count together.

Reliability is that of an analysis of variance. Scores are in [0, 1], variances in their square. Every value is
a closed form of sums.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from math import ceil, erfc, fsum, inf, log2, sqrt
from operator import itemgetter, mul
from typing import Self

from ruler_cli.types import Length, PositionBin, value

_FLAT = 1e-9
"""Values of a group that differ by less are equal: such a difference is rounding and no signal."""

Sums = Mapping[str, float]
"""The products of two centred columns a and b, `aa`, `ab` and `bb`, and the number `n` of their rows."""


def products(rows: Iterable[Sequence[float]]) -> dict[str, float]:
    """Sum the products of two columns in one group; empty for fewer than two rows."""
    centred = []
    for column in zip(*rows, strict=True):
        if len(column) < 2:
            return {}
        mean = fsum(column) / len(column)
        flat = max(column) - min(column) < _FLAT
        centred.append([0.0 if flat else value - mean for value in column])
    if not centred:
        return {}
    a, b = centred
    pairs = {"aa": (a, a), "ab": (a, b), "bb": (b, b)}
    sums = {name: fsum(map(mul, *pair)) for name, pair in pairs.items()}
    return {"n": len(a), **sums}


def correlation(sums: Sums) -> float | None:
    """Pearson's r of a and b; None if one of them is constant."""
    below = sqrt(sums.get("aa", 0.0)) * sqrt(sums.get("bb", 0.0))
    if below:
        return max(-1.0, min(1.0, sums.get("ab", 0.0) / below))
    return None


TIED = 0.5
"""The result of a pair with equal scores."""


def won(score: float, than: float) -> float:
    """Return 1 if a score is higher than another, 0.5 if they are equal, 0 if it is lower."""
    return TIED if score == than else float(score > than)


@dataclass(slots=True)
class Concordance:
    """Counts of the pairs of rollouts with different labels, by the order of their scores.

    `won`: the better rollout has the higher score; `tied`: the scores are equal.
    """

    pairs: float = 0
    won: float = 0
    tied: float = 0

    def add(
        self,
        result: float,
        share: float,
    ) -> None:
        """Count a `share` of a pair with the `result` of its better rollout: see `won`."""
        self.pairs += share
        self.won += share * (result == 1)
        self.tied += share * (result == TIED)

    def __add__(self, further: Concordance) -> Concordance:
        """Count the pairs of both."""
        return Concordance(
            self.pairs + further.pairs,
            self.won + further.won,
            self.tied + further.tied,
        )

    @property
    def lost(self) -> float:
        """Pairs in which the worse rollout has the higher score."""
        return self.pairs - self.won - self.tied

    @property
    def against(self) -> float:
        """Pairs that scores put in another order than labels, a tied one as a half."""
        return self.lost + self.tied / 2

    @property
    def agreement(self) -> float | None:
        """The share of pairs in the order of their labels, a tied one as a half; None without pairs."""
        return 1 - self.against / self.pairs if self.pairs else None


def concordance(rows: Iterable[Sequence[float]]) -> Concordance:
    """Count pairs of rollouts, a row each with its score and its label, in O(n log n).

    Each score is compared with the sorted scores of the rollouts with lower labels.
    """
    lower: list[float] = []
    pairs = won = tied = 0
    by_label = sorted(rows, key=itemgetter(1))
    for _, same in groupby(by_label, key=itemgetter(1)):
        level = [score for score, _ in same]
        for score in level:
            below = bisect_left(lower, score)
            won += below
            tied += bisect_right(lower, score) - below
        pairs += len(level) * len(lower)
        for score in level:
            insort(lower, score)
    return Concordance(
        pairs,
        won,
        tied,
    )


@dataclass(slots=True)
class Moments:
    """Number of values, their mean and the sum of squares about it (Welford 1962)."""

    number: int = 0
    mean: float = 0.0
    square: float = 0.0

    def add(self, values: Iterable[float]) -> Self:
        """Add values."""
        for amount in values:
            self.number += 1
            off = amount - self.mean
            self.mean += off / self.number
            self.square += off * (amount - self.mean)
        return self

    def __add__(self, further: Moments) -> Moments:
        """Combine the moments of two samples (Chan, Golub & LeVeque 1983)."""
        number = self.number + further.number
        if not number:
            return Moments()
        off = further.mean - self.mean
        mean = self.mean + off * further.number / number
        between = off * off * self.number * further.number / number
        square = self.square + further.square + between
        return Moments(
            number,
            mean,
            square,
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the population that the values are a sample of; 0 for fewer than two."""
        if self.number > 1:
            return sqrt(self.square / (self.number - 1))
        return 0.0

    @property
    def spread(self) -> float:
        """The standard deviation of the values themselves, by which GRPO divides: exactly 0 for equal ones."""
        return sqrt(self.square / self.number)


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

    def add(
        self,
        x: float,
        y: float,
    ) -> None:
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
    def error(self) -> float:
        """The standard error of the ratio, from at least two groups."""
        ratio = self.ratio
        square = self.yy - 2 * ratio * self.xy + ratio * ratio * self.xx
        variance = max(0.0, square) * self.groups / (self.groups - 1)
        return sqrt(variance) / self.x


class LengthSums:
    """Regression of scores on the logarithm of their rollouts' bytes, within groups."""

    def __init__(self) -> None:
        self._slope = RatioSums()
        self._yy = 0.0

    def add(self, rows: Iterable[tuple[int, float]]) -> None:
        """Add one group: a row for each distinct rollout, with its size in bytes and its score."""
        sums = products([(log2(max(size, 1)), score) for size, score in rows])
        if sums and sums["aa"] > 0:
            self._slope.add(sums["aa"], sums["ab"])
            self._yy += sums["bb"]

    def trend(self) -> Length | None:
        """The regression over the batch; None for fewer than two groups whose rollouts differ in length."""
        sums = self._slope
        if sums.groups < 2:
            return None
        below = sqrt(sums.x * self._yy)
        r = max(-1.0, min(1.0, sums.y / below)) if below else 0.0
        return Length(
            sums.ratio,
            sums.error,
            r,
            sums.groups,
        )


def quantile(values: Iterable[float], share: float) -> float | None:
    """Return the least value that is at or above this share of all; None without values."""
    ordered = sorted(values)
    if ordered:
        return ordered[max(1, ceil(share * len(ordered))) - 1]
    return None


_INNER = 6
"""Equal bins between the first position and the last, so that each position of a group of 8 has its own."""
_BINS = _INNER + 2

ENOUGH_GROUPS = 20
"""Groups below which the means are mostly the noise of the rollouts themselves."""


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
        sums = [0.0] * _BINS
        counts = [0] * _BINS
        for scores in requests:
            size = len(scores)
            if size < 2:
                continue
            mean = fsum(scores) / size
            for number, score in zip(
                _bins_of(size),
                scores,
                strict=True,
            ):
                sums[number] += score - mean
                counts[number] += 1
        self.groups += any(counts)
        for number, count in enumerate(counts):
            if count:
                self._bins[number].add(count, sums[number])

    @property
    def enough(self) -> bool:
        """Return whether there are enough groups to correct for the bias."""
        return self.groups >= ENOUGH_GROUPS

    def bins(self) -> tuple[PositionBin, ...]:
        """The bins with any score, from the first position to the last."""
        edges = [0.0, *(i / _INNER for i in range(_INNER + 1)), 1.0]
        bins = []
        for sums, (start, stop) in zip(
            self._bins, pairwise(edges), strict=True
        ):
            if sums.groups:
                error = sums.error if sums.groups > 1 else None
                mean, number = sums.ratio, round(sums.x)
                bins.append(
                    PositionBin(
                        start,
                        stop,
                        mean,
                        error,
                        number,
                    )
                )
        return tuple(bins)

    def corrections(self, size: int) -> tuple[float, ...]:
        """Amounts to subtract from the scores of a request of `size` rollouts, by position; they sum to 0.

        Each bin's mean times τ²/(τ² + se²) (empirical Bayes, Efron & Morris 1975), with τ² the variance of
        the bins' means beyond what their errors explain: means that are all noise correct nothing. Zeros
        if there are not enough groups.
        """
        if not self.enough or size < 2:
            return (0.0,) * size
        used = [sums for sums in self._bins if sums.groups > 1]
        weight = fsum([sums.x for sums in used])
        mean = fsum([sums.y for sums in used]) / weight
        square = (
            fsum([sums.x * (sums.ratio - mean) ** 2 for sums in used]) / weight
        )
        errors = fsum([sums.x * sums.error**2 for sums in used]) / weight
        variance = square * len(used) / (len(used) - 1)
        true = max(0.0, variance - errors)
        # the means of all bins drawn towards 0; 0 for a bin with fewer than two groups
        shrunk = [0.0] * _BINS
        for number, sums in enumerate(self._bins):
            if true and sums.groups > 1:
                shrunk[number] = sums.ratio * true / (true + sums.error**2)
        amounts = [shrunk[number] for number in _bins_of(size)]
        middle = fsum(amounts) / size
        return tuple([amount - middle for amount in amounts])


ROUNDING = 0.05**2 / 12
"""The variance of rounding to a grid of .05: errors are uniform over a step."""
_ZERO = 1e-18
"""Mean squares below this are the rounding of binary fractions, not noise."""
_SAME = 5e-10
"""Scores that differ by less are equal: passes were added in another order, or rounded to nine decimals."""
_ALPHA = 0.05
OWN_NOISE = 4
"""Passes from which a group's own noise is used, and not the batch's."""
TARGET = 0.9
"""The reliability that is enough."""
_MOST_PASSES = 1_000_000
"""Passes beyond which no number of passes is reported."""


@value
class Anova:
    """The two-way analysis of variance of a table rollout × pass, without interaction.

    `between` is the sum of squares between rollouts, adjusted for passes, `rest` that of the residuals;
    `df_item` and `df_res` are their degrees of freedom. Each rollout was scored `k` times, on average if
    the table has holes.
    """

    between: float = 0.0
    df_item: int = 0
    rest: float = 0.0
    df_res: int = 0
    k: float = 0.0

    def __add__(self, further: Anova) -> Anova:
        """Pool the analyses of two groups."""
        return Anova(
            self.between + further.between,
            self.df_item + further.df_item,
            self.rest + further.rest,
            self.df_res + further.df_res,
            further.k,
        )

    @classmethod
    def of(cls, columns: Sequence[Sequence[float]]) -> Anova:
        """Analyse a complete table: `columns[j][i]` is the score of rollout i in pass j.

        The model is that of ICC case 3 (Shrout & Fleiss 1979) and C (McGraw & Wong 1996): one pass may be
        stricter than another as a whole, which is subtracted.
        """
        k = len(columns)
        n = len(columns[0])
        items = [fsum(row) / k for row in zip(*columns, strict=True)]
        passes = [fsum(column) / n for column in columns]
        grand = fsum(passes) / k
        between = k * fsum((item - grand) ** 2 for item in items)
        squares = [
            (y - item - mean + grand) ** 2
            for column, mean in zip(columns, passes, strict=True)
            for y, item in zip(column, items, strict=True)
        ]
        return cls(
            between,
            n - 1,
            fsum(squares),
            (n - 1) * (k - 1),
            k,
        )

    @property
    def ms_item(self) -> float:
        """The mean square between rollouts."""
        return _mean_square(self.between, self.df_item)

    @property
    def ms_res(self) -> float:
        """The mean square of the residuals; 0 without any meaning if they have no degrees of freedom."""
        return _mean_square(self.rest, self.df_res)


def _mean_square(square: float, df: int) -> float:
    mean = square / df if df > 0 else 0.0
    return mean if mean > _ZERO else 0.0


@dataclass(slots=True)
class Noise:
    """The noise variance of one score, pooled over a batch on `df` degrees of freedom; 0 of them: there is no estimate.

    That of a group is at least the variance of rounding: judges answer on a grid of .05, so passes often agree
    exactly, and then differ by less than the grid.
    """

    df: float = 0.0
    squares: float = 0.0

    def add(
        self,
        ms_res: float,
        df: float,
        rounding: float,
    ) -> None:
        """Add one group's residual mean square; `rounding` is the variance of the rounding of its scores."""
        self.df += df
        self.squares += df * max(ms_res, rounding)

    @property
    def variance(self) -> float:
        """The estimate from the groups so far."""
        return self.squares / self.df if self.df else 0.0


def rate(anova: Anova, noise: Noise) -> tuple[float, bool] | None:
    """Return the reliability in [0, 1] of the mean of a group's passes, and whether its rollouts are tied.

    None if there is no estimate of the noise s²: the group's own from four passes on, else the batch's. The
    reliability is ICC(C,k) = max(0, 1 − s²/MS_item) (McGraw & Wong 1996, case 3 of Shrout & Fleiss 1979). Rollouts
    are tied unless the F test rejects at 5 % that MS_item is noise. Without any noise they are tied only if they do
    not differ.
    """
    variance = anova.ms_res
    df: float = anova.df_res
    if anova.k < OWN_NOISE and noise.df > df:
        variance = noise.variance
        df = noise.df
    if df <= 0:
        return None
    if anova.ms_item <= 0:
        return 0.0, True
    reliability = max(0.0, 1 - variance / anova.ms_item)
    if variance <= 0:
        return reliability, False
    p = f_survival(
        anova.ms_item / variance,
        anova.df_item,
        df,
    )
    return reliability, p > _ALPHA


def one_score(scores: Iterable[float | None]) -> bool:
    """Return whether there are scores, and all of them are equal."""
    numbers = [score for score in scores if score is not None]
    return bool(numbers) and max(numbers) - min(numbers) < _SAME


def passes_for(icc_k: float, k: float) -> int | None:
    """The number of passes, at least 1, that raise the reliability `icc_k` of k passes to 0.9.

    Spearman–Brown: m = k · .9 (1 − icc)/(icc (1 − .9)). None if no number of passes does, or none below a
    million.
    """
    if icc_k >= 1:
        return 1
    odds = TARGET / (1 - TARGET)
    passes = k * odds * ((1 - icc_k) / icc_k) if icc_k > 0 else inf
    if passes > _MOST_PASSES:
        return None
    # k passes exactly at the target need k, despite an error in the last binary digit
    return max(1, ceil(passes * (1 - 1e-12)))


def f_survival(
    f: float,
    d1: float,
    d2: float,
) -> float:
    """Return the probability that an F variable with d1 and d2 degrees of freedom exceeds f.

    The cube root of χ² is nearly normal (Wilson & Hilferty 1931), with Kelley's correction for few degrees of
    freedom: right to 0.003 about the 5 % that a test needs.
    """
    if f <= 0:
        return 1.0
    root = f ** (1 / 3)
    above = 2 / (9 * d1)
    below = 2 / (9 * d2)
    deviation = root * (1 - below) - (1 - above)
    z = deviation / sqrt(below * root**2 + above)
    if d2 <= _FEW:
        z *= 1 + 0.08 * z**4 / d2**3
    return erfc(z / sqrt(2)) / 2


_FEW = 3
"""Degrees of freedom of the noise up to which the correction is needed."""
