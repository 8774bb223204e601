"""Ctrl-C and SIGTERM: the first stops the run in order, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from ruler_cli.errors import InterruptedRun
from ruler_cli.pool.engine import first_of
from ruler_cli.pool.halt import Halt

T = TypeVar("T")


async def interruptible(main: Callable[[Halt], Awaitable[T]]) -> T:
    """Run `main`: the first signal tells it to stop, the second ends it as InterruptedRun."""
    done: list[T] = []
    halt = Halt()

    async def watch() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for signum in signals:
                if halt.reason is not None:
                    raise InterruptedRun(signum)
                halt.now(InterruptedRun(signum))

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            done.append(await main(halt))
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return done[0]
