"""JSON text of any length: where its values end, and if it is one document or JSON lines.

Nothing here trusts the text: it may end anywhere or be no JSON at all. Memory holds a window, and the
value that is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from ruler_cli.errors import UnreadableError
from ruler_cli.files.compression import BOM
from ruler_cli.files.parse import parse
from ruler_cli.files.splice import NEXT_BRACKET, SPACE, STRING, quick_end

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
            end = _end(self._buf, at - self._base)
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


def _end(raw: bytes, at: int) -> int | None:
    found = quick_end(raw, at)
    if found is not None or raw[at : at + 1] not in (b"{", b"["):
        return found
    depth, seen = 0, at  # it is nested deeply, or does not end
    while bracket := NEXT_BRACKET.match(raw, seen):
        seen = bracket.end()
        depth += 1 if raw[seen - 1] in b"[{" else -1
        if not depth:
            return seen
    return None


def object_end(raw: bytes) -> int | None:
    """Just behind the object or list that `raw` begins with; None if it does not end."""
    return _end(raw, 0)


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
    ended = object_end(line) is not None
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
    if object_end(line) is None:
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
        whole = second[:1] == b"{" and object_end(second) == len(second.rstrip())
        after, byte = text.skip(at + len(second))
        if whole:
            return byte in (b"{", b"") and not _is_whole(read(begin, at - begin))
        at = after
    return False


def _is_whole(raw: bytes) -> bool:
    end = object_end(raw)
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
