"""Running sums over the groups of a batch: judges' moments, pairs of judges, scores against length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, log2, sqrt

from ruler_cli.figures import Length

_ENOUGH = 30
"""Rewarded rollouts below which a correlation of errors is not told: its own error is then about 0.2."""
_LARGEST = 1e50
"""Beyond it a reward is no scale: products of several must stay finite."""
_FLAT = 1e-9
"""Values of a group that differ by less are the same: what rounding leaves of them is no signal."""
_NOTHING = 1e-12
"""A share of a sum of squares below this is what rounding leaves of zero."""


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
        x, y = _centred([log2(max(size, 1)) for size in sizes]), _centred(scores)
        xx, xy = _dot(x, x), _dot(x, y)
        if xx <= 0:
            return
        self._groups += 1
        self._xx, self._xy, self._yy = self._xx + xx, self._xy + xy, self._yy + _dot(y, y)
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
        return Length(slope, error, _correlation(self._xx, self._yy, self._xy) or 0.0, self._groups)


class PairSums:
    """Two judges' scores and the original reward, all centred within groups."""

    def __init__(self) -> None:
        self._rollouts = self._rewarded = 0
        self._aa = self._bb = self._ab = 0.0
        # of those with a reward r
        self._faa = self._fbb = self._fab = self._far = self._fbr = self._frr = 0.0

    def add(self, one: Sequence[float], other: Sequence[float], rewards: Sequence[float | None]) -> None:
        """Count the distinct rollouts of one group that both scored."""
        if len(one) < 2:
            return
        a, b = _centred(one), _centred(other)
        self._rollouts += len(one)
        self._aa, self._bb, self._ab = self._aa + _dot(a, a), self._bb + _dot(b, b), self._ab + _dot(a, b)
        rows = zip(one, other, rewards, strict=True)
        known = [(p, q, r) for p, q, r in rows if r is not None and abs(r) <= _LARGEST]
        if len(known) < 2:
            return
        self._rewarded += len(known)
        a, b, r = (_centred(values) for values in zip(*known, strict=True))
        self._faa, self._fbb, self._fab = (
            self._faa + _dot(a, a),
            self._fbb + _dot(b, b),
            self._fab + _dot(a, b),
        )
        self._far, self._fbr, self._frr = (
            self._far + _dot(a, r),
            self._fbr + _dot(b, r),
            self._frr + _dot(r, r),
        )

    @property
    def rollouts(self) -> int:
        """How many both scored, in groups of at least two."""
        return self._rollouts

    @property
    def rewarded(self) -> int:
        """How many of them have an original reward that is a number."""
        return self._rewarded

    def correlation(self) -> float | None:
        """Of the scores within groups; None where a judge tells nothing apart."""
        return _correlation(self._aa, self._bb, self._ab)

    def errors(self) -> float | None:
        """Of what regression on the reward leaves of both; None where too little is known."""
        if self._rewarded < _ENOUGH or self._frr <= 0:
            return None
        aa = self._faa - self._far**2 / self._frr
        bb = self._fbb - self._fbr**2 / self._frr
        if aa <= _NOTHING * self._faa or bb <= _NOTHING * self._fbb:
            return None
        return _correlation(aa, bb, self._fab - self._far * self._fbr / self._frr)


def _centred(values: Sequence[float]) -> list[float]:
    if max(values) - min(values) < _FLAT:
        return [0.0] * len(values)
    mean = fsum(values) / len(values)
    return [value - mean for value in values]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return fsum(x * y for x, y in zip(a, b, strict=True))


def _correlation(xx: float, yy: float, xy: float) -> float | None:
    return max(-1.0, min(1.0, xy / sqrt(xx * yy))) if xx * yy > 0 else None
