"""Reliability of the mean of a group's passes: analysis of variance, with the noise shrunk to the batch's.

Scores are in [0, 1], variances in their square. Every value here is a closed form of sums, with the
special functions that an F test and a fitted F distribution need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, fsum, inf, lgamma, log, log1p, sqrt

from ruler_cli.scoring.sums import Moments

ROUNDING = 0.05**2 / 12
"""The variance of rounding to a grid of .05: errors are uniform over a step."""
_ZERO = 1e-18
"""Mean squares below this are the rounding of binary fractions, not noise."""
_SAME = 5e-10
"""Scores that differ by less are equal: passes were added in another order, or rounded to nine decimals."""
_ALPHA = 0.05
_TARGET = 0.9
_MOST_PASSES = 1_000_000
"""Passes beyond which no number of passes is reported."""


@dataclass(frozen=True, slots=True)
class Anova:
    """The two-way analysis of variance of a table rollout × pass, without interaction.

    `ms_item` is the mean square between rollouts, `ms_res` that of the residuals; `df_item` and `df_res`
    are their degrees of freedom. If `df_res` is 0, `ms_res` is 0 and has no meaning. Each rollout was scored
    `k` times, on average if the table has holes. `efficiency` is the average precision of the rollouts'
    scores relative to the one that `ms_item` assumes; 1 for a complete table.
    """

    ms_item: float
    ms_res: float
    k: float
    df_item: int
    df_res: int
    efficiency: float = 1.0

    @classmethod
    def of(cls, columns: Sequence[Sequence[float]]) -> Anova:
        """Analyse a complete table: `columns[j][i]` is the score of rollout i in pass j.

        The model is that of ICC case 3 (Shrout & Fleiss 1979) and C (McGraw & Wong 1996): one pass may be
        stricter than another as a whole, which is subtracted.
        """
        k, n = len(columns), len(columns[0])
        items = [fsum(row) / k for row in zip(*columns, strict=True)]
        passes = [fsum(column) / n for column in columns]
        grand = fsum(passes) / k
        between = k * fsum((item - grand) ** 2 for item in items)
        rest = fsum(
            (y - item - mean + grand) ** 2
            for column, mean in zip(columns, passes, strict=True)
            for y, item in zip(column, items, strict=True)
        )
        return cls.of_squares(between, n - 1, rest, (n - 1) * (k - 1), k)

    @classmethod
    def of_squares(
        cls,
        between: float,
        df_item: int,
        rest: float,
        df_res: int,
        k: float,
        efficiency: float = 1.0,
    ) -> Anova:
        """Make it of sums of squares: `between` rollouts, adjusted for passes, and `rest` of residuals."""
        squares = (between, df_item), (rest, df_res)
        means = [square / df if df > 0 else 0.0 for square, df in squares]
        item, noise = (mean if mean > _ZERO else 0.0 for mean in means)
        return cls(item, noise, k, df_item, df_res, efficiency)


@dataclass(frozen=True, slots=True)
class NoisePrior:
    """The batch's estimate of a group's noise: `variance` s₀² with `df` degrees of freedom d₀ (Smyth 2004).

    `df` is 0 if the batch has no estimate, and infinite if groups do not differ. `pooled` are the degrees
    of freedom of the whole batch; no estimate from it has more.
    """

    df: float = 0.0
    variance: float = 0.0
    pooled: float = inf

    def shrink(self, ms_res: float, df: float) -> tuple[float, float]:
        """Draw a group's noise variance towards the batch's; the result has its degrees of freedom beside it.

        s̃² = (d₀ s₀² + d s²)/(d₀ + d) on d₀ + d degrees of freedom (Smyth 2004), at most those of all
        groups together, as in limma's eBayes. (0, 0) if neither the group nor the batch has an estimate.
        """
        if self.df == inf:
            return self.variance, max(self.pooled, df)
        if self.df <= 0:
            return (ms_res, df) if df > 0 else (0.0, 0.0)
        total = self.df + df
        variance = (self.df * self.variance + df * ms_res) / total
        return variance, max(df, min(total, self.pooled))


class NoiseEstimator:
    """Running sums of a batch's residual variances: s² ~ s₀² F(d, d₀), fitted by moments of log s².

    Smyth 2004, section 6.2 (limma's fitFDist): e = log s² − ψ(d/2) + log(d/2) has the mean
    log s₀² − ψ(d₀/2) + log(d₀/2) and the variance trigamma(d/2) + trigamma(d₀/2).

    The logarithm is that of at least ROUNDING. Judges answer on a grid of .05, so passes often agree
    exactly; they then differ by less than the grid, and log 0 would outweigh every other group.
    """

    def __init__(self) -> None:
        self._logs = Moments()  # of e
        self._trigamma = 0.0
        self._df = 0.0
        self._pooled = 0.0  # sum of d s²
        self._prior: NoisePrior | None = None

    def add(self, ms_res: float, df: float) -> None:
        """Add one group's residual mean square; it is ignored if it has no degrees of freedom."""
        if df <= 0:
            return
        self._prior = None
        variance = max(ms_res, ROUNDING)
        self._logs.add([log(variance) - polygamma(0, df / 2) + log(df / 2)])
        self._trigamma += polygamma(1, df / 2)
        self._df += df
        self._pooled += df * variance

    def prior(self) -> NoisePrior:
        """The fit to the groups so far; an empty one for fewer than two groups.

        If groups differ no more than by chance, d₀ is infinite and s₀² is the pooled variance, which is
        then the maximum likelihood estimate.
        """
        groups = self._logs.number
        if self._prior is not None:
            return self._prior
        if groups < 2:
            return NoisePrior(pooled=self._df)
        between = self._logs.square / (groups - 1) - self._trigamma / groups
        df, variance = inf, self._pooled / self._df
        if between > 0:
            df = 2 * trigamma_inverse(between)
            variance = exp(self._logs.mean + polygamma(0, df / 2) - log(df / 2))
        self._prior = NoisePrior(df, variance, self._df)
        return self._prior


def rate(anova: Anova, prior: NoisePrior) -> tuple[float, bool] | None:
    """The reliability in [0, 1] of the mean of a group's passes, and True beside it if rollouts are tied.

    None if there is no estimate of the noise. ICC(C,k) = max(0, 1 − s̃²/MS_item) (McGraw & Wong 1996, case 3
    of Shrout & Fleiss 1979) with the shrunk noise; in a table with holes the mean's error is larger by
    1/efficiency. Rollouts are tied unless MS_item/s̃² ~ F(df_item, d₀ + d) is rejected at _ALPHA, the
    moderated F test of Smyth 2004. Without any noise, rollouts are tied only if they do not differ.
    """
    variance, df = prior.shrink(anova.ms_res, anova.df_res)
    if df <= 0:
        return None
    signal = anova.ms_item - variance
    icc = signal / (signal + variance / anova.efficiency) if signal > 0 else 0.0
    if anova.ms_item <= 0 or variance <= 0:
        return icc, anova.ms_item <= 0
    return icc, f_survival(anova.ms_item / variance, anova.df_item, df) > _ALPHA


def one_score(scores: Iterable[float | None]) -> bool:
    """Tell if there are scores, and all of them are equal."""
    known = [score for score in scores if score is not None]
    return bool(known) and max(known) - min(known) < _SAME


def passes_for(icc_k: float, k: float) -> int | None:
    """The number of passes, at least 1, that raise the reliability `icc_k` of k passes to 0.9.

    Spearman–Brown: m = k · .9 (1 − icc)/(icc (1 − .9)). None if no number of passes does, or none below a
    million.
    """
    if icc_k >= 1:
        return 1
    odds = _TARGET / (1 - _TARGET)
    passes = k * odds * ((1 - icc_k) / icc_k) if icc_k > 0 else inf
    if passes > _MOST_PASSES:
        return None
    # k passes exactly at the target need k, despite an error in the last binary digit
    return max(1, ceil(passes * (1 - 1e-12)))


_FAR = 12.0
"""Arguments from which the asymptotic series below have double precision."""
_SERIES = (
    (1 / 12, 1 / 120, 1 / 252, 1 / 240, 1 / 132, 691 / 32760),
    (1 / 6, 1 / 30, 1 / 42, 1 / 30, 5 / 66, 691 / 2730),
    (1 / 2, 1 / 6, 1 / 6, 3 / 10, 5 / 6, 691 / 210),
)
"""Coefficients of the series of ψ and its first two derivatives, of alternating signs."""


@lru_cache(maxsize=256)  # groups of one size ask for the same
def polygamma(order: int, x: float) -> float:
    """The derivative of ψ of an order from 0 (ψ itself, the derivative of log Γ) to 2, for x > 0.

    Abramowitz & Stegun 1964: the recurrence 6.4.6 until the asymptotic series 6.3.18 and 6.4.12 are exact.
    """
    below = 0.0
    while x < _FAR:
        below += 1 / x ** (order + 1)
        x += 1
    t = 1 / (x * x)
    series = 0.0
    for coefficient in reversed(_SERIES[order]):
        series = t * (coefficient - series)
    if order == 0:
        return log(x) - 0.5 / x - series - below
    if order == 1:
        return (1 + 0.5 / x + series) / x + below
    return -(1 + 1 / x + series) * t - 2 * below


def trigamma_inverse(y: float) -> float:
    """The x > 0 at which the first derivative of ψ is y, for y > 0.

    Newton's method on its inverse, which is convex and nearly linear: it starts at 0.5 + 1/y, never above the
    root, and rises to it in a few steps (Smyth 2004, appendix). Beyond the limits leading terms are exact.
    """
    if y > 1e15:
        return 1 / sqrt(y)
    if y < 1e-15:
        return 1 / y
    x = 0.5 + 1 / y
    for _ in range(50):
        now = polygamma(1, x)
        step = now * (1 - now / y) / polygamma(2, x)
        x += step
        if abs(step) < 1e-14 * x:
            break
    return x


_TINY = 1e-300
"""Replacement for a zero denominator in Lentz's method."""
_PRECISE = 1e-15
_ALMOST_CHI = 1e6
"""Ratio d2/d1 from which F is χ² to the precision that the continued fraction would have."""


def f_survival(f: float, d1: float, d2: float) -> float:
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
    c, d, value = 1.0, 0.0, 1.0
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
