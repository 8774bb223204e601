"""The judges of a run: each with its price, its cached replies and its calls; one budget for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from ruler_cli.errors import RulerError, UsageError
from ruler_cli.files.location import Location
from ruler_cli.judges.providers import QUEUEING_ENGINES, Price, stated_limit
from ruler_cli.judges.resolve import ResolvedJudge, stand_in_of
from ruler_cli.judging.exchange import Scale, is_usable
from ruler_cli.ledger.database import open_files
from ruler_cli.ledger.reply_cache import Ledger, ReplyCache
from ruler_cli.pool.cooldown import Breaker
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import INTERRUPTED, Cost, Gate
from ruler_cli.pool.limits import (
    START,
    START_OF_QUEUE,
    AdaptiveConcurrency,
    Allowance,
    Budget,
    ConcurrencyLimit,
    Estimates,
    Window,
)
from ruler_cli.pool.retries import Caller, CallStats, Hedging, counted
from ruler_cli.prompting.pictures import needs_less, with_smaller
from ruler_cli.settings.models import JudgeSettings, PoolSettings, ScoreSettings
from ruler_cli.settings.parameters import body_of
from ruler_cli.tokens import likely_tokens, most_tokens
from ruler_cli.types import (
    NO_USAGE,
    UNANSWERED,
    CallError,
    Reply,
    Request,
    Status,
    Summary,
    Usage,
)

_EMBEDDED = 32
"""Calls at once of an embedded judge."""
_CERTAIN = 0.995
"""Share of a limit on tokens that is used: the tokens of calls in flight are only estimated."""
_SCORELESS = 3
"""Replies without a score to a question about one rollout that are paid; then only failed calls that are asked anew."""
_SPARE = 100
"""File descriptors that are left for everything else."""


@dataclass
class PanelJudge:
    """One judge of a run: its cached replies first, then its calls.

    `context` is in tokens, `scale` is the scale that its replies in this run show. Without a `caller` only cached
    replies count, and `unanswered` counts the requests that have none. `cut` is the number of tokens of a prompt that
    the judge's server reads, once it has cut one.
    """

    caller: Caller | None
    cache: ReplyCache | None = None
    price: Price | None = None
    context: int | None = None
    stop_signal: StopSignal | None = None
    unanswered: int = 0
    scale: Scale = field(default_factory=Scale)
    cut: int | None = None
    _in_flight: dict[bytes, asyncio.Event] = field(default_factory=dict)
    _asked_again: set[bytes] = field(default_factory=set)

    @property
    def stats(self) -> CallStats:
        """The counts of its calls."""
        return CallStats() if self.caller is None else self.caller.stats

    def most(
        self, requests: Iterable[Request], *, again: bool = False
    ) -> list[Callable[[], float]]:
        """Return a function that gives the USD that each request without a cached reply may cost at most.

        `again`: those that failed are asked anew.
        """
        if self.caller is None:
            return []
        gate = self.caller.gate
        prices = list[Callable[[], float]]()
        for request in requests:
            cached = self._cached(request)
            if not cached or (again and isinstance(cached, CallError)):
                size = gate.estimates.size(request)
                prices.append(partial(gate.price, size))
        return prices

    async def call(
        self,
        request: Request,
        *,
        again: bool = False,
        allowance: Allowance | None = None,
    ) -> Reply | CallError:
        """Return a reply, or the error of the last try. An equal request of another group is asked once.

        `allowance` is what its group may spend. `again` asks anew what was answered in an earlier run. If only
        cached replies count, `again` passes over errors alone: a second reply to one request would not be read, and
        so be paid for without end.
        """
        caller = self.caller
        cache = self.cache
        if caller is None or request.cached_only:
            cached = self._cached(request)
            if cached and not (again and isinstance(cached, CallError)):
                return cached
            self.unanswered += not request.cached_only
            return UNANSWERED
        # without a cache each request has a key of its own
        key = cache.key(request) if cache else b"%d" % id(request)
        while key in self._in_flight:
            await self._in_flight[key].wait()
        if again and key not in self._asked_again:
            self._asked_again.add(key)
        elif cached := self._cached(request, key):
            return cached
        done = self._in_flight[key] = asyncio.Event()
        try:
            store = partial(cache.keep, key) if cache else None
            answer = await caller.call(await _fitted(request), store, allowance)
            return self._whole(request, answer)
        finally:
            del self._in_flight[key]
            done.set()

    def _cached(
        self, request: Request, key: bytes | None = None
    ) -> Reply | CallError | None:
        """Return a cached answer, if it is one. If it cannot be read the run stops.

        A reply whose probabilities give no score is none, up to the third: another endpoint may list more words. Nor
        is one to a prompt that was cut, if the judge can be asked. `key` is that of the request, if it is made already.
        """
        cache = self.cache
        if cache is None:
            return self._too_long(request)
        key = key or cache.key(request)
        try:
            answer = cache.find(key) or self._too_long(request)
            if not isinstance(answer, Reply):
                return answer
            scoreless = request.by_probability and answer.refusal is None
            scoreless = scoreless and not is_usable(answer, request)
            if scoreless and cache.times(key) < _SCORELESS:
                return None
        except RulerError as error:
            # calls in flight are paid for and may finish
            if self.stop_signal is not None:
                self.stop_signal.stop(error)
            return INTERRUPTED
        answer = counted(request, answer, cost_of(self.price))
        if answer.cut and self.caller:
            return None
        return self._whole(request, answer)

    def _whole(
        self,
        request: Request,
        answer: Reply | CallError,
    ) -> Reply | CallError:
        """Return the answer, or an error in place of one to a prompt that the server cut."""
        if isinstance(answer, CallError):
            return answer
        if not answer.cut:
            usage = answer.usage
            if self.cut and usage.prompt > self.cut and not usage.estimated:
                self.cut = None  # the shorter figure was a miscount
            return answer
        self.cut = min(answer.cut, self.cut or answer.cut)
        return self._cut_short(request, answer.usage, cached=answer.cached)

    def _too_long(self, request: Request) -> CallError | None:
        """Return the error of a prompt that the judge's server would cut, as it cut others."""
        if self.cut is None or most_tokens(request.prompt) <= self.cut:
            return None
        return self._cut_short(request, NO_USAGE)

    def _cut_short(
        self, request: Request, usage: Usage, *, cached: bool = False
    ) -> CallError:
        """Return the error of a prompt of which the judge's server reads too little."""
        words = (
            f"about {likely_tokens(request.prompt)} tokens, of which the judge's server reads only {self.cut}: "
            "it cuts prompts silently; give it a longer context (num_ctx of Ollama)"
        )
        context = (self.cut or 0, most_tokens(request.prompt))
        return CallError(
            "too_long",
            words,
            "group",
            context=context,
            cut=usage,
            cached=cached,
        )


async def _fitted(request: Request) -> Request:
    """Return a request with its large pictures made smaller, in a thread."""
    if not any(needs_less(picture) for _, picture in request.pictures):
        return request
    return await asyncio.to_thread(with_smaller, request)


@dataclass
class Panel:
    """Several judges that share a budget and a stop signal; each has its own limits and concurrency.

    `budget` is the one that the callers of the judges spend from; `ledger` has the cached replies.
    """

    judges: Sequence[PanelJudge]
    stop_signal: StopSignal
    budget: Budget = field(default_factory=Budget)
    ledger: Ledger | None = None

    @cached_property
    def _gates(self) -> list[Gate]:
        callers = [judge.caller for judge in self.judges]
        return [caller.gate for caller in callers if caller is not None]

    def watch(self, on_change: Callable[[], object]) -> None:
        """Register a function to call when calls begin to wait for a judge, and when it answers again."""
        for gate in self._gates:
            gate.on_change = on_change

    def schedule_check(self) -> None:
        """Make every gate look again at the calls that wait."""
        for gate in self._gates:
            gate.schedule_check()

    async def wait_for_demand(self) -> None:
        """Wait until no judge has many calls waiting, so that one more group should be read."""
        while not all(gate.wants_more for gate in self._gates):
            for gate in self._gates:
                await gate.wait_for_demand()

    def status(self) -> Status:
        """Sum up the gates of all judges now, with the longest wait of any."""
        return Status.of([gate.status() for gate in self._gates])

    def unsure(self, bounds: Iterable[tuple[int, int]]) -> bool:
        """Return whether replies of only 0 and 1, `GroupResult.bounds`, may be on another scale by now."""
        return any(bound <= self.judges[at].scale.left for at, bound in bounds)

    def cost(self, used: Sequence[Usage]) -> float | None:
        """Return the USD of the calls of judges; None if the price of any judge is not known, asked or not."""
        all_priced = all(judge.price for judge in self.judges)
        return sum(usage.usd for usage in used) if all_priced else None

    def spent(self) -> tuple[Usage, float | None]:
        """Tokens of all replies so far, and USD if every price is known."""
        used = [judge.stats.usage for judge in self.judges]
        return sum(used, Usage()), self.cost(used)

    def count(self, summary: Summary) -> None:
        """Set the counts of all calls so far: sent, most in flight, tried again, without a cached reply."""
        whole = CallStats()
        unanswered = 0
        for judge in self.judges:
            whole.calls += judge.stats.calls
            whole.hedged += judge.stats.hedged
            whole.most += judge.stats.most
            whole.retried += judge.stats.retried
            unanswered += judge.unanswered
        summary.asked = whole.calls
        summary.hedged = whole.hedged
        summary.most_in_flight = whole.most
        summary.retried = dict(sorted(whole.retried.items()))
        summary.unanswered = unanswered


def cache_of(
    ledger: Ledger | None,
    judge: JudgeSettings,
) -> ReplyCache:
    """Return the part of a ledger that is a judge's."""
    return ReplyCache(
        ledger,
        judge.model,
        judge.params,
        stand_in_of(judge),
    )


def open_panel(
    settings: ScoreSettings,
    resolved: Sequence[ResolvedJudge],
    stop_signal: StopSignal,
    ledger: Ledger | None,
) -> Panel:
    """Make the judges of a run, in the order of `settings.judges`; must be called where the loop runs."""
    budget = Budget(settings.pool.max_cost, fair=settings.spend == "spread")
    judges = []
    for judge, target in zip(settings.judges, resolved, strict=True):
        caller = cache = None
        if target.judge is not None:
            limits = settings.pool.of(judge)
            caller = open_caller(target, judge, limits, stop_signal, budget)
        if not target.embedded and (ledger is not None or caller is None):
            cache = cache_of(ledger, judge)
        judges.append(
            PanelJudge(caller, cache, target.price, target.context, stop_signal)
        )
    return Panel(judges, stop_signal, budget, ledger)


def cost_of(price: Price | None) -> Cost:
    """Return the function that gives the USD of a usage; None if the price is not known."""
    return price.of if price else lambda _: None


def open_caller(
    resolved: ResolvedJudge,
    judge: JudgeSettings,
    settings: PoolSettings,
    stop_signal: StopSignal,
    budget: Budget | None = None,
) -> Caller:
    """Make the calls of one judge, with limits of its own; UsageError if it may not open so many files."""
    assert resolved.judge is not None  # noqa: S101 - else it makes no calls
    most_open = max(1, open_files() - _SPARE)
    stated = settings.concurrency
    if stated and stated > most_open and not resolved.embedded:
        problem = f"the open-file limit allows {most_open} connections"
        remedy = "raise it with ulimit -n, or ask for fewer"
        raise UsageError(problem, remedy, place=f"--concurrency {stated}")
    address = Location(resolved.base).public if resolved.base else ""
    if limit := stated or (_EMBEDDED if resolved.embedded else None):
        concurrency: AdaptiveConcurrency = ConcurrencyLimit(limit)
    else:
        queues = judge.model.startswith(QUEUEING_ENGINES)
        start = START_OF_QUEUE if queues else START
        concurrency = AdaptiveConcurrency(most_open, start, resolved.account)
    gate = Gate(
        concurrency,
        stop_signal,
        requests=Window(settings.rpm),
        tokens=Window(settings.tpm and settings.tpm * _CERTAIN),
        budget=budget or Budget(settings.max_cost),
        estimates=Estimates(stated_limit(body_of(judge.params))),
        cost=cost_of(resolved.price),
        breaker=Breaker(
            asyncio.get_running_loop().time(),
            settings.max_outage,
            judge.label,
            address,
            settings.wait_for_judge,
        ),
    )
    hedging = Hedging() if settings.hedge and not resolved.embedded else None
    return Caller(
        resolved.judge,
        gate,
        retries=settings.retries,
        timeout=judge.timeout,
        hedging=hedging,
    )
