"""Several judges as one: their sums, their queues and their shared budget."""

from __future__ import annotations

import itertools
import random

import anyio
import pytest

from ruler_cli.errors import InterruptedRun
from ruler_cli.judges.providers import Price
from ruler_cli.judging.panel import Panel, PanelJudge
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import CAPPED, INTERRUPTED, Gate
from ruler_cli.pool.limits import Budget, ConcurrencyLimit
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request, Summary, Usage
from tests.pool.test_max_cost import BROKEN, Billing
from tests.values import few
from tests.virtual import ASKED, World, run, virtually

LONGEST = 1e7
PRICE = Price(1e-6, 2e-6, 1e-6)


def panel(
    *worlds: World,
    prices: list[Price | None] | None = None,
    cap: float | None = None,
    at_once: int = 4,
) -> Panel:
    """Judges that share a stop signal and a budget."""
    stop_signal, budget = StopSignal(), Budget(cap)
    each = prices or [PRICE] * len(worlds)
    callers = [
        Caller(
            world,
            Gate(
                ConcurrencyLimit(at_once),
                stop_signal,
                budget=budget,
                cost=price.of if price else lambda _: None,
            ),
            retries=2,
            timeout=60.0,
        )
        for world, price in zip(worlds, each, strict=True)
    ]
    judges = [
        PanelJudge(caller, price=price)
        for caller, price in zip(callers, each, strict=True)
    ]
    return Panel(judges, stop_signal, budget)


def _queued(judge: PanelJudge) -> int:
    assert judge.caller is not None
    return judge.caller.gate.status().queued


async def ask_all(
    of: Panel, groups: int, request: Request = ASKED
) -> list[list[Reply | CallError]]:
    """Ask every judge about so many groups as fast as the panel takes them."""
    left, output = iter(range(groups)), list[list[Reply | CallError]]()

    async def pull() -> int | None:
        return next(left, None)

    async def work(_: int) -> list[Reply | CallError]:
        answers: list[Reply | CallError] = []

        async def one(judge: PanelJudge) -> None:
            answers.append(await judge.call(request))

        async with anyio.create_task_group() as tasks:
            for judge in of.judges:
                tasks.start_soon(one, judge)
        return answers

    async def deliver(_: int, answers: list[Reply | CallError]) -> None:
        output.append(answers)

    with anyio.fail_after(LONGEST):
        await run(pull, work, deliver, lambda _: 1, of.wait_for_demand)
    return output


def test_sums() -> None:
    """Tokens, USD, retries and requests in flight are sums over all judges."""

    async def main() -> None:
        slow = World(latency=3.0, usage=Usage(500, 50, 0, 1))
        of = panel(World(), slow, prices=[PRICE, Price(1e-5, 1e-5, 1e-5)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_all, of, 10)
            await anyio.sleep(0.5)
            assert (of.status().in_flight, of.status().limit) == (8, 8)
        used, cost = of.spent()
        assert used == Usage(10 * 1500, 10 * 250, 0, 20)
        assert cost == pytest.approx(10 * (1400e-6 + 550e-5))
        of.count(summary := Summary())
        assert (summary.asked, summary.retried) == (20, {})
        assert of.budget.spent == pytest.approx(cost)

    virtually(main)


def test_unknown_price() -> None:
    """If one price is unknown so is the cost of every group, whichever judges were asked."""

    async def main() -> None:
        of = panel(World(), World(), prices=[PRICE, None])
        await ask_all(of, 1)
        assert of.spent()[1] is None
        assert of.cost((Usage(1000, 0, 0, 1, usd=1e-3), Usage())) is None
        assert of.cost((Usage(), Usage())) is None
        priced = panel(World(), World(), prices=[PRICE, PRICE])
        assert priced.cost((Usage(1000, 0, 0, 1, usd=1e-3), Usage())) == 1e-3
        assert repr(priced.cost((Usage(), Usage()))) == "0.0"

    virtually(main)


def test_retries_are_summed() -> None:
    """Retries are counted by kind over all judges."""

    def once() -> World:
        calls = itertools.count()
        return World(
            error=lambda *_: (
                CallError("transport", "x", "call") if next(calls) == 0 else None
            )
        )

    async def main() -> None:
        of = panel(once(), once())
        await ask_all(of, 3)
        of.count(summary := Summary())
        assert (summary.retried, summary.asked) == ({"transport": 2}, 8)

    virtually(main)


def test_queues_hold_back_groups() -> None:
    """A long queue of any judge holds back further groups, so a slow judge piles up none."""

    async def main() -> None:
        fast, slow = World(latency=0.1), World(latency=10.0)
        of = panel(fast, slow)
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, _queued(of.judges[1]))
                await anyio.sleep(0.5)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            output = await ask_all(of, 100)
            tasks.cancel_scope.cancel()
        assert len(output) == 100
        assert most <= 4
        assert slow.used(0.0, 240.0) > 3.9  # and is busy all the time

    virtually(main)


def test_stop_signal() -> None:
    """A stop signal ends the queues of all judges, from whichever judge it comes."""

    async def main() -> None:
        of = panel(World(latency=5.0), World(latency=50.0))
        async with anyio.create_task_group() as tasks:
            output = list[list[Reply | CallError]]()

            async def all_of_it() -> None:
                output.extend(await ask_all(of, 100))

            tasks.start_soon(all_of_it)
            await anyio.sleep(12.0)
            of.stop_signal.stop(InterruptedRun(2))
            of.nudge()
        answers = [answer for row in output for answer in row]
        assert len(answers) == 200
        assert sum(answer == INTERRUPTED for answer in answers) > 150
        assert anyio.current_time() < 60.0

    virtually(main)


@pytest.mark.parametrize("seed", few(6, range(25)))
def test_one_cap(seed: int) -> None:
    """The costs of all judges together stay within the cap, and none waits once it is reached."""
    dice = random.Random(seed)
    worlds, prices = [], list[Price | None]()
    for number in range(dice.choice([2, 2, 3])):
        price = Price(10 ** dice.uniform(-8, -5), 10 ** dice.uniform(-8, -4), 0.0)
        faulty = dice.choice([0.0, 0.1])
        usage = Usage(
            round(10 ** dice.uniform(2, 4)), round(10 ** dice.uniform(1, 3.5)), 0, 1
        )
        worlds.append(
            Billing(
                latency=10 ** dice.uniform(-1, 2),
                usage=usage,
                price=price,
                seed=seed + number,
                error=lambda _, __, d, share=faulty: (
                    BROKEN if d.random() < share else None
                ),  # type: ignore[misc]  # a default
            )
        )
        prices.append(price)
    mean = sum(world.price.of(world.usage) for world in worlds)
    cap = mean * 10 ** dice.uniform(-0.5, 1.5)

    async def main() -> list[list[Reply | CallError]]:
        of = panel(
            *worlds, prices=prices, cap=cap, at_once=round(2 ** dice.uniform(0, 5))
        )
        output = await ask_all(of, 200)
        assert of.budget.closed
        assert of.budget.reserved == 0
        assert of.budget.spent == pytest.approx(sum(world.billed for world in worlds))
        return output

    output = virtually(main)
    assert len(output) == 200
    assert sum(world.billed for world in worlds) <= cap + max(
        world.dearest for world in worlds
    )
    assert CAPPED in output[-1]
