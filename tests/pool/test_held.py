"""A bound on the bytes that are held at once."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from ruler_cli.pool.engine import ByteLimit


def test_held() -> None:
    """All items get in, no more is held than the bound, and a larger item goes alone."""
    held, now, most = ByteLimit(10), 0, 0

    async def one(size: int) -> None:
        nonlocal now, most
        await held.enter(size)
        now += size
        assert now <= 10 or now == size
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        now -= size
        held.leave(size)

    async def all_() -> None:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for size in (4, 4, 4, 25, 9, 1, 3, 3, 3, 3):
                    tasks.start_soon(one, size)

    anyio.run(all_)
    assert (now, most) == (0, 25)
