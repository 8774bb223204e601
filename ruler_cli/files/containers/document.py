"""A JSON document as records, and the test that tells a document from JSON lines.

A document is (a) a list of objects, compact or pretty-printed; (b) one object that holds the records at a known
path, or at the one that the user gives; (c) objects over several lines, one or one after another (`jq .` prints
so). One that is larger than the bound on records is refused: as lines it can be read in pieces.
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
from ruler_cli.files.splice import end_of, skip
from ruler_cli.files.walk import (
    OPENING,
    JsonText,
    Steps,
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
_MAX_FIRST = 1 << 20
"""Bytes of a first object that is parsed to know that it is not torn."""
_MAX_AROUND = 64 << 20
"""Bytes before the records in which a task is searched."""


@value
class DocumentShape:
    """The offset at which a document begins, and the path of the records in each of its values.

    `is_known`: the path is one of those that are tried.
    """

    start: int
    steps: Steps = ()
    is_known: bool = False


def shape_of(text: bytes, path: Steps = ()) -> DocumentShape | None:
    """Return the shape of a document; None if the text is JSON lines, or not JSON.

    `path` is the one that the user named.
    """
    whole = JsonText(text, len(BOM) if text[: len(BOM)] == BOM else 0)
    opens = whole.byte()
    start = whole.at
    if opens not in OPENING:
        return None
    line, behind = _line(text, start)
    is_whole_line = end_of(line, 0) is not None
    if is_whole_line and skip(text, behind) < len(text):
        return None
    if opens == b"[":
        whole.at += 1
        is_list = is_whole_line or whole.byte() in b'{["-0123456789tfnNI]'
        names_items = path and _IN_LIST.match(path[0])
        steps = path if names_items else ("[]", *path)
        return DocumentShape(start, steps) if is_list else None
    if not path:
        with suppress(UnreadableError):
            steps = _known_path(JsonText(text, start))
            if steps:
                return DocumentShape(start, steps, is_known=True)
        if is_whole_line:
            return None
    # behind a first line that is torn JSON lines may follow
    second, _ = _line(text, behind)
    is_torn = end_of(second, 0) == len(second)
    if path and not is_torn:
        return DocumentShape(start, path)
    end = end_of(text[: start + _MAX_FIRST] if is_torn else text, start)
    if end is None:
        return None
    with suppress(UnreadableError):
        if end - start > _MAX_FIRST or parse(text[start:end], exact=False):
            return DocumentShape(start, path)
    return None


def _line(text: bytes, start: int) -> tuple[bytes, int]:
    """Return the line at an offset without white space around it, and the offset behind it."""
    end = text.find(b"\n", start)
    end = len(text) if end < 0 else end
    return text[start:end].strip(_BLANK), end + 1


def _known_path(text: JsonText) -> Steps:
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
        self._source = source
        self._shape = shape
        self.unit = "item" if steps else "object"
        self.rewritable = steps == ("[]",)
        self.may_hold_events = not shape.is_known
        if "{}" not in steps:  # else a record is more than bytes of the text
            self.fd = source.fd
        if shape.is_known and steps == _LOG and source.fd is not None:
            self.log = os.fdopen(source.fd, "rb", closefd=False)

    @classmethod
    def open(cls, source: Source) -> Self | None:
        """Open text that is a document; one from a stream is kept in a file."""
        path = steps_of(source.records) if source.records else ()
        if source.fd is None:
            line = source.first_line.strip(_BLANK)
            is_lines = path and line[:1] == b"{"  # a stream of them is not kept
            is_whole = end_of(line, 0) is not None
            if is_whole and (is_lines or shape_of(line, path) is None):
                return None
            source.keep_text()
        shape = shape_of(source.read(0, source.most), path)
        if shape is not None and source.read(source.most, 1):
            raise _too_large(source, shape)
        return None if shape is None else cls(source, shape)

    @property
    def task(self) -> str:
        """The task that stands before the list of records."""
        if not self._shape.is_known:
            return ""
        first = next(self.records(), None)
        if first is None:
            return ""
        head = self._source.read(0, min(first.offset, _MAX_AROUND))
        return task_of(head.removeprefix(BOM) + b"]}")

    def records(self) -> Iterator[Line]:
        """Yield every record; UsageError behind the last one if the text is damaged."""
        whole = self._source.read(0, self.most)
        text = JsonText(whole, self._shape.start)
        number = 0
        try:
            while opens := text.byte():
                start = text.at
                text.reached = False
                for offset, raw in text.walk(self._shape.steps):
                    number += 1
                    yield self.line(number, offset, raw)
                if text.reached:
                    continue
                if self._source.records and opens in OPENING:
                    raise nowhere(self.name, self._source.records, whole, start)
                raise damaged()
        except UnreadableError as error:
            place = (
                f"behind {self.unit} {number}" if number else "at its beginning"
            )
            problem = f"{error} {place}"
            raise UsageError(
                problem, "mend it, or write it again", place=self.name
            ) from None


def _too_large(source: Source, shape: DocumentShape) -> UsageError:
    """Return the error for a document that is not read, with the command that makes lines of it."""
    path = "".join(shape.steps).replace("{}.value", "[]")
    path = path.replace("{}", " | to_entries[]").replace("[1:]", "[1:][]")
    path = path if path.startswith(".") else f".{path}"
    return UsageError(
        f"is one JSON document of more than {source.most >> 20:,} MiB, which is not read whole",
        f"make lines of it: jq -c '{path}' {source.name} > lines.jsonl",
        place=source.name,
    )
