"""A straggler is asked a second time, the first answer counts, and every limit holds for both calls."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self, TypeVar

import anyio
import pytest

from ruler_cli.errors import InterruptedRun
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import INTERRUPTED, Gate
from ruler_cli.pool.limits import Budget, ConcurrencyLimit, Window
from ruler_cli.pool.retries import Caller, Hedging
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.values import few
from tests.virtual import ASKED, World, flood, virtually

T = TypeVar("T")
FIRST, SECOND, THIRD = (
    Reply(name, Usage(100, 10, 0, 1), body=b"{}") for name in ("one", "two", "three")
)
BUSY = CallError("transport", "busy", "call", retry_after=3.0, rate=True, billed=False)
BROKEN = CallError("transport", "broken", "call")
FILTERED = CallError("refused", "content policy", "group")
NEVER = 50.0
"""Seconds of a call that is cancelled, and less than the deadline."""
Answers = list[tuple[float, Reply | CallError]]
PLACES = 64


@dataclass
class Plan:
    """A judge that takes the next planned seconds for the next planned answer."""

    answers: Answers
    name: str = "plan"
    times: list[float] = field(default_factory=list)
    in_flight: int = 0

    async def ask(self, request: Request) -> Reply | CallError:
        """The next answer."""
        seconds, answer = self.answers.pop(0)
        self.times.append(anyio.current_time())
        self.in_flight += 1
        try:
            await anyio.sleep(seconds)
        finally:
            self.in_flight -= 1
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


def taught(seconds: float = 1.0, calls: int = 40) -> Hedging:
    """Hedging that knows calls that all took so long, and allows two second calls."""
    hedging = Hedging()
    for _ in range(calls):
        hedging.learn(ASKED, seconds, 8)
    return hedging


def called(
    plan: Plan,
    work: Callable[[Caller], Awaitable[T]],
    hedging: Hedging | None = None,
    *,
    places: int = 4,
    budget: Budget | None = None,
    requests: Window | None = None,
) -> T:
    """Run the work with a caller whose calls usually take a second."""

    async def main() -> T:
        gate = Gate(
            ConcurrencyLimit(places),
            StopSignal(),
            requests=requests,
            budget=budget,
            cost=lambda usage: (usage.prompt + usage.completion) / 1e3,
        )
        return await work(
            Caller(plan, gate, retries=2, timeout=60.0, hedging=hedging or taught())
        )

    result = virtually(main)
    assert plan.in_flight == 0
    return result


def answered(
    *answers: tuple[float, Reply | CallError], budget: Budget | None = None
) -> tuple[Plan, Caller, Reply | CallError]:
    """One call: the judge, the caller, the answer. What is stored is the answer, and once."""
    plan, stored = Plan(list(answers)), []

    async def store(answer: Reply | CallError) -> None:
        stored.append(answer)

    async def work(caller: Caller) -> tuple[Plan, Caller, Reply | CallError]:
        answer = await caller.call(ASKED, store)
        assert stored == [answer]
        assert (caller.gate.in_flight, caller.gate.budget.open) == (0, 0)
        return plan, caller, answer

    return called(plan, work, budget=budget)


def test_second_call_answers() -> None:
    """A call beyond its usual time is asked again; the answer has its own seconds, the other is unsure."""
    plan, caller, answer = answered((NEVER, FIRST), (0.5, SECOND))
    assert answer == SECOND
    assert plan.times == [0, 1]
    assert isinstance(answer, Reply) and answer.seconds == 0.5
    assert (caller.stats.calls, caller.stats.hedged, caller.stats.retried) == (2, 1, {})
    assert caller.stats.usage == SECOND.usage
    assert caller.gate.budget.spent == pytest.approx(0.11)
    assert caller.gate.budget.unsure > 0.11


def test_first_call_answers() -> None:
    """If the first call answers after all, the second is cancelled, and its cost is unsure."""
    _, caller, answer = answered((1.5, FIRST), (NEVER, SECOND))
    assert answer == FIRST
    assert isinstance(answer, Reply) and answer.seconds == 1.5
    assert (caller.stats.calls, caller.stats.hedged) == (2, 1)
    assert caller.gate.budget.unsure > 0


def test_usual_call() -> None:
    """A call within its usual time is asked once, also if it takes exactly that."""
    for seconds in (0.5, 1.0):
        plan, caller, answer = answered((seconds, FIRST))
        assert (answer, plan.times, caller.stats.hedged, caller.gate.budget.unsure) == (
            FIRST,
            [0],
            0,
            0,
        )


def test_same_moment() -> None:
    """Two answers at one moment: one of them counts, is stored once, and no call is lost from the books."""
    _, caller, answer = answered((1.5, FIRST), (0.5, SECOND))
    assert answer in (FIRST, SECOND)
    assert caller.stats.calls == 2
    paid = caller.stats.usage.calls
    assert caller.gate.budget.spent == pytest.approx(0.11 * paid)
    assert (caller.gate.budget.unsure > 0) == (paid == 1)


@pytest.mark.parametrize("error", [BUSY, BROKEN])
def test_error_of_one(error: CallError) -> None:
    """An error of one call that may pass is no answer while the other is in flight, and is no retry."""
    plans: list[Answers] = [[(2.0, FIRST), (0.5, error)], [(1.2, error), (2.0, SECOND)]]
    for answers in plans:
        _, caller, answer = answered(*answers)
        assert answer in (FIRST, SECOND)
        assert (caller.stats.calls, caller.stats.retried) == (2, {})


def test_both_fail() -> None:
    """If both calls fail it is one retry, and the retry of a straggler may be asked twice as well."""
    _, caller, answer = answered(
        (2.0, BROKEN), (0.5, BROKEN), (NEVER, THIRD), (0.1, FIRST)
    )
    assert answer == FIRST
    assert (caller.stats.calls, caller.stats.hedged) == (4, 2)
    assert caller.stats.retried == {"transport": 1}


def test_final_error() -> None:
    """An error that ends the group counts, whichever call gets it; a wait of a day ends the run."""
    plans: list[Answers] = [
        [(NEVER, FIRST), (0.5, FILTERED)],
        [(1.5, FILTERED), (NEVER, SECOND)],
    ]
    for answers in plans:
        assert answered(*answers)[2] == FILTERED
    day = CallError(
        "transport", "busy", "call", retry_after=86400.0, rate=True, billed=False
    )
    plan = Plan([(NEVER, FIRST), (0.5, day)])

    async def work(caller: Caller) -> tuple[Reply | CallError, str]:
        return await caller.call(ASKED), str(caller.gate.stop_signal.reason)

    answer, reason = called(plan, work)
    assert answer == INTERRUPTED
    assert "86400 s" in reason


def test_gate_is_told() -> None:
    """A limit that a second call meets holds for all calls, as that of any call does."""
    plan = Plan([(9.0, FIRST), (0.5, BUSY), (0.5, THIRD)])

    async def work(caller: Caller) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(2.0)
            tasks.start_soon(caller.call, ASKED)

    called(plan, work)
    assert plan.times == [0, 1, 4.5]


def test_bug() -> None:
    """An exception of the judge's code comes out as itself."""

    class Wrong(Plan):
        async def ask(self, request: Request) -> Reply | CallError:
            if len(self.times) == 1:
                raise KeyError("a bug")
            return await super().ask(request)

    with pytest.raises(KeyError):
        called(Wrong([(NEVER, FIRST)]), lambda caller: caller.call(ASKED))


@pytest.mark.parametrize(
    ("at", "answers", "expected"),
    [(1.2, [(NEVER, FIRST), (0.5, SECOND)], SECOND), (0.8, [(5.0, FIRST)], FIRST)],
)
def test_stop(at: float, answers: Answers, expected: Reply) -> None:
    """After a stop both calls may finish, and no second call is sent."""

    async def work(caller: Caller) -> Reply | CallError:
        async def stop() -> None:
            await anyio.sleep(at)
            caller.gate.stop_signal.stop(InterruptedRun(2, ""))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            return await caller.call(ASKED)
        raise AssertionError

    assert called(Plan(answers), work) == expected


def test_cancelled() -> None:
    """If a run is given up while both calls are in flight, both are ended and neither holds money."""
    plan = Plan([(NEVER, FIRST), (NEVER, SECOND)])

    async def work(caller: Caller) -> Gate:
        with anyio.move_on_after(2.0):
            await caller.call(ASKED)
        return caller.gate

    gate = called(plan, work)
    assert (gate.in_flight, gate.budget.open, gate.budget.reserved) == (0, 0, 0)
    assert (len(plan.times), gate.budget.unsure > 0) == (2, True)


def test_cap() -> None:
    """No second call goes that the cap would not pay, and it never closes the cap for others."""
    budget = Budget(4.0)  # a call of unknown cost reserves 2.6
    _, caller, answer = answered((2.0, FIRST), budget=budget)
    assert (answer, caller.stats.hedged) == (FIRST, 0)
    assert not budget.closed


def test_requests_per_minute() -> None:
    """A second call waits for the limit per minute as any other does."""
    plan = Plan([(90.0, FIRST), (0.5, SECOND)])
    assert called(plan, lambda caller: caller.call(ASKED), requests=Window(1)) == SECOND
    assert plan.times[1] > 60


def test_no_place() -> None:
    """No second call goes while all places are taken, or while another call waits for its first."""
    plan = Plan([(5.0, FIRST), (5.0, SECOND), (0.5, THIRD)])

    async def work(caller: Caller) -> int:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(caller.call, ASKED)
        return caller.stats.hedged

    assert called(plan, work, places=2) == 0
    assert plan.times == [0, 0, 5]


def test_judge_is_down() -> None:
    """No second call goes while the judge counts as down."""
    gone = CallError("transport", "gone", "call", sent=False, billed=False)
    plan = Plan([(0.1, THIRD), (8.0, FIRST), (0.5, gone), (0.1, SECOND), (0.1, FIRST)])

    async def work(caller: Caller) -> int:
        await caller.call(ASKED)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(0.4)
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(0.8)
            assert caller.gate.breaker.open
            assert caller.stats.hedged == 0
        return caller.stats.hedged

    assert called(plan, work) == 1
    assert plan.times[3] > 2.0  # it asks if the judge is back
    assert plan.times[4] > plan.times[3]


def test_few_calls() -> None:
    """A judge of which few calls are known is asked once, however long it takes."""
    plan = Plan([(50.0, FIRST)])
    assert called(plan, lambda caller: caller.call(ASKED), taught(calls=10)) == FIRST
    assert Hedging().usual(ASKED, 1) is None


def test_size() -> None:
    """The usual time follows the number of labels, which an answer is as long as, whatever the noise."""
    dice, hedging = random.Random(0), Hedging()

    def request(labels: int) -> Request:
        return Request("", "u", ("a",) * labels)

    def seconds(labels: int) -> float:
        return 1.0 + 0.5 * labels

    for _ in range(500):
        labels = dice.randrange(2, 17)
        noise = math.exp(dice.gauss(0, 0.3))
        hedging.learn(request(labels), seconds(labels) * noise, PLACES)
    for labels in (4, 16):
        usual = hedging.usual(request(labels), 1)
        assert usual is not None
        assert 1.2 < usual / seconds(labels) < 2.3


def test_alike() -> None:
    """Calls of one size, or of no size and no time, have a usual time too."""
    for asked, seconds in ((ASKED, 2.0), (Request("", "", ()), 0.0)):
        hedging = Hedging()
        for _ in range(100):
            hedging.learn(asked, seconds, 1)
        assert hedging.usual(asked, 1) == pytest.approx(seconds, abs=1e-5)


def steps(
    world: World, number: int, *, hedge: bool, of: int = PLACES
) -> tuple[float, Caller]:
    """Seconds of so many steps of calls that all wait for the slowest."""

    async def main() -> tuple[float, Caller]:
        gate = Gate(ConcurrencyLimit(of), StopSignal())
        caller = Caller(
            world, gate, retries=2, timeout=600.0, hedging=Hedging() if hedge else None
        )
        for _ in range(number):
            async with anyio.create_task_group() as tasks:
                for _ in range(of):
                    tasks.start_soon(caller.call, ASKED)
        return anyio.current_time(), caller

    return virtually(main)


@pytest.mark.parametrize(
    ("spread", "at_most"), few(1, [(1.0, 0.75), (0.7, 0.9), (0.4, 1.0)])
)
def test_steps(spread: float, at_most: float) -> None:
    """Steps of 64 calls end the earlier the more their times differ, for 4 to 5 % more calls."""
    usual, _ = steps(World(spread=spread, seed=1), 60, hedge=False)
    hedged, caller = steps(World(spread=spread, seed=2), 60, hedge=True)
    assert hedged / usual < at_most
    assert 0.04 <= caller.stats.hedged / (60 * PLACES) <= 0.06
    assert caller.stats.calls == 60 * PLACES + caller.stats.hedged


def test_first_step() -> None:
    """In the first step of all only the last calls in flight are asked again."""
    for spread in (0.2, 1.0):
        usual, _ = steps(World(spread=spread, seed=5), 1, hedge=False)
        hedged, caller = steps(World(spread=spread, seed=5), 1, hedge=True)
        assert hedged <= usual
        assert 1 <= caller.stats.hedged <= 0.05 * PLACES


def test_large_steps() -> None:
    """Steps of more calls than are usually remembered are hedged at their end too, not in their midst."""
    places = 4 * PLACES
    usual, _ = steps(World(spread=1.0, seed=1), 6, hedge=False, of=places)
    hedged, caller = steps(World(spread=1.0, seed=2), 6, hedge=True, of=places)
    assert hedged / usual < 0.75
    assert caller.stats.hedged / (6 * places) < 0.05


def test_slow_judge() -> None:
    """A judge that slows down as a whole is not asked everything twice: at most a quarter of the calls."""
    world = World(spread=0.2)

    async def main() -> list[int]:
        caller = Caller(
            world,
            Gate(ConcurrencyLimit(PLACES), StopSignal()),
            retries=2,
            timeout=600.0,
            hedging=Hedging(),
        )
        hedged = []
        for number in range(20):
            world.latency = 1.0 if number < 10 else 5.0
            async with anyio.create_task_group() as tasks:
                for _ in range(PLACES):
                    tasks.start_soon(caller.call, ASKED)
            hedged.append(caller.stats.hedged)
        return hedged

    hedged = virtually(main)
    assert hedged[10] - hedged[9] <= 0.33 * PLACES
    assert hedged[-1] - hedged[9] <= 0.12 * 10 * PLACES


def test_dump() -> None:
    """In a dump, where calls always wait, only its end is hedged."""
    world = World(spread=0.7)

    async def main() -> Caller:
        caller = Caller(
            world,
            Gate(ConcurrencyLimit(PLACES), StopSignal()),
            retries=2,
            timeout=600.0,
            hedging=Hedging(),
        )
        await flood(caller, math.inf, calls=2_000)
        return caller

    caller = virtually(main)
    assert 0 < caller.stats.hedged < PLACES / 2
