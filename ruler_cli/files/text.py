"""A long JSON text, read through a window that moves forward: where values end, without parsing them.

Nothing here trusts the text: it may end anywhere or be no JSON at all. Memory holds the window, and
of one value only what the caller asks to keep.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import orjson

from ruler_cli.files.splice import NEXT_BRACKET, STRING, quick_end

Read = Callable[[int, int], bytes]
"""Bytes of the text: offset and size; fewer at its end."""

_WINDOW = 1 << 20
_SPACE = re.compile(rb"[ \t\r\n]*+")
_ATOM = re.compile(rb'[^"\[\]{}\s,:]++')
BRACE, LIST, END, OBJECT_END, COMMA, COLON, QUOTE = b'{[]},:"'
NOTHING = -1
"""The byte behind the end."""


class Text:
    """The window: `at` in every method is an offset into the whole text, and never goes back."""

    def __init__(self, read: Read, at: int = 0) -> None:
        """Begin at an offset."""
        self.read = read
        self._base = at
        self._buf = b""

    def byte(self, at: int) -> int:
        """The byte at an offset; NOTHING behind the end."""
        if at - self._base >= len(self._buf) and not self._more(at):
            return NOTHING
        return self._buf[at - self._base]

    def skip(self, at: int) -> int:
        """Where the next byte stands that is no white space, or the end."""
        while True:
            inside = at - self._base
            if inside < len(self._buf):
                if self._buf[inside] > ord(" "):
                    return at
                at = self._base + _end(_SPACE, self._buf, inside)
                if at - self._base < len(self._buf):
                    return at
            if not self._more(at):
                return at

    def slice(self, start: int, end: int) -> bytes:
        """Bytes that were kept."""
        return self._buf[start - self._base : end - self._base]

    def line(self, at: int) -> bytes | None:
        """From here to the LF or the end; None where that is further than a window."""
        while True:
            found = self._buf.find(b"\n", at - self._base)
            if found >= 0:
                return self._buf[at - self._base : found]
            if len(self._buf) - (at - self._base) > _WINDOW:
                return None
            if not self._more(at):
                return self._buf[at - self._base :]

    def value_end(self, at: int, *, keep: bool) -> int | None:
        """Just behind the value that starts here; None where the text ends first or none starts.

        `keep` leaves all of it in the window.
        """
        first = self.byte(at)
        if first in (ord("{"), ord("[")):
            return self._container_end(at, keep)
        return self._plain_end(at, STRING if first == ord('"') else _ATOM, ended=first == ord('"'))

    def guessed_end(self, at: int, mark: bytes) -> int | None:
        """Where the object that starts here ends, if that is in the window in front of `mark`.

        `mark` is a closing brace and what is expected behind it: text in which valid JSON ends there is
        that object, and is told many times faster than by counting brackets.
        """
        found = self._buf.find(mark, at - self._base)
        if found < 0:
            return None
        try:
            orjson.loads(memoryview(self._buf)[at - self._base : found + 1])
        except orjson.JSONDecodeError:
            return None
        return self._base + found + 1

    def _container_end(self, at: int, keep: bool) -> int | None:
        found = quick_end(self._buf, at - self._base)
        if found is not None:
            return self._base + found
        depth, seen = 0, at  # it is nested deeply, goes beyond the window, or never ends
        while True:
            bracket = NEXT_BRACKET.match(self._buf, seen - self._base)
            if bracket is None:
                if not self._more(at if keep else seen):
                    return None
                continue
            seen = self._base + bracket.end()
            depth += 1 if self._buf[seen - self._base - 1] in b"[{" else -1
            if not depth:
                return seen

    def _plain_end(self, at: int, pattern: re.Pattern[bytes], *, ended: bool) -> int | None:
        """`ended`: the match tells its own end, and need not be followed by anything."""
        while True:
            found = pattern.match(self._buf, at - self._base)
            if found is not None and (ended or found.end() < len(self._buf)):
                return self._base + found.end()
            if (found is None and not ended) or not self._more(at):
                return None if found is None else self._base + found.end()

    def _more(self, keep: int) -> bool:
        """Read on; what stands before `keep` is forgotten. False at the end."""
        kept = self._buf[max(0, keep - self._base) :]
        new = self.read(self._base + len(self._buf), max(_WINDOW, len(kept)))
        if not new:
            return False
        self._base = self._base + len(self._buf) - len(kept)
        self._buf = kept + new
        return True


def object_end(raw: bytes) -> int | None:
    """Just behind the object or list that `raw` begins with; None where it does not end."""
    return Text(lambda at, size: raw[at : at + size]).value_end(0, keep=True)


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
