"""A straggler is asked a second time, the first answer counts, and every limit holds for both calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import pytest

from ruler_cli.errors import InterruptedRun
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.limits import Budget
from ruler_cli.pool.retries import Caller, Hedging
from ruler_cli.types import CallError, Reply, Usage
from tests.values import few
from tests.virtual import ASKED, Plan, World, called, together

T = TypeVar("T")
FIRST, SECOND, THIRD = (
    Reply(name, Usage(100, 10, 0, 1), body=b"{}")
    for name in ("one", "two", "three")
)
BUSY = CallError(
    "transport", "busy", "call", retry_after=3.0, rate=True, billed=False
)
BROKEN = CallError("transport", "broken", "call")
FILTERED = CallError("refused", "content policy", "group")
NEVER = 50.0
"""Seconds of a call that is cancelled, and less than the deadline."""
Answers = list[tuple[float, Reply | CallError]]
PLACES = 64


def taught(seconds: float = 1.0, calls: int = 40) -> Hedging:
    """Hedging that knows calls that all took so long, and allows two second calls."""
    hedging = Hedging()
    for _ in range(calls):
        hedging.learn(ASKED, seconds)
    return hedging


def hedged(
    plan: Plan,
    work: Callable[[Caller], Awaitable[T]],
    hedging: Hedging | None = None,
    *,
    places: int = 4,
    **parts: Any,
) -> T:
    """Run the work with a caller whose calls usually take a second."""
    parts["cost"] = lambda usage: (usage.prompt + usage.completion) / 1e3
    result = called(plan, work, places, hedging=hedging or taught(), **parts)
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

    return hedged(plan, work, budget=budget)


@pytest.mark.parametrize(
    ("answers", "expected", "calls", "hedged"),
    [
        ([(1.0, FIRST)], FIRST, 1, 0),
        ([(NEVER, FIRST), (0.5, SECOND)], SECOND, 2, 1),
        ([(1.5, FIRST), (NEVER, SECOND)], FIRST, 2, 1),
        # an error that may pass is not an answer while the other call is in flight, and not a retry
        ([(2.0, FIRST), (0.5, BUSY)], FIRST, 2, 1),
        ([(2.0, FIRST), (0.5, BROKEN)], FIRST, 2, 1),
        ([(1.2, BUSY), (2.0, SECOND)], SECOND, 2, 1),
        ([(1.2, BROKEN), (2.0, SECOND)], SECOND, 2, 1),
        # an error that ends the group counts, whichever call gets it
        ([(NEVER, FIRST), (0.5, FILTERED)], FILTERED, 2, 1),
        ([(1.5, FILTERED), (NEVER, SECOND)], FILTERED, 2, 1),
        # if both calls fail it is one retry, which may be asked twice as well
        (
            [(2.0, BROKEN), (0.5, BROKEN), (NEVER, THIRD), (0.1, FIRST)],
            FIRST,
            4,
            2,
        ),
    ],
)
def test_answers(
    answers: Answers, expected: Reply | CallError, calls: int, hedged: int
) -> None:
    """A call beyond its usual time is asked again; one answer counts, and the cost of the other is unsure."""
    _, caller, answer = answered(*answers)
    assert answer == expected
    stats, budget = caller.stats, caller.gate.budget
    assert (stats.calls, stats.hedged) == (calls, hedged)
    assert stats.retried == ({"transport": 1} if calls == 4 else {})
    if isinstance(answer, Reply):
        assert round(answer.seconds, 6) in {seconds for seconds, _ in answers}
        assert stats.usage == FIRST.usage
        assert budget.spent == pytest.approx(0.11)
    cancelled = any(seconds == NEVER for seconds, _ in answers)
    assert (budget.unsure > 0) == (
        cancelled or BROKEN in dict(answers).values()
    )


@pytest.mark.parametrize(
    ("at", "answers", "expected"),
    [
        (1.2, [(NEVER, FIRST), (0.5, SECOND)], SECOND),
        (0.8, [(5.0, FIRST)], FIRST),
    ],
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

    assert hedged(Plan(answers), work) == expected


def test_cancelled() -> None:
    """If a run is given up while both calls are in flight, both are ended and neither holds money."""
    plan = Plan([(NEVER, FIRST), (NEVER, SECOND)])

    async def work(caller: Caller) -> Gate:
        with anyio.move_on_after(2.0):
            await caller.call(ASKED)
        return caller.gate

    gate = hedged(plan, work)
    assert (gate.in_flight, gate.budget.open, gate.budget.reserved) == (0, 0, 0)
    assert (len(plan.times), gate.budget.unsure > 0) == (2, True)


def test_cap() -> None:
    """No second call goes that the cap would not pay, and it never closes the cap for others."""
    budget = Budget(4.0)  # a call of unknown cost reserves 2.6
    _, caller, answer = answered((2.0, FIRST), budget=budget)
    assert (answer, caller.stats.hedged) == (FIRST, 0)
    assert not budget.closed


def test_judge_is_down() -> None:
    """No second call goes while the judge counts as down."""
    gone = CallError("transport", "gone", "call", sent=False, billed=False)
    plan = Plan(
        [(0.1, THIRD), (8.0, FIRST), (0.5, gone), (0.1, SECOND), (0.1, FIRST)]
    )

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

    assert hedged(plan, work) == 1
    assert plan.times[3] > 2.0  # it asks if the judge is back
    assert plan.times[4] > plan.times[3]


def steps(world: World, number: int, *, hedge: bool) -> tuple[float, Caller]:
    """Return the seconds of so many steps of calls that all wait for the slowest."""

    async def work(caller: Caller) -> tuple[float, Caller]:
        for _ in range(number):
            await together(caller, [ASKED] * PLACES)
        return anyio.current_time(), caller

    hedging = Hedging() if hedge else None
    return called(world, work, PLACES, timeout=600.0, hedging=hedging)


@pytest.mark.parametrize(
    ("spread", "at_most"), few(1, [(1.0, 0.75), (0.7, 0.9), (0.4, 1.0)])
)
def test_steps(spread: float, at_most: float) -> None:
    """Steps of 64 calls end the earlier the more their times differ, for 4 to 5 % more calls."""
    usual, _ = steps(World(spread=spread, seed=1), 60, hedge=False)
    shorter, caller = steps(World(spread=spread, seed=2), 60, hedge=True)
    assert shorter / usual < at_most
    assert 0.04 <= caller.stats.hedged / (60 * PLACES) <= 0.06
    assert caller.stats.calls == 60 * PLACES + caller.stats.hedged


def test_slow_judge() -> None:
    """A judge that slows down as a whole is not asked everything twice: at most a quarter of the calls."""
    world = World(spread=0.2)

    async def work(caller: Caller) -> list[int]:
        counts = []
        for number in range(20):
            world.latency = 1.0 if number < 10 else 5.0
            await together(caller, [ASKED] * PLACES)
            counts.append(caller.stats.hedged)
        return counts

    counts = called(world, work, PLACES, timeout=600.0, hedging=Hedging())
    assert counts[10] - counts[9] <= 0.33 * PLACES
    assert counts[-1] - counts[9] <= 0.12 * 10 * PLACES
