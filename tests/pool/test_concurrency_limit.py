"""Each rule of the concurrency limit by itself, then all together against servers with a hidden capacity."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import anyio
import pytest

from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.limits import (
    LEARNED,
    START_OF_QUEUE,
    AdaptiveConcurrency,
    ConcurrencyLimit,
    Sent,
)
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Left, Reply, Request
from tests.virtual import World, flood, virtually

CEILING = 4096


class Rounds:
    """A concurrency limit with a clock."""

    def __init__(self, ceiling: int = CEILING) -> None:
        self.concurrency = AdaptiveConcurrency(ceiling)
        self.now = 0.0

    @property
    def call(self) -> Sent:
        """A call that goes now."""
        return Sent(
            0, self.concurrency.epoch, self.concurrency.limit - 1, began=self.now
        )

    def round(
        self, *, in_flight: int = CEILING, seconds: float = 1.0, pause: float = 1.0
    ) -> int:
        """Play one round of replies, `seconds` each, with at most `in_flight` calls. Return the limit."""
        self.now += pause
        call, limit = self.call, self.concurrency.limit
        self.concurrency.sent(self.now, replace(call, ahead=min(limit, in_flight) - 1))
        for _ in range(limit):
            self.concurrency.replied(self.now, call, seconds)
        return self.concurrency.limit

    def reject(self, in_flight: int = 10**6, retry_after: float | None = None) -> int:
        """Reject a call that went just now. Return the limit."""
        self.concurrency.rejected(self.now, self.call, in_flight, retry_after)
        return self.concurrency.limit

    def until(self, limit: int) -> None:
        """Play rounds until the limit is reached."""
        for _ in range(1000):
            if self.concurrency.limit == limit:
                return
            self.round()
        pytest.fail(f"{limit} is never reached")

    def rounds(self) -> int:
        """Return the number of rounds until the limit grows, long after every cooldown."""
        before = self.concurrency.limit
        for number in range(1, 100):
            if self.round(pause=100.0 / number) != before:
                return number
        pytest.fail("it never grows")


def test_start_and_doubling() -> None:
    """It starts at 8, or at 64 if the judge queues, and doubles after each round."""
    server = Rounds()
    assert server.concurrency.limit == 8
    assert [server.round() for _ in range(4)] == [16, 32, 64, 128]
    assert AdaptiveConcurrency(CEILING, START_OF_QUEUE).limit == 64
    assert AdaptiveConcurrency(5, START_OF_QUEUE).limit == 5


def test_round_is_whole() -> None:
    """One reply fewer than the limit allows is no round."""
    concurrency = AdaptiveConcurrency(CEILING)
    concurrency.sent(0.0, Sent(0, 0, ahead=7))
    for _ in range(7):
        concurrency.replied(0.0, Sent(0, 0), 1.0)
    assert concurrency.limit == 8
    concurrency.replied(0.0, Sent(0, 0), 1.0)
    assert concurrency.limit == 16


def test_old_replies() -> None:
    """Replies to calls that went before the limit changed count for no round."""
    server = Rounds()
    server.round()
    for _ in range(100):
        server.concurrency.replied(1.0, Sent(0, server.concurrency.epoch - 1), 1.0)
    assert server.concurrency.limit == 16


@pytest.mark.parametrize(("in_flight", "limit"), [(25, 32), (26, 64)])
def test_in_use(in_flight: int, limit: int) -> None:
    """A limit with less than four fifths in use does not grow."""
    server = Rounds()
    server.until(32)
    assert server.round(in_flight=in_flight) == limit


def test_disturbed() -> None:
    """5xx and timeouts end a round, and never cut the limit."""
    server = Rounds()
    server.until(32)
    for _ in range(50):
        server.concurrency.disturbed()
        assert server.round() == 32
    assert server.round() == 64


def test_cut() -> None:
    """The first 429 cuts to four fifths."""
    server = Rounds()
    server.until(64)
    assert server.reject() == 51


def test_old_rejection() -> None:
    """A 429 of a call that went before the limit changed cuts nothing."""
    server = Rounds()
    server.until(64)
    server.concurrency.rejected(
        server.now, Sent(0, server.concurrency.epoch - 1), 10, None
    )
    assert server.concurrency.limit == 64


@pytest.mark.parametrize(
    ("retry_after", "cooldown"), [(None, 15.0), (1.0, 15.0), (40.0, 40.0)]
)
def test_one_cut_in_a_cooldown(retry_after: float | None, cooldown: float) -> None:
    """It is cut once in 15 s, or in Retry-After if that is longer; then it may be cut again."""
    server = Rounds()
    server.until(64)
    assert server.reject(retry_after=retry_after) == 51
    server.now += cooldown - 0.1
    assert server.reject() == 51
    server.now += 0.2
    assert server.reject() == 40


def test_lands_on_the_capacity() -> None:
    """In a cooldown further 429s lower it to the calls in flight, to two fifths at most; none raises it."""
    server = Rounds()
    server.until(64)
    server.reject()
    assert [server.reject(in_flight) for in_flight in (60, 45, 48, 40, 3)] == [
        51,
        45,
        45,
        40,
        25,
    ]


def test_never_below_one() -> None:
    """One call may go, after any number of rejections."""
    server = Rounds()
    for _ in range(50):
        assert server.reject(0) >= 1
        server.now += 16.0
    assert server.concurrency.limit == 1
    assert server.rounds() < 20


def test_back_to_what_was_clean() -> None:
    """One clean round after a cut restores the highest clean limit below the one that failed."""
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


def test_failed_limit_is_not_clean() -> None:
    """A limit that was clean and then fails is clean no more: growth does not return to it."""
    server = Rounds()
    server.until(64)
    server.reject()
    assert server.round() == 51  # clean so far
    server.now += 15.0
    assert server.reject() == 40
    assert server.round() == 40


def test_growth_after_a_cut() -> None:
    """The limit grows by 5 % at a time, and not before 15 s after the last 429."""
    server = Rounds()
    server.until(64)
    server.reject()
    server.now += 10.0
    assert (
        server.reject(45) == 40
    )  # it went after the cut: nine tenths of those in flight
    began = server.now
    while server.round(pause=0.5) == 40:
        pass
    assert server.concurrency.limit == 42
    assert server.now - began >= 15.0
    for before in (42, 45, 48, 51):
        server.until(before)
        server.rounds()
        assert server.concurrency.limit == pytest.approx(1.05 * before, abs=1)


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
    """It grows to at most 1.1 times the limit that failed; if that is clean, doubling starts again."""
    server, seen = Rounds(), list[int]()
    server.until(64)
    server.reject()
    while server.concurrency.limit < 128:
        seen.append(server.concurrency.limit)
        server.rounds()
    assert seen[-1] == 70
    assert server.concurrency.limit == 140
    assert server.round() == 280


def test_plateau() -> None:
    """A limit that doubled twice without more replies is halved, and doubled again after a minute."""
    server = Rounds()
    server.until(16)
    limits = [
        server.round(seconds=max(1.0, server.concurrency.limit / 16)) for _ in range(4)
    ]
    assert limits == [32, 64, 32, 32]
    began = server.now
    while server.round(seconds=2.0) == 32:
        pass
    assert server.concurrency.limit == 64
    assert 59.0 <= server.now - began <= 62.0
    assert server.round(seconds=4.0) == 32


def test_no_plateau() -> None:
    """Once the plateau is over, the limit doubles on."""
    server = Rounds()
    server.until(16)
    for _ in range(3):
        server.round(seconds=server.concurrency.limit / 16)
    server.now += 61.0
    server.until(256)


def test_cleared() -> None:
    """If the refusals that cut it prove to be single calls' own, the limit goes back and doubles on."""
    server = Rounds()
    server.until(64)
    for in_flight in (60, 45, 30):
        server.reject(in_flight)
    server.concurrency.cleared()
    assert server.concurrency.limit == 64
    assert [server.round() for _ in range(2)] == [128, 256]
    server.concurrency.cleared()
    assert server.concurrency.limit == 256


def test_ceiling() -> None:
    """It stays at the number of files that this machine can hold open, and counts that as no plateau."""
    server = Rounds(ceiling=100)
    assert [server.round() for _ in range(12)] == [16, 32, 64] + [100] * 9
    assert Rounds(ceiling=2).round() == 2


def test_explicit() -> None:
    """A limit that the user set never changes."""
    concurrency = ConcurrencyLimit(7)
    concurrency.sent(0.0, Sent(0, 0, ahead=6))
    for number in range(100):
        concurrency.replied(float(number), Sent(0, 0), 1.0)
        concurrency.rejected(float(number), Sent(0, 0), 3, 1.0)
        concurrency.disturbed()
    assert (concurrency.limit, concurrency.epoch) == (7, 0)


def simulated(world: World, calls: int, concurrency: ConcurrencyLimit) -> Caller:
    """Make `calls` calls with that limit, in virtual time."""

    async def main() -> Caller:
        caller = Caller(
            world, Gate(concurrency, StopSignal()), retries=2, timeout=600.0
        )
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
    world = World(
        latency=2.0, spread=0.3, capacity=lambda now: 16 if 150 <= now < 300 else 32
    )
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
    """A server that queues calls beyond its capacity gets a bounded queue, and is always busy."""
    world = Queueing(latency=1.0, spread=0.3)
    caller = simulated(world, 6000, AdaptiveConcurrency(CEILING))
    assert caller.stats.most <= 128
    assert world.used(10.0, world.sent[-1][0]) >= 0.98 * 16


def test_explicit_number_in_a_run() -> None:
    """An explicit limit stays and is used, even if the server refuses some calls."""
    world = World(latency=1.0, spread=0.3, capacity=8)
    caller = simulated(world, 300, ConcurrencyLimit(12))
    assert (caller.gate.concurrency.limit, caller.stats.most) == (12, 12)
    assert caller.stats.usage.calls == 300


def test_left() -> None:
    """The calls that limits leave go at once; they bound those in flight, but never stop the last of them."""
    concurrency = AdaptiveConcurrency(1000)
    concurrency.left(7, 493)
    assert (concurrency.allowed, concurrency.limit) == (500, 500)
    concurrency.left(400, 20)
    assert (concurrency.allowed, concurrency.limit) == (420, 500)
    concurrency.left(0, 0)
    assert concurrency.allowed == 1
    concurrency.left(10, 10**9)
    assert concurrency.allowed == 1000  # the connections of this machine
    explicit = ConcurrencyLimit(7)
    explicit.left(3, 1)
    assert explicit.allowed == 7


def test_left_no_more() -> None:
    """A reply without headers ends the bound that earlier ones set."""
    concurrency = AdaptiveConcurrency(1000)
    concurrency.left(0, 0)
    concurrency.left(0, None)
    assert concurrency.allowed == 8


def test_left_after_a_refusal() -> None:
    """A refusal cuts the calls that were in flight, and headers that promise more do not lift them again."""
    concurrency = AdaptiveConcurrency(1000)
    concurrency.left(7, 900)
    concurrency.rejected(1.0, Sent(0, concurrency.epoch, 63), 60, None)
    assert concurrency.limit == 51
    concurrency.left(50, 900)
    assert concurrency.allowed == 51


def test_left_in_vain() -> None:
    """Headers that leave nothing while all calls are answered are believed no more."""
    concurrency = AdaptiveConcurrency(1000)
    allowed = []
    for _ in range(40):
        concurrency.left(concurrency.allowed - 1, 0)
        allowed.append(concurrency.allowed)
    assert (min(allowed), allowed[-1]) == (1, 8)
    mixed = AdaptiveConcurrency(1000)
    for _ in range(40):
        mixed.left(7, None)
    mixed.left(0, 0)
    assert mixed.allowed == 1  # replies without headers say nothing


def test_timeouts() -> None:
    """Two calls that time out lower the limit to what was answered meanwhile; a slow one alone does not."""
    concurrency, last = AdaptiveConcurrency(1000, START_OF_QUEUE), Sent(63, 0, 63)
    for answered in (0, 200, 200, 0, 63):
        concurrency.timed_out(10.0, last, answered)
    assert concurrency.limit == 64
    concurrency.timed_out(10.0, last, 20)
    assert concurrency.limit == 16
    concurrency.timed_out(10.0, last, 20)
    concurrency.timed_out(10.0, last, 20)  # it went before the limit changed
    assert concurrency.limit == 16


def test_next_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool begins with what the last one of the process learned of its judge.

    After a quarter of an hour it begins with what worked, and with the usual number at least.
    """
    first = AdaptiveConcurrency(1000, judge="a")
    first.left(7, 100)
    first.rejected(1.0, Sent(0, first.epoch, 63), 60, None)
    second = AdaptiveConcurrency(1000, judge="a")
    assert second.limit == first.limit == 51
    second.left(50, 900)  # the refusal is known too
    assert second.limit == 51
    assert AdaptiveConcurrency(20, judge="a").limit == 20
    assert (
        AdaptiveConcurrency(1000, judge="b").limit
        == AdaptiveConcurrency(1000).limit
        == 8
    )
    for _ in range(2 * second.limit):
        second.sent(2.0, Sent(0, second.epoch, second.limit - 1))
        second.replied(3.0, Sent(0, second.epoch, second.limit - 1), 1.0)
    low = AdaptiveConcurrency(1000, judge="low")
    low.rejected(1.0, Sent(0, low.epoch, 7), 3, None)
    low.rejected(1.0, Sent(0, low.epoch, 7), 3, None)
    assert AdaptiveConcurrency(1000, judge="low").limit == 3
    later = time.monotonic() + 901
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert AdaptiveConcurrency(1000, judge="a").limit == 51
    assert AdaptiveConcurrency(1000, judge="low").limit == 8


def test_bounded_memory() -> None:
    """A process remembers no more judges than a bound."""
    for judge in range(300):
        AdaptiveConcurrency(1000, judge=judge).left(7, 100)
    assert len(LEARNED) == 256
    assert AdaptiveConcurrency(1000, judge=299).limit == 107


@dataclass
class Engine(World):
    """A judge that works on `places` calls at once and has the others wait, `deadline` seconds at most."""

    places: int = 4
    deadline: float = 10.0
    late: int = 0
    line: anyio.Semaphore = field(init=False)

    async def ask(self, request: Request) -> Reply | CallError:
        """Answer, or give up at the deadline."""
        with anyio.move_on_after(self.deadline):
            async with self.line:
                return await super().ask(request)
        self.late += 1
        return CallError("transport", "the judge did not answer within 10 s", "call")


def test_one_call_that_hangs() -> None:
    """A call that is never answered, in a step of few calls, says nothing of a queue."""

    class Hanging(World):
        async def ask(self, request: Request) -> Reply | CallError:
            """Answer all but the second call."""
            self.latency = 10.0 if self.asked == 1 else 2.0
            answer = await super().ask(request)
            late = CallError(
                "transport", "the judge did not answer within 10 s", "call"
            )
            return late if anyio.current_time() == 10.0 else answer

    async def main() -> int:
        gate = Gate(AdaptiveConcurrency(CEILING, START_OF_QUEUE), StopSignal())
        await flood(Caller(Hanging(), gate, retries=1, timeout=10.0), 1e9, calls=4)
        return gate.concurrency.limit

    assert virtually(main) == START_OF_QUEUE


@pytest.mark.parametrize(("places", "calls"), [(4, 1000), (16, 4000), (100, 4000)])
def test_engine_that_queues(places: int, calls: int) -> None:
    """An engine whose queue is too long for the timeout is soon asked with as many calls as it answers."""
    world = Engine(2.0, places=places)

    async def main() -> tuple[int, int]:
        world.line = anyio.Semaphore(places)
        gate = Gate(AdaptiveConcurrency(CEILING, START_OF_QUEUE), StopSignal())
        caller = Caller(world, gate, retries=6, timeout=world.deadline)
        await flood(caller, 1e9, calls=calls)
        return caller.stats.usage.calls, round(anyio.current_time())

    answered, seconds = virtually(main)
    assert answered == calls
    assert world.late <= 0.1 * calls
    assert seconds <= 1.1 * 2.0 * calls / places


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
            return CallError("transport", "429", "call", rate=True, billed=False)
        self.accepted.append(now)
        reply = await super().ask(request)
        if isinstance(reply, CallError):
            return reply
        return replace(reply, left=Left(self.quota - recent - 1 + self.told))


@pytest.mark.parametrize("world", [Counted(2.0, quota=60), Counted(2.0, quota=300)])
def test_left_is_exact(world: Counted) -> None:
    """Of 1,000 requests to a judge whose replies name what is left, it refuses one in three at most."""
    simulated(world, 1000, AdaptiveConcurrency(CEILING))
    assert world.refused <= world.asked / 3


@pytest.mark.parametrize(
    "world", [Counted(2.0, quota=10**6), Counted(2.0, capacity=8, quota=10**6)]
)
def test_promised_too_much(world: Counted) -> None:
    """If headers promise more than the judge takes, it refuses one request in twenty at most."""
    simulated(world, 1000, AdaptiveConcurrency(CEILING))
    assert world.refused <= 0.05 * world.asked
