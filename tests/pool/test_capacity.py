"""The number of calls in flight finds what a judge takes, however it refuses or queues the others."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import anyio
import pytest

from ruler_cli.pool.limits import (
    START_OF_QUEUE,
    AdaptiveConcurrency,
    ConcurrencyLimit,
    Sent,
)
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, RateLimitRemaining, Reply, Request
from tests.virtual import World, called, flood

CEILING = 4096
LATE = CallError("transport", "the judge did not answer within 10 s", "call")


def simulated(
    world: World,
    calls: int,
    limit: AdaptiveConcurrency | None = None,
    *,
    retries: int = 2,
    timeout: float = 600.0,
) -> tuple[Caller, float]:
    """Make so many calls; return the caller and the seconds that they take."""

    async def work(caller: Caller) -> tuple[Caller, float]:
        await flood(caller, math.inf, calls=calls)
        return caller, anyio.current_time()

    adaptive = AdaptiveConcurrency(CEILING)
    return called(
        world, work, limit or adaptive, retries=retries, timeout=timeout
    )


def halved(now: float) -> int:
    """Return a capacity that halves for a while."""
    return 16 if 150 <= now < 300 else 32


@dataclass
class Queueing(World):
    """A judge that works on `places` calls at once and has the others wait, `deadline` seconds at most."""

    places: int = 16
    deadline: float = math.inf
    late: int = 0
    line: anyio.Semaphore | None = None

    async def ask(self, request: Request) -> Reply | CallError:
        """Answer, or give up at the deadline."""
        self.line = self.line or anyio.Semaphore(self.places)
        with anyio.move_on_after(self.deadline):
            async with self.line:
                return await super().ask(request)
        self.late += 1
        return LATE


@pytest.mark.parametrize(
    ("world", "calls", "uses"),
    [
        (World(spread=0.3, capacity=8), 5000, [(60, math.inf, 0.93 * 8)]),
        (
            World(2.0, spread=0.3, capacity=halved),
            7500,
            [
                (60, 150, 0.93 * 32),
                (180, 300, 0.9 * 16),
                (420, math.inf, 0.9 * 32),
            ],
        ),
        (Queueing(spread=0.3), 6000, [(10, math.inf, 0.98 * 16)]),
    ],
)
def test_used(
    world: World, calls: int, uses: list[tuple[float, float, float]]
) -> None:
    """Nearly all of a hidden capacity is used, also if it changes; 3 % of calls are refused, or 128 queue."""
    caller, _ = simulated(world, calls)
    for start, end, used in uses:
        assert world.used(start, min(end, world.sent[-1][0])) >= used
    assert world.refused <= 0.03 * world.asked
    assert caller.stats.most <= 128


@pytest.mark.parametrize(
    ("places", "calls"), [(4, 1000), (16, 4000), (100, 4000)]
)
def test_queue_beyond_the_deadline(places: int, calls: int) -> None:
    """A judge whose queue is too long for the timeout is soon asked with as many calls as it answers."""
    world = Queueing(2.0, places=places, deadline=10.0)
    limit = AdaptiveConcurrency(CEILING, START_OF_QUEUE)
    caller, seconds = simulated(world, calls, limit, retries=6, timeout=10.0)
    assert caller.stats.usage.calls == calls
    assert world.late <= 0.1 * calls
    assert round(seconds) <= 1.1 * 2.0 * calls / places


def test_one_call_that_hangs() -> None:
    """A call that is never answered, in a step of few calls, says nothing of a queue."""

    class Hanging(World):
        async def ask(self, request: Request) -> Reply | CallError:
            """Answer all but the second call."""
            self.latency = 10.0 if self.asked == 1 else 2.0
            answer = await super().ask(request)
            return LATE if anyio.current_time() == 10.0 else answer

    limit = AdaptiveConcurrency(CEILING, START_OF_QUEUE)
    simulated(Hanging(), 4, limit, retries=1, timeout=10.0)
    assert limit.limit == START_OF_QUEUE


def test_bounds() -> None:
    """A number that the user set stays and is used; an adaptive one stays below the files of this machine."""
    refusing = World(spread=0.3, capacity=8)
    caller, _ = simulated(refusing, 300, ConcurrencyLimit(12))
    assert (caller.gate.concurrency.limit, caller.stats.most) == (12, 12)
    assert caller.stats.usage.calls == 300
    caller, _ = simulated(World(), 3000, AdaptiveConcurrency(100))
    assert caller.stats.most == 100


def test_errors_cut_nothing() -> None:
    """Errors of a server hold growth back, and never cut the number of calls."""
    broken = CallError("transport", "broken", "call", billed=False)
    world = World(
        error=lambda *rest: broken if rest[-1].random() < 0.2 else None
    )
    caller, _ = simulated(world, 2000, retries=20)
    assert caller.gate.concurrency.limit >= 8
    assert caller.stats.usage.calls == 2000


@dataclass
class Counted(World):
    """A judge that accepts `quota` requests a minute, and whose replies name `told` more than it has left."""

    quota: int = 60
    told: int = 0
    accepted: list[float] = field(default_factory=list)

    async def ask(self, request: Request) -> Reply | CallError:
        """Refuse, or answer with what is left."""
        now = anyio.current_time()
        recent = sum(now - 60 < at for at in self.accepted)
        if recent >= self.quota:
            self.asked += 1
            self.refused += 1
            await anyio.sleep(0.01)
            return CallError(
                "transport", "429", "call", rate=True, billed=False
            )
        self.accepted.append(now)
        reply = await super().ask(request)
        if isinstance(reply, CallError):
            return reply
        left = max(0, self.quota - recent - 1 + self.told)
        return replace(reply, left=RateLimitRemaining(left))


@pytest.mark.parametrize(
    ("world", "share"),
    [
        (Counted(2.0, quota=60), 0.4),
        (Counted(2.0, quota=300), 1 / 3),
        (Counted(2.0, quota=10**6), 0.05),
        (Counted(2.0, capacity=8, quota=10**6), 0.05),
        (Counted(2.0, quota=10**6, told=-(10**7)), 0.0),
    ],
)
def test_left(world: Counted, share: float) -> None:
    """Replies may name what is left exactly, or too much, or nothing: few calls are refused, and none hangs."""
    _, seconds = simulated(world, 1000)
    assert world.refused <= share * world.asked
    assert seconds <= max(600, 1000 * 120 / world.quota)


def test_next_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool begins with what the last one of the process learned of its judge.

    After a quarter of an hour it begins with what worked, and with the usual number at least.
    """

    def begun(judge: str, ceiling: int = 1000) -> int:
        return AdaptiveConcurrency(ceiling, judge=judge).limit

    first = AdaptiveConcurrency(1000, judge="a")
    first.left(7, 100)
    first.rejected(1.0, Sent(0, first.epoch, 63), 60, None)
    assert (first.limit, begun("a"), begun("a", 20), begun("b")) == (
        51,
        51,
        20,
        8,
    )
    low = AdaptiveConcurrency(1000, judge="low")
    for _ in range(2):
        low.rejected(1.0, Sent(0, low.epoch, 7), 3, None)
    assert begun("low") == 2
    later = time.monotonic() + 901
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert begun("low") == 8
