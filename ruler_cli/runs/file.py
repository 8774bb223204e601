"""`score`, whole: read the groups, ask the judges, write the lines. The composition root of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial

import anyio

from ruler_cli.errors import (
    InterruptedRun,
    NothingToCompare,
    ReaderGone,
    RulerError,
    Sentence,
    TooManyFailures,
    UsageError,
)
from ruler_cli.files.location import Location
from ruler_cli.files.output import (
    FailedFile,
    Output,
    failed_path,
    refuse_clashes,
    refuse_settings,
)
from ruler_cli.judges.pricing import Price
from ruler_cli.judges.providers import MissingCredentialsError
from ruler_cli.judges.resolve import (
    ResolvedJudge,
    cached_only,
    model_of,
    refuse_judge,
    resolve,
)
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import Panel, open_panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, first_of, in_thread, inline, run, threaded
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.layout import distinct_rollouts
from ruler_cli.runs.batch_scores import BatchScores, RunStats
from ruler_cli.runs.input import Input, open_input
from ruler_cli.runs.result_writer import ResultWriter
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.types import (
    UNANSWERED,
    Group,
    GroupError,
    GroupResult,
    Observer,
    Problem,
    Status,
    Summary,
    WaitReports,
)

_TICK = 1.0
_POLL = 0.05
_HELD_GROUPS, _HELD_BYTES = 20, 64 << 20
"""Groups of a pipe with nothing to compare, and bytes of them, that are held before the first is sent."""
_READER = 5.0
"""Seconds that a run which is told to stop waits for a reader of stdout that takes nothing."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The counts of a run, and why it stopped before its end.

    `whole`: OUTPUT is written; else one that was there is as it was.
    """

    summary: Summary
    stopped: RulerError | None = None
    whole: bool = True


async def score(
    settings: ScoreSettings,
    observer: Observer | None = None,
    stop_signal: StopSignal | None = None,
) -> RunResult:
    """Score INPUT into OUTPUT.

    RulerError if nothing could begin; once calls may have been made the reason to stop is a part of the
    result. `stop_signal` stops the run from outside: calls in flight finish, groups that are done stay.
    """
    observer, stop_signal = observer or Observer(), stop_signal or StopSignal()
    resolved = resolve_judges(settings)
    # OUTPUT ends before INPUT is closed: bytes behind the last record of a document are copied from there
    with ExitStack() as inputs, ExitStack() as stack:
        output = stack.enter_context(Output(settings.output))
        failed = FailedFile(failed_path(settings))
        stack.callback(failed.close)
        # before the input: a judge that is not there costs no wait
        async with AsyncExitStack() as judges:
            panel = await open_judges(settings, resolved, stop_signal, judges)
            scores, coverage = (
                BatchScores(settings, RunStats(settings.most_failures, panel)),
                Coverage(),
            )
            writer = ResultWriter(settings, scores, panel, output, failed, observer)
            on_reply = observer.replied if settings.debug else None
            runner = JudgeRunner(settings, panel.judges, on_reply, coverage)
            this = _Run(
                settings, observer, panel, scores.stats, writer, runner, coverage
            )
            await this.all(inputs)
        failed.close()
        written = this.whole and (this.scored or not output.replaces)
        if written:
            if output.log is not None:
                observer.note(f"inspect_ai writes {output.name}")
                await in_thread(output.log.make)
            output.commit()
    return this.finish(written=written)


async def open_judges(
    settings: ScoreSettings,
    resolved: Sequence[ResolvedJudge],
    stop_signal: StopSignal,
    stack: AsyncExitStack,
) -> Panel:
    """Open the judges of a run, and its ledger unless all judges are embedded: those cost nothing to ask.

    `stack` closes them. No generator does: a loop that ends closes all generators at once, also one that
    another still uses.
    """
    ledger = None
    if settings.ledger is not None and not all(way.embedded for way in resolved):
        ledger = stack.enter_context(Ledger(settings.ledger, settings.ledgers))
    for way in resolved:
        if way.judge is not None:
            await stack.enter_async_context(way.judge)
    return open_panel(settings, resolved, stop_signal, ledger)


def refuse_settings_of_run(settings: ScoreSettings) -> None:
    """Raise UsageError for settings that cannot be, and files that clash; no judge's key is needed."""
    refuse_clashes(settings.input.source, settings.output, settings.failed)
    refuse_settings(settings)
    if settings.cached_only and settings.ledger is None:
        remedy = Sentence("leave out {ledger:none}")
        raise UsageError("answers are in the ledger", remedy, option="cached_only")
    for judge in settings.judges if settings.cached_only else ():
        cached_only(judge)


def resolve_judges(settings: ScoreSettings) -> list[ResolvedJudge]:
    """Resolve the judges of a run, not yet open; UsageError for settings that cannot be."""
    refuse_settings_of_run(settings)
    resolved = [
        cached_only(judge) if settings.cached_only else resolve(judge)
        for judge in settings.judges
    ]
    for judge, way in zip(settings.judges, resolved, strict=True):
        _refuse_unpriced(settings, judge, way.price)
    return resolved


def judge_errors(settings: ScoreSettings) -> Iterator[UsageError]:
    """Yield the errors with which `resolve_judges` would refuse judges, missing credentials among them."""
    for judge in settings.judges:
        try:
            try:
                (cached_only if settings.cached_only else refuse_judge)(judge)
            except MissingCredentialsError as error:
                yield error
            _refuse_unpriced(settings, judge, model_of(judge).price)
        except UsageError as error:
            yield error


def _refuse_unpriced(
    settings: ScoreSettings, judge: JudgeSettings, price: Price | None
) -> None:
    if (
        settings.pool.max_cost is not None
        and price is None
        and not settings.cached_only
    ):
        remedy = Sentence(
            "give it with {price:IN,OUT}, in USD per million prompt and completion tokens"
        )
        raise UsageError(
            f"the price of {judge.label} is not known", remedy, option="max_cost"
        )


def nothing_to_compare(
    settings: ScoreSettings, source: Input
) -> NothingToCompare | None:
    """Return the error with which a file is refused before a call: no group has two rollouts that differ.

    It is read as far as the first group that has. None for a stream, for a file about which no judge would be
    asked, and where a part of INPUT, or its replies in the ledger, are asked for as they are.
    """
    if source.again is None or source.reader is None or not _must_compare(settings):
        return None
    alone = source.survey is not None and source.survey.largest <= 1
    askable = False
    for group in source.again():
        distinct = distinct_rollouts(group, settings.ask)
        if distinct > 1:
            return None
        askable = askable or distinct == 1
        if alone and askable:
            break
    return NothingToCompare(source.reader.shown_key) if askable else None


def _must_compare(settings: ScoreSettings) -> bool:
    part = settings.input.shard is not None or settings.input.limit is not None
    return settings.ask.single == "flag" and not (part or settings.cached_only)


def held_groups(
    settings: ScoreSettings, source: Input, observer: Observer
) -> Iterator[Group]:
    """Yield the groups of INPUT; the first ones of a stream are held until one has something to compare.

    NothingToCompare if the stream ends before; no more than `_HELD_GROUPS` are held.
    """
    if source.again is not None or not _must_compare(settings):
        yield from source.groups
        return
    held, size, askable = list[Group](), 0, False
    for group in source.groups:
        held.append(group)
        size += group.size
        distinct = distinct_rollouts(group, settings.ask)
        askable = askable or distinct == 1
        full = len(held) == _HELD_GROUPS or size > _HELD_BYTES
        if full and distinct < 2:
            observer.warn(
                f"the first {len(held)} groups have nothing to compare; they are sent all the same"
            )
        if full or distinct > 1:
            yield from held
            held.clear()
            yield from source.groups
            return
    if askable and source.reader is not None:
        raise NothingToCompare(source.reader.shown_key)
    yield from held


def with_outage(stopped: RulerError | None, status: Status) -> RulerError | None:
    """Return why a run stopped; an interruption names the judge that was down meanwhile."""
    if not isinstance(stopped, InterruptedRun) or not status.outage:
        return stopped
    return InterruptedRun(stopped.signum, status.outage)


class _Run:
    """One run: the way of each group, until the end or until the run is told to stop."""

    def __init__(
        self,
        settings: ScoreSettings,
        observer: Observer,
        panel: Panel,
        stats: RunStats,
        writer: ResultWriter,
        runner: JudgeRunner,
        coverage: Coverage,
    ) -> None:
        self._settings, self._observer, self._panel = settings, observer, panel
        self._stats, self._writer, self._runner = stats, writer, runner
        self._stop_signal, self._coverage = panel.stop_signal, coverage
        self._waits = WaitReports(observer)
        panel.watch(self._report_waits)
        self._begun = self._stopped = self._reader_gone = False
        self._input: Input | None = None

    async def all(self, stack: ExitStack) -> None:
        """Read, judge and write every group, until the end or until the run is told to stop."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain, tasks.cancel_scope)
                tasks.start_soon(self._tick)
                # in a thread, because a pipe may be silent for long and the survey of a file be long
                source = await in_thread(partial(self._open, stack))
                self._begin(source)
                if source.reader is not None:
                    await self._judge_all(source)
                tasks.cancel_scope.cancel()
            if not self._reader_gone:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._watch_reader, tasks.cancel_scope)
                    await self._writing(self._writer.write_rest)
                    tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from None

    @property
    def whole(self) -> bool:
        """Tell if OUTPUT holds all that it is to hold."""
        return self._stop_signal.reason is None and not self._writer.unfinished

    @property
    def scored(self) -> bool:
        """Tell if any group got a score; a shard to which no group fell is done, and its OUTPUT is empty."""
        summary = self._stats.summary
        return summary.scored > 0 or (
            self._settings.input.shard is not None and not summary.groups
        )

    def finish(self, *, written: bool) -> RunResult:
        """Return the counts of the whole run, and why it stopped before its end; `written`: OUTPUT is."""
        self._writer.close()
        summary, stopped = self._stats.summary, self._stop_signal.reason
        stopped = stopped or self._stats.cap_reached(self._settings.pool.max_cost)
        stopped = with_outage(stopped, self._panel.status())
        summary = self._stats.finish(stopped)
        if self._input:
            self._input.report(self._observer, end=True)
        self._warn_of_coverage()
        name = self._writer.refuses_null if summary.groups else ""
        if name and summary.failed and self._settings.on_failure == "null":
            null = f"{name} itself reads no file in which a reward is null"
            self._observer.warn(
                Sentence("{null}; {on_failure:drop} leaves them out", null=null)
            )
        return RunResult(summary, stopped, written)

    def _open(self, stack: ExitStack) -> Input:
        settings, write_as = self._settings, self._writer.output.write_as
        source = open_input(
            settings.input, stack, self._unreadable, write_as, draw=settings.draw
        )
        if error := nothing_to_compare(self._settings, source):
            self._observer.note(source.found())
            raise error
        return source

    def _unreadable(self, problem: Problem) -> None:
        output, source = self._settings.output, self._settings.input.source
        in_place = output != "-" and Location(source).same(output)
        if problem.too_large and in_place and self._writer.output.log is None:
            lost = f"is INPUT, and would lose {problem.where}, which"
            raise UsageError(
                Sentence("{lost} {why}", lost=lost, why=problem.reason), place=output
            )
        self._writer.unreadable(problem)
        self._stop_if_too_many()

    def _begin(self, source: Input) -> None:
        self._input, total = source, source.total
        source.report(self._observer, alone=self._settings.ask.single == "score")
        self._stats.summary.total = total
        self._observer.started(total)
        if source.reader is not None:
            self._writer.begin(source, source.reader)
        self._begun = True
        self._stop_if_too_many()

    def _warn_of_coverage(self) -> None:
        for sentence in self._coverage.report():
            self._observer.warn(sentence)

    async def _judge_all(self, source: Input) -> None:
        groups = held_groups(self._settings, source, self._observer)
        runner, pull = self._runner, (threaded if source.waits else inline)(groups)

        async def next_group() -> GroupRun | None:
            group = None
            if self._stop_signal.reason is None:
                try:
                    group = await pull()
                except (
                    RulerError
                ) as error:  # calls in flight are paid for and may finish
                    self._stop_signal.stop(error)
            if group is None:
                runner.end()
                return None
            return runner.start(group)

        async def deliver(group_run: GroupRun, result: GroupResult) -> None:
            if (
                self._stopped
            ):  # OUTPUT is whole up to here; the rest is for the run that resumes
                self._stats.pay(result)
            else:
                await self._writing(partial(self._take, group_run.group, result))

        demand = self._panel.wait_for_demand
        await run(
            next_group,
            GroupRun.judge,
            deliver,
            lambda group_run: group_run.group.size,
            demand,
        )

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(_TICK)
            self._report_waits()
            if self._begun:
                self._stats.refresh()
                self._observer.tick(self._stats.summary, self._panel.status())

    def _report_waits(self) -> None:
        self._waits.look(anyio.current_time(), self._panel.status())

    async def _take(self, group: Group, result: GroupResult) -> None:
        if self._coverage.enough:
            self._warn_of_coverage()
        scores = await self._writer.take(group, result)
        if isinstance(scores, GroupError):
            if scores.kind == "interrupted":
                self._stopped = True
                self._stats.pay(result)
                return
            if (
                scores.reason != UNANSWERED.reason
            ):  # there may be a million, and the summary counts them
                self._observer.failed(group.key, scores.kind, scores.reason)
            self._stop_if_too_many()
            if error := self._stats.first_failed(scores):
                self._stop_signal.stop(error)
        self._observer.advanced(self._stats.summary)

    async def _writing(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write; if that fails, the run stops."""
        try:
            await write()
        except (BrokenPipeError, RulerError) as error:
            self._stopped = self._reader_gone = True
            self._stop_signal.stop(
                error if isinstance(error, RulerError) else ReaderGone()
            )

    def _stop_if_too_many(self) -> None:
        most = self._settings.most_failures
        if most is not None and self._stats.too_many(begun=self._begun):
            self._stop_signal.stop(TooManyFailures(most.shown))

    async def _drain(self, scope: anyio.CancelScope) -> None:
        """Once the run is told to stop, wait for calls in flight, not for ever, and end all others."""
        await self._stop_signal.event.wait()
        self._panel.nudge()
        reason = self._stop_signal.reason
        if reason is not None and not isinstance(
            reason, ReaderGone
        ):  # `| head` is quiet
            if self._panel.in_flight and not isinstance(reason, InterruptedRun):
                self._observer.note(reason.brief)  # calls in flight may take long
            self._observer.stopping(self._panel.in_flight, self._settings.grace)
        with anyio.move_on_after(self._settings.grace):
            quiet, blocked = 0, 0.0
            while quiet < 2:  # twice, so that the last reply is written too
                await anyio.sleep(_POLL)
                blocked = blocked + _POLL if self._writer.writing else 0.0
                quiet = (
                    0 if self._panel.in_flight or 0 < blocked < _READER else quiet + 1
                )
        scope.cancel()

    async def _watch_reader(self, scope: anyio.CancelScope) -> None:
        """Once the run is told to stop, do not wait for ever for a reader who takes none of the rest."""
        await self._stop_signal.event.wait()
        written, blocked = self._stats.summary.written, 0.0
        while blocked < _READER:
            await anyio.sleep(_POLL)
            blocked = blocked + _POLL if self._stats.summary.written == written else 0.0
            written = self._stats.summary.written
        scope.cancel()
