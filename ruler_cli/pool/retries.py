"""Requests → replies: from the ledger, else from the judge, as often as the rules allow.

Three budgets say how often and how long one call is tried again. With `--cached-only` the ledger alone
answers, and no judge is asked for what it lacks.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import anyio

from ruler_cli.errors import RefusedError, RulerError
from ruler_cli.ledger.reply_cache import ReplyCache
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import INTERRUPTED, Gate, Permit
from ruler_cli.types import UNANSWERED, CallError, Judge, Reply, Request, Usage

PATIENCE = 3600.0
"""Seconds of a server's Retry-After that are waited; a longer one ends the run with its number."""
_UNREACHED = 3
"""Tries of a judge that no call of this run has reached yet."""


@dataclass(slots=True)
class CallStats:
    """What the calls of a run came to.

    `calls` counts tries, `retried` those that had to be repeated by kind, `most` is the highest number
    in flight, `unanswered` requests that nobody was to be asked.
    """

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cached: int = 0
    most: int = 0
    retried: dict[str, int] = field(default_factory=dict)
    unanswered: int = 0


class Caller:
    """Asks one judge for many groups; a slot is free while its call waits to be tried again."""

    def __init__(
        self,
        judge: Judge,
        gate: Gate,
        *,
        retries: int,
        timeout: float,
        cache: ReplyCache | None = None,
    ) -> None:
        """`timeout` is the judge's own deadline for one try, in seconds."""
        self.gate, self._judge, self._cache = gate, judge, cache
        self._retries, self._seconds = retries, (1 + retries) * timeout
        self._reached, self._answered = False, -math.inf
        self._random = random.Random()  # jitter only, which must differ between processes
        self._tickets = itertools.count()
        self._asking: dict[bytes, anyio.Event] = {}
        self._again: set[bytes] = set()
        self.stats = CallStats()

    async def call(self, request: Request, *, again: bool = False) -> Reply | CallError:
        """One answer, or the CallError that the last try ended in.

        The same request is asked once, also when two groups are alike and both are waiting for it.
        `again` asks anew what was answered before this run.
        """
        if self._cache is None:
            return await self._ask(request)
        key = self._cache.key(request)
        while key in self._asking:
            await self._asking[key].wait()
        try:
            kept = None if again and key not in self._again else self._cache.find(key)
        except RulerError as error:  # what is in flight is paid for and may finish
            return self._end(error)
        if kept is not None:
            self.stats.cached += 1
            return kept
        done = self._asking[key] = anyio.Event()
        try:
            if again:
                self._again.add(key)
            return await self._ask(request, key)
        finally:
            del self._asking[key]
            done.set()

    async def _ask(self, request: Request, key: bytes = b"") -> Reply | CallError:
        number = ticket = next(self._tickets)
        tries = RetryBudget(self._retries, self._seconds)
        while True:
            if tries.asked and self.gate.breaker.open:
                ticket = next(self._tickets)  # behind the others: the judge may answer those
            permit = await self.gate.enter(ticket, request)
            if isinstance(permit, CallError):
                return permit
            began = anyio.current_time()
            answer = await self._once(permit)
            took = anyio.current_time() - began
            tries.asked += 1
            tries.began = min(tries.began, began + took)
            if isinstance(answer, Reply):
                answer = replace(answer, seconds=took)
                await self._keep(key, answer)
                self.stats.usage += answer.usage
                self._replied(permit, took)
                return answer
            wait = await self._failed(number, permit, answer, tries, took, key)
            if isinstance(wait, CallError):
                return wait
            await self._pause(wait)

    async def _once(self, permit: Permit) -> Reply | CallError:
        self.stats.calls += 1
        self.stats.most = max(self.stats.most, self.gate.in_flight)
        answer: Reply | CallError | None = None
        try:
            answer = await self._judge.ask(permit.request)
            return answer
        finally:
            usage = answer.usage if isinstance(answer, Reply) else None
            posts = 1 if answer is None else answer.http_requests
            self.stats.calls += posts - 1
            self.gate.leave(permit, usage, posts, billed=not isinstance(answer, CallError) or answer.billed)

    def _replied(self, permit: Permit, took: float) -> None:
        self._reached, self._answered = True, anyio.current_time()
        self.gate.breaker.replied()
        self.gate.answered(permit)
        self.gate.concurrency.replied(anyio.current_time(), permit.epoch, took)
        self.gate.nudge()

    async def _failed(
        self, number: int, permit: Permit, fault: CallError, tries: RetryBudget, took: float, key: bytes
    ) -> float | CallError:
        """Seconds until the next try, or the CallError that it ends with."""
        gate, now = self.gate, anyio.current_time()
        self._reached = self._reached or fault.sent
        if fault.scope == "run":
            return self._stop(fault.reason)
        if fault.body:
            await self._keep(key, fault)
        if fault.scope == "group":
            if fault.kind != "transport":
                gate.breaker.replied()  # it is there, and refuses this call only
            return await self._given_up(fault, tries, key)
        told = fault.retry_after or 0.0
        if told > PATIENCE:
            return self._stop(f"{fault.reason}; it asks to wait {told:.0f} s, run again after that")
        if not fault.rate:
            gate.concurrency.disturbed()
        own = gate.refused(permit, told, rate=fault.rate)
        if not self._reached and tries.asked >= min(_UNREACHED, 1 + self._retries):
            return self._stop(fault.reason)
        was_open = gate.breaker.open
        if self._reached and (was_open or not own):
            gate.breaker.failed(now, number, fault, self._random.random(), probe=permit.probe)
        if sentence := gate.breaker.over(now):
            # others were answered after its first failure: what is left may be such calls only
            alone = tries.began <= self._answered
            return await self._given_up(fault, tries, key) if alone else self._stop(sentence)
        gate.nudge()
        # an outage is not this call's failure
        wait = told if was_open else tries.wait(fault, took, self._random.random())
        if wait is None:
            return await self._given_up(fault, tries, key)
        name = "rate" if fault.rate else fault.kind
        self.stats.retried[name] = self.stats.retried.get(name, 0) + 1
        return wait

    async def _pause(self, seconds: float) -> None:
        """Wait without a slot; a run that is told to stop does not wait on."""
        with anyio.move_on_after(seconds):
            await self.gate.stop_signal.event.wait()

    def _stop(self, reason: str) -> CallError:
        return self._end(RefusedError(reason))

    def _end(self, error: RulerError) -> CallError:
        self.gate.stop_signal.stop(error)
        self.gate.nudge()
        return INTERRUPTED

    async def _given_up(self, fault: CallError, tries: RetryBudget, key: bytes) -> CallError:
        reason = f"{fault.reason} (tried {tries.asked} times)" if tries.asked > 1 else fault.reason
        last = replace(fault, reason=reason, scope="group")
        if last.sent:  # what never reached the judge costs nothing to ask again
            await self._keep(key, last)
        return last

    async def _keep(self, key: bytes, answer: Reply | CallError) -> None:
        """Store; where that fails the run stops, since nothing should be paid that cannot be kept."""
        if self._cache is None:
            return
        try:
            await self._cache.keep(key, answer)
        except RulerError as error:
            self._end(error)


_BASE, _CEILING = 0.5, 30.0
RATE_TRIES = 60
"""Times that one call may meet a limit; waits that other calls caused are not counted."""
RATE_SECONDS = 3600.0
"""Seconds that one call may wait because it met a limit itself."""


def delay(retry: int, floor: float | None, jitter: float) -> float:
    """Seconds before retry number `retry` (from 0): full jitter, above what the server asked for.

    floor + jitter · min(30, 0.5 · 2^retry), with jitter in [0, 1): the server's word is a floor,
    so that callers who were told the same second do not come back together.
    """
    return (floor or 0.0) + jitter * min(_CEILING, _BASE * float(2 ** min(retry, 16)))


@dataclass(slots=True)
class RetryBudget:
    """What one call has used of its budgets.

    `retries` and `seconds` bound what is neither a limit nor an outage: the second is the deadline over
    all tries, of the time that the call itself took. `began` is when the first try ended. Seconds that the
    server asked for are in no budget: they are not the call's.
    """

    retries: int
    seconds: float
    asked: int = 0
    failed: int = 0
    rated: int = 0
    rated_seconds: float = 0.0
    spent: float = 0.0
    began: float = math.inf

    def wait(self, fault: CallError, took: float, jitter: float) -> float | None:
        """Seconds until the next try; None where a budget is used up."""
        self.spent += took
        if fault.rate:
            wait = delay(self.rated, fault.retry_after, jitter)
            self.rated += 1
            self.rated_seconds += wait - (fault.retry_after or 0.0)
            return wait if self.rated <= RATE_TRIES and self.rated_seconds <= RATE_SECONDS else None
        wait = delay(self.failed, fault.retry_after, jitter)
        self.failed += 1
        self.spent += wait - (fault.retry_after or 0.0)
        return wait if self.failed <= self.retries and self.spent <= self.seconds else None


Missing = Callable[[bytes, Request], None]


class CachedOnly:
    """A judge's cached replies, in the place of a `Caller`."""

    def __init__(self, cache: ReplyCache, halt: StopSignal, missing: Missing | None = None) -> None:
        """`missing` takes the key and the text of each request without an answer, however often it comes."""
        self._cache, self._halt, self._missing = cache, halt, missing
        self.stats = CallStats()

    async def call(self, request: Request, *, again: bool = False) -> Reply | CallError:
        """Return the cached answer. With `again` a failed call is none, but a cached reply stays what it is.

        A second reply to the same request would not be taken in, and so be paid for without end.
        """
        key = self._cache.key(request)
        try:
            found = self._cache.find(key)
        except RulerError as error:
            self._halt.stop(error)
            return INTERRUPTED
        if found is not None and not (again and isinstance(found, CallError)):
            return found
        self.stats.unanswered += 1
        if self._missing is not None:
            self._missing(key, request)
        return UNANSWERED
