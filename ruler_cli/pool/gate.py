"""The queue of one judge: calls go in the order of their tickets, each as soon as all limits allow it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from ruler_cli.errors import RefusedError
from ruler_cli.pool.cooldown import Breaker, Cooldown
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.limits import (
    AdaptiveConcurrency,
    Allowance,
    Budget,
    Entry,
    Estimates,
    Sent,
    Size,
    Window,
)
from ruler_cli.types import (
    CallError,
    JudgeWait,
    RateLimitRemaining,
    Request,
    Status,
    Usage,
    value,
)

Cost = Callable[[Usage], float | None]
INTERRUPTED = CallError(
    "interrupted",
    "the run was stopped before this group was judged",
    "group",
    sent=False,
)
CAPPED = CallError(
    "budget",
    "the cost cap was reached before this group was judged",
    "group",
    sent=False,
)
_CAP = "the cost cap"
_LONG = 5.0
"""Seconds from which on a wait that the judge asks for is reported."""


@value
class Permit(Sent):
    """One call that may go, with the tokens and the USD that it has reserved.

    `probe` marks a call that tests if the judge is back.
    """

    _: KW_ONLY
    request: Request
    probe: bool
    tokens: int
    cost: float
    entry: Entry


_Waiting = tuple[
    int, int, Request, Allowance, asyncio.Future[Permit | CallError]
]
"""A call in the queue. The lowest ticket goes first, also if it comes back to try again; of equal ones the
lowest number of the queue."""


@dataclass(eq=False)
class Gate:
    """All limits on the calls to one judge: concurrency, amounts per minute, money, cooldown and breaker.

    Must be made where the loop runs. `cost` gives the USD of a usage, None if the price is unknown.
    """

    concurrency: AdaptiveConcurrency
    stop_signal: StopSignal
    _: KW_ONLY
    requests: Window
    tokens: Window
    budget: Budget
    estimates: Estimates
    cost: Cost
    breaker: Breaker

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.time = self._loop.time
        self.budget.watchers.append(self.schedule_check)
        self._cooldown = Cooldown()
        self._cooling = self._reported = self._check_scheduled = False
        self.on_change: Callable[[], object] = lambda: None
        """Called if calls begin to wait for the judge, or if it answers again."""
        self.retrying = 0
        """Calls that failed and wait to be tried again; they hold no permit."""
        self._queue: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._numbers = itertools.count()
        self.in_flight = self._sent = self._replies = 0
        self._probe: Permit | None = None
        self._demand = asyncio.Event()

    async def enter(
        self, ticket: int, request: Request, allowance: Allowance | None = None
    ) -> Permit | CallError:
        """Wait for a permit. Return a CallError if the call may not go; `allowance` is that of its group."""
        allowance = allowance or Allowance()
        at_once = None if self._queue else self._answer(request, allowance)
        if at_once:
            return at_once
        answer: asyncio.Future[Permit | CallError] = self._loop.create_future()
        waiting = ticket, next(self._numbers), request, allowance, answer
        heapq.heappush(self._queue, waiting)
        self.schedule_check()
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():
                self.schedule_check()
            elif isinstance(permit := answer.result(), Permit):
                self.leave(permit, None, billed=False)
            raise

    def enter_at_once(self, request: Request) -> Permit | None:
        """Return a permit if no call waits, the judge is not down and all limits allow one now, else None."""
        if self._queue or self.breaker.alone:
            return None
        answer = self._answer(request, Allowance())
        return answer if isinstance(answer, Permit) else None

    def leave(
        self,
        permit: Permit,
        usage: Usage | None,
        http_requests: int = 1,
        *,
        billed: bool = True,
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
            more = usage.prompt + usage.completion - permit.tokens
            self.tokens.settle(now, permit.entry, more)
            self.budget.settle(permit.cost, self.cost(usage) or 0.0)
        elif billed:
            self.budget.settle(permit.cost or self.price(permit.request), None)
        else:
            self.tokens.settle(now, permit.entry, -permit.tokens)
            self.budget.settle(permit.cost, 0.0)
        self.schedule_check()

    def failed(self, permit: Permit, error: CallError, *, late: bool) -> bool:
        """Note a failed call. Return True if it alone has to wait; `late`: it was not answered in time."""
        now = self.time()
        cooldown = self._cooldown
        if not error.rate:
            self.concurrency.disturbed()
        # it waited in the judge's queue, unless a later one was answered
        if late and cooldown.newest < permit.number:
            answered = self._replies - permit.replies
            self.concurrency.timed_out(permit, answered, now)
        seconds = error.retry_after or 0.0
        all_wait = seconds > 0 and cooldown.refused(now, permit.number, seconds)
        self._cooling |= all_wait and cooldown.until - now >= _LONG
        if seconds and not all_wait:
            return True
        if error.rate:
            self.concurrency.rejected(now, permit, self.in_flight, seconds)
        return False

    def answered(
        self, permit: Permit, left: RateLimitRemaining | None = None
    ) -> None:
        """Note that a call was answered, which may end a wait of all calls; `left` is what limits leave."""
        now = self.time()
        cooldown = self._cooldown
        self.breaker.replied()
        single = cooldown.single
        cooldown.answered(permit.number, permit.began)
        self._cooling &= cooldown.until > now
        if cooldown.single and not single:
            self.concurrency.cleared()
        self.concurrency.replied(now, permit, now - permit.began)
        calls = None
        if left is not None:
            named = [left.requests]
            if left.tokens is not None:
                per_call = max(1, self._expected(permit.request))
                named.append(left.tokens // per_call)
            later = self._sent - 1 - permit.number
            fewest = min(count for count in named if count is not None)
            calls = max(0, fewest - later)
        self.concurrency.left(self.in_flight, calls)
        self.report()
        self.schedule_check()

    def refuse(self, reason: str) -> CallError:
        """Stop the run: the judge refuses it. Return the error of calls that are not made any more."""
        self.breaker.refuse()
        self.stop_signal.stop(RefusedError(reason))
        self.schedule_check()
        return INTERRUPTED

    def give_up(self) -> CallError | None:
        """End the calls that wait for a judge that is down for too long; None if they still wait for it.

        A run stops, and so do the calls to a judge that never answered. Else each call fails, and later ones
        wait as long again.
        """
        sentence = self.breaker.over(self.time())
        if sentence is None:
            return None
        if self.breaker.starts:
            return self.refuse(sentence)
        if self.stop_signal.outages:
            return self.refuse(f"run again later: {sentence}")
        error = CallError("transport", sentence, "group", billed=False)
        self.breaker.wait_anew()
        for *_, answer in self._queue:
            if not answer.cancelled():
                answer.set_result(error)
        self._queue.clear()
        self.schedule_check()  # whoever waits for a short queue
        return error

    def report(self) -> None:
        """Report if calls begin to wait for the judge, or if it answers again."""
        waits = self._judge_wait is not None
        if waits != self._reported:
            self._reported = waits
            self.on_change()

    def schedule_check(self) -> None:
        """Have the queue looked at, once all that is known by now is noted."""
        if not self._check_scheduled:
            self._check_scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Answer the calls of the queue in order, as far as all limits allow."""
        self._check_scheduled = False
        while self._queue:
            *_, request, allowance, future = self._queue[0]
            if not future.cancelled():
                answer = self._answer(request, allowance)
                if answer is None:
                    break
                future.set_result(answer)
            heapq.heappop(self._queue)
        self.budget.admit()
        if self.wants_more:
            self._demand.set()

    def _answer(
        self, request: Request, allowance: Allowance
    ) -> Permit | CallError | None:
        """Return a permit, an error if the call may not go, or None if it has to wait."""
        if self.stop_signal.reason is not None:
            return INTERRUPTED
        if allowance.refused:
            return CAPPED
        wait, _ = self._wait(request, allowance)
        if not wait:
            return self._take(request, allowance)
        if not (self.budget.open or self._pays(request, allowance)):
            # no other call may free any money
            self.budget.refuse(self.price(request))
            return CAPPED
        if wait < math.inf:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(wait, self.schedule_check)
        return None

    @property
    def wants_more(self) -> bool:
        """True if more work should be brought: the queue is short beside the concurrency limit."""
        waiting = len(self._queue) + self.budget.waiting
        short = waiting <= max(2, self.concurrency.allowed // 4)
        return short or self.stop_signal.reason is not None

    async def wait_for_demand(self) -> None:
        """Wait until more work should be brought."""
        while not self.wants_more:
            self._demand.clear()
            await self._demand.wait()

    def status(self) -> Status:
        """Return the state at this moment."""
        now = self.time()
        waiting = 0.0
        why = ""
        if self._queue:
            *_, request, allowance, _ = self._queue[0]
            waiting, why = self._wait(request, allowance)
        elif self.retrying and not self.in_flight:
            why = _with_cause(
                "failed calls are tried again", self.breaker.cause
            )
        elif self.budget.waiting:
            why = _CAP
        wait = self._judge_wait
        return Status(
            self.in_flight,
            self.concurrency.allowed,
            len(self._queue),
            self.requests.used(now),
            self.tokens.used(now),
            waiting if waiting < math.inf else 0.0,
            why,
            self.retrying,
            () if wait is None else (wait,),
        )

    @property
    def _judge_wait(self) -> JudgeWait | None:
        """The wait of all calls for the judge, from its first failure until it answers.

        Limits that are passed for a few seconds are how the pool learns them, and no such wait.
        """
        breaker = self.breaker
        now = self.time()
        limited = breaker.last is not None and breaker.last.rate
        if breaker.open and (not limited or breaker.lasted(now) >= _LONG):
            return JudgeWait(breaker.judge, breaker.outage, breaker.left(now))
        if not self._cooling:
            return None
        cause = breaker.cause or breaker.judge
        why = _with_cause("the judge asks all calls to wait", cause)
        return JudgeWait(
            breaker.judge, why, max(0.0, self._cooldown.until - now)
        )

    def _wait(
        self, request: Request, allowance: Allowance
    ) -> tuple[float, str]:
        """Return the seconds until the head of the queue may go, inf until something changes; and why it waits."""
        now = self.time()
        breaker = self.breaker
        if self._cooldown.until > now:
            return self._cooldown.until - now, "the judge asked for it"
        if breaker.alone:
            probing = self._probe is not None
            pause = math.inf if probing else breaker.pause(now)
            if pause:
                return pause, breaker.outage
        elif self.in_flight >= self.concurrency.allowed:
            return math.inf, ""
        if pause := self.concurrency.wait(now):
            return pause, ""
        if self._many or not self._pays(request, allowance):
            return math.inf, _CAP
        if pause := self.requests.wait(now, 1):
            return pause, "requests per minute"
        if self.tokens.limited:
            expected = self._expected(request)
            return self.tokens.wait(now, expected), "tokens per minute"
        return 0.0, ""

    @property
    def _many(self) -> bool:
        """True if a further call has to wait under a cap: few replies do not show the cost of many calls."""
        capped = self.budget.cap is not None
        return capped and 0 < self.in_flight >= self._replies / 2

    def _pays(self, request: Request, allowance: Allowance) -> bool:
        """Return whether a call fits the cap now.

        If no call is open it may take what is promised to others, and go for what was promised to it: an answer may be
        longer than was known when its group began.
        """
        budget = self.budget
        if budget.cap is None:
            return True
        price = self.price(request)
        alone = not budget.open
        if alone and allowance.left:
            price = min(price, allowance.left)
        return budget.fits(price, allowance.left, promises=not alone)

    def _take(
        self,
        request: Request,
        allowance: Allowance,
    ) -> Permit:
        now = self.time()
        self.requests.take(now, 1)
        tokens = self._expected(request)
        # without a cap nothing is reserved
        cost = 0.0 if self.budget.cap is None else self.price(request)
        self.budget.reserve(cost, allowance)
        permit = Permit(
            self._sent,
            self.concurrency.epoch,
            self.in_flight,
            self._replies,
            now,
            request=request,
            probe=self.breaker.alone,
            tokens=tokens,
            cost=cost,
            entry=self.tokens.take(now, tokens),
        )
        self._sent += 1
        self.in_flight += 1
        self.concurrency.sent(now, permit)
        if permit.probe:
            self._probe = permit
        return permit

    def _expected(self, request: Request) -> int:
        usage = self.estimates.expected(request)
        return usage.prompt + usage.completion

    def price(self, request: Request | Size) -> float:
        """Return USD that a call may cost at most, as far as is known."""
        return self.cost(self.estimates.highest(request)) or 0.0


def _with_cause(what: str, cause: str) -> str:
    return f"{what}: {cause}" if cause else what
