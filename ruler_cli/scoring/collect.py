"""All that was said of a group, with the numbers of the group itself, as one value without its text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from ruler_cli.ballots import Ballot, Judged, Miss
from ruler_cli.formats.rewards import number, passed
from ruler_cli.records import Group, Rollout
from ruler_cli.scoring.sheet import Sheet

T = TypeVar("T")
Check = Literal["outcome", "reward"]


def judged_of(
    group: Group,
    sheet: Sheet,
    ballots: Iterable[Ballot] = (),
    misses: Iterable[Miss] = (),
    *,
    windows: int = 1,
    judges: int = 1,
    final: int | None = None,
    check: Check | None = None,
) -> Judged:
    """What judges said of a group that was laid out as `sheet`; `windows` is that of its passes.

    `check` is which field of a rollout tells whether it passed; None: nobody asks. Parts of one rollout
    have one reward and one outcome: those of the last part that has any.
    """
    rollouts = group.rollouts
    found = _by_member(rollouts, [passed(getattr(r, check)) if check else None for r in rollouts])
    return Judged(
        owner=sheet.owner,
        faults=tuple(rollout.fault or "" for rollout in rollouts),
        sizes=sheet.sizes,
        ballots=tuple(ballots),
        misses=tuple(misses),
        suspects=sheet.suspects,
        shortened=sheet.shortening,
        judges=judges,
        windows=windows,
        final=final,
        rewards=tuple(_by_member(rollouts, [number(rollout.reward) for rollout in rollouts])),
        outcomes=tuple(None if fine is None else float(fine) for fine in found),
    )


def _by_member(rollouts: Sequence[Rollout], values: Sequence[T | None]) -> Sequence[T | None]:
    last = {
        rollout.member: value
        for rollout, value in zip(rollouts, values, strict=True)
        if rollout.member is not None and value is not None
    }
    if not last:
        return values
    return [
        value if rollout.member is None else last.get(rollout.member)
        for rollout, value in zip(rollouts, values, strict=True)
    ]
