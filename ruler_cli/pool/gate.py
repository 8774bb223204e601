"""The queue of one judge: calls go in the order of their tickets, each as soon as all limits allow it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from ruler_cli.observer import Status
from ruler_cli.pool.budget import Budget, Estimates
from ruler_cli.pool.cooldown import Breaker, Cooldown
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.limits import ConcurrencyLimit, Entry, Window
from ruler_cli.types import CallError, Request, Usage

Cost = Callable[[Usage], float | None]
INTERRUPTED = CallError(
    "interrupted", "the run was stopped before this group was judged", "group", sent=False
)
CAPPED = CallError("budget", "--max-cost is reached; another run goes on with it", "group", sent=False)


@dataclass(slots=True)
class Permit:
    """One call that may go, with the tokens and the USD that it has reserved.

    `number` counts the calls that went, from 0; `began` is the loop's time at which this one went.
    `epoch` is that of the concurrency limit then. `probe` marks a call that tests if the judge is back.
    """

    request: Request
    number: int
    began: float
    epoch: int
    probe: bool
    tokens: int
    cost: float
    entry: Entry


@dataclass(slots=True, order=True)
class _Waiting:
    """A call in the queue; the lowest ticket goes first, also if it comes back to try again."""

    ticket: int
    number: int
    moved: asyncio.Event | None = field(default=None, compare=False)
    error: CallError | None = field(default=None, compare=False)


class Gate:
    """All limits on the calls to one judge: concurrency, amounts per minute, money, cooldown and breaker."""

    def __init__(
        self,
        concurrency: ConcurrencyLimit,
        stop_signal: StopSignal,
        *,
        requests: Window | None = None,
        tokens: Window | None = None,
        budget: Budget | None = None,
        estimates: Estimates | None = None,
        cost: Cost = lambda _: None,
        breaker: Breaker | None = None,
    ) -> None:
        """Must be made where the loop runs. `cost` gives the USD of a usage, None if the price is unknown."""
        self.concurrency, self.stop_signal = concurrency, stop_signal
        self.requests, self.tokens = requests or Window(), tokens or Window()
        self.budget, self.estimates = budget or Budget(), estimates or Estimates()
        self.budget.watchers.append(self.nudge)
        self.time = asyncio.get_running_loop().time
        self.breaker = breaker or Breaker(self.time())
        self.in_flight = 0
        self._cost = cost
        self._cooldown, self._limited_until, self._limit = Cooldown(), -math.inf, ""
        self._unaffordable = False
        self.retries: list[float] = []
        """Times at which calls that failed are tried again; they hold no permit."""
        self._queue: list[_Waiting] = []
        self._numbers, self._sent = itertools.count(), itertools.count()
        self._probe: Permit | None = None
        self._replies = 0
        self._demand = asyncio.Event()

    async def enter(self, ticket: int, request: Request) -> Permit | CallError:
        """Wait for a permit. Return a CallError if no call may go any more."""
        if not self._queue and not self._wait(request) and not self._closed():
            return self._take(request)
        waiting = _Waiting(ticket, next(self._numbers))
        heapq.heappush(self._queue, waiting)
        try:
            while True:
                wait = self._wait(request) if self._queue[0] is waiting else math.inf
                if closed := waiting.error or self._closed():
                    return closed
                if not wait:
                    return self._take(request)
                waiting.moved = asyncio.Event()
                if wait == math.inf:
                    await waiting.moved.wait()
                else:
                    with anyio.move_on_after(wait):
                        await waiting.moved.wait()
        finally:
            if self._queue[0] is waiting:
                heapq.heappop(self._queue)
            else:
                self._queue.remove(waiting)
                heapq.heapify(self._queue)
            self.nudge()

    def leave(
        self, permit: Permit, usage: Usage | None, http_requests: int = 1, *, billed: bool = True
    ) -> None:
        """End a call: settle what it reserved.

        `usage` is None if there was no reply; `http_requests` counts the requests that the endpoint got.
        """
        now = self.time()
        if http_requests > 1:
            self.requests.take(now, http_requests - 1)
        self.in_flight -= 1
        if permit is self._probe:
            self._probe = None
        self._replies += usage is not None
        if usage is not None and usage.prompt:
            self.estimates.learn(permit.request, usage)
            self.tokens.settle(now, permit.entry, usage.prompt + usage.completion - permit.tokens)
            self.budget.settle(permit.cost, self._cost(usage) or 0.0)
        elif billed:
            self.budget.settle(permit.cost or self._price(permit.request), None)
        else:
            self.tokens.settle(now, permit.entry, -permit.tokens)
            self.budget.settle(permit.cost, 0.0)
        self.nudge()

    def refused(self, permit: Permit, seconds: float, *, rate: bool) -> bool:
        """Note that the judge asks a call to wait `seconds`. Return True if no other call has to wait.

        `rate` tells that a limit was passed.
        """
        now = self.time()
        all_wait = seconds > 0 and self._cooldown.refused(now, permit.number, seconds)
        if seconds and not all_wait:
            return True
        if rate and not (all_wait and self.concurrency.alone and not self._cooldown.begun):
            self.concurrency.rejected(now, permit.epoch, self.in_flight, seconds)
        return False

    def answered(self, permit: Permit) -> None:
        """Note that a call was answered, which may end a wait of all calls."""
        cooldown, single = self._cooldown, self._cooldown.single
        cooldown.answered(self.time(), permit.number, permit.began)
        if cooldown.single and not single:
            self.concurrency.cleared()

    def abandon(self, error: CallError) -> None:
        """End every call that waits for a judge that is down; later ones wait as long again."""
        self.breaker.wait_anew()
        for waiting in self._queue:
            waiting.error = error
            if waiting.moved is not None:
                waiting.moved.set()

    def nudge(self) -> None:
        """Have the head of the queue look again, and the whole queue if no call may go any more."""
        for waiting in self._queue if self._closed() else self._queue[:1]:
            if waiting.moved is not None:
                waiting.moved.set()
        if self.wants_more:
            self._demand.set()

    @property
    def wants_more(self) -> bool:
        """True if more work should be brought: the queue is short beside the concurrency limit."""
        return len(self._queue) <= max(2, self.concurrency.limit // 4) or self._closed() is not None

    async def wait_for_demand(self) -> None:
        """Wait until more work should be brought."""
        while not self.wants_more:
            if self._demand.is_set():  # one event for all who wait
                self._demand = asyncio.Event()
            await self._demand.wait()

    def status(self) -> Status:
        """Return the state at this moment."""
        now, outage, cause = self.time(), self.breaker.outage, self.breaker.cause
        waits = {
            self._limit: self._limited_until - now if self._queue else 0.0,
            "the judge asked for it": self._cooldown.until - now,
            outage: self.breaker.wait(now, probing=False) or 0.0,
        }
        if not (self.in_flight or self._queue or not self.retries):
            waits[": ".join(filter(None, ("failed calls are tried again", cause)))] = min(self.retries) - now
        why, waiting = max(waits.items(), key=lambda item: item[1])
        if waiting <= 0:
            held = self._unaffordable and bool(self._queue)
            why = "--max-cost" if held else outage
        return Status(
            self.in_flight,
            self.concurrency.limit,
            len(self._queue),
            self.requests.used(now),
            self.tokens.used(now),
            max(0.0, waiting),
            why,
            len(self.retries),
            outage,
        )

    def _closed(self) -> CallError | None:
        if self.stop_signal.reason is not None:
            return INTERRUPTED
        return CAPPED if self.budget.closed else None

    def _wait(self, request: Request) -> float:
        """Return the seconds until the head of the queue may go; inf until something changes."""
        now = self.time()
        if self._cooldown.until > now:
            return self._cooldown.until - now
        if self.breaker.open:
            pause = self.breaker.wait(now, probing=self._probe is not None)
            if pause is None or pause > 0:
                return math.inf if pause is None else pause
        elif self.in_flight >= self.concurrency.limit:
            return math.inf
        self._unaffordable = self.budget.cap is not None and not self._affordable(request)
        if self._unaffordable:
            return math.inf
        waits = {"requests per minute": self.requests.wait(now, 1)}
        if self.tokens.limited:
            waits["tokens per minute"] = self.tokens.wait(now, self._expected(request))
        self._limit, wait = max(waits.items(), key=lambda item: item[1])
        self._limited_until = now + wait
        return wait

    def _affordable(self, request: Request) -> bool:
        """Tell if a call fits the cap now. Close the budget if it does not and no other call may free any."""
        if self.in_flight and 2 * self.in_flight >= self._replies:
            return False  # few replies do not show the cost of many calls
        price = self._price(request)
        if self.budget.fits(price):
            return True
        if not self.budget.open:
            self.budget.close(price)
            self.nudge()
        return False

    def _take(self, request: Request) -> Permit:
        now = self.time()
        self.in_flight += 1
        self.requests.take(now, 1)
        tokens = self._expected(request)
        cost = self._price(request) if self.budget.cap is not None else 0.0  # else nothing is reserved
        self.budget.reserve(cost)
        self.concurrency.sent(self.in_flight)
        number, entry = next(self._sent), self.tokens.take(now, tokens)
        permit = Permit(request, number, now, self.concurrency.epoch, self.breaker.open, tokens, cost, entry)
        if permit.probe:
            self._probe = permit
        return permit

    def _expected(self, request: Request) -> int:
        usage = self.estimates.expected(request)
        return usage.prompt + usage.completion

    def _price(self, request: Request) -> float:
        return self._cost(self.estimates.highest(request)) or 0.0
