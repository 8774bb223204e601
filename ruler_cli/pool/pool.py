"""Settings → the parts of a pool, put together."""

from __future__ import annotations

from ruler_cli.errors import UsageError
from ruler_cli.files.database import open_files
from ruler_cli.judges.body import stated_limit
from ruler_cli.judges.choose import Chosen
from ruler_cli.judges.prices import Price
from ruler_cli.ledger import ReplyCache
from ruler_cli.pool.budget import Budget
from ruler_cli.pool.caller import Caller, Claims
from ruler_cli.pool.estimates import Estimates
from ruler_cli.pool.gate import Cost, Gate, Shared
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.level import Adaptive, Fixed
from ruler_cli.pool.limits import Window
from ruler_cli.settings import JudgeSettings, PoolSettings

_EMBEDDED = 32
_CERTAIN = 0.995
"""Share of --tpm that is used: what calls in flight will have taken is only estimated."""
_SPARE = 100
"""File descriptors that are left for everything else."""


def pool(
    chosen: Chosen,
    judge: JudgeSettings,
    settings: PoolSettings,
    halt: Halt,
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
    level = Fixed(limit) if limit else Adaptive(most_open)
    gate = limited(chosen, judge, settings, halt, level, budget or Budget(settings.max_cost))
    return Caller(chosen.judge, gate, retries=settings.retries, timeout=judge.timeout, cache=cache)


def limited(
    chosen: Chosen, judge: JudgeSettings, settings: PoolSettings, halt: Halt, level: Fixed, budget: Budget
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


def part_of_a_pool(
    chosen: Chosen,
    judge: JudgeSettings,
    settings: PoolSettings,
    halt: Halt,
    budget: Budget,
    cache: ReplyCache | None,
    shared: Shared,
    claims: Claims | None,
) -> Caller:
    """What asks one judge in one of several processes: limits are `shared`, a level is its own.

    `budget` only counts.
    """
    most_open = max(1, open_files() - _SPARE)
    limit = settings.concurrency or (_EMBEDDED if chosen.embedded else None)
    level = Fixed(min(limit, most_open)) if limit else Adaptive(most_open)
    gate = Gate(level, halt, budget=budget, cost=_cost(chosen.price), shared=shared)
    retries, timeout = settings.retries, judge.timeout
    return Caller(chosen.judge, gate, retries=retries, timeout=timeout, cache=cache, claims=claims)


def _cost(price: Price | None) -> Cost:
    return lambda usage: None if price is None else price.of(usage)
