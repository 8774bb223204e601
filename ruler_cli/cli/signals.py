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
    from anyio.abc import TaskStatus

    from ruler_cli.pool.engine import StopSignal

T = TypeVar("T")
_GRACE = 2.0
"""Seconds for threads to end after the second signal."""
_BUSY = 5.0
"""Seconds after which a signal ends what keeps the event loop busy, such as the scores of a large group."""


def run_interruptible(
    main: Callable[[StopSignal], Awaitable[T]],
    before_end: Callable[[int], None] = lambda _: None,
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


def run_cancellable(
    main: Callable[[], Awaitable[T]], on_stop: Callable[[], object] = lambda: None
) -> T:
    """Run `main`: the first signal calls `on_stop` and cancels it, the second ends it at once."""
    from ruler_cli.pool.engine import run_beside

    async def with_signal(stop: StopSignal) -> T:
        async def watch() -> None:
            await stop.event.wait()
            on_stop()
            raise stop.reason or InterruptedRun(signal.SIGINT)

        return await run_beside(watch, main)

    return run_interruptible(with_signal)


async def _watch_signals(
    main: Callable[[StopSignal], Awaitable[T]],
    before_end: Callable[[int], None],
    handled: Sequence[signal.Signals],
) -> T:
    import anyio

    from ruler_cli.pool.engine import StopSignal, first_of

    results: list[T] = []
    stop = StopSignal()

    async def beat() -> None:
        while True:
            signal.setitimer(signal.ITIMER_REAL, _BUSY)
            await anyio.sleep(1)

    async def watch(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*handled) as signals, _end_if_busy(handled):
            task_status.started()
            async for signum in signals:
                if stop.reason is not None:
                    # end the process even if a thread waits for a pipe or for another process's lock
                    timer = threading.Timer(_GRACE, os._exit, [128 + signum])
                    timer.daemon = True
                    timer.start()
                    before_end(128 + signum)
                    raise InterruptedRun(signum)
                stop.stop(InterruptedRun(signum))
                tasks.start_soon(beat)

    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(watch)
            results.append(await main(stop))
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return results[0]


@contextmanager
def _end_if_busy(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Raise InterruptedRun where the program is, if a signal came and the event loop is busy for long.

    The loop learns of a signal between two steps of its tasks, and puts the alarm off while it runs.
    """
    received = list[int]()

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        signal.setitimer(signal.ITIMER_REAL, _BUSY)

    def end(_number: int, _frame: FrameType | None) -> None:
        if received:
            raise InterruptedRun(received[0])

    for number in (
        numbers
    ):  # beside the loop's own way: the system writes each signal into its pipe as well
        signal.signal(number, receive)
    before = signal.signal(signal.SIGALRM, end)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(
            signal.SIGALRM, before or signal.SIG_DFL
        )  # None: one that is not of Python


@contextmanager
def unwind_on_signal() -> Iterator[None]:
    """Unwind the command at the first signal, so that its temporary files go; end it at the second.

    The exit code is 128 plus the signal's number. Signals that the shell has set to be ignored stay so.
    """
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # only the main thread may set handlers
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
