"""`score`, whole: read the groups, ask the judges, write the lines. The composition root of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial

from ruler_cli.errors import (
    InterruptedRun,
    NothingToCompare,
    OutputError,
    ReaderGone,
    RulerError,
    Sentence,
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
from ruler_cli.judges.providers import MissingCredentialsError, Price
from ruler_cli.judges.resolve import (
    ResolvedJudge,
    cached_only,
    model_of,
    refuse_judge,
    resolve,
)
from ruler_cli.judging.panel import Panel, open_panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, in_thread, inline, threaded
from ruler_cli.prompting.prompt import distinct_rollouts
from ruler_cli.runs.batch_scores import BatchScores
from ruler_cli.runs.input import Input, open_input
from ruler_cli.runs.result_writer import ResultSpool, ResultWriter
from ruler_cli.runs.session import Due, GroupStream, ScoringSession
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.types import (
    Group,
    GroupResult,
    Observer,
    Problem,
    Status,
    Summary,
)

_HELD_GROUPS, _HELD_BYTES = 20, 64 << 20
"""Groups of a pipe with nothing to compare, and bytes of them, that are held before the first is sent."""


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
            async with ScoringSession(settings, observer, panel) as session:
                this = _FileRun(session, output, failed)
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
                f"the first {len(held)} groups have nothing to compare; sending them anyway"
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


class _FileRun:
    """One run over a file: INPUT, the stream of its groups, and OUTPUT."""

    def __init__(
        self, session: ScoringSession, output: Output, failed: FailedFile
    ) -> None:
        self._session, self._settings = session, session.settings
        self._scores = BatchScores(session.settings, session.stats)
        self._writer = ResultWriter(session, self._scores, output, failed)
        self._input: Input | None = None
        self._unfinished = False

    async def all(self, stack: ExitStack) -> None:
        """Read, judge and write every group, until the end or until the run is told to stop."""
        # in a thread, because a pipe may be silent for long and the survey of a file be long
        opening = in_thread(partial(self._open, stack))
        opened = await self._session.stop_signal.before(opening)
        if not opened.done():
            opened.cancel()
            return
        source = self._input = opened.result()
        source.report(
            self._session.observer, alone=self._settings.ask.single == "score"
        )
        self._session.begin(source.total)
        self._session.stop_if_too_many()
        if source.reader is not None:
            self._writer.begin(source, source.reader)
            await self._write_all(source)

    @property
    def whole(self) -> bool:
        """Tell if OUTPUT holds all that it is to hold."""
        stopped = self._session.stop_signal.reason is not None
        return not (stopped or self._unfinished or self._writer.unfinished)

    @property
    def scored(self) -> bool:
        """Tell if any group got a score; a shard to which no group fell is done, and its OUTPUT is empty."""
        summary = self._session.stats.summary
        return summary.scored > 0 or (
            self._settings.input.shard is not None and not summary.groups
        )

    def finish(self, *, written: bool) -> RunResult:
        """Return the counts of the whole run, and why it stopped before its end; `written`: OUTPUT is."""
        session, observer = self._session, self._session.observer
        stopped = session.stop_signal.reason or session.stats.cap_reached(
            self._settings.pool.max_cost
        )
        stopped = with_outage(stopped, session.panel.status())
        summary = session.stats.finish(stopped)
        summary.figures = self._scores.figures()
        if self._input:
            self._input.report(observer, end=True)
        name = self._writer.refuses_null if summary.groups else ""
        if name and summary.failed and self._settings.on_failure == "null":
            null = f"{name} cannot read null rewards"
            observer.warn(
                Sentence("{null}; {on_failure:drop} leaves them out", null=null)
            )
        return RunResult(summary, stopped, written)

    def _open(self, stack: ExitStack) -> Input:
        settings, write_as = self._settings, self._writer.output.write_as
        source = open_input(
            settings.input, stack, self._unreadable, write_as, draw=settings.draw
        )
        if error := nothing_to_compare(self._settings, source):
            self._session.observer.note(source.found())
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
        self._session.stop_if_too_many()

    async def _write_all(self, source: Input) -> None:
        """Judge and write every group; if writing fails the run stops."""
        stop_signal = self._session.stop_signal
        groups = held_groups(self._settings, source, self._session.observer)
        pull = (threaded if source.waits else inline)(groups)

        async def next_group() -> Group | None:
            try:
                return await pull()
            except RulerError as error:  # calls in flight are paid for and may finish
                stop_signal.stop(error)
                return None

        async with _FileStream(self._session, self._scores, next_group) as stream:
            async for scored in stream:
                try:
                    await self._writer.write(*scored)
                except BrokenPipeError:
                    stream.drop(ReaderGone())
                except RulerError as error:
                    stream.drop(error)
            self._unfinished = stream.unfinished


class _FileStream(GroupStream[Group]):
    """The groups of a file. OUTPUT ends where a group is missing, for the run that resumes."""

    def __init__(
        self,
        session: ScoringSession,
        batch: BatchScores,
        pull: Callable[[], Awaitable[Group | None]],
    ) -> None:
        super().__init__(
            session,
            batch,
            pull,
            lambda group: group,
            lambda group: group.size,
            ResultSpool(),
        )
        self._cut = self.unfinished = False

    def drop(self, reason: RulerError) -> None:
        """Stop the run, and return no further group: OUTPUT cannot be written."""
        self._session.stop_signal.stop(reason)
        self._cut, self._kept, self._due = True, False, iter(())
        self._spool.close()

    def _take(self, group: Group, result: GroupResult | None) -> Due[Group] | None:
        if self._cut and result is not None:
            self._session.stats.pay(result)
            return None
        try:
            due = super()._take(group, result)
        except OutputError as error:  # there is no room for groups that wait
            self.drop(error)
            return None
        self._cut = due is None
        return due

    @property
    def _waits(self) -> bool:
        return super()._waits or self._nothing_yet

    @property
    def _nothing_yet(self) -> bool:
        """Tell if, under a cap, nothing is scored or paid for yet: perhaps not one call fits."""
        budget = self._session.panel.budget
        scored = self._session.stats.summary.scored
        return budget.cap is not None and not (scored or budget.spent or budget.unsure)

    def _rest(self) -> Due[Group]:
        if self._nothing_yet and self._session.panel.budget.closed:
            self.unfinished = True
            return iter(())
        return super()._rest()
