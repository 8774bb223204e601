"""The callers of all judges of a run, as one: what is in flight, what it took, when to bring more.

Settings → the parts of a pool, put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ruler_cli.config import JudgeSettings, PoolSettings
from ruler_cli.errors import UsageError
from ruler_cli.judges.chat_completions import stated_limit
from ruler_cli.judges.pricing import Price
from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.ledger.database import open_files
from ruler_cli.ledger.reply_cache import ReplyCache
from ruler_cli.observer import Status
from ruler_cli.pool.budget import Budget, Estimates
from ruler_cli.pool.concurrency import AdaptiveConcurrency, ConcurrencyLimit
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import Cost, Gate
from ruler_cli.pool.limits import Window
from ruler_cli.pool.retries import CachedOnly, Caller
from ruler_cli.types import Usage


@dataclass(frozen=True, slots=True)
class PanelStats:
    """What the calls of a run took: tries, the most in flight, tries again by what made them necessary.

    `unanswered` are requests that the ledger does not answer where nobody is asked.
    """

    asked: int
    most: int
    retried: dict[str, int]
    unanswered: int


class Panel:
    """Several judges that share a budget and a halt; each has its own limits and concurrency."""

    def __init__(
        self, callers: Sequence[Caller | CachedOnly], prices: Sequence[Price | None], halt: StopSignal
    ) -> None:
        """`prices` in the callers' order."""
        self.callers, self.prices, self.halt = tuple(callers), tuple(prices), halt
        self.gates = [caller.gate for caller in callers if isinstance(caller, Caller)]
        self.budget = self.gates[0].budget if self.gates else Budget()

    @property
    def in_flight(self) -> int:
        """Calls that are out now."""
        return sum(gate.in_flight for gate in self.gates)

    def nudge(self) -> None:
        """Have every line look again."""
        for gate in self.gates:
            gate.nudge()

    async def room(self) -> None:
        """Wait until more work should be brought: no judge's line is long."""
        if len(self.gates) == 1:
            await self.gates[0].wait_for_demand()
            return
        while not all(gate.wants_more for gate in self.gates):
            for gate in self.gates:
                await gate.wait_for_demand()

    def status(self) -> Status:
        """What is going on right now, all judges together; the longest wait of any."""
        each = [gate.status() for gate in self.gates] or [Status(spent_usd=self.budget.spent)]
        return each[0] if len(each) == 1 else Status.of(each, self.budget.spent)

    def cost(self, used: Sequence[Usage]) -> float | None:
        """USD of tokens, by judge; None where the price of a judge that was asked is not known."""
        total = 0.0
        for usage, price in zip(used, self.prices, strict=True):
            if price is None and usage.calls:
                return None
            total += price.of(usage) if price is not None else 0.0
        return total

    def spent(self) -> tuple[Usage, float | None]:
        """Tokens of all replies so far, and USD where every price is known."""
        used = [caller.stats.usage for caller in self.callers]
        whole = used[0] if len(used) == 1 else sum(used, Usage())
        return whole, None if None in self.prices else self.cost(used)

    def tries(self) -> PanelStats:
        """What all calls so far took."""
        tallies = [caller.stats for caller in self.callers]
        retried: dict[str, int] = {}
        for tally in tallies:
            for kind, number in tally.retried.items():
                retried[kind] = retried.get(kind, 0) + number
        most = sum(tally.most for tally in tallies)
        asked, unanswered = (
            sum(each) for each in zip(*((t.calls, t.unanswered) for t in tallies), strict=True)
        )
        return PanelStats(asked, most, dict(sorted(retried.items())), unanswered)


_EMBEDDED = 32
_CERTAIN = 0.995
"""Share of --tpm that is used: what calls in flight will have taken is only estimated."""
_SPARE = 100
"""File descriptors that are left for everything else."""


def pool(
    chosen: ResolvedJudge,
    judge: JudgeSettings,
    settings: PoolSettings,
    halt: StopSignal,
    cache: ReplyCache | None = None,
    budget: Budget | None = None,
) -> Caller:
    """What asks one judge: must be made where the loop runs. UsageError where it could not open so much.

    Limits are the judge's own; `budget` is that of a run with several judges.
    """
    most_open = max(1, open_files() - _SPARE)
    if settings.concurrency and settings.concurrency > most_open and not chosen.embedded:
        raise UsageError(
            f"--concurrency {settings.concurrency}: this system lets a process have {most_open} connections; "
            "raise it with: ulimit -n, or ask for fewer"
        )
    limit = settings.concurrency or (_EMBEDDED if chosen.embedded else None)
    level = ConcurrencyLimit(limit) if limit else AdaptiveConcurrency(most_open)
    gate = limited(chosen, judge, settings, halt, level, budget or Budget(settings.max_cost))
    return Caller(chosen.judge, gate, retries=settings.retries, timeout=judge.timeout, cache=cache)


def limited(
    chosen: ResolvedJudge,
    judge: JudgeSettings,
    settings: PoolSettings,
    halt: StopSignal,
    level: ConcurrencyLimit,
    budget: Budget,
) -> Gate:
    """The gate of a judge, with the limits of the settings beside a level."""
    return Gate(
        level,
        halt,
        requests=Window(settings.rpm),
        tokens=Window(settings.tpm and settings.tpm * _CERTAIN),
        budget=budget,
        estimates=Estimates(stated_limit(judge.params)),
        cost=_cost(chosen.price),
    )


def _cost(price: Price | None) -> Cost:
    return lambda usage: None if price is None else price.of(usage)
