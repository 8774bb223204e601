r"""Exact edits of JSON text: bytes that are not edited are copied, never re-serialised.

A scored record must keep numbers, escapes, field order and white space as they came, and no JSON
library does (1.0 or 1e0, \u00e9 or é, NaN, 20-digit integers, duplicate keys). So ruler finds the span
of a value in the record's bytes and replaces only that.

The text must be valid JSON (or Python's superset): the caller has parsed it before. Spans are (start, end)
in bytes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import NamedTuple, cast

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse_text, parse_value


def _many(pattern: bytes) -> bytes:
    """Match any number of a pattern, without backtracking."""
    # before Python 3.11.5 a possessive quantifier of a group matched too little (gh-106052)
    possessive = sys.version_info >= (3, 11, 5)
    return (b"(?:%s)*+" if possessive else b"(?>(?:%s)*)") % pattern


INSIDE = rb'[^"\\]*+' + _many(rb'\\.[^"\\]*+')
_TEXT = b'"' + INSIDE + b'"'
_BARE = rb'[^"\[\]{}]*+'
_MEMBER = re.compile(
    rb'[ \t\r\n,]*"(' + INSIDE + rb')"[ \t\r\n]*:[ \t\r\n]*', re.DOTALL
)
_SPACE = re.compile(rb"[ \t\r\n]*")
BARE = _BARE + _many(_TEXT + _BARE)
"""Text up to the next bracket, and past whole strings."""
_NEXT_BRACKET = re.compile(BARE + rb"([\[\]{}])", re.DOTALL)
_QUOTED = rb'"[^"]*+' + _many(rb'(?<=[^\\]\\)"[^"]*+') + rb'(?<!\\)"'
"""A string, found by its quotes alone in half the time of `_TEXT`: a quote behind a backslash is text. If
a quote stands behind two backslashes or more, this matches nothing, and `_TEXT` is tried."""


@cache  # compiled when the first record is written: the first request does not wait for it
def _value(string: bytes, depth: int = 10) -> re.Pattern[bytes]:
    """Match any value that is nested at most `depth` deep, in one match: an inner loop in C."""
    text = _BARE + _many(string + _BARE)
    container = rb"[\[{]" + text + rb"[\]}]"
    for _ in range(depth - 1):
        container = rb"[\[{]" + text + _many(container + text) + rb"[\]}]"
    return re.compile(string + rb'|[^"\[\]{}\s,]++|' + container, re.DOTALL)


DAMAGED = "is JSON that is damaged or truncated"
Span = tuple[int, int]
NewMembers = Mapping[str, "NewMembers | bytes | None"]
"""New members of an object, and of objects inside it; None removes a member."""


class ObjectSpans(NamedTuple):
    """Spans of an object's members: key → (start of member, start of value, end of value).

    `every` holds the key and span of each member in the order of the text, equal keys too.
    """

    start: int
    end: int
    members: dict[str, tuple[int, int, int]]
    every: list[tuple[str, Span]]


ListItems = list[ObjectSpans | Span]
"""Items of a list: objects with the spans of their members, the span of anything else."""


@dataclass(slots=True)
class Patches:
    """Replacements of spans of one text, collected first and applied together."""

    raw: bytes
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)

    def replace(
        self,
        start: int,
        end: int,
        new: bytes,
    ) -> None:
        """Replace the bytes start:end."""
        self.edits.append((start, end, new))

    def put(
        self,
        obj: ObjectSpans,
        values: NewMembers,
    ) -> None:
        """Set members of an object; None removes. New members come last, in the order given.

        A mapping sets members of the object that is the member's value, or makes one.
        """
        added = {}
        removed = set()
        for key, value in values.items():
            member = obj.members.get(key)
            if value is None:
                removed.add(key)
            elif member is None:
                added[key] = _encode_value(value)
            else:
                self._set(member[1:], value)
        if removed:
            spans = [span for _, span in obj.every]
            dropped = [key in removed for key, _ in obj.every]
            self.drop(spans, dropped)
        if added:
            new = encode_members(added)
            end = obj.start + 1
            if obj.every:
                _, (_, end) = obj.every[-1]
            if not obj.members.keys() <= removed:
                new = b", " + new
            self.replace(
                end,
                end,
                new,
            )

    def _set(
        self,
        span: Span,
        value: NewMembers | bytes,
    ) -> None:
        """Replace the value at a span, or set members of the object, or items of the list, that is there.

        The object may stand there as JSON text.
        """
        start = span[0]
        opens = self.raw[start]
        if isinstance(value, bytes):
            self.replace(*span, value)
        elif opens == ord("{"):
            self.put(read_object(self.raw, start), value)
        elif opens == ord('"') and (
            text := inner_object(self.raw[slice(*span)])
        ):
            self.replace(*span, dump(edited(text, value)))
        elif opens == ord("[") and all(key.isdecimal() for key in value):
            items = read_array(self.raw, start)
            for key, item in value.items():
                if item is not None and int(key) < len(items):
                    self._set(items[int(key)], item)
        else:
            self.replace(*span, _encode_value(value))

    def drop(
        self,
        spans: list[Span],
        dropped: list[bool],
    ) -> None:
        """Remove some of the items between commas, each with one comma as long as another item is left."""
        any_left = False
        for i, (start, end) in enumerate(spans):
            if not dropped[i]:
                any_left = True
            elif any_left:
                self.replace(
                    spans[i - 1][1],
                    end,
                    b"",
                )
            elif i + 1 < len(spans):
                following, _ = spans[i + 1]
                self.replace(
                    start,
                    following,
                    b"",
                )
            else:
                self.replace(
                    start,
                    end,
                    b"",
                )

    def apply(self) -> bytes:
        """Return the text with every replacement."""
        out = []
        at = 0
        edits = sorted(self.edits, key=itemgetter(0, 1))
        for start, end, new in edits:
            out += [self.raw[at:start], new]
            at = end
        out.append(self.raw[at:])
        return b"".join(out)


def edited(raw: bytes, values: NewMembers) -> str:
    """Return the text of an object with new members."""
    patches = Patches(raw)
    patches.put(read_object(raw), values)
    return patches.apply().decode("utf-8", "surrogatepass")


def _encode_value(value: NewMembers | bytes) -> bytes:
    """Return a value that is JSON already, or an object of new members."""
    if isinstance(value, bytes):
        return value
    members = {
        key: _encode_value(member)
        for key, member in value.items()
        if member is not None
    }
    return b"{%s}" % encode_members(members)


def span_at(
    raw: bytes, path: Iterable[str | int], start: int = 0
) -> Span | None:
    """Find the value at a path from the value that begins at `start`; None if it is absent."""
    at = skip(raw, start)
    end = None
    for part in path:
        opens = raw[at]
        if opens == ord("{"):
            # a number is a key there: `rewards.0` of {"rewards": {"0": 1}}
            member = read_object(raw, at).members.get(str(part))
            if member is None:
                return None
            _, at, end = member
        elif isinstance(part, int) and opens == ord("["):
            items = read_array(raw, at)
            if part >= len(items):
                return None
            at, end = items[part]
        else:
            return None
    return at, value_end(raw, at) if end is None else end


def encode_members(values: Mapping[str, bytes]) -> bytes:
    """Write members as they stand between braces; the values are JSON already."""
    return b", ".join(
        [dump(key) + b": " + value for key, value in values.items()]
    )


def value_end(raw: bytes, at: int) -> int:
    """Return the index behind the value that starts at `at`; UnreadableError if there is none."""
    end = end_of(raw, at)
    if end is None:
        raise UnreadableError(DAMAGED)
    return end


def end_of(raw: bytes, at: int) -> int | None:
    """Return the index behind the value that starts at `at`; None if the text ends first or none starts."""
    match = _value(_QUOTED).match(raw, at)
    match = match or _value(_TEXT).match(raw, at)
    if match:
        return match.end()
    if raw[at : at + 1] not in (b"{", b"["):
        return None
    depth = 0  # it is nested deeply, or does not end
    while bracket := _NEXT_BRACKET.match(raw, at):
        at = bracket.end()
        depth += 1 if raw[at - 1] in b"[{" else -1
        if not depth:
            return at
    return None


def read_object(
    raw: bytes, at: int = 0, lists: dict[str, ListItems] | None = None
) -> ObjectSpans:
    """Find the members of the object that starts at `at`; of equal keys the last wins.

    The keys of `lists` are members whose items are found in the same pass; they become its values.
    """
    start = skip(raw, at)
    members = dict[str, tuple[int, int, int]]()
    every = list[tuple[str, Span]]()
    end = start + 1
    quick = _value(_QUOTED).match
    while name := _MEMBER.match(raw, end):
        key = _key(name[1])
        value = name.end()
        begin = name.start(1) - 1
        if lists is not None and key in lists and raw[value] == ord("["):
            lists[key], end = _read_items(raw, value)
        else:
            whole = quick(raw, value)
            end = whole.end() if whole else value_end(raw, value)
        members[key] = (begin, value, end)
        every.append((key, (begin, end)))
    return ObjectSpans(
        start,
        skip(raw, end) + 1,
        members,
        every,
    )


def _read_items(
    raw: bytes, at: int, *, inside: bool = True
) -> tuple[ListItems, int]:
    """Find the items of the array that starts at `at`, objects with their members, and the array's end.

    With `inside` off, objects are spans only.
    """
    items: ListItems = []
    at = skip(raw, at + 1)
    while raw[at] != ord("]"):
        if inside and raw[at] == ord("{"):
            item = read_object(raw, at)
            items.append(item)
            end = item.end
        else:
            end = value_end(raw, at)
            items.append((at, end))
        at = skip(raw, end)
        if raw[at] == ord(","):
            at = skip(raw, at + 1)
    return items, at + 1


def read_array(raw: bytes, at: int) -> list[Span]:
    """Find the items of the array that starts at `at`."""
    return cast(
        list[Span],
        _read_items(
            raw,
            at,
            inside=False,
        )[0],
    )


def skip(raw: bytes, at: int) -> int:
    """Return the offset of the next byte that is not white space."""
    if raw[at : at + 1] > b" ":
        return at
    return _SPACE.match(raw, at).end()  # type: ignore[union-attr]  # matches ""


def _key(name: bytes) -> str:
    text = name.decode("utf-8", "surrogatepass")
    if "\\" in text:
        text = json.loads(f'"{text}"', strict=False)
    return text


def inner_object(value: bytes | None) -> bytes:
    """Return the bytes of an object, also of one in JSON text; empty for any other value."""
    first = value[:1] if value else b""
    if value and first == b'"':
        text = parse_value(value)
        with suppress(UnreadableError):
            if isinstance(parse_text(text), dict):
                return text.strip().encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]  # a text
    return value if value and first == b"{" else b""
