"""Results of groups → OUTPUT: combined with the batch, counted, annotated, written in input order."""

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
from ruler_cli.types import Group, GroupError, GroupResult, GroupScores, Problem, Record, Rollout
from ruler_cli.writing.output import FailedFile, Output

if TYPE_CHECKING:  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.scoring.batch_statistics import BatchStatistics
    from ruler_cli.writing.annotate import Annotated

_DEEPEST = 100
"""Levels of lists and objects in a reward that is spooled: pickle goes no deeper than Python's stack."""


class ResultWriter:
    """Takes results in input order; groups whose scores need the whole batch wait on disk for it."""

    def __init__(
        self,
        settings: ScoreSettings,
        names: Sequence[str],
        stats: RunStats,
        panel: Panel,
        output: Output,
        failed: FailedFile,
        observer: Observer,
    ) -> None:
        """`names` are those of all judges, in their order."""
        self._settings, self._names, self._panel = settings, names, panel
        self._stats, self.output, self._failed, self._observer = stats, output, failed, observer
        self._waits = _waits(settings)
        how = settings.combine
        # before the batch is whole, what needs the batch is left out
        self._early = replace(how, debias=False, standardize=False) if self._waits else how
        self._spool: Scratch | None = None
        """The groups that wait, each with its result."""
        self._columns: dict[int, list[Annotated]] = {}
        """Annotations of a line whose other groups are not judged yet."""
        self.unfinished = self.writing = False

    def begin(self, source: Input, reader: Reader) -> None:
        """Take the format of the input, and the order of its records."""
        if reader.format.shape == "columns" and self._settings.on_failure == "drop":
            raise UsageError(
                "--on-failure drop: a record of this dump holds several groups, and cannot be left out "
                "for one of them; give null or keep"
            )
        self._reader, self._group_in_record = reader, reader.format.group_in_record
        if source.scattered:
            self.output.keep_order(source.index)

    def unreadable(self, problem: Problem) -> None:
        """Count, report and keep a part of the input that could not be read."""
        self._stats.summary.unreadable += 1
        self._observer.problem(problem)
        self._failed.add(problem)

    async def take(self, group: Group, result: GroupResult) -> GroupScores | GroupError:
        """Write one group, or spool it if its scores need the batch; return them as far as they are known."""
        self._batch.add(result)
        scores = self._combined(result, self._early)
        if isinstance(scores, GroupError) and scores.kind == "interrupted":
            return scores
        self._stats.add(group, result, scores)
        if self._waits:
            self._spool = self._spool or Scratch()
            self._spool.put((slim(group), result))
        else:
            await self._finish(group, result, scores)
        return scores

    async def write_rest(self) -> None:
        """Write the groups that waited for the whole batch."""
        from ruler_cli.scoring.position_bias import ENOUGH

        if self._spool is None:
            return
        how, positions = self._settings.combine, self._batch.position_bias
        if how.debias and not positions.enough:
            self._observer.warn(
                f"--debias: nothing is subtracted; to measure position bias takes {ENOUGH} groups with "
                f"something to compare, here are {positions.groups}"
            )
        self._batch.refit_noise((result for _, result in self._spool.all()), how)
        for group, result in self._spool.all():
            await self._finish(group, result, self._combined(result, how))
            await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Give the disk back, and note the figures of the batch in the summary."""
        how = self._settings.combine
        checked = how.by_outcome or self._settings.input.outcome is not None
        self._stats.summary.figures = self._batch.figures(debias=how.debias, checked=checked)
        if self._spool is not None:
            self._spool.close()

    @property
    def refuses_null(self) -> str:
        """The framework whose own reader cannot read a reward that is null, if the dump's is one."""
        return self._reader.format.layout.refuses_null

    @cached_property
    def _batch(self) -> BatchStatistics:
        from ruler_cli.scoring.batch_statistics import BatchStatistics

        return BatchStatistics(self._names)

    def _combined(self, result: GroupResult, how: CombineSettings) -> GroupScores | GroupError:
        from ruler_cli.scoring.combine import combine

        return combine(result, how, self._batch)

    async def _finish(self, group: Group, result: GroupResult, scores: GroupScores | GroupError) -> None:
        self._stats.conclude(scores)
        if isinstance(scores, GroupScores):
            self._batch.add_scores(group.key, result, scores)
        records = self._annotated(group, result, scores)
        try:
            if self.output.may_block:  # a slow reader of the pipe must not stop the calls in flight
                self.writing = True  # a run that is told to stop does not leave half a record there
                written = await anyio.to_thread.run_sync(self.output.write, records, abandon_on_cancel=True)
            else:
                written = self.output.write(records)
        finally:
            self.writing = False
        self._stats.summary.written += written

    def _annotated(
        self, group: Group, result: GroupResult, scores: GroupScores | GroupError
    ) -> list[tuple[int, bytes]]:
        """The line number and the new bytes of each record; empty bytes if it is left out."""
        from ruler_cli.writing.annotate import annotate, trajectory_bytes
        from ruler_cli.writing.fields import annotations_of, group_fields

        settings, form = self._settings, self._reader.format
        fields = group_fields(group, result, scores, self._names, self._panel.cost(result.used))
        dropped = settings.on_failure == "drop" and isinstance(scores, GroupError)
        if dropped and isinstance(scores, GroupError) and scores.kind == "budget":
            self.unfinished = True  # for the run that goes on, and not in two files
            return [(record.line.number, b"") for record in group.records]
        annotations = annotations_of(group, result, scores, self._names)
        if not self._group_in_record:  # there the group's part stands on each rollout
            annotations = [{**each, "group": fields} for each in annotations]
        records, rest = [], iter(annotations)
        for record in group.records:
            line, body = record.line, b""
            mine = [(rollout, next(rest)) for rollout in record.rollouts]
            if dropped:
                self._failed.add(Problem(line.number, "dropped", line.raw, line.place))
            else:
                for rollout in record.rollouts:
                    if rollout.error is not None:
                        raw = trajectory_bytes(record, rollout)
                        self.unreadable(Problem(line.number, rollout.problem, raw, line.place))
                whole = self._whole(record, mine)
                if whole is None:
                    continue
                body = annotate(line.raw, form, whole, fields, settings.on_failure)
            records.append((line.number, body))
        return records

    def _whole(self, record: Record, mine: list[Annotated]) -> list[Annotated] | None:
        """The annotations of all rollouts of a record; None until the last of its groups is done."""
        if record.parts == 1:
            return mine
        line = self._columns.setdefault(record.line.number, [])
        line += mine
        if record.part + 1 < record.parts:
            return None
        return sorted(self._columns.pop(record.line.number), key=lambda pair: pair[0].path)


def _waits(settings: ScoreSettings) -> bool:
    """Tell if scores need the whole batch.

    Reliability does, a little: its noise is shrunk towards the batch's. A pipe is not held up for that.
    """
    how, several = settings.combine, settings.ask.passes > 1 or bool(settings.panel)
    return how.debias or how.standardize or (several and settings.output != "-")


def slim(group: Group) -> Group:
    """A group without its messages: they stand in the bytes of its records, and are not read again."""
    return Group(group.key, tuple(map(_slim, group.records)))


def _slim(record: Record) -> Record:
    whole = record.part + 1 == record.parts  # a line of many groups is written with the last of them
    line = record.line if whole else replace(record.line, raw=b"")
    return replace(record, line=line, rollouts=tuple(map(_slim_rollout, record.rollouts)), tools=None)


def _slim_rollout(rollout: Rollout) -> Rollout:
    reward = rollout.reward if _shallow(rollout.reward, _DEEPEST) else None  # an object so deep is no number
    return replace(rollout, messages=[], histories=(), tools=None, outcome=None, reward=reward)


def _shallow(value: Any, levels: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(item, levels - 1) for item in items)


_ENOUGH = 20
"""Groups of a stream from which on a share of them is one."""


class RunStats:
    """The summary of a run as it grows, and the bound on its failures."""

    def __init__(self, most: MaxFailures | None, panel: Panel) -> None:
        """`panel` counts the calls, and knows the prices."""
        self._most, self._panel = most, panel
        self._began = time.perf_counter()
        self.summary = Summary()

    def add(self, group: Group, result: GroupResult, scores: GroupScores | GroupError) -> None:
        """Count a group that is judged."""
        summary = self.summary
        summary.groups += 1
        summary.kept += result.cached
        summary.rollouts += group.compared
        self.pay(result)
        if isinstance(scores, GroupError):
            summary.failed[scores.kind] = summary.failed.get(scores.kind, 0) + 1
            # no judge makes up for what the dump itself lacks
            summary.failed_before += result.cached and scores.kind != "input"
            return
        summary.scored += 1
        summary.alone += result.alone
        summary.suspect += sum(rollout.suspect for rollout in scores.rollouts)
        summary.rescaled += result.rescaled
        summary.unknown_ids += result.unknown
        summary.shortened += bool(result.shortened)
        summary.degraded += scores.degraded
        summary.windowed += result.windows > 1
        summary.escalated += result.escalated_to in scores.used
        summary.cut += any(call.error.kind == "budget" for call in result.failed_calls)

    def conclude(self, scores: GroupScores | GroupError) -> None:
        """Count what is known of a group only with the whole batch."""
        if isinstance(scores, GroupScores):
            self.summary.tied += scores.tied
            self.summary.one_score += scores.one_score

    def pay(self, result: GroupResult) -> None:
        """Count the money of the group's cached replies; that of this run is known by the panel."""
        summary = self.summary
        if summary.kept_usd is None or result.used == result.paid:
            return
        used, paid = self._panel.cost(result.used), self._panel.cost(result.paid)
        if used is not None and paid is not None:
            summary.kept_usd += used - paid

    def too_many(self, *, begun: bool) -> bool:
        """Tell if more has failed than --max-failures allows; what the cap left out is no failure.

        A share is of all groups if their number is known, once judging has `begun`.
        """
        most, summary = self._most, self.summary
        if most is None or (most.percent and not begun):
            return False
        lost = sum(n for kind, n in summary.failed.items() if kind != "budget") + summary.unreadable
        known = summary.total if summary.total is not None else max(summary.groups, _ENOUGH)
        return lost > most.of(known)

    def finish(self, stopped: Exception | None) -> Summary:
        """Return the whole summary, with the sentence that the run was stopped with."""
        summary, stats = self.summary, self._panel.stats()
        self.refresh()
        summary.seconds = time.perf_counter() - self._began
        summary.asked, summary.retried, summary.unanswered = stats.calls, stats.retried, stats.unanswered
        summary.unsure_usd = None if summary.cost_usd is None else self._panel.budget.unsure
        summary.most_in_flight = stats.most
        summary.stopped = None if stopped is None else str(stopped)
        return summary

    def refresh(self) -> None:
        """Note the tokens and USD of all replies, also of those whose group is not written yet."""
        self.summary.usage, self.summary.cost_usd = self._panel.spent()
        if self.summary.cost_usd is None:
            self.summary.kept_usd = None
