"""The line before the judge: first come, first served, and nobody passes who must not go yet."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from ruler_cli.observer import Status
from ruler_cli.pool.budget import Budget, Estimates
from ruler_cli.pool.concurrency import ConcurrencyLimit
from ruler_cli.pool.cooldown import Breaker, Cooldown
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.limits import Entry, Window
from ruler_cli.types import CallError, Request, Usage

Cost = Callable[[Usage], float | None]
INTERRUPTED = CallError(
    "interrupted", "the run was stopped before this group was judged", "group", sent=False
)
CAPPED = CallError("budget", "--max-cost is reached; run again with a higher one", "group", sent=False)


@dataclass(slots=True)
class Permit:
    """One call that may go, with what it has reserved of tokens, money and (`sent`) requests.

    `number` counts what is sent, `began` is when that was.
    """

    request: Request
    number: int
    began: float
    epoch: int
    probe: bool
    tokens: int
    cost: float
    entry: Entry
    sent: Entry


@dataclass(slots=True, order=True)
class _Place:
    """A place in the line; an earlier ticket goes first, also when it comes back to try again."""

    ticket: int
    number: int
    moved: anyio.Event = field(default_factory=anyio.Event, compare=False)


class Gate:
    """Level, limits, money, cooldown and breaker as one question: may this call go now?"""

    def __init__(
        self,
        level: ConcurrencyLimit,
        halt: StopSignal,
        *,
        requests: Window | None = None,
        tokens: Window | None = None,
        budget: Budget | None = None,
        estimates: Estimates | None = None,
        cost: Cost = lambda _: None,
    ) -> None:
        """`cost` is USD of a usage, None where the price is not known."""
        self.level, self.stop_signal = level, halt
        self.requests, self.tokens = requests or Window(), tokens or Window()
        self.budget, self.estimates = budget or Budget(), estimates or Estimates()
        self.budget.watchers.append(self.nudge)
        self.breaker = Breaker(anyio.current_time())
        self.in_flight = 0
        self._cost = cost
        self._cooldown, self._limited_until = Cooldown(), -math.inf
        self._line: list[_Place] = []
        self._numbers, self._sent = itertools.count(), itertools.count()
        self._probing: Permit | None = None
        self._replies = 0
        self._room = anyio.Event()

    async def enter(self, ticket: int, request: Request) -> Permit | CallError:
        """Wait for the turn; a CallError where nothing goes any more."""
        place = _Place(ticket, next(self._numbers))
        heapq.heappush(self._line, place)
        try:
            while True:
                wait = self._wait(request) if self._line[0] is place else math.inf
                if closed := self._closed():
                    return closed
                if not wait:
                    return self._take(request)
                place.moved = anyio.Event()
                if wait == math.inf:
                    await place.moved.wait()
                else:
                    with anyio.move_on_after(wait):
                        await place.moved.wait()
        finally:
            if self._line[0] is place:
                heapq.heappop(self._line)
            else:
                self._line.remove(place)
                heapq.heapify(self._line)
            self.nudge()

    def leave(self, permit: Permit, usage: Usage | None, posts: int = 1, *, billed: bool = True) -> None:
        """The call is over: settle what it reserved.

        `usage` is None where there was no reply; `posts` is how many requests it was at the endpoint.
        """
        now = anyio.current_time()
        if posts > 1:
            self.requests.take(now, posts - 1)
        self.in_flight -= 1
        if permit is self._probing:
            self._probing = None
        self._replies += usage is not None
        if usage is not None and usage.prompt:
            self.estimates.learn(permit.request, usage)
            self.tokens.settle(now, permit.entry, usage.prompt + usage.completion - permit.tokens)
            self.budget.settle(permit.cost, self._cost(usage) or 0.0)
        elif billed:
            self.budget.settle(permit.cost, None)
        else:
            self.tokens.settle(now, permit.entry, -permit.tokens)
            self.budget.settle(permit.cost, 0.0)
        self.nudge()

    def refused(self, permit: Permit, seconds: float, *, rate: bool) -> bool:
        """A call is to wait for so long, and all others unless that is its own; whether it is."""
        now = anyio.current_time()
        held = seconds > 0 and self._cooldown.refused(now, permit.number, seconds)
        if seconds and not held:
            return True
        if rate and not (held and self.level.alone and not self._cooldown.begun):
            self.level.rejected(now, permit.epoch, self.in_flight, seconds)
        return False

    def answered(self, permit: Permit) -> None:
        """Note that a call was answered, which may end a wait of all."""
        cooldown, single = self._cooldown, self._cooldown.single
        cooldown.answered(anyio.current_time(), permit.number, permit.began)
        if cooldown.single and not single:
            self.level.cleared()

    def nudge(self) -> None:
        """Have the head of the line look again; all of it when nothing goes any more."""
        for place in self._line if self._closed() else self._line[:1]:
            place.moved.set()
        if self.wants_more:
            self._room.set()

    @property
    def wants_more(self) -> bool:
        """Whether more work should be brought: the line is shorter than what may be in flight."""
        return len(self._line) <= max(2, self.level.limit // 4) or self._closed() is not None

    async def wait_for_demand(self) -> None:
        """Wait until more work should be brought."""
        while not self.wants_more:
            self._room = anyio.Event()
            await self._room.wait()

    def status(self) -> Status:
        """What is going on right now."""
        now = anyio.current_time()
        waits = {
            "at --rpm or --tpm": self._limited_until - now,
            "as the judge asked": self._cooldown.until - now,
            "until the judge is back": self.breaker.wait(now, probing=False) or 0.0,
        }
        why, waiting = max(waits.items(), key=lambda item: item[1])
        return Status(
            self.in_flight,
            self.level.limit,
            len(self._line),
            self.requests.used(now),
            self.tokens.used(now),
            max(0.0, waiting),
            why if waiting > 0 else "",
            self.budget.spent,
        )

    def _closed(self) -> CallError | None:
        if self.stop_signal.reason is not None:
            return INTERRUPTED
        return CAPPED if self.budget.closed else None

    def _wait(self, request: Request) -> float:
        """Seconds until the head of the line may go; inf until something changes."""
        now = anyio.current_time()
        if pause := self._pause(now):
            return pause
        if self.in_flight >= self.level.limit and not self.breaker.open:
            return math.inf
        if self.budget.cap is not None:
            if self.in_flight and 2 * self.in_flight >= self._replies:
                return math.inf  # few replies do not tell what many calls may cost
            if not self.budget.fits(self._price(request)):
                if not self.budget.open:
                    self.budget.close()
                    self.nudge()
                return math.inf
        wait = max(self.requests.wait(now, 1), self.tokens.wait(now, self._expected(request)))
        self._limited_until = now + wait
        return wait

    def _pause(self, now: float) -> float:
        """Seconds for which the judge wants or has to be left alone."""
        if self._cooldown.until > now:
            return self._cooldown.until - now
        probe = self.breaker.wait(now, probing=self._probing is not None)
        return math.inf if probe is None else probe

    def _take(self, request: Request) -> Permit:
        now = anyio.current_time()
        self.in_flight += 1
        sent = self.requests.take(now, 1)
        tokens, cost = self._expected(request), self._price(request)
        self.budget.reserve(cost)
        self.level.sent(self.in_flight)
        probe = self.breaker.open
        number, entry = next(self._sent), self.tokens.take(now, tokens)
        permit = Permit(request, number, now, self.level.epoch, probe, tokens, cost, entry, sent)
        if probe:
            self._probing = permit
        return permit

    def _expected(self, request: Request) -> int:
        usage = self.estimates.expected(request)
        return usage.prompt + usage.completion

    def _price(self, request: Request) -> float:
        return self._cost(self.estimates.highest(request)) or 0.0
