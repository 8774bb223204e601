"""Many files as one INPUT: a directory or a pattern, each file opened as the container that it is.

Which files hold records is only known with the format: a file without a record of that format is left
out, with a sentence. A damaged file is a problem of its own and does not stop the others: its records
before the damage are read.

A Harbor job is a directory of trials, each with `result.json` and `agent/trajectory.json`. The record of a
trial is `{"result": …, "trajectory": …, "reward_file": …}` of the bytes of its files. `reward_file` is
`verifier/reward.json`, or `{"reward": …}` of `verifier/reward.txt`; the record has it only if the result
holds no rewards.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePath

from ruler_cli.errors import ForeignError, InputChanged, UnreadableError, UsageError
from ruler_cli.files.compression import (
    BOM,
    PARQUET_MAGIC,
    ZIP_MAGIC,
    decompressed,
    readable,
)
from ruler_cli.files.container import (
    Container,
    MultiFileContainer,
    left_out_notes,
    task_of,
)
from ruler_cli.files.location import Listing
from ruler_cli.files.parse import parse, too_large
from ruler_cli.files.splice import end_of
from ruler_cli.settings.models import MAX_RECORD
from ruler_cli.types import Line, Problem

OpenContainer = Callable[[str, ExitStack, str], Container]
_MAX_OTHER = 10_000
"""Records of other formats after which a file is taken to hold none of this one."""
_HEAD = 4096
"""Bytes of a file that show if it is text."""
_MAX_METADATA = 1 << 20
"""Bytes of a `metadata.json` that are read."""
_RESULT, _TRAJECTORY = "result.json", "agent/trajectory.json"
_FILES = {"result": _RESULT, "trajectory": _TRAJECTORY}
"""Member of a record → the file of the trial with its bytes."""
_NUMBER = re.compile(rb"\s*-?\d+(\.\d+)?([eE][+-]?\d+)?\s*")


@dataclass(slots=True)
class _FileScan:
    """One pass over a file: records before it, unit, last record's number, end of that record in bytes."""

    name: str
    start: int
    unit: str = "line"
    last: int = 0
    end: int = 0
    task: str = ""


class Directory(MultiFileContainer):
    """The records of many files, numbered through; one file is open at a time."""

    def __init__(
        self, name: str, listing: Listing, open_container: OpenContainer
    ) -> None:
        """`open_container` opens a file of the listing: location, stack, name in the listing."""
        super().__init__(name, listing)
        self._open_container, self._names = open_container, frozenset(listing.names)
        self._left_out: set[str] = set()
        self._damaged: set[str] = set()
        self._scans: list[_FileScan] = []
        self._on_problem: Callable[[Problem], None] | None = None

    def _open_file(self, name: str, stack: ExitStack) -> Container:
        return self._open_container(self.listing.at(name).name, stack, name)

    def sample(self, count: int) -> list[Line]:
        """Return the first records of several files; of more than `count` files an even selection is read."""
        names, lines = self.listing.names, list[Line]()
        chosen = (
            names
            if len(names) <= count
            else [names[i * len(names) // count] for i in range(count)]
        )
        for name in chosen:
            with ExitStack() as stack:
                try:
                    self._refuse_binary(name)
                    first = self._open_file(name, stack).sample(
                        max(2, count // len(chosen))
                    )
                except UsageError:
                    continue  # `check_files` reports it
                lines += [
                    Line(
                        0,
                        line.offset,
                        line.raw,
                        f"{name} {line.where}",
                        name,
                        line.skipped,
                    )
                    for line in first
                    if _begins_object(line)
                ]
        return lines

    def check_files(
        self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]
    ) -> list[str]:
        """Leave out the files that hold no record of the format."""
        self._on_problem = on_problem
        notes = []
        for name in self.listing.names:
            try:
                self._check(name, fits)
            except UsageError as error:
                reason = self._without_name(name, error)
                self._left_out.add(name)
                if isinstance(error, ForeignError):
                    notes.append(f"{name} {reason}: left out")
                else:
                    self._damaged.add(name)
                    on_problem(Problem(0, reason, b"", name))
        return left_out_notes(notes)

    def records(self) -> Iterator[Line]:
        """Yield every record of every file; the damaged end of a file is reported once.

        A later pass reads the same records as the first one, which may have ended before the last file: it
        leaves lines that were appended since, and raises UsageError for any other change.
        """
        before, scans = self._scans, list[_FileScan]()
        self._scans = before or scans
        start = 0
        names = [name for name in self.listing.names if name not in self._left_out]
        for index, name in enumerate(names[: len(before) or None]):
            scan, last = (
                _FileScan(name, start),
                before[index].last if before else math.inf,
            )
            scans.append(scan)
            with ExitStack() as stack:
                try:
                    file = self._open_file(name, stack)
                    scan.unit, scan.task = (
                        file.unit,
                        file.task or self._metadata_task(name),
                    )
                    for line in file.records():
                        if line.number > last:
                            break
                        scan.last, scan.end = line.number, line.end
                        number, where = start + line.number, f"{name} {line.where}"
                        yield Line(
                            number, line.offset, line.raw, where, name, line.skipped
                        )
                except UsageError as error:
                    self._report_damage(
                        name, start + scan.last, error, again=bool(before)
                    )
            if before and before[index] != scan:
                raise InputChanged(self.name, name)
            start += scan.last

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """Make the Line of a record, with the name of its file and its place there."""
        scan = self._scan_of(number)
        return Line(
            number,
            offset,
            raw,
            f"{scan.name} {scan.unit} {number - scan.start}",
            scan.name,
        )

    def tasks(self) -> dict[str, str]:
        """Return file name → the task in its head, or in the `metadata.json` beside it."""
        return {scan.name: scan.task for scan in self._scans if scan.last}

    def _metadata_task(self, name: str) -> str:
        """Return the environment in the `metadata.json` that verifiers writes beside its results."""
        metadata = str(PurePath(name).with_name("metadata.json"))
        if metadata == name or metadata not in self._names:
            return ""
        location = self.listing.at(metadata)
        with location.open() as stream, readable(location.shown):
            return task_of(stream.read(_MAX_METADATA))

    def _scan_of(self, number: int) -> _FileScan:
        return self._scans[
            bisect_right(self._scans, number - 1, key=lambda scan: scan.start) - 1
        ]

    def _check(self, name: str, fits: Callable[[Line], bool | None]) -> None:
        """Raise ForeignError for a file to leave out, UsageError for a damaged one."""
        objects = others = count = 0
        self._refuse_binary(name)
        with ExitStack() as stack:
            file = self._open_file(name, stack)
            for count, line in enumerate(file.records(), 1):
                fitting = fits(line)
                if fitting or (line.skipped and _begins_object(line)):
                    return
                others += fitting is False
                objects += _begins_object(line)
                if count == _MAX_OTHER:
                    break
        if others:
            raise ForeignError("holds no record of this format")
        if objects:
            raise UsageError("is damaged: none of its records is JSON")
        if count:
            raise ForeignError("is no JSON")

    def _refuse_binary(self, name: str) -> None:
        """Raise ForeignError for binary data, as in a checkpoint: it would be read as one endless line."""
        location = self.listing.at(name)
        with location.open() as stream, readable(location.shown):
            if stream.peek(4).startswith((PARQUET_MAGIC, ZIP_MAGIC)):
                return
            head = decompressed(location.shown, stream).read(_HEAD)
            # zeros behind records are left by a crash while the file was written
            if b"\0" in head and head.removeprefix(BOM).lstrip()[:1] not in (
                b"{",
                b"[",
            ):
                raise ForeignError(f"{location.shown}: is no text")

    def _report_damage(
        self, name: str, number: int, error: UsageError, *, again: bool
    ) -> None:
        """Report a damaged file once; raise the error if an earlier pass could read the file."""
        if self._on_problem is None or (again and name not in self._damaged):
            raise error
        if name in self._damaged:
            return
        self._damaged.add(name)
        self._on_problem(Problem(number, self._without_name(name, error), b"", name))

    def _without_name(self, name: str, error: UsageError) -> str:
        return str(error).removeprefix(f"{self.listing.at(name).shown}: ")


def _begins_object(line: Line) -> bool:
    return line.raw.lstrip()[:1] == b"{"


def find_trials(listing: Listing) -> list[str]:
    """Return the directories of the trials among files; none if this is no Harbor job.

    A trial whose environment failed has no file of an agent: the trials beside it show that it is one.
    """
    paths = [PurePath(name) for name in listing.names]
    agents = {
        str(parent.parent)
        for path in paths
        for parent in path.parents
        if parent.name == "agent"
    }
    results = [path.parent for path in paths if path.name == _RESULT]
    jobs = {
        folder.parent for folder in results if str(folder) in agents and folder.parts
    }
    beside = {folder for folder in results if folder.parts and folder.parent in jobs}
    trials = [
        str(folder) for folder in results if str(folder) in agents or folder in beside
    ]
    names = set(listing.names)
    return trials if any(_path(trial, _TRAJECTORY) in names for trial in trials) else []


class HarborJob(MultiFileContainer):
    """The trials of a job, in the order of their names."""

    unit = "trial"

    def __init__(
        self,
        name: str,
        listing: Listing,
        trials: list[str],
        most: int = MAX_RECORD << 20,
    ) -> None:
        """`trials` are directories, relative to the listing."""
        super().__init__(name, listing)
        self.most = most
        self._trials, self._names = trials, frozenset(listing.names)

    def check_files(
        self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]
    ) -> list[str]:
        """Report the trials that cannot be read; none is left out."""
        for number, trial in enumerate(self._trials, 1):
            try:
                self._record(trial)
            except UnreadableError as error:
                on_problem(Problem(number, str(error), b"", self.where(number)))
        return []

    def records(self) -> Iterator[Line]:
        """Yield every trial that can be read."""
        for number, trial in enumerate(self._trials, 1):
            try:
                yield self.line(number, 0, self._record(trial))
            except UnreadableError:
                continue  # `check_files` has reported it

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """Make the Line of a trial, with the trial's directory."""
        return Line(number, offset, raw, f"trial {self._trials[number - 1]}")

    def _record(self, trial: str) -> bytes:
        """Join the files of a trial; UnreadableError if one is missing or damaged."""
        members = {key: self._object(trial, file) for key, file in _FILES.items()}
        result = parse(members["result"]).get("verifier_result")
        if not (isinstance(result, dict) and isinstance(result.get("rewards"), dict)):
            members["reward_file"] = self._reward(trial)
        pairs = [
            b'"%s": %s' % (key.encode(), value)
            for key, value in members.items()
            if value
        ]
        return b"{" + b", ".join(pairs) + b"}"

    def _object(self, trial: str, file: str) -> bytes:
        """Read a file that holds exactly one object: any other content would spoil the record."""
        raw = self._bytes(trial, file)
        if raw is None:
            raise UnreadableError(f"has no {file}")
        if raw[:1] != b"{" or end_of(raw, 0) != len(raw):
            raise UnreadableError(f"has a damaged {file}: it is not one JSON object")
        try:
            parse(raw)
        except UnreadableError as error:
            raise UnreadableError(f"has a damaged {file}: it {error}") from None
        return raw

    def _reward(self, trial: str) -> bytes:
        try:
            return self._object(trial, "verifier/reward.json")
        except UnreadableError:
            text = self._bytes(trial, "verifier/reward.txt") or b""
            return b'{"reward": %s}' % text.strip() if _NUMBER.fullmatch(text) else b""

    def _bytes(self, trial: str, file: str) -> bytes | None:
        if (
            name := _path(trial, file)
        ) not in self._names:  # it may be a link that is not followed
            return None
        path = Path(self.listing.at(name).name)
        with readable(str(path)), path.open("rb") as stream:
            content = stream.read(self.most + 1)
        if len(content) > self.most:
            raise UnreadableError(f"`{file}` {too_large(path.stat().st_size)}")
        return content.strip()


def _path(trial: str, file: str) -> str:
    return str(PurePath(trial) / file)
