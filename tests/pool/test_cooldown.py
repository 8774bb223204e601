"""A refusal holds for all calls until later ones are answered; then it is that call's own."""

from __future__ import annotations

import math
from operator import itemgetter

import anyio
import pytest

from ruler_cli.pool.limits import AdaptiveConcurrency, Window
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request
from tests.values import few
from tests.virtual import Gateway, World, called, flood, numbered, together


def time_of(
    world: World, calls: int, limit: int | None, rpm: float | None = None
) -> tuple[float, Caller]:
    """Return the seconds that `calls` calls take, and their caller."""

    async def work(caller: Caller) -> tuple[float, Caller]:
        # one run in forty is longer than the mean by far: the same one each time
        caller._random.seed(1)
        await flood(caller, math.inf, calls=calls)
        return anyio.current_time(), caller

    concurrency = limit or AdaptiveConcurrency(48)
    return called(world, work, concurrency, timeout=600.0, requests=Window(rpm))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("latency", few(1, [0.2, 1.0]))
@pytest.mark.parametrize(
    ("limit", "calls"), [(1, 100), (4, 300), (32, 1500), (None, 2000)]
)
def test_one_in_ten(
    limit: int | None, calls: int, latency: float, late: bool
) -> None:
    """One call in ten refused at random for a second: at most 2.5 times as long, and no call is lost.

    It is the median of five runs: by chance a single one may take four times as long.
    """

    def taken(world: World) -> tuple[float, Caller]:
        return time_of(world, calls, limit)

    plain = taken(World(latency, spread=0.3))
    runs = [
        taken(Gateway(latency, spread=0.3, late=late, seed=seed))
        for seed in range(1, 6)
    ]
    seconds, refusing = sorted(runs, key=itemgetter(0))[2]
    assert seconds <= 2.5 * plain[0]
    assert [caller.stats.usage.calls for _, caller in runs] == [calls] * 5
    assert (
        refusing.gate.concurrency.limit >= 0.8 * plain[1].gate.concurrency.limit
    )


def test_floor() -> None:
    """A refused call waits as long as the judge asked, even if the others go on."""

    class Noted(Gateway):
        async def ask(self, request: Request) -> Reply | CallError:
            waits = self.asks.pop(request.user, [])
            assert all(anyio.current_time() >= until for until in waits)
            return await super().ask(request)

    answers = called(
        Noted(share=0.3, seconds=3.0),
        lambda caller: together(caller, numbered(400)),
        16,
        timeout=600.0,
    )
    assert all(isinstance(answer, Reply) for answer, _ in answers)


def test_breaker_stays_closed() -> None:
    """Refusals of single calls never count as an outage of the judge."""

    class Noted(Gateway):
        opened = 0

        async def ask(self, request: Request) -> Reply | CallError:
            self.opened += (
                anyio.current_time() > 3.0 and callers[0].gate.breaker.open
            )
            return await super().ask(request)

    async def work(caller: Caller) -> None:
        callers.append(caller)
        await flood(caller, math.inf, calls=2000)

    callers: list[Caller] = []
    world = Noted(latency=1.0, spread=0.3)
    called(world, work, 200, timeout=600.0)
    assert world.opened == 0


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("limit", [8, 32])
def test_limit_for_all(limit: int, late: bool) -> None:
    """All calls wait for a limit of all: in a minute only calls already in flight are refused."""
    world = Gateway(latency=0.5, share=0.0, minute=120, late=late)
    seconds, _ = time_of(world, 600, limit)
    assert seconds < 5 * 60
    assert max(world.over.values()) <= limit
    assert world.refused <= 0.08 * world.asked


def test_limit_for_all_later() -> None:
    """All calls wait for a limit of all that begins after many single refusals, too."""
    world = Gateway(latency=0.5, spread=0.3, minute=300, since=30.0)
    time_of(world, 3500, 32)
    assert len(world.over) >= 3
    assert max(world.over.values()) <= 16
    assert max(world.taken.values()) <= 300


def test_rpm() -> None:
    """No minute holds more than --rpm, and nearly all of it is used, also if single calls are refused."""

    class Counted(Gateway):
        async def ask(self, request: Request) -> Reply | CallError:
            every.append(anyio.current_time())
            return await super().ask(request)

    every: list[float] = []
    time_of(Counted(latency=1.0), 2000, 64, rpm=300)
    fullest = max(
        sum(at <= sent < at + 60 for sent in every) for at in every[::10]
    )
    assert fullest <= 300
    assert sum(60 <= at < 240 for at in every) >= 0.98 * 3 * 300
