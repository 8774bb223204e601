"""Ctrl-C, SIGTERM and SIGHUP: the first ends a command in order, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from ruler_cli.errors import InterruptedRun

if TYPE_CHECKING:
    from ruler_cli.pool.engine import StopSignal

T = TypeVar("T")
_LAST = 2.0
"""Seconds after the second signal in which threads may come to their end."""


async def run_interruptible(main: Callable[[StopSignal], Awaitable[T]]) -> T:
    """Run `main`: the first signal tells it to stop, the second ends it as InterruptedRun."""
    import anyio

    from ruler_cli.pool.engine import StopSignal, first_of

    done: list[T] = []
    halt = StopSignal()

    # what the shell told us to ignore stays ignored: `nohup ruler …`, `ruler … &` in a script
    heard = [
        s for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) != signal.SIG_IGN
    ]

    async def watch() -> None:
        with anyio.open_signal_receiver(*heard) as signals:
            async for signum in signals:
                if halt.reason is not None:
                    _die_soon(128 + signum)
                    raise InterruptedRun(signum)
                halt.stop(InterruptedRun(signum))

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            done.append(await main(halt))
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return done[0]


def _die_soon(code: int) -> None:
    """End the process even if a thread waits for a pipe or for another process's lock."""
    timer = threading.Timer(_LAST, os._exit, [code])
    timer.daemon = True
    timer.start()


@contextmanager
def unwind_on_signal() -> Iterator[None]:
    """A first signal unwinds the command, so that temporary files go; a second one ends it at once.

    The exit code is 128 and the signal's number. What the shell told us to ignore stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():  # only there can signals be heard
        yield
        return
    before = {
        number: signal.signal(number, _end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)
