"""Judges that stay open for groups from Python: one pool, one ledger and one budget for all of them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, Self

import anyio
from anyio.abc import ObjectSendStream

from ruler_cli.batch_scores import BatchScores, RunStats
from ruler_cli.config import ScoreSettings
from ruler_cli.contradictions import refuse_contradictions
from ruler_cli.errors import RulerError, TooManyFailures, UsageError, WrongShapeError
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import Panel
from ruler_cli.object_groups import G, JudgedGroup, ObjectGroup, judged_group, read_group
from ruler_cli.observer import Observer, Summary
from ruler_cli.pool.engine import Bounds, StopSignal, first_of, run
from ruler_cli.run import open_judges, resolve_judges
from ruler_cli.types import GroupError, GroupResult, GroupScores, Problem

_BOUNDS = Bounds(ready=32)
"""Bounds on the groups that are held: 32 scored groups bridge a pause of their taker, and a group that is
trained on later than that was made by an old policy."""
_TICK, _POLL = 1.0, 0.05
"""Seconds between the reports to an observer, and between looks at what a stopped run still holds."""
_FILES = (
    ("format", "auto"), ("grouping", "auto"), ("group_by", None), ("messages", None), ("prompt", None),
    ("shard", None), ("limit", None),
)  # fmt: skip
"""Settings of `InputSettings` that say how a file is read, each with its default."""
Groups = Iterable[G] | AsyncIterable[G]


class Log(Observer):
    """Passes a run's notes and warnings to Python's `logging`, as logger `ruler_cli`."""

    _log = logging.getLogger("ruler_cli")

    def note(self, sentence: str) -> None:
        """Log a sentence."""
        self._log.info("%s", sentence)

    def warn(self, sentence: str) -> None:
        """Log a warning."""
        self._log.warning("%s", sentence)

    def problem(self, problem: Problem) -> None:
        """Log a part of the input that could not be read."""
        self._log.info("%s %s", problem.where, problem.reason)

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Log a group that could not be scored."""
        self._log.info("%s: not scored (%s): %s", group, kind, reason)


class Scorer:
    """The judges of a run, open for any number of groups from Python.

    Use it as an async context: `async with Scorer(settings) as scorer`. All that is scored within shares one
    pool (rate limits, adaptive concurrency, retries), one ledger, one `max_cost` and one `max_failures`.
    Replies are kept in the command's own ledger unless `settings.ledger` says otherwise, so a program that
    is run again pays for nothing twice.
    """

    def __init__(self, settings: ScoreSettings | None = None, *, observer: Observer | None = None) -> None:
        """UsageError for settings that contradict one another, or that only a file can have."""
        self._settings, self._observer = _checked(settings), observer or Log()
        self._stack = AsyncExitStack()
        self._parts: _Parts | None = None

    async def __aenter__(self) -> Self:
        """Open the judges and the ledger; UsageError if a key, an address or a price is missing."""
        if self._parts is not None:
            raise UsageError("the Scorer is open already; make another one, or share it")
        resolved, stop_signal = resolve_judges(self._settings), StopSignal()
        async with AsyncExitStack() as stack:
            panel = await stack.enter_async_context(open_judges(self._settings, resolved, stop_signal))
            self._parts = parts = _Parts(self._settings, self._observer, panel)
            stack.push_async_callback(parts.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End what is still running, and close judges and ledger."""
        self._parts = None
        await self._stack.aclose()

    async def score(self, group: G) -> JudgedGroup[G]:
        """Score one group; its failure is a value with a reason. May be called from many tasks at once.

        `group` is a dict with `trajectories`, or any object with ART's attributes, and stays as it is.
        WrongShapeError if it is neither; RulerError if the judges refused the run, or too many groups
        failed. Once `max_cost` is reached groups fail with kind `budget`.
        """
        return await self._open.one(group)

    async def score_groups(self, groups: Groups[G]) -> AsyncGenerator[JudgedGroup[G], None]:
        """Score many groups: yield each as soon as it and all before it are done, in the order given.

        Groups are read no further ahead than the judges need. An iterable is read in the event loop, so one
        that waits has to be an async iterable. With `adaptive` or `escalate` 64 neighbours share their
        passes, so `groups` must not wait for a score before the next group comes. With `debias` or
        `standardize` all groups are held until the last is judged.

        A group that could not be scored is a value with a reason. An error that stops the run (the judges
        refused it, `max_cost` is reached, too many failed, `groups` itself raised) is raised after
        everything that is done has been yielded. To leave the loop early ends the calls in flight.
        """
        parts, feed = self._open, _feed(groups)
        send, receive = anyio.create_memory_object_stream[JudgedGroup[G]](0)
        with send, receive:
            stream = _Stream(parts, feed, send)
            task = asyncio.create_task(stream.all())
            parts.tasks.add(task)
            try:
                async for judged in receive:
                    yield judged
                await asyncio.wait([task])
                if task.cancelled():
                    raise UsageError("the Scorer was closed before its groups were all scored")
                task.result()
            finally:
                await _end(task)
                parts.tasks.discard(task)
        if error := stream.error or parts.stopped:
            raise error

    def summary(self) -> Summary:
        """Return the counts of all groups so far, their tokens and their cost."""
        return self._open.summary()

    @property
    def _open(self) -> _Parts:
        if self._parts is None:
            raise UsageError("the Scorer is not open; use it as `async with Scorer(settings) as scorer`")
        if self._parts.loop is not asyncio.get_running_loop():
            raise UsageError("the Scorer is open in another event loop; score there, or open one here")
        return self._parts


class _Parts:
    """The parts of an open Scorer, and the way of one group through them."""

    def __init__(self, settings: ScoreSettings, observer: Observer, panel: Panel) -> None:
        self.settings, self.observer, self.panel = settings, observer, panel
        self.stats = RunStats(settings.max_failures, panel)
        self.scores = BatchScores(settings, self.stats)
        self.tasks: set[asyncio.Task[None]] = set()
        self.loop = asyncio.get_running_loop()
        self._taken = 0
        self._runner = self.runner()
        self._scopes, self._deadline = set[anyio.CancelScope](), math.inf
        self._watcher = asyncio.create_task(self._watch())

    def runner(self) -> JudgeRunner:
        """Make a runner for groups that may share passes with one another."""
        on_reply = self.observer.replied if self.settings.debug else None
        return JudgeRunner(self.settings, self.panel.judges, on_reply)

    def read(self, given: G, index: int | None = None) -> ObjectGroup[G]:
        """Read a group; without an `index` it is the next one that comes alone."""
        if index is None:
            index, self._taken = self._taken, self._taken + 1
            return read_group(given, index, self.settings.input, "group")
        return read_group(given, index, self.settings.input)

    async def one(self, given: G) -> JudgedGroup[G]:
        """Score a group that shares passes with no other."""
        if self.scores.waits:
            raise UsageError(
                "--debias and --standardize need all groups of a batch; give them to `score_groups`, which "
                "yields them once the last is judged"
            )
        read = self.read(given)
        if self.stop_signal.reason is not None:
            raise self.stop_signal.reason
        group_run = self._runner.start(read.group)
        self._runner.end()
        result = await self.judge(group_run)
        scores = None if result is None else self.take(read, result)
        if result is None or scores is None:
            raise self.stop_signal.reason or RuntimeError("a group was given up, and the run goes on")
        return self.scored(read, result, scores)

    async def judge(self, group_run: GroupRun) -> GroupResult | None:
        """Ask the judges about a group; None if the run was told to stop, and this took too long."""
        result = None
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._scopes.add(scope)
            try:
                result = await group_run.judge()
            finally:
                self._scopes.discard(scope)
        return result

    def take(self, read: ObjectGroup[Any], result: GroupResult) -> GroupScores | GroupError | None:
        """Count a group; return its scores as far as they are known, None if the run stopped before it."""
        scores = self.scores.take(read.group, result)
        if isinstance(scores, GroupError):
            if scores.kind == "interrupted":
                self.stats.pay(result)
                return None
            self.observer.failed(read.group.key, scores.kind, scores.reason)
            most = self.settings.max_failures
            if most is not None and self.stats.too_many(begun=True):
                self.stop_signal.stop(TooManyFailures(most.shown))
        self.observer.advanced(self.stats.summary)
        return scores

    def scored(
        self, read: ObjectGroup[G], result: GroupResult, scores: GroupScores | GroupError
    ) -> JudgedGroup[G]:
        """Count the final scores of a group; return an annotated copy of it."""
        self.scores.conclude(read.group, result, scores)
        cost = self.panel.cost(result.used)
        return judged_group(read, result, scores, self.scores.names, cost, self.settings.on_failure)

    @property
    def stop_signal(self) -> StopSignal:
        """The signal to stop, which the pool gives if the judges refuse the run."""
        return self.panel.stop_signal

    @property
    def stopped(self) -> RulerError | None:
        """The error that stopped the run, or left groups out of it."""
        return self.stop_signal.reason or self.stats.cap_reached(self.settings.pool.max_cost)

    def summary(self) -> Summary:
        """Return the counts so far."""
        summary = self.stats.finish(self.stopped)
        summary.figures = self.scores.figures()
        return replace(summary, failed=dict(summary.failed), retried=dict(summary.retried))

    async def report(self) -> None:
        """Report to the observer every second."""
        while True:
            await anyio.sleep(_TICK)
            self.stats.refresh()
            self.observer.tick(self.stats.summary, self.panel.status())

    async def close(self) -> None:
        """End all tasks."""
        for task in (*self.tasks, self._watcher):
            await _end(task)

    async def _watch(self) -> None:
        """Once the run is told to stop, wait for calls in flight, not for ever."""
        await self.stop_signal.event.wait()
        self.panel.nudge()
        self.observer.stopping(self.panel.in_flight, self.settings.grace)
        self._deadline = anyio.current_time() + self.settings.grace
        for scope in self._scopes:
            scope.deadline = self._deadline


@dataclass(frozen=True, slots=True)
class _Item(Generic[G]):
    """A group of a stream on its way."""

    read: ObjectGroup[G]
    run: GroupRun


class _Stream(Generic[G]):
    """Groups one after another, until the last or until the run is told to stop."""

    def __init__(
        self, parts: _Parts, groups: AsyncIterator[G], results: ObjectSendStream[JudgedGroup[G]]
    ) -> None:
        self._parts, self._groups, self._results = parts, groups, results
        self._runner = parts.runner()
        self._pulled = self._delivered = 0
        self._waiting: list[tuple[ObjectGroup[G], GroupResult]] = []
        self.error: BaseException | None = None

    async def all(self) -> None:
        """Judge all groups, and send each with its scores."""
        demand = self._parts.panel.wait_for_demand
        async with self._results:
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._parts.report)
                    tasks.start_soon(self._end_reading, tasks.cancel_scope)
                    await run(self._pull, self._judge, self._deliver, _size, demand, _BOUNDS)
                    tasks.cancel_scope.cancel()
            except BaseExceptionGroup as group:
                raise first_of(group) from None
            if not self._waiting:
                return
            scores = self._parts.scores
            if warning := scores.complete(result for _, result in self._waiting):
                self._parts.observer.warn(warning)
            for read, result in self._waiting:
                await self._results.send(self._parts.scored(read, result, scores.final(result)))

    async def _pull(self) -> _Item[G] | None:
        try:
            if self._goes_on:
                given = await anext(self._groups)  # in no scope: theirs may be open until the next group
                if self._goes_on:
                    read = self._parts.read(given, self._pulled)
                    self._pulled += 1
                    return _Item(read, self._runner.start(read.group))
        except StopAsyncIteration:
            pass
        except asyncio.CancelledError as error:  # ours, or of a task that the caller's groups waited for
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            self.error = error
        except Exception as error:  # noqa: BLE001 - the caller's own; calls in flight are paid for and may finish
            self.error = error
        self._runner.end()
        return None

    @property
    def _goes_on(self) -> bool:
        return self._parts.stop_signal.reason is None

    async def _judge(self, item: _Item[G]) -> GroupResult | None:
        return await self._parts.judge(item.run)

    async def _deliver(self, item: _Item[G], result: GroupResult | None) -> None:
        scores = None if result is None else self._parts.take(item.read, result)
        if result is not None and scores is not None:
            if self._parts.scores.waits:
                self._waiting.append((item.read, result))
            else:
                await self._results.send(self._parts.scored(item.read, result, scores))
        self._delivered += 1

    async def _end_reading(self, scope: anyio.CancelScope) -> None:
        """Once the run is told to stop and all that is done is taken, wait for no more groups."""
        await self._parts.stop_signal.event.wait()
        self._runner.end()
        while self._delivered < self._pulled:  # noqa: ASYNC110 - looked at when a run ends only
            await anyio.sleep(_POLL)
        scope.cancel()


def _size(item: _Item[Any]) -> int:
    return item.read.size


async def _end(task: asyncio.Task[None]) -> None:
    """End a task, whatever ends the one that waits for it."""
    task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # it was raised already, or nobody waits for it any more


def _feed(groups: Any) -> AsyncIterator[Any]:
    """Return an async iterator over groups; WrongShapeError if they cannot be iterated over."""
    one = isinstance(groups, Mapping) or hasattr(groups, "trajectories")  # ART's is an iterable of its fields
    if isinstance(groups, AsyncIterable) and not one:
        return aiter(groups)
    if one or isinstance(groups, str | bytes) or not isinstance(groups, Iterable):
        hint = "a list of groups; one alone is for `Scorer.score`" if one else "an iterable of groups"
        raise WrongShapeError(f"groups: is of type {type(groups).__name__}; give {hint}")
    return _in_turn(groups)


async def _in_turn(groups: Iterable[G]) -> AsyncIterator[G]:
    for group in groups:
        yield group


def _checked(settings: ScoreSettings | None) -> ScoreSettings:
    """Return the settings for groups from Python; UsageError if a file is needed for them."""
    settings = ScoreSettings() if settings is None else settings
    refuse_contradictions(settings)
    for name, usual in _FILES:
        if getattr(settings.input, name) != usual:
            raise UsageError(
                f"settings.input.{name}: says how a file is read, and these groups come from Python; leave "
                "it out, or use `score_file`"
            )
    if settings.on_failure == "drop" or settings.failed is not None:
        raise UsageError(
            "on_failure='drop' and `failed` write files; leave them out, and skip a group whose `failed` is "
            "true"
        )
    return replace(settings, input=replace(settings.input, source="-"), output="-")
