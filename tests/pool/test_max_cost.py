"""The cap in random worlds: spending by the world's own books."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, replace

import anyio
import pytest
from hypothesis import strategies as st

from ruler_cli.judges.providers import Price
from ruler_cli.pool.gate import CAPPED
from ruler_cli.pool.limits import Budget, Estimates
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.values import few
from tests.virtual import Plan, World, called, flood, together

BROKEN = CallError("transport", "it is broken", "call", billed=False)
CALLS = 400
FREE = Price(0.0, 0.0, 0.0)


@dataclass
class Billing(World):
    """A world that keeps its bills."""

    price: Price = FREE
    billed: float = 0.0
    dearest: float = 0.0
    replies: int = 0

    async def ask(self, request: Request) -> Reply | CallError:
        """Bill each answer."""
        answer = await super().ask(request)
        if isinstance(answer, Reply):
            cost = self.price.of(answer.usage)
            self.billed += cost
            self.dearest = max(self.dearest, cost)
            self.replies += 1
        return answer


@dataclass(frozen=True)
class CappedRun:
    """The costs of a run under a cap, in USD."""

    cap: float
    billed: float
    reported: float
    mean: float
    dearest: float

    @property
    def over(self) -> float:
        """Spent past the cap, in mean calls."""
        return (self.billed - self.cap) / self.mean


def capped_run(seed: int) -> CappedRun:
    """Run one random world: price, tokens, latency, errors, a cap and a concurrency."""
    dice = random.Random(seed)
    price = Price(10 ** dice.uniform(-8, -5), 10 ** dice.uniform(-8, -4), 0.0)
    usage = Usage(
        round(10 ** dice.uniform(2, 4)), round(10 ** dice.uniform(1, 3.5)), 0, 1
    )
    spread, at_once = dice.uniform(0.0, 0.7), round(2 ** dice.uniform(0, 6))
    mean = price.of(usage) * math.exp(spread**2 / 2)
    cap = mean * 10 ** dice.uniform(0.0, math.log10(CALLS / 2))
    faulty = dice.choice([0.0, 0.0, 0.1])
    size = round(3.8 * usage.prompt * dice.choice([1 / 3, 1.0, 1.0, 3.0]))
    world = Billing(
        spread=spread,
        usage=usage,
        price=price,
        seed=seed,
        error=lambda _, __, d: BROKEN if d.random() < faulty else None,
    )

    asked = Request("", "u" * size, ("a", "b", "c", "d"))

    async def work(caller: Caller) -> Budget:
        await flood(caller, math.inf, asked, calls=CALLS)
        assert await caller.call(asked) == CAPPED
        return caller.gate.budget

    budget = called(
        world, work, at_once, retries=6, budget=Budget(cap), cost=price.of
    )
    return CappedRun(cap, world.billed, budget.spent, mean, world.dearest)


@pytest.mark.parametrize("seed", few(8, range(50)))
def test_cap(seed: int) -> None:
    """Spending passes the cap by less than the dearest call, and the run reports exactly the bill."""
    end = capped_run(seed)
    assert end.billed <= end.cap + end.dearest
    assert end.reported == pytest.approx(end.billed)


def test_cap_is_used() -> None:
    """The unused rest of the cap is usually less than the cost of two calls."""
    left = sorted(-capped_run(seed).over for seed in range(100, 115))
    assert left[len(left) // 2] < 2.0


ASKED = Request("s" * 1000, "u" * 2800, ("a", "b", "c", "d"))
TWICE = Request("s" * 2000, "u" * 5600, ASKED.labels)
PAID = Reply("ok", Usage(900, 100, 0, 1), body=b"{}")
"""An answer of 10 USD."""


def usd(usage: Usage) -> float:
    """Return the cost of a usage, of a cent for each token."""
    return (usage.prompt + usage.completion) / 100


@pytest.mark.parametrize(
    ("answer", "spent", "unsure"),
    [
        (PAID, 10.0, False),
        (CallError("refused", "no", "group", billed=False), 0.0, False),
        (CallError("refused", "no", "group"), 0.0, True),
    ],
)
def test_settled(answer: Reply | CallError, spent: float, unsure: bool) -> None:
    """Usage replaces the estimate; a call that may have been billed stays, and counts towards the cap."""

    async def work(caller: Caller) -> Budget:
        await caller.call(ASKED)
        return caller.gate.budget

    budget = called(Plan([(1.0, answer)]), work, budget=Budget(100.0), cost=usd)
    assert (budget.spent, budget.reserved) == (spent, 0.0)
    assert (budget.unsure > 0) == unsure
    assert budget.fits(100.0 - spent - budget.unsure)
    assert not budget.fits(100.1 - spent - budget.unsure)


def test_at_once() -> None:
    """With a cap the first call goes alone, and never more at once than half the number of replies."""
    judge = Plan([(1.0, PAID)])

    async def work(caller: Caller) -> list[tuple[int, int]]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(together, caller, [ASKED] * 60)
            counts = []
            for _ in range(20):
                await anyio.sleep(0.5)
                counts.append(
                    (len(judge.times) - judge.in_flight, judge.in_flight)
                )
                await anyio.sleep(0.5)
            return counts
        raise AssertionError

    counts = called(judge, work, 10, budget=Budget(1e6), cost=usd)
    assert all(
        at_once <= max(1, (replies + 1) / 2) for replies, at_once in counts
    )
    assert judge.most == 10


def test_last_calls() -> None:
    """A call that does not fit waits for those in flight, which may turn out cheaper; then it is capped."""
    cheap = replace(PAID, usage=Usage(90, 10, 0, 1))
    paid: list[tuple[float, Reply | CallError]] = [(1.0, PAID)] * 5
    judge = Plan([*paid, (1.0, cheap), (5.0, PAID)])

    async def work(caller: Caller) -> list[tuple[Reply | CallError, float]]:
        for _ in range(5):
            await caller.call(ASKED)
        return await together(caller, [ASKED] * 5)

    budget = Budget(85.0)
    answers = called(judge, work, 10, budget=budget, cost=usd)
    assert [answer == CAPPED for answer, _ in answers] == [False] * 4 + [True]
    assert budget.spent == pytest.approx(81.0)


def test_money() -> None:
    """Money is held for a prompt as billed of late, and for half more than the longest answer, or its bound."""
    estimates = Estimates()
    bounded = replace(ASKED, max_output_tokens=5000)
    assert estimates.highest(bounded).completion == 5000
    for answer in (400, 300, 200):
        estimates.learn(ASKED, Usage(1100, answer, 0, 1))
        highest = estimates.highest(ASKED)
        assert highest.prompt == pytest.approx(1100, abs=2)
        assert highest.completion == pytest.approx(1.5 * 400, rel=0.02)
    assert estimates.highest(TWICE).prompt == pytest.approx(2200, rel=0.01)
    assert estimates.highest(bounded).completion == 5000
    # an estimate in place of a report counts too: it is what is spent
    unreported = Estimates()
    unreported.learn(ASKED, Usage(1100, 400, 0, 1, estimated=True))
    assert unreported.highest(ASKED).prompt == pytest.approx(1100, abs=2)
    # a script of three bytes per character takes as many tokens as its bytes do
    chinese = Request("", "汉" * 3800, ())
    assert Estimates().highest(chinese).prompt >= 3000
    # all of the prompt may be put into a cache
    assert estimates.highest(ASKED).written == estimates.highest(ASKED).prompt


prices = st.floats(0.0, 2.0)


def test_promised() -> None:
    """A call pays with no promise to an earlier one: a correction has to fit the cap by itself."""
    budget = Budget(1.0)
    group = asyncio.run(budget.begin([lambda: 0.3, lambda: 0.3]))
    for left in (0.3, 0.0, 0.0):
        budget.reserve(0.1, group)
        assert (group.left, budget.promised) == pytest.approx((left, left))
    assert budget.reserved == pytest.approx(0.3)
