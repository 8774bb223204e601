"""The cap in random worlds: spending by the world's own books."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pytest

from ruler_cli.judges.providers import Price
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import CAPPED, Gate
from ruler_cli.pool.limits import Budget, ConcurrencyLimit
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.values import few
from tests.virtual import World, flood, virtually

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

    async def main() -> Budget:
        gate = Gate(
            ConcurrencyLimit(at_once), StopSignal(), budget=Budget(cap), cost=price.of
        )
        caller = Caller(world, gate, retries=6, timeout=60.0)
        asked = Request("", "u" * size, ("a", "b", "c", "d"))
        await flood(caller, math.inf, asked, calls=CALLS)
        assert await caller.call(asked) == CAPPED
        return gate.budget

    budget = virtually(main)
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
