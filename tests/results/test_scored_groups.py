"""Figures of a scored group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ruler_cli.results.record import GroupRecord, RolloutRecord


def scored_group(
    *scores: float | None,
    tied: bool = False,
    judge_scores: Sequence[float | None] | None = None,
) -> GroupRecord:
    """A group with these scores, which the judges gave unless `judge_scores` differ."""
    rollouts = tuple(
        RolloutRecord("failed" if s is None else "scored", s, j, indices=(i,))
        for i, (s, j) in enumerate(zip(scores, judge_scores or scores, strict=True))
    )
    scored = any(s is not None for s in scores)
    return GroupRecord(
        "scored" if scored else "failed", "g", rollouts=rollouts, tied=tied
    )


def test_tied() -> None:
    """A group is tied if the file states it, and by equal scores even if the file states otherwise."""
    assert scored_group(0.5, 0.5, tied=False).is_tied
    assert scored_group(0.5, 0.5, tied=False, judge_scores=(0.2, 0.8)).is_tied
    assert scored_group(0.25, 0.75, tied=True).is_tied
    assert not scored_group(0.25, 0.75, tied=False).is_tied


def test_one_score() -> None:
    """A group has one score if rollouts at several positions share it; identical ones share a position."""

    def one_score(group: GroupRecord, *positions: tuple[float, ...]) -> bool:
        rollouts = tuple(
            replace(r, slots=at)
            for r, at in zip(group.rollouts, positions, strict=True)
        )
        return replace(group, rollouts=rollouts).one_score

    assert one_score(scored_group(0.5, 0.5), (0.0,), (1.0,))
    assert one_score(
        scored_group(0.2, 0.8, None, judge_scores=(0.5, 0.5, None)), (0.0,), (1.0,), ()
    )
    assert not one_score(
        scored_group(0.5, 0.5, judge_scores=(0.2, 0.8)), (0.0,), (1.0,)
    )
    assert not one_score(scored_group(0.5, 0.5, None), (0.0,), (0.0,), ())
    assert not one_score(scored_group(0.5, 0.5), (), ())
    assert not one_score(scored_group(None, None), (), ())
