"""Ratios of sums over groups → figures with an interval that holds with few labels: a bootstrap over groups.

Labels of one group are not independent, groups are. So whole groups are drawn again, with replacement, as many as
there are (Efron 1979), and the interval of a figure reaches from the 2.5th to the 97.5th percentile of its values in
1,000 such resamples. Groups that are all alike would give an interval without a width, however few they are. So two
groups of average size are drawn from as well, one at each end of the scale: the rule of two successes and two
failures (Agresti & Coull 1998), for groups. `python -m benchmarks.simulate` measures how often the intervals hold.

In a large file several random groups share one unit, and units are drawn. Groups are independent, so such units are as
well, and the resamples vary alike. Memory and time stay those of 500 groups.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from ruler_cli.scoring.statistics import Moments, products

FEWEST = 5
"""Groups below which there is no interval."""
RESAMPLES = 1_000
_MOST_UNITS = 500
_OUTSIDE = 40
"""One in so many values lies outside of an interval, at either end."""
_Row = tuple[float, float, float]
"""A score, its label, and the label's weight: the inverse of the chance that it had to be drawn."""
_Ratios = Mapping[Any, float]
_Ends = Mapping[Any, tuple[float, float]]
"""The ends of the scale of a ratio, by its key."""
Measured = dict[str, Any]
"""The `value` of a figure over so many `groups`, and the ends of its 95 % interval, `low` and `high`.

None: it is not defined, or there are too few groups for an interval.
"""


class Bootstrap:
    """Ratios of an amount to a weight, both summed over groups; the same groups give the same resamples.

    `groups` counts by key those with a weight.
    """

    def __init__(self) -> None:
        self.groups = Counter[Hashable]()
        self._amounts: defaultdict[Any, list[float]] = defaultdict(_units)
        self._weights: defaultdict[Any, list[float]] = defaultdict(_units)
        self._added = 0
        self._random = random.Random(0)

    def add(self, group: Mapping[Any, Sequence[float]]) -> None:
        """Add an amount and a weight of a group by key."""
        # not by number: in a file that improves from its beginning to its end units would be alike
        unit = self._random.randrange(_MOST_UNITS)
        if self._added < _MOST_UNITS:
            unit = self._added
        self._added += 1
        for key, (amount, weight) in group.items():
            self._amounts[key][unit] += amount
            self._weights[key][unit] += weight
            self.groups[key] += weight != 0

    def ratio(self, key: Hashable) -> float:
        """Return a ratio over all groups; 0 without a weight."""
        weight = sum(self._weights[key])
        return sum(self._amounts[key]) / weight if weight else 0.0

    def rows(self, ends: _Ends) -> Iterator[_Ratios]:
        """Yield the ratios over all groups, then those of each resample of them and of two groups at the `ends`.

        These two are of average size.
        """
        yield {key: self.ratio(key) for key in +self.groups}
        units = min(self._added, _MOST_UNITS)
        columns = {}
        for key, groups in self.groups.items():
            amounts = self._amounts[key][:units]
            weights = self._weights[key][:units]
            low, high = ends.get(key, (0.0, 0.0))
            size = sum(weights) / groups if key in ends else 0.0
            amounts += [size * low, size * high]
            weights += [size, size]
            columns[key] = (amounts, weights)
        drawn_from = range(units + 2)
        dice = random.Random(0)
        for _ in range(RESAMPLES):
            pick = itemgetter(*dice.choices(drawn_from, k=len(drawn_from)))
            ratios = {}
            for key, (amounts, weights) in columns.items():
                weight = sum(pick(weights))
                if weight:
                    ratios[key] = sum(pick(amounts)) / weight
            yield ratios


def _units() -> list[float]:
    return [0.0] * _MOST_UNITS


def measured(
    key: Hashable,
    rows: Sequence[_Ratios],
    groups: int,
) -> Measured:
    """Return a ratio of the first row, with the percentiles of those of the others."""
    low = high = None
    value = rows[0].get(key)
    if value is not None and groups >= FEWEST:
        ordered = sorted([row[key] for row in rows[1:] if key in row])
        outside = len(ordered) // _OUTSIDE
        low = min(value, ordered[outside])
        high = max(value, ordered[-1 - outside])
    return {"value": value, "low": low, "high": high, "groups": groups}


class CorrectedMean:
    """The mean label of all, from the scores of all and the labels of some that were drawn at random.

    Prediction-powered inference (Angelopoulos et al. 2023, arXiv 2301.09633) in the form of PPI++ (arXiv 2311.01453):
    mean label + weight · (mean score of all − mean score of the labelled). It is unbiased however bad the scores are.
    The weight is the one with which resamples vary least, so useless scores are left out.
    """

    def __init__(self) -> None:
        self._means = Bootstrap()
        self._scores = Moments()
        self._labelled = 0
        self._bounds = (0.0, 1.0)

    def add(
        self,
        scores: Sequence[float],
        rows: Sequence[_Row],
    ) -> None:
        """Add a group: the scores of all, and a row for each label."""
        self._scores.add(scores)
        self._labelled += len(rows)
        labels = of_labelled = weights = 0.0
        least, most = self._bounds
        for score, label, weight in rows:
            weights += weight
            labels += weight * label
            of_labelled += weight * score
            least = min(least, label)
            most = max(most, label)
        self._bounds = (least, most)
        means = {
            "scores": (sum(scores), len(scores)),
            "labels": (labels, weights),
            "of_labelled": (of_labelled, weights),
        }
        self._means.add(means)

    def estimate(self) -> dict[str, Any] | None:
        """Return the means of all `scores`, of the `labels`, and of all labels as far as scores tell them.

        `weight` is that of the scores in the `corrected` one, 0 if they tell nothing. None if all or none of the
        scores have a label.
        """
        if not 0 < self._labelled < self._scores.number:
            return None
        # at the ends scores err by half a standard deviation: a few labels that all agree with scores do not prove
        # that others do
        mean = self._scores.mean
        error = self._scores.spread / 2
        ends = {
            "labels": self._bounds,
            "of_labelled": (mean + error, mean - error),
        }
        rows = []
        for ratios in self._means.rows(ends):
            if len(ratios) == len(self._means.groups):
                apart = ratios["scores"] - ratios["of_labelled"]
                rows.append({**ratios, "apart": apart})
        together = products([(row["apart"], row["labels"]) for row in rows[1:]])
        labelled = self._means.groups["labels"]
        weight = 0.0
        if labelled >= FEWEST and together.get("aa"):
            # scores that are against the labels are as good as none: a weight below 0 is mostly chance
            weight = max(0.0, -together["ab"] / together["aa"])
        least, most = self._bounds
        for row in rows:
            corrected = row["labels"] + weight * row["apart"]
            row["corrected"] = min(most, max(least, corrected))
        return {
            "number": self._scores.number,
            "labelled": self._labelled,
            "scores": measured(
                "scores",
                rows,
                self._means.groups["scores"],
            ),
            "labels": measured(
                "labels",
                rows,
                labelled,
            ),
            "corrected": measured(
                "corrected",
                rows,
                labelled,
            ),
            "weight": weight,
        }
