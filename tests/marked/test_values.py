"""What may be asked of a group that was scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ruler_cli.marked.values import MarkedGroup, MarkedRollout


def of(
    *scores: float | None, tied: bool | None = None, judged: Sequence[float | None] | None = None
) -> MarkedGroup:
    """A group with these scores, which the judges gave if they did not give others."""
    rollouts = tuple(
        MarkedRollout((i,), "failed" if s is None else "scored", s, j)
        for i, (s, j) in enumerate(zip(scores, judged or scores, strict=True))
    )
    scored = any(s is not None for s in scores)
    return MarkedGroup("g", rollouts, "scored" if scored else "failed", marked_tied=tied)


def test_a_group_is_failed_tied_or_live() -> None:
    """Every group that was asked about is exactly one of failed, tied and live."""
    groups = [of(None, None), of(0.5, 0.5), of(0.2, 0.9), of(0.2, 0.9, tied=True), of(0.4), of(None, 0.3)]
    assert [(g.failed, g.tied, g.live) for g in groups] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (False, True, False),
        (False, True, False),
        (False, True, False),
    ]


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

    def seen(group: MarkedGroup, *slots: tuple[float, ...]) -> bool:
        rollouts = tuple(replace(r, slots=at) for r, at in zip(group.rollouts, slots, strict=True))
        return replace(group, rollouts=rollouts).one_score

    assert seen(of(0.5, 0.5), (0.0,), (1.0,))
    assert seen(of(0.2, 0.8, None, judged=(0.5, 0.5, None)), (0.0,), (1.0,), ())
    assert not seen(of(0.5, 0.5, judged=(0.2, 0.8)), (0.0,), (1.0,))
    assert not seen(of(0.5, 0.5, None), (0.0,), (0.0,), ())
    assert not seen(of(0.5, 0.5), (), ())
    assert not seen(of(None, None), (), ())


def test_disputes() -> None:
    """Of pairs with unlike labels those count that the judge orders the other way, a tie as one half."""
    group = of(0.9, 0.4, 0.4, None, 0.1)
    labels = (0.0, 1.0, 0.0, 1.0, None)
    labelled = tuple(replace(r, label=label) for r, label in zip(group.rollouts, labels, strict=True))
    assert replace(group, rollouts=labelled).disputes == (1.5, 2)
    assert replace(group, rollouts=labelled).disagreement == 0.75
    assert (group.disputes, group.disagreement) == ((0.0, 0), None)
