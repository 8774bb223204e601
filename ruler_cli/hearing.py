"""Groups → what became of them, whoever is asked: the bench of a run, its first passes, its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ruler_cli.judges.choose import Chosen
from ruler_cli.judges.prices import Model
from ruler_cli.judging import Bench, Check, Outcome, Seat, Told, judge_group
from ruler_cli.pool.cached_only import CachedOnly
from ruler_cli.pool.caller import Caller
from ruler_cli.records import Group
from ruler_cli.scoring.coverage import Coverage
from ruler_cli.settings import JudgeSettings, ScoreSettings

if TYPE_CHECKING:  # see `Hearing`
    from ruler_cli.blocks import Member


@dataclass(frozen=True, slots=True)
class Item:
    """A group on its way, with its place among those that decide together."""

    group: Group
    place: Member | None


class Hearing:
    """The judges of a run in session: groups in, outcomes out."""

    def __init__(
        self,
        settings: ScoreSettings,
        chosen: Sequence[Chosen | Model],
        callers: Sequence[Caller | CachedOnly],
        told: Told | None = None,
        coverage: Coverage | None = None,
    ) -> None:
        """`callers` ask the `chosen`, in the order of `judges_of`; `told` hears each reply.

        `coverage` takes in the first groups.
        """
        self._coverage = coverage
        context = settings.ask.context_tokens
        seats = [
            Seat(caller.call, context or found.context) for found, caller in zip(chosen, callers, strict=True)
        ]
        stronger = seats.pop() if settings.escalate else None
        self._bench = Bench(tuple(seats), settings.fallback, stronger, _check(settings))
        self._told, self._retry_failed = told, settings.retry_failed
        self._ask, self._blocks = settings.ask, None
        if settings.adaptive or stronger:  # imported where needed: longer than the first request may wait
            from ruler_cli.blocks import Blocks
            from ruler_cli.scoring.gain import FIRST

            passes = settings.ask.passes
            self._blocks = Blocks(passes if settings.adaptive else None)
            self._ask = replace(settings.ask, passes=min(FIRST, passes) if settings.adaptive else passes)

    def place(self, group: Group) -> Item:
        """The next group of the input, with its place among its neighbours."""
        return Item(group, self._blocks.place(group) if self._blocks is not None else None)

    def end(self) -> None:
        """No more groups come: the last ones decide without others."""
        if self._blocks is not None:
            self._blocks.close()

    async def judge(self, item: Item) -> Outcome:
        """Ask all that there is to ask about a group."""
        coverage = self._coverage
        return await judge_group(
            item.group,
            self._ask,
            self._bench,
            self._told,
            retry_failed=self._retry_failed,
            further=item.place,
            on_layout=None if coverage is None or coverage.enough else coverage.glance,
        )


def judges_of(settings: ScoreSettings) -> list[JudgeSettings]:
    """Every judge of a run: the panel in order, the stronger one last."""
    return [judge for judge in (settings.judge, *settings.panel, settings.escalate) if judge]


def _check(settings: ScoreSettings) -> Check | None:
    """What tells whether a rollout passed: the path that the user named, else the reward if it is to."""
    if settings.input.outcome is not None:
        return "outcome"
    return "reward" if settings.combine.by_outcome else None
