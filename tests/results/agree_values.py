"""Scored groups as hypothesis strategies and small builders."""

from __future__ import annotations

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
    rollouts = []
    for i, (score, label) in enumerate(zip(scores, labels, strict=True)):
        panel = [
            {"judge": name, "score": column[i]}
            for name, column in (judges or {}).items()
        ]
        rollouts.append(scored_rollout(score, label, judges=panel))
    return GroupRecord("scored", key, rollouts=tuple(rollouts))


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


def measure(groups: Iterable[GroupRecord], name: str = "score") -> Agreement:
    """Measure one scored file, and each judge of its panel."""
    builder = AgreementBuilder(name)
    for group in groups:
        builder.add(group)
    return builder.agreement()
