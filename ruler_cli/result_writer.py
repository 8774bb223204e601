"""Outcomes of groups → OUTPUT: combined with the batch, counted, annotated, written in input order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from ruler_cli.config import CombineSettings, MaxFailures, ScoreSettings
from ruler_cli.errors import UsageError
from ruler_cli.formats.reader import Reader
from ruler_cli.judging.panel import Panel
from ruler_cli.observer import Observer, Summary
from ruler_cli.reading.input import Input
from ruler_cli.reading.scratch import Scratch
from ruler_cli.types import Annotation, Group, GroupError, GroupResult, GroupScores, Problem, Record, Rollout
from ruler_cli.writing.annotate import Annotated, annotate, annotations_of, group_fields, trajectory_bytes
from ruler_cli.writing.files import AnyOutput, FailedFile
from ruler_cli.writing.output import Writer

if TYPE_CHECKING:  # what is needed from the first reply on is imported then: the first request goes sooner
    from ruler_cli.scoring.batch_statistics import BatchStatistics

_DEEPEST = 100
"""Levels of lists and objects in a reward that is kept: pickle goes no deeper than Python's stack."""


class ResultWriter:
    """Takes groups in input order; those whose scores need the whole batch wait on disk for it."""

    def __init__(
        self,
        settings: ScoreSettings,
        names: Sequence[str],
        counts: RunStats,
        panel: Panel,
        output: AnyOutput,
        failed: FailedFile,
        observer: Observer,
    ) -> None:
        """`names` are those of all judges, in their order."""
        self._settings, self._names, self._panel = settings, names, panel
        self._counts, self.output, self._failed, self._observer = counts, output, failed, observer
        self._waits = _waits(settings)
        self._spool: Scratch | None = None
        """The groups that wait, with what became of each."""
        self._waiting: dict[int, list[Annotated]] = {}
        self.unfinished = self.writing = False

    def begin(self, found: Input, reader: Reader) -> None:
        """What is read, and so how it is written."""
        if reader.format.shape == "columns" and self._settings.on_failure == "drop":
            raise UsageError(
                "--on-failure drop: a record of this dump holds several groups, and cannot be left out "
                "for one of them; give null or keep"
            )
        self._reader = reader
        self._writer = Writer(self.output, found.index if found.scattered else None)

    def unreadable(self, problem: Problem) -> None:
        """Count, tell and keep something of the input that could not be read."""
        self._counts.summary.unreadable += 1
        self._observer.problem(problem)
        self._failed.add(problem)

    async def take(self, group: Group, outcome: GroupResult) -> GroupScores | GroupError:
        """One group, written at once where the batch is not needed; its verdict as far as is known."""
        self._batch.add(outcome)
        verdict = self._combined(outcome, self._early)
        if isinstance(verdict, GroupError) and verdict.kind == "interrupted":
            return verdict
        self._counts.add(group, outcome, verdict)
        if self._waits:
            self._spool = self._spool or Scratch()
            self._spool.put((slim(group), outcome))
        else:
            await self._finish(group, outcome, verdict)
        return verdict

    async def rest(self) -> None:
        """Write what waited, with the batch as it turned out."""
        from ruler_cli.scoring.sums import ENOUGH

        if self._spool is None:
            return
        how, slots = self._settings.combine, self._batch.slots
        if how.debias and not slots.enough:
            self._observer.warn(
                f"--debias: nothing is subtracted; {ENOUGH} groups with something to compare tell what a "
                f"place is worth, here are {slots.groups}"
            )
        self._batch.settle((outcome for _, outcome in self._spool.all()), how)
        for group, outcome in self._spool.all():
            verdict = self._combined(outcome, how)
            await self._finish(group, outcome, verdict)
            await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Give the disk back, and note the batch's figures in the summary."""
        how = self._settings.combine
        checked = how.by_outcome or self._settings.input.outcome is not None
        self._counts.summary.figures = self._batch.figures(debias=how.debias, checked=checked)
        if self._spool is not None:
            self._spool.close()

    @property
    def refuses_null(self) -> str:
        """Who cannot read a reward that is null, where the dump's own readers cannot."""
        return self._reader.format.layout.refuses_null

    @cached_property
    def _batch(self) -> BatchStatistics:
        from ruler_cli.scoring.batch_statistics import BatchStatistics

        return BatchStatistics(self._names)

    def _combined(self, outcome: GroupResult, how: CombineSettings) -> GroupScores | GroupError:
        from ruler_cli.scoring.combine import combine

        return combine(outcome, how, self._batch)

    @property
    def _early(self) -> CombineSettings:
        """How a group is combined before the batch is whole: what needs the batch comes later."""
        how = self._settings.combine
        return replace(how, debias=False, standardize=False) if self._waits else how

    async def _finish(self, group: Group, outcome: GroupResult, verdict: GroupScores | GroupError) -> None:
        self._counts.conclude(verdict)
        if isinstance(verdict, GroupScores):
            self._batch.conclude(group.key, outcome, verdict)
        batch = self._annotated(group, outcome, verdict)
        try:
            if self.output.waits:  # a slow reader of the pipe must not stop the calls in flight
                self.writing = True  # a run that is told to stop does not leave half a record there
                written = await anyio.to_thread.run_sync(self._writer.write, batch, abandon_on_cancel=True)
            else:
                written = self._writer.write(batch)
        finally:
            self.writing = False
        self._counts.summary.written += written

    def _annotated(
        self, group: Group, outcome: GroupResult, verdict: GroupScores | GroupError
    ) -> list[tuple[int, bytes]]:
        """Each record's line number and new bytes; none where it is left out."""
        settings, names = self._settings, self._names
        cost = self._panel.cost(outcome.used)
        form, fields = self._reader.format, group_fields(group, outcome, verdict, names, cost)
        marks = iter(annotations_of(group, outcome, verdict, names))
        if not form.group_in_record:  # there the group's part stands on each rollout
            marks = (Annotation(m.score, {**m.fields, "group": fields}) for m in marks)
        dropped = settings.on_failure == "drop" and isinstance(verdict, GroupError)
        if dropped and isinstance(verdict, GroupError) and verdict.kind == "budget":
            self.unfinished = True  # for the run that goes on, and not in two files
            return [(record.line.number, b"") for record in group.records]
        batch = []
        for record in group.records:
            line, body = record.line, b""
            mine = [(rollout, next(marks)) for rollout in record.rollouts]
            for rollout in record.rollouts:
                if rollout.error is not None and not dropped:  # a dropped record goes there whole
                    raw = trajectory_bytes(record, rollout)
                    self.unreadable(Problem(line.number, rollout.problem, raw, line.place))
            if dropped:
                self._failed.add(Problem(line.number, "dropped", line.raw, line.place))
            else:
                whole = self._whole(record, mine)
                if whole is None:
                    continue
                body = annotate(line.raw, form, whole, fields, settings.on_failure)
            batch.append((line.number, body))
        return batch

    def _whole(self, record: Record, mine: list[Annotated]) -> list[Annotated] | None:
        """The marks of all rollouts of a record; None until the last of its groups is done."""
        if record.parts == 1:
            return mine
        found = self._waiting.setdefault(record.line.number, [])
        found += mine
        if record.part + 1 < record.parts:
            return None
        return sorted(self._waiting.pop(record.line.number), key=lambda pair: pair[0].path)


def _waits(settings: ScoreSettings) -> bool:
    """Whether scores need the whole batch.

    Reliability does, a little: its noise is shrunk towards the batch's. A pipe is not held up for that.
    """
    how, several = settings.combine, settings.ask.passes > 1 or bool(settings.panel)
    return how.debias or how.standardize or (several and settings.output != "-")


def slim(group: Group) -> Group:
    """A group without its messages: its records' bytes hold them, and nobody reads them again."""
    return Group(group.key, tuple(map(_slim, group.records)))


def _slim(record: Record) -> Record:
    whole = record.part + 1 == record.parts  # a line of many groups is written with the last of them
    line = record.line if whole else replace(record.line, raw=b"")
    return replace(record, line=line, rollouts=tuple(map(_slim_rollout, record.rollouts)), tools=None)


def _slim_rollout(rollout: Rollout) -> Rollout:
    reward = rollout.reward if _shallow(rollout.reward, _DEEPEST) else None  # no such object is a number
    return replace(rollout, messages=[], histories=(), tools=None, outcome=None, reward=reward)


def _shallow(value: Any, levels: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(item, levels - 1) for item in items)


_ENOUGH = 20
"""Groups of a stream before which a share of them says nothing."""


class RunStats:
    """The summary of a run as it grows, and whether too much has failed."""

    def __init__(self, most: MaxFailures | None, panel: Panel) -> None:
        """`panel` knows what was asked and what it took."""
        self._most, self._panel = most, panel
        self._began = time.perf_counter()
        self.summary = Summary()

    def add(self, group: Group, outcome: GroupResult, verdict: GroupScores | GroupError) -> None:
        """Count a group that is judged."""
        summary = self.summary
        summary.groups += 1
        summary.kept += outcome.cached
        summary.rollouts += group.compared
        self.pay(outcome)
        if isinstance(verdict, GroupError):
            summary.failed[verdict.kind] = summary.failed.get(verdict.kind, 0) + 1
            # what the dump itself lacks, no judge makes up for
            summary.failed_before += outcome.cached and verdict.kind != "input"
            return
        summary.scored += 1
        summary.alone += outcome.alone
        summary.suspect += sum(rollout.suspect for rollout in verdict.rollouts)
        summary.rescaled += outcome.rescaled
        summary.unknown_ids += outcome.unknown
        summary.shortened += bool(outcome.shortened)
        summary.degraded += verdict.degraded
        summary.windowed += outcome.windows > 1
        summary.escalated += outcome.escalated_to in verdict.used
        summary.cut += any(miss.error.kind == "budget" for miss in outcome.failed_calls)

    def conclude(self, verdict: GroupScores | GroupError) -> None:
        """Count what only the whole batch tells of a group."""
        if isinstance(verdict, GroupScores):
            self.summary.tied += verdict.tied
            self.summary.one_score += verdict.one_score

    def pay(self, outcome: GroupResult) -> None:
        """Count the money of a group, what this run asked for apart from what was kept."""
        summary = self.summary
        self._spent()
        used, paid = self._panel.cost(outcome.used), self._panel.cost(outcome.paid)
        if summary.kept_usd is not None and used is not None and paid is not None:
            summary.kept_usd += used - paid

    def too_many(self, *, begun: bool) -> bool:
        """Whether more has failed than --max-failures allows; what the cap left out is no failure.

        A share is of all groups where their number is known, which it is once judging has `begun`.
        """
        most, summary = self._most, self.summary
        if most is None or (most.percent and not begun):
            return False
        lost = sum(n for kind, n in summary.failed.items() if kind != "budget") + summary.unreadable
        known = summary.total if summary.total is not None else max(summary.groups, _ENOUGH)
        return lost > most.of(known)

    def finish(self, stopped: Exception | None) -> Summary:
        """The whole summary, with the sentence that a run was stopped with."""
        summary, tries = self.summary, self._panel.tries()
        self._spent()
        summary.seconds = time.perf_counter() - self._began
        summary.asked, summary.retried, summary.unanswered = tries.asked, tries.retried, tries.unanswered
        summary.unsure_usd = None if summary.cost_usd is None else self._panel.budget.unsure
        summary.most_in_flight = tries.most
        summary.stopped = None if stopped is None else str(stopped)
        return summary

    def _spent(self) -> None:
        """Every reply that came counts, also one whose group is not written yet."""
        self.summary.usage, self.summary.cost_usd = self._panel.spent()
        if self.summary.cost_usd is None:
            self.summary.kept_usd = None
