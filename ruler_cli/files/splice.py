r"""Exact edits of JSON text: every byte that is not ours is copied, never re-serialised.

A scored record must keep numbers, escapes, field order and white space as they came, and no JSON
library does (1.0 or 1e0, \u00e9 or é, NaN, 20-digit integers, duplicate keys). So ruler looks up
where a value stands in the record's bytes and replaces just that.

The text must be valid JSON (or Python's superset): the caller has parsed it before.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]+")
_NEXT_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Object:
    """Where an object's members stand: key → (start of member, start of value, end of value)."""

    start: int
    end: int
    members: dict[str, tuple[int, int, int]]


@dataclass(slots=True)
class Patches:
    """Replacements of byte ranges of one text, collected first and applied at once."""

    raw: bytes
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)

    def replace(self, start: int, end: int, new: bytes) -> None:
        """Put `new` where start:end stands."""
        self.edits.append((start, end, new))

    def put(self, obj: Object, values: dict[str, bytes | None]) -> None:
        """Set members of an object; None removes. New members come last, in the order given."""
        fresh, gone = [], []
        for key, value in values.items():
            member = obj.members.get(key)
            if member is None:
                if value is not None:
                    fresh.append(json.dumps(key).encode() + b": " + value)
            elif value is None:
                gone.append(key)
            else:
                self.replace(member[1], member[2], value)
        left = len(obj.members) - len(gone)
        for key in gone:
            self._remove(obj, key)
        if fresh:
            last = obj.end - 1
            while self.raw[last - 1] in b" \t\r\n":
                last -= 1
            self.replace(last, last, (b", " if left else b"") + b", ".join(fresh))

    def _remove(self, obj: Object, key: str) -> None:
        start, _, end = obj.members[key]
        after = _SPACE.match(self.raw, end).end()  # type: ignore[union-attr]  # matches ""
        if self.raw[after] == ord(","):
            end = _SPACE.match(self.raw, after + 1).end()  # type: ignore[union-attr]  # matches ""
        else:
            before = start
            while self.raw[before - 1] in b" \t\r\n":
                before -= 1
            if self.raw[before - 1] == ord(","):
                start = before - 1
        self.replace(start, end, b"")

    def apply(self) -> bytes:
        """The text with every replacement in place."""
        out, at = [], 0
        for start, end, new in sorted(self.edits, key=lambda e: e[:2]):
            # two removals may share a comma: the later one then begins where the first ended
            out += [self.raw[at : max(start, at)], new]
            at = max(at, end)
        out.append(self.raw[at:])
        return b"".join(out)


def value_end(raw: bytes, at: int) -> int:
    """The index just behind the value that starts at `at`."""
    first = raw[at]
    if first == ord('"'):
        return _STRING.match(raw, at).end()  # type: ignore[union-attr]  # text is valid JSON
    if first not in b"[{":
        return _SCALAR.match(raw, at).end()  # type: ignore[union-attr]  # text is valid JSON
    depth = 0
    while True:
        bracket = _NEXT_BRACKET.match(raw, at)
        assert bracket is not None  # noqa: S101 - text is valid JSON, so brackets balance
        at = bracket.end()
        depth += 1 if raw[at - 1] in b"[{" else -1
        if not depth:
            return at


def read_object(raw: bytes, at: int = 0) -> Object:
    """Find the members of the object that starts at `at`; of equal keys the last wins."""
    start = at = _skip(raw, at)
    members: dict[str, tuple[int, int, int]] = {}
    at = _skip(raw, at + 1)
    while raw[at] != ord("}"):
        key_end = value_end(raw, at)
        value = _skip(raw, _skip(raw, key_end) + 1)
        end = value_end(raw, value)
        name = raw[at + 1 : key_end - 1]
        members[_key(name)] = (at, value, end)
        at = _skip(raw, end)
        if raw[at] == ord(","):
            at = _skip(raw, at + 1)
    return Object(start, at + 1, members)


def read_array(raw: bytes, at: int) -> list[Span]:
    """Spans of the items of the array that starts at `at`."""
    items: list[Span] = []
    at = _skip(raw, at + 1)
    while raw[at] != ord("]"):
        end = value_end(raw, at)
        items.append((at, end))
        at = _skip(raw, end)
        if raw[at] == ord(","):
            at = _skip(raw, at + 1)
    return items


def _skip(raw: bytes, at: int) -> int:
    return _SPACE.match(raw, at).end()  # type: ignore[union-attr]  # matches ""


def _key(name: bytes) -> str:
    text = name.decode("utf-8", "surrogatepass")
    return str(json.loads(f'"{text}"', strict=False)) if "\\" in text else text
