"""An open `Scorer`: the way of one group through its judges, and of a stream of groups, in order."""

from __future__ import annotations

import asyncio
import copy
import math
import os
import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sized
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self

import anyio

from ruler_cli.errors import (
    CapReached,
    RefusedError,
    Sentence,
    TooManyFailures,
    UsageError,
    WrongShapeError,
)
from ruler_cli.formats.annotate import group_fields
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import Panel
from ruler_cli.pool.engine import Bounds, run, run_beside
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.runs.batch_scores import BatchScores, RunStats
from ruler_cli.runs.object_groups import (
    JudgedGroup,
    ObjectGroup,
    judged_group,
    left_out,
    read_group,
)
from ruler_cli.runs.object_records import Readers
from ruler_cli.runs.object_values import G
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import (
    GroupError,
    GroupResult,
    GroupScores,
    Observer,
    Summary,
    WaitReports,
)

_BOUNDS = Bounds(ready=32)
"""Bounds on the groups that are held: 32 scored groups bridge a pause of their taker, and a group that is
trained on later than that was made by an old policy."""
_TICK, _POLL = 1.0, 0.05
"""Seconds between the reports to an observer, and between looks at what a stopped run still holds."""
_FIRST = 20
"""Groups of which one must have an outcome if `outcome` names its path."""
CLOSED = "the Scorer was closed before its groups were all scored"
Groups = Iterable[G] | AsyncIterable[G]


class OpenScorer:
    """The parts of an open Scorer, and the way of one group through them."""

    def __init__(
        self, settings: ScoreSettings, observer: Observer, panel: Panel
    ) -> None:
        self.settings, self.observer, self.panel = settings, observer, panel
        self.stop_signal = panel.stop_signal
        self.stats = RunStats(settings.most_failures, panel)
        self.scores = BatchScores(settings, self.stats)
        self.streams = set[GroupStream[Any]]()
        self.loop, self.pid = asyncio.get_running_loop(), os.getpid()
        self.closing, self.closed = asyncio.Event(), Future[None]()
        self.closed.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        self.keeper: asyncio.Task[None]
        self._taken, self._without_outcome, self._coverage = 0, 0, Coverage()
        self._readers: Readers = {}
        self._runner = self.runner()
        self._scopes, self._deadline = set[anyio.CancelScope](), math.inf
        self._waits = WaitReports(observer)
        panel.watch(self._report_waits)
        panel.stop_signal.on_stop = self._stop
        observer.started(None)
        self._reports = asyncio.create_task(self._report())

    def runner(self) -> JudgeRunner:
        """Make a runner for groups that may share passes with one another."""
        on_reply = self.observer.replied if self.settings.debug else None
        return JudgeRunner(self.settings, self.panel.judges, on_reply, self._coverage)

    def new_batch(self) -> BatchScores:
        """Return the scores for a stream: its own if they need the whole batch, else those of all groups."""
        if self.scores.waits:
            self.scores = BatchScores(self.settings, self.stats)
        return self.scores

    def read(
        self, given: G, index: int | None = None, rubric: str | None = None
    ) -> ObjectGroup[G]:
        """Read a group; without an `index` it is the next one that comes alone. `rubric` is for it alone."""
        name = "" if index is not None else "group"
        if index is None:
            index, self._taken = self._taken, self._taken + 1
        alone = bool(name) and self._taken == 1  # a Scorer may be for one group only
        covered = not self._coverage.enough and not alone
        read = read_group(
            given,
            index,
            self.settings.input,
            name,
            readers=self._readers,
            rubric=rubric,
            covered=covered,
        )
        self._refuse_missing_outcome(read)
        return read

    def _refuse_missing_outcome(self, read: ObjectGroup[Any]) -> None:
        """Stop if none of the first groups has an outcome: its path is wrong."""
        path = self.settings.input.outcome
        if path is None or self._without_outcome == _FIRST:
            return
        found = any(one.outcome is not None for one in read.group.rollouts)
        self._without_outcome = _FIRST if found else self._without_outcome + 1
        if not found and self._without_outcome == _FIRST:
            first = f"none of the first {_FIRST} groups has it"
            self.stop_signal.stop(
                UsageError(first, "check the path", option="outcome", value=path)
            )

    async def one(self, given: G, rubric: str | None = None) -> JudgedGroup[G]:
        """Score a group that shares passes with no other, by a rubric of its own if one is given."""
        if self.scores.waits:
            remedy = (
                "give them to `score_groups`, which yields them once the last is judged"
            )
            raise UsageError(
                Sentence("{debias} and {standardize} need all groups of a batch"),
                remedy,
            )
        read, capped = self.read(given, rubric=rubric), self.panel.budget.closed
        self.go_on()
        if self.stop_signal.reason is not None:
            raise self.ended
        group_run = self._runner.start(read.group)
        self._runner.end()
        result = await self.judge(group_run)
        scores = None if result is None else self.take(self.scores, read, result)
        if result is None or scores is None:
            raise self.ended
        if capped and isinstance(scores, GroupError) and scores.kind == "budget":
            raise self.stats.cap_reached(self.settings.pool.max_cost) or self.ended
        return self.scored(self.scores, read, result, scores)

    async def judge(self, group_run: GroupRun) -> GroupResult | None:
        """Ask the judges about a group; None if the run stopped and this took too long, or it was closed."""
        result = None
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._scopes.add(scope)
            try:
                result = await group_run.judge()
            finally:
                self._scopes.discard(scope)
        return result

    def take(
        self, batch: BatchScores, read: ObjectGroup[Any], result: GroupResult
    ) -> GroupScores | GroupError | None:
        """Count a group; return its scores as far as they are known, None if the run stopped before it."""
        if self._coverage.enough:
            self._warn_of_coverage()
        scores = batch.take(read.group, result)
        if isinstance(scores, GroupError):
            if scores.kind == "interrupted":
                self.stats.pay(result)
                return None
            self.observer.failed(read.group.key, scores.kind, scores.reason)
            most = self.settings.most_failures
            if most is not None and self.stats.too_many(begun=True):
                self.stop_signal.stop(TooManyFailures(most.shown))
            if error := self.stats.first_failed(
                scores
            ):  # another judge may be loaded at any time
                self.observer.warn(error.reason)
        self.observer.advanced(self.stats.summary)
        return scores

    def scored(
        self,
        batch: BatchScores,
        read: ObjectGroup[G],
        result: GroupResult,
        scores: GroupScores | GroupError,
    ) -> JudgedGroup[G]:
        """Count the final scores of a group; return an annotated copy of it."""
        batch.conclude(read.group, result, scores)
        fields = group_fields(
            read.group,
            result,
            scores,
            batch.names,
            self.panel.cost(result.used),
            batch.texts.digests(read.group),
        )
        if isinstance(scores, GroupScores):
            self.observer.scored(read.group.key, scores.scores, fields.copy())
        _count_for_art(self.panel.cost(result.paid))
        judged = judged_group(
            read, result, scores, batch.names, fields, self.settings.on_failure
        )
        for sentence in left_out(read, judged):
            self.observer.warn(sentence)
        return judged

    @property
    def ended(self) -> Exception:
        """The error of a group that is given up: what stopped the run, or that the Scorer was closed."""
        if self.stop_signal.reason is not None:
            return copy.copy(
                self.stop_signal.reason
            )  # its traceback would grow with each raise
        return UsageError(CLOSED)

    def go_on(self) -> None:
        """Ask a judge again that refused the run, once all that the refusal ended is done."""
        if isinstance(self.stop_signal.reason, RefusedError) and not self._scopes:
            self.stop_signal.go_on()
            self._deadline = math.inf

    def summary(self) -> Summary:
        """Return the counts so far."""
        stopped = self.stop_signal.reason or self.stats.cap_reached(
            self.settings.pool.max_cost
        )
        summary = self.stats.finish(stopped)
        summary.figures = self.scores.figures()
        return replace(
            summary, failed=dict(summary.failed), retried=dict(summary.retried)
        )

    async def close(self) -> None:
        """End all tasks and calls in flight."""
        for stream in tuple(self.streams):
            await stream.end()
        for scope in self._scopes:
            scope.cancel()
        with anyio.CancelScope(shield=True):
            while self._scopes:  # noqa: ASYNC110 - judges stay open until their calls have ended
                await anyio.sleep(_POLL)
        await _end(self._reports)
        self._warn_of_coverage()
        if 0 < self._without_outcome < _FIRST:
            path, groups = (
                self.settings.input.outcome,
                f"none of {self._without_outcome} groups has it",
            )
            warning = UsageError(groups, "check the path", option="outcome", value=path)
            self.observer.warn(warning.sentence)

    def _warn_of_coverage(self) -> None:
        for sentence in self._coverage.report():
            self.observer.warn(sentence)

    async def _report(self) -> None:
        """Report to the observer every second."""
        while True:
            await anyio.sleep(_TICK)
            self.stats.refresh()
            self._report_waits()
            self.observer.tick(self.stats.summary, self.panel.status())

    def _report_waits(self) -> None:
        self._waits.look(anyio.current_time(), self.panel.status())

    def _stop(self) -> None:
        """Let calls in flight finish, but not for ever, and end all streams."""
        self.panel.nudge()
        self._deadline = anyio.current_time() + self.settings.grace
        for scope in self._scopes:
            scope.deadline = self._deadline
        for stream in self.streams:
            stream.stop(self.ended)
        self.observer.stopping(self.panel.in_flight, self.settings.grace)


class GroupStream(Generic[G]):
    """Groups one after another, until the last or until the run is told to stop.

    Use it as an async context, and iterate over it there. It is no generator: a loop that ends closes all
    generators at once, also one that another still uses.
    """

    def __init__(self, scorer: OpenScorer, groups: Groups[G]) -> None:
        """WrongShapeError if the groups cannot be iterated over."""
        self._scorer, self._groups, self._sized = (
            scorer,
            _feed(groups),
            isinstance(groups, Sized),
        )
        self._runner, self._batch = scorer.runner(), scorer.new_batch()
        self._send, self._receive = anyio.create_memory_object_stream[JudgedGroup[G]](0)
        self._pulled = self._delivered = self._left = self._cut = 0
        self._waiting: list[tuple[ObjectGroup[G], GroupResult]] = []
        self.last = anyio.Event()
        """It is set if no further group is to be read."""
        self._error: BaseException | None = None
        self._stopped: Exception | None = None

    async def __aenter__(self) -> Self:
        self._scorer.go_on()
        if self._scorer.stop_signal.reason is not None:
            self.stop(self._scorer.ended)
        self._task = asyncio.create_task(self._all())
        self._task.add_done_callback(lambda _: self._send.close())
        self._scorer.streams.add(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """End the calls in flight."""
        self._receive.close()
        await self.end()
        self._scorer.streams.discard(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JudgedGroup[G]:
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            pass
        if self._task.cancelled():
            raise self._scorer.ended
        self._task.result()
        if self._error is not None:
            raise self._error
        if self._stopped is not None:
            raise copy.copy(self._stopped)
        if self._left or self._cut:
            cap, least = (
                self._scorer.settings.pool.max_cost or 0.0,
                self._scorer.panel.budget.least,
            )
            raise CapReached(cap, self._left, self._cut, least)
        raise StopAsyncIteration

    def stop(self, reason: Exception) -> None:
        """Read no further group, and raise `reason` after all that is done."""
        self._stopped = reason
        self.last.set()

    async def end(self) -> None:
        """End the calls in flight."""
        await _end(self._task)
        if not self._task.cancelled():
            self._task.exception()  # it was raised already, or nobody waits for it any more

    async def _all(self) -> None:
        """Judge all groups, and send each with its scores."""
        demand = self._scorer.panel.wait_for_demand
        with anyio.CancelScope() as scope:
            await run_beside(
                lambda: self._leave(scope),
                lambda: run(
                    self._pull,
                    self._judge,
                    self._deliver,
                    lambda item: item[0].size,
                    demand,
                    _BOUNDS,
                ),
            )
        if not self._waiting:
            return
        if warning := self._batch.complete(result for _, result in self._waiting):
            self._scorer.observer.warn(warning)
        for read, result in self._waiting:
            await self._send.send(
                self._scorer.scored(
                    self._batch, read, result, self._batch.final(result)
                )
            )

    async def _pull(self) -> tuple[ObjectGroup[G], GroupRun] | None:
        try:
            if not self.last.is_set():
                given = await anext(
                    self._groups
                )  # in no scope: theirs may be open until the next group
                read = self._scorer.read(given, self._pulled)
                self._pulled += 1
                group_run = self._runner.start(read.group)
                if (
                    self.last.is_set()
                ):  # while the group was awaited: no other one shares passes with it
                    self._runner.end()
                return read, group_run
        except StopAsyncIteration:
            pass
        except (
            asyncio.CancelledError
        ) as error:  # ours, or of a task that the caller's groups waited for
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            self._error = error
        except Exception as error:  # noqa: BLE001 - the caller's own; calls in flight are paid for and may finish
            self._error = error
        self._runner.end()
        return None

    async def _judge(self, item: tuple[ObjectGroup[G], GroupRun]) -> GroupResult | None:
        result = await self._scorer.judge(item[1])
        if (
            result is not None and _capped(result) and not self._sized
        ):  # it may never end
            self.last.set()
        return result

    async def _deliver(
        self, item: tuple[ObjectGroup[G], GroupRun], result: GroupResult | None
    ) -> None:
        read, _ = item
        scores = (
            None if result is None else self._scorer.take(self._batch, read, result)
        )
        if result is not None and scores is not None:
            if _capped(result):
                self._left += isinstance(scores, GroupError)
                self._cut += isinstance(scores, GroupScores)
            if self._batch.waits:
                self._waiting.append((read, result))
            else:
                await self._send.send(
                    self._scorer.scored(self._batch, read, result, scores)
                )
        self._delivered += 1

    async def _leave(self, scope: anyio.CancelScope) -> None:
        """Once no further group is read and all that is done is taken, wait for no more groups."""
        await self.last.wait()
        self._runner.end()
        while self._delivered < self._pulled:  # noqa: ASYNC110 - looked at when a run ends only
            await anyio.sleep(_POLL)
        scope.cancel()


def _count_for_art(usd: float | None) -> None:
    """Add a judge's cost to the metrics that ART collects in this context, as its own judge does."""
    metrics = sys.modules.get(
        "art.metrics"
    )  # not imported: without ART's training nobody collects
    if usd is None or metrics is None:
        return
    with suppress(
        AttributeError, LookupError
    ):  # another package of this name, or no step is open
        builder = metrics.MetricsBuilder.get_active()
        builder.add_cost(f"{builder.cost_context}/judge/ruler", usd)


def _capped(result: GroupResult) -> bool:
    """Tell if the group lacks a reply because of the cost cap."""
    return any(call.error.kind == "budget" for call in result.failed_calls)


async def _end(*tasks: asyncio.Task[None]) -> None:
    """End tasks, whatever ends the one that waits for them."""
    for task in tasks:
        task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.wait(tasks)


def list_groups(groups: Iterable[G]) -> list[G]:
    """Return the groups of an iterable; WrongShapeError if it is none."""
    if isinstance(groups, AsyncIterable):
        raise WrongShapeError(
            "groups: is an async iterable; give a list, or take `score_groups`"
        )
    _feed(groups)
    return list(groups)


def _feed(groups: Any) -> AsyncIterator[Any]:
    """Return an async iterator over groups; WrongShapeError if they cannot be iterated over."""
    one = isinstance(groups, Mapping) or hasattr(
        groups, "trajectories"
    )  # ART's is an iterable of its fields
    if isinstance(groups, AsyncIterable) and not one:
        return aiter(groups)
    if one or isinstance(groups, str | bytes) or not isinstance(groups, Iterable):
        hint = (
            "a list of groups; one alone is for `Scorer.score`"
            if one
            else "an iterable of groups"
        )
        raise WrongShapeError(
            f"groups: is of type {type(groups).__name__}; give {hint}"
        )
    return _in_turn(groups)


async def _in_turn(groups: Iterable[G]) -> AsyncIterator[G]:
    for group in groups:
        yield group
