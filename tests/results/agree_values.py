"""Scored groups as hypothesis strategies and small builders."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from ruler_cli.results.agreement import Agreement, AgreementBuilder
from ruler_cli.results.record import GroupRecord, RolloutRecord

grades = st.integers(0, 4).map(lambda n: n / 4)
"""Few different numbers, so that ties are common."""
rows = st.lists(st.tuples(grades, grades), min_size=1, max_size=9)
"""(score, label) of the rollouts of a group."""


def scored(
    scores: Sequence[float | None],
    labels: Sequence[float | None],
    *,
    key: str = "g",
    judges: Mapping[str, Sequence[float]] | None = None,
) -> GroupRecord:
    """A group with these scores and labels, and with the scores of a panel."""
    panel = [
        [{"judge": name, "score": own[i]} for name, own in (judges or {}).items()]
        for i in range(len(scores))
    ]
    each = zip(scores, labels, panel, strict=True)
    rollouts = tuple(
        scored_rollout(score, label, judges=own) for score, label, own in each
    )
    return GroupRecord("scored", key, rollouts=rollouts)


def scored_rollout(
    score: float | None, label: float | None, *at: float, **more: object
) -> RolloutRecord:
    """A rollout with this score and this label."""
    return RolloutRecord(
        "scored",
        score,
        score,
        indices=(0,),
        label=label,
        slots=at,
        **more,  # type: ignore[arg-type]
    )


def drawn(groups: int, size: int, seed: int, noise: float = 0.3) -> list[GroupRecord]:
    """Groups with labels 0 and 1, and with scores that are noisy labels."""
    dice = random.Random(seed)
    result = []
    for number in range(groups):
        rate = dice.betavariate(0.6, 0.6)
        labels = [float(dice.random() < rate) for _ in range(size)]
        scores = [0.4 * label + dice.gauss(0.3, noise) for label in labels]
        result.append(scored(scores, labels, key=str(number)))
    return result


def measure(groups: Iterable[GroupRecord], name: str = "score") -> Agreement:
    """Measure one scored file, and each judge of its panel."""
    builder = AgreementBuilder(name)
    for group in groups:
        builder.add(group)
    return builder.agreement()
