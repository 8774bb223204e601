"""A group's marks → what each pass over it gave, slot by slot: the requests of the slot curve."""

from __future__ import annotations

from ruler_cli.marked.values import MarkedGroup
from ruler_cli.statistics.slots import middle

_ROUNDED = 0.0005 + 1e-9
"""How far a place in a file may be from the slot that it stands for."""
_MOST = 1000
"""Rollouts shown at once up to which three decimals tell each slot from the next."""


def requests(group: MarkedGroup) -> list[tuple[float, ...]]:
    """For each pass that counts, the scores of the distinct rollouts in the order in which they were shown.

    Identical rollouts share their slots and count once. Nothing where the marks do not tell which rollouts
    a request showed, or where: windows, a rollout that is missing, passes without their scores.
    """
    if "windows" in group.flags:
        return []
    shown: dict[tuple[float, ...], tuple[float, ...]] = {}
    for rollout in group.rollouts:
        if rollout.status == "scored":
            alone = () if rollout.judged is None or len(rollout.slots) != 1 else (rollout.judged,)
            shown.setdefault(rollout.slots, rollout.pass_scores or alone)
    passes = {len(row) for row in (*shown, *shown.values())}
    if len(passes) != 1 or len(shown) > _MOST:
        return []
    found = [
        sorted((places[turn], given[turn]) for places, given in shown.items()) for turn in range(*passes)
    ]
    last = len(shown) - 1
    if any(abs(at * last - slot) > _ROUNDED * last for row in found for slot, (at, _) in enumerate(row)):
        return []
    return [tuple(score for _, score in row) for row in found]


def stretches(group: MarkedGroup) -> list[list[float] | None]:
    """Where on the slot curve each rollout counts, pass by pass; None where the curve leaves it out."""
    size = len(next(iter(requests(group)), ()))
    if size < 2:
        return [None] * len(group.rollouts)
    return [
        [middle(round(at * (size - 1)), size) for at in rollout.slots] if rollout.status == "scored" else None
        for rollout in group.rollouts
    ]
