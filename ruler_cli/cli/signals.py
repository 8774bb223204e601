"""Handle Ctrl-C, SIGTERM and SIGHUP: the first stops a command in order, the second at once."""

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
_GRACE = 2.0
"""Seconds for threads to end after the second signal."""


def run_interruptible(
    main: Callable[[StopSignal], Awaitable[T]],
    before_end: Callable[[int], None] = lambda _: None,
) -> T:
    """Run `main`: the first signal stops it by its StopSignal, the second raises InterruptedRun.

    `before_end` is called with the exit code at the second: the process may end without unwinding.
    """
    import anyio

    return anyio.run(_watch_signals, main, before_end)


def run_cancellable(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main`: the first signal cancels it, the second ends it at once."""
    from ruler_cli.pool.engine import run_beside

    async def with_signal(stop: StopSignal) -> T:
        async def watch() -> None:
            await stop.event.wait()
            raise stop.reason or InterruptedRun(signal.SIGINT)

        return await run_beside(watch, main)

    return run_interruptible(with_signal)


async def _watch_signals(
    main: Callable[[StopSignal], Awaitable[T]],
    before_end: Callable[[int], None],
) -> T:
    import asyncio

    import anyio

    from ruler_cli.pool.engine import StopSignal, unwrapped

    stop, received = StopSignal(), list[int]()
    loop = asyncio.get_running_loop()
    scope = anyio.CancelScope()

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            loop.call_soon_threadsafe(stop.stop, InterruptedRun(number))
            return
        # end the process even if a thread waits for a pipe or for another process's lock
        timer = threading.Timer(_GRACE, os._exit, [128 + number])
        timer.daemon = True
        timer.start()
        loop.call_soon_threadsafe(before_end, 128 + number)
        loop.call_soon_threadsafe(scope.cancel)

    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with _handled(receive, *stopping), unwrapped():
        with scope:
            return await main(stop)
        raise InterruptedRun(received[-1])


@contextmanager
def _handled(
    handle: Callable[[int, FrameType | None], None], *signals: signal.Signals
) -> Iterator[None]:
    """Have signals handled; those that the shell has set to be ignored stay so: `nohup ruler …`, `ruler … &`."""
    handlers = {}
    for number in signals:
        if signal.getsignal(number) != signal.SIG_IGN:
            handlers[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            # None: one that is not of Python
            signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def unwind_on_signal() -> Iterator[None]:
    """Unwind the command at the first signal, so that its temporary files go; end it at the second.

    The exit code is 128 plus the signal's number. Signals that the shell has set to be ignored stay so.
    """
    # only the main thread may set handlers
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled(_end, signal.SIGTERM, signal.SIGHUP):
        yield


def _end(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)
