"""Order, bounds and ends of the engine."""

from __future__ import annotations

import anyio
import pytest

from ruler_cli.pool.engine import Bounds
from tests.virtual import run

pytestmark = pytest.mark.anyio


async def always() -> None:
    """Accept every item."""


async def test_bounds() -> None:
    """No more items and bytes are held than allowed; a larger item goes alone."""
    held = most = 0
    sizes = [3, 4, 50, 1, 1, 1, 5, 5, 2] * 5
    items = iter(sizes)

    async def pull() -> int | None:
        return next(items, None)

    async def work(item: int) -> int:
        nonlocal held, most
        held += item
        most = max(most, held if held != item else 0)
        await anyio.sleep(0.001)
        return item

    out: list[int] = []

    async def deliver(item: int, _: int) -> None:
        nonlocal held
        held -= item
        out.append(item)

    await run(pull, work, deliver, lambda size: size, always, Bounds(4, 10))
    assert out == sizes
    assert most <= 10


async def test_slow_delivery() -> None:
    """Work follows the pace of a slow reader once so many results wait; a straggler delays no other item."""
    begun = taken = 0
    ahead, all_begun = list[int](), anyio.Event()
    items = iter(range(60))

    async def pull() -> int | None:
        return next(items, None)

    async def work(item: int) -> int:
        nonlocal begun
        begun += 1
        if begun == 60:
            all_begun.set()
        if item == 30:
            await all_begun.wait()
        return item

    async def deliver(item: int, _: int) -> None:
        nonlocal taken
        taken += 1
        if item < 30:
            await anyio.sleep(0.001)
            ahead.append(begun - taken)

    with anyio.fail_after(10):
        await run(
            pull, work, deliver, lambda _: 1, always, Bounds(1000, 1000, 5)
        )
    assert taken == 60
    assert 5 <= max(ahead) <= 8


@pytest.mark.parametrize("where", ["pull", "work", "deliver"])
async def test_exception(where: str) -> None:
    """An exception in any part ends the run and comes out as itself."""

    async def step(name: str, value: int) -> int:
        if name == where:
            raise KeyError(name)
        return value

    async def deliver(_: int, result: int) -> None:
        await step("deliver", result)

    with pytest.raises(KeyError, match=where):
        await run(
            lambda: step("pull", 1),
            lambda i: step("work", i),
            deliver,
            lambda _: 1,
            always,
            Bounds(2, 10),
        )
