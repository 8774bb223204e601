r"""Exact edits of JSON text: every byte that is not ours is copied, never re-serialised.

A scored record must keep numbers, escapes, field order and white space as they came, and no JSON
library does (1.0 or 1e0, \u00e9 or é, NaN, 20-digit integers, duplicate keys). So ruler looks up
where a value stands in the record's bytes and replaces just that.

The text must be valid JSON (or Python's superset): the caller has parsed it before.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, cast

from ruler_cli.reading.parse import dump


def _many(pattern: bytes) -> bytes:
    """Any number of a pattern, without a way back."""
    # before Python 3.11.5 a possessive quantifier of a group matched too little (gh-106052)
    return b"(?:%s)*+" % pattern if sys.version_info >= (3, 11, 5) else b"(?>(?:%s)*)" % pattern


_INSIDE = rb'[^"\\]*+' + _many(rb'\\.[^"\\]*+')
_TEXT = b'"' + _INSIDE + b'"'
_BARE = rb'[^"\[\]{}]*+'
_MEMBER = re.compile(rb'[ \t\r\n,]*"(' + _INSIDE + rb')"[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
SPACE = re.compile(rb"[ \t\r\n]*")
_NEXT_BRACKET = re.compile(_BARE + _many(_TEXT + _BARE) + rb"([\[\]{}])", re.DOTALL)
STRING = re.compile(_TEXT, re.DOTALL)
_QUOTED = rb'"[^"]*+' + _many(rb'(?<=[^\\]\\)"[^"]*+') + rb'(?<!\\)"'
"""A string by its quotes alone, in half the time of `_TEXT`: a quote behind a backslash is text. Where
one stands behind two backslashes or more this matches nothing, and `_TEXT` is asked."""


@cache  # compiled when the first record is written: the first request does not wait for it
def _value(string: bytes, depth: int = 10) -> re.Pattern[bytes]:
    """Any value but a container that is nested deeper, in one match: an inner loop in C."""
    text = _BARE + _many(string + _BARE)
    container = rb"[\[{]" + text + rb"[\]}]"
    for _ in range(depth - 1):
        container = rb"[\[{]" + text + _many(container + text) + rb"[\]}]"
    return re.compile(string + rb'|[^"\[\]{}\s,]++|' + container, re.DOTALL)


Span = tuple[int, int]
Tree = Mapping[str, "Tree | bytes | None"]
"""New members of an object, and of objects inside it."""


class Object(NamedTuple):
    """Where an object's members stand: key → (start of member, start of value, end of value).

    `every` holds the key and span of each member in the order of the text, equal keys too.
    """

    start: int
    end: int
    members: dict[str, tuple[int, int, int]]
    every: list[tuple[str, Span]]


Items = list[Object | Span]
"""What stands in a list: its objects with their members, the span of anything else."""


@dataclass(slots=True)
class Patches:
    """Replacements of byte ranges of one text, collected first and applied at once."""

    raw: bytes
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)

    def replace(self, start: int, end: int, new: bytes) -> None:
        """Put `new` where start:end stands."""
        self.edits.append((start, end, new))

    def put(self, obj: Object, values: Tree) -> None:
        """Set members of an object; None removes. New members come last, in the order given.

        A tree sets members of the object that stands there, or makes one.
        """
        fresh, gone = {}, set()
        for key, value in values.items():
            member = obj.members.get(key)
            if member is None:
                if value is not None:
                    fresh[key] = written(value)
            elif value is None:
                gone.add(key)
            elif not isinstance(value, bytes):
                self._into(member[1:], value)
            else:
                self.replace(member[1], member[2], value)
        if gone:
            self.drop([span for _, span in obj.every], [key in gone for key, _ in obj.every])
        if fresh:
            last = obj.every[-1][1][1] if obj.every else obj.start + 1
            alone = all(key in gone for key, _ in obj.every)
            self.replace(last, last, (b"" if alone else b", ") + members(fresh))

    def _into(self, span: Span, values: Tree) -> None:
        """Set members of the object, or items of the list, that stands at a span."""
        opens = self.raw[span[0]]
        if opens == ord("{"):
            self.put(read_object(self.raw, span[0]), values)
        elif opens == ord("[") and all(key.isdecimal() for key in values):
            items = read_array(self.raw, span[0])
            for key, value in values.items():
                if int(key) >= len(items) or value is None:
                    continue
                if isinstance(value, bytes):
                    self.replace(*items[int(key)], value)
                else:
                    self._into(items[int(key)], value)
        else:
            self.replace(*span, written(values))

    def drop(self, spans: list[Span], lost: list[bool]) -> None:
        """Remove some of the items that commas part, each with one comma while another is left."""
        kept = False
        for i, (start, end) in enumerate(spans):
            if not lost[i]:
                kept = True
            elif kept:
                self.replace(spans[i - 1][1], end, b"")
            else:
                self.replace(start, spans[i + 1][0] if i + 1 < len(spans) else end, b"")

    def apply(self) -> bytes:
        """The text with every replacement in place."""
        out, at = [], 0
        for start, end, new in sorted(self.edits, key=lambda e: e[:2]):
            out += [self.raw[at:start], new]
            at = end
        out.append(self.raw[at:])
        return b"".join(out)


def written(value: Tree | bytes) -> bytes:
    """A value, or a tree of members as the object it stands for."""
    if isinstance(value, bytes):
        return value
    return b"{" + members({key: written(v) for key, v in value.items() if v is not None}) + b"}"


def at(raw: bytes, path: Iterable[str | int], start: int = 0) -> Span | None:
    """Where the value at a path stands, from the value that begins at `start`; None where absent."""
    start = _skip(raw, start)
    span: Span = (start, -1)
    for part in path:
        opens = raw[span[0]]
        if opens == ord("{"):  # a number is a key there: `rewards.0` of {"rewards": {"0": 1}}
            member = read_object(raw, span[0]).members.get(str(part))
            if member is None:
                return None
            span = member[1:]
        elif isinstance(part, int) and opens == ord("["):
            items = read_array(raw, span[0])
            if part >= len(items):
                return None
            span = items[part]
        else:
            return None
    return span if span[1] >= 0 else (start, value_end(raw, start))


def members(values: Mapping[str, bytes]) -> bytes:
    """Members as they stand between braces; the values are JSON already."""
    return b", ".join([dump(key) + b": " + value for key, value in values.items()])


def value_end(raw: bytes, at: int) -> int:
    """The index just behind the value that starts at `at`."""
    if found := _value(_QUOTED).match(raw, at):
        return found.end()
    end = end_of(raw, at)
    assert end is not None  # noqa: S101 - text is valid JSON, so brackets balance
    return end


def end_of(raw: bytes, at: int) -> int | None:
    """The same for any text; None where it ends first, or no value starts there."""
    if found := _value(_QUOTED).match(raw, at) or _value(_TEXT).match(raw, at):
        return found.end()
    if raw[at : at + 1] not in (b"{", b"["):
        return None
    depth = 0  # it is nested deeply, or does not end
    while bracket := _NEXT_BRACKET.match(raw, at):
        at = bracket.end()
        depth += 1 if raw[at - 1] in b"[{" else -1
        if not depth:
            return at
    return None


def read_object(raw: bytes, at: int = 0, lists: dict[str, Items] | None = None) -> Object:
    """Find the members of the object that starts at `at`; of equal keys the last wins.

    `lists` names members whose items are wanted too: they are filled in, in the same pass.
    """
    start = _skip(raw, at)
    members: dict[str, tuple[int, int, int]] = {}
    every: list[tuple[str, Span]] = []
    end = start + 1
    while name := _MEMBER.match(raw, end):
        key, value, begin = _key(name[1]), name.end(), name.start(1) - 1
        if lists is not None and key in lists and raw[value] == ord("["):
            lists[key], end = _read_items(raw, value)
        else:
            end = value_end(raw, value)
        members[key] = (begin, value, end)
        every.append((key, (begin, end)))
    return Object(start, _skip(raw, end) + 1, members, every)


def _read_items(raw: bytes, at: int, *, inside: bool = True) -> tuple[Items, int]:
    """The items of the array that starts at `at`, objects with their members, and the array's end.

    `inside` off: objects, too, are spans alone.
    """
    items: Items = []
    at = _skip(raw, at + 1)
    while raw[at] != ord("]"):
        if inside and raw[at] == ord("{"):
            item = read_object(raw, at)
            items.append(item)
            end = item.end
        else:
            end = value_end(raw, at)
            items.append((at, end))
        at = _skip(raw, end)
        if raw[at] == ord(","):
            at = _skip(raw, at + 1)
    return items, at + 1


def read_array(raw: bytes, at: int) -> list[Span]:
    """Spans of the items of the array that starts at `at`."""
    return cast(list[Span], _read_items(raw, at, inside=False)[0])


def _skip(raw: bytes, at: int) -> int:
    if raw[at] > ord(" "):
        return at
    return SPACE.match(raw, at).end()  # type: ignore[union-attr]  # matches ""


def _key(name: bytes) -> str:
    text = name.decode("utf-8", "surrogatepass")
    return str(json.loads(f'"{text}"', strict=False)) if "\\" in text else text
