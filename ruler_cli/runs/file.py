"""`score`, whole: the source is INPUT, the sink OUTPUT. The composition root of a run over a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from ruler_cli.errors import (
    NothingToCompare,
    ReaderGone,
    RulerError,
    UsageError,
)
from ruler_cli.files.containers import Container
from ruler_cli.files.location import Location
from ruler_cli.files.output import (
    FailedFile,
    Output,
    refuse_clashes,
)
from ruler_cli.files.splice import span_at
from ruler_cli.files.values import parts
from ruler_cli.formats.format import Format
from ruler_cli.formats.reader import Reader
from ruler_cli.judges.providers import Price
from ruler_cli.judges.resolve import (
    ResolvedJudge,
    cached_only,
    model_of,
    refuse_word_probabilities,
    resolve,
)
from ruler_cli.judging.panel import open_panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, in_thread, inline, threaded
from ruler_cli.prompting.prompt import distinct_rollouts
from ruler_cli.runs.input import (
    Input,
    open_input,
    refuse_other_groups,
    shown_key,
)
from ruler_cli.runs.places import failed_path, may_replace, refuse_settings
from ruler_cli.runs.session import (
    Scored,
    ScoringSession,
    annotated_records,
    run,
)
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.types import (
    Group,
    GroupError,
    Observer,
    Problem,
    Record,
    Rollout,
    Summary,
    value,
)

if (
    TYPE_CHECKING
):  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.formats.annotate import Annotated

_READER = 5.0
"""Seconds that a run which is told to stop waits for a reader of stdout that takes nothing."""


@value
class RunResult:
    """The counts of a run, and the reason why it stopped before its end.

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
    observer = observer or Observer()
    refuse_clashes(settings.input.source, settings.output, settings.failed)
    refuse_settings(settings)
    # OUTPUT ends before INPUT is closed: bytes behind the last record of a document are copied from there
    with ExitStack() as inputs, ExitStack() as stack:
        resolved = resolve_judges(settings)
        output = stack.enter_context(
            Output(settings.output, force=may_replace(settings))
        )
        failed = FailedFile(failed_path(settings))
        stack.callback(failed.close)
        sink = Annotations(settings, output, failed)
        session, source = await judge_file(
            settings,
            resolved,
            observer,
            stop_signal or StopSignal(),
            sink,
            inputs,
        )
        failed.close()
        summary = session.summary
        # a shard to which no group fell is done, and its OUTPUT is empty
        empty = settings.input.shard is not None and not summary.groups
        scored = summary.scored > 0 or empty
        unfinished = sink.unfinished or session.stop_signal.reason
        whole = not unfinished and (scored or not output.replaces)
        if whole:
            if output.log is not None:
                observer.note(f"inspect_ai writes {output.name}")
                await in_thread(output.log.make)
            output.commit()
    summary, stopped = session.finish()
    if source is not None:
        source.report(observer, end=True)
        # a framework whose own reader cannot read a reward that is null
        name = source.reader.format.refuses_null if source.reader else ""
        if name and summary.failed and settings.on_failure == "null":
            observer.warn(
                f"{name} cannot read null rewards; --on-failure drop leaves them out"
            )
    return RunResult(summary, stopped, whole)


async def judge_file(
    settings: ScoreSettings,
    resolved: Sequence[ResolvedJudge],
    observer: Observer,
    stop_signal: StopSignal,
    output: Annotations | None,
    stack: ExitStack,
) -> tuple[ScoringSession, Input | None]:
    """Have every group of INPUT scored; return the session, and INPUT if it could be opened in time.

    Without an `output` the replies are in the ledger alone. INPUT stays open until `stack` ends.
    """
    # before the input: a judge that is not there costs no wait
    async with AsyncExitStack() as judges:
        session = await open_session(
            settings,
            resolved,
            observer,
            stop_signal,
            judges,
        )
        # in a thread, because a pipe may be silent for long and the survey of a file be long
        opening = in_thread(partial(_open, session, output, stack))
        opened = await stop_signal.before(opening)
        if not opened.done():
            opened.cancel()
            return session, None
        source = opened.result()
        source.report(observer, alone=settings.absolute)
        total = source.total
        if total is not None and source.hashes is not None:
            total -= session.summary.unreadable
        session.begin(total)
        if source.reader is not None:
            if output is not None:
                output.begin(source.reader, source, session)
            groups = FileSource(session, source)
            await run(session, groups, output or Nowhere())
    return session, source


def _open(
    session: ScoringSession, output: Annotations | None, stack: ExitStack
) -> Input:
    """Open INPUT, and refuse it if there is nothing to compare, or if OUTPUT has the scores of other groups."""
    settings = session.settings

    def on_problem(problem: Problem) -> None:
        if output is not None:
            output.unreadable(problem)
        summary = session.summary
        summary.unreadable += 1
        # of a file that is read once the number of lines is known, and that of groups as far as it is read
        if summary.total is not None:
            summary.total -= 1
        session.observer.problem(problem)
        session.stop_if_too_many()

    def on_open(container: Container) -> None:
        if output is not None:
            output.opened(container)

    source = open_input(
        settings.input,
        stack,
        on_problem,
        on_open,
        draw=settings.draw,
        once=True,
    )
    if error := nothing_to_compare(settings, source):
        session.observer.note(source.brief())
        raise error
    refuse_other_groups(source, settings.output, force=may_replace(settings))
    return source


class FileSource:
    """The groups of INPUT."""

    endless = False
    on_disk = True

    def __init__(
        self,
        session: ScoringSession,
        source: Input,
        groups: Iterator[Group] | None = None,
    ) -> None:
        """`groups` are those of a further reading, `source.again()`."""
        self._stop_signal = session.stop_signal
        pull = threaded if source.streamed else inline
        self._pull = pull(groups or source.groups)

    async def next(self) -> Group | None:
        """Return the next group; None after the last, or where INPUT cannot be read on."""
        try:
            return await self._pull()
        except RulerError as error:
            # calls in flight are paid for and may finish
            self._stop_signal.stop(error)
            return None


class Annotations:
    """The sink of a file run: OUTPUT, with each record annotated, in the order of INPUT.

    `unfinished`: a group is left out for the run that goes on.
    """

    def __init__(
        self, settings: ScoreSettings, output: Output, failed: FailedFile
    ) -> None:
        self.unfinished = False
        # a pipe is not held up for the reliability of scores
        self.at_once = settings.output == "-" and settings.draw is None
        self._settings = settings
        self._output = output
        self._failed = failed
        self._columns: dict[int, list[Annotated]] = {}
        """Annotations of a line whose other groups are not judged yet."""
        self._session: ScoringSession
        self._form: Format

    def opened(self, container: Container) -> None:
        """Take the container of INPUT; UsageError if OUTPUT cannot be written from it."""
        self._output.write_as(container)

    def begin(
        self, reader: Reader, source: Input, session: ScoringSession
    ) -> None:
        """Begin OUTPUT."""
        self._session = session
        self._form = form = reader.format
        how = self._settings.on_failure
        if form.shape == "columns" and how == "drop":
            raise UsageError(
                "a record holds several groups here and cannot be dropped for one of them",
                "use null or keep",
                place="--on-failure drop",
            )
        self._output.writer.begin(parts(form.ruler), how)
        if self._output.log is None and not source.in_order:
            self._output.keep_order(source.order())

    def unreadable(self, problem: Problem) -> None:
        """Keep the bytes of a part of INPUT; UsageError if OUTPUT takes its place, and would lose it."""
        output = self._settings.output
        in_place = output != "-" and Location(self._settings.input.source).same(
            output
        )
        if problem.too_large and in_place and self._output.log is None:
            lost = f"is INPUT, and would lose {problem.where}, which"
            raise UsageError(f"{lost} {problem.reason}", place=output)
        self._failed.add(problem)

    async def take(self, scored: Scored) -> None:
        """Write a group. ReaderGone if the run is told to stop, and the reader of stdout takes nothing."""
        records = self._annotated(scored)
        if self._output.may_block:
            # calls in flight go on, and no half record stays if the reader takes the rest
            work = anyio.to_thread.run_sync(
                self._output.write, records, abandon_on_cancel=True
            )
            writing = await self._session.stop_signal.before(work)
            await asyncio.wait((writing,), timeout=_READER)
            if not writing.done():
                writing.cancel()
                raise ReaderGone
            written = writing.result()
        else:
            written = self._output.write(records)
        self._session.summary.written += written

    def _annotated(self, scored: Scored) -> list[tuple[int, bytes]]:
        """Return the line number and the new bytes of each record; empty bytes if it is left out."""
        from ruler_cli.formats.annotate import annotate

        group, result, scores, part = scored
        how = self._settings.on_failure
        form = self._form
        if isinstance(scores, GroupError) and how == "drop":
            return self._dropped(group, scores)
        records = []
        reasons = iter(result.reasons)
        # without a record for it the group's part stands on each rollout
        apart = not form.group_in_record
        for record, annotated in annotated_records(
            scored, self._session.names, apart=apart
        ):
            line = record.line
            for rollout, _ in annotated:
                if error := next(reasons, ""):
                    self._report_rollout(record, rollout, error)
            if record.parts > 1:
                # a line of several groups is written with the last of them
                annotated[:0] = self._columns.pop(line.number, [])
                if record.part + 1 < record.parts:
                    self._columns[line.number] = annotated
                    continue
                annotated.sort(key=lambda pair: pair[0].path)
            body = annotate(line.raw, form, annotated, part.written, how)
            records.append((line.number, body))
        return records

    def _report_rollout(
        self, record: Record, rollout: Rollout, error: str
    ) -> None:
        """Report a rollout that could not be judged, and keep the bytes of its own object."""
        line = record.line
        listed = rollout.path and isinstance(rollout.path[0], int)
        span = None if listed else span_at(line.raw, rollout.path, 0)
        raw = line.raw[slice(*span)] if span else b""
        place = replace(rollout, error="").problem
        problem = Problem(line.number, f"{place}{error}", raw, line.place)
        self._session.summary.unreadable += 1
        self._session.observer.problem(problem)
        self._failed.add(problem)

    def _dropped(
        self, group: Group, error: GroupError
    ) -> list[tuple[int, bytes]]:
        """Leave a group out of OUTPUT; the failed file gets it, unless the run that goes on does."""
        lines = [record.line for record in group.records]
        if error.kind == "budget":
            self.unfinished = True
        else:
            for line in lines:
                dropped = Problem(line.number, "dropped", line.raw, line.place)
                self._failed.add(dropped)
        return [(line.number, b"") for line in lines]


class Nowhere:
    """The sink of a worker: the ledger has the replies, and another process writes OUTPUT."""

    at_once = True

    async def take(self, scored: Scored) -> None:
        """Leave it to the process that writes OUTPUT."""


async def open_session(
    settings: ScoreSettings,
    resolved: Sequence[ResolvedJudge],
    observer: Observer,
    stop_signal: StopSignal,
    stack: AsyncExitStack,
) -> ScoringSession:
    """Open the judges of a run, and its ledger unless all judges are embedded: those cost nothing to ask.

    `stack` closes them. No generator does: a loop that ends closes all generators at once, also one that
    another still uses.
    """
    ledger = None
    if settings.ledger is not None and not all(
        target.embedded for target in resolved
    ):
        ledger = stack.enter_context(Ledger(settings.ledger, settings.ledgers))
    for target in resolved:
        if target.judge is not None:
            await stack.enter_async_context(target.judge)
    panel = open_panel(settings, resolved, stop_signal, ledger)
    session = ScoringSession(settings, observer, panel)
    return await stack.enter_async_context(session)


def refuse_reading(settings: ScoreSettings) -> None:
    """Raise UsageError for a judge that is read by the probability of its words, and tells none."""
    for judge, ask in zip(settings.judges, settings.asks, strict=True):
        by_words = ask.by_probability and not ask.typed
        if by_words and not settings.cached_only:
            refuse_word_probabilities(judge)


def resolve_judges(settings: ScoreSettings) -> list[ResolvedJudge]:
    """Resolve the judges of a run, not yet open; UsageError for those that cannot be asked."""
    for error in judge_errors(settings):
        raise error
    resolver = cached_only if settings.cached_only else resolve
    return [resolver(judge) for judge in settings.judges]


def judge_errors(settings: ScoreSettings) -> Iterator[UsageError]:
    """Yield the errors of judges that cannot be asked as the settings say, missing credentials among them."""
    refuse: Callable[[JudgeSettings], object] = resolve
    if settings.cached_only:
        refuse = cached_only
    checks: list[Callable[[], object]] = [partial(refuse_reading, settings)]
    for judge in settings.judges:
        checks.append(partial(refuse, judge))
        checks.append(partial(_refuse_price, settings, judge))
    for check in checks:
        try:
            check()
        except UsageError as error:
            yield error


def _refuse_price(settings: ScoreSettings, judge: JudgeSettings) -> None:
    refuse_unpriced(settings, judge, model_of(judge).price)


def refuse_unpriced(
    settings: ScoreSettings, judge: JudgeSettings, price: Price | None
) -> None:
    """Raise UsageError for a judge without a price, if the run has a cost cap."""
    capped = settings.pool.max_cost is not None and not settings.cached_only
    if capped and price is None:
        raise UsageError(
            f"the price of {judge.label} is not known",
            "use --price IN,OUT, in USD per million prompt and completion tokens",
            place="--max-cost",
        )


def nothing_to_compare(
    settings: ScoreSettings, source: Input
) -> NothingToCompare | None:
    """Return the error with which a file is refused before a call: no group has two rollouts that differ.

    It is read as far as the first group that has. None for a stream, for a file about which no judge would be
    asked, and where a part of INPUT, or its replies in the ledger, are asked for as they are.
    """
    survey = source.survey
    part = settings.input.shard is not None or settings.input.limit is not None
    as_they_are = settings.absolute or part or settings.cached_only
    if survey is None or source.streamed or as_they_are:
        return None
    alone = survey.largest == 1
    askable = False
    for group in source.again():
        distinct = distinct_rollouts(group, settings.ask)
        if distinct > 1:
            return None
        askable = askable or distinct == 1
        if alone and askable:
            break
    return NothingToCompare(shown_key(survey.reader)) if askable else None
