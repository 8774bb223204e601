"""One request → a reply, tried again as often as three budgets allow: retries, limits, outages.

With hedging, a call that takes longer than nearly all others is asked a second time: a step waits for its
slowest call (Dean and Barroso 2013, "The Tail at Scale").
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace

import anyio

from ruler_cli.errors import RulerError
from ruler_cli.pool.engine import end_tasks
from ruler_cli.pool.gate import Cost, Gate, Permit
from ruler_cli.pool.limits import Allowance
from ruler_cli.tokens import (
    USUAL_ANSWER,
    fewest_tokens,
    likely_tokens,
    possible,
)
from ruler_cli.types import CallError, Judge, Reply, Request, Usage

PATIENCE = 3600.0
"""Longest Retry-After of a server, in seconds, that a call waits; a longer one ends the run."""
_UNREACHED = 3
"""Tries of a judge that no call of this run has reached yet."""
RATE_TRIES = 60
"""Refusals for a limit that one call may get; waits that other calls caused do not count."""
_BASE = 0.5
_CEILING = 30.0

Store = Callable[[Reply | CallError], Awaitable[None]]
"""Keeps an answer that was paid for; RulerError if it cannot."""


def delay(retry: int, floor: float | None, jitter: float) -> float:
    """Seconds before retry number `retry`, from 0: full jitter above the server's Retry-After.

    floor + jitter · min(30, 0.5 · 2^retry), with jitter in [0, 1): Retry-After is a floor, so that callers
    that got the same number of seconds do not come back together.
    """
    return (floor or 0.0) + jitter * min(
        _CEILING, _BASE * float(2 ** min(retry, 16))
    )


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
    spent: float = 0.0
    first_end: float = math.inf

    def wait(
        self, error: CallError, seconds: float, jitter: float
    ) -> float | None:
        """Return the seconds until the next try; None if a budget is used up."""
        self.spent += seconds
        if error.rate:
            self.rated += 1
            wait = delay(self.rated - 1, error.retry_after, jitter)
            return wait if self.rated <= RATE_TRIES else None
        self.failed += 1
        wait = delay(self.failed - 1, error.retry_after, jitter)
        self.spent += wait - (error.retry_after or 0.0)
        left = self.failed <= self.retries and self.spent <= self.seconds
        return wait if left else None


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
    retried: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False)
class Caller:
    """Asks one judge for many groups. A call that waits to be tried again holds no permit.

    `timeout` is the judge's own deadline for one try, in seconds. None of `hedging`: ask once.
    """

    judge: Judge
    gate: Gate
    _: KW_ONLY
    retries: int
    timeout: float
    hedging: Hedging | None = None

    def __post_init__(self) -> None:
        self.stats = CallStats()
        self._answered = -math.inf
        # jitter only, which must differ between processes
        self._random = random.Random()
        self._tickets = itertools.count()

    async def call(
        self,
        request: Request,
        store: Store | None = None,
        allowance: Allowance | None = None,
    ) -> Reply | CallError:
        """Return a reply, or the error of the last try; `store` gets every answer that was paid for.

        `allowance` is what the request's group may spend.
        """
        gate = self.gate
        hedging = self.hedging
        number = ticket = next(self._tickets)
        budget: RetryBudget | None = None
        while True:
            if budget is not None and gate.breaker.open:
                # behind the others: the judge may answer those
                ticket = next(self._tickets)
            first = await gate.enter(ticket, request, allowance)
            if isinstance(first, CallError):
                return first
            if hedging is None:
                permit = first
                answer = await self._try(first)
            else:
                permit, answer = await self._try_twice(first, store, hedging)
            now = gate.time()
            if isinstance(answer, Reply):
                answer = replace(answer, seconds=now - permit.began)
                await self._keep(store, answer)
                self._answered = now
                gate.answered(permit, answer.left)
                if hedging is not None:
                    hedging.learn(request, now - first.began)
                return answer
            if budget is None:
                seconds = (1 + self.retries) * self.timeout
                budget = RetryBudget(self.retries, seconds, first_end=now)
            budget.tries += 1
            if answer.body:  # paid for, whatever the run does
                await self._keep(store, replace(answer, scope="call"))
            wait = self._failed(number, permit, answer, budget)
            if wait is None:
                reason = answer.reason
                if budget.tries > 1:
                    reason = f"{reason} (tried {budget.tries} times)"
                last = replace(answer, reason=reason, scope="group")
                # a request that got no answer is asked again by the next run
                if (
                    last.sent
                    and last.kept
                    and (answer.body or answer.scope == "group")
                ):
                    await self._keep(store, last)
                return last
            if isinstance(wait, CallError):
                return wait
            # without a permit, but no longer than the run goes on
            gate.retrying += 1
            try:
                with anyio.move_on_after(wait):
                    await gate.stop_signal.event.wait()
            finally:
                gate.retrying -= 1

    async def _try(self, permit: Permit) -> Reply | CallError:
        stats = self.stats
        stats.calls += 1
        stats.most = max(stats.most, self.gate.in_flight)
        usage = None
        billed = True
        sent = 1
        try:
            answer = await self.judge.ask(permit.request)
            sent = answer.http_requests
            if isinstance(answer, Reply):
                answer = counted(permit.request, answer, self.gate.cost)
                usage = answer.usage
                stats.usage += usage
            else:
                billed = answer.billed
            return answer
        finally:
            stats.calls += sent - 1
            self.gate.leave(permit, usage, sent, billed=billed)

    async def _try_twice(
        self, first: Permit, store: Store | None, hedging: Hedging
    ) -> tuple[Permit, Reply | CallError]:
        """Send a call, and again if it takes longer than usual; return the first answer that counts.

        Return its permit too. The other call is cancelled. An error does not count while the other call is
        in flight; if both fail, the last error is returned.
        """
        gate = self.gate
        calls = {asyncio.create_task(self._try(first)): first}
        wait: float | None = 0.0  # until the call is looked at again
        try:
            while True:
                done, _ = await asyncio.wait(
                    calls, timeout=wait, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    permit = calls.pop(task)
                    answer = task.result()
                    if not calls or _counts(answer):
                        return permit, answer
                    if isinstance(answer, CallError):
                        self._report(permit, answer)
                        gate.report()
                        if answer.body:
                            await self._keep(store, answer)
                if wait is None:
                    continue
                taken = gate.time() - first.began
                left = hedging.usual(first.request, gate.in_flight) - taken
                later = left if 0 < left < math.inf else _LOOK * taken
                wait = max(_SOONEST, later)
                if left > 0 or not hedging.allowed:
                    continue
                if second := gate.enter_at_once(first.request):
                    hedging.spend()
                    self.stats.hedged += 1
                    calls[asyncio.create_task(self._try(second))] = second
                    wait = None
        finally:
            await end_tasks(*calls)

    def _failed(
        self, number: int, permit: Permit, error: CallError, budget: RetryBudget
    ) -> float | CallError | None:
        """Return the seconds until the next try, the error that all calls end with, or None to give up."""
        gate = self.gate
        breaker = gate.breaker
        now = gate.time()
        breaker.reached = breaker.reached or error.sent
        if error.scope == "run":
            return gate.refuse(error.reason)
        if error.scope == "group":
            if error.kind != "transport":
                breaker.replied()  # the judge is there, and refuses this call only
            return None
        asked_to_wait = error.retry_after or 0.0
        if asked_to_wait > PATIENCE:
            until = f"it asks for a wait of {asked_to_wait:.0f} s; run again after that"
            return gate.refuse(f"{error.reason}; {until}")
        of_judge = self._report(permit, error)
        most = 1 if breaker.refused else min(_UNREACHED, 1 + self.retries)
        if not breaker.reached and budget.tries >= most:
            return gate.refuse(error.reason)
        jitter = self._random.random
        if breaker.reached and (breaker.open or not of_judge):
            breaker.failed(now, number, error, jitter(), probe=permit.probe)
        gate.report()
        if breaker.over(now) and budget.first_end <= self._answered:
            # others were answered after this call's first error: perhaps only such calls are left
            return None
        if ended := gate.give_up():
            return ended
        gate.schedule_check()
        wait: float | None = asked_to_wait
        if not breaker.open:  # an outage does not count against this call
            wait = budget.wait(error, now - permit.began, jitter())
        if wait is not None:
            self.stats.retried["rate" if error.rate else error.kind] += 1
        return wait

    def _report(self, permit: Permit, error: CallError) -> bool:
        """Tell the gate of an error. Return True if no other call has to wait because of it."""
        late = self.gate.time() - permit.began >= self.timeout
        return self.gate.failed(permit, error, late=late and not error.rate)

    async def _keep(
        self, store: Store | None, answer: Reply | CallError
    ) -> None:
        """Store an answer, but to a prompt that was cut; if that fails the run stops: nothing is paid and not kept."""
        try:
            if store and not answer.cut:
                await store(answer)
        except RulerError as error:
            self.gate.stop_signal.stop(error)
            self.gate.schedule_check()


def counted(request: Request, reply: Reply, cost: Cost) -> Reply:
    """Return a reply with its cost, and with estimates for tokens that were not reported or cannot be so few.

    A prompt that was read beyond the system message, and not to its end, was cut by the server. An embedded judge,
    whose replies have no body, uses no tokens.
    """
    # some servers count the text alone, and not the questions about it
    sent = request.state if request.questions else request.prompt
    usage = reply.usage
    prompt, completion = usage.prompt, usage.completion
    cut = 0
    if reply.body and not possible(prompt, sent):
        if prompt > fewest_tokens(request.system):
            cut = prompt
        prompt = likely_tokens(request.prompt) + request.picture_tokens
    if reply.body and not possible(completion, reply.text):
        completion = likely_tokens(reply.text)
    if (prompt, completion) != (usage.prompt, usage.completion):
        usage = replace(
            usage, prompt=prompt, completion=completion, estimated=True
        )
    if usd := usage.usd or cost(usage):
        usage = replace(usage, usd=usd)
    return replace(reply, usage=usage, cut=cut)


def _counts(answer: Reply | CallError) -> bool:
    """Return whether an answer ends a call, whatever another call for the same request brings."""
    if isinstance(answer, Reply) or answer.scope != "call":
        return True
    return (answer.retry_after or 0.0) > PATIENCE


_LOOK = 1 / 16
"""Part of its time so far after which a call is looked at again as a straggler."""
_SOONEST = 0.01
"""Seconds at least until then."""
_RECENT = 512
"""Calls that are remembered; of a step of more, the slow ones alone: they are answered last."""
_ENOUGH = 40
"""Calls that must be known before any is asked again."""
_USUAL = 0.95
"""Share of the recent calls that a straggler exceeds."""
_EARNED = 0.08
"""Second calls that each answer allows: a judge that slows down as a whole makes every call a straggler."""
_SAVED = 16.0
"""Second calls that are saved up at most."""


class Hedging:
    """The recent times of one judge's calls by the length of their answers, and the second calls they allow."""

    def __init__(self) -> None:
        self._recent = deque[float]()
        self._sorted: list[float] = []
        self._credit = 0.0

    def learn(self, request: Request, seconds: float) -> None:
        """Note that an answer came `seconds` after a call was first sent.

        If the second call answered, the first would have taken longer: it stays beyond the usual time.
        """
        if len(self._recent) == _RECENT:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
        pace = seconds / _length(request)
        self._recent.append(pace)
        insort(self._sorted, pace)
        self._credit = min(self._credit + _EARNED, _SAVED)

    def usual(self, request: Request, in_flight: int) -> float:
        """Return the seconds within which 95 % of such calls are answered; inf if few are known.

        Of the first calls the fast ones are answered first: those in flight count as slower until many are
        known.
        """
        measured = len(self._sorted)
        slower = 1 if measured == _RECENT else in_flight
        rank = math.ceil(_USUAL * (measured + slower))
        if measured < _ENOUGH or rank > measured:
            return math.inf
        return self._sorted[rank - 1] * _length(request)

    @property
    def allowed(self) -> bool:
        """Return whether one more call may be asked a second time."""
        return self._credit >= 1

    def spend(self) -> None:
        """Note that a call is asked a second time."""
        self._credit -= 1


def _length(request: Request) -> float:
    """The expected length of an answer: the time to write it is most of the time of a call."""
    return request.answer_tokens(USUAL_ANSWER)
