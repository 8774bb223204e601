"""A plain iterator → something to await, read in a thread of its own where reading may block.

The thread is a daemon: a run that stops must not wait for a pipe that never ends.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


def inline(items: Iterator[T]) -> Callable[[], Awaitable[T | None]]:
    """Pull from an iterator that never blocks for long, such as a file's."""

    async def pull() -> T | None:
        return next(items, None)

    return pull


def threaded(items: Iterator[T]) -> Callable[[], Awaitable[T | None]]:
    """Pull from an iterator that may wait for a pipe, without stopping the calls in flight."""
    asked: queue.SimpleQueue[asyncio.Future[T | None] | None] = queue.SimpleQueue()

    def read() -> None:
        while (waiting := asked.get()) is not None:
            loop = waiting.get_loop()
            try:
                item = next(items, None)
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                _hand_over(loop, waiting.set_exception, error)
                return
            _hand_over(loop, waiting.set_result, item)
            if item is None:
                return

    def _hand_over(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], value: object) -> None:
        def settle_unless_gone() -> None:
            if not getattr(settle, "__self__").done():  # noqa: B009 - a bound method's future
                settle(value)

        try:
            loop.call_soon_threadsafe(settle_unless_gone)
        except RuntimeError:
            return  # the run has stopped

    threading.Thread(target=read, name="ruler-input", daemon=True).start()

    async def pull() -> T | None:
        waiting: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        asked.put(waiting)
        return await waiting

    # a run that stops before the end asks no more: the thread and what it reads are let go then
    weakref.finalize(pull, asked.put, None).atexit = False
    return pull
