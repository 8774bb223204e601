"""Numbers of the steps of a training, one after another → evidence that their level shifts.

A number is x = μ + δz + noise. Before the onset z is 0; from there on it is 1, 1, 1, … (a shift), or 1, 2, 3, …
(a ramp). The noise is normal with an unknown standard deviation s, and follows itself from step to step with a
correlation φ of 0, 1/4 or 1/2, which weigh 0.6, 0.3 and 0.1. For one φ and one onset, with right Haar priors of μ
and s, and δ/s normal with mean 0 and standard deviation τ, the numbers so far have, up to a common factor, the
density

    m = |C|^(-1/2) (u'u)^(-1/2) (1 + τ²q)^(-1/2) (R - τ²c² / (1 + τ²q))^(-(n-1)/2)

C is the correlation of the noise. The columns u of μ and z of δ, and the numbers x, are whitened by it; R is the sum
of squares of x about u, and q and c are the products of z with itself and with x, less what u explains. Without a
shift τ is 0. The evidence is the weighted mean of m over onsets, shapes and φ, divided by the mean over φ
without a shift.

That is a test martingale if nothing shifts, with φ drawn by its weights (Lai 1976, "On confidence sequences";
Pérez-Ortiz, Lardy, de Heide & Grünwald 2022, "E-statistics, group invariance and anytime valid testing"). By
Ville's inequality (1939; Robbins 1970; Howard, Ramdas, McAuliffe & Sekhon 2021) it ever reaches 1/p with a
probability of at most p, however long the series is and however often it is looked at. The weights of the
onsets, k / ((j + k - 1)(j + k)) for the j-th one, sum to 1.

Each number is a mean with a sampling error that is known, and noise is not smaller. So the same evidence is
computed with that error as s, too, and the smaller one counts: numbers that are close by luck prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import exp, fsum, log, sqrt
from operator import mul, sub
from statistics import median
from typing import NamedTuple

BEFORE = 3
"""Numbers before the earliest onset."""
LEAST = BEFORE + 2
"""Numbers from which on anything can be told: two after the onset, as one may be an outlier."""
ENOUGH = 10
"""Numbers from which on a shift can be beyond chance: of fewer ones even a shift without any noise is not."""
_CORRELATIONS = {0.0: 0.6, 0.25: 0.3, 0.5: 0.1}
"""The weights of φ: most of the noise is that of rollouts and tasks, which are drawn anew at each step."""
_SIZES = (2.0, 0.5)
"""τ of a shift, and of each step of a ramp: sizes in s that are looked for."""
_SPREAD = 30
"""The k of the onsets' weights: half of the weight is on the first 30."""
_ONSETS = 100
"""Latest onsets that are looked at: to leave out the others can only lower the evidence."""
_SMALLEST = 1e-4
"""The least sampling error, on the scale of scores; a smaller one is rounding."""
_NOTHING = 1e-300


class Shift(NamedTuple):
    """Evidence of a shift within the first `end` numbers: the natural logarithm of the e-value.

    `since` is the index of the first number behind the most likely onset.
    """

    end: int
    since: int
    evidence: float


def shifts(values: Sequence[float], errors: Sequence[float]) -> Iterator[Shift]:
    """Yield the evidence after each number, from the LEAST-th on; none for fewer numbers.

    `errors` are the standard errors of the numbers by sampling. One with a larger error than the first ones counts
    for less.
    """
    error = max(_SMALLEST, median(errors[:LEAST] or [0.0]))
    weights = [error / max(error, one) for one in errors]
    series = [
        _Whitened(values, weights, correlation, weight)
        for correlation, weight in _CORRELATIONS.items()
    ]
    for end in range(LEAST, len(values) + 1):
        unknown, known = _Evidence(), _Evidence()
        for one in series:
            one.look(end, error, unknown, known)
        least = min(unknown, known, key=_Evidence.value)
        yield Shift(end, least.since, least.value())


class _Evidence:
    """Logarithms of densities, with a shift and without; `since` is the onset of the largest one with a shift."""

    def __init__(self) -> None:
        self.shifted: list[float] = []
        self.level: list[float] = []
        self.onsets: list[int] = []

    def value(self) -> float:
        return _log_sum(self.shifted) - _log_sum(self.level)

    @property
    def since(self) -> int:
        return self.onsets[self.shifted.index(max(self.shifted))]


def _log_sum(logarithms: Sequence[float]) -> float:
    largest = max(logarithms)
    return largest + log(fsum([exp(one - largest) for one in logarithms]))


class _Whitened:
    """Numbers and columns, whitened for noise of one correlation, as running sums of their products.

    With t the index of a number and w its weight, the column of a ramp from an onset s on is (t - s)u + w behind
    s, that of a shift is u; both are w at s.
    """

    def __init__(
        self,
        values: Sequence[float],
        weights: Sequence[float],
        correlation: float,
        weight: float,
    ) -> None:
        self._correlation = correlation
        self._factor = sqrt(1 - correlation * correlation)
        self._density = log(weight * self._factor)
        # the level is a column, so the first number may be taken off: less to round
        levels = [value - values[0] for value in values]
        x = self._whiten([*map(mul, levels, weights)])
        u = self._whiten(weights)
        ramp = [t * own + w for t, (own, w) in enumerate(zip(u, weights, strict=True))]
        self._rows = [*zip(weights, u, x, strict=True)]
        self._xx = _sums(x, x)
        # of the first 0, 1, 2, … numbers
        pairs = ((u, u), (u, x), (ramp, ramp), (ramp, u), (ramp, x))
        self._sums = [*zip(*(_sums(*pair) for pair in pairs), strict=True)]

    def _whiten(self, column: Sequence[float]) -> list[float]:
        first = [one * self._factor for one in column[:1]]
        rest = [own - self._correlation * last for last, own in pairwise(column)]
        return first + rest

    def look(
        self, end: int, error: float, unknown: _Evidence, known: _Evidence
    ) -> None:
        """Add the densities of the first `end` numbers: with s not known, and with s the sampling error."""
        total = self._sums[end]
        uu, ux = total[:2]
        base = self._density - log(uu) / 2
        square = max(self._xx[end] - ux * ux / uu, 0.0)
        power = (end - 1) / 2
        half = 0.5 / (error * error)
        unknown.level.append(base - power * log(square + _NOTHING))
        known.level.append(base - half * square)
        for since in range(max(BEFORE, end - _ONSETS), end - 1):
            j = since - BEFORE + _SPREAD
            density = base + log(_SPREAD / (j * (j + 1)) / len(_SIZES))
            w, u, x = self._rows[since]
            ss, sx, rr, rs, rx = map(sub, total, self._sums[since + 1])
            shift = (w * w + ss, w * u + ss, w * x + sx)
            ramp = (
                w * w + rr - 2 * since * rs + since * since * ss,
                w * u + rs - since * ss,
                w * x + rx - since * sx,
            )
            for size, (zz, zu, zx) in zip(_SIZES, (shift, ramp), strict=True):
                own = 1 + size * size * max(zz - zu * zu / uu, 0.0)
                with_x = size * (zx - zu * ux / uu)
                left = max(square - with_x * with_x / own, 0.0)
                likely = density - log(own) / 2
                unknown.shifted.append(likely - power * log(left + _NOTHING))
                known.shifted.append(likely - half * left)
                unknown.onsets.append(since)
                known.onsets.append(since)


def _sums(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the sums of the first 0, 1, 2, … products."""
    return [0.0, *accumulate(map(mul, one, other))]
