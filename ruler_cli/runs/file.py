"""`score`, whole: read the groups, ask the judges, write the lines. The composition root of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from ruler_cli.errors import (
    NothingToCompare,
    OutputError,
    ReaderGone,
    RulerError,
    UnreadableError,
    UsageError,
)
from ruler_cli.files.containers import Container
from ruler_cli.files.location import Location
from ruler_cli.files.output import (
    FailedFile,
    Output,
    refuse_clashes,
)
from ruler_cli.files.scratch import Scratch
from ruler_cli.files.splice import span_at
from ruler_cli.files.values import parts
from ruler_cli.formats.reader import Reader
from ruler_cli.judges.providers import MissingCredentialsError, Price
from ruler_cli.judges.resolve import (
    ResolvedJudge,
    cached_only,
    model_of,
    refuse_judge,
    refuse_word_probabilities,
    resolve,
)
from ruler_cli.judging.panel import Panel, open_panel
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
from ruler_cli.runs.session import Due, GroupStream, Scored, ScoringSession
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.types import (
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Observer,
    Problem,
    Record,
    Rollout,
    Summary,
)

if TYPE_CHECKING:  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.formats.annotate import Annotated
    from ruler_cli.results.record import GroupRecord

_HELD_GROUPS = 20
_HELD_BYTES = 64 << 20
"""Groups of a pipe with nothing to compare, and bytes of them, that are held before the first is sent."""
_READER = 5.0
"""Seconds that a run which is told to stop waits for a reader of stdout that takes nothing."""
_DEEPEST = 100
"""Levels of lists and objects in a reward that is held on disk: pickle goes no deeper than Python's stack."""


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
    observer = observer or Observer()
    stop_signal = stop_signal or StopSignal()
    resolved = resolve_judges(settings)
    # OUTPUT ends before INPUT is closed: bytes behind the last record of a document are copied from there
    with ExitStack() as inputs, ExitStack() as stack:
        output = stack.enter_context(
            Output(settings.output, force=may_replace(settings))
        )
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
    source = settings.input
    refuse_clashes(source.source, settings.output, settings.failed)
    refuse_settings(settings)
    if settings.cached_only and settings.ledger is None:
        remedy = "leave out --ledger none"
        raise UsageError("answers are in the ledger", remedy, place="--cached-only")
    for judge in settings.judges if settings.cached_only else ():
        cached_only(judge)
    refuse_reading(settings)


def refuse_reading(settings: ScoreSettings) -> None:
    """Raise UsageError for a judge that is read by the probability of its words, and tells none."""
    for judge, ask in zip(settings.judges, settings.asks, strict=True):
        by_words = ask.by_probability and not ask.typed
        if by_words and not settings.cached_only:
            refuse_word_probabilities(judge)


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
    try:
        refuse_reading(settings)
    except UsageError as error:
        yield error
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
        remedy = "give it with --price IN,OUT, in USD per million prompt and completion tokens"
        raise UsageError(
            f"the price of {judge.label} is not known", remedy, place="--max-cost"
        )


def nothing_to_compare(
    settings: ScoreSettings, source: Input
) -> NothingToCompare | None:
    """Return the error with which a file is refused before a call: no group has two rollouts that differ.

    It is read as far as the first group that has. None for a stream, for a file about which no judge would be
    asked, and where a part of INPUT, or its replies in the ledger, are asked for as they are.
    """
    if source.survey is None or source.reader is None or not _must_compare(settings):
        return None
    alone = source.survey.largest <= 1
    askable = False
    for group in source.again():
        distinct = distinct_rollouts(group, settings.ask)
        if distinct > 1:
            return None
        askable = askable or distinct == 1
        if alone and askable:
            break
    return NothingToCompare(shown_key(source.reader)) if askable else None


def _must_compare(settings: ScoreSettings) -> bool:
    part = settings.input.shard is not None or settings.input.limit is not None
    return not (settings.absolute or part or settings.cached_only)


def held_groups(
    settings: ScoreSettings, source: Input, observer: Observer
) -> Iterator[Group]:
    """Yield the groups of INPUT; the first ones of a stream are held until one has something to compare.

    NothingToCompare if the stream ends before; no more than `_HELD_GROUPS` are held.
    """
    if source.survey is not None or not _must_compare(settings):
        yield from source.groups
        return
    held = list[Group]()
    askable = False
    for group in source.groups:
        held.append(group)
        distinct = distinct_rollouts(group, settings.ask)
        askable = askable or distinct == 1
        if distinct > 1:
            break
        size = sum(one.size for one in held)
        if len(held) == _HELD_GROUPS or size > _HELD_BYTES:
            observer.warn(
                f"the first {len(held)} groups have nothing to compare; sending them anyway"
            )
            break
    else:
        if askable and source.reader is not None:
            raise NothingToCompare(shown_key(source.reader))
    yield from held
    held.clear()
    yield from source.groups


def _own_bytes(record: Record, rollout: Rollout) -> bytes:
    """The bytes of a rollout's own object; empty for an item of lists."""
    raw = record.line.raw
    listed = rollout.path and isinstance(rollout.path[0], int)
    span = None if listed else span_at(raw, rollout.path, 0)
    return raw[slice(*span)] if span else b""


class _FileRun(GroupStream):
    """One run over a file: INPUT, the stream of its groups, and OUTPUT, written in the order of INPUT.

    OUTPUT ends where a group is missing, for the run that resumes. Groups that wait for their batch are held
    on disk.
    """

    store = Scratch

    def __init__(
        self, session: ScoringSession, output: Output, failed: FailedFile
    ) -> None:
        super().__init__(session)
        self._settings = session.settings
        self._output = output
        self._failed = failed
        self._input: Input | None = None
        self._reader: Reader | None = None
        self._columns: dict[int, list[Annotated]] = {}
        """Annotations of a line whose other groups are not judged yet."""
        self._unfinished = self._cut = False

    async def all(self, stack: ExitStack) -> None:
        """Read, judge and write every group, until the end or until the run is told to stop."""
        session = self._session
        settings = self._settings
        # in a thread, because a pipe may be silent for long and the survey of a file be long
        opening = in_thread(partial(self._open, stack))
        opened = await session.stop_signal.before(opening)
        if not opened.done():
            opened.cancel()
            return
        source = self._input = opened.result()
        source.report(session.observer, alone=settings.absolute)
        session.begin(source.total)
        session.stop_if_too_many()
        if source.reader is None:
            return
        form = source.reader.format
        if form.shape == "columns" and settings.on_failure == "drop":
            problem = "a record holds several groups here and cannot be dropped for one of them"
            remedy = "give null or keep"
            raise UsageError(problem, remedy, place="--on-failure drop")
        self._reader = reader = source.reader
        self._output.writer.begin(
            parts(form.ruler),
            lambda: _columns(source.container, reader),
            settings.on_failure,
        )
        if self._output.log is None and not source.in_order:
            self._output.keep_order(source.index)
        groups = held_groups(settings, source, session.observer)
        self._pull = (threaded if source.waits else inline)(groups)
        async with self:
            async for scored in self:
                try:
                    await self._write(scored)
                except BrokenPipeError:
                    self._drop(ReaderGone())
                except RulerError as error:
                    self._drop(error)

    @property
    def whole(self) -> bool:
        """Tell if OUTPUT holds all that it is to hold."""
        return not (self._unfinished or self._session.stop_signal.reason)

    @property
    def scored(self) -> bool:
        """Tell if any group got a score; a shard to which no group fell is done, and its OUTPUT is empty."""
        summary = self._session.stats.summary
        empty = self._settings.input.shard is not None and not summary.groups
        return summary.scored > 0 or empty

    def finish(self, *, written: bool) -> RunResult:
        """Return the counts of the whole run, and why it stopped before its end; `written`: OUTPUT is."""
        observer = self._session.observer
        summary, stopped = self._session.finish()
        if self._input:
            self._input.report(observer, end=True)
        # a framework whose own reader cannot read a reward that is null
        name = self._reader.format.refuses_null if self._reader else ""
        if name and summary.failed and self._settings.on_failure == "null":
            null = f"{name} cannot read null rewards"
            observer.warn(f"{null}; --on-failure drop leaves them out")
        return RunResult(summary, stopped, written)

    def _open(self, stack: ExitStack) -> Input:
        settings = self._settings
        write_as = self._output.write_as
        source = open_input(
            settings.input, stack, self._unreadable, write_as, draw=settings.draw
        )
        if error := nothing_to_compare(settings, source):
            self._session.observer.note(source.found())
            raise error
        refuse_other_groups(source, settings.output, force=may_replace(settings))
        return source

    def _unreadable(self, problem: Problem) -> None:
        output = self._settings.output
        source = self._settings.input.source
        in_place = output != "-" and Location(source).same(output)
        if problem.too_large and in_place and self._output.log is None:
            lost = f"is INPUT, and would lose {problem.where}, which"
            raise UsageError(f"{lost} {problem.reason}", place=output)
        self._report(problem)
        self._session.stop_if_too_many()

    def _report(self, problem: Problem) -> None:
        """Count, report and keep a part of the input that could not be read."""
        self._session.stats.summary.unreadable += 1
        self._session.observer.problem(problem)
        self._failed.add(problem)

    async def __anext__(self) -> Scored:
        return await self.next()

    async def _next_group(self) -> Group | None:
        try:
            return await self._pull()
        except RulerError as error:  # calls in flight are paid for and may finish
            self._session.stop_signal.stop(error)
            return None

    def _drop(self, reason: RulerError) -> None:
        """Stop the run, and write no further group: OUTPUT cannot be written."""
        self._session.stop_signal.stop(reason)
        self._cut = True
        self._due = iter(())
        self._forget()

    def _hold(self, group: Group, result: GroupResult) -> None:
        super()._hold(slim(group), result)

    def _whole(self, group: Group) -> Group | None:
        assert self._reader is not None  # noqa: S101 - it read the group
        with suppress(UnreadableError):
            read = self._reader.read
            records = [read(one.line)[one.part] for one in group.records]
            return Group(group.key, tuple(records))
        return None  # of a line of several groups the last alone has the bytes

    def _take(self, group: Group, result: GroupResult | None) -> Due | None:
        if self._cut and result is not None:
            self._session.stats.pay(result)
            return None
        try:
            due = super()._take(group, result)
        except OutputError as error:  # there is no room for groups that wait
            self._drop(error)
            return None
        self._cut = due is None
        return due

    async def _write(self, scored: Scored) -> None:
        """Write a group. ReaderGone if the run is told to stop, and the reader of stdout takes nothing."""
        records = self._annotated(*scored)
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
        self._session.stats.summary.written += written

    def _annotated(
        self,
        group: Group,
        result: GroupResult,
        scores: GroupScores | GroupError,
        part: GroupRecord,
    ) -> list[tuple[int, bytes]]:
        """The line number and the new bytes of each record; empty bytes if it is left out."""
        from ruler_cli.formats.annotate import annotate
        from ruler_cli.results.record import rollout_records

        assert self._reader is not None  # noqa: S101 - it has read the group
        how = self._settings.on_failure
        form = self._reader.format
        if isinstance(scores, GroupError) and how == "drop":
            return self._dropped(group, scores)
        names = self._session.scores.names
        rollouts = rollout_records(group, scores, names, part)
        annotations: list[Mapping[str, Any]] = [vars(rollout) for rollout in rollouts]
        written = part.written
        # without a record for it the group's part stands on each rollout
        if not form.group_in_record:
            annotations = [
                {**annotation, "group": written} for annotation in annotations
            ]
        lines = []
        rest = iter(annotations)
        faults = iter(result.faults)
        for record in group.records:
            line = record.line
            mine = [(rollout, next(rest)) for rollout in record.rollouts]
            for rollout, fault in zip(record.rollouts, faults, strict=False):
                if fault:
                    raw = _own_bytes(record, rollout)
                    place = replace(rollout, error="").problem
                    reason = f"{place}{fault}"
                    self._report(Problem(line.number, reason, raw, line.place))
            if record.parts > 1:
                # a line of several groups is written with the last of them
                mine = self._columns.pop(line.number, []) + mine
                if record.part + 1 < record.parts:
                    self._columns[line.number] = mine
                    continue
                mine.sort(key=lambda pair: pair[0].path)
            body = annotate(line.raw, form, mine, written, how)
            lines.append((line.number, body))
        return lines

    def _dropped(self, group: Group, error: GroupError) -> list[tuple[int, bytes]]:
        """Leave a group out of OUTPUT; the failed file gets it, unless the run that goes on does."""
        lines = [record.line for record in group.records]
        if error.kind == "budget":
            self._unfinished = True
        else:
            for line in lines:
                dropped = Problem(line.number, "dropped", line.raw, line.place)
                self._failed.add(dropped)
        return [(line.number, b"") for line in lines]


def slim(group: Group) -> Group:
    """Return a group without its messages: they stand in the bytes of its records, and are not read again."""

    def slim_rollout(rollout: Rollout) -> Rollout:
        # an object so deep is no number
        reward = rollout.reward if _shallow(rollout.reward, _DEEPEST) else None
        return replace(
            rollout, messages=[], histories=(), tools=None, outcome=None, reward=reward
        )

    def slim_record(record: Record) -> Record:
        # a line of several groups is written with the last of them
        last = record.part + 1 == record.parts
        line = record.line if last else replace(record.line, raw=b"")
        rollouts = tuple(map(slim_rollout, record.rollouts))
        return replace(record, line=line, rollouts=rollouts, tools=None)

    return Group(group.key, tuple(map(slim_record, group.records)))


def _shallow(value: Any, levels: int) -> bool:
    items: Iterable[Any] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        items = value.values()
    return levels > 0 and all(_shallow(item, levels - 1) for item in items)


def _columns(container: Container, reader: Reader) -> set[str]:
    """Return the members of a record that scores change, as its first record shows."""
    form = reader.format
    paths = [parts(form.ruler), parts(form.reward)]
    for line in container.sample(1):
        with suppress(UnreadableError):
            for record in reader.read(line):
                paths += [rollout.path for rollout in record.rollouts]
    return {str(path[0]) for path in paths if path}
