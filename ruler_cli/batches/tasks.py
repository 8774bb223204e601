"""Work that ends when the run is told to stop, work with something beside it, and waits that grow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from ruler_cli.pool.engine import first_of
from ruler_cli.pool.halt import Halt

T = TypeVar("T")
_BEAT = 1.0


async def unless_told(halt: Halt, work: Callable[[], Awaitable[T]]) -> T:
    """Do it; where `halt` is told before it is done, leave off and raise the reason."""
    done: list[T] = []

    async def watch() -> None:
        await halt.told.wait()
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            done.append(await work())
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    if not done and halt.reason is not None:
        raise halt.reason
    return done[0]


async def meanwhile(beside: Callable[[], None], work: Callable[[], Awaitable[T]]) -> T:
    """Do it, with `beside` called once a second as long as it takes."""
    done: list[T] = []

    async def repeat() -> None:
        while True:
            beside()
            await anyio.sleep(_BEAT)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(repeat)
            done.append(await work())
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return done[0]


class Pauses:
    """Waits that grow from one to the next, up to a longest one; in seconds."""

    def __init__(self, first: float = 1.0, most: float = 60.0) -> None:
        """The first wait, and the longest."""
        self._next, self._most = first, most

    async def pause(self, halt: Halt, left: float) -> None:
        """Wait, at most what is `left`; the reason is raised where `halt` is told meanwhile."""
        seconds = min(self._next, self._most, left)
        self._next = min(self._next * 1.5, self._most)
        await unless_told(halt, lambda: anyio.sleep(seconds))
