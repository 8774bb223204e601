"""A JSON document as records, and the test that tells a document from JSON lines.

A document is (a) a list of objects, compact or pretty-printed; (b) one object that holds the records at a known
path, or at the one that the user gives; (c) objects over several lines, one or one after another (`jq .` prints
so). Each pass searches the records anew, so memory does not grow with their number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.containers import Container, Writer, task_of
from ruler_cli.files.parse import parse
from ruler_cli.files.source import BOM, Source
from ruler_cli.files.splice import end_of
from ruler_cli.files.walk import (
    OPENING,
    WINDOW,
    Read,
    Steps,
    TextWindow,
    damaged,
    nowhere,
    steps_of,
)
from ruler_cli.types import Line, value

KNOWN = (
    "trajectory_groups[]", "simulations[]", "samples[]", "results.results[]",
)  # fmt: skip
"""Paths of records that are tried: those of ART, tau2-bench, Inspect and promptfoo."""
_KNOWN = {steps[0]: steps for steps in map(steps_of, KNOWN)}
_LOG = _KNOWN[".samples"]
_BEFORE = {"samples": "eval"}
"""Members that must stand before those of a known path."""
_IN_LIST = re.compile(r"\[.*|\.\d+")
"""A first step that says which items of a list it takes."""
_BLANK = b" \t\r\n"
_MAX_AROUND = 64 << 20
"""Bytes before the records in which a task is searched."""


@value
class DocumentShape:
    """The offset at which a document begins, and the path of the records in each of its values.

    `known`: the path is one of those that are tried.
    """

    start: int
    steps: Steps = ()
    known: bool = False


def shape_of(read: Read, given: Steps = ()) -> DocumentShape | None:
    """Return the shape of a document; None if the text is JSON lines, or no JSON.

    `given` is the path that the user gave.
    """
    text = TextWindow(read, len(BOM) if read(0, len(BOM)) == BOM else 0, 0)
    opens = text.byte()
    at = text.at
    line, lf, rest = read(at, WINDOW).partition(b"\n")
    long = not lf and len(line) == WINDOW
    ended = not long and end_of(line, 0) is not None
    if (ended and rest.strip(_BLANK)) or opens not in OPENING:
        return None
    if opens == b"[":
        text.at += 1
        is_list = ended or text.byte() in b'{["-0123456789tfnNI]'
        steps = given if given and _IN_LIST.match(given[0]) else ("[]", *given)
        return DocumentShape(at, steps) if is_list else None

    if not given:
        with suppress(UnreadableError):
            known = _known_path(TextWindow(read, at, 0))
            if known:
                return DocumentShape(at, known, known=True)
        if ended or long:
            return None
    second = rest.partition(b"\n")[0].strip(_BLANK)
    torn = end_of(second, 0) == len(second)  # it seems so: JSON lines may follow
    shape = DocumentShape(at, given)
    if given and not (torn or long):
        return shape
    whole = long
    text = TextWindow(read, at, 0)
    with suppress(UnreadableError):
        _, first, size = text.value(WINDOW)
        if long and text.byte():
            return None
        whole = bool(parse(first, exact=False)) if size <= WINDOW else not torn
    return shape if whole else None


def _known_path(text: TextWindow) -> Steps:
    """Return the known path of the records in the object that starts here; () if there is none."""
    before = set[str]()
    for key in text.entries():
        steps = _KNOWN.get(f".{key}", ())
        if steps and _BEFORE.get(key) in {None, *before}:
            next(text.walk(steps[1:]), None)
            if text.reached:
                return steps
        before.add(key)
    return ()


class ListWriter(Writer):
    """Writes a list with a record on each line."""

    _between = b"[\n"

    def put(self, number: int, record: bytes) -> None:
        """Append an item."""
        self.stream.write(self._between + record.strip())
        self._between = b",\n"

    def end(self) -> None:
        """Write the bracket."""
        self.stream.write(b"\n]\n" if self._between == b",\n" else b"[]\n")


class Document(Container):
    """A JSON document in a regular file, or in a temporary one."""

    rank = 8
    endings = (".json",)
    takes_path = True
    writes = ListWriter

    def __init__(self, source: Source, shape: DocumentShape) -> None:
        """Take the text, which is in a file and stays open."""
        super().__init__(source.name, source.most)
        steps = shape.steps
        self._read = source.read
        self._shape = shape
        self._given = source.records
        self.unit = "item" if steps else "object"
        self.rewritable = steps == ("[]",)
        self.may_hold_events = not shape.known
        if "{}" not in steps:  # else a record is more than bytes of the text
            self.fd = source.fd
        if shape.known and steps == _LOG and source.fd is not None:
            self.log = os.fdopen(source.fd, "rb", closefd=False)

    @classmethod
    def open(cls, source: Source) -> Self | None:
        """Open text that is a document; one from a stream is kept in a file."""
        given = steps_of(source.records) if source.records else ()
        if source.fd is None:
            line = source.first_line.strip(_BLANK)
            lines = given and line[:1] == b"{"  # a stream of them is not kept
            whole = end_of(line, 0) is not None
            if whole and (lines or shape_of(source.read, given) is None):
                return None
            source.keep_text()
        shape = shape_of(source.read, given)
        return None if shape is None else cls(source, shape)

    @property
    def task(self) -> str:
        """The task that stands before the list of records."""
        if not self._shape.known:
            return ""
        first = next(self.records(), None)
        if first is None:
            return ""
        head = self._read(0, min(first.offset, _MAX_AROUND))
        return task_of(head.removeprefix(BOM) + b"]}")

    def records(self) -> Iterator[Line]:
        """Yield every record; UsageError behind the last one if the text is damaged."""
        text = TextWindow(self._read, self._shape.start, self.most)
        number = 0
        try:
            while opens := text.byte():
                start = text.at
                text.reached = False
                for offset, raw, size in text.walk(self._shape.steps):
                    number += 1
                    yield self.line(number, offset, raw, size)
                if not text.reached:
                    raise (
                        nowhere(self.name, self._given, self._read, start)
                        if self._given and opens in OPENING
                        else damaged()
                    )
        except UnreadableError as error:
            place = f"behind {self.unit} {number}" if number else "at its beginning"
            problem = f"{error} {place}"
            raise UsageError(
                problem, "mend it, or write it again", place=self.name
            ) from None
