"""Sums over groups → statistics with intervals: the percentile bootstrap over groups (Efron 1979).

Every statistic here is a smooth function of sums over groups. So a group is stored as the amounts that it
adds to those sums. In a large file several random groups share one unit. Groups are independent, so such
units are as well, and resampling units gives the variance that resampling groups gives. The number of units
only sets how exactly that variance is known: with 500 of them its root is off by 1 / sqrt(2 · 500), about
3 %. Memory and time stay those of 500 groups.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import NormalDist
from typing import Any, TypedDict, TypeVar

Totals = Mapping[Hashable, float]
Name = TypeVar("Name", bound=Hashable)

MOST_UNITS = 500
RESAMPLES = 1_000
LEVEL = 0.95
FEWEST = 5
"""Groups below which there is no interval: resamples of so few groups estimate no error."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A function of sums, None if it is not defined; its groups are those that add to the sum `basis`.

    `bounds` are the least and the greatest value that it can have.
    """

    value: Callable[[Totals], float | None]
    basis: Hashable
    bounds: tuple[float, float] = (-math.inf, math.inf)


class MeasuredValue(TypedDict):
    """The value of a statistic over so many `groups`, and its 95 % interval.

    None: it is not defined, or there are too few groups for an interval.
    """

    value: float | None
    low: float | None
    high: float | None
    groups: int


def ratio(
    top: Hashable, bottom: Hashable, scale: float = 1.0
) -> Callable[[Totals], float | None]:
    """Divide one sum by another."""

    def value(sums: Totals) -> float | None:
        below = sums.get(bottom, 0.0)
        return scale * sums.get(top, 0.0) / below if below else None

    return value


def difference(one: Statistic, other: Statistic) -> Statistic:
    """Subtract the second from the first in each resample, so that what they have in common cancels out."""

    def value(sums: Totals) -> float | None:
        a, b = one.value(sums), other.value(sums)
        return None if a is None or b is None else a - b

    width = one.bounds[1] - one.bounds[0]
    return Statistic(value, one.basis, (-width, width))


class BootstrapUnits:
    """The sums of groups in at most `most` units; the same groups give the same intervals."""

    def __init__(self, most: int = MOST_UNITS) -> None:
        self._units: list[dict[Hashable, float]] = []
        self._most, self._random = most, random.Random(0)
        self._groups: Counter[Hashable] = Counter()

    def next(self) -> int:
        """Choose the unit of the next group, by number."""
        if len(self._units) < self._most:
            self._units.append({})
            return len(self._units) - 1
        # not round robin: in a file that improves from its begin to its end units would be alike
        return self._random.randrange(self._most)

    def add(self, number: int, sums: Totals) -> None:
        """Add the amounts of one group to a unit."""
        unit = self._units[number]
        for key, amount in sums.items():
            unit[key] = unit.get(key, 0.0) + amount
            self._groups[key] += bool(amount)

    def groups(self, key: Hashable) -> int:
        """Count the groups that added to a sum."""
        return self._groups[key]

    def total(self, key: Hashable) -> float:
        """Return a sum over all groups."""
        return math.fsum(unit.get(key, 0.0) for unit in self._units)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the intervals as JSON."""
        return {
            "level": LEVEL,
            "resamples": RESAMPLES,
            "seed": 0,
            "units": len(self._units),
        }

    def measure(
        self, statistics: Mapping[Name, Statistic], resamples: int = RESAMPLES
    ) -> dict[Name, MeasuredValue]:
        """Measure each statistic with its interval; all intervals come from the same resamples."""
        keys = {key for unit in self._units for key in unit}
        columns = {key: [unit.get(key, 0.0) for unit in self._units] for key in keys}
        totals = {key: math.fsum(column) for key, column in columns.items()}
        values = {
            name: _defined(statistic.value(totals))
            for name, statistic in statistics.items()
        }
        resampled: dict[Name, list[float]] = {
            name: []
            for name, statistic in statistics.items()
            if values[name] is not None and self._groups[statistic.basis] >= FEWEST
        }
        random_ = random.Random(0)
        numbers = range(len(self._units))
        for _ in range(resamples if resampled else 0):
            pick = itemgetter(*random_.choices(numbers, k=len(numbers)))
            sums = {key: sum(pick(column)) for key, column in columns.items()}
            for name, drawn in resampled.items():
                if (value := _defined(statistics[name].value(sums))) is not None:
                    drawn.append(value)
        measured: dict[Name, MeasuredValue] = {}
        for name, statistic in statistics.items():
            groups = self._groups[statistic.basis]
            low, high = _ends(
                values[name],
                resampled.get(name, ()),
                groups,
                statistic.bounds,
                resamples,
            )
            measured[name] = MeasuredValue(
                value=values[name], low=low, high=high, groups=groups
            )
        return measured


def _ends(
    value: float | None,
    drawn: Sequence[float],
    groups: int,
    bounds: tuple[float, float],
    resamples: int,
) -> tuple[float | None, float | None]:
    """Return the ends of the central 95 % of the drawn values; with few groups a little more than that.

    Resamples of n groups vary by sqrt((n - 1) / n) too little and know nothing of Student's t, so the
    percentiles lie further out (Hesterberg 2015, the expanded percentile interval).
    If all groups have one value the resamples do too, and tell nothing of other groups: with 95 %
    certainty at most 3 in n of all groups differ from n that are alike (Hanley & Lippman-Hand 1983).
    """
    if value is None or len(drawn) * 2 < resamples or not drawn:
        return None, None
    free, z = max(1, groups - 1), NormalDist().inv_cdf((1 + LEVEL) / 2)
    t = (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free * free)
    )  # a series in 1 / n
    ordered = sorted(drawn)
    cut = int(len(ordered) * NormalDist().cdf(-t * math.sqrt(groups / free)))
    low, high = ordered[cut], ordered[-1 - cut]
    least, most = bounds
    if high - low <= 1e-12 * max(1.0, abs(value)) and math.isfinite(most - least):
        margin = min(1.0, 3 / groups) * (most - least)
        low, high = value - margin, value + margin
    return max(least, low), min(most, high)


def _defined(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
