"""A rollout's answer, at a path that the user named, as something that can be equal to another's."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse
from ruler_cli.formats.interface import plain
from ruler_cli.formats.reader import Reader
from ruler_cli.nearest import path as nearest_path
from ruler_cli.records import Record, Rollout

_KEYS = 12
"""Keys of a record that a sentence names."""


class Answers:
    """Looks answers up in the records of one file."""

    def __init__(self, reader: Reader, path: str) -> None:
        """`path` is dotted: below the rollout, then below its record."""
        self._reader, self._path = reader, path
        self._line: tuple[bytes, dict[str, Any]] = (b"", {})

    @property
    def hint(self) -> str:
        """The nearest path of the record looked at last, and its keys: the end of a sentence."""
        meant = nearest_path(self._path, [self._line[1]])
        keys = ", ".join(list(map(plain, self._line[1]))[:_KEYS])
        return (
            f"; did you mean {plain(meant)}?" if meant else f"; name a path below a rollout or one of {keys}"
        )

    def of(self, parts: Sequence[tuple[Record, Rollout]]) -> Hashable | None:
        """The answer of a rollout, of one in parts the last that there is; None where it gave none."""
        for record, rollout in reversed(parts):
            found = same_as(self._reader.at(self._value(record), rollout, self._path))
            if found is not None:
                return found
        return None

    def _value(self, record: Record) -> dict[str, Any]:
        if self._line[0] is not record.line.raw:
            try:
                self._line = (record.line.raw, parse(record.line.raw))
            except (RecursionError, UnreadableError):  # at the very depth that the reader could just read
                self._line = (record.line.raw, {})
        return self._line[1]


def same_as(value: Any) -> Hashable | None:
    """Something that is equal for equal JSON values, texts without the white space around them.

    None for what is no answer: null, empty text, NaN, and what is nested too deeply to be compared.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    try:
        return _frozen(value)
    except RecursionError:
        return None


def _frozen(value: Any) -> Hashable:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        return ("object", frozenset((key, _frozen(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(_frozen, value)))
    # 1 is 1.0, and neither is true
    return ("truth", value) if isinstance(value, bool) else ("number", value) if value is not None else ()
