"""Results of groups → OUTPUT: annotated and written in input order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from ruler_cli.errors import UsageError
from ruler_cli.files.input import Input
from ruler_cli.files.output import FailedFile, Output
from ruler_cli.files.scratch import Scratch
from ruler_cli.formats.reader import Reader
from ruler_cli.judging.panel import Panel
from ruler_cli.runs.batch_scores import BatchScores
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import (
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Observer,
    Problem,
    Record,
    Rollout,
)

if TYPE_CHECKING:  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.formats.annotate import Annotated

_DEEPEST = 100
"""Levels of lists and objects in a reward that is spooled: pickle goes no deeper than Python's stack."""


class ResultWriter:
    """Takes results in input order; groups whose scores need the whole batch wait on disk for it."""

    def __init__(
        self,
        settings: ScoreSettings,
        scores: BatchScores,
        panel: Panel,
        output: Output,
        failed: FailedFile,
        observer: Observer,
    ) -> None:
        """`scores` combines the results with their batch, and counts them."""
        self._settings, self._scores, self._panel = settings, scores, panel
        self._stats, self.output, self._failed, self._observer = (
            scores.stats,
            output,
            failed,
            observer,
        )
        self._spool: Scratch | None = None
        """The groups that wait, each with its result."""
        self._budget = panel.budget
        self._columns: dict[int, list[Annotated]] = {}
        """Annotations of a line whose other groups are not judged yet."""
        self.unfinished = self.writing = False

    def begin(self, source: Input, reader: Reader) -> None:
        """Take the format of the input, and the order of its records."""
        if reader.format.shape == "columns" and self._settings.on_failure == "drop":
            problem = "a record of this dump holds several groups, and cannot be left out for one of them"
            raise UsageError(
                problem, "give null or keep", option="on_failure", value="drop"
            )
        self._reader, self._group_in_record = reader, reader.format.group_in_record
        if self.output.log is not None:
            self.output.log.begin(reader.format.layout, self._settings.on_failure)
        elif not source.in_order:
            self.output.keep_order(source.index)

    def unreadable(self, problem: Problem) -> None:
        """Count, report and keep a part of the input that could not be read."""
        self._stats.summary.unreadable += 1
        self._observer.problem(problem)
        self._failed.add(problem)

    async def take(self, group: Group, result: GroupResult) -> GroupScores | GroupError:
        """Write one group, or spool it if its scores need the batch; return them as far as they are known."""
        scores = self._scores.take(group, result)
        if isinstance(scores, GroupError) and scores.kind == "interrupted":
            return scores
        if self._scores.waits or self._nothing_yet:
            self._spool = self._spool or Scratch()
            self._spool.put((slim(group), result))
        else:
            await self._write_spooled()
            await self._finish(group, result, scores)
        return scores

    async def write_rest(self) -> None:
        """Write the groups that waited; none of them if none is scored and the cap let no call go."""
        if self._spool is None:
            return
        if self._nothing_yet and self._budget.closed:
            self.unfinished = True
            return
        if self._scores.waits and (
            warning := self._scores.complete(result for _, result in self._spool.all())
        ):
            self._observer.warn(warning)
        await self._write_spooled()

    @property
    def _nothing_yet(self) -> bool:
        """Tell if, under a cap, nothing is scored or paid for yet: perhaps not one call fits."""
        budget = self._budget
        return budget.cap is not None and not (
            self._stats.summary.scored or budget.spent or budget.unsure
        )

    async def _write_spooled(self) -> None:
        spool, self._spool = self._spool, None
        if spool is None:
            return
        with spool:
            for group, result in spool.all():
                await self._finish(group, result, self._scores.final(result))
                await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Give the disk back, and note the figures of the batch in the summary."""
        self._stats.summary.figures = self._scores.figures()
        if self._spool is not None:
            self._spool.close()

    @property
    def refuses_null(self) -> str:
        """The framework whose own reader cannot read a reward that is null, if the dump's is one."""
        return self._reader.format.layout.refuses_null

    async def _finish(
        self, group: Group, result: GroupResult, scores: GroupScores | GroupError
    ) -> None:
        from ruler_cli.formats.annotate import group_fields

        self._scores.conclude(group, result, scores)
        names, cost = self._scores.names, self._panel.cost(result.used)
        fields = group_fields(
            group, result, scores, names, cost, self._scores.texts.digests(group)
        )
        if isinstance(scores, GroupScores):
            self._observer.scored(group.key, scores.scores, fields)
        records = self._annotated(group, result, scores, fields)
        try:
            if (
                self.output.may_block
            ):  # a slow reader of the pipe must not stop the calls in flight
                self.writing = True  # a run that is told to stop does not leave half a record there
                written = await anyio.to_thread.run_sync(
                    self.output.write, records, abandon_on_cancel=True
                )
            else:
                written = self.output.write(records)
        finally:
            self.writing = False
        self._stats.summary.written += written

    def _annotated(
        self,
        group: Group,
        result: GroupResult,
        scores: GroupScores | GroupError,
        fields: Mapping[str, Any],
    ) -> list[tuple[int, bytes]]:
        """The line number and the new bytes of each record; empty bytes if it is left out."""
        from ruler_cli.formats.annotate import (
            annotate,
            annotations_of,
            trajectory_bytes,
        )

        settings, form = self._settings, self._reader.format
        dropped = settings.on_failure == "drop" and isinstance(scores, GroupError)
        if dropped and isinstance(scores, GroupError) and scores.kind == "budget":
            self.unfinished = True  # for the run that goes on, and not in two files
            return [(record.line.number, b"") for record in group.records]
        annotations: Sequence[Mapping[str, Any]] = annotations_of(
            group, result, scores, self._scores.names
        )
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
                        self.unreadable(
                            Problem(line.number, rollout.problem, raw, line.place)
                        )
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
        return sorted(
            self._columns.pop(record.line.number), key=lambda pair: pair[0].path
        )


def slim(group: Group) -> Group:
    """A group without its messages: they stand in the bytes of its records, and are not read again."""
    return Group(group.key, tuple(map(_slim, group.records)))


def _slim(record: Record) -> Record:
    whole = (
        record.part + 1 == record.parts
    )  # a line of many groups is written with the last of them
    line = record.line if whole else replace(record.line, raw=b"")
    return replace(
        record,
        line=line,
        rollouts=tuple(map(_slim_rollout, record.rollouts)),
        tools=None,
    )


def _slim_rollout(rollout: Rollout) -> Rollout:
    reward = (
        rollout.reward if _shallow(rollout.reward, _DEEPEST) else None
    )  # an object so deep is no number
    return replace(
        rollout, messages=[], histories=(), tools=None, outcome=None, reward=reward
    )


def _shallow(value: Any, levels: int) -> bool:
    items = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else ()
    )
    return levels > 0 and all(_shallow(item, levels - 1) for item in items)
