r"""One JSON document as records: the items of its list, or its objects.

(a) a list of objects, compact or pretty-printed; (b) one object that holds the records in a list
member of a known name; (c) objects over several lines, one or one after another (`jq .` prints so).
What is no record, down to the indentation, is copied when records are written back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, Literal

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.files.container import Container, Encoder
from ruler_cli.files.source import BOM, readable, shown
from ruler_cli.files.spans import Spans
from ruler_cli.files.splice import STRING
from ruler_cli.files.text import NOTHING, Read, Text, object_end
from ruler_cli.records import Line

HOLDERS = {"trajectory_groups": None, "simulations": None, "samples": "eval"}
"""Members that hold the records of a document (ART, tau2-bench, Inspect), and what must stand before."""

_VALUE = frozenset(b'{["-0123456789tfnNI')
_NO_VALUE = frozenset(b"]},:")
_COPY = 1 << 20
_BRACE, _LIST, _END, _OBJECT_END, _COMMA, _COLON, _QUOTE = b'{[]},:"'


@dataclass(frozen=True, slots=True)
class Shape:
    """How a document holds its records: `start` is where the list, or the first object, begins."""

    kind: Literal["list", "holder", "objects"]
    start: int


def shape_of(read: Read) -> Shape | None:
    """How a text is a document; None where it is JSON lines, or nothing that can be told."""
    text = Text(read)
    at = text.skip(len(BOM) if read(0, len(BOM)) == BOM else 0)
    first = text.byte(at)
    if first not in (_LIST, _BRACE):
        return None
    line = text.line(at)
    if first == _LIST:
        return None if _is_bad_line(text, at, line) else Shape("list", at)
    closed = line is not None and object_end(line) is not None
    if line is not None and closed:
        if _alone(text, at, line) and (held := _holder(text, at)) is not None:
            return Shape("holder", held)
        return None
    if line is not None and (not _opens(line) or _is_torn(text, at + len(line))):
        return None
    held = _holder(text, at)
    if held is not None:
        return Shape("holder", held)
    return None if line is None else Shape("objects", at)


def may_be_document(line: bytes) -> bool:
    """Whether a text whose first line that is not blank is this one could be a document."""
    line = line.removeprefix(BOM).strip()
    if line[:1] == b"[":
        return True
    if line[:1] != b"{":
        return False
    if object_end(line) is None:
        return _opens(line)
    return any(b'"%s"' % name.encode() in line for name in HOLDERS) and (
        _holder(_window(line), 0) is not None
    )


def _window(raw: bytes) -> Text:
    return Text(lambda at, size: raw[at : at + size])


def _is_bad_line(text: Text, at: int, line: bytes | None) -> bool:
    """Whether a list is the bad first line of JSON lines: it ends there, and more follows; or is none."""
    if line is None:
        return False
    end = object_end(line)
    if end is not None and not line[end:].strip():
        return not _alone(text, at, line)
    second = text.byte(text.skip(at + 1))
    return second not in _VALUE and second not in (_END, NOTHING)


def _alone(text: Text, at: int, line: bytes) -> bool:
    """Whether nothing but white space follows this line."""
    ahead = Text(text.read, at + len(line))
    return ahead.byte(ahead.skip(at + len(line))) == NOTHING


def _opens(line: bytes) -> bool:
    """Whether an object that does not end on this line may go on below: no string is torn."""
    inside = line[1:].strip()
    strings, at = 0, 0
    while (found := inside.find(b'"', at)) >= 0:
        string = STRING.match(inside, found)
        if string is None:
            return False
        strings, at = strings + 1, string.end()
    return not inside or (strings > 0 and inside[:1] == b'"')


def _is_torn(text: Text, at: int) -> bool:
    """Whether JSON lines go on behind a torn first line, rather than the object that it opens."""
    ahead = Text(text.read, at)
    at = ahead.skip(at)
    second = ahead.line(at)
    if second is None or second[:1] != b"{":
        return False
    end = object_end(second)
    if end is None or second[end:].strip():
        return False
    return ahead.byte(ahead.skip(at + len(second))) in (_BRACE, NOTHING)


def _holder(text: Text, at: int) -> int | None:
    """Where the list of records begins in the object that starts here; None where it holds none."""
    keys: set[str] = set()
    text = Text(text.read, at)
    at = text.skip(at + 1)
    while text.byte(at) == _QUOTE:
        end = text.value_end(at, keep=True)
        if end is None:
            return None
        key = _key(text.slice(at, end))
        at = text.skip(end)
        if text.byte(at) != _COLON:
            return None
        at = text.skip(at + 1)
        if key in HOLDERS and text.byte(at) == _LIST and HOLDERS[key] in {None, *keys}:
            return at
        keys.add(key)
        end = text.value_end(at, keep=False)
        if end is None:
            return None
        at = text.skip(end)
        if text.byte(at) == _COMMA:
            at = text.skip(at + 1)
    return None


def _key(name: bytes) -> str:
    try:
        return str(orjson.loads(name))
    except orjson.JSONDecodeError:
        return ""


class Document(Container):
    """A JSON document in a regular file, or in a temporary one."""

    plain = True

    def __init__(self, name: str, fd: int, shape: Shape, stack: ExitStack) -> None:
        """`fd` stays open; `stack` holds what is noted of the records."""
        super().__init__(name)
        self._fd, self._shape = fd, shape
        self._spans = Spans(stack)
        self._whole = False
        self.unit = "object" if shape.kind == "objects" else "item"

    def fileno(self) -> int:
        """The file."""
        return self._fd

    def records(self) -> Iterator[Line]:
        """Every item; the first full pass finds them, later ones know where they stand."""
        unit = self.unit
        if not self._whole:
            yield from self._found()
            return
        for index in range(len(self._spans)):
            start, end = self._spans[index]
            yield Line(index + 1, start, self.read(start, end - start), f"{unit} {index + 1}")

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the document; UsageError where the system does not give them."""
        with readable(self.name):
            return os.pread(self._fd, size, at)

    def encoder(self, stream: BinaryIO) -> Encoder:
        """Writes the document again, with other records."""
        with contextlib.suppress(UsageError):  # of one that is damaged, what stands before that
            for _ in () if self._whole else self.records():
                pass  # where they stand has to be known
        return _Rewritten(self, self._spans, stream)

    def _found(self) -> Iterator[Line]:
        text, number, at = Text(self.read, self._shape.start), 0, self._shape.start
        listed = self._shape.kind != "objects"
        at = text.skip(at + 1 if listed else at)
        while text.byte(at) != (_END if listed else NOTHING):
            if text.byte(at) in _NO_VALUE:
                raise self._damaged(text.byte(at), number + 1)
            end = text.value_end(at, keep=True)
            if end is None:
                raise self._damaged(NOTHING, number + 1)
            number += 1
            if number > len(self._spans):
                self._spans.append(at, end)
            yield Line(number, at, text.slice(at, end), f"{self.unit} {number}")
            at = text.skip(end)
            if listed and text.byte(at) == _COMMA:
                at = text.skip(at + 1)
                if text.byte(at) == _END:
                    raise self._damaged(_COMMA, number + 1)
            elif listed and text.byte(at) != _END:
                raise self._damaged(text.byte(at), number + 1)
        if listed:
            self._check_tail(text, at + 1, number)
        self._whole = True

    def _check_tail(self, text: Text, at: int, number: int) -> None:
        """Behind the list stands the rest of the object that holds it, or nothing."""
        at = text.skip(at)
        while self._shape.kind == "holder" and text.byte(at) != _OBJECT_END:
            for wanted in (_COMMA, _QUOTE, _COLON, None):
                end: int | None = at + 1
                if text.byte(at) != wanted if wanted else text.byte(at) in _NO_VALUE:
                    raise self._damaged(text.byte(at), number, behind=True)
                if wanted in {_QUOTE, None}:
                    end = text.value_end(at, keep=False)
                if end is None:
                    raise self._damaged(NOTHING, number, behind=True)
                at = text.skip(end)
        at = text.skip(at + 1) if self._shape.kind == "holder" else at
        if text.byte(at) != NOTHING:
            raise self._damaged(text.byte(at), number, behind=True)

    def _damaged(self, byte: int, number: int, *, behind: bool = False) -> UsageError:
        where = f"{'behind' if behind else 'before or in'} {self.unit} {number}"
        what = f"ends too soon, {where}" if byte == NOTHING else f"is damaged {where}"
        found = "" if byte == NOTHING else f" (found {chr(byte)!a} there)"
        return UsageError(
            f"{shown(self.name)}: is a JSON document that {what}{found}; write it anew, or mend it: "
            "`jq . FILE` names the line"
        )


class _Rewritten:
    """The document with other records; one that is left out takes its comma along."""

    def __init__(self, document: Document, spans: Spans, stream: BinaryIO) -> None:
        self._document, self._spans, self._stream = document, spans, stream
        self._last = 0

    def put(self, number: int, body: bytes) -> None:
        """What stands before this record, and its new bytes."""
        if not self._last:
            self._copy(0, self._spans[0][0])
        else:
            self._copy(self._spans[number - 2][1], self._spans[number - 1][0])
        self._stream.write(body)
        self._last = number

    def end(self) -> None:
        """What stands behind the last record, or all but the records where none was put."""
        if not self._last and len(self._spans):
            self._copy(0, self._spans[0][0])
        self._copy(self._spans[len(self._spans) - 1][1] if len(self._spans) else 0, None)

    def _copy(self, at: int, end: int | None) -> None:
        while end is None or at < end:
            piece = self._document.read(at, _COPY if end is None else min(_COPY, end - at))
            if not piece:
                return
            self._stream.write(piece)
            at += len(piece)
