"""One group → all that its judges say: passes, panel, fallback, further passes, escalation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ruler_cli.ballots import Ballot, Judged, Miss
from ruler_cli.pool.engine import Held, together
from ruler_cli.records import Failure, Group, Usage
from ruler_cli.scoring.collect import Check, judged_of
from ruler_cli.scoring.dialogue import Overflow
from ruler_cli.scoring.fit import lay_out
from ruler_cli.scoring.plan import Part, halved, obstacle, parts, turn_of, turns, windows
from ruler_cli.scoring.sheet import Sheet
from ruler_cli.settings import AskSettings
from ruler_cli.talks import Seat, Talks, Told

if TYPE_CHECKING:  # few runs need it, and it takes longer than the first request may wait
    from ruler_cli.blocks import Member

_FOR_GOOD = ("refused", "too_long", "input", "interrupted", "budget")
"""Kinds of a first failure after which the other passes of the judge would fail too."""
_ANEW = 2
"""Times that a group is laid out anew for a judge that reads less than was known; its text then takes
another number of tokens for its length, so once may not be enough."""
_HELD = 32 << 20
"""Bytes of prompts that a group's requests hold while they wait for their turn: passes over a large group
come to many times its text."""
_UNDECIDED = Failure("transport", "the ledger lacks answers of groups that share passes with this one")
_ESCALATED = 2
"""Passes of the stronger judge: an order and its reverse."""


_Said = Ballot | Failure | Overflow
OnLayout = Callable[[Group, Sheet], None]


@dataclass(frozen=True, slots=True)
class Bench:
    """The judges of a run. With `fallback` each takes over where the one before refuses, else all score.

    `stronger` is asked about a group only when the others leave it unresolved. `check` is what tells
    whether a rollout passed, where that is asked.
    """

    seats: tuple[Seat, ...]
    fallback: bool = False
    stronger: Seat | None = None
    check: Check | None = None

    @property
    def all(self) -> tuple[Seat, ...]:
        """Every judge; the stronger one is the last."""
        return (*self.seats, self.stronger) if self.stronger else self.seats


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group.

    `seconds` is what judges took for their replies, `kept` that none of them had to be asked for, `used`
    the tokens of all replies by judge, whenever they were asked for, `paid` of those that were asked now,
    `ended` when this run had judged it, in seconds since 1970 in UTC.
    """

    judged: Judged
    seconds: float
    kept: bool
    used: tuple[Usage, ...]
    paid: tuple[Usage, ...]
    ended: float

    @property
    def usage(self) -> Usage:
        """Tokens of all replies of the group."""
        return sum(self.used, Usage())


async def judge_group(
    group: Group,
    ask: AskSettings,
    bench: Bench,
    on_reply: Told | None = None,
    *,
    retry_failed: bool = False,
    further: Member | None = None,
    on_layout: OnLayout | None = None,
) -> Outcome:
    """Ask every pass of every judge, and what `further` decides then.

    A failure that earlier answers led to is one still; with `retry_failed` it is asked anew. `on_layout`
    is told the group as its first judge is shown it.
    """
    sitting = _Sitting(group, ask, bench, on_reply, retry_failed)
    sitting.on_layout = on_layout
    await sitting.first()
    if further is not None:
        await sitting.go_on(further)
    return sitting.outcome()


class _Sitting:
    """One group before its judges: what they have said so far and what it took."""

    def __init__(
        self, group: Group, ask: AskSettings, bench: Bench, on_reply: Told | None, retry_failed: bool
    ) -> None:
        self._group, self._bench = group, bench
        self._talks = Talks(group.key, bench.all, on_reply, retry_failed)
        self._asks = [
            ask if ask.context_tokens == seat.context else replace(ask, context_tokens=seat.context)
            for seat in bench.all
        ]
        self._sheets: dict[int, Sheet] = {}
        self._ballots: list[Ballot] = []
        self._misses: list[Miss] = []
        self._windows: dict[int, int] = {}
        self._turns, self._anew = [0] * len(bench.all), [0] * len(bench.all)
        self._final: int | None = None
        self._held = Held(_HELD)
        self.on_layout: OnLayout | None = None

    async def first(self) -> None:
        """The first passes of every judge; with fallback, of the first that does not refuse."""
        seats = range(len(self._bench.seats))
        if not self._bench.fallback:
            await together([partial(self._begin, seat) for seat in seats])
            return
        for seat in seats:
            await self._begin(seat)
            if self._scored_all(seat) or not self._refused(seat):
                return
            self._ballots = [ballot for ballot in self._ballots if ballot.judge != seat]

    async def go_on(self, further: Member) -> None:
        """Further passes of the judges that have scored it, and the stronger judge."""
        while more := await further.more(self.judged(), self._tokens):
            scored = sorted({ballot.judge for ballot in self._ballots})
            await together([partial(self._more, seat, more) for seat in scored])
        if self._bench.stronger is not None and await further.escalate(self.judged(), self._tokens):
            self._final = len(self._bench.seats)
            await self._begin(self._final, _ESCALATED)
        if further.undecided and self._ballots:
            seat = min(ballot.judge for ballot in self._ballots)
            self._misses.append(Miss(seat, self._turns[seat], 0, _UNDECIDED))

    def judged(self) -> Judged:
        """What was said so far, in an order that does not depend on who answered first."""
        ballots = sorted(self._ballots, key=lambda b: (b.judge, b.turn, b.window))
        misses = sorted(self._misses, key=lambda m: (m.judge, m.turn, m.window))
        if self._bench.fallback and ballots:  # who refused before was replaced
            misses = [miss for miss in misses if miss.judge >= ballots[0].judge]
        heard = {ballot.judge for ballot in ballots} or set(self._sheets)
        return judged_of(
            self._group,
            max((self._sheets[seat] for seat in sorted(heard)), key=lambda sheet: sheet.shortening),
            ballots,
            misses,
            windows=max((self._windows.get(seat, 1) for seat in heard), default=1),
            judges=1 if self._bench.fallback else len(self._bench.seats),
            final=self._final,
            check=self._bench.check,
        )

    def outcome(self) -> Outcome:
        """All of it, at the end."""
        talks = self._talks
        used, paid = tuple(talks.used), tuple(talks.paid)
        return Outcome(self.judged(), talks.seconds, talks.kept, used, paid, time.time())

    @property
    def _tokens(self) -> float:
        """Estimated tokens of one pass of every judge that has been asked."""
        return float(sum(sheet.tokens for sheet in self._sheets.values()))

    def _scored_all(self, seat: int) -> bool:
        """Whether each distinct rollout has a score of a judge: one that refuses a window leaves some out."""
        scored = {body for ballot in self._ballots if ballot.judge == seat for body in ballot.bodies}
        return bool(scored) and len(scored) == len(self._sheets[seat].bodies)

    def _refused(self, seat: int) -> bool:
        return any(m.judge == seat and m.failure.kind == "refused" for m in self._misses)

    async def _begin(self, seat: int, least: int = 1) -> None:
        """A judge's passes: one request goes ahead, and fills the provider's cache for all others."""
        opened = await self._opened(seat)
        if opened is None:
            return
        (first, *others), said = opened
        sheet, ask = self._sheets[seat], self._asks[seat]
        self._windows[seat] = windows(sheet, ask)
        self._turns[seat] = max(least, turns(sheet, ask))
        await self._settle(seat, first, said)
        if isinstance(said, Failure) and said.kind in _FOR_GOOD:
            return
        for turn in range(1, self._turns[seat]):
            others += parts(sheet, ask, self._turn(seat, turn))
        await together([partial(self._part, seat, part) for part in others])

    async def _opened(self, seat: int) -> tuple[tuple[Part, ...], _Said] | None:
        """The requests of the first pass and what came of the first of them; None where none can be asked.

        A judge that turns out to read less than was known is asked about a group laid out anew.
        """
        said: _Said | None = None
        while True:
            sheet, ask = self._sheet(seat), self._asks[seat]
            failure = obstacle(self._group, sheet, ask)
            if failure is not None:
                failure = said.too_long if isinstance(said, Overflow) else failure
                self._misses.append(Miss(seat, 0, 0, failure))
                return None
            found = parts(sheet, ask, self._turn(seat, 0))
            state = said.state if isinstance(said, Overflow) else None
            said = await self._talks.hold(seat, sheet, ask, found[0], state)
            if not isinstance(said, Overflow) or self._anew[seat] == _ANEW:
                return found, said
            self._anew[seat] += 1
            self._asks[seat] = replace(ask, context_tokens=said.target)
            del self._sheets[seat]

    async def _more(self, seat: int, passes: int) -> None:
        """Further passes of a judge."""
        begin, sheet, ask = self._turns[seat], self._sheets[seat], self._asks[seat]
        self._turns[seat] += passes
        numbers = range(begin, begin + passes)
        asked = [part for number in numbers for part in parts(sheet, ask, self._turn(seat, number))]
        await together([partial(self._part, seat, part) for part in asked])

    def _turn(self, seat: int, number: int) -> int:
        """Which turn a judge's pass of that number is; one that stands alone begins with turn 0."""
        beside_others = not self._bench.fallback and seat < len(self._bench.seats)
        return turn_of(number, seat) if beside_others else number

    def _sheet(self, seat: int) -> Sheet:
        """The group as this judge can read it: judges that read equally much share one."""
        if seat not in self._sheets:
            asks, mine = self._asks, self._asks[seat]
            same = (sheet for other, sheet in self._sheets.items() if asks[other] == mine)
            self._sheets[seat] = next(same, None) or lay_out(self._group, mine)
            if self.on_layout is not None:
                self.on_layout(self._group, self._sheets[seat])
                self.on_layout = None
        return self._sheets[seat]

    async def _part(self, seat: int, part: Part) -> None:
        sheet = self._sheets[seat]
        size = sum(map(sheet.sizes.__getitem__, part.bodies))
        await self._held.enter(size)
        try:
            said = await self._talks.hold(seat, sheet, self._asks[seat], part)
        finally:
            self._held.leave(size)
        await self._settle(seat, part, said)

    async def _settle(self, seat: int, part: Part, said: _Said) -> None:
        """Take what was said; a window of which the judge says that it is too long is asked in halves."""
        halves = halved(part, self._windows[seat]) if isinstance(said, Overflow) else ()
        if halves:
            await together([partial(self._part, seat, half) for half in halves])
        else:
            self._take(seat, part, said)

    def _take(self, seat: int, part: Part, said: _Said) -> None:
        if isinstance(said, Ballot):
            self._ballots.append(said)
            return
        failure = said.failure if isinstance(said, Overflow) else said
        self._misses.append(Miss(seat, part.turn, part.window, failure))


__all__ = ["Bench", "Outcome", "Seat", "judge_group"]
