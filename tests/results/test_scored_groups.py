"""What may be asked of a group that was scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout


def of(
    *scores: float | None, tied: bool | None = None, judged: Sequence[float | None] | None = None
) -> ScoredGroup:
    """A group with these scores, which the judges gave if they did not give others."""
    rollouts = tuple(
        ScoredRollout((i,), "failed" if s is None else "scored", s, j)
        for i, (s, j) in enumerate(zip(scores, judged or scores, strict=True))
    )
    scored = any(s is not None for s in scores)
    return ScoredGroup("g", rollouts, "scored" if scored else "failed", annotated_tied=tied)


def test_one_score_is_a_tie_whoever_levelled_it() -> None:
    """Equal scores are tied by the judge's word or as written, also where a file marks them as no tie.

    Files written before one score for all was marked say `false`.
    """
    assert of(0.5, 0.5, tied=False).tied
    assert of(0.5, 0.5, tied=False, judged=(0.2, 0.8)).tied
    assert of(0.25, 0.75, tied=False, judged=(0.5, 0.5)).tied
    assert not of(0.25, 0.75, tied=False, judged=(0.5, None)).tied
    assert not of(0.25, 0.75, tied=False).tied


def test_one_score_is_of_rollouts_that_were_seen_apart() -> None:
    """Unlike rollouts with one score were seen at several places; identical ones share one place."""

    def seen(group: ScoredGroup, *slots: tuple[float, ...]) -> bool:
        rollouts = tuple(replace(r, positions=at) for r, at in zip(group.rollouts, slots, strict=True))
        return replace(group, rollouts=rollouts).one_score

    assert seen(of(0.5, 0.5), (0.0,), (1.0,))
    assert seen(of(0.2, 0.8, None, judged=(0.5, 0.5, None)), (0.0,), (1.0,), ())
    assert not seen(of(0.5, 0.5, judged=(0.2, 0.8)), (0.0,), (1.0,))
    assert not seen(of(0.5, 0.5, None), (0.0,), (0.0,), ())
    assert not seen(of(0.5, 0.5), (), ())
    assert not seen(of(None, None), (), ())
