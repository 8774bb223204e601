"""All that was said of a group, with the numbers of the group itself, as one value without its text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ruler_cli.ballots import Ballot, Judged, Miss
from ruler_cli.formats.rewards import number, passed
from ruler_cli.records import Group
from ruler_cli.scoring.sheet import Sheet

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

    `check` is which field of a rollout tells whether it passed; None: nobody asks.
    """
    rollouts = group.rollouts
    found = [passed(getattr(rollout, check)) if check else None for rollout in rollouts]
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
        rewards=tuple(number(rollout.reward) for rollout in rollouts),
        outcomes=tuple(None if fine is None else float(fine) for fine in found),
    )
