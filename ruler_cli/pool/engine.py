"""Items in, results out, in the items' order, many at once, with a bound on what is held; a signal to stop.

An iterator that may block is read in a thread. The thread is a daemon: a run that stops must not wait for a
pipe that never ends.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import anyio

from ruler_cli.errors import RulerError, UsageError


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs in this thread; UsageError if none of asyncio does, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "no asyncio event loop runs in this thread",
            "use `with Scorer(settings) as scorer` and `scorer.score_all(groups)`; under trio call that with "
            "trio.to_thread.run_sync",
        ) from None


class StopSignal:
    """A signal to stop: no new call is sent; calls in flight may finish."""

    def __init__(self, *, outages: bool = True) -> None:
        """Make it where the loop runs. `outages`: a judge that is down for too long stops the run."""
        self.outages = outages
        self.on_stop: Callable[[], object] = lambda: None
        """Called where the loop runs once it stops."""
        self._loop = running_loop()
        self.reason: RulerError | None = None
        self.event = asyncio.Event()
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
        self.reason = None
        self.event.clear()

    async def before(self, work: Awaitable[T]) -> asyncio.Future[T]:
        """Return the work as a future once it is done, or once the run is told to stop."""
        future = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self.event.wait())
        try:
            await asyncio.wait(
                (future, stopped), return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            future.cancel()
            raise
        finally:
            stopped.cancel()
        return future

    def _set(self) -> None:
        self.event.set()
        self.on_stop()


T = TypeVar("T")
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


BOUNDS = Bounds()


@dataclass(eq=False)
class Engine(Generic[Item, Result]):
    """An iterator over items and their results, in the order in which the items are pulled.

    It pulls items until None and works on them concurrently, while it is open as an async context. It is not a
    generator: a loop that ends closes all generators at once, also one that another still uses. `demand` returns when
    one more should be pulled.
    """

    pull: Callable[[], Awaitable[Item | None]]
    work: Callable[[Item], Coroutine[Any, Any, Result]]
    size: Callable[[Item], int]
    demand: Callable[[], Awaitable[None]]
    bounds: Bounds = BOUNDS

    def __post_init__(self) -> None:
        self._held = deque[tuple[Item, int, asyncio.Task[Result]]]()
        self._bytes = 0
        self._pulling = self._taking = self._last = False
        self._more = asyncio.Event()
        self._less = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._producer = asyncio.create_task(self._produce())
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(self._producer, *[task for _, _, task in self._held])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[Item, Result]:
        if self._taking:
            self._bytes -= self._held.popleft()[1]
            self._taking = False
            self._less.set()
        while not self._held:
            if self._producer.done():
                self._producer.result()
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
        item, _, task = self._held[0]
        result = await task
        self._taking = True
        return item, result

    def last(self) -> None:
        """Pull no further item, also if a pull waits; the others are worked on to their end."""
        self._last = True
        if self._pulling and asyncio.current_task() is not self._producer:
            self._producer.cancel()

    async def _produce(self) -> None:
        held = self._held
        bounds = self.bounds
        try:
            while not self._last and (item := await self._next()) is not None:
                size = self.size(item)
                while held and (
                    len(held) >= bounds.items
                    or self._bytes + size > bounds.size
                ):
                    await self._next_taken()
                # While the first is still worked on none can be taken, and there may be more.
                if self._taking and len(held) > bounds.ready:
                    ready = sum(task.done() for _, _, task in held)
                    if (
                        ready > bounds.ready
                    ):  # work goes on at the pace of their taker
                        await self._next_taken()
                task = asyncio.create_task(self.work(item))
                held.append((item, size, task))
                self._bytes += size
                self._more.set()
                await asyncio.sleep(
                    0
                )  # its requests wait before demand is looked at
                await self.demand()
        finally:
            # the task is done in the next turn of the loop
            asyncio.get_running_loop().call_soon(self._more.set)

    async def _next(self) -> Item | None:
        self._pulling = True
        try:
            return await self.pull()
        except asyncio.CancelledError:
            if not self._last:
                raise
            return None
        finally:
            self._pulling = False

    async def _next_taken(self) -> None:
        self._less.clear()
        await self._less.wait()


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait for their end, whatever ends the one that waits; their errors are dropped."""
    for task in tasks:
        task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.gather(*tasks, return_exceptions=True)


async def together(
    work: Sequence[Callable[[], Coroutine[Any, Any, None]]],
) -> None:
    """Run all of it at once; one alone needs no task. The first error ends the others."""
    if len(work) < 2:
        for task in work:
            await task()
        return
    with unwrapped():
        async with asyncio.TaskGroup() as tasks:
            for task in work:
                tasks.create_task(task())


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise an exception itself: a task group wraps even a single one."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


async def run_beside(
    companion: Callable[[], Coroutine[Any, Any, None]],
    work: Callable[[], Awaitable[T]],
) -> T:
    """Run `work` beside a companion; the end of `work` cancels it, an error that it raises cancels `work`."""
    with unwrapped():
        async with asyncio.TaskGroup() as tasks:
            beside = tasks.create_task(companion())
            result = await work()
            beside.cancel()
    return result


def inline(items: Iterator[T]) -> Callable[[], Awaitable[T | None]]:
    """Pull from an iterator that never blocks for long, such as a file's."""

    async def pull() -> T | None:
        return next(items, None)

    return pull


def threaded(items: Iterator[T]) -> Callable[[], Awaitable[T | None]]:
    """Pull from an iterator that may wait for a pipe, without stopping the calls in flight."""
    asked: queue.SimpleQueue[asyncio.Future[T | None] | None] = (
        queue.SimpleQueue()
    )

    def read() -> None:
        while (future := asked.get()) is not None:
            item = None
            error = None
            try:
                item = next(items, None)
            except BaseException as raised:  # noqa: BLE001 - handed to the task that waits
                error = raised
            with suppress(RuntimeError):  # the run has stopped
                future.get_loop().call_soon_threadsafe(
                    _settle, future, item, error
                )

    threading.Thread(target=read, name="ruler-input", daemon=True).start()

    async def pull() -> T | None:
        future: asyncio.Future[T | None] = (
            asyncio.get_running_loop().create_future()
        )
        asked.put(future)
        return await future

    # a run that stops before the end asks no more: the thread and what it reads are let go then
    weakref.finalize(pull, asked.put, None).atexit = False
    return pull


def _settle(
    future: asyncio.Future[Any], item: object, error: BaseException | None
) -> None:
    """Settle a future unless the one that waited is gone."""
    if future.done():
        return
    if error is None:
        future.set_result(item)
    else:
        future.set_exception(error)


async def in_thread(work: Callable[[], T]) -> T:
    """Call a function that may wait for a pipe, in a daemon thread, without stopping the calls in flight."""
    results = threaded([work()] for _ in range(1))
    [result] = await results() or []
    return result
