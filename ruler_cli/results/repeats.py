"""Copies of a group, such as those of a file that stands twice in another → one group with their mean scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ruler_cli.results.agreement import was_asked
from ruler_cli.results.record import GroupRecord, RolloutRecord, changed
from ruler_cli.scoring.combine import mean


class Merged(NamedTuple):
    """A group, and if its copies differ in scores and in labels."""

    group: GroupRecord
    scores_differ: bool
    labels_differ: bool


def merged(copies: Sequence[tuple[Sequence[str], GroupRecord]]) -> Merged:
    """Return the mean of groups with equal rollouts, in the order of the first one; ids tell which are equal.

    What only some of them have counts: a score, a label.
    """
    orders = [_order(ids, group) for ids, group in copies]
    rows = [
        [group.rollouts[i] for (_, group), i in zip(copies, places, strict=True)]
        for places in sorted(zip(*orders, strict=True))
    ]
    groups = [group for _, group in copies]
    base = max(groups, key=lambda one: (one.status == "scored", was_asked(one)))
    return Merged(
        changed(base, rollouts=tuple(map(_mean_rollout, rows))),
        any(len({one.judge_score for one in row}) > 1 for row in rows),
        any(len({one.label for one in row}) > 1 for row in rows),
    )


def _order(ids: Sequence[str], group: GroupRecord) -> list[int]:
    """Sort rollouts by their ids; of identical ones with different labels the lower label comes first."""

    def place(i: int) -> tuple[str, bool, float]:
        label = group.rollouts[i].label
        return ids[i], label is None, label or 0.0

    return sorted(range(len(ids)), key=place)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each name over the rows that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: mean([row[name] for row in rows if name in row]) for name in names}


def _mean_rollout(copies: Sequence[RolloutRecord]) -> RolloutRecord:
    base = max(copies, key=lambda one: one.judge_score is not None)
    criteria = _means([one.criterion_values for one in copies])
    panel = _means([one.panel for one in copies])
    return changed(
        base,
        judge_score=_mean(one.judge_score for one in copies),
        label=_mean(one.label for one in copies),
        judges=[
            {"judge": name, "score": score, "explanation": ""}
            for name, score in panel.items()
        ],
        criteria=[{"name": name, "value": value} for name, value in criteria.items()],
    )
