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
from ruler_cli.pool.retries import Caller
from ruler_cli.settings.models import JudgeSettings, PoolSettings
from ruler_cli.types import CallError, Reply, Request
from tests.values import few
from tests.virtual import World, flood, virtually


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
            "transport",
            "429",
            "call",
            retry_after=asked,
            rate=True,
            billed=False,
        )

    def _wait(self, now: float) -> float:
        if self.form == "bucket":
            return self._bucket(now)
        fixed = self.form == "fixed"
        since = (
            now // self.seconds * self.seconds if fixed else now - self.seconds
        )
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
            self.limit,
            self.filled + (now - self.looked) * self.limit / self.seconds,
        )
        self.looked = now
        if self.filled < 1:
            return (1 - self.filled) * self.seconds / self.limit
        self.filled -= 1
        return 0.0


def asked(world: World, calls: int) -> tuple[Caller, float]:
    """Make so many calls, without a setting, in virtual time; return the caller and the seconds."""

    async def main() -> tuple[Caller, float]:
        caller = open_caller(
            ResolvedJudge(world, None, None),
            JudgeSettings(world.name),
            PoolSettings(),
            StopSignal(),
        )
        caller._random.seed(1)
        await flood(caller, math.inf, calls=calls)
        return caller, anyio.current_time()

    return virtually(main)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("form", few(2, ["sliding", "bucket", "fixed"]))
@pytest.mark.parametrize(
    ("limit", "seconds"),
    few(2, [(120, 60.0), (10, 1.0), (300, 60.0), (60, 60.0)]),
)
def test_hidden_rate(limit: int, seconds: float, form: str, asks: bool) -> None:
    """A limit that the judge does not name is used, no call is lost, and at most two in five are refused."""
    world = Metered(
        2.0, spread=0.3, limit=limit, seconds=seconds, form=form, asks=asks
    )
    caller, wall = asked(world, 1000)
    assert caller.stats.usage.calls == 1000
    assert wall <= 2 * 1000 / limit * seconds
    assert world.refused <= 0.4 * world.asked


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
            "transport",
            "429",
            "call",
            retry_after=self.asks,
            rate=True,
            billed=False,
        )


@pytest.mark.parametrize("asks", [None, 10.0, 60.0])
@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_outage_is_no_rate(minutes: int, asks: float | None) -> None:
    """A judge that refused all calls for long is asked as fast as before once it answers again."""
    world = Closed(2.0, spread=0.3, until=20.0 + 60 * minutes, asks=asks)

    async def main() -> float:
        settings = PoolSettings(max_outage=math.inf)
        caller = open_caller(
            ResolvedJudge(world, None, None),
            JudgeSettings(),
            settings,
            StopSignal(),
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
