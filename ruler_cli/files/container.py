"""What INPUT is made of: records in, and records back into a file of the same kind.

JSON lines are the plain case; a JSON document, a Parquet file, a zip archive and a directory of
shards are the others. A record is always the bytes of one JSON object, whatever held it.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse
from ruler_cli.records import Line

_PLACES = (("eval", "task"), ("info", "environment_info", "domain_name"), ("env_id",))
"""Inspect's logs, tau2-bench's results, and the `metadata.json` that verifiers writes beside its results."""


class Encoder(Protocol):
    """Writes records into the container they came from, in input order."""

    def put(self, number: int, body: bytes) -> None:
        """Append the annotated record with this number (that of its Line); some may be left out."""

    def end(self) -> None:
        """Write what stands behind the last record; the stream stays open."""


class Container(ABC):
    """An INPUT that is open.

    `unit` is what sentences call a record's place. `once`: records come one time, from a pipe.
    `plain`: `Line.offset` is a place in an uncompressed file, where a record can be fetched again.
    `rewritable`: records may be put back into a container of this kind; else OUTPUT is JSON lines.
    """

    unit = "line"
    once = False
    plain = False
    task = ""
    """The task or environment that all of it belongs to, if the container says so itself."""
    rewritable = True

    def __init__(self, name: str) -> None:
        """`name` is what sentences call the input."""
        self.name = name

    @abstractmethod
    def records(self) -> Iterator[Line]:
        """Every record from the first on, anew each time; UsageError where the container is damaged."""

    def sample(self, count: int) -> list[Line]:
        """The first records, from which the format is told; not for what comes one time."""
        return list(itertools.islice(self.records(), count))

    def place(self, number: int) -> str:
        """`Line.place` of the record with this number."""
        return "" if self.unit == "line" else f"{self.unit} {number}"

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """A record again, by its number and what was fetched from its offset."""
        return Line(number, offset, raw, self.place(number))

    def where(self, number: int) -> str:
        """How a sentence names the record with this number."""
        return self.place(number) or f"line {number}"

    def fileno(self) -> int:
        """The file of a `plain` container, where `Line.offset` leads."""
        raise NotImplementedError

    def encoder(self, stream: BinaryIO) -> Encoder:
        """What writes records back into a container of this kind."""
        return Lines(stream)


class Lines:
    """JSON lines: each record and its LF."""

    def __init__(self, stream: BinaryIO) -> None:
        """`stream` is open for writing."""
        self._stream = stream

    def put(self, number: int, body: bytes) -> None:
        """One line; a record of a document may hold line breaks between its members."""
        self._stream.write(body.replace(b"\n", b" ") + b"\n")

    def end(self) -> None:
        """Nothing stands behind the last line."""


def task_of(head: bytes) -> str:
    """The task that a JSON object names; empty if it is none, or names none."""
    try:
        value = parse(head)
    except (UnreadableError, RecursionError):
        return ""
    for place in _PLACES:
        found: Any = value
        for part in place:
            found = found.get(part) if isinstance(found, dict) else None
        if isinstance(found, str) and found:
            return found
    return ""
