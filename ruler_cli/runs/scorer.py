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
    Sized,
)
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import anyio

from ruler_cli.errors import (
    CapReached,
    RefusedError,
    UsageError,
    WrongShapeError,
)
from ruler_cli.pool.engine import Bounds, StopSignal, running_loop
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.runs.file import open_judges, resolve_judges
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

    The program's own observer watches the run. It must not cost a score that is paid for: the first
    exception of each method is logged, none is raised. WrongShapeError if it is no Observer.
    """
    if not isinstance(observer, Observer | None):
        raise WrongShapeError(
            f"is of type {type(observer).__name__}",
            "give an object whose class inherits from Observer",
            place="observer",
        )
    safe = Log()
    for name in [name for name in vars(Observer) if not name.startswith("_")]:
        method = getattr(safe if observer is None else observer, name)
        if getattr(method, "__func__", None) is not getattr(Observer, name):
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


class OpenJudges:
    """The judges of an open Scorer, in the event loop where they are open."""

    def __init__(self, session: ScoringSession) -> None:
        self.session = session
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        self.closing = asyncio.Event()
        self.closed = Future[None]()
        self.closed.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        self.last: Summary | None = None
        """The counts of all groups, once they are closed."""
        self.reader = ObjectReader(session.settings.input)
        self._taken = 0
        session.begin(None)

    @property
    def alive(self) -> bool:
        """Return whether its event loop runs, in this process."""
        return self.pid == os.getpid() and self.loop.is_running()

    def close_soon(self) -> bool:
        """Have it closed, from any thread. Return False if its event loop runs no more."""
        if self.alive:
            # it may end in this moment, and close all
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.closing.set)
                return True
        return False

    def end(self, error: Exception | None) -> None:
        """Note that it is closed, and the error that this ended with, if there is one."""
        _OPEN.discard(self)
        self.last = self.session.finish()[0]
        if error is None:
            self.closed.set_result(None)
        else:
            _LOG.error("%s", error)
            self.closed.set_exception(error)

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work in its event loop, from another thread; an interruption ends the work."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the event loop has ended
            work.close()
            raise UsageError(_CLOSED) from None
        try:
            while self.alive and not future.done():
                wait([future], _LOOK)
            if future.cancelled() or not future.done():
                raise UsageError(_CLOSED)
            return future.result()
        finally:
            future.cancel()

    async def score(
        self, group: G, rubric: Standards | None = None
    ) -> JudgedGroup[G]:
        """Score a group, by a rubric of its own if one is given."""
        session = self.session
        if session.scores.need_all:
            raise UsageError(
                "--set debias=true and --set standardize=true need all groups of a batch",
                "give them to `score_groups`, which yields them once the last is judged",
            )
        capped = session.panel.budget.closed
        # at once: the caller may change it meanwhile
        read = self.reader.read(group, self._taken, "group", rubric)
        self._taken += 1
        stream: ScoredStream[G] = ScoredStream(self, [read])
        async with stream:
            judged = await anext(stream)
        if capped and judged.kind == "budget":
            raise session.finish()[1] or UsageError(_CLOSED)
        return judged

    async def score_all(self, groups: Groups[G]) -> list[JudgedGroup[G]]:
        """Score all groups; CapReached only if none has scores."""
        scored = list[JudgedGroup[G]]()
        async with ScoredStream(self, groups) as stream:
            try:
                async for judged in stream:
                    scored.append(judged)
            except CapReached:
                if all(judged.failed for judged in scored):
                    raise
        return scored

    async def summary(self) -> Summary:
        """Return the counts so far."""
        return copy.deepcopy(self.session.finish()[0])


class ScoredStream(Generic[G]):
    """An iterator over groups from Python with their scores, in order; use it as an async context.

    What ended it is raised after all groups that were done by then. It is no generator: a loop that ends closes all
    generators at once, also one that another still uses.
    """

    on_disk = False

    def __init__(
        self, judges: OpenJudges, groups: Groups[G] | Iterable[ObjectGroup[G]]
    ) -> None:
        """WrongShapeError if the groups cannot be iterated over."""
        refuse_no_groups(groups)
        self.endless = not isinstance(groups, Sized)
        self._judges = judges
        self._groups: AsyncIterator[Any]
        if isinstance(groups, AsyncIterable):
            self._groups = aiter(groups)
        else:
            self._groups = _in_turn(groups)
        self._index = 0
        self._error: Exception | None = None
        session = judges.session
        if session.scores.need_all:
            # each stream is a batch
            session.scores = BatchScores(session.settings)
        self._stream = JudgeStream(session, self, bounds=_BOUNDS)
        self._left = self._cut = 0

    async def next(self) -> Group | None:
        """Read the next group; None after the last, or if their own iterator fails."""
        try:
            # in no scope: theirs may be open until the next group
            group = await anext(self._groups)
            if not isinstance(group, ObjectGroup):
                group = self._judges.reader.read(group, self._index)
        except StopAsyncIteration:
            return None
        except Exception as error:  # noqa: BLE001 - the caller's own; calls in flight are paid for and may finish
            self._error = error
            return None
        self._index += 1
        return group

    async def __aenter__(self) -> Self:
        session = self._judges.session
        # a judge that refused the run is asked again, once all that the refusal ended is done
        refused = isinstance(session.stop_signal.reason, RefusedError)
        if refused and not session.tasks:
            session.go_on()
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """End the calls in flight."""
        await self._stream.__aexit__(*error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JudgedGroup[G]:
        """Return the next group; raise what ended the stream, if it is not the end of the groups."""
        session = self._judges.session
        try:
            scored = await anext(self._stream)
        except StopAsyncIteration:
            if self._error is not None:
                raise self._error from None
            stopped = self._stream.stopped
            if stopped is None and self._judges.closing.is_set():
                stopped = UsageError(_CLOSED)
            stopped = stopped or session.cap_reached(self._left, self._cut)
            if stopped is None:
                raise
            # its traceback would grow with each raise
            raise copy.copy(stopped) from None
        judged = judged_group(
            scored,
            session.names,
            session.settings.on_failure,
            session.observer.warn,
        )
        if scored.result.capped:
            self._left += judged.failed
            self._cut += not judged.failed
        return judged


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


async def _in_turn(groups: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield the groups of an iterable."""
    for group in groups:
        yield group


class Scorer:
    """The judges of a run, open for any number of groups from Python.

    Use it as an async context: `async with Scorer(settings) as scorer`, or between `await scorer.open()` and
    `await scorer.close()`. Code without asyncio uses `with Scorer(settings) as scorer` and
    `scorer.score_all(groups)`: the judges are then in an event loop in a thread of its own.

    All that is scored while it is open shares one pool (rate limits, adaptive concurrency, retries), one
    ledger, one `max_cost` and one `max_failures`, whatever thread it comes from. Replies are kept in the
    command's own ledger unless `settings.ledger` says otherwise, so a program that is run again pays for
    nothing twice.
    """

    def __init__(
        self,
        settings: ScoreSettings | None = None,
        *,
        observer: Observer | None = None,
    ) -> None:
        """UsageError for settings that contradict one another, or that only a file can have."""
        self._settings = _checked(settings)
        self._observer = guarded(observer)
        self._judges: OpenJudges | None = None
        """The judges that are open, or that were the last ones."""
        self._lock = threading.Lock()
        """Held while it is opened in a thread of its own, so that it is open once."""
        self._thread: threading.Thread | None = None

    async def open(self) -> Self:
        """Open the judges and the ledger in this event loop, until `close`, or until the loop ends.

        UsageError if a key, an address or a price is missing, or if it is open already.
        """
        running_loop()
        self._refuse_open()
        opened = Future[None]()
        keeper = asyncio.create_task(self._keep_open(opened))
        try:
            await asyncio.wrap_future(opened)
        except asyncio.CancelledError:
            keeper.cancel()
            raise
        return self

    async def close(self) -> None:
        """End what is still running, its callers get a UsageError, and close judges and ledger.

        Closing it twice does no harm.
        """
        running_loop()
        judges = self._judges
        if judges is None or not judges.close_soon():
            return
        with anyio.CancelScope(shield=True):
            await asyncio.wrap_future(judges.closed)

    async def __aenter__(self) -> Self:
        """Open it, as `open` does."""
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """Close it, as `close` does."""
        await self.close()

    def __enter__(self) -> Self:
        """Open the judges and the ledger in a thread of its own, as `open` does, for `score_all`."""
        if _loop_here() is not None:
            raise UsageError(
                "`with Scorer(settings)` would block the event loop of this thread",
                "use `async with Scorer(settings) as scorer`",
            )
        with self._lock:
            self._open_in_thread()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it, as `close` does."""
        judges = self._judges
        thread = self._thread
        if judges is None or thread is None or not judges.close_soon():
            return
        judges.closed.result()
        thread.join()

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
        return await self._opened_here().score(group, rubric)

    async def score_groups(
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
        async with ScoredStream(self._opened_here(), groups) as stream:
            async for judged in stream:
                yield judged

    def score_all(self, groups: Iterable[G]) -> list[JudgedGroup[G]]:
        """Score groups, and return them in the order given when all are done: for code without asyncio.

        May be called from many threads at once. A Scorer that was never open is opened in a thread of its
        own, and closed when the program ends. Errors are those of `score_groups`; if `max_cost` is reached,
        it is raised only if no group has scores. Interrupting it ends its calls.
        """
        if _loop_here() is not None:
            raise UsageError(
                "`score_all` would block the event loop of this thread",
                "use `await scorer.score(group)`, or call it in a thread",
            )
        if isinstance(groups, AsyncIterable):
            remedy = "give a list, or use `score_groups`"
            raise WrongShapeError(
                "is an async iterable", remedy, place="groups"
            )
        refuse_no_groups(groups)
        with self._lock:
            if self._judges is None:
                self._open_in_thread()
        judges = self.opened
        return judges.result(judges.score_all(list(groups)))

    def summary(self) -> Summary:
        """Return the counts of all groups since it was opened, their tokens and cost, also once it is closed.

        With `debias` or `standardize` each stream is a batch, and the position bias and the noise among the figures
        are those of the newest one.
        """
        judges = self._judges
        if judges is None:
            return Summary()
        if judges.alive and judges.loop is not _loop_here():
            with suppress(UsageError):  # it is closed in this moment
                return judges.result(judges.summary())
        return copy.deepcopy(judges.last or judges.session.finish()[0])

    @property
    def opened(self) -> OpenJudges:
        """The open judges; UsageError if they are not open."""
        judges = self._judges
        if judges is None or judges.closing.is_set():
            ways = "as `async with Scorer(settings) as scorer`, or as `with` where no event loop runs"
            raise UsageError(f"the Scorer is not open; use it {ways}")
        if judges.pid != os.getpid():
            raise UsageError(
                "the Scorer was opened before the fork; make one in each process"
            )
        return judges

    def _opened_here(self) -> OpenJudges:
        """Return the open judges; UsageError if they are open in another event loop."""
        loop = running_loop()
        judges = self.opened
        if judges.loop is not loop:
            raise UsageError(
                "the Scorer is open in another event loop",
                "call `scorer.score_all(groups)` in a thread",
            )
        return judges

    def _refuse_open(self) -> None:
        judges = self._judges
        ended = judges is None or judges.closed.done()
        if judges is not None and not (ended or judges.loop.is_closed()):
            raise UsageError(
                "the Scorer is already open; share it, or make another"
            )

    def _open_in_thread(self) -> None:
        """Open it in a daemon thread: one that is joined when the program ends would keep it from ending."""
        opened = Future[None]()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._keep_open(opened)),
            name="ruler-scorer",
            daemon=True,
        )
        self._thread.start()
        opened.result()

    async def _keep_open(self, opened: Future[None]) -> None:
        """Hold the judges and the ledger open until `close`, or until the event loop cancels its tasks.

        One task opens and closes them; `opened` is done once they are open.
        """
        judges: OpenJudges | None = None
        error: Exception | None = None
        try:
            async with AsyncExitStack() as stack:
                resolved = resolve_judges(self._settings)
                stop_signal = StopSignal(outages=False)
                panel = await open_judges(
                    self._settings, resolved, stop_signal, stack
                )
                self._refuse_open()
                session = ScoringSession(self._settings, self._observer, panel)
                await stack.enter_async_context(session)
                self._judges = judges = OpenJudges(session)
                _OPEN.add(judges)
                opened.set_result(None)
                try:
                    await judges.closing.wait()
                finally:
                    judges.closing.set()
                    if session.summary.groups < 2:
                        # a Scorer for each group would warn each time
                        session.coverage = Coverage()
        except asyncio.CancelledError:
            pass
        except Exception as raised:  # noqa: BLE001 - raised where it is opened or closed
            error = raised
        if judges is not None:
            judges.end(error)
        elif error is not None:
            opened.set_exception(error)


_OPEN = set[OpenJudges]()
"""All that is open in any thread."""


@atexit.register
def _close_open() -> None:
    """Close what the program left open in other threads, while their event loops still run."""
    closing = [judges.closed for judges in tuple(_OPEN) if judges.close_soon()]
    wait(closing, _END)


def _loop_here() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread; what blocks the thread blocks the loop."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


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
