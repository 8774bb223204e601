"""A JSON document as records, and the test that tells a document from JSON lines.

A document is (a) a list of objects, compact or pretty-printed; (b) one object that holds the records at a known
path, or at the one that the user gives; (c) one object over several lines. One that is larger than the bound on
records is refused: as lines it can be read in pieces.
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
from ruler_cli.files.splice import (
    DAMAGED,
    end_of,
    skip,
    span_at,
    value_end,
)
from ruler_cli.files.walk import (
    NoRecordsError,
    RecordPath,
    path_of,
    values_at,
)
from ruler_cli.types import Line, value

_LIST = RecordPath()
_LOG = RecordPath(("samples",))
KNOWN = (
    RecordPath(("trajectory_groups",)),
    RecordPath(("simulations",)),
    _LOG,
    RecordPath(("results", "results")),
)
"""Paths of lists that hold the records: those of ART, tau2-bench, Inspect and promptfoo."""


@value
class DocumentShape:
    """The offset at which a document begins, and the path of its records; None: it is one.

    `is_known`: the path is one of those that are tried.
    """

    start: int
    path: RecordPath | None
    is_known: bool = False


def shape_of(
    text: bytes, path: RecordPath | None = None, *, goes_on: bool = False
) -> DocumentShape | None:
    """Return the shape of a document; None if the text is JSON lines, or not JSON.

    `path` is the one that the user named. `goes_on`: there is more text, which was not read.
    """
    start = skip(text, len(BOM) if text.startswith(BOM) else 0)
    opens = text[start : start + 1]
    line, behind = _line(text, start)
    is_whole_line = end_of(line, 0) is not None
    if is_whole_line and skip(text, behind) < len(text):
        return None
    if opens == b"[":
        item = skip(text, start + 1)
        # a log may begin with a date in brackets
        is_list = is_whole_line or text[item : item + 1] in (b"{", b"[", b"]")
        return DocumentShape(start, _LIST) if is_list else None
    usual = None if path else _known_path(text, start)
    if usual:
        return DocumentShape(
            start,
            usual,
            is_known=True,
        )
    if opens != b"{" or (is_whole_line and not path):
        return None
    # behind a first line that is torn JSON lines may follow
    second, _ = _line(text, behind)
    is_torn = end_of(second, 0) == len(second)
    is_cut = goes_on and (path or behind <= len(text))
    if is_torn or not is_cut:
        try:
            parse(text[start:], exact=False)
        except UnreadableError:
            return None
    return DocumentShape(start, path)


def _line(text: bytes, start: int) -> tuple[bytes, int]:
    """Return the line at an offset without white space around it, and the offset behind it."""
    end = text.find(b"\n", start)
    end = len(text) if end < 0 else end
    return text[start:end].strip(), end + 1


def _known_path(text: bytes, start: int) -> RecordPath | None:
    """Return the known path of the records in the object that starts here; None if there is none."""
    with suppress(UnreadableError, IndexError):
        for path in KNOWN:
            span = span_at(
                text,
                path.names,
                start,
            )
            is_list = span is not None and text[span[0]] == ord("[")
            is_log = path != _LOG or span_at(
                text,
                ("eval",),
                start,
            )
            if is_list and is_log:
                return path
    return None


class ListWriter(Writer):
    """Writes a list with a record on each line."""

    form = "list"
    _between = b"[\n"

    def put(
        self,
        number: int,
        record: bytes,
    ) -> None:
        """Append an item."""
        self.stream.write(self._between + record.strip())
        self._between = b",\n"

    def end(self) -> None:
        """Write the bracket."""
        self.stream.write(b"\n]\n" if self._between == b",\n" else b"[]\n")


class Document(Container):
    """A JSON document in a regular file, or in a temporary one."""

    def __init__(
        self,
        source: Source,
        shape: DocumentShape,
    ) -> None:
        """Take the text, which is in a file and stays open."""
        super().__init__(source.name, source.most)
        self._source = source
        self._shape = shape
        path = shape.path
        self.unit = "item" if path else "object"
        # a path leads on from each item of a list
        self.takes_path = path != _LIST or source.records == _LIST.text
        self.form = ListWriter.form if path == _LIST else ""
        self.may_hold_events = not shape.is_known
        if not (path and path.by_key):  # else a record is more than bytes of it
            self.fd = source.fd
        if path == _LOG and shape.is_known and source.fd is not None:
            self.log = os.fdopen(
                source.fd,
                "rb",
                closefd=False,
            )

    @classmethod
    def open(cls, source: Source) -> Self | None:
        """Open text that is a document; one from a stream is kept in a file."""
        path = path_of(source.records) if source.records else None
        if source.fd is None:
            line = source.first_line.strip()
            is_lines = path and line[:1] == b"{"  # a stream of them is not kept
            is_whole = end_of(line, 0) is not None
            if is_whole and (is_lines or shape_of(line, path) is None):
                return None
            source.keep_text()
        goes_on = bool(source.read(source.most, 1))
        shape = shape_of(
            source.read(0, source.most),
            path,
            goes_on=goes_on,
        )
        if shape is not None and goes_on:
            path = shape.path
            lines = path.text.replace("{}", " | to_entries[]") if path else ""
            raise UsageError(
                f"is one JSON document of more than {source.most >> 20:,} MiB, which is not read whole",
                f"make lines of it: jq -c '.{lines}' {source.name} > lines.jsonl",
                place=source.name,
            )
        return None if shape is None else cls(source, shape)

    @property
    def task(self) -> str:
        """The task that a document with records at a known path names."""
        if not self._shape.is_known:
            return ""
        return task_of(self._source.read(0, self.most))

    def records(self) -> Iterator[Line]:
        """Yield every record; UsageError where the text is damaged."""
        text = self._source.read(0, self.most)
        start = self._shape.start
        try:
            end = value_end(text, start)
            if skip(text, end) < len(text):
                raise UnreadableError(DAMAGED)
            if self._shape.path is None:
                yield self.line(
                    1,
                    start,
                    text[start:end],
                )
                return
            values = values_at(
                text,
                start,
                self._shape.path,
            )
            for number, (offset, raw) in enumerate(values, 1):
                yield self.line(
                    number,
                    offset,
                    raw,
                )
        except NoRecordsError as error:
            raise error.for_input(self.name) from None
        except UnreadableError as error:
            raise UsageError(
                error.reason, "mend it, or write it again", place=self.name
            ) from None
