"""A JSON document as records, and the test that tells a document from JSON lines.

A document is (a) a list of objects, compact or pretty-printed; (b) one object that holds the records at a known
path, or at the one that the user gives; (c) objects over several lines, one or one after another (`jq .` prints
so). One that is larger than the bound on records is refused: as lines it can be read in pieces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.containers import Container, Writer, task_of
from ruler_cli.files.parse import parse
from ruler_cli.files.source import BOM, Source
from ruler_cli.files.splice import DAMAGED, end_of, skip, span_at
from ruler_cli.files.walk import NoRecordsError, Steps, steps_of, values_at
from ruler_cli.types import Line, value

_LOG = ("samples",)
KNOWN = (("trajectory_groups",), ("simulations",), _LOG, ("results", "results"))
"""Paths of lists that hold the records: those of ART, tau2-bench, Inspect and promptfoo."""
_BLANK = b" \t\r\n"


@value
class DocumentShape:
    """The offset at which a document begins, and the path of the records in each of its values.

    `known` is the path if it is one of those that are tried, else empty.
    """

    start: int
    steps: Steps = ()
    known: tuple[str, ...] = ()


def shape_of(
    text: bytes, path: Steps = (), *, goes_on: bool = False
) -> DocumentShape | None:
    """Return the shape of a document; None if the text is JSON lines, or not JSON.

    `path` is the one that the user named. `goes_on`: there is more text, which was not read.
    """
    start = skip(text, len(BOM) if text.startswith(BOM) else 0)
    opens = text[start : start + 1]
    line, behind = _line(text, start)
    is_whole_line = end_of(line, 0) is not None
    if opens not in (b"[", b"{") or (
        is_whole_line and skip(text, behind) < len(text)
    ):
        return None
    if opens == b"[":
        first = skip(text, start + 1)
        names_items = path and (path[0] == "[]" or path[0][1:].isdecimal())
        steps = path if names_items else ("[]", *path)
        # a log may begin with a date in brackets
        is_list = is_whole_line or text[first : first + 1] in (b"{", b"[", b"]")
        return DocumentShape(start, steps) if is_list else None
    if not path:
        known = _known_path(text, start)
        if known:
            steps = *(f".{name}" for name in known), "[]"
            return DocumentShape(start, steps, known)
        if is_whole_line:
            return None
    # behind a first line that is torn JSON lines may follow
    second, _ = _line(text, behind)
    may_be_torn = end_of(second, 0) == len(second)
    is_cut = goes_on and behind <= len(text)
    if may_be_torn or not (path or is_cut):
        try:
            parse(text[start : end_of(text, start)], exact=False)
        except UnreadableError:
            return None
    return DocumentShape(start, path)


def _line(text: bytes, start: int) -> tuple[bytes, int]:
    """Return the line at an offset without white space around it, and the offset behind it."""
    end = text.find(b"\n", start)
    end = len(text) if end < 0 else end
    return text[start:end].strip(_BLANK), end + 1


def _known_path(text: bytes, start: int) -> tuple[str, ...]:
    """Return the known path of the records in the object that starts here; () if there is none."""
    with suppress(UnreadableError, IndexError):
        for path in KNOWN:
            span = span_at(text, path, start)
            is_list = span is not None and text[span[0]] == ord("[")
            is_log = path != _LOG or span_at(text, ("eval",), start)
            if is_list and is_log:
                return path
    return ()


class ListWriter(Writer):
    """Writes a list with a record on each line."""

    form = "list"
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

    takes_path = True

    def __init__(self, source: Source, shape: DocumentShape) -> None:
        """Take the text, which is in a file and stays open."""
        super().__init__(source.name, source.most)
        self._source = source
        self._shape = shape
        self.unit = "item" if shape.steps else "object"
        self.form = ListWriter.form if shape.steps == ("[]",) else ""
        self.may_hold_events = not shape.known
        if "{}" not in shape.steps:  # else a record is more than bytes of it
            self.fd = source.fd
        if shape.known == _LOG and source.fd is not None:
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
        goes_on = bool(source.read(source.most, 1))
        shape = shape_of(source.read(0, source.most), path, goes_on=goes_on)
        if shape is not None and goes_on:
            lines = "".join(shape.steps).replace("{}.value", "[]")
            lines = lines.replace("{}", " | to_entries[]").removeprefix(".")
            raise UsageError(
                f"is one JSON document of more than {source.most >> 20:,} MiB, too large to read whole",
                f"convert it to lines: jq -c '.{lines}' {source.name} > lines.jsonl",
                place=source.name,
            )
        return None if shape is None else cls(source, shape)

    @property
    def task(self) -> str:
        """The task that a document with records at a known path names."""
        known = self._shape.known
        return task_of(self._source.read(0, self.most)) if known else ""

    def records(self) -> Iterator[Line]:
        """Yield every record; UsageError where the text is damaged."""
        text = self._source.read(0, self.most)
        at = self._shape.start
        number = 0
        try:
            while at < len(text):
                end = end_of(text, at)
                if end is None:
                    raise UnreadableError(DAMAGED)
                for offset, raw in values_at(text, at, self._shape.steps):
                    number += 1
                    yield self.line(number, offset, raw)
                at = skip(text, end)
        except NoRecordsError as error:
            raise error.for_input(self.name) from None
        except UnreadableError as error:
            raise UsageError(
                error.reason, "mend it, or write it again", place=self.name
            ) from None
