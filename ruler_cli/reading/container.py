"""What INPUT is made of: records in, and records back into a file of the same kind.

JSON lines are the plain case; a JSON document, a Parquet file, a zip archive and a directory of
shards are the others. A record is always the bytes of one JSON object, whatever held it. Files of an
INPUT of many are written again under their names and appear together, at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ruler_cli.config import Shard
from ruler_cli.errors import UnreadableError
from ruler_cli.reading.location import Listing, Location
from ruler_cli.reading.parse import parse
from ruler_cli.types import Line, Problem
from ruler_cli.writing.atomic import LocalFile, RemoteFile

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


class Many(Container):
    """An INPUT of many files, which may become a directory of the same files."""

    unit = "record"
    listing: Listing
    shard: Shard | None = None
    in_place = False
    """Tell if OUTPUT is the same directory: a file of which a part cannot be read would lose that part."""
    tree = ""
    """The directory that is OUTPUT, where it is one: of files that cannot be written again none is made."""

    def copies(self, name: str) -> bool:
        """Tell if a file that holds no record is copied into OUTPUT: by one of several processes."""
        return self.shard is None or self.shard.copies(name)

    @abstractmethod
    def settle(self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]) -> list[str]:
        """Find the files that hold no record, once the format is known; a sentence for each of them.

        `fits` tells whether a record is of the format; None: it is no JSON object. What is damaged goes
        to `on_problem`.
        """

    def tasks(self) -> dict[str, str]:
        """The names of its files → the task or environment that each says it belongs to, once all were read.

        A file that says none has an empty name.
        """
        return {}

    @abstractmethod
    def into(self, staged: StagedFiles) -> TreeEncoder:
        """What writes the same files again, with other records."""


class TreeEncoder(Protocol):
    """Writes the files of an INPUT again, with other records."""

    def put(self, number: int, body: bytes) -> None:
        """The record with this number; they come in input order, and some may be left out."""

    def end(self, *, whole: bool) -> None:
        """The end of the last file; `whole`: everything behind it too."""


class StagedFiles:
    """The files of OUTPUT that are written so far, one of them open."""

    def __init__(self, folder: Location) -> None:
        """`folder` is the directory in which they will appear."""
        self._folder = folder
        self._files: list[LocalFile | RemoteFile] = []
        self._open: LocalFile | RemoteFile | None = None
        self._made: list[Path] = []

    def open(self, name: str) -> BinaryIO:
        """Begin a file; its name tells the compression."""
        self._open = self._begin(name)
        return self._open.stream

    def close(self) -> None:
        """End the file that is open, and bring it to disk or send it."""
        file, self._open = self._open, None
        if file is not None:
            file.end()

    def write(self, name: str, content: bytes) -> None:
        """A whole small file."""
        file = self._begin(name, packed=True)
        file.stream.write(content)
        file.end(durable=False)

    def copy(self, name: str, source: Location) -> None:
        """A file as it is; nothing to do where INPUT is OUTPUT."""
        if source.same(self._place(name)):
            return
        file = self._begin(name, packed=True)
        with source.open() as stream:
            shutil.copyfileobj(stream, file.stream, 1 << 20)
        file.end(durable=False)
        if isinstance(file, LocalFile) and not source.remote:
            shutil.copymode(source.name, file.partial)

    def publish(self) -> None:
        """Let every file appear."""
        for file in self._files:
            file.commit()

    def discard(self) -> None:
        """Remove what was made."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.discard()
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _begin(self, name: str, *, packed: bool = False) -> LocalFile | RemoteFile:
        place = self._place(name)
        if self._folder.remote:
            self._files.append(RemoteFile(Location(place).store(), packed=packed))
        else:
            for folder in reversed([p for p in Path(place).parents if not p.exists()]):
                folder.mkdir()
                self._made.append(folder)
            self._files.append(LocalFile(place, packed=packed, alone=False))
        return self._files[-1]

    def _place(self, name: str) -> str:
        return f"{self._folder.name}/{name}"
