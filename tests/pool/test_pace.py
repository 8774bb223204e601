"""A limit per second or per minute that a judge does not name is found, and seldom passed."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import anyio
import pytest

from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.judging.panel import open_caller
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.limits import AdaptiveConcurrency, Pace, Sent
from ruler_cli.pool.retries import Caller
from ruler_cli.settings.models import JudgeSettings, PoolSettings
from ruler_cli.types import CallError, Reply, Request
from tests.values import few
from tests.virtual import Gateway, World, flood, virtually


@dataclass
class Metered(World):
    """A judge that refuses more than `limit` requests in `seconds`.

    They are counted in a sliding window, in fixed ones, or by a bucket that holds as many and is filled
    evenly. `asks`: a refusal names the seconds to wait.
    """

    limit: int = 60
    seconds: float = 60.0
    form: str = "sliding"
    asks: bool = False
    accepted: deque[float] = field(default_factory=deque)
    filled: float = math.nan
    looked: float = 0.0

    async def ask(self, request: Request) -> Reply | CallError:
        """Refuse, or answer."""
        wait = self._wait(anyio.current_time())
        if not wait:
            return await super().ask(request)
        self.asked += 1
        self.refused += 1
        await anyio.sleep(0.01)
        asked = wait if self.asks else None
        return CallError(
            "transport", "429", "call", retry_after=asked, rate=True, billed=False
        )

    def _wait(self, now: float) -> float:
        if self.form == "bucket":
            return self._bucket(now)
        fixed = self.form == "fixed"
        since = now // self.seconds * self.seconds if fixed else now - self.seconds
        while (
            self.accepted
            and self.accepted[0] <= since
            and not (fixed and self.accepted[0] == since)
        ):
            self.accepted.popleft()
        if len(self.accepted) < self.limit:
            self.accepted.append(now)
            return 0.0
        return (since if fixed else self.accepted[0]) + self.seconds - now

    def _bucket(self, now: float) -> float:
        if math.isnan(self.filled):
            self.filled = self.limit
        self.filled = min(
            self.limit, self.filled + (now - self.looked) * self.limit / self.seconds
        )
        self.looked = now
        if self.filled < 1:
            return (1 - self.filled) * self.seconds / self.limit
        self.filled -= 1
        return 0.0


def asked(world: World, calls: int) -> tuple[Caller, Pace]:
    """Make so many calls, without a setting, in virtual time."""

    async def main() -> tuple[Caller, Pace]:
        caller = open_caller(
            ResolvedJudge(world, None, None),
            JudgeSettings(world.name),
            PoolSettings(),
            StopSignal(),
        )
        caller._random.seed(1)
        await flood(caller, math.inf, calls=calls)
        assert isinstance(caller.gate.concurrency, AdaptiveConcurrency)
        return caller, caller.gate.concurrency.pace

    return virtually(main)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("form", few(2, ["sliding", "bucket", "fixed"]))
@pytest.mark.parametrize(
    ("limit", "seconds"), few(2, [(120, 60.0), (10, 1.0), (300, 60.0), (60, 60.0)])
)
def test_hidden_rate(limit: int, seconds: float, form: str, asks: bool) -> None:
    """Of 1,000 requests to a judge with a limit that it does not name, it refuses one in twenty at most."""
    world = Metered(2.0, spread=0.3, limit=limit, seconds=seconds, form=form, asks=asks)
    caller, _ = asked(world, 1000)
    assert caller.stats.usage.calls == 1000
    assert world.refused <= 0.05 * world.asked


@pytest.mark.parametrize("capacity", [3, 20, 50])
def test_capacity_is_no_rate(capacity: int) -> None:
    """A judge that refuses above a number in flight is not slowed down, and refuses one in twenty at most."""
    world = World(2.0, spread=0.3, capacity=capacity)
    _, pace = asked(world, 1000)
    assert pace.interval == 0
    assert world.refused <= 0.05 * world.asked


def test_chance_is_no_rate() -> None:
    """A judge that refuses one call in ten at random, whatever the rate, is not slowed down for long."""
    world = Gateway(1.0, spread=0.3, seconds=0.0)
    _, pace = asked(world, 2000)
    assert pace.interval < 0.5


def refused_pace(certain: bool) -> Pace:
    """A pace after ten calls in ten seconds of which every second was refused."""
    pace = Pace()
    for number in range(20):
        pace.sent(float(number), number)
        if number % 2:
            pace.refused(
                number + 0.1, Sent(number, 0, began=float(number)), 0.0, certain=certain
            )
    return pace


def test_interval() -> None:
    """The interval is the time per accepted call at least; refusals that fewer calls prevent set none."""
    assert refused_pace(certain=True).interval >= 1.5
    assert (
        refused_pace(certain=True).proved == 0.0
    )  # no call was answered: the next pool begins without it
    assert refused_pace(certain=False).interval == 0.0


def test_shrinks() -> None:
    """The interval shrinks after many calls without a refusal, if it held them back."""
    pace = refused_pace(certain=True)
    before, now = pace.interval, 100.0
    for number in range(20, 400):
        now += pace.wait(now)
        pace.sent(now, number)
    assert pace.interval < before / 1.2
    idle = pace.interval
    for number in range(400, 800):
        now += 10 * idle
        pace.sent(now, number)
    assert pace.interval == idle


def test_in_vain() -> None:
    """If refusals come as often however long the interval is, it is given up."""
    pace, now = refused_pace(certain=True), 100.0
    for number in range(20, 400):
        now += pace.wait(now)
        pace.sent(now, number)
        if number % 8 == 0:
            pace.refused(now + 0.01, Sent(number, 0, began=now), 0.0, certain=True)
    assert pace.interval == 0.0


def test_steady() -> None:
    """A long interval shrinks after minutes without a refusal, however few calls these have."""
    pace = Pace(30.0)
    now = 0.0
    for number in range(60):
        now += pace.wait(now)
        pace.sent(now, number)
    assert pace.interval < 30.0 / 3


@dataclass
class Closed(World):
    """A judge that refuses all calls between two times; `asks` is the wait that it names."""

    since: float = 20.0
    until: float = 1220.0
    asks: float | None = None

    async def ask(self, request: Request) -> Reply | CallError:
        """Refuse, or answer."""
        if not self.since <= anyio.current_time() < self.until:
            return await super().ask(request)
        self.asked += 1
        self.refused += 1
        await anyio.sleep(0.01)
        return CallError(
            "transport", "429", "call", retry_after=self.asks, rate=True, billed=False
        )


@pytest.mark.parametrize("asks", [None, 10.0, 60.0])
@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_outage_is_no_rate(minutes: int, asks: float | None) -> None:
    """A judge that refused all calls for long is asked as fast as before once it answers again."""
    world = Closed(2.0, spread=0.3, until=20.0 + 60 * minutes, asks=asks)

    async def main() -> float:
        settings = PoolSettings(max_outage=math.inf)
        caller = open_caller(
            ResolvedJudge(world, None, None), JudgeSettings(), settings, StopSignal()
        )
        await flood(caller, math.inf, calls=5000)
        return anyio.current_time()

    assert virtually(main) - world.until < 180


def test_slow_calls_are_no_outage() -> None:
    """A refusal of calls that all take minutes is no outage: what was refused is not asked again at once."""
    world = World(150.0, capacity=8)

    async def main() -> None:
        judge = ResolvedJudge(world, None, None)
        caller = open_caller(
            judge, JudgeSettings(), PoolSettings(retries=2), StopSignal()
        )
        await flood(caller, math.inf, calls=1000)

    virtually(main)
    assert world.refused / world.asked <= 0.05
