"""Scored groups, of which some have labels → the mean label of all, and how often one kind of rollout is better.

Labels are few and scores are there for all, so scores fill in what labels do not say, and labels say how
wrong scores are: see `CorrectedMean`. Kinds of rollouts are told apart by a value of theirs, such as a model
or a step. Identical rollouts are compared with others, each by itself, but not with one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations, product
from statistics import fmean
from typing import Any, NamedTuple

from ruler_cli.results.agreement import LabelledPair
from ruler_cli.results.annotations import Json, ScoredGroup
from ruler_cli.scoring.inference import CorrectedMean
from ruler_cli.scoring.statistics import won

MOST_PAIRS = 6
"""Pairs of values that are compared."""
_MOST_VALUES = 12
"""Different values that are told apart."""


class Label(NamedTuple):
    """The label of a rollout, the inverse of the chance that it had to be `drawn` as the line says.

    It is `shared` if several people gave one, of which it is the mean.
    """

    value: float
    weight: float = 1.0
    drawn: str = ""
    shared: bool = False


class Corrections:
    """The corrected means of one judge, group by group; memory holds sums of the groups with labels."""

    def __init__(self) -> None:
        self._mean = CorrectedMean()
        self._values: dict[str, None] = {}
        self._between: dict[tuple[str, str], CorrectedMean] = {}
        self._unlike = 0

    def add(
        self,
        group: ScoredGroup,
        labels: Sequence[Label | None],
        pairs: Sequence[LabelledPair] | None,
        values: Sequence[str | None],
        ids: Sequence[str],
    ) -> None:
        """Add a group: labels of its rollouts, and values by which rollouts are compared, if there are any.

        `pairs` are what people said of pairs; None if that follows from the labels. Identical rollouts have the
        same of the `ids`.
        """
        scores = {
            i: rollout.judge_score
            for i, rollout in enumerate(group.rollouts)
            if rollout.judge_score is not None
        }
        if not scores:
            return
        known = [(i, label) for i, label in enumerate(labels) if label and i in scores]
        rows = [(scores[i], label.value, label.weight) for i, label in known]
        self._mean.add(len(scores), sum(scores.values()), rows)
        by_value: dict[str, list[int]] = {}
        if not values:
            return
        for i in scores:
            value = values[i]
            if not value:
                continue
            if value not in self._values and len(self._values) >= _MOST_VALUES:
                self._unlike += 1
                continue
            self._values[value] = None
            by_value.setdefault(value, []).append(i)
        # the word of people on two rollouts holds for all that are identical with them
        said: dict[tuple[Any, Any], tuple[float, float]] = {}
        for pair in pairs or ():
            if pair.values:
                one, other = (ids[i] for i in pair[:2])
                mean = fmean(pair.values)
                said[one, other] = mean, pair.weight
                said[other, one] = 1 - mean, pair.weight
        names: Sequence[Any] = ids
        if pairs is None:
            names = range(len(labels))
            for (i, a), (j, b) in permutations(known, 2):
                said[i, j] = won(a.value, b.value), a.weight * b.weight
        for kinds in combinations(sorted(by_value, key=_order), 2):
            number = 0
            better = 0.0
            found: dict[tuple[Any, Any], tuple[float, float, float]] = {}
            for i, j in product(*[by_value[kind] for kind in kinds]):
                if ids[i] != ids[j]:
                    number += 1
                    seen = won(scores[i], scores[j])
                    better += seen
                    key = names[i], names[j]
                    if key in said:
                        label, weight = said[key]
                        before = found[key][2] if key in found else 0.0
                        found[key] = seen, label, before + weight
            if number:
                between = self._between.setdefault(kinds, CorrectedMean())
                between.add(number, better, [*found.values()])

    def as_json(self, path: str | None) -> Json:
        """Return the corrected mean, and the shares between rollouts with different values at `path`."""
        ranked = sorted(
            self._between.items(), key=lambda one: (-one[1].labels, -one[1].number)
        )
        rest = ranked[MOST_PAIRS:]
        between = None
        if path is not None:
            between = {
                "path": path,
                "pairs": [
                    {"better": a, "than": b, **_as_json(mean)}
                    for (a, b), mean in ranked[:MOST_PAIRS]
                ],
                "more_values": len(rest),
                "more_pairs": round(sum(mean.number for _, mean in rest)),
                "more_rollouts": self._unlike,
            }
        partly = 0 < self._mean.labels < self._mean.number
        return {"mean": _as_json(self._mean) if partly else None, "between": between}


def _order(value: str) -> tuple[bool, float, str]:
    """Sort numbers before texts, the larger first: a later step is compared with an earlier one."""
    try:
        return (False, -float(value), value)
    except ValueError:
        return (True, 0.0, value)


def _as_json(mean: CorrectedMean) -> Json:
    """Return the means as JSON, None for those that are not known."""
    numbers = {"number": round(mean.number), "labelled": mean.labels}
    return numbers | mean.estimate()
