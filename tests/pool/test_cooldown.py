"""A refusal holds for all calls until later ones are answered; then it is that call's own."""

from __future__ import annotations

import math
from operator import itemgetter

import anyio
import pytest

from ruler_cli.pool.cooldown import Cooldown
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.limits import AdaptiveConcurrency, ConcurrencyLimit, Window
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request
from tests.values import few
from tests.virtual import Gateway, World, flood, virtually


def waited(answers: int = 20) -> Cooldown:
    """Return a cooldown after calls 0 and 2 were refused, and later calls answered."""
    cooldown = Cooldown()
    assert cooldown.refused(0.0, 0, 10.0)
    assert cooldown.answered(2.0, 1, 1.0)
    assert cooldown.refused(0.0, 2, 10.0)
    for number in range(3, 2 + answers):
        cooldown.answered(2.0, number, 1.0)
    return cooldown


def test_at_first() -> None:
    """At first all calls wait until the last refusal is over."""
    cooldown = Cooldown()
    assert cooldown.refused(1.0, 3, 5.0)
    assert cooldown.refused(2.0, 4, 1.0)
    assert cooldown.until == 6.0


def test_contradicted() -> None:
    """The answer to a call that was sent after the refused one ends the wait, to one before it does not."""
    cooldown = Cooldown()
    cooldown.refused(1.0, 3, 5.0)
    assert not cooldown.answered(1.5, 2, 0.5)
    assert cooldown.until == 6.0
    assert cooldown.answered(1.6, 4, 0.6)
    assert cooldown.until < 1.6


def test_each_by_itself() -> None:
    """An answer to a call between two refused ones leaves the wait of the second."""
    cooldown = Cooldown()
    cooldown.refused(1.0, 3, 5.0)
    cooldown.refused(1.0, 5, 2.0)
    assert not cooldown.answered(1.5, 4, 0.5)
    assert cooldown.until == 3.0
    assert cooldown.answered(1.6, 6, 0.5)


def test_answered_before() -> None:
    """A refusal that comes after the answer to a later call lets no other call wait."""
    cooldown = Cooldown()
    cooldown.answered(1.0, 7, 0.0)
    assert not cooldown.refused(1.5, 6, 5.0)
    assert cooldown.refused(1.5, 8, 5.0)


def test_remembered() -> None:
    """Once refusals prove to be single calls' own, the next ones let no other call wait.

    A hundred calls without a refusal reset that.
    """
    cooldown = waited()
    assert cooldown.single
    assert not any(
        cooldown.refused(3.0, number, 10.0) for number in (30, 40, 50, 60, 70, 80, 90)
    )
    assert not Cooldown().single
    assert not waited(3).single
    assert cooldown.refused(3.0, 191, 10.0)


def test_all_at_once() -> None:
    """Six refused of eight sent in a row, with no later one answered, hold for all calls."""
    cooldown = waited()
    assert [
        cooldown.refused(3.0, number, 10.0) for number in (30, 31, 32, 34, 35, 37)
    ] == [False] * 5 + [True]
    assert not cooldown.answered(3.5, 29, 2.5)
    assert cooldown.until == 13.0
    assert cooldown.answered(3.6, 33, 3.0)


def test_forgotten() -> None:
    """A wait without any answer forgets what was learnt; calls sent after it do not count."""
    cooldown = waited()
    for number in range(30, 40):
        cooldown.refused(3.0, number, 10.0)
    for number in range(40, 60):
        assert not cooldown.answered(14.0, number, 13.1)
    assert not cooldown.single
    assert cooldown.refused(15.0, 60, 10.0)


def test_later_limit() -> None:
    """Answers to calls that were sent between two waits do not end the second."""
    cooldown = Cooldown()
    cooldown.refused(0.0, 0, 10.0)
    cooldown.answered(11.0, 1, 10.0)
    cooldown.refused(12.0, 30, 10.0)
    for number in range(2, 30):
        cooldown.answered(13.0, number, 11.0)
    assert not cooldown.single
    assert cooldown.until == 22.0


def time_of(
    world: World, calls: int, concurrency: ConcurrencyLimit, rpm: float | None = None
) -> tuple[float, Caller]:
    """Return the seconds that `calls` calls take, and their caller."""

    async def main() -> tuple[float, Caller]:
        gate = Gate(concurrency, StopSignal(), requests=Window(rpm))
        caller = Caller(world, gate, retries=2, timeout=600.0)
        caller._random.seed(
            1
        )  # one run in forty is longer than the mean by far: the same one each time
        await flood(caller, math.inf, calls=calls)
        return anyio.current_time(), caller

    return virtually(main)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("latency", few(1, [0.2, 1.0]))
@pytest.mark.parametrize(
    ("limit", "calls"), [(1, 100), (4, 300), (32, 1500), (None, 2000)]
)
def test_one_in_ten(limit: int | None, calls: int, latency: float, late: bool) -> None:
    """One call in ten refused at random for a second: at most 2.5 times as long, and no call is lost.

    It is the median of five runs: by chance a single one may take four times as long.
    """

    def taken(world: World) -> tuple[float, Caller]:
        return time_of(
            world, calls, ConcurrencyLimit(limit) if limit else AdaptiveConcurrency(48)
        )

    plain = taken(World(latency, spread=0.3))
    runs = [
        taken(Gateway(latency, spread=0.3, late=late, seed=seed))
        for seed in range(1, 6)
    ]
    seconds, refusing = sorted(runs, key=itemgetter(0))[2]
    assert seconds <= 2.5 * plain[0]
    assert [caller.stats.usage.calls for _, caller in runs] == [calls] * 5
    assert refusing.gate.concurrency.limit >= 0.8 * plain[1].gate.concurrency.limit


def test_floor() -> None:
    """A refused call waits as long as the judge asked, even if the others go on."""

    class Noted(Gateway):
        async def ask(self, request: Request) -> Reply | CallError:
            waits = self.asks.pop(request.user, [])
            assert all(anyio.current_time() >= until for until in waits)
            return await super().ask(request)

    async def main() -> None:
        caller = Caller(
            Noted(share=0.3, seconds=3.0),
            Gate(ConcurrencyLimit(16), StopSignal()),
            retries=2,
            timeout=600.0,
        )
        async with anyio.create_task_group() as tasks:
            for number in range(400):
                tasks.start_soon(caller.call, Request("s", str(number), ("a",)))
        assert caller.stats.usage.calls == 400

    virtually(main)


def test_breaker_stays_closed() -> None:
    """Refusals of single calls never count as an outage of the judge."""

    class Noted(Gateway):
        opened = 0

        async def ask(self, request: Request) -> Reply | CallError:
            self.opened += anyio.current_time() > 3.0 and caller[0].gate.breaker.open
            return await super().ask(request)

    caller: list[Caller] = []
    world = Noted(latency=1.0, spread=0.3)

    async def main() -> None:
        caller.append(
            Caller(
                world,
                Gate(ConcurrencyLimit(200), StopSignal()),
                retries=2,
                timeout=600.0,
            )
        )
        await flood(caller[0], math.inf, calls=2000)

    virtually(main)
    assert world.opened == 0


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("limit", [8, 32])
def test_limit_for_all(limit: int, late: bool) -> None:
    """All calls wait for a limit of all: in a minute only calls already in flight are refused."""
    world = Gateway(latency=0.5, share=0.0, minute=120, late=late)
    seconds, _ = time_of(world, 600, ConcurrencyLimit(limit))
    assert seconds < 5 * 60
    assert max(world.over.values()) <= limit
    assert world.refused <= 0.08 * world.asked


def test_limit_for_all_later() -> None:
    """All calls wait for a limit of all that begins after many single refusals, too."""
    world = Gateway(latency=0.5, spread=0.3, minute=300, since=30.0)
    time_of(world, 3500, ConcurrencyLimit(32))
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
    time_of(Counted(latency=1.0), 2000, ConcurrencyLimit(64), rpm=300)
    fullest = max(sum(at <= other < at + 60 for other in every) for at in every[::10])
    assert fullest <= 300
    assert sum(60 <= at < 240 for at in every) >= 0.98 * 3 * 300
