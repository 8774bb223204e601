"""A container of records: the interface of its kinds, each of which is a module of `containers`.

A kind says which first bytes and which names it handles, how records are read and, if OUTPUT may be of it,
how they are written. A record is always the bytes of one JSON object.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import BinaryIO, ClassVar, Protocol, Self

from ruler_cli.errors import UnreadableError
from ruler_cli.files import containers
from ruler_cli.files.location import Listing
from ruler_cli.files.parse import parse
from ruler_cli.files.source import Source
from ruler_cli.settings.models import MAX_RECORD
from ruler_cli.types import Line, Problem

MAX_BYTES = MAX_RECORD << 20
"""Bytes of the largest record that is held, unless the user sets another bound."""
_TASK_PATHS = (("eval", "task"), ("info", "environment_info", "domain_name"), ("env_id",))  # fmt: skip
"""Paths of the task in Inspect's logs, tau2-bench's results, and the `metadata.json` of verifiers."""
_MAX_NOTES = 20
"""Files left out that are named one by one."""

Fits = Callable[[Line], bool | None]
"""Tells if a record is of the format; None: it is no JSON object."""


class Writer(Protocol):
    """Writes records in input order."""

    def put(self, number: int, record: bytes) -> None:
        """Append the record with this number (that of its Line); some numbers may be left out."""

    def end(self) -> None:
        """Write the rest; the stream stays open."""


class Container(ABC):
    """An INPUT that is open.

    `unit` is the noun for a record's place in sentences. `once`: records come one time, from a pipe. `fd` is
    the descriptor of an uncompressed file, in which a record can be read again at its `Line.offset`.
    `rewritable`: OUTPUT of the same kind may take its place. `may_hold_events`: its records may be events.
    `log` has the bytes of an Inspect log, which inspect_ai can write with scores.
    """

    rank: ClassVar[int] = 0
    """Kinds of a lower rank are asked first if they handle a file."""
    endings: ClassVar[tuple[str, ...]] = ()
    """Endings of the names of OUTPUT that this kind writes."""
    packed: ClassVar[tuple[str, ...]] = ()
    """Endings of files that are compressed inside: .gz and .zst do not stand behind them."""
    form: ClassVar[str] = ""
    """The noun for an OUTPUT of this kind."""

    unit = "line"
    once = False
    fd: int | None = None
    rewritable = False
    may_hold_events = False
    log: BinaryIO | None = None

    def __init__(self, name: str, most: int = MAX_BYTES) -> None:
        """`name` stands for the input in sentences; a record of more than `most` bytes is not held."""
        self.name, self.most = name, most

    @classmethod
    def open(cls, source: Source) -> Self | None:
        """Open a source of this kind; None if it is of another, UsageError if it is damaged."""
        return None

    @classmethod
    def handles_name(cls, name: str, source: Container | None) -> bool:
        """Tell if OUTPUT of this name, with the scores of `source`, is of this kind."""
        return name.endswith(cls.endings)

    @classmethod  # noqa: B027 - few kinds need a package
    def refuse_writing(cls, name: str) -> None:
        """Raise UsageError if a package is missing that writes this kind."""

    @classmethod
    def writer(cls, stream: BinaryIO, name: str, source: Container | None) -> Writer:
        """Return a writer of records of `source` into OUTPUT `name`, which is open as `stream`."""
        raise NotImplementedError

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

    def check_files(
        self,
        fits: Fits,
        on_problem: Callable[[Problem], None],
    ) -> list[str]:
        """Leave out the files that hold no record of the format, and return a sentence for each.

        `on_problem` gets what is damaged.
        """
        return []

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """Make the Line of a record, also of one whose bytes were read again from its offset."""
        place = "" if self.unit == "line" else f"{self.unit} {number}"
        return Line(number, offset, raw, place)

    def skipped(self, number: int, offset: int, size: int) -> Line:
        """Make the Line of a record that is not held, which has `size` bytes."""
        return replace(self.line(number, offset, b"{"), skipped=size)

    def where(self, number: int) -> str:
        """Return a sentence's name for the record with this number."""
        return self.line(number, 0, b"").where

    def warnings(self) -> list[str]:
        """Sentences on what is not read of it, and should be known."""
        return []


@cache
def kinds() -> list[type[Container]]:
    """Return every kind of container, those that know most first: the classes with a rank in `containers`."""
    found: list[type[Container]] = []
    for module in pkgutil.iter_modules(containers.__path__, f"{containers.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Container) and value.rank:
                found.append(value)
    return sorted(set(found), key=lambda kind: kind.rank)


def task_of(head: bytes) -> str:
    """Return the task that a JSON object names; empty if it is no object, or names none."""
    try:
        whole = parse(head)
    except (UnreadableError, RecursionError):
        return ""
    for path in _TASK_PATHS:
        value: object = whole
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            return value
    return ""


class MultiFileContainer(Container):
    """An INPUT of many files."""

    unit = "record"

    def __init__(self, source: Source, listing: Listing) -> None:
        """`listing` has all files, also those that hold no record."""
        super().__init__(source.name, source.most)
        self.listing, self.names = listing, frozenset(listing.names)

    def warnings(self) -> list[str]:
        """A sentence for each link that is not followed."""
        why = "is a link out of INPUT, to a directory or to nothing"
        return left_out([f"{link} {why}" for link in self.listing.links])


def left_out(sentences: Sequence[str]) -> list[str]:
    """Return the first sentences on files that are left out, and the number of the others."""
    notes = [f"{sentence}: left out" for sentence in sentences[:_MAX_NOTES]]
    more = len(sentences) - _MAX_NOTES
    return [*notes, f"… and {more} more files: left out"] if more > 0 else notes
