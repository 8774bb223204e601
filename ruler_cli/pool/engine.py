"""Items in, results out, in the items' order, many at once, with a bound on what is held; a signal to stop.

An iterator that may block is read in a thread. The thread is a daemon: a run that stops must not wait for a
pipe that never ends.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import ObjectReceiveStream, ObjectSendStream

from ruler_cli.errors import RulerError


class StopSignal:
    """Once told, nothing new goes; what is in flight may finish."""

    def __init__(self) -> None:
        """Must be made where the loop runs."""
        self.reason: RulerError | None = None
        self.event = anyio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def stop(self, reason: RulerError) -> None:
        """Stop, for this reason; the first one stays. The thread that reads INPUT may say it too."""
        if self.reason is not None:
            return
        self.reason = reason
        if threading.get_ident() == self._thread:
            self.event.set()
        else:
            self._loop.call_soon_threadsafe(self.event.set)


Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many items, and how many bytes of them, may be held at once; one item always may.

    Held are also those that are done and wait for a slow one before them, so this is what a straggler
    may cost in memory, and how far the others run on meanwhile. `ready` are done and wait only for whoever
    takes results: as many as bridge a pause of a pipe's reader, however slow it is.
    """

    items: int = 10_000
    size: int = 64 << 20
    ready: int = 500


@dataclass(slots=True)
class _Slot(Generic[Item, Result]):
    item: Item
    size: int
    done: anyio.Event = field(default_factory=anyio.Event)
    result: list[Result] = field(default_factory=list)


async def run(
    pull: Callable[[], Awaitable[Item | None]],
    work: Callable[[Item], Awaitable[Result]],
    deliver: Callable[[Item, Result], Awaitable[None]],
    size: Callable[[Item], int],
    room: Callable[[], Awaitable[None]],
    bounds: Bounds = Bounds(),
) -> None:
    """Pull items until None, work on them concurrently, deliver results in the order pulled.

    `room` returns when one more should be pulled.  An exception of any of them ends everything and
    comes out as itself.
    """
    held, line = ByteLimit(bounds.size), _Ready(bounds.ready)
    send, receive = anyio.create_memory_object_stream[_Slot[Item, Result]](bounds.items)

    async def one(slot: _Slot[Item, Result]) -> None:
        slot.result.append(await work(slot.item))
        slot.done.set()
        line.number += 1

    async def produce(out: ObjectSendStream[_Slot[Item, Result]]) -> None:
        async with out:
            while (item := await pull()) is not None:
                slot = _Slot[Item, Result](item, size(item))
                await held.enter(slot.size)
                await out.send(slot)
                tasks.start_soon(one, slot)
                await anyio.lowlevel.checkpoint()  # it takes its place before room is asked for
                await room()
                await line.short()

    async def consume(slots: ObjectReceiveStream[_Slot[Item, Result]]) -> None:
        async with slots:
            async for slot in slots:
                await slot.done.wait()
                with line.taking():
                    await deliver(slot.item, slot.result.pop())
                held.leave(slot.size)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(produce, send)
            tasks.start_soon(consume, receive)
    except BaseExceptionGroup as group:
        raise first_of(group) from None


class ByteLimit:
    """Bytes held; whoever would overfill it waits, unless it is empty."""

    def __init__(self, limit: int) -> None:
        """At most `limit` bytes, or one thing that is larger."""
        self._limit = limit
        self._held = 0
        self._left = anyio.Event()

    async def enter(self, size: int) -> None:
        """Wait until there is room for so much, and take it."""
        while self._held and self._held + size > self._limit:
            if self._left.is_set():  # one event for all who wait
                self._left = anyio.Event()
            await self._left.wait()
        self._held += size

    def leave(self, size: int) -> None:
        """Give it back."""
        self._held -= size
        self._left.set()


class _Ready:
    """Results that are there; work goes on at the pace of whoever takes them once they are too many.

    While the first of them is still worked on nobody can take any, and they may be more.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._taking, self._left = limit, False, anyio.Event()
        self.number = 0

    @contextmanager
    def taking(self) -> Iterator[None]:
        self._taking = True
        yield
        self._taking = False
        self.number -= 1
        self._left.set()

    async def short(self) -> None:
        while self._taking and self.number > self._limit:
            self._left = anyio.Event()
            await self._left.wait()


async def together(work: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run all of it at once; one alone needs no task."""
    if len(work) == 1:
        await work[0]()
    elif work:
        async with anyio.create_task_group() as tasks:
            for one in work:
                tasks.start_soon(one)


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception itself: a task group wraps even a single one."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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


async def in_thread(work: Callable[[], T]) -> T:
    """Call a function that may wait for a pipe, in a daemon thread, without stopping the calls in flight."""
    pull = threaded(work() for _ in range(1))
    result = await pull()
    if result is None:
        raise RuntimeError("the function returned nothing")
    return result
