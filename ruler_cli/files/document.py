r"""One JSON document as records: the items of its list, or its objects.

(a) a list of objects, compact or pretty-printed; (b) one object that holds the records in a list
member of a known name, or in that of an object in it; (c) objects over several lines, one or one after
another (`jq .` prints so).
What is no record, down to the indentation, is copied when records are written back. Each pass finds the
records anew, so memory does not grow with their number.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import BOM, readable
from ruler_cli.files.container import Container, Encoder, task_of
from ruler_cli.files.shape import Shape, Text
from ruler_cli.records import Line

_COPY = 1 << 20
_LARGEST = 64 << 20
"""Bytes around the list of records beyond which nobody looks at them."""


class Document(Container):
    """A JSON document in a regular file, or in a temporary one."""

    plain = True

    def __init__(self, name: str, fd: int, shape: Shape) -> None:
        """`fd` stays open."""
        super().__init__(name)
        self._fd, self._shape = fd, shape
        self._checked = False
        self.held = bool(shape.name)
        self.unit = "item" if shape.listed else "object"

    def fileno(self) -> int:
        """The file."""
        return self._fd

    def records(self) -> Iterator[Line]:
        """Every item."""
        for number, (at, raw) in enumerate(self.items(), 1):
            yield Line(number, at, raw, self.place(number))

    @property
    def task(self) -> str:  # type: ignore[override]  # read when it is asked for: few need it
        """The task that stands before the list of records."""
        head = self.read(0, min(self._shape.start, _LARGEST)) if self.held else b""
        return task_of(head.removeprefix(BOM) + b"[]}")

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the document; UsageError if the system does not give them."""
        with readable(self.name):
            return os.pread(self._fd, size, at)

    def encoder(self, stream: BinaryIO) -> Encoder:
        """Writes the document again, with other records."""
        return _Rewritten(self, stream)

    def items(self) -> Iterator[tuple[int, bytes]]:
        """The offset and the bytes of every record; UsageError behind the last one if the text is damaged."""
        listed, number = self._shape.listed, 0
        text = Text(self.read, self._shape.start)
        at, byte = text.skip(self._shape.start + listed)
        while byte != (b"]" if listed else b""):
            end = None if byte in b"]},:" else text.value_end(at)
            if end is None:
                raise self._damaged(f"before or in {self.unit} {number + 1}")
            yield at, text.slice(at, end)
            number += 1
            at, byte = text.skip(end)
            if listed and byte == b",":
                at, byte = text.skip(at + 1)
                byte = b"," if byte == b"]" else byte
            elif listed and byte != b"]":
                raise self._damaged(f"before or in {self.unit} {number + 1}")
        if listed and not self._checked:
            self._check(at + 1, number)
        self._checked = True

    def _check(self, end: int, number: int) -> None:
        """Refuse what would be damaged without its records; `end` is just behind their list."""
        size = os.fstat(self._fd).st_size - end
        if self._shape.start + size > _LARGEST:
            return
        around = self.read(0, self._shape.start).removeprefix(BOM) + b"[]" + self.read(end, size)
        try:
            json.loads(around.decode("utf-8", "replace"), parse_int=len, object_pairs_hook=self._object)
        except (ValueError, RecursionError):
            raise self._damaged(f"behind {self.unit} {number}") from None

    def _object(self, members: list[tuple[str, Any]]) -> None:
        if self.held and sum(name == self._shape.name for name, _ in members) > 1:
            raise UsageError(
                f"{self.name}: holds `{self._shape.name}` twice, and readers see only the "
                "last; take one of them out"
            )

    def _damaged(self, where: str) -> UsageError:
        return UsageError(
            f"{self.name}: is a JSON document that is damaged, or ends too soon, {where}; write it "
            "anew, or mend it: `jq . FILE` names the line"
        )


class _Rewritten:
    """The document with other records; one that is left out takes its comma along."""

    def __init__(self, document: Document, stream: BinaryIO) -> None:
        self._document, self._stream = document, stream
        self._items = document.items()
        self._number = self._first = self._before = self._start = self._end = 0
        self._empty = True

    def put(self, number: int, body: bytes) -> None:
        """What stands before this record, and its new bytes."""
        while self._number < number:
            self._step()
        self._between()
        self._stream.write(body)

    def end(self) -> None:
        """What stands behind the last record, or all but the records where none was put."""
        with contextlib.suppress(
            UsageError, StopIteration
        ):  # of one that is damaged, what stands before that
            while True:
                self._step()
        if self._empty and self._number:
            self._between()
        while piece := self._document.read(self._end, _COPY):
            self._stream.write(piece)
            self._end += len(piece)

    def _step(self) -> None:
        start, raw = next(self._items)
        self._number += 1
        self._first = self._first if self._number > 1 else start
        self._before, self._start, self._end = self._end, start, start + len(raw)

    def _between(self) -> None:
        """Copy what stands in front of this record, or of the first one if none was put."""
        at, end = (0, self._first) if self._empty else (self._before, self._start)
        self._empty = False
        while at < end:
            piece = self._document.read(at, min(_COPY, end - at))
            self._stream.write(piece)
            at += len(piece) or end
