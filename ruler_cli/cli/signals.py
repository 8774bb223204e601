"""Ctrl-C and SIGTERM: stop the run in order, so that everything that is whole reaches the disk."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from ruler_cli.errors import InterruptedRun
from ruler_cli.pool.engine import first_of

T = TypeVar("T")


async def interruptible(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main`; the first signal ends it as InterruptedRun."""
    done: list[T] = []

    async def watch() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for signum in signals:
                raise InterruptedRun(signum)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            done.append(await main())
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return done[0]
