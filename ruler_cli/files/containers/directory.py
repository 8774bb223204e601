"""Many files as one INPUT: a directory or a pattern, each file opened as the container that it is.

Which files hold records is only known with the format: a file without a record of that format is left
out, with a sentence. A damaged file is a problem of its own and does not stop the others: its records
before the damage are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import PurePath

from ruler_cli.errors import ForeignError, UsageError
from ruler_cli.files.containers import Container, Fits, task_of
from ruler_cli.files.error_map import reading
from ruler_cli.files.location import Listing
from ruler_cli.files.source import Source
from ruler_cli.types import Line, Problem

_MAX_OTHER = 10_000
"""Records of other formats after which a file is taken to hold none of this one."""
_MAX_NOTES = 20
"""Files left out that are named one by one."""
_MAX_METADATA = 1 << 20
"""Bytes of a `metadata.json` that are read."""


@dataclass(slots=True)
class _FileScan:
    """One pass over a file: the records before it, their unit, the number of its own, and the task that it names."""

    name: str
    start: int
    unit: str = "line"
    count: int = 0
    task: str = ""


class MultiFileContainer(Container):
    """An INPUT of many files."""

    unit = "record"

    def __init__(
        self,
        source: Source,
        listing: Listing,
    ) -> None:
        """`listing` has all files, also those that hold no record."""
        super().__init__(source.name, source.most)
        self.listing = listing
        self.names = frozenset(listing.names)

    def warnings(self) -> list[str]:
        """A sentence for each link that is not followed."""
        why = "is a link out of INPUT, to a directory or to nothing"
        return _left_out([f"{link} {why}" for link in self.listing.links])


def _left_out(sentences: Sequence[str]) -> list[str]:
    """Return the first warnings on files that are left out, and the number of the others."""
    notes = [f"{sentence}: left out" for sentence in sentences[:_MAX_NOTES]]
    more = len(sentences) - _MAX_NOTES
    return [*notes, f"… and {more} more files: left out"] if more > 0 else notes


class Directory(MultiFileContainer):
    """The records of many files, numbered through; one file is open at a time."""

    takes_path = True

    def __init__(
        self,
        source: Source,
        listing: Listing,
        open_container: Callable[..., Container],
    ) -> None:
        """Take the files of a listing, and the function that opens each of them."""
        super().__init__(source, listing)
        self._open = open_container
        self._source = source
        self._left_out = set[str]()
        self._damaged = set[str]()
        self._scans = list[_FileScan]()
        self._on_problem: Callable[[Problem], None] | None = None

    def _open_file(
        self,
        name: str,
        stack: ExitStack,
    ) -> Container:
        return self._open(
            self.listing.at(name).name,
            stack,
            name,
            most=self.most,
            records=self._source.records,
            events=self._source.events,
        )

    def sample(self, count: int) -> list[Line]:
        """Return the first records of several files; of more than `count` files an even selection is read."""
        names = self.listing.names
        lines = list[Line]()
        some = names[:: -(-len(names) // count)]
        for name in some:
            # `check_files` reports what cannot be read
            with suppress(UsageError), ExitStack() as stack:
                file = self._open_file(name, stack)
                for line in file.sample(max(2, count // len(some))):
                    if _begins_object(line):
                        place = f"{name} {line.where}"
                        lines.append(
                            replace(
                                line,
                                number=0,
                                place=place,
                                source=name,
                            )
                        )
        return lines

    def check_files(
        self,
        fits: Fits,
        on_problem: Callable[[Problem], None],
    ) -> list[str]:
        """Leave out the files that hold no record of the format."""
        self._on_problem = on_problem
        notes = []
        for name in self.listing.names:
            try:
                self._check(name, fits)
            except ForeignError as error:
                self._left_out.add(name)
                notes.append(f"{name} {error.problem}")
            except UsageError as error:
                self._left_out.add(name)
                self._report(
                    name,
                    0,
                    error,
                )
        return _left_out(notes)

    def _check(
        self,
        name: str,
        fits: Fits,
    ) -> None:
        """Raise ForeignError for a file to leave out, UsageError for a damaged one."""
        objects = others = count = 0
        with ExitStack() as stack:
            records = self._open_file(name, stack).records()
            for count, line in enumerate(records, 1):
                fitting = None if line.error else fits(line)
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
            raise ForeignError("is not JSON")

    def _report(
        self,
        name: str,
        number: int,
        error: UsageError,
    ) -> None:
        """Report a damaged file once."""
        if name not in self._damaged and self._on_problem is not None:
            reason = str(error.with_parts(place=""))  # the problem has it
            self._on_problem(
                Problem(
                    number,
                    reason,
                    b"",
                    name,
                )
            )
        self._damaged.add(name)

    def records(self) -> Iterator[Line]:
        """Yield every record of every file; the damaged end of a file is reported once.

        In a later pass a file that was whole before has changed: UsageError.
        """
        is_first = not self._scans
        scans = self._scans = list[_FileScan]()
        start = 0
        for name in self.listing.names:
            if name in self._left_out:
                continue
            scan = _FileScan(name, start)
            scans.append(scan)
            try:
                yield from self._read(scan)
            except UsageError as error:
                is_known = is_first or name in self._damaged
                if self._on_problem is None or not is_known:
                    raise
                self._report(
                    name,
                    start + scan.count,
                    error,
                )
            start += scan.count

    def _read(self, scan: _FileScan) -> Iterator[Line]:
        """Yield the records of a file, and count them."""
        with ExitStack() as stack:
            file = self._open_file(scan.name, stack)
            scan.unit = file.unit
            scan.task = file.task or self._metadata_task(scan.name)
            for line in file.records():
                scan.count = line.number
                place = f"{scan.name} {line.where}"
                number = scan.start + line.number
                yield replace(
                    line, number=number, place=place, source=scan.name
                )

    def line(
        self,
        number: int,
        offset: int,
        raw: bytes,
        size: int = 0,
    ) -> Line:
        """Make the Line of a record, with the name of its file and its place there."""
        behind = bisect_right(
            self._scans, number - 1, key=lambda scan: scan.start
        )
        scan = self._scans[behind - 1]
        place = f"{scan.name} {scan.unit} {number - scan.start}"
        return Line(
            number,
            offset,
            raw,
            place,
            scan.name,
        )

    def tasks(self) -> dict[str, str]:
        """Return file name → the task in its head, or in the `metadata.json` beside it."""
        return {scan.name: scan.task for scan in self._scans if scan.count}

    def _metadata_task(self, name: str) -> str:
        """Return the environment in the `metadata.json` that verifiers writes beside its results."""
        metadata = str(PurePath(name).with_name("metadata.json"))
        if metadata == name or metadata not in self.names:
            return ""
        location = self.listing.at(metadata)
        with location.open() as stream, reading(location.shown):
            return task_of(stream.read(_MAX_METADATA))


def _begins_object(line: Line) -> bool:
    return line.raw.lstrip()[:1] == b"{"
