"""One request → a reply, tried again as often as three budgets allow: retries, limits, outages."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio

from ruler_cli.errors import RefusedError, RulerError
from ruler_cli.pool.gate import INTERRUPTED, Gate, Permit
from ruler_cli.types import CallError, Judge, Reply, Request, Usage

PATIENCE = 3600.0
"""Longest Retry-After of a server, in seconds, that a call waits; a longer one ends the run."""
_UNREACHED = 3
"""Tries of a judge that no call of this run has reached yet."""

Store = Callable[[Reply | CallError], Awaitable[None]]
"""Keeps an answer that was paid for; RulerError if it cannot."""


@dataclass(slots=True)
class CallStats:
    """Counts of the calls of one judge.

    `calls` counts requests that were sent, `retried` tries that were repeated, by kind of error; `most` is
    the highest number in flight.
    """

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    most: int = 0
    retried: dict[str, int] = field(default_factory=dict)


async def _store_nothing(_: Reply | CallError) -> None:
    """Keep no answer."""


class Caller:
    """Asks one judge for many groups. A call that waits to be tried again holds no permit."""

    def __init__(self, judge: Judge, gate: Gate, *, retries: int, timeout: float) -> None:
        """`timeout` is the judge's own deadline for one try, in seconds."""
        self.gate, self._judge = gate, judge
        self._retries, self._seconds = retries, (1 + retries) * timeout
        self._reached, self._answered = False, -math.inf
        self._random = random.Random()  # jitter only, which must differ between processes
        self._tickets = itertools.count()
        self.stats = CallStats()

    async def call(self, request: Request, store: Store = _store_nothing) -> Reply | CallError:
        """Return a reply, or the error of the last try; `store` gets every answer that was paid for."""
        number = ticket = next(self._tickets)
        budget: RetryBudget | None = None
        while True:
            if budget is not None and self.gate.breaker.open:
                ticket = next(self._tickets)  # behind the others: the judge may answer those
            permit = await self.gate.enter(ticket, request)
            if isinstance(permit, CallError):
                return permit
            answer = await self._try(permit)
            now = self.gate.time()
            if isinstance(answer, Reply):
                answer = replace(answer, seconds=now - permit.began)
                await self._keep(store, answer)
                self.stats.usage += answer.usage
                self._replied(permit, now, now - permit.began)
                return answer
            budget = budget or RetryBudget(self._retries, self._seconds, first_end=now)
            budget.tries += 1
            wait = await self._failed(number, permit, answer, budget, now - permit.began, store)
            if isinstance(wait, CallError):
                return wait
            await self._pause(wait)

    async def _try(self, permit: Permit) -> Reply | CallError:
        stats = self.stats
        stats.calls += 1
        stats.most = max(stats.most, self.gate.in_flight)
        usage, billed, sent = None, True, 1
        try:
            answer = await self._judge.ask(permit.request)
            sent = answer.http_requests
            if isinstance(answer, Reply):
                usage = answer.usage
            else:
                billed = answer.billed
            return answer
        finally:
            stats.calls += sent - 1
            self.gate.leave(permit, usage, sent, billed=billed)

    def _replied(self, permit: Permit, now: float, seconds: float) -> None:
        self._reached, self._answered = True, now
        self.gate.breaker.replied()
        self.gate.answered(permit)
        self.gate.concurrency.replied(now, permit.epoch, seconds)
        self.gate.nudge()

    async def _failed(
        self,
        number: int,
        permit: Permit,
        error: CallError,
        budget: RetryBudget,
        seconds: float,
        store: Store,
    ) -> float | CallError:
        """Return the seconds until the next try, or the error that ends the call."""
        gate, now = self.gate, self.gate.time()
        self._reached = self._reached or error.sent
        if error.scope == "run":
            return self.end_run(RefusedError(error.reason))
        if error.body:
            await self._keep(store, error)
        if error.scope == "group":
            if error.kind != "transport":
                gate.breaker.replied()  # the judge is there, and refuses this call only
            return await self._give_up(error, budget, store)
        asked_to_wait = error.retry_after or 0.0
        if asked_to_wait > PATIENCE:
            reason = f"{error.reason}; it asks to wait {asked_to_wait:.0f} s, run again after that"
            return self.end_run(RefusedError(reason))
        if not error.rate:
            gate.concurrency.disturbed()
        own = gate.refused(permit, asked_to_wait, rate=error.rate)
        if not self._reached and budget.tries >= min(_UNREACHED, 1 + self._retries):
            return self.end_run(RefusedError(error.reason))
        was_open = gate.breaker.open
        if self._reached and (was_open or not own):
            gate.breaker.failed(now, number, error, self._random.random(), probe=permit.probe)
        if sentence := gate.breaker.over(now):
            # others were answered after this call's first error: perhaps only such calls are left
            if budget.first_end <= self._answered:
                return await self._give_up(error, budget, store)
            if gate.stop_signal.outages:
                return self.end_run(RefusedError(f"run the same command again later: {sentence}"))
            down = CallError("transport", sentence, "group", billed=False)
            gate.abandon(down)
            return down
        gate.nudge()
        # an outage does not count against this call
        wait = asked_to_wait if was_open else budget.wait(error, seconds, self._random.random())
        if wait is None:
            return await self._give_up(error, budget, store)
        name = "rate" if error.rate else error.kind
        self.stats.retried[name] = self.stats.retried.get(name, 0) + 1
        return wait

    async def _pause(self, seconds: float) -> None:
        """Wait without a permit, but no longer than the run goes on."""
        until = self.gate.time() + seconds
        self.gate.retries.append(until)
        try:
            with anyio.move_on_after(seconds):
                await self.gate.stop_signal.event.wait()
        finally:
            self.gate.retries.remove(until)

    def end_run(self, error: RulerError) -> CallError:
        """Stop the run; return the error of a call that is not made any more."""
        self.gate.stop_signal.stop(error)
        self.gate.nudge()
        return INTERRUPTED

    async def _give_up(self, error: CallError, budget: RetryBudget, store: Store) -> CallError:
        reason = f"{error.reason} (tried {budget.tries} times)" if budget.tries > 1 else error.reason
        last = replace(error, reason=reason, scope="group")
        if last.sent:  # a request that never reached the judge costs nothing to ask again
            await self._keep(store, last)
        return last

    async def _keep(self, store: Store, answer: Reply | CallError) -> None:
        """Store an answer; if that fails the run stops, since nothing should be paid that is not kept."""
        try:
            await store(answer)
        except RulerError as error:
            self.end_run(error)


_BASE, _CEILING = 0.5, 30.0
RATE_TRIES = 60
"""Refusals for a limit that one call may get; waits that other calls caused do not count."""
RATE_SECONDS = 3600.0
"""Seconds that one call may wait because of its own refusals for a limit."""


def delay(retry: int, floor: float | None, jitter: float) -> float:
    """Seconds before retry number `retry`, from 0: full jitter above the server's Retry-After.

    floor + jitter · min(30, 0.5 · 2^retry), with jitter in [0, 1): Retry-After is a floor, so that callers
    that got the same number of seconds do not come back together.
    """
    return (floor or 0.0) + jitter * min(_CEILING, _BASE * float(2 ** min(retry, 16)))


@dataclass(slots=True)
class RetryBudget:
    """The budgets of one call, and its use of them.

    `retries` and `seconds` bound errors that are neither a limit nor an outage: `seconds` is the deadline
    over all tries, of the time that the call itself took. `first_end` is the time at which the first try
    ended. Seconds that the server asked for count in no budget.
    """

    retries: int
    seconds: float
    tries: int = 0
    failed: int = 0
    rated: int = 0
    rated_seconds: float = 0.0
    spent: float = 0.0
    first_end: float = math.inf

    def wait(self, error: CallError, seconds: float, jitter: float) -> float | None:
        """Return the seconds until the next try; None if a budget is used up."""
        self.spent += seconds
        if error.rate:
            wait = delay(self.rated, error.retry_after, jitter)
            self.rated += 1
            self.rated_seconds += wait - (error.retry_after or 0.0)
            return wait if self.rated <= RATE_TRIES and self.rated_seconds <= RATE_SECONDS else None
        wait = delay(self.failed, error.retry_after, jitter)
        self.failed += 1
        self.spent += wait - (error.retry_after or 0.0)
        return wait if self.failed <= self.retries and self.spent <= self.seconds else None
