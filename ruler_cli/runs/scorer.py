"""Judges that stay open for groups from Python: one pool, one ledger and one budget for all of them."""

from __future__ import annotations

import asyncio
import atexit
import copy
import inspect
import logging
import os
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
    Sized,
)
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from functools import cache
from typing import Any, Self, TypeVar

import anyio

from ruler_cli.errors import (
    CapReached,
    RefusedError,
    UsageError,
    WrongShapeError,
)
from ruler_cli.pool.engine import Bounds, StopSignal, running_loop
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.runs.file import open_session, resolve_judges
from ruler_cli.runs.json_form import G
from ruler_cli.runs.objects import (
    JudgedGroup,
    ObjectGroup,
    ObjectReader,
    judged_group,
)
from ruler_cli.runs.session import (
    BatchScores,
    JudgeStream,
    ScoringSession,
)
from ruler_cli.settings.models import (
    InputSettings,
    ScoreSettings,
    refuse_no_settings,
)
from ruler_cli.types import (
    Group,
    Observer,
    Problem,
    Standards,
    Summary,
)

T = TypeVar("T")
Groups = Iterable[G] | AsyncIterable[G]
_FILES = ("grouping", "group_by", "records", "shard", "limit")
"""Settings of `InputSettings` that say how a file is read."""
_BOUNDS = Bounds(ready=32)
"""32 scored groups bridge a pause of their taker, and a group that is trained on later than that was made by an old
policy."""
_CLOSED = "the Scorer was closed before its groups were all scored"
_END = 5.0
"""Seconds that the end of the program waits for what is open in other threads."""
_LOOK = 1.0
"""Seconds between looks if an event loop still runs."""
_LOG = logging.getLogger("ruler_cli")


class Log(Observer):
    """Passes a run's notes and warnings to Python's `logging`, as logger `ruler_cli`."""

    def note(self, sentence: str) -> None:
        """Log a sentence."""
        _LOG.info("%s", sentence)

    def warn(self, sentence: str) -> None:
        """Log a warning."""
        _LOG.warning("%s", sentence)

    def problem(self, problem: Problem) -> None:
        """Log a part of the input that could not be read."""
        _LOG.info("%s %s", problem.where, problem.reason)

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Log a group that could not be scored."""
        _LOG.info("%s: not scored (%s): %s", group, kind, reason)

    def replied(self, group: str, text: str) -> None:
        """Log a judge's reply, with `settings.debug`."""
        _LOG.info("judge on group %s: %s", group, text)


def guarded(observer: Any) -> Observer:
    """Return an observer that passes events on, and logs those that the given one has no method for.

    The program's own observer watches the run. It must not cost a score that is paid for: the first exception of each
    method is logged, none is raised. WrongShapeError if it is not an Observer.
    """
    if not isinstance(observer, Observer | None):
        raise WrongShapeError(
            f"is of type {type(observer).__name__}",
            "give an object whose class inherits from Observer",
            place="observer",
        )
    safe = Log()
    for name, unwritten in vars(Observer).items():
        if name.startswith("_"):
            continue
        method = getattr(safe if observer is None else observer, name)
        if getattr(method, "__func__", None) is not unwritten:
            setattr(safe, name, _guarded(name, method))
    return safe


def _guarded(name: str, method: Callable[..., object]) -> Callable[..., None]:
    logged = False

    def call(*event: Any) -> None:
        nonlocal logged
        try:
            result = method(*event)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError("methods of an observer cannot be async")
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - of the program; its traceback is logged
            if not logged:
                _LOG.exception(
                    "`%s` of the observer failed; the run goes on", name
                )
            logged = True

    return call


class _Groups:
    """The source of a stream: groups of a program; an error of theirs ends them, and is kept."""

    on_disk = False

    def __init__(self, reader: ObjectReader, groups: Any) -> None:
        """WrongShapeError if the groups cannot be iterated over."""
        refuse_no_groups(groups)
        self.endless = not isinstance(groups, Sized)
        self.error: Exception | None = None
        self._reader = reader
        self._groups = _each(groups)
        if isinstance(groups, AsyncIterable):
            self._groups = aiter(groups)
        self._index = 0

    async def next(self) -> Group | None:
        """Read the next group; None after the last, or if their own iterator fails."""
        try:
            # in no scope: theirs may be open until the next group
            group = await anext(self._groups)
            if not isinstance(group, ObjectGroup):
                group = self._reader.read(group, self._index)
        except StopAsyncIteration:
            return None
        except Exception as error:  # noqa: BLE001 - the caller's own; calls in flight are paid for and may finish
            self.error = error
            return None
        self._index += 1
        return group


async def scored_groups(
    scorer: Scorer,
    groups: Groups[Any],
    *,
    opens: bool = False,
) -> AsyncGenerator[JudgedGroup[Any], None]:
    """Yield groups with their scores, in order; raise the error that ended them after all that were done by then.

    `opens`: the Scorer is open as long. No generator uses another: a loop that ends closes all of them at once.
    """
    async with AsyncExitStack() as stack:
        if opens:
            await stack.enter_async_context(scorer)
        session = scorer.session_here()
        source = _Groups(scorer.reader, groups)
        if session.scores.need_all:
            # each stream is a batch
            session.scores = BatchScores(session.settings)
        # a judge that refused the run is asked again, once all that the refusal ended is done
        refused = isinstance(session.stop_signal.reason, RefusedError)
        if refused and not session.tasks:
            session.go_on()
        stream = JudgeStream(session, source, bounds=_BOUNDS)
        await stack.enter_async_context(stream)
        left = cut = 0
        async for scored in stream:
            judged = judged_group(
                scored,
                session.names,
                session.settings.on_failure,
                session.observer.warn,
            )
            if scored.result.capped:
                left += judged.failed
                cut += not judged.failed
            yield judged
        if source.error is not None:
            raise source.error
        stopped = stream.stopped
        if stopped is None and scorer.closing.is_set():
            stopped = UsageError(_CLOSED)
        stopped = stopped or session.cap_reached(left, cut)
        if stopped is not None:
            # its traceback would grow with each raise
            raise copy.copy(stopped)


def refuse_no_groups(groups: Any) -> None:
    """Raise WrongShapeError for what is not an iterable of groups; ART's group is an iterable of its fields."""
    single = isinstance(groups, Mapping | str) or hasattr(
        groups, "trajectories"
    )
    if single or not isinstance(groups, Iterable | AsyncIterable):
        kind = type(groups).__name__
        raise WrongShapeError(
            f"is of type {kind}", "give several groups", place="groups"
        )


async def _each(groups: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield the groups of an iterable."""
    for group in groups:
        yield group


class Scorer:
    """The judges of a run, open for any number of groups from Python.

    Use it as an async context: `async with Scorer(settings) as scorer`, or between `await scorer.open()` and
    `await scorer.close()`. Code without asyncio uses `with Scorer(settings) as scorer` and
    `scorer.score_all(groups)`: the judges are then in an event loop of another thread.

    All that is scored while it is open shares one pool (rate limits, adaptive concurrency, retries), one
    ledger, one `max_cost` and one `max_failures`, whatever thread it comes from. Replies are kept in the
    command's own ledger unless `settings.ledger` says otherwise, so a program that is run again pays for
    nothing twice.
    """

    session: ScoringSession
    """The judges at work; like `reader`, `closing` and `closed`, made each time that it is opened."""
    reader: ObjectReader
    closing: asyncio.Event
    closed: Future[None]

    def __init__(
        self,
        settings: ScoreSettings | None = None,
        *,
        observer: Observer | None = None,
    ) -> None:
        """UsageError for settings that contradict one another, or that only a file can have."""
        self._settings = _checked(settings)
        self._observer = guarded(observer)
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop where it is open, or was."""
        self._taken = 0
        self._last = Summary()
        """The counts of all groups when it was closed."""
        self._lock = threading.Lock()
        """Held while it is opened for `score_all`, so that it is open once."""

    async def open(self) -> Self:
        """Open the judges and the ledger in this event loop, until `close`, or until the loop ends.

        UsageError if a key, an address or a price is missing, or if it is open already.
        """
        opened = running_loop().create_future()
        self._refuse_open()
        open_task = asyncio.create_task(self._keep_open(opened))
        try:
            await opened
        except asyncio.CancelledError:
            open_task.cancel()
            raise
        return self

    async def close(self) -> None:
        """End what is still running, its callers get a UsageError, and close judges and ledger.

        Closing it twice does no harm.
        """
        running_loop()
        if self.close_soon():
            with anyio.CancelScope(shield=True):
                await asyncio.wrap_future(self.closed)

    async def __aenter__(self) -> Self:
        """Open it, as `open` does."""
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """Close it, as `close` does."""
        await self.close()

    def __enter__(self) -> Self:
        """Open it, as `open` does, in an event loop of another thread, for `score_all`."""
        _refuse_blocking(
            "`with Scorer(settings)`",
            "use `async with Scorer(settings) as scorer`",
        )
        return _result(self.open(), _background(os.getpid()))

    def __exit__(self, *_: object) -> None:
        """Close it, as `close` does."""
        if self.close_soon():
            self.closed.result()

    async def score(
        self, group: G, *, rubric: Standards | None = None
    ) -> JudgedGroup[G]:
        """Score one group; its failure is a value with a reason. May be called from many tasks at once.

        `group` is a list of rollouts or of lists of messages, a dict with `trajectories`, a dict of any format that
        holds a group, or an object with ART's attributes, and stays as it is. `rubric` takes the place of its own and
        of that of the settings. WrongShapeError if it is of no shape that is known; RulerError if the judges refused
        the run, or too many groups failed. If `max_cost` is reached, groups in flight fail with kind
        `budget`, and each later call raises CapReached unless the ledger answers it.
        """
        session = self.session_here()
        if session.scores.need_all:
            raise UsageError(
                "--set debias=true and --set standardize=true need all groups of a batch",
                "give them to `score_groups`, which yields them once the last is judged",
            )
        capped = session.panel.budget.closed
        # at once: the caller may change it meanwhile
        read = self.reader.read(group, self._taken, rubric)
        self._taken += 1
        async with aclosing(scored_groups(self, [read])) as stream:
            judged = await anext(stream)
        if capped and judged.kind == "budget":
            raise session.finish()[1] or UsageError(_CLOSED)
        return judged

    def score_groups(
        self, groups: Groups[G]
    ) -> AsyncGenerator[JudgedGroup[G], None]:
        """Score many groups: yield each as soon as it and all before it are done, in the order given.

        Groups are read no further ahead than the judges need. An iterable is read in the event loop, so one
        that waits has to be an async iterable. With `debias` or `standardize` all groups are
        held until the last is judged.

        A group that could not be scored is a value with a reason. An error that stops the run (the judges
        refused it, `max_cost` is reached, too many failed, `groups` itself raised) is raised after
        everything that is done has been yielded. Leaving the loop early ends the calls in flight. If
        `max_cost` is reached, a list is still read to its end, and any other iterable no further.
        """
        return scored_groups(self, groups)

    def score_all(self, groups: Iterable[G]) -> list[JudgedGroup[G]]:
        """Score groups, and return them in the order given when all are done: for code without asyncio.

        May be called from many threads at once. A Scorer that was never open is opened in an event loop of another
        thread, and closed when the program ends. Errors are those of `score_groups`; if `max_cost` is reached,
        it is raised only if no group has scores. Interrupting it ends its calls.
        """
        _refuse_blocking(
            "`score_all`",
            "use `await scorer.score(group)`, or call it in a thread",
        )
        refuse_no_groups(groups)
        listed = list(groups)
        with self._lock:
            if self._loop is None:
                _result(self.open(), _background(os.getpid()))
        loop = self._open_in()
        return _result(self._score_all(listed), loop)

    async def _score_all(self, groups: Sequence[G]) -> list[JudgedGroup[G]]:
        """Score all groups; CapReached only if none has scores."""
        scored = list[JudgedGroup[G]]()
        async with aclosing(scored_groups(self, groups)) as stream:
            try:
                async for judged in stream:
                    scored.append(judged)
            except CapReached:
                if all(judged.failed for judged in scored):
                    raise
        return scored

    def summary(self) -> Summary:
        """Return the counts of all groups since it was opened, their tokens and cost, also once it is closed.

        With `debias` or `standardize` each stream is a batch, and the position bias and the noise among the figures
        are those of the newest one.
        """
        loop = self._loop
        if loop is None or self.closed.done():
            return self._last
        if self.alive and loop is not _loop_here():
            with suppress(UsageError):  # it is closed in this moment
                return _result(self._count(), loop)
        return copy.deepcopy(self.session.finish()[0])

    async def _count(self) -> Summary:
        return copy.deepcopy(self.session.finish()[0])

    @property
    def alive(self) -> bool:
        """Return whether its event loop runs, in this process."""
        loop = self._loop
        here = self._pid == os.getpid()
        return here and loop is not None and loop.is_running()

    def close_soon(self) -> bool:
        """Have it closed, from any thread. Return False if its event loop runs no more."""
        if self._loop is not None and self.alive:
            # it may end in this moment, and close all
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.closing.set)
                return True
        return False

    def _open_in(self) -> asyncio.AbstractEventLoop:
        """Return the event loop where it is open; UsageError if it is not open."""
        if self._loop is None or self.closing.is_set():
            how = "as `async with Scorer(settings) as scorer`, or as `with` where no event loop runs"
            raise UsageError(f"the Scorer is not open; use it {how}")
        if self._pid != os.getpid():
            raise UsageError(
                "the Scorer was opened before the fork; make one in each process"
            )
        return self._loop

    def session_here(self) -> ScoringSession:
        """Return the judges at work; UsageError unless they are open in this event loop."""
        loop = running_loop()
        if self._open_in() is not loop:
            raise UsageError(
                "the Scorer is open in another event loop",
                "call `scorer.score_all(groups)` in a thread",
            )
        return self.session

    def _refuse_open(self) -> None:
        loop = self._loop
        if loop and not (self.closed.done() or loop.is_closed()):
            raise UsageError(
                "the Scorer is already open; share it, or make another"
            )

    async def _keep_open(self, opened: asyncio.Future[None]) -> None:
        """Hold the judges and the ledger open until `close`, or until the event loop cancels its tasks.

        One task opens and closes them; `opened` is done once they are open.
        """
        closed: Future[None] | None = None
        error: Exception | None = None
        try:
            async with AsyncExitStack() as stack:
                session = await open_session(
                    self._settings,
                    resolve_judges(self._settings),
                    self._observer,
                    StopSignal(outages=False),
                    stack,
                )
                self._refuse_open()
                self.session = session
                session.begin(None)
                self.reader = ObjectReader(self._settings.input)
                self.closing = asyncio.Event()
                self.closed = closed = Future[None]()
                closed.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
                self._loop = asyncio.get_running_loop()
                self._pid = os.getpid()
                _OPEN.add(self)
                opened.set_result(None)
                try:
                    await self.closing.wait()
                finally:
                    self.closing.set()
                    if session.summary.groups < 2:
                        # a Scorer for each group would warn each time
                        session.coverage = Coverage()
        except asyncio.CancelledError:
            pass
        except Exception as raised:  # noqa: BLE001 - raised where it is opened or closed
            error = raised
        if closed is None:
            if error is not None:
                opened.set_exception(error)
            return
        _OPEN.discard(self)
        self._last = self.session.finish()[0]
        if error is None:
            closed.set_result(None)
        else:
            _LOG.error("%s", error)
            closed.set_exception(error)


_OPEN = set[Scorer]()
"""All that is open in any thread."""


@atexit.register
def _close_open() -> None:
    """Close what the program left open in other threads, while their event loops still run."""
    closing = [scorer.closed for scorer in tuple(_OPEN) if scorer.close_soon()]
    wait(closing, _END)


@cache
def _background(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of a thread of a process; a daemon, which does not keep the program from ending."""
    loop = asyncio.new_event_loop()
    running = threading.Event()
    loop.call_soon(running.set)
    threading.Thread(target=loop.run_forever, daemon=True).start()
    running.wait()
    return loop


def _result(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Return the result of work in the event loop of another thread; an interruption ends the work."""
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:  # the event loop has ended
        work.close()
        raise UsageError(_CLOSED) from None
    try:
        while loop.is_running() and not future.done():
            wait([future], _LOOK)
        if future.cancelled() or not future.done():
            raise UsageError(_CLOSED)
        return future.result()
    finally:
        future.cancel()


def _loop_here() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def _refuse_blocking(what: str, remedy: str) -> None:
    """Raise UsageError where an event loop runs: a call that blocks the thread blocks the loop."""
    if _loop_here() is not None:
        raise UsageError(
            f"{what} would block the event loop of this thread", remedy
        )


def _checked(settings: ScoreSettings | None) -> ScoreSettings:
    """Return the settings for groups from Python; UsageError if a file is needed for them."""
    settings = ScoreSettings() if settings is None else settings
    refuse_no_settings(settings)
    for name in _FILES:
        if getattr(settings.input, name) != getattr(InputSettings(), name):
            raise UsageError(
                f"settings.input.{name}: says how a file is read, and these groups come from Python; leave "
                "it out, or use `score_file`"
            )
    if settings.on_failure == "drop" or settings.failed is not None:
        raise UsageError(
            "on_failure='drop' and `failed` write files; leave them out, and skip a group whose `failed` is "
            "true"
        )
    return replace(
        settings, input=replace(settings.input, source="-"), output="-"
    )
