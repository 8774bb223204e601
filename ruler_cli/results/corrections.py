"""Scored groups, of which some have labels → the mean label of all, and how often one kind of rollout is better.

Labels are few and scores are there for all, so scores fill in what labels do not say, and labels say how
wrong scores are: see `CorrectedMean`. Kinds of rollouts are told apart by a value of theirs, such as a model
or a step. Identical rollouts are compared with others, each by itself, but not with one another.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import combinations
from typing import Any

from ruler_cli.results.agreement import count_below
from ruler_cli.results.annotations import Json, ScoredGroup
from ruler_cli.scoring.inference import Corrected, CorrectedMean
from ruler_cli.scoring.statistics import won

MOST_PAIRS = 6
"""Pairs of values that are compared."""
_MOST_VALUES = 12
"""Different values that are told apart."""
_AT_ONCE = 64
"""Labelled rollouts with one value, of one group, whose pairs are looked at; of more, a sample."""

_MEANS = [field.name for field in fields(Corrected)]
WeightedLabel = tuple[float, float]
"""A label, and the inverse of the chance that it had to be drawn."""
PairValues = Mapping[tuple[int, int], WeightedLabel]
"""The value of people for pairs of rollouts, by index: 1 if the first is better, 0 if the second is."""
_Values = tuple[str, str]


class Corrections:
    """The corrected means of one judge, group by group; memory holds sums of the groups with labels."""

    def __init__(self) -> None:
        self._mean = CorrectedMean()
        self._values: dict[str, None] = {}
        self._between: dict[_Values, CorrectedMean] = {}
        self._unlike = 0

    def add(
        self,
        group: ScoredGroup,
        labels: Sequence[WeightedLabel | None],
        pairs: PairValues | None,
        values: Sequence[str | None],
        ids: Sequence[str],
    ) -> None:
        """Add a group: labels of its rollouts, and values by which rollouts are compared, if there are any.

        `pairs` are what people said of pairs; None if that follows from the labels. Identical rollouts have the
        same of the `ids`.
        """
        scores = [rollout.judge_score for rollout in group.rollouts]
        scored = [i for i, score in enumerate(scores) if score is not None]
        known = {i: scores[i] or 0.0 for i in scored}
        rows = []
        for i, score in known.items():
            label = labels[i]
            if label is not None:
                rows.append((score, *label))
        if known:
            self._mean.add(len(known), sum(known.values()), rows)
        by_value: dict[str, list[int]] = {}
        for i in scored if values else ():
            value = values[i]
            if not value:
                continue
            if value not in self._values and len(self._values) >= _MOST_VALUES:
                self._unlike += 1
                continue
            self._values[value] = None
            by_value.setdefault(value, []).append(i)
        for one, other in combinations(sorted(by_value, key=_order), 2):
            first, second = by_value[one], by_value[other]
            rows = [*_rows(first, second, known, labels, pairs, ids)]
            number, better = _compared(first, second, known)
            for name in {ids[i] for i in first} & {ids[i] for i in second}:
                mine = [i for i in first if ids[i] == name]
                theirs = [i for i in second if ids[i] == name]
                alike, higher = _compared(mine, theirs, known)
                number -= alike
                better -= higher
            if number:
                mean = self._between.setdefault((one, other), CorrectedMean())
                mean.add(number, better, rows)

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
        labelled = self._mean.labels
        partly = 0 < labelled < self._mean.number
        return {"mean": _as_json(self._mean) if partly else None, "between": between}


def _order(value: str) -> tuple[bool, float, str]:
    """Sort numbers before texts, the larger first: a later step is compared with an earlier one."""
    try:
        return (False, -float(value), value)
    except ValueError:
        return (True, 0.0, value)


def _compared(
    first: Sequence[int], second: Sequence[int], scores: Mapping[int, float]
) -> tuple[int, float]:
    """Return the number of pairs of a first and a second rollout, and in how many the first scores higher."""
    ordered = sorted(scores[i] for i in second)
    better = sum(count_below(ordered, scores[i]) for i in first)
    return len(first) * len(second), better


def _rows(
    first: Sequence[int],
    second: Sequence[int],
    scores: Mapping[int, float],
    labels: Sequence[WeightedLabel | None],
    pairs: PairValues | None,
    ids: Sequence[str],
) -> Iterator[tuple[float, float, float]]:
    """Yield for each labelled pair the judge's value, that of people, and its weight."""
    if pairs is not None:
        copies = [Counter(ids[i] for i in side) for side in (first, second)]
        for (one, other), (value, weight) in pairs.items():
            for i, j, own in ((one, other, value), (other, one, 1 - value)):
                # what is said of two rollouts holds for all that are identical with them
                number = copies[0][ids[i]] * copies[1][ids[j]]
                if number:
                    yield won(scores[i], scores[j]), own, weight * number
        return
    sides = [[i for i in side if labels[i] is not None] for side in (first, second)]
    dice = random.Random(0)
    sides = [
        dice.sample(own, _AT_ONCE) if len(own) > _AT_ONCE else own for own in sides
    ]
    for i in sides[0]:
        for j in sides[1]:
            if ids[i] == ids[j]:
                continue
            a: Any = labels[i]
            b: Any = labels[j]
            value = won(a[0], b[0])
            yield won(scores[i], scores[j]), value, a[1] * b[1]


def _as_json(mean: CorrectedMean) -> Json:
    """Return the means as JSON, None for those that are not known."""
    found = mean.estimate()
    return {
        "number": round(mean.number),
        "labelled": mean.labels,
        **(asdict(found) if found else dict.fromkeys(_MEANS)),
    }
