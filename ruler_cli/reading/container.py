"""An INPUT that is open: it yields records, and writes records back into a file of the same kind.

JSON lines are the plain case; a JSON document, a Parquet file, a zip archive and a directory of files
are the others. A record is always the bytes of one JSON object.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

from ruler_cli.config import Shard
from ruler_cli.errors import UnreadableError
from ruler_cli.reading.location import Listing
from ruler_cli.reading.parse import parse
from ruler_cli.types import Line, Problem
from ruler_cli.writing.atomic import StagedFiles

_TASK_PATHS = (("eval", "task"), ("info", "environment_info", "domain_name"), ("env_id",))
"""Paths of the task in Inspect's logs, tau2-bench's results, and the `metadata.json` of verifiers."""


class Encoder(Protocol):
    """Writes records into a container of the kind that they came from, in input order."""

    def put(self, number: int, record: bytes) -> None:
        """Append the record with this number (that of its Line); some numbers may be left out."""

    def end(self) -> None:
        """Write the rest of the file that is open; a stream that the caller gave stays open."""


class DirectoryEncoder(Encoder, Protocol):
    """Writes the files of an INPUT again, with other records."""

    def write_other_files(self) -> None:
        """Write, after `end`, the files that got no record: with none, or copied as they are."""


class Container(ABC):
    """An INPUT that is open.

    `unit` is the noun for a record's place in sentences. `once`: records come one time, from a pipe.
    `plain`: `Line.offset` is an offset in an uncompressed file, where a record can be read again.
    `rewritable`: records may be put back into a container of this kind; else OUTPUT is JSON lines.
    """

    unit = "line"
    once = False
    plain = False
    rewritable = True

    def __init__(self, name: str) -> None:
        """`name` stands for the input in sentences."""
        self.name = name

    @property
    def task(self) -> str:
        """The task or environment of all records; empty if the container names none."""
        return ""

    @abstractmethod
    def records(self) -> Iterator[Line]:
        """Yield every record from the first on, again each time; UsageError if the container is damaged."""

    def sample(self, count: int) -> list[Line]:
        """Return the first records, which show the format; not for a container that is read `once`."""
        return list(itertools.islice(self.records(), count))

    def place(self, number: int) -> str:
        """Return `Line.place` of the record with this number."""
        return "" if self.unit == "line" else f"{self.unit} {number}"

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """Make the Line of a record whose bytes were read again from its offset."""
        return Line(number, offset, raw, self.place(number))

    def where(self, number: int) -> str:
        """Return a sentence's name for the record with this number."""
        return self.place(number) or f"line {number}"

    def fileno(self) -> int:
        """Return the descriptor of a `plain` container's file, to which `Line.offset` refers."""
        raise NotImplementedError

    def encoder(self, stream: BinaryIO) -> Encoder:
        """Make an encoder that writes a container of this kind to a stream."""
        return JsonLinesEncoder(stream)


class JsonLinesEncoder:
    """Writes JSON lines: each record and an LF."""

    def __init__(self, stream: BinaryIO) -> None:
        """`stream` is open for writing."""
        self._stream = stream

    def put(self, number: int, record: bytes) -> None:
        """Write one line; line breaks between members, as in a document, become spaces."""
        self._stream.write(record.replace(b"\n", b" ") + b"\n")

    def end(self) -> None:
        """Do nothing: no bytes follow the last line."""


def task_of(head: bytes) -> str:
    """Return the task that a JSON object names; empty if it is no object, or names none."""
    try:
        value = parse(head)
    except (UnreadableError, RecursionError):
        return ""
    for path in _TASK_PATHS:
        task: Any = value
        for key in path:
            task = task.get(key) if isinstance(task, dict) else None
        if isinstance(task, str) and task:
            return task
    return ""


class MultiFileContainer(Container):
    """An INPUT of many files, which may become a directory of the same files."""

    unit = "record"
    listing: Listing
    shard: Shard | None = None
    """The process's share of the groups; of several processes one copies a file that holds no record."""
    in_place = False
    """Tells if OUTPUT is the same directory: a file that is read in part would lose the rest."""
    output_directory = ""
    """The directory that is OUTPUT; empty if OUTPUT is one file."""

    @abstractmethod
    def check_files(
        self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]
    ) -> list[str]:
        """Leave out the files that hold no record of the format, and return a sentence for each.

        `fits` tells if a record is of the format; None: it is no JSON object. `on_problem` gets what is
        damaged.
        """

    def tasks(self) -> dict[str, str]:
        """Return, after all records were read, file name → its task or environment; empty if unknown."""
        return {}

    @abstractmethod
    def directory_encoder(self, staged: StagedFiles) -> DirectoryEncoder:
        """Make an encoder that writes the same files again."""
