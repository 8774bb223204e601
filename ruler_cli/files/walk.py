"""Values of a JSON text by a path, found in a window that moves forward: they are never held together.

A path is dotted, and each step may lead to many values: `data[].runs[]`, `{}`, `[1:]`. A key that holds dots or
brackets is quoted: `"a.b".runs[]`.
The text is not trusted: it may end anywhere or be no JSON at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice

from ruler_cli.errors import ForeignError, UnreadableError, UsageError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.splice import BARE, INSIDE
from ruler_cli.settings.suggestions import nearest

Read = Callable[[int, int], bytes]
"""Bytes of the text: offset and size; fewer at its end."""
Found = tuple[int, bytes, int]
"""The offset of a value, its bytes, and its size; one that is larger than the bound has no bytes."""
Steps = tuple[str, ...]
"""`.name` of a member, or of an item by its index; the items of a list, `[]`, or all but the first, `[1:]`; the
values of an object, `{}.value`, or its members as `{"key": …, "value": …}`, `{}`."""
WINDOW = 1 << 20
_SPACE = re.compile(rb"[ \t\r\n]*+(?=(.))?", re.DOTALL)
_ATOM = re.compile(rb'[^"\[\]{}\s,:]*+(?=(.))?', re.DOTALL)
_OUTSIDE = re.compile(BARE + rb'(["\[\]{}])?', re.DOTALL)
_IN_STRING = re.compile(INSIDE + rb'(")?', re.DOTALL)
"""Text up to the byte that matters next, in a group of its own if it is there."""
OPENING = (b"[", b"{")
_MOST = 5_000
"""Lists that are compared with a path that leads nowhere."""
_LONGEST = 100
"""Characters of a path in which lists are searched."""
_STEP = re.compile(
    r'\.?(?:(\[(?:1:)?\]|\{\}(?:\.value(?=[.\[{]|\Z))?)|("(?:[^"\\]|\\.)*")|([^."\[\]{}]+))'
)
_PLAIN = re.compile(r'[^."\[\]{}]+')


def steps_of(path: str) -> Steps:
    """Read a path; UsageError if it is none."""
    steps: list[str] = []
    with suppress(ValueError):
        steps += (
            each or "." + (name or json.loads(quoted))
            for each, quoted, name in _STEP.findall(path)
        )
    many = any(step[0] != "." for step in steps)
    if _STEP.sub("", path) or not many or "{}" in steps[:-1]:
        raise UsageError(
            "is no path of records",
            "it leads to the items of a list, e.g. data.runs[], or to the members of an object, {}",
            place=f"--records {path}",
        )
    return tuple(steps)


class TextWindow:
    """A window of the text that moves forward. `at` is the offset in the whole text that is read next.

    A value of more than `most` bytes is not held. `reached`: a path led to a list, an object or a value.
    Every method raises UnreadableError where the text is no JSON, or ends.
    """

    def __init__(self, read: Read, at: int, most: int) -> None:
        """Begin at an offset."""
        self.at = at
        self.reached = False
        self._read = read
        self._most = most
        self._base = at
        self._text = bytearray()

    def byte(self) -> bytes:
        """Move to the next byte that is no white space, and return it; b"" at the end."""
        return self._find(_SPACE, self.at, 0)

    def value(self, most: int) -> Found:
        """Read the value that starts here, and move behind it; of more than `most` bytes none are held."""
        opens = self.byte()
        start = self.at
        quoted = opens == b'"'
        depth = int(opens in OPENING)
        if quoted or depth:
            self.at += 1
        else:
            self._find(_ATOM, start, most)
        while quoted or depth:
            byte = self._find(_IN_STRING if quoted else _OUTSIDE, start, most)
            if not byte:
                raise damaged()
            if byte == b'"':
                quoted = not quoted
            else:
                depth += 1 if byte in OPENING else -1
        size = self.at - start
        if not size:
            raise damaged()
        begin = start - self._base
        held = memoryview(self._text)[begin : begin + size]
        return start, b"" if size > most else bytes(held), size

    def entries(self) -> Iterator[str]:
        """Yield the key or the index of each entry of the object or list that starts here, and move behind it.

        A value that is not read before the next entry is asked for is skipped.
        """
        listed = self.byte() == b"["
        closing = b"]" if listed else b"}"
        self.at += 1
        for index in count():
            if self.byte() == closing:
                break
            if index:
                self._take(b",")
            key = str(index)
            if not listed:
                _, name, _ = self.value(WINDOW)
                key = str(parse_value(name, exact=False))
                self._take(b":")
            self.byte()
            before = self.at
            yield key
            if self.at == before:
                self.value(0)
        self.at += 1

    def walk(self, steps: Steps) -> Iterator[Found]:
        """Yield each value to which a path leads from the value that starts here, and move behind that."""
        if not steps:
            self.reached = True
            yield self.value(self._most)
            return
        step, rest = steps[0], steps[1:]
        named = step[0] == "."
        opens = self.byte()
        if opens not in OPENING if named else opens != step[:1].encode():
            self.value(0)
            return
        led = False
        for key in self.entries():
            leads = step == f".{key}" if named else (step, key) != ("[1:]", "0")
            if not leads:
                continue
            if named and led:
                raise UnreadableError(f"has two members `{key}`")
            led = True
            for start, raw, size in self.walk(rest):
                entry = raw
                if step == "{}" and raw:
                    entry = b'{"key": %s, "value": %s}' % (dump(key), raw)
                yield start, entry, max(size, len(entry))
        self.reached |= not (named or led)

    def lists(self, before: str = "") -> Iterator[str]:
        """Yield the paths of lists of objects in the value that starts here, as far as their first items show."""
        opens = self.byte()
        if opens not in OPENING or len(before) > _LONGEST:
            return
        for key in self.entries():
            path = f"{before}[]"
            if opens == b"{":
                name = key if _PLAIN.fullmatch(key) else dump(key).decode()
                path = f"{before}.{name}".removeprefix(".")
            elif key == "0" and self.byte() == b"{":
                yield path
            else:
                continue
            yield from self.lists(path)

    def _take(self, byte: bytes) -> None:
        """Move behind a byte that must be here."""
        if self.byte() != byte:
            raise damaged()
        self.at += 1

    def _find(self, pattern: re.Pattern[bytes], start: int, most: int) -> bytes:
        """Move behind what a pattern matches, and return its group; b"" at the end of the text.

        The text is read on as far as needed. What stands before `start` is forgotten then, and what stands
        before `at` if that is more than `most` bytes.
        """
        while True:
            match = pattern.match(self._text, self.at - self._base)
            if match is not None:
                self.at = self._base + match.end()
                if match[1]:
                    return match[1]
            keep = start if self.at - start <= most else self.at
            del self._text[: keep - self._base]
            self._base = keep
            new = self._read(keep + len(self._text), WINDOW)
            if not new:
                return b""
            self._text += new


def damaged() -> UnreadableError:
    """Return the error for a text that is no JSON, or ends too early."""
    return UnreadableError("is JSON that is damaged or truncated")


def held(text: bytes) -> Read:
    """Return a reader of a text that is held."""
    return lambda at, size: text[at : at + size]


def nowhere(name: str, path: str, read: Read, at: int) -> UsageError:
    """Return the error for a path that leads nowhere in the value that starts at an offset of a text."""
    paths = list[str]()
    with suppress(UnreadableError):
        paths += islice(TextWindow(read, at, 0).lists(), _MOST)
    near = nearest(path, paths)
    if near:
        remedy = f"did you mean {near}?"
    elif paths:
        remedy = f"lists of objects are at {', '.join(paths[:3])}"
    else:
        remedy = "it has no list of objects; {} takes the members of an object"
    problem = f"holds no records at `{path}`"
    return ForeignError(problem, remedy, place=f"{name}: --records")
