"""A container of records: the interface of its kinds, each of which is a module here.

A kind says how records are read and, if OUTPUT may be of it, how they are written. A record is always the bytes of
one JSON object.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_value
from ruler_cli.files.splice import span_at
from ruler_cli.settings.models import MAX_RECORD, OnFailure
from ruler_cli.types import Line, Path, Problem

MAX_BYTES = MAX_RECORD << 20
"""Bytes of the largest record that is held, unless the user sets another bound."""
RECORD_MEMBERS = frozenset(
    ("messages", "messages_and_choices", "trajectories", "trajectory", "conversations", "prompt",
     "completion", "completions", "response", "responses", "chosen", "rejected", "ruler")
)  # fmt: skip
"""Members that make an object a record, and no event, whatever else it holds."""
_TASK_PATHS = (("eval", "task"), ("info", "environment_info", "domain_name"), ("env_id",))  # fmt: skip
"""Paths of the task in Inspect's logs, tau2-bench's results, and the `metadata.json` of verifiers."""

Fits = Callable[[Line], bool | None]
"""Returns whether a record is of the format; None: it is not a JSON object."""


class Writer(ABC):
    """Writes records of `source`, if that is known, in input order into OUTPUT `name`, open as `stream`.

    `form` is the word for what it writes. `keeps_all`: it keeps all of INPUT, and takes annotations only.
    """

    form = ""
    keeps_all = False

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        source: Container | None,
    ) -> None:
        """Take the stream, which stays open."""
        self.stream = stream
        self.name = name
        self.source = source

    def begin(self, ruler: Path, on_failure: OnFailure) -> None:  # noqa: B027 - few refuse
        """Take the path of an annotation; UsageError, before anything is sent, if writing can only fail."""

    @abstractmethod
    def put(
        self,
        number: int,
        record: bytes,
    ) -> None:
        """Append the record with this number (that of its Line); some numbers may be left out."""

    def end(self) -> None:  # noqa: B027 - lines are whole
        """Write the rest."""


class Container(ABC):
    """An INPUT that is open.

    `unit` is the noun for a record's place in messages. `once`: records come one time, from a pipe. `fd` is the
    descriptor of an uncompressed file, in which a record can be read again at its `Line.offset`. `form` is that of an
    OUTPUT that may take its place, see `Writer`. `may_hold_events`: its records may be events. `takes_path`: it follows
    the user's path of the records itself. `log` has the bytes of an Inspect log, which inspect_ai can write with
    scores.
    """

    unit = "line"
    once = False
    fd: int | None = None
    form = ""
    may_hold_events = False
    takes_path = False
    log: BinaryIO | None = None
    schema: Any = None

    def __init__(
        self,
        name: str,
        most: int = MAX_BYTES,
    ) -> None:
        """`name` names the input in messages; a record of more than `most` bytes is not held."""
        self.name = name
        self.most = most

    @property
    def task(self) -> str:
        """The task or environment of all records; empty if the container names none."""
        return ""

    def tasks(self) -> dict[str, str]:
        """Return file name → its task, after all records of several files were read; empty if unknown."""
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

        `on_problem` gets the damaged files.
        """
        return []

    def place(self, number: int) -> str:
        """Return the name of a record's place in messages, if that is not the number of its line."""
        return "" if self.unit == "line" else f"{self.unit} {number}"

    def line(
        self,
        number: int,
        offset: int,
        raw: bytes,
        size: int = 0,
    ) -> Line:
        """Make the Line of a record of `size` bytes, also of one that was read again from its offset.

        One that has more bytes than allowed is not held; `raw` may be anything then.
        """
        size = size or len(raw)
        if size > self.most:
            return Line(
                number,
                offset,
                b"{",
                self.place(number),
                skipped=size,
            )
        return Line(
            number,
            offset,
            raw,
            self.place(number),
        )

    def where(self, number: int) -> str:
        """Return the name, for messages, of the record with this number."""
        return self.line(
            number,
            0,
            b"",
        ).where

    def warnings(self) -> list[str]:
        """Warnings on parts of the container that are not read."""
        return []


def task_of(text: bytes) -> str:
    """Return the task that a JSON object names; empty if it is not an object, or names none."""
    start = text.find(b"{")
    with suppress(UnreadableError, IndexError):
        for path in _TASK_PATHS:
            span = span_at(
                text,
                path,
                start,
            )
            value = parse_value(text[slice(*span)]) if span else ""
            if isinstance(value, str) and value:
                return value
    return ""
