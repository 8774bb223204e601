"""Running sums over the groups of a batch: judges' moments, pairs of judges, scores against length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2, sqrt

from ruler_cli.figures import Length
from ruler_cli.statistics.pairs import correlation, partial_correlation, products

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
