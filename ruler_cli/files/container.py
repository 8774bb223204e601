"""An INPUT that is open and yields records; writers of records as lines and as a list.

JSON lines are the plain case; a JSON document, a Parquet file, an Inspect log and a directory of files
are the others. A record is always the bytes of one JSON object.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO, Literal

from ruler_cli.errors import InputChanged, UnreadableError
from ruler_cli.files.location import Listing
from ruler_cli.files.parse import parse
from ruler_cli.formats.fields import lookup
from ruler_cli.settings.models import MAX_RECORD
from ruler_cli.types import Line, Problem

_TASK_PATHS = ("eval.task", "info.environment_info.domain_name", "env_id")
"""Paths of the task in Inspect's logs, tau2-bench's results, and the `metadata.json` of verifiers."""

_MAX_NOTES = 20
"""Files left out that are named one by one."""

Form = Literal["lines", "list", "table"]
"""Forms of OUTPUT: JSON lines, a JSON list, a Parquet table."""

Put = tuple[int, bytes] | None
"""A record's number and its new bytes; None ends the file that is open."""
Rewrite = Generator[None, Put, None]
"""Writes records: it is sent each `Put`, in input order."""


class Encoder:
    """Writes records in input order."""

    def __init__(self, name: str, rewrite: Rewrite) -> None:
        """`name` stands for INPUT in sentences."""
        self._name, self._rewrite = name, rewrite
        next(rewrite)

    def put(self, number: int, record: bytes) -> None:
        """Append the record with this number (that of its Line); some numbers may be left out."""
        try:
            self._rewrite.send((number, record))
        except StopIteration:
            raise InputChanged(self._name, f"record {number} is gone") from None

    def end(self) -> None:
        """Write the rest of the file that is open; a stream that the caller gave stays open."""
        with suppress(StopIteration):
            self._rewrite.send(None)


def write_lines(stream: BinaryIO) -> Rewrite:
    """Write JSON lines; line breaks between members of a record, as in a document, become spaces."""
    while put := (yield):
        stream.write(put[1].replace(b"\n", b" ") + b"\n")


def write_list(stream: BinaryIO) -> Rewrite:
    """Write a JSON document: a list with a record on each line."""
    between = b"[\n"
    while put := (yield):
        stream.write(between + put[1].strip())
        between = b",\n"
    stream.write(b"[]\n" if between == b"[\n" else b"\n]\n")


class Container(ABC):
    """An INPUT that is open.

    `unit` is the noun for a record's place in sentences. `once`: records come one time, from a pipe. `fd` is
    the descriptor of an uncompressed file, in which a record can be read again at its `Line.offset`. `form`
    is the form of OUTPUT that may take INPUT's place; None if there is none. `log` has the bytes of an
    Inspect log, which inspect_ai can write with scores.
    """

    unit = "line"
    once = False
    fd: int | None = None
    form: Form | None = None
    log: BinaryIO | None = None

    def __init__(self, name: str, most: int = MAX_RECORD << 20) -> None:
        """`name` stands for the input in sentences; a record of more than `most` bytes is not held."""
        self.name, self.most = name, most

    @property
    def task(self) -> str:
        """The task or environment of all records; empty if the container names none."""
        return ""

    def tasks(self) -> dict[str, str]:
        """Return, after all records of several files were read, file name → its task; empty if unknown."""
        return {}

    @abstractmethod
    def records(self) -> Iterator[Line]:
        """Yield every record from the first on, again each time; UsageError if the container is damaged."""

    def sample(self, count: int) -> list[Line]:
        """Return the first records, which show the format; not for a container that is read `once`."""
        return list(itertools.islice(self.records(), count))

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """Make the Line of a record, also of one whose bytes were read again from its offset."""
        return Line(
            number, offset, raw, "" if self.unit == "line" else f"{self.unit} {number}"
        )

    def skipped(self, number: int, offset: int, size: int) -> Line:
        """Make the Line of a record that is not held, which has `size` bytes."""
        return replace(self.line(number, offset, b"{"), skipped=size)

    def where(self, number: int) -> str:
        """Return a sentence's name for the record with this number."""
        return self.line(number, 0, b"").where

    def warnings(self) -> list[str]:
        """Sentences on what is not read of it, and should be known."""
        return []


def task_of(head: bytes) -> str:
    """Return the task that a JSON object names; empty if it is no object, or names none."""
    try:
        value = parse(head)
    except (UnreadableError, RecursionError):
        return ""
    tasks = (lookup(value, path) for path in _TASK_PATHS)
    return next((task for task in tasks if isinstance(task, str) and task), "")


def left_out_notes(sentences: Sequence[str]) -> list[str]:
    """Return the first sentences on files that are left out, and the number of the others."""
    more = len(sentences) - _MAX_NOTES
    return [*sentences[:_MAX_NOTES]] + (
        [f"… and {more} more files: left out"] if more > 0 else []
    )


class MultiFileContainer(Container):
    """An INPUT of many files."""

    unit = "record"

    def __init__(self, name: str, listing: Listing) -> None:
        """`listing` has all files, also those that hold no record."""
        super().__init__(name)
        self.listing = listing

    def warnings(self) -> list[str]:
        """A sentence for each link that is not followed."""
        why = "is a link out of INPUT, to a directory or to nothing"
        return left_out_notes(
            [f"{link} {why}: left out" for link in self.listing.links]
        )

    @abstractmethod
    def check_files(
        self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]
    ) -> list[str]:
        """Leave out the files that hold no record of the format, and return a sentence for each.

        `fits` tells if a record is of the format; None: it is no JSON object. `on_problem` gets what is
        damaged.
        """
