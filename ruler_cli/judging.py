"""One group → all that its judges say: passes, panel, fallback, further passes, escalation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from ruler_cli.ballots import Ballot, Miss, Outcome
from ruler_cli.formats.rewards import number, passed
from ruler_cli.pool.engine import Held, together
from ruler_cli.records import Failure, Fault, Group, Reply, Request, Rollout, Usage
from ruler_cli.scoring.dialogue import Overflow, State, converse
from ruler_cli.scoring.request import Part, halved, lay_out, obstacle, parts, turn_of, turns, windows
from ruler_cli.scoring.sheet import Sheet
from ruler_cli.settings import AskSettings

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

T = TypeVar("T")
Check = Literal["outcome", "reward"]
Told = Callable[[str, str], None]
"""Gets a group's key, and a reply's text or the reason why there is none."""
OnLayout = Callable[[Group, Sheet], None]
_Said = Ballot | Failure | Overflow


class Call(Protocol):
    """What asks: the pool's caller."""

    async def __call__(self, request: Request, *, again: bool = False) -> Reply | Fault:
        """One answer; `again` asks anew what was answered in an earlier run."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One judge as a group meets it: what asks it, how many tokens it reads (None: not known)."""

    call: Call
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """The judges of a run. With `fallback` each takes over where the one before refuses, else all score.

    `stronger` is asked about a group only when the others leave it unresolved. `check` is the field of a
    rollout that tells whether it passed; None: nobody asks.
    """

    seats: tuple[Seat, ...]
    fallback: bool = False
    stronger: Seat | None = None
    check: Check | None = None

    @property
    def all(self) -> tuple[Seat, ...]:
        """Every judge; the stronger one is the last."""
        return (*self.seats, self.stronger) if self.stronger else self.seats


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
    run = _GroupRun(group, ask, bench, on_reply, retry_failed, on_layout)
    await run.first()
    if further is not None:
        await run.go_on(further)
    return run.outcome()


class _GroupRun:
    """One group before its judges: what they have said so far and what it took."""

    def __init__(
        self,
        group: Group,
        ask: AskSettings,
        bench: Bench,
        on_reply: Told | None,
        retry_failed: bool,
        on_layout: OnLayout | None,
    ) -> None:
        self._group, self._bench = group, bench
        self._on_reply, self._retry, self._on_layout = on_reply, retry_failed, on_layout
        self._asks = [
            ask if ask.context_tokens == seat.context else replace(ask, context_tokens=seat.context)
            for seat in bench.all
        ]
        self._sheets: dict[int, Sheet] = {}
        self._ballots: list[Ballot] = []
        self._misses: list[Miss] = []
        self._windows: dict[int, int] = {}
        self._passes, self._anew = [0] * len(bench.all), [0] * len(bench.all)
        self._final: int | None = None
        self._held = Held(_HELD)
        self._used, self._paid = [Usage()] * len(bench.all), [Usage()] * len(bench.all)
        self._seconds = 0.0
        self._asked = self._fresh = False

    async def first(self) -> None:
        """The first passes of every judge; with fallback, of the first that does not refuse."""
        seats = range(len(self._bench.seats))
        if not self._bench.fallback:
            await together([partial(self._begin, seat) for seat in seats])
            return
        for seat in seats:
            await self._begin(seat)
            refused = any(m.judge == seat and m.failure.kind == "refused" for m in self._misses)
            if not refused or self._scored_all(seat):
                return
            self._ballots = [ballot for ballot in self._ballots if ballot.judge != seat]

    async def go_on(self, further: Member) -> None:
        """Further passes of the judges that have scored it, and the stronger judge."""
        while more := await further.more(self.outcome(), self._tokens):
            scored = sorted({ballot.judge for ballot in self._ballots})
            await together([partial(self._more, seat, more) for seat in scored])
        if self._bench.stronger is not None and await further.escalate(self.outcome(), self._tokens):
            self._final = len(self._bench.seats)
            await self._begin(self._final, _ESCALATED)
        if further.undecided and self._ballots:
            seat = min(ballot.judge for ballot in self._ballots)
            self._misses.append(Miss(seat, self._passes[seat], 0, _UNDECIDED))

    def outcome(self) -> Outcome:
        """All that was said so far, in an order that does not depend on who answered first."""
        ballots = sorted(self._ballots, key=lambda b: (b.judge, b.turn, b.window))
        misses = sorted(self._misses, key=lambda m: (m.judge, m.turn, m.window))
        if self._bench.fallback and ballots:  # who refused before was replaced
            misses = [miss for miss in misses if miss.judge >= ballots[0].judge]
        heard = {ballot.judge for ballot in ballots} or set(self._sheets)
        sheet = max((self._sheets[seat] for seat in sorted(heard)), key=lambda sheet: sheet.shortening)
        rollouts, check = self._group.rollouts, self._bench.check
        return Outcome(
            owner=sheet.owner,
            faults=tuple(rollout.fault or "" for rollout in rollouts),
            sizes=sheet.sizes,
            ballots=tuple(ballots),
            misses=tuple(misses),
            suspects=sheet.suspects,
            shortened=sheet.shortening,
            judges=1 if self._bench.fallback else len(self._bench.seats),
            windows=max((self._windows.get(seat, 1) for seat in heard), default=1),
            final=self._final,
            rewards=_by_member(rollouts, [number(rollout.reward) for rollout in rollouts]),
            outcomes=_by_member(rollouts, [passed(getattr(r, check)) if check else None for r in rollouts]),
            seconds=self._seconds,
            kept=self._asked and not self._fresh,
            used=tuple(self._used),
            paid=tuple(self._paid),
            ended=time.time(),
        )

    @property
    def _tokens(self) -> float:
        """Estimated tokens of one pass of every judge that has been asked."""
        return float(sum(sheet.tokens for sheet in self._sheets.values()))

    def _scored_all(self, seat: int) -> bool:
        """Whether each distinct rollout has a score of a judge: one that refuses a window leaves some out."""
        scored = {body for ballot in self._ballots if ballot.judge == seat for body in ballot.bodies}
        return bool(scored) and len(scored) == len(self._sheets[seat].bodies)

    async def _begin(self, seat: int, least: int = 1) -> None:
        """A judge's passes: one request goes ahead, and fills the provider's cache for all others."""
        opened = await self._opened(seat)
        if opened is None:
            return
        (first, *others), said = opened
        sheet, ask = self._sheets[seat], self._asks[seat]
        self._windows[seat] = windows(sheet, ask)
        self._passes[seat] = max(least, turns(sheet, ask))
        await self._take(seat, first, said)
        if isinstance(said, Failure) and said.kind in _FOR_GOOD:
            return
        await self._ask_all(seat, [*others, *self._parts(seat, range(1, self._passes[seat]))])

    async def _opened(self, seat: int) -> tuple[Sequence[Part], _Said] | None:
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
            found = self._parts(seat, range(1))
            said = await self._hold(seat, found[0], said.state if isinstance(said, Overflow) else None)
            if not isinstance(said, Overflow) or self._anew[seat] == _ANEW:
                return found, said
            self._anew[seat] += 1
            self._asks[seat] = replace(ask, context_tokens=said.target)
            del self._sheets[seat]

    async def _more(self, seat: int, passes: int) -> None:
        """Further passes of a judge."""
        begin = self._passes[seat]
        self._passes[seat] += passes
        await self._ask_all(seat, self._parts(seat, range(begin, begin + passes)))

    def _parts(self, seat: int, passes: Iterable[int]) -> list[Part]:
        """The requests of a judge's passes; those of one that stands alone begin with turn 0."""
        sheet, ask = self._sheets[seat], self._asks[seat]
        beside_others = not self._bench.fallback and seat < len(self._bench.seats)
        order = [turn_of(number, seat) if beside_others else number for number in passes]
        return [part for turn in order for part in parts(sheet, ask, turn)]

    def _sheet(self, seat: int) -> Sheet:
        """The group as this judge can read it: judges that read equally much share one."""
        if seat not in self._sheets:
            asks, mine = self._asks, self._asks[seat]
            same = (sheet for other, sheet in self._sheets.items() if asks[other] == mine)
            self._sheets[seat] = next(same, None) or lay_out(self._group, mine)
            if self._on_layout is not None:
                self._on_layout(self._group, self._sheets[seat])
                self._on_layout = None
        return self._sheets[seat]

    async def _ask_all(self, seat: int, asked: Iterable[Part]) -> None:
        await together([partial(self._part, seat, part) for part in asked])

    async def _part(self, seat: int, part: Part) -> None:
        size = sum(map(self._sheets[seat].sizes.__getitem__, part.bodies))
        await self._held.enter(size)
        try:
            said = await self._hold(seat, part)
        finally:
            self._held.leave(size)
        await self._take(seat, part, said)

    async def _take(self, seat: int, part: Part, said: _Said) -> None:
        """Take what was said; a window of which the judge says that it is too long is asked in halves."""
        halves = halved(part, self._windows[seat]) if isinstance(said, Overflow) else ()
        if halves:
            await self._ask_all(seat, halves)
        elif isinstance(said, Ballot):
            self._ballots.append(said)
        else:
            failure = said.failure if isinstance(said, Overflow) else said
            self._misses.append(Miss(seat, part.turn, part.window, failure))

    async def _hold(self, seat: int, part: Part, state: State | None = None) -> _Said:
        """Ask about a part until there is a ballot or a reason why not; a kept failure again if told so."""
        said, kept = await self._driven(seat, part, state, again=False)
        if self._retry and kept and isinstance(said, Failure):
            said, _ = await self._driven(seat, part, state, again=True)
        return replace(said, judge=seat) if seat and isinstance(said, Ballot) else said

    async def _driven(self, seat: int, part: Part, state: State | None, *, again: bool) -> tuple[_Said, bool]:
        """What a conversation ends in, and whether all of it had been answered before."""
        conversation = converse(self._sheets[seat], self._asks[seat], part, state)
        call, kept = self._bench.all[seat].call, True
        try:
            request = next(conversation)
            while True:
                answer = await call(request, again=again)
                kept = kept and answer.kept
                self._note(seat, answer)
                request = conversation.send(answer)
        except StopIteration as end:
            return end.value, kept

    def _note(self, seat: int, answer: Reply | Fault) -> None:
        """Count what an answer took."""
        self._asked = True
        self._fresh = self._fresh or not answer.kept
        if isinstance(answer, Reply):
            self._seconds += answer.seconds
            self._used[seat] += answer.usage
            self._paid[seat] += Usage() if answer.kept else answer.usage
        if self._on_reply is not None:
            self._on_reply(self._group.key, answer.text if isinstance(answer, Reply) else answer.reason)


def _by_member(rollouts: Sequence[Rollout], values: Sequence[T | None]) -> tuple[T | None, ...]:
    """Values of rollouts, where parts of one rollout have one: that of the last part that has any."""
    pairs = list(zip(rollouts, values, strict=True))
    last = {r.member: value for r, value in pairs if r.member is not None and value is not None}
    return tuple(value if r.member is None else last.get(r.member) for r, value in pairs)


__all__ = ["Bench", "Check", "Outcome", "Seat", "Told", "judge_group"]
