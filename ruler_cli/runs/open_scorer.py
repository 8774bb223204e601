"""An open `Scorer`: the way of one group through its judges, and of a stream of groups, in order."""

from __future__ import annotations

import asyncio
import copy
import os
import sys
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sized,
)
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic, Self

from ruler_cli.errors import (
    CapReached,
    RefusedError,
    Sentence,
    UsageError,
    WrongShapeError,
)
from ruler_cli.judging.group_run import GroupRun
from ruler_cli.judging.panel import Panel
from ruler_cli.pool.engine import Bounds
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.runs.batch_scores import BatchScores
from ruler_cli.runs.objects import (
    G,
    JudgedGroup,
    ObjectGroup,
    Readers,
    judged_group,
    read_group,
)
from ruler_cli.runs.session import GroupStream, Scored, ScoringSession
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import GroupError, GroupResult, Observer, Summary

_BOUNDS = Bounds(ready=32)
"""Bounds on the groups that are held: 32 scored groups bridge a pause of their taker, and a group that is
trained on later than that was made by an old policy."""
_FIRST = 20
"""Groups of which one must have an outcome if `outcome` names its path."""
CLOSED = "the Scorer was closed before its groups were all scored"
Groups = Iterable[G] | AsyncIterable[G]


class OpenScorer(ScoringSession):
    """The judges of an open Scorer, and the way of one group through them."""

    def __init__(
        self, settings: ScoreSettings, observer: Observer, panel: Panel
    ) -> None:
        super().__init__(settings, observer, panel)
        self.scores = BatchScores(settings, self.stats)
        self.loop, self.pid = asyncio.get_running_loop(), os.getpid()
        self.closing, self.closed = asyncio.Event(), Future[None]()
        self.closed.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        self.keeper: asyncio.Task[None]
        self._taken = self._without_outcome = 0
        self._readers: Readers = {}
        self._runner = self.runner()
        self.begin(None)

    async def __aexit__(self, *error: object) -> None:
        """End all calls in flight."""
        if self.stats.summary.groups < 2:
            # a Scorer for each group would warn each time
            self.coverage = Coverage()
        await super().__aexit__(*error)
        if 0 < self._without_outcome < _FIRST:
            groups = f"none of {self._without_outcome} groups has it"
            self.observer.warn(self._wrong_outcome(groups).sentence)

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
        read = read_group(
            given,
            index,
            self.settings.input,
            name,
            readers=self._readers,
            rubric=rubric,
        )
        self._refuse_missing_outcome(read)
        return read

    def _refuse_missing_outcome(self, read: ObjectGroup[Any]) -> None:
        """Stop if none of the first groups has an outcome: its path is wrong."""
        if self.settings.input.outcome is None or self._without_outcome == _FIRST:
            return
        found = any(one.outcome is not None for one in read.group.rollouts)
        self._without_outcome = _FIRST if found else self._without_outcome + 1
        if not found and self._without_outcome == _FIRST:
            groups = f"none of the first {_FIRST} groups has it"
            self.stop_signal.stop(self._wrong_outcome(groups))

    def _wrong_outcome(self, groups: str) -> UsageError:
        path = self.settings.input.outcome
        return UsageError(groups, "check the path", option="outcome", value=path)

    async def one(self, given: G, rubric: str | None = None) -> JudgedGroup[G]:
        """Score a group that shares passes with no other, by a rubric of its own if one is given."""
        if self.scores.waits:
            raise UsageError(
                Sentence("{debias} and {standardize} need all groups of a batch"),
                "give them to `score_groups`, which yields them once the last is judged",
            )
        read, capped = self.read(given, rubric=rubric), self.panel.budget.closed
        self.go_on()
        if self.stop_signal.reason is not None:
            raise self.ended
        return await asyncio.create_task(self._score(read, capped=capped))

    async def _score(self, read: ObjectGroup[G], *, capped: bool) -> JudgedGroup[G]:
        """Score a group; `capped`: the cap was reached before it."""
        group_run = self._runner.start(read.group)
        self._runner.end()
        result = await self.judge(group_run)
        scores = None if result is None else self.take(self.scores, read.group, result)
        if result is None or scores is None:
            raise self.ended
        if capped and isinstance(scores, GroupError) and scores.kind == "budget":
            raise self.stats.cap_reached(self.settings.pool.max_cost) or self.ended
        fields = self.conclude(self.scores, read.group, result, scores)
        return self.judged(self.scores, (read, result, scores, fields))

    def judged(
        self, batch: BatchScores, scored: Scored[ObjectGroup[G]]
    ) -> JudgedGroup[G]:
        """Return an annotated copy of a group."""
        read, result, scores, fields = scored
        _count_for_art(self.panel.cost(result.paid))
        on_failure, warn = self.settings.on_failure, self.observer.warn
        return judged_group(read, result, scores, batch.names, fields, on_failure, warn)

    @property
    def ended(self) -> Exception:
        """The error of a group that is given up: what stopped the run, or that the Scorer was closed."""
        if self.stop_signal.reason is not None:
            # its traceback would grow with each raise
            return copy.copy(self.stop_signal.reason)
        return UsageError(CLOSED)

    def go_on(self) -> None:
        """Ask a judge again that refused the run, once all that the refusal ended is done."""
        if isinstance(self.stop_signal.reason, RefusedError) and not self.busy:
            super().go_on()

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


class _Held(list[tuple[ObjectGroup[G], GroupResult]]):
    """Groups that wait for their batch, in memory."""

    def put(self, read: ObjectGroup[G], result: GroupResult) -> None:
        """Add a group."""
        self.append((read, result))

    def all(self) -> Iterable[tuple[ObjectGroup[G], GroupResult]]:
        """Return all groups."""
        return self

    def close(self) -> None:
        """Forget them."""
        self.clear()


class ScoredGroups(Generic[G]):
    """An iterator over groups from Python with their scores, in order; use it as an async context.

    What ended it is raised after all groups that were done by then.
    """

    def __init__(self, scorer: OpenScorer, groups: Groups[G]) -> None:
        """WrongShapeError if the groups cannot be iterated over."""
        self._scorer, self._groups = scorer, _feed(groups)
        self._batch, self._sized = scorer.new_batch(), isinstance(groups, Sized)
        self._stream = _ObjectStream(scorer, self._batch, self._pull, not self._sized)
        self._pulled = self._left = self._cut = 0
        self._error: BaseException | None = None

    async def __aenter__(self) -> Self:
        self._scorer.go_on()
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the calls in flight."""
        await self._stream.__aexit__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JudgedGroup[G]:
        try:
            scored = await anext(self._stream)
        except StopAsyncIteration:
            self._raise_end()
            raise
        if _capped(scored[1]):
            failed = isinstance(scored[2], GroupError)
            self._left += failed
            self._cut += not failed
        return self._scorer.judged(self._batch, scored)

    def _raise_end(self) -> None:
        """Raise what ended the stream, if it is not the end of the groups."""
        scorer = self._scorer
        if self._error is not None:
            raise self._error
        if self._stream.stopped is not None:
            raise copy.copy(self._stream.stopped)
        if scorer.closing.is_set():
            raise scorer.ended
        if self._left or self._cut:
            cap, least = scorer.settings.pool.max_cost or 0.0, scorer.panel.budget.least
            raise CapReached(cap, self._left, self._cut, least)

    async def _pull(self) -> ObjectGroup[G] | None:
        try:
            # in no scope: theirs may be open until the next group
            read = self._scorer.read(await anext(self._groups), self._pulled)
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError as error:
            # ours, or of a task that the caller's groups waited for
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            self._error = error
        except Exception as error:  # noqa: BLE001 - the caller's own; calls in flight are paid for and may finish
            self._error = error
        else:
            self._pulled += 1
            return read
        return None


class _ObjectStream(GroupStream[ObjectGroup[G]]):
    """The groups of an iterable; one that may never end is read no further once the cap is reached."""

    def __init__(
        self,
        scorer: OpenScorer,
        batch: BatchScores,
        pull: Callable[[], Awaitable[ObjectGroup[G] | None]],
        endless: bool,
    ) -> None:
        super().__init__(
            scorer,
            batch,
            pull,
            lambda read: read.group,
            lambda read: read.group.size,
            _Held[G](),
            _BOUNDS,
        )
        self._endless = endless

    async def _judge(self, item: tuple[ObjectGroup[G], GroupRun]) -> GroupResult | None:
        result = await super()._judge(item)
        if self._endless and result is not None and _capped(result):
            self.last()
        return result


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


def list_groups(groups: Iterable[G]) -> list[G]:
    """Return the groups of an iterable; WrongShapeError if it is none."""
    if isinstance(groups, AsyncIterable):
        raise WrongShapeError(
            "groups: is an async iterable; give a list, or use `score_groups`"
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
            "a list of groups, or one group to `Scorer.score`"
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
