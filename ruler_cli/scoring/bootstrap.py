"""Sums over groups → figures with an interval that holds with few labels: a bootstrap over groups.

Labels of one group are not independent, groups are. So whole groups are drawn again, with replacement, as many as
there are (Efron 1979), and the interval of a figure reaches from the 2.5th to the 97.5th percentile of its values in
1,000 such resamples. Groups that are all alike would give an interval without a width, however few they are. So two
groups of average size are drawn from as well, one at each end of the scale: the rule of two successes and two
failures (Agresti & Coull 1998), for groups. `python -m benchmarks.simulate` measures how often the intervals hold.

In a large file several random groups share one unit, and units are drawn. Groups are independent, so such units are as
well, and the resamples vary alike. Memory and time stay those of 500 groups.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from ruler_cli.scoring.statistics import products

FEWEST = 5
"""Groups below which there is no interval."""
RESAMPLES = 1_000
_MOST_UNITS = 500
_OUTSIDE = 40
"""One in so many values lies outside of an interval, at either end."""
Sums = Mapping[Any, float]
_Row = tuple[float, float, float]
"""A score, its label, and the label's weight: the inverse of the chance that it had to be drawn."""
Measured = dict[str, Any]
"""The `value` of a figure over so many `groups`, and the ends of its 95 % interval, `low` and `high`.

None: it is not defined, or there are too few groups for an interval.
"""


class Bootstrap:
    """The sums of groups; the same groups give the same resamples. `groups` counts those that added to a sum."""

    def __init__(self) -> None:
        self.groups = Counter[Hashable]()
        self._units: list[Counter[Any]] = []
        self._random = random.Random(0)

    def add(self, sums: Sums) -> None:
        """Add a group."""
        # not in turn: in a file that improves from its begin to its end units would be alike
        number = self._random.randrange(_MOST_UNITS)
        if len(self._units) < _MOST_UNITS:
            self._units.append(Counter())
            number = -1
        self._units[number].update(sums)
        for key, amount in sums.items():
            self.groups[key] += amount != 0

    def totals(self) -> Sums:
        """Return the sums of all groups."""
        totals = Counter[Any]()
        for unit in self._units:
            totals.update(unit)
        return totals

    def resamples(self, ends: Iterable[Sums]) -> Iterator[Sums]:
        """Yield the sums of each resample of the groups and of `ends`, the groups at the ends of the scale."""
        units = [*self._units, *ends]
        columns = {}
        for key in self.groups:
            columns[key] = [unit.get(key, 0.0) for unit in units]
        dice = random.Random(0)
        for _ in range(RESAMPLES):
            pick = itemgetter(*dice.choices(range(len(units)), k=len(units)))
            yield {key: sum(pick(column)) for key, column in columns.items()}


def measured(
    value: float | None,
    resampled: Iterable[float | None],
    groups: int,
) -> Measured:
    """Return a value with the percentiles of its values in resamples."""
    low = high = None
    ordered = sorted(number for number in resampled if number is not None)
    if value is not None and groups >= FEWEST:
        outside = len(ordered) // _OUTSIDE
        low = min(value, ordered[outside])
        high = max(value, ordered[-1 - outside])
    return {
        "value": value,
        "low": low,
        "high": high,
        "groups": groups,
    }


class CorrectedMean:
    """The mean label of all, from the scores of all and the labels of some that were drawn at random.

    Prediction-powered inference (Angelopoulos et al. 2023, arXiv 2301.09633) in the form of PPI++ (arXiv 2311.01453):
    mean label + weight · (mean score of all − mean score of the labelled). It is unbiased however bad the scores are.
    The weight is the one with which resamples vary least, so useless scores are left out.
    """

    def __init__(self) -> None:
        self._groups = Bootstrap()
        self._bounds = [0.0, 1.0]

    def add(
        self,
        scores: Sequence[float],
        rows: Sequence[_Row],
    ) -> None:
        """Add a group: the scores of all, and a row for each label."""
        sums = defaultdict[str, float](float)
        sums["number"] = len(scores)
        sums["labelled"] = len(rows)
        for score in scores:
            sums["scores"] += score
            sums["squares"] += score * score
        for score, label, weight in rows:
            sums["weight"] += weight
            sums["known"] += weight * score
            sums["labels"] += weight * label
            self._bounds += [label]
        self._bounds = [min(self._bounds), max(self._bounds)]
        self._groups.add(sums)

    def estimate(self) -> dict[str, Any] | None:
        """Return the means of all `scores`, of the `labels`, and of all labels as far as scores tell them.

        `weight` is that of the scores in the `corrected` one, 0 if they tell nothing. None if all or none of the
        scores have a label.
        """
        totals = self._groups.totals()
        if not 0 < totals["labelled"] < totals["number"]:
            return None
        groups = self._groups.groups
        means = _means(totals)
        rows = []
        for sums in self._groups.resamples(self._ends(totals)):
            if sums["number"] and sums["weight"]:
                rows.append(_means(sums))
        columns = [*zip(*rows, strict=True)]
        together = products("sla", rows)
        weight = 0.0
        if groups["weight"] >= FEWEST and together["aa"]:
            # scores that are against the labels are as good as none: a weight below 0 is mostly chance
            weight = max(0.0, -together["la"] / together["aa"])
        least, most = self._bounds
        corrected = []
        for _, label, apart in (means, *rows):
            corrected.append(min(most, max(least, label + weight * apart)))
        return {
            "number": totals["number"],
            "labelled": totals["labelled"],
            "scores": measured(
                means[0],
                columns[0],
                groups["number"],
            ),
            "labels": measured(
                means[1],
                columns[1],
                groups["weight"],
            ),
            "corrected": measured(
                corrected[0], corrected[1:], groups["weight"]
            ),
            "weight": weight,
        }

    def _ends(self, totals: Sums) -> Iterator[Sums]:
        """Yield two groups of average size, of the least and of the largest label.

        Scores err in them by half a standard deviation: a few labels that all agree with scores do not prove that
        others do.
        """
        mean = totals["scores"] / totals["number"]
        square = totals["squares"] / totals["number"] - mean * mean
        error = math.sqrt(max(0.0, square)) / 2
        weight = totals["weight"] / self._groups.groups["weight"]
        for label in self._bounds:
            yield {
                "weight": weight,
                "labels": weight * label,
                "known": weight * (mean + error),
            }
            error = -error


def _means(sums: Sums) -> tuple[float, float, float]:
    """Return the mean score of all, the mean label, and the mean score of all less that of the labelled."""
    scores = sums["scores"] / sums["number"]
    labels = sums["labels"] / sums["weight"]
    return scores, labels, scores - sums["known"] / sums["weight"]
