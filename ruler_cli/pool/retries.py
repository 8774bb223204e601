"""One request → a reply, tried again as often as three budgets allow: retries, limits, outages."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio

from ruler_cli.errors import RulerError
from ruler_cli.pool.engine import first_of
from ruler_cli.pool.gate import Gate, Permit
from ruler_cli.pool.hedging import Hedging
from ruler_cli.types import CallError, Judge, Reply, Request, Usage

PATIENCE = 3600.0
"""Longest Retry-After of a server, in seconds, that a call waits; a longer one ends the run."""
_UNREACHED = 3
"""Tries of a judge that no call of this run has reached yet."""
_LOOK, _SOONEST = 1 / 16, 0.01
"""Part of its time so far, and seconds at least, after which a call is looked at again as a straggler."""

Store = Callable[[Reply | CallError], Awaitable[None]]
"""Keeps an answer that was paid for; RulerError if it cannot."""


@dataclass(slots=True)
class CallStats:
    """Counts of the calls of one judge.

    `calls` counts requests that were sent, `hedged` those of them that were a second call beside a slow one,
    `retried` tries that were repeated, by kind of error; `most` is the highest number in flight.
    """

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    most: int = 0
    hedged: int = 0
    retried: dict[str, int] = field(default_factory=dict)


async def _store_nothing(_: Reply | CallError) -> None:
    """Keep no answer."""


class Caller:
    """Asks one judge for many groups. A call that waits to be tried again holds no permit."""

    def __init__(
        self,
        judge: Judge,
        gate: Gate,
        *,
        retries: int,
        timeout: float,
        hedging: Hedging | None = None,
    ) -> None:
        """`timeout` is the judge's own deadline for one try, in seconds. None of `hedging`: ask once."""
        self.gate, self._judge, self._hedging = gate, judge, hedging
        self._retries, self._timeout, self._seconds = (
            retries,
            timeout,
            (1 + retries) * timeout,
        )
        self._answered = -math.inf
        self._random = (
            random.Random()
        )  # jitter only, which must differ between processes
        self._tickets = itertools.count()
        self.stats = CallStats()

    async def call(
        self, request: Request, store: Store = _store_nothing
    ) -> Reply | CallError:
        """Return a reply, or the error of the last try; `store` gets every answer that was paid for."""
        number = ticket = next(self._tickets)
        budget: RetryBudget | None = None
        while True:
            if budget is not None and self.gate.breaker.open:
                ticket = next(
                    self._tickets
                )  # behind the others: the judge may answer those
            first = await self.gate.enter(ticket, request)
            if isinstance(first, CallError):
                return first
            if self._hedging is None:
                permit, answer = first, await self._try(first)
            else:
                permit, answer = await self._ask(first, store, self._hedging)
            now = self.gate.time()
            if isinstance(answer, Reply):
                answer = replace(answer, seconds=now - permit.began)
                await self._keep(store, answer)
                self._answered = now
                self.gate.answered(permit, answer.left)
                if self._hedging is not None:
                    self._hedging.learn(request, now - first.began, self.stats.most)
                return answer
            budget = budget or RetryBudget(self._retries, self._seconds, first_end=now)
            budget.tries += 1
            wait = await self._failed(
                number, permit, answer, budget, now - permit.began, store
            )
            if isinstance(wait, CallError):
                return wait
            await self._pause(wait)

    async def _ask(
        self, first: Permit, store: Store, hedging: Hedging
    ) -> tuple[Permit, Reply | CallError]:
        """Send a call, and again if it takes longer than usual; return the first answer that counts.

        Return its permit too. The other call is cancelled. An error does not count while the other call is
        in flight; if both fail, the last error is returned.
        """
        answers: list[tuple[Permit, Reply | CallError]] = []
        in_flight = 0

        async def ask(permit: Permit) -> None:
            nonlocal in_flight
            in_flight += 1
            answer = await self._try(permit)
            in_flight -= 1
            answers.append((permit, answer))
            if _counts(answer) or not in_flight:
                tasks.cancel_scope.cancel()
            elif isinstance(answer, CallError):
                self._tell(permit, answer)
                self.gate.report()
                if answer.body:
                    await self._keep(store, answer)

        async def ask_again() -> None:
            while not answers:
                seconds = self.gate.time() - first.began
                usual = hedging.usual(first.request, self.gate.in_flight)
                if (
                    usual is not None
                    and seconds >= usual
                    and (second := self._second(first, hedging))
                ):
                    await ask(second)
                    return
                left = 0.0 if usual is None else max(0.0, usual - seconds)
                await anyio.sleep(max(_SOONEST, left or _LOOK * seconds))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask_again)
                await ask(first)
        except BaseExceptionGroup as group:
            raise first_of(group) from None
        return next((each for each in answers if _counts(each[1])), answers[-1])

    def _second(self, first: Permit, hedging: Hedging) -> Permit | None:
        """Return the permit of a second call if the limits, and the number of second calls, allow it now."""
        permit = self.gate.enter_at_once(first.request) if hedging.allowed else None
        if permit is not None:
            hedging.spend()
            self.stats.hedged += 1
        return permit

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
                stats.usage += usage
            else:
                billed = answer.billed
            return answer
        finally:
            stats.calls += sent - 1
            self.gate.leave(permit, usage, sent, billed=billed)

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
        gate, breaker, now = self.gate, self.gate.breaker, self.gate.time()
        breaker.reached = breaker.reached or error.sent
        if error.scope == "run":
            return gate.refuse(error.reason)
        if error.body:
            await self._keep(store, error)
        if error.scope == "group":
            if error.kind != "transport":
                breaker.replied()  # the judge is there, and refuses this call only
            return await self._give_up(error, budget, store)
        asked_to_wait = error.retry_after or 0.0
        if asked_to_wait > PATIENCE:
            return gate.refuse(
                f"{error.reason}; it asks to wait {asked_to_wait:.0f} s, run again after that"
            )
        own = self._tell(permit, error)
        most = 1 if breaker.refused else min(_UNREACHED, 1 + self._retries)
        if not breaker.reached and budget.tries >= most:
            return gate.refuse(error.reason)
        if breaker.reached and (breaker.open or not own):
            breaker.failed(
                now, number, error, self._random.random(), probe=permit.probe
            )
        gate.report()
        if breaker.over(now) and budget.first_end <= self._answered:
            # others were answered after this call's first error: perhaps only such calls are left
            return await self._give_up(error, budget, store)
        if ended := gate.give_up():
            return ended
        gate.nudge()
        # an outage does not count against this call
        wait = (
            asked_to_wait
            if breaker.open
            else budget.wait(error, seconds, self._random.random())
        )
        if wait is None:
            return await self._give_up(error, budget, store)
        name = "rate" if error.rate else error.kind
        self.stats.retried[name] = self.stats.retried.get(name, 0) + 1
        return wait

    def _tell(self, permit: Permit, error: CallError) -> bool:
        """Tell the gate of an error. Return True if no other call has to wait because of it."""
        if not error.rate:
            self.gate.concurrency.disturbed()
            if self.gate.time() - permit.began >= self._timeout:
                self.gate.timed_out(permit)
        return self.gate.refused(permit, error.retry_after or 0.0, rate=error.rate)

    async def _pause(self, seconds: float) -> None:
        """Wait without a permit, but no longer than the run goes on."""
        until = self.gate.time() + seconds
        self.gate.retries.append(until)
        try:
            with anyio.move_on_after(seconds):
                await self.gate.stop_signal.event.wait()
        finally:
            self.gate.retries.remove(until)

    async def _give_up(
        self, error: CallError, budget: RetryBudget, store: Store
    ) -> CallError:
        reason = (
            f"{error.reason} (tried {budget.tries} times)"
            if budget.tries > 1
            else error.reason
        )
        last = replace(error, reason=reason, scope="group")
        if (
            last.sent and last.kept
        ):  # a request that never reached the judge costs nothing to ask again
            await self._keep(store, last)
        return last

    async def _keep(self, store: Store, answer: Reply | CallError) -> None:
        """Store an answer; if that fails the run stops, since nothing should be paid that is not kept."""
        try:
            await store(answer)
        except RulerError as error:
            self.gate.stop_signal.stop(error)
            self.gate.nudge()


def _counts(answer: Reply | CallError) -> bool:
    """Tell if an answer ends a call, whatever another call for the same request brings."""
    return (
        isinstance(answer, Reply)
        or answer.scope != "call"
        or (answer.retry_after or 0.0) > PATIENCE
    )


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
            return (
                wait
                if self.rated <= RATE_TRIES and self.rated_seconds <= RATE_SECONDS
                else None
            )
        wait = delay(self.failed, error.retry_after, jitter)
        self.failed += 1
        self.spent += wait - (error.retry_after or 0.0)
        return (
            wait if self.failed <= self.retries and self.spent <= self.seconds else None
        )
