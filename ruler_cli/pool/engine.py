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

from ruler_cli.errors import RulerError, UsageError


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs in this thread; UsageError if none of asyncio does, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "no event loop of asyncio runs in this thread; open the Scorer as `with Scorer(settings) as "
            "scorer`, and call `scorer.score_all(groups)`, under trio in a thread: trio.to_thread.run_sync"
        ) from None


class StopSignal:
    """A signal to stop: no new call is sent; calls in flight may finish."""

    def __init__(
        self, *, outages: bool = True, on_stop: Callable[[], object] = lambda: None
    ) -> None:
        """Make it where the loop runs. `outages`: a judge that is down for too long stops the run.

        `on_stop` is called there once it stops.
        """
        self.outages, self.on_stop = outages, on_stop
        self._loop = running_loop()
        self.reason: RulerError | None = None
        self.event = anyio.Event()
        self._thread = threading.get_ident()

    def stop(self, reason: RulerError) -> None:
        """Stop, for this reason; the first one stays. The thread that reads INPUT may say it too."""
        if self.reason is not None:
            return
        self.reason = reason
        if threading.get_ident() == self._thread:
            self._set()
        else:
            self._loop.call_soon_threadsafe(self._set)

    def go_on(self) -> None:
        """Forget the reason: calls are sent again."""
        self.reason, self.event = None, anyio.Event()

    def _set(self) -> None:
        self.event.set()
        self.on_stop()


Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds on items, and bytes of them, that are held at once; one item always may be.

    Items that are done and wait for a slow one before them are held too, so the bounds say how much memory
    one slow item may cost, and how far the others go on meanwhile. `ready` bounds the items that are done
    and wait only to be taken: as many as bridge a pause of a pipe's reader, however slow it is.
    """

    items: int = 10_000
    size: int = 64 << 20
    ready: int = 500


@dataclass(slots=True)
class _Task(Generic[Item, Result]):
    item: Item
    size: int
    done: anyio.Event = field(default_factory=anyio.Event)
    result: list[Result] = field(default_factory=list)


async def run(
    pull: Callable[[], Awaitable[Item | None]],
    work: Callable[[Item], Awaitable[Result]],
    deliver: Callable[[Item, Result], Awaitable[None]],
    size: Callable[[Item], int],
    demand: Callable[[], Awaitable[None]],
    bounds: Bounds = Bounds(),
) -> None:
    """Pull items until None, work on them concurrently, deliver results in the order pulled.

    `demand` returns when one more should be pulled.  An exception of any of them ends everything and
    comes out as itself.
    """
    held, line = ByteLimit(bounds.size), _Ready(bounds.ready)
    newest: list[Coroutine[Any, Any, None]] = []
    send, receive = anyio.create_memory_object_stream[_Task[Item, Result]](bounds.items)

    async def one(task: _Task[Item, Result]) -> None:
        task.result.append(await work(task.item))
        task.done.set()
        line.number += 1

    async def produce(out: ObjectSendStream[_Task[Item, Result]]) -> None:
        async with out:
            while (item := await pull()) is not None:
                task = _Task[Item, Result](item, size(item))
                await held.enter(task.size)
                await out.send(task)
                newest[:] = [
                    one(task)
                ]  # made here, so that `_closed` can close it if it never begins
                tasks.start_soon(newest.__getitem__, 0)
                await (
                    anyio.lowlevel.checkpoint()
                )  # its requests wait before demand is looked at
                await demand()
                await line.short()

    async def consume(pending: ObjectReceiveStream[_Task[Item, Result]]) -> None:
        async with pending:
            async for task in pending:
                await task.done.wait()
                with line.taking():
                    await deliver(task.item, task.result.pop())
                held.leave(task.size)

    try:
        with _closed(newest):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(produce, send)
                tasks.start_soon(consume, receive)
    except BaseExceptionGroup as group:
        raise first_of(group) from None


class ByteLimit:
    """Counts bytes that are held; an item that would pass the limit waits, unless nothing is held."""

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
    """Counts results that are ready; if they are too many, work goes on at the pace of their taker.

    While the first of them is still worked on none can be taken, and there may be more.
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


@contextmanager
def _closed(coroutines: Sequence[Coroutine[Any, Any, None]]) -> Iterator[None]:
    """Close the coroutines of tasks at their end: a loop that ends cancels some before they begin."""
    try:
        yield
    finally:
        for coroutine in coroutines:
            coroutine.close()


async def together(work: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run all of it at once; one alone needs no task."""
    if len(work) == 1:
        await work[0]()
    elif work:
        coroutines = [one() for one in work]
        with _closed(coroutines):
            async with anyio.create_task_group() as tasks:
                for i in range(len(work)):
                    tasks.start_soon(coroutines.__getitem__, i)


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception itself: a task group wraps even a single one."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


T = TypeVar("T")


async def run_beside(
    companion: Callable[[], Coroutine[Any, Any, None]], work: Callable[[], Awaitable[T]]
) -> T:
    """Run `work` beside a companion; the end of `work` cancels it, an error that it raises cancels `work`."""
    beside = [companion()]
    try:
        with _closed(beside):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(beside.__getitem__, 0)
                result = await work()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return result


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
            except BaseException as error:  # noqa: BLE001 - handed to the task that waits
                _hand_over(loop, waiting.set_exception, error)
                return
            _hand_over(loop, waiting.set_result, item)
            if item is None:
                return

    def _hand_over(
        loop: asyncio.AbstractEventLoop, settle: Callable[..., None], value: object
    ) -> None:
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
