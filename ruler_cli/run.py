"""The recipe: read, group, judge, deliver. The composition root of a run.

A run that is told to stop: what it waits for, and for how long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import cast

import anyio

from ruler_cli.config import JudgeSettings, ScoreSettings
from ruler_cli.errors import CapReached, ReaderGone, RulerError, TooManyFailures, UsageError
from ruler_cli.judges.pricing import PricedModel
from ruler_cli.judges.resolve import ResolvedJudge, cached_only, resolve
from ruler_cli.judging.group_run import BoundJudge, Item, JudgeRunner, judges_of
from ruler_cli.judging.panel import Panel, pool
from ruler_cli.ledger.reply_cache import Ledger, ReplyCache
from ruler_cli.observer import Observer, Summary
from ruler_cli.pool.budget import Budget
from ruler_cli.pool.engine import StopSignal, first_of, run, threaded
from ruler_cli.pool.retries import CachedOnly, Caller
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.reading.input import Input, open_input
from ruler_cli.reading.openings import Openings
from ruler_cli.result_writer import ResultWriter, RunStats
from ruler_cli.types import UNANSWERED, Group, GroupError, GroupResult, Problem
from ruler_cli.writing.files import FailedFile
from ruler_cli.writing.output import failed_path, open_output, refuse_clashes, refuse_homeless, refuse_shard

_TICK = 1.0
_HALF = 0.5
"""The share of the text that judges should be shown."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did, and why it stopped where it did not come to its end; `whole`: OUTPUT is there."""

    summary: Summary
    stopped: RulerError | None = None
    whole: bool = True


async def score(
    settings: ScoreSettings, observer: Observer | None = None, halt: StopSignal | None = None
) -> RunResult:
    """Score INPUT into OUTPUT.

    RulerError where nothing could begin; once calls may have been made the reason to stop is a part
    of the result. `halt` stops the run from outside: what is in flight finishes, what is whole stays.
    """
    observer, halt = observer or Observer(), halt or StopSignal()
    judges, chosen = judges_of(settings), resolve_judges(settings)
    # OUTPUT ends before INPUT is closed: what is behind the last record of a document is copied from there
    with ExitStack() as inputs, ExitStack() as stack:
        ledger = _ledger(settings, chosen, stack)
        output = open_output(settings.input.source, settings.output)
        stack.enter_context(output)
        failed = FailedFile(failed_path(settings))
        stack.callback(failed.close)
        async with AsyncExitStack() as opened:  # before the input: a judge that is not there costs no wait
            for found in chosen:
                if isinstance(found, ResolvedJudge):
                    await opened.enter_async_context(found.judge)
            panel = _panel(settings, judges, chosen, halt, ledger)
            counts = RunStats(settings.max_failures, panel)
            names = [judge.model for judge in judges]
            delivery = ResultWriter(settings, names, counts, panel, output, failed, observer)
            coverage = Coverage()
            asked = [
                BoundJudge(c.call, found.context) for c, found in zip(panel.callers, chosen, strict=True)
            ]
            runner = JudgeRunner(settings, asked, observer.replied if settings.debug else None, coverage)
            run_ = _Run(settings, observer, panel, counts, delivery, runner)
            run_.coverage = coverage
            await run_.all(inputs)
        failed.close()
        if run_.whole:
            output.commit()
    return run_.finish()


def resolve_judges(settings: ScoreSettings) -> list[ResolvedJudge | PricedModel]:
    """Choose the judges of a run, not yet open; UsageError for settings that cannot be."""
    judges = judges_of(settings)
    chosen: list[ResolvedJudge | PricedModel] = [
        cached_only(judge) if settings.cached_only else resolve(judge) for judge in judges
    ]
    refuse_clashes(settings.input.source, settings.output, settings.failed)
    refuse_homeless(settings)
    refuse_shard(settings)
    if settings.cached_only and settings.ledger is None:
        raise UsageError("--cached-only: answers are in the ledger; leave out --ledger none")
    for judge, found in zip(judges, chosen, strict=True):
        if settings.pool.max_cost is not None and found.price is None and not settings.cached_only:
            raise UsageError(
                f"--max-cost: the price of {judge.model} is not known; give it with --price IN,OUT, "
                "in USD per million prompt and completion tokens"
            )
    return chosen


def _ledger(
    settings: ScoreSettings, chosen: list[ResolvedJudge | PricedModel], stack: ExitStack
) -> Ledger | None:
    """Where replies are kept: nowhere for judges that cost nothing to ask again."""
    if settings.ledger is None or all(
        isinstance(found, ResolvedJudge) and found.embedded for found in chosen
    ):
        return None
    return stack.enter_context(Ledger(settings.ledger, settings.ledgers))


def _panel(
    settings: ScoreSettings,
    judges: list[JudgeSettings],
    chosen: list[ResolvedJudge | PricedModel],
    halt: StopSignal,
    ledger: Ledger | None,
) -> Panel:
    """What asks each judge: with limits of its own, and one budget for all."""
    budget = Budget(settings.pool.max_cost)
    callers: list[Caller | CachedOnly] = []
    for judge, found in zip(judges, chosen, strict=True):
        cache = ReplyCache(ledger, judge.model, judge.params)
        if isinstance(found, ResolvedJudge):
            known = None if ledger is None or found.embedded else cache
            callers.append(pool(found, judge, settings.pool, halt, known, budget))
        else:
            callers.append(CachedOnly(cache, halt))
    return Panel(callers, [found.price for found in chosen], halt)


class _Run:
    """One run: what each group goes through, until the end or until it is told to stop."""

    def __init__(
        self,
        settings: ScoreSettings,
        observer: Observer,
        panel: Panel,
        counts: RunStats,
        delivery: ResultWriter,
        runner: JudgeRunner,
    ) -> None:
        self._settings, self._observer, self._panel = settings, observer, panel
        self._counts, self._delivery = counts, delivery
        self._stopping = Stopping(panel, delivery, counts, observer, settings.grace)
        self.halt = panel.halt
        self._runner = runner
        self._begun = self._stopped = self._lost = False
        self._stream: Openings | None = None
        self.coverage: Coverage | None = None

    async def all(self, stack: ExitStack) -> None:
        """Read, judge and write every group, until the end or until the run is told to stop."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._stopping.drain, tasks.cancel_scope)
                tasks.start_soon(self._tick)
                # in a thread, because a pipe may be silent for long and the survey of a file be long
                opened = threaded(self._open(stack) for _ in range(1))
                found = cast(Input, await opened())
                self._begin(found)
                if found.reader is not None:
                    await self._judge_all(found)
                tasks.cancel_scope.cancel()
            if not self._lost:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._stopping.unread, tasks.cancel_scope)
                    await self._written(self._delivery.rest)
                    tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from None

    def _open(self, stack: ExitStack) -> Input:
        return open_input(self._settings.input, stack, self._unreadable, self._delivery.output.into)

    def _unreadable(self, problem: Problem) -> None:
        self._delivery.unreadable(problem)
        self._stop_if_too_many()

    @property
    def whole(self) -> bool:
        """Whether OUTPUT holds all that it is to hold."""
        return self.halt.reason is None and not self._delivery.unfinished

    def finish(self) -> RunResult:
        """The counts of the whole run, and why it stopped before its end."""
        self._delivery.close()
        stopped, left = self.halt.reason, self._counts.summary.failed.get("budget", 0)
        if stopped is None and (left or self._counts.summary.cut):
            stopped = CapReached(self._settings.pool.max_cost or 0.0, left, self._counts.summary.cut)
        summary = self._counts.finish(stopped)
        if self._stream is not None:  # of a file the survey has said so before anything was asked
            for sentence in self._stream.sentences():
                self._observer.warn(sentence)
        self._warn_of_coverage()
        name = self._delivery.refuses_null if summary.groups else ""
        if name and summary.failed and self._settings.on_failure == "null":
            self._observer.warn(
                f"{name} itself reads no file in which a reward is null; --on-failure drop leaves them out"
            )
        return RunResult(summary, stopped, self.whole)

    def _begin(self, found: Input) -> None:
        self._observer.note(found.found())
        for sentence in found.notes:
            self._observer.note(sentence)
        for sentence in found.survey.warnings() if found.survey else ():
            self._observer.warn(sentence)
        self._stream = found.openings if found.survey is None else None
        self._counts.summary.total = found.survey.mine if found.survey else None
        self._observer.started(self._counts.summary.total)
        if found.reader is not None:
            self._delivery.begin(found, found.reader)
        self._begun = True
        self._stop_if_too_many()

    def _warn_of_coverage(self) -> None:
        """Say once that judges are shown less than half of the text, and what they are not shown."""
        coverage, self.coverage = self.coverage, None
        for sentence in coverage.warnings() if coverage is not None else ():
            self._observer.warn(sentence)
        if coverage is None or coverage.share is None or coverage.share >= _HALF:
            return
        groups = f"the first {coverage.groups} groups" if coverage.groups > 1 else "the first group"
        self._observer.warn(
            f"judges are shown {coverage.share:.0%} of the text in {groups}; "
            f"not shown: {coverage.not_shown_text()} (`ruler check` names every place)"
        )

    async def _judge_all(self, found: Input) -> None:
        runner, pull = self._runner, found.pull()

        async def next_group() -> Item | None:
            group = None
            if self.halt.reason is None:
                try:
                    group = await pull()
                except RulerError as error:  # what is in flight is paid for and may finish
                    self.halt.stop(error)
            if group is None:
                runner.end()
                return None
            return runner.place(group)

        async def deliver(item: Item, outcome: GroupResult) -> None:
            await self._deliver(item.group, outcome)

        await run(next_group, runner.judge, deliver, lambda item: item.group.size, self._panel.room)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(_TICK)
            if self._begun:
                self._observer.tick(self._counts.summary, self._panel.status())

    async def _deliver(self, group: Group, outcome: GroupResult) -> None:
        if self._stopped:  # OUTPUT is whole up to here; the rest is for the run that resumes
            self._counts.pay(outcome)
            return
        await self._written(partial(self._take, group, outcome))

    async def _take(self, group: Group, outcome: GroupResult) -> None:
        if self.coverage is not None and self.coverage.enough:
            self._warn_of_coverage()
        verdict = await self._delivery.take(group, outcome)
        if isinstance(verdict, GroupError):
            if verdict.kind == "interrupted":
                self._stopped = True
                self._counts.pay(outcome)
                return
            if verdict.reason != UNANSWERED.reason:  # there may be a million, and the summary counts them
                self._observer.failed(group.key, verdict.kind, verdict.reason)
            self._stop_if_too_many()
        self._observer.advanced(self._counts.summary)

    async def _written(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write; where that cannot be, the run stops."""
        try:
            await write()
        except BrokenPipeError:
            self._stopped = self._lost = True
            self.halt.stop(ReaderGone())
        except RulerError as error:
            self._stopped = self._lost = True
            self.halt.stop(error)

    def _stop_if_too_many(self) -> None:
        most = self._settings.max_failures
        if most is not None and self._counts.too_many(begun=self._begun):
            self.halt.stop(TooManyFailures(most.shown))


POLL = 0.05
READER = 5.0
"""Seconds that a run which is told to stop waits for a reader of stdout that takes nothing."""


class Stopping:
    """Watches beside a run; ends its scope once it is told to stop and nothing more can come of it."""

    def __init__(
        self, panel: Panel, delivery: ResultWriter, counts: RunStats, observer: Observer, grace: float
    ) -> None:
        """`grace` is how many seconds calls in flight may take to finish."""
        self._panel, self._delivery, self._counts = panel, delivery, counts
        self._observer, self._grace = observer, grace

    async def drain(self, scope: anyio.CancelScope) -> None:
        """Wait for what is in flight, not for ever, and end what only waits."""
        halt = self._panel.halt
        await halt.event.wait()
        self._panel.nudge()
        if not isinstance(halt.reason, ReaderGone):  # `| head` is quiet
            self._observer.stopping(self._panel.in_flight, self._grace)
        with anyio.move_on_after(self._grace):
            quiet, blocked = 0, 0.0
            while quiet < 2:  # twice, so that the last reply is written too
                await anyio.sleep(POLL)
                blocked = blocked + POLL if self._delivery.writing else 0.0
                quiet = 0 if self._panel.in_flight or 0 < blocked < READER else quiet + 1
        scope.cancel()

    async def unread(self, scope: anyio.CancelScope) -> None:
        """Do not wait for ever for a reader who takes nothing of what is left to write."""
        await self._panel.halt.event.wait()
        written, blocked = self._counts.summary.written, 0.0
        while blocked < READER:
            await anyio.sleep(POLL)
            blocked = blocked + POLL if self._counts.summary.written == written else 0.0
            written = self._counts.summary.written
        scope.cancel()
