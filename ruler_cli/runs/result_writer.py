"""Results of groups → OUTPUT: annotated and written in input order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from ruler_cli.errors import ReaderGone, UnreadableError, UsageError
from ruler_cli.files.containers import Container
from ruler_cli.files.output import FailedFile, Output
from ruler_cli.files.scratch import Scratch
from ruler_cli.formats.reader import Reader
from ruler_cli.runs.batch_scores import BatchScores
from ruler_cli.runs.input import Input
from ruler_cli.runs.session import ScoringSession
from ruler_cli.types import (
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Problem,
    Record,
    Rollout,
)

if TYPE_CHECKING:  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.formats.annotate import Annotated, GroupFields

_READER = 5.0
"""Seconds that a run which is told to stop waits for a reader of stdout that takes nothing."""
_DEEPEST = 100
"""Levels of lists and objects in a reward that is spooled: pickle goes no deeper than Python's stack."""


class ResultSpool:
    """Groups that wait for their batch, on disk, each with its result."""

    def __init__(self) -> None:
        self._file: Scratch | None = None

    def put(self, group: Group, result: GroupResult) -> None:
        """Add a group."""
        self._file = self._file or Scratch()
        self._file.put((slim(group), result))

    def all(self) -> Iterable[tuple[Group, GroupResult]]:
        """Yield all groups; call it after the last `put`."""
        return () if self._file is None else self._file.all()

    def close(self) -> None:
        """Give the disk back."""
        if self._file is not None:
            self._file.close()
            self._file = None


class ResultWriter:
    """Writes results into OUTPUT, in the order in which they are given."""

    def __init__(
        self,
        session: ScoringSession,
        scores: BatchScores,
        output: Output,
        failed: FailedFile,
    ) -> None:
        self._session, self._settings = session, session.settings
        self._scores, self.output, self._failed = scores, output, failed
        self._columns: dict[int, list[Annotated]] = {}
        """Annotations of a line whose other groups are not judged yet."""
        self.unfinished = False

    def begin(self, source: Input, reader: Reader) -> None:
        """Take the format of the input, and the order of its records."""
        if reader.format.shape == "columns" and self._settings.on_failure == "drop":
            problem = "a record holds several groups here and cannot be dropped for one of them"
            raise UsageError(
                problem, "give null or keep", option="on_failure", value="drop"
            )
        self._reader, self._group_in_record = reader, reader.format.group_in_record
        self.output.writer.begin(
            reader.format.layout.ruler,
            lambda: _columns(source.container, reader),
            self._settings.on_failure,
        )
        if self.output.log is None and not source.in_order:
            self.output.keep_order(source.index)

    def unreadable(self, problem: Problem) -> None:
        """Count, report and keep a part of the input that could not be read."""
        self._session.stats.summary.unreadable += 1
        self._session.observer.problem(problem)
        self._failed.add(problem)

    @property
    def refuses_null(self) -> str:
        """The framework whose own reader cannot read a reward that is null, if the dump's is one."""
        return self._reader.format.layout.refuses_null

    async def write(
        self,
        group: Group,
        result: GroupResult,
        scores: GroupScores | GroupError,
        fields: GroupFields,
    ) -> None:
        """Write a group. ReaderGone if the run is told to stop, and the reader of stdout takes nothing."""
        records = self._annotated(group, result, scores, fields)
        if self.output.may_block:
            written = await self._write_in_thread(records)
        else:
            written = self.output.write(records)
        self._session.stats.summary.written += written

    async def _write_in_thread(self, records: list[tuple[int, bytes]]) -> int:
        """Write, without stopping the calls in flight; no half record stays if the reader takes the rest."""
        work = anyio.to_thread.run_sync(
            self.output.write, records, abandon_on_cancel=True
        )
        writing = await self._session.stop_signal.before(work)
        await asyncio.wait((writing,), timeout=_READER)
        if not writing.done():
            writing.cancel()
            raise ReaderGone
        return writing.result()

    def _annotated(
        self,
        group: Group,
        result: GroupResult,
        scores: GroupScores | GroupError,
        fields: GroupFields,
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


def _columns(container: Container, reader: Reader) -> set[str]:
    """Return the members of a record that scores change, as its first record shows."""
    layout = reader.format.layout
    paths = [layout.ruler, layout.reward or ()]
    for line in container.sample(1):
        with suppress(UnreadableError):
            for record in reader.read(line):
                paths += [rollout.path for rollout in record.rollouts]
    return {str(path[0]) for path in paths if path}
