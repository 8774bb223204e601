"""One JSON document as records, the items of its list or its objects; and if a text is one, or JSON lines.

(a) a list of objects, compact or pretty-printed; (b) one object that holds the records in a list
member of a known name, or in that of an object in it; (c) objects over several lines, one or one after
another (`jq .` prints so).
What is no record, down to the indentation, is copied when records are written back. Each pass finds the
records anew, so memory does not grow with their number.

Nothing here trusts the text: it may end anywhere or be no JSON at all. Memory holds a window, and the
value that is looked at.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.compression import BOM, readable
from ruler_cli.files.container import Container, Encoder, task_of
from ruler_cli.files.parse import parse
from ruler_cli.files.splice import SPACE, STRING, end_of
from ruler_cli.records import Line

Read = Callable[[int, int], bytes]
"""Bytes of the text: offset and size; fewer at its end."""

HOLDERS = {
    "trajectory_groups": None, "simulations": None, "samples": "eval", "evalCaseResults": None,
    "eval_case_results": None, "eval_cases": None, "evalCases": None,
}  # fmt: skip
"""Members that hold the records of a document (ART, tau2-bench, Inspect, ADK), and what must stand before."""
NESTED = "results"
"""A member that holds an object which holds the records under the same name (promptfoo)."""

_WINDOW = 1 << 20
_AHEAD = 20
"""Lines behind a first one that does not end, of which one that is whole shows that lines are records."""


class Text:
    """A window that moves forward: `at` in every method is an offset into the whole text."""

    def __init__(self, read: Read, at: int = 0) -> None:
        """Begin at an offset."""
        self._read, self._base, self._buf = read, at, b""

    def skip(self, at: int) -> tuple[int, bytes]:
        """The next byte that is no white space, and where it stands; no byte at the end."""
        while True:
            found = SPACE.match(self._buf, at - self._base)
            at = max(at, self._base + found.end()) if found else at
            if at - self._base < len(self._buf) or not self._more(at):
                return at, self.slice(at, at + 1)

    def value_end(self, at: int) -> int | None:
        """Just behind the value that starts here; None if the text ends first or none starts."""
        while True:
            end = end_of(self._buf, at - self._base)
            ended = end is not None and (end < len(self._buf) or self._buf[end - 1 : end] in b'"]}')
            if ended or not self._more(at):
                return None if end is None else self._base + end

    def slice(self, start: int, end: int) -> bytes:
        """Bytes of the last value or line."""
        return self._buf[start - self._base : end - self._base]

    def line(self, at: int) -> bytes | None:
        """From here to the LF or the end; None if that is further than a window."""
        while True:
            line, end, _ = self._buf[max(0, at - self._base) :].partition(b"\n")
            if end or len(line) > _WINDOW or not self._more(at):
                return None if len(line) > _WINDOW else line

    def _more(self, keep: int) -> bool:
        """Read on; what stands before `keep` is forgotten. False at the end."""
        kept = self._buf[max(0, keep - self._base) :]
        new = self._read(self._base + len(self._buf), max(_WINDOW, len(kept)))
        self._base = self._base + len(self._buf) - len(kept)
        self._buf = kept + new
        return bool(new)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a document holds its records: the list, or the first object, begins at `start`.

    `listed` is false for objects one after another. `name` is the member that holds the list.
    """

    start: int
    listed: bool = True
    name: str = ""


def shape_of(read: Read) -> Shape | None:
    """How a text is a document; None if it is JSON lines, or nothing that can be told."""
    text = Text(read)
    at, first = text.skip(len(BOM) if read(0, len(BOM)) == BOM else 0)
    if first not in (b"{", b"["):
        return None
    line = text.line(at)
    if line is None:
        return Shape(at) if first == b"[" else _holder(read, at)
    ended = end_of(line, 0) is not None
    alone = not text.skip(at + len(line))[1]
    if first == b"[":
        second = Text(read, at).skip(at + 1)[1]
        bad = not alone if ended else second not in b'{["-0123456789tfnNI]'
        return None if bad else Shape(at)
    if ended:
        return _holder(read, at) if alone else None
    if not _opens(line) or _is_torn(read, at, line):
        return None
    return _holder(read, at) or Shape(at, listed=False)


def may_be_document(line: bytes) -> bool:
    """Tell if a text whose first line that is not blank is this one could be a document."""
    line = line.removeprefix(BOM).strip()
    if line[:1] != b"{":
        return line[:1] == b"["
    if end_of(line, 0) is None:
        return _opens(line)
    named = any(b'"%s"' % name.encode() in line for name in (*HOLDERS, NESTED))
    return named and _holder(lambda at, size: line[at : at + size], 0) is not None


def _opens(line: bytes) -> bool:
    """Tell if an object that does not end on this line may go on below: no string is torn."""
    return b'"' not in STRING.sub(b"", line) and line[1:].strip()[:1] in (b"", b'"')


def _is_torn(read: Read, at: int, line: bytes) -> bool:
    """Tell if JSON lines go on behind torn first lines, rather than the object that they open."""
    begin, text = at, Text(read, at + len(line))
    at, byte = text.skip(at + len(line))
    if byte == b"{" and line.rstrip()[-1:] not in (b"[", b","):
        return True  # within an object, none may begin there, or nobody breaks the line so
    for number in range(_AHEAD):
        second = text.line(at)
        if not second or (number and read(at - 1, 1) != b"\n"):
            return False
        whole = second[:1] == b"{" and end_of(second, 0) == len(second.rstrip())
        after, byte = text.skip(at + len(second))
        if whole:
            return byte in (b"{", b"") and not _is_whole(read(begin, at - begin))
        at = after
    return False


def _is_whole(raw: bytes) -> bool:
    end = end_of(raw, 0)
    try:
        return end is not None and parse(raw[:end], exact=False) is not None
    except UnreadableError:
        return False


def _holder(read: Read, at: int, within: str = "") -> Shape | None:
    """Where the list of records stands in the object that starts here; None if it holds none.

    `within` is the name of the member that holds this object.
    """
    keys: set[str] = set()
    text = Text(read, at)
    at, byte = text.skip(at + 1)
    while byte == b'"':
        end = text.value_end(at)
        key = "" if end is None else _key(text.slice(at, end))
        at, byte = (at, b"") if end is None else text.skip(end)
        if byte != b":":
            return None
        at, byte = text.skip(at + 1)
        known = not within and key in HOLDERS and HOLDERS[key] in {None, *keys}
        if byte == b"[" and (known or key == within):
            return Shape(at, name=key)
        inner = _holder(read, at, NESTED) if byte == b"{" and key == NESTED and not within else None
        end = text.value_end(at) if inner is None else None
        if end is None:
            return inner
        keys.add(key)
        at, byte = text.skip(end)
        if byte == b",":
            at, byte = text.skip(at + 1)
    return None


def _key(name: bytes) -> str:
    try:
        return str(orjson.loads(name))
    except orjson.JSONDecodeError:
        return ""


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
