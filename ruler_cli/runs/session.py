"""Groups in, their scores out, in order: the part that a run over a file and an open Scorer share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from ruler_cli.errors import InterruptedRun, ReaderGone, RulerError, TooManyFailures
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import Panel
from ruler_cli.pool.engine import BOUNDS, Bounds, Engine, end_tasks
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.runs.batch_scores import BatchScores, RunStats
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import (
    UNANSWERED,
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Observer,
    WaitReports,
)

if TYPE_CHECKING:  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.formats.annotate import GroupFields

_TICK = 1.0
"""Seconds between the reports to an observer."""
Given = TypeVar("Given")
"""A group as it was given: read from a file, or an object with the group that was read of it."""


class ScoringSession:
    """Judges at work: the counts, warnings and reports of a run, and the bounds at which it stops.

    Use it as an async context where the loop runs.
    """

    def __init__(
        self, settings: ScoreSettings, observer: Observer, panel: Panel
    ) -> None:
        self.settings, self.observer, self.panel = settings, observer, panel
        self.stop_signal = panel.stop_signal
        self.stats = RunStats(settings.most_failures, panel)
        self.coverage = Coverage()
        self.streams = set[GroupStream[Any]]()
        self._tasks = set[asyncio.Task[Any]]()
        self._gave_up = self.begun = False
        self._grace: asyncio.TimerHandle | None = None
        self._waits = WaitReports(observer)
        panel.watch(self._report_waits)
        panel.stop_signal.on_stop = self._stop

    async def __aenter__(self) -> Self:
        """Begin to report to the observer every second."""
        self._reports = asyncio.create_task(self._report())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all calls in flight."""
        for stream in self.streams:
            stream.last()
        self._give_up()
        await end_tasks(self._reports, *self._tasks)
        self._warn_of_coverage()

    def begin(self, total: int | None) -> None:
        """Report that judging begins; `total` is the number of groups, if it is known."""
        self.stats.summary.total = total
        self.observer.started(total)
        self.begun = True

    def runner(self) -> JudgeRunner:
        """Make a runner for groups that may share passes with one another."""
        on_reply = self.observer.replied if self.settings.debug else None
        return JudgeRunner(self.settings, self.panel.judges, on_reply, self.coverage)

    async def judge(self, group_run: GroupRun) -> GroupResult | None:
        """Ask the judges about a group, in a task of its own; None if the run ended before."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task runs")
        self._tasks.add(task)
        try:
            return await group_run.judge()
        except asyncio.CancelledError:
            if not self._gave_up:
                raise
            return None
        finally:
            self._tasks.discard(task)

    def take(
        self, batch: BatchScores, group: Group, result: GroupResult
    ) -> GroupScores | GroupError | None:
        """Count a group; return its scores as far as they are known, None if the run stopped before it."""
        if self.coverage.enough:
            self._warn_of_coverage()
        scores = batch.take(group, result)
        if isinstance(scores, GroupError):
            if scores.kind == "interrupted":
                self.stats.pay(result)
                return None
            self._failed(group, scores)
        self.observer.advanced(self.stats.summary)
        return scores

    def _failed(self, group: Group, error: GroupError) -> None:
        # of those without a reply there may be a million, and the summary counts them
        if error.reason != UNANSWERED.reason:
            self.observer.failed(group.key, error.kind, error.reason)
        self.stop_if_too_many()
        if (useless := self.stats.first_failed(error)) is None:
            return
        if self.stop_signal.outages:
            self.stop_signal.stop(useless)
        else:  # another judge may be loaded at any time
            self.observer.warn(useless.reason)

    def conclude(
        self,
        batch: BatchScores,
        group: Group,
        result: GroupResult,
        scores: GroupScores | GroupError,
    ) -> GroupFields:
        """Count the final scores of a group; return its part of OUTPUT."""
        from ruler_cli.formats.annotate import group_fields

        batch.conclude(group, result, scores)
        cost, digests = self.panel.cost(result.used), batch.texts.digests(group)
        fields = group_fields(group, result, scores, batch.names, cost, digests)
        if isinstance(scores, GroupScores):
            self.observer.scored(group.key, scores.scores, fields.copy())
        return fields

    def stop_if_too_many(self) -> None:
        """Stop if more has failed than the user allows."""
        most = self.settings.most_failures
        if most is not None and self.stats.too_many(begun=self.begun):
            self.stop_signal.stop(TooManyFailures(most.shown))

    def go_on(self) -> None:
        """Forget that the run was told to stop."""
        self.stop_signal.go_on()
        self._gave_up = False
        if self._grace is not None:
            self._grace.cancel()

    @property
    def busy(self) -> bool:
        """Tell if judges are asked about any group."""
        return bool(self._tasks)

    def _stop(self) -> None:
        """Read no further group, and let calls in flight finish, but not for ever."""
        reason, in_flight = self.stop_signal.reason, self.panel.in_flight
        self.panel.nudge()
        for stream in self.streams:
            stream.last()
        grace = self.settings.grace
        self._grace = asyncio.get_running_loop().call_later(grace, self._give_up)
        if reason is None or isinstance(reason, ReaderGone):  # `| head` is quiet
            return
        if in_flight and not isinstance(reason, InterruptedRun):
            self.observer.note(reason.brief)  # calls in flight may take long
        self.observer.stopping(in_flight, grace)

    def _give_up(self) -> None:
        self._gave_up = True
        for task in self._tasks:
            task.cancel()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._report_waits()
            if self.begun:
                self.stats.refresh()
                self.observer.tick(self.stats.summary, self.panel.status())

    def _report_waits(self) -> None:
        now = asyncio.get_running_loop().time()
        self._waits.look(now, self.panel.status())

    def _warn_of_coverage(self) -> None:
        for sentence in self.coverage.report():
            self.observer.warn(sentence)


class Spool(Protocol[Given]):
    """Groups and their results that wait for their batch."""

    def put(self, given: Given, result: GroupResult) -> None:
        """Add a group."""

    def all(self) -> Iterable[tuple[Given, GroupResult]]:
        """Return all groups, in order."""

    def close(self) -> None:
        """Forget them."""


Due = Iterator[tuple[Given, GroupResult, GroupScores | GroupError]]
"""Groups to be returned, with their final scores."""
Scored = tuple[Given, GroupResult, GroupScores | GroupError, "GroupFields"]
"""A group as it was given, its result, its scores, and its part of OUTPUT."""


class GroupStream(Generic[Given]):
    """An iterator over groups and their scores, in the order in which the groups are pulled.

    Use it as an async context, and iterate over it there. Groups whose scores need the whole batch come after
    the last one.
    """

    def __init__(
        self,
        session: ScoringSession,
        batch: BatchScores,
        pull: Callable[[], Awaitable[Given | None]],
        group_of: Callable[[Given], Group],
        size_of: Callable[[Given], int],
        spool: Spool[Given],
        bounds: Bounds = BOUNDS,
    ) -> None:
        """`pull` returns None after the last group."""
        self._session, self._batch, self._spool = session, batch, spool
        self._pull, self._group_of = pull, group_of
        self._runner = session.runner()
        self._kept = self._ended = False
        self.stopped: RulerError | None = None
        """The reason if the run was told to stop."""
        self._engine = Engine(
            self._next_run,
            self._judge,
            lambda item: size_of(item[0]),
            session.panel.wait_for_demand,
            bounds,
            self._runner.end,
        )
        self._due: Due[Given] = iter(())

    async def __aenter__(self) -> Self:
        await self._engine.__aenter__()
        self._session.streams.add(self)
        if self._session.stop_signal.reason is not None:
            self.last()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the calls in flight."""
        self._session.streams.discard(self)
        await self._engine.__aexit__()
        self._spool.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Scored[Given]:
        while (due := next(self._due, None)) is None:
            if self._ended:
                raise StopAsyncIteration
            try:
                (given, _), result = await anext(self._engine)
                self._due = self._take(given, result) or iter(())
            except StopAsyncIteration:
                self._ended = True
                self._due = self._rest()
        if self._ended:
            await asyncio.sleep(0)  # there may be many, and nothing else waits
        given, result, scores = due
        group = self._group_of(given)
        fields = self._session.conclude(self._batch, group, result, scores)
        return given, result, scores, fields

    def last(self) -> None:
        """Pull no further group."""
        self.stopped = self.stopped or self._session.stop_signal.reason
        self._engine.last()

    async def _next_run(self) -> tuple[Given, GroupRun] | None:
        given = await self._pull()
        if given is None:
            return None
        return given, self._runner.start(self._group_of(given))

    async def _judge(self, item: tuple[Given, GroupRun]) -> GroupResult | None:
        return await self._session.judge(item[1])

    def _take(self, given: Given, result: GroupResult | None) -> Due[Given] | None:
        """Count a group; return those to be returned now, None if the run stopped before it."""
        if result is None:
            return None
        scores = self._session.take(self._batch, self._group_of(given), result)
        if scores is None:
            return None
        if not self._waits:
            return chain(self._spooled(), [(given, result, scores)])
        self._kept = True
        self._spool.put(given, result)
        return iter(())

    @property
    def _waits(self) -> bool:
        """Tell if scores are not final yet."""
        return self._batch.waits

    def _rest(self) -> Due[Given]:
        """Return the groups that waited for the last one."""
        if self._batch.waits and self._kept:
            results = (result for _, result in self._spool.all())
            if warning := self._batch.complete(results):
                self._session.observer.warn(warning)
        return self._spooled()

    def _spooled(self) -> Due[Given]:
        for given, result in self._spool.all():
            yield given, result, self._batch.final(result)
        self._spool.close()
