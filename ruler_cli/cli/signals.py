"""Handle Ctrl-C, SIGTERM and SIGHUP: the first stops a command in order, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from ruler_cli.errors import InterruptedRun

if TYPE_CHECKING:
    from ruler_cli.pool.engine import StopSignal

T = TypeVar("T")
_GRACE = 2.0
"""Seconds for threads to end after the second signal."""


def run_interruptible(
    main: Callable[[StopSignal], Awaitable[T]], before_end: Callable[[int], None] = lambda _: None
) -> T:
    """Run `main`: the first signal stops it by its StopSignal, the second raises InterruptedRun.

    `before_end` is called with the exit code at the second: the process may end without unwinding.
    """
    import anyio

    # signals that the shell has set to be ignored stay ignored: `nohup ruler …`, `ruler … &` in a script
    handlers = {
        s: handler
        for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(s)) != signal.SIG_IGN
    }
    try:
        return anyio.run(_watch_signals, main, before_end, tuple(handlers))
    finally:
        for number, handler in handlers.items():  # anyio leaves the default ones
            signal.signal(number, handler or signal.SIG_DFL)


async def _watch_signals(
    main: Callable[[StopSignal], Awaitable[T]],
    before_end: Callable[[int], None],
    handled: Sequence[signal.Signals],
) -> T:
    import anyio

    from ruler_cli.pool.engine import StopSignal, first_of

    results: list[T] = []
    stop = StopSignal()

    async def watch() -> None:
        with anyio.open_signal_receiver(*handled) as signals:
            async for signum in signals:
                if stop.reason is not None:
                    # end the process even if a thread waits for a pipe or for another process's lock
                    timer = threading.Timer(_GRACE, os._exit, [128 + signum])
                    timer.daemon = True
                    timer.start()
                    before_end(128 + signum)
                    raise InterruptedRun(signum)
                stop.stop(InterruptedRun(signum))

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            results.append(await main(stop))
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return results[0]


@contextmanager
def unwind_on_signal() -> Iterator[None]:
    """Unwind the command at the first signal, so that its temporary files go; end it at the second.

    The exit code is 128 plus the signal's number. Signals that the shell has set to be ignored stay so.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    handlers = {
        number: signal.signal(number, _end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)
