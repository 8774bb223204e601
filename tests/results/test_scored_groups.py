"""Figures of a scored group."""

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
    """Equal scores are tied, by the judge or as written, also if a file says that they are not.

    Files of earlier versions say `false` for one score of all.
    """
    assert of(0.5, 0.5, tied=False).tied
    assert of(0.5, 0.5, tied=False, judged=(0.2, 0.8)).tied
    assert of(0.25, 0.75, tied=False, judged=(0.5, 0.5)).tied
    assert not of(0.25, 0.75, tied=False, judged=(0.5, None)).tied
    assert not of(0.25, 0.75, tied=False).tied


def test_one_score_is_of_rollouts_that_were_seen_apart() -> None:
    """Different rollouts with one score were seen at several positions; identical ones share one."""

    def seen(group: ScoredGroup, *slots: tuple[float, ...]) -> bool:
        rollouts = tuple(replace(r, positions=at) for r, at in zip(group.rollouts, slots, strict=True))
        return replace(group, rollouts=rollouts).one_score

    assert seen(of(0.5, 0.5), (0.0,), (1.0,))
    assert seen(of(0.2, 0.8, None, judged=(0.5, 0.5, None)), (0.0,), (1.0,), ())
    assert not seen(of(0.5, 0.5, judged=(0.2, 0.8)), (0.0,), (1.0,))
    assert not seen(of(0.5, 0.5, None), (0.0,), (0.0,), ())
    assert not seen(of(0.5, 0.5), (), ())
    assert not seen(of(None, None), (), ())
