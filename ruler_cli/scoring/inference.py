"""Few labels → intervals that hold, and means that the scores of all correct.

A share has the score interval of Wilson 1927: all p with (share − p)² ≤ t² p (1 − p) / n. Labels of one group
are not independent, so n is the effective number of labels (Kish 1965; for intervals Korn & Graubard 1998): the
number of independent labels that would give the measured variance. t is Student's, for the number of groups.
Wald's interval, share ± t · error, holds too rarely near 0 and 1, and so do the percentiles of a bootstrap:
the share and its error vary together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp, fsum, inf, lgamma, log, log1p, sqrt
from typing import Any, NamedTuple

from ruler_cli.scoring.statistics import RatioSums

FEWEST = 5
"""Groups below which there is no interval: so few groups tell too little of their variance."""
_OUTSIDE = 0.05
"""The share of intervals that may miss the truth."""
_NOTHING = 1e-18
"""A sum of squares of scores below this is rounding: all that is scored has a label."""
_Bounds = tuple[float, float]
MEASURED = ("value", "low", "high", "groups")
Measured = dict[str, Any]
"""The `value` of a statistic over so many `groups`, and the ends of its 95 % interval, `low` and `high`.

None: it is not defined, or there are too few groups for an interval.
"""


@lru_cache(maxsize=1024)
def t_quantile(df: float) -> float:
    """The t beyond which, on either side, 5 % of Student's distribution lie, for df ≥ 1."""
    low = 0.0
    high = 13.0
    for _ in range(50):
        middle = (low + high) / 2
        if _f_survival(middle * middle, 1, df) > _OUTSIDE:
            low = middle
        else:
            high = middle
    return high


def score_interval(
    share: float, variance: float, alike: float, df: float
) -> tuple[float, float]:
    """The ends of the 95 % score interval of a share from 0 to 1 with so large a squared error.

    `alike` is the effective number of labels if all of them are alike, so that they have no variance.
    """
    within = share * (1 - share)
    labels = within / variance if variance > 0 and within > 0 else alike
    square = t_quantile(df) ** 2
    middle = (share + square / 2 / labels) / (1 + square / labels)
    half = sqrt(square * (within + square / 4 / labels) / labels)
    half /= 1 + square / labels
    return max(0.0, middle - half), min(1.0, middle + half)


def bounded_interval(
    value: float, variance: float, bounds: _Bounds, groups: int, df: int
) -> tuple[float, float]:
    """The score interval of a value that lies between bounds, as a share of their range."""
    least, most = bounds
    width = most - least
    share = min(1.0, max(0.0, (value - least) / width))
    low, high = score_interval(share, variance / width / width, groups, df)
    return least + width * low, least + width * high


class _LabelledGroup(NamedTuple):
    """The number and the sum of the scores of a group; the weights of its labels, and weighted sums."""

    number: float
    scores: float
    weight: float
    labelled_scores: float
    labels: float


class CorrectedMean:
    """The mean label of all, from the scores of all and the labels of some that were drawn at random.

    Prediction-powered inference (Angelopoulos et al. 2023, arXiv 2301.09633) in the form of PPI++ (arXiv
    2311.01453): mean label + λ (mean score of all − mean score of the labelled). It is unbiased however bad
    the scores are, and λ is the one of the least variance, so that useless scores are left out. Groups are
    sampled, so an error is that of sums over groups, and λ minimises this one; a group without labels knows
    only its scores. What is labelled belongs to all.
    """

    def __init__(self) -> None:
        self._rest = RatioSums()
        self._groups: list[_LabelledGroup] = []
        self.labels = 0
        self._square_weights = 0.0
        self._bounds = (0.0, 1.0)

    @property
    def number(self) -> float:
        """The number of scores so far."""
        return self._rest.x + fsum(one.number for one in self._groups)

    def add(
        self, number: float, scores: float, rows: Sequence[tuple[float, float, float]]
    ) -> None:
        """Add a group: the number of its scores, their sum, and a row for each label.

        A row has a score, its label, and the inverse of the chance that it had to be drawn.
        """
        if not rows:
            self._rest.add(number, scores)
            return
        own, labels, weights = zip(*rows, strict=True)
        least, most = self._bounds
        self._bounds = min(least, *labels), max(most, *labels)
        self._square_weights += _dot(weights, weights)
        self.labels += len(rows)
        sums = fsum(weights), _dot(weights, own), _dot(weights, labels)
        self._groups.append(_LabelledGroup(number, scores, *sums))

    def estimate(self) -> dict[str, Any]:
        """Return the means of all `scores`, of the `labels`, and of all labels as far as scores tell them.

        `weight` is that of the scores in the `corrected` one, 0 if they tell nothing. None: not known.
        """
        groups = self._groups
        rest = self._rest
        found: dict[str, Any] = dict.fromkeys(
            ("scores", "labels", "corrected", "weight")
        )
        every = len(groups) + rest.groups
        if not every:
            return found
        number = self.number
        mean_score = (rest.y + fsum(one.scores for one in groups)) / number
        square = rest.yy - 2 * mean_score * rest.xy + mean_score**2 * rest.xx
        unlabelled = max(0.0, square) / number**2
        # of each group what it adds to the error of the mean score
        of_scores = [(one.scores - mean_score * one.number) / number for one in groups]
        squares = _dot(of_scores, of_scores) + unlabelled
        found["scores"] = self._mean(mean_score, squares, every, every - 1)
        if not groups:
            return found
        weight = fsum(one.weight for one in groups)
        labelled_score = fsum(one.labelled_scores for one in groups) / weight
        mean_label = fsum(one.labels for one in groups) / weight
        # to that of the mean label, and of the mean score less that of the labelled
        of_labels = [(one.labels - mean_label * one.weight) / weight for one in groups]
        apart = [
            own - (one.labelled_scores - labelled_score * one.weight) / weight
            for own, one in zip(of_scores, groups, strict=True)
        ]
        square = _dot(apart, apart) + unlabelled
        # a judge that is against the labels is as good as none: a slope below 0 is mostly chance
        slope = max(0.0, -_dot(of_labels, apart) / square) if square > _NOTHING else 0.0
        known = len(groups)
        labels = weight * weight / self._square_weights
        for name, by in (("labels", 0.0), ("corrected", slope)):
            value = mean_label + by * (mean_score - labelled_score)
            errors = [a + by * b for a, b in zip(of_labels, apart, strict=True)]
            variance = _dot(errors, errors) + by**2 * unlabelled
            df = known - 2 if by else known - 1
            found[name] = self._mean(value, variance, known, df, labels)
        return found | {"weight": slope}

    def _mean(
        self, value: float, squares: float, groups: int, df: int, labels: float = inf
    ) -> Measured:
        """Return a mean with its interval, which a few labels that are alike do not make narrow.

        By the rule of three as many as 3 in n labels may differ from scores, even if none of n does. So the
        variance is at least that of two labels that differ by their whole range, or, if that is less, of n
        independent labels that are 0 or 1.
        """
        least, most = self._bounds
        value = min(most, max(least, value))
        ends: tuple[float | None, float | None] = None, None
        if groups >= FEWEST:
            within = (value - least) * (most - value)
            floor = min(within / labels, 2 * (most - least) ** 2 / labels**2)
            variance = max(squares * groups / df, floor)
            ends = bounded_interval(value, variance, self._bounds, groups, df)
        return dict(zip(MEASURED, (value, *ends, groups), strict=True))


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return fsum(x * y for x, y in zip(a, b, strict=True))


_TINY = 1e-300
"""Replacement for a zero denominator in Lentz's method."""
_PRECISE = 1e-15
_ALMOST_CHI = 1e6
"""Ratio d2/d1 from which F is χ² to the precision that the continued fraction would have."""


def _f_survival(f: float, d1: float, d2: float) -> float:
    """The probability that an F variable with d1 and d2 degrees of freedom exceeds f.

    Abramowitz & Stegun 1964: 26.6.2. d1 > 0 is finite; d2 may be infinite, which 10⁶ d1 equals.
    """
    if f <= 0:
        return 1.0
    d2 = min(d2, _ALMOST_CHI * d1)
    whole = d2 + d1 * f
    return _incomplete_beta(d2 / 2, d1 / 2, d2 / whole, d1 * f / whole)


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularized incomplete beta function I_x(a, b), for a, b > 0, x in 0..1 and `rest` = 1 − x.

    The continued fraction 1/(1 + t₁/(1 + t₂/(1 + …))) is DLMF 8.17.22, on the side of the mean on which it
    converges fast, by Lentz's method (Thompson & Barnett 1986).
    """
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, rest, x)
    c = 1.0
    d = 0.0
    value = 1.0
    for m in range(1, 100_000):
        half = m // 2
        t = -(a + half) * (a + b + half) if m % 2 else half * (b - half)
        t *= x / ((a + m - 1) * (a + m))
        d = 1 / (1 + t * d or _TINY)
        c = 1 + t / c or _TINY
        value *= c * d
        if abs(c * d - 1) < _PRECISE:
            break
    log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
    log_x = log(x) if x < 0.5 else log1p(-rest)
    log_rest = log(rest) if rest < 0.5 else log1p(-x)
    return exp(a * log_x + b * log_rest - log_beta) / (a * value)
