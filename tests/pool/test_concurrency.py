"""Every rule of the level by itself, then what they come to against servers with a hidden capacity."""

from __future__ import annotations

import anyio
import pytest

from ruler_cli.pool.concurrency import AdaptiveConcurrency, ConcurrencyLimit
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request
from tests.virtual import World, flood, virtually

CEILING = 4096


class Rounds:
    """A level, and a clock for it."""

    def __init__(self, ceiling: int = CEILING) -> None:
        self.level = AdaptiveConcurrency(ceiling)
        self.now = 0.0

    def round(self, *, in_flight: int = CEILING, seconds: float = 1.0, pause: float = 1.0) -> int:
        """One round of replies after so many seconds each, with so many in flight at most."""
        self.now += pause
        epoch, limit = self.level.epoch, self.level.limit
        self.level.sent(min(limit, in_flight))
        for _ in range(limit):
            self.level.replied(self.now, epoch, seconds)
        return self.level.limit

    def reject(self, in_flight: int = 10**6, retry_after: float | None = None) -> int:
        """A 429 for a call that went just now."""
        self.level.rejected(self.now, self.level.epoch, in_flight, retry_after)
        return self.level.limit

    def until(self, limit: int) -> None:
        """Rounds until the level is there."""
        for _ in range(1000):
            if self.level.limit == limit:
                return
            self.round()
        pytest.fail(f"{limit} is never reached")

    def rounds(self) -> int:
        """Rounds until the level grows, long after every cooldown."""
        before = self.level.limit
        for number in range(1, 100):
            if self.round(pause=100.0 / number) != before:
                return number
        pytest.fail("it never grows")


def test_start_and_doubling() -> None:
    """It starts at 4 and doubles after each round."""
    server = Rounds()
    assert server.level.limit == 4
    assert [server.round() for _ in range(5)] == [8, 16, 32, 64, 128]


def test_a_round_is_whole() -> None:
    """One reply fewer than the level allows is no round."""
    level = AdaptiveConcurrency(CEILING)
    level.sent(4)
    for _ in range(3):
        level.replied(0.0, level.epoch, 1.0)
    assert level.limit == 4
    level.replied(0.0, level.epoch, 1.0)
    assert level.limit == 8


def test_old_replies() -> None:
    """Replies of calls that went before the level changed are of no round."""
    server = Rounds()
    server.round()
    for _ in range(100):
        server.level.replied(1.0, server.level.epoch - 1, 1.0)
    assert server.level.limit == 8


@pytest.mark.parametrize(("in_flight", "level"), [(25, 32), (26, 64)])
def test_in_use(in_flight: int, level: int) -> None:
    """A level of which less than four fifths are in use tells nothing."""
    server = Rounds()
    server.until(32)
    assert server.round(in_flight=in_flight) == level


def test_disturbed() -> None:
    """5xx and timeouts end a round, and never cut."""
    server = Rounds()
    server.until(32)
    for _ in range(50):
        server.level.disturbed()
        assert server.round() == 32
    assert server.round() == 64


def test_cut() -> None:
    """The first 429 cuts to four fifths."""
    server = Rounds()
    server.until(64)
    assert server.reject() == 51


def test_old_rejection() -> None:
    """A 429 of a call that went at a level that is gone cuts nothing."""
    server = Rounds()
    server.until(64)
    server.level.rejected(server.now, server.level.epoch - 1, 10, None)
    assert server.level.limit == 64


@pytest.mark.parametrize(("retry_after", "cooldown"), [(None, 15.0), (1.0, 15.0), (40.0, 40.0)])
def test_one_cut_in_a_cooldown(retry_after: float | None, cooldown: float) -> None:
    """It is cut once in 15 s, or in Retry-After if that is longer; then again."""
    server = Rounds()
    server.until(64)
    assert server.reject(retry_after=retry_after) == 51
    server.now += cooldown - 0.1
    assert server.reject() == 51
    server.now += 0.2
    assert server.reject() == 40


def test_lands_on_the_capacity() -> None:
    """Within a cooldown further 429s lower it to what is in flight, to two fifths at most; none lifts it."""
    server = Rounds()
    server.until(64)
    server.reject()
    assert [server.reject(in_flight) for in_flight in (60, 45, 48, 40, 3)] == [51, 45, 45, 40, 25]


def test_never_below_one() -> None:
    """However often a limit is passed, one call may go."""
    server = Rounds()
    for _ in range(50):
        assert server.reject(0) >= 1
        server.now += 16.0
    assert server.level.limit == 1
    assert server.rounds() < 20


def test_back_to_what_was_clean() -> None:
    """One clean round after a cut leads back to the highest clean level below the one that failed."""
    server = Rounds()
    server.until(64)
    server.reject()
    assert server.reject(32) == 32
    assert server.round() == 32  # 32 itself was clean: nothing to go back to
    server.now += 100.0
    server.until(45)
    server.reject()
    assert server.reject(30) == 30
    assert server.round() == 42


def test_what_was_clean_is_forgotten() -> None:
    """A level that was clean and fails is clean no more: it is not led back to."""
    server = Rounds()
    server.until(64)
    server.reject()
    assert server.round() == 51  # clean, as far as anybody knows
    server.now += 15.0
    assert server.reject() == 40
    assert server.round() == 40


def test_growth_after_a_cut() -> None:
    """5 % at a time, and not before 15 s after the last 429."""
    server = Rounds()
    server.until(64)
    server.reject()
    server.now += 10.0
    assert server.reject(40) == 40
    began = server.now
    while server.round(pause=0.5) == 40:
        pass
    assert server.level.limit == 42
    assert server.now - began >= 15.0
    for before in (42, 45, 48, 51):
        server.until(before)
        server.rounds()
        assert server.level.limit == pytest.approx(1.05 * before, abs=1)


def test_more_rounds_each_time() -> None:
    """Each failure makes growth wait for more clean rounds, within bounds."""
    server, rounds = Rounds(), list[int]()
    server.until(64)
    for _ in range(6):
        server.reject()
        server.rounds()
        rounds.append(server.rounds())
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[2] < rounds[-1] <= 10


def test_memory() -> None:
    """It grows to at most 1.1 times the level that failed; where that is clean, doubling starts again."""
    server, seen = Rounds(), list[int]()
    server.until(64)
    server.reject()
    while server.level.limit < 128:
        seen.append(server.level.limit)
        server.rounds()
    assert seen[-1] == 70
    assert server.level.limit == 140
    assert server.round() == 280


def test_plateau() -> None:
    """Twice the level that twice gives no more replies is halved, and tried again after a minute."""
    server = Rounds()
    server.until(16)
    levels = [server.round(seconds=max(1.0, server.level.limit / 16)) for _ in range(4)]
    assert levels == [32, 64, 32, 32]
    began = server.now
    while server.round(seconds=2.0) == 32:
        pass
    assert server.level.limit == 64
    assert 59.0 <= server.now - began <= 62.0
    assert server.round(seconds=4.0) == 32


def test_no_plateau() -> None:
    """A plateau that is gone is left: what gives more replies is doubled on."""
    server = Rounds()
    server.until(16)
    for _ in range(3):
        server.round(seconds=server.level.limit / 16)
    server.now += 61.0
    server.until(256)


def test_cleared() -> None:
    """When what cut it were single calls' own refusals, it is where it was, and doubles on at once."""
    server = Rounds()
    server.until(64)
    for in_flight in (60, 45, 30):
        server.reject(in_flight)
    server.level.cleared()
    assert server.level.limit == 64
    assert [server.round() for _ in range(2)] == [128, 256]
    server.level.cleared()
    assert server.level.limit == 256


def test_ceiling() -> None:
    """It stays at what this machine can hold open, and does not take that for a plateau."""
    server = Rounds(ceiling=100)
    assert [server.round() for _ in range(12)] == [8, 16, 32, 64] + [100] * 8
    assert Rounds(ceiling=2).round() == 2


def test_explicit() -> None:
    """A number that was asked for never changes."""
    level = ConcurrencyLimit(7)
    level.sent(7)
    for number in range(100):
        level.replied(float(number), 0, 1.0)
        level.rejected(float(number), 0, 3, 1.0)
        level.disturbed()
    assert (level.limit, level.epoch) == (7, 0)


def simulated(world: World, calls: int, level: ConcurrencyLimit) -> Caller:
    """So many calls with that level, in virtual time."""

    async def main() -> Caller:
        caller = Caller(world, Gate(level, StopSignal()), retries=2, timeout=600.0)
        await flood(caller, float("inf"), calls=calls)
        return caller

    return virtually(main)


def test_small_capacity() -> None:
    """Of a hidden capacity of 8 at least 93 % are used after a minute, and at most 3 % of calls wasted."""
    world = World(latency=1.0, spread=0.3, capacity=8)
    simulated(world, 5000, AdaptiveConcurrency(CEILING))
    assert world.used(60.0, world.sent[-1][0]) >= 0.93 * 8
    assert world.refused <= 0.03 * world.asked


def test_changing_capacity() -> None:
    """A capacity that halves and doubles again is followed down and up."""
    world = World(latency=2.0, spread=0.3, capacity=lambda now: 16 if 150 <= now < 300 else 32)
    simulated(world, 7500, AdaptiveConcurrency(CEILING))
    assert world.used(60.0, 150.0) >= 0.93 * 32
    assert world.used(180.0, 300.0) >= 0.9 * 16
    assert world.used(420.0, world.sent[-1][0]) >= 0.9 * 32
    assert world.refused <= 0.03 * world.asked


class Queueing(World):
    """A server that refuses nothing, but works on 16 calls at once."""

    workers: anyio.Semaphore | None = None

    async def ask(self, request: Request) -> Reply | CallError:
        """Wait for one of sixteen workers."""
        self.workers = self.workers or anyio.Semaphore(16)
        async with self.workers:
            return await super().ask(request)


def test_queue() -> None:
    """A server that only queues what is beyond its means gets a bounded queue, and is kept busy."""
    world = Queueing(latency=1.0, spread=0.3)
    caller = simulated(world, 6000, AdaptiveConcurrency(CEILING))
    assert caller.stats.most <= 128
    assert world.used(10.0, world.sent[-1][0]) >= 0.98 * 16


def test_explicit_number_in_a_run() -> None:
    """An explicit number stays and is used, also where the server refuses some of it."""
    world = World(latency=1.0, spread=0.3, capacity=8)
    caller = simulated(world, 300, ConcurrencyLimit(12))
    assert (caller.gate.level.limit, caller.stats.most) == (12, 12)
    assert caller.stats.usage.calls == 300
