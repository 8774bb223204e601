"""Values of JSON: at paths, of a kind, in JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeGuard, TypeVar

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_text
from ruler_cli.types import Path

T = TypeVar("T")
JsonObject = Mapping[str, Any]
Names = tuple[str, ...]
EMPTY: tuple[Any, ...] = (None, "", [], {})


@cache
def words(text: str) -> Names:
    """Return the words of a text: names of fields, the best first."""
    return tuple(text.split())


def is_text(value: Any) -> TypeGuard[str]:
    """Return whether a value is a text."""
    return isinstance(value, str)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def items(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty list for any other value."""
    return value if is_list(value) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [item for item in items(value) if is_object(item)]


def is_message_list(value: Any) -> bool:
    """Return whether a value is a list that begins with an object."""
    return is_object(first(items(value)))


def json_value(value: Any, *, text: bool = False) -> Any:
    """Return the value of JSON text, None (or the `text`) if a text is not JSON, any other value unchanged."""
    try:
        return parse_text(value) if is_text(value) else value
    except UnreadableError:
        return value if text else None


def first(values: Iterable[T]) -> T | None:
    """Return the first of these values; None if there is none."""
    return next(iter(values), None)


def first_at(record: Any, *paths: str) -> Any:
    """Return the first value at these dotted paths that is not null; None if there is none."""
    for path in paths:
        value = lookup(record, path)
        if value is not None:
            return value
    return None


def first_of(record: JsonObject, names: Names) -> Any:
    """Return the first value of these members that is neither null nor empty; None if there is none."""
    return first(value for name in names if (value := record.get(name)))


def first_stated(record: JsonObject, names: Names) -> Any:
    """Return the first value of these members that is not null; None if there is none."""
    for name in names:
        value = record.get(name)
        if value is not None:
            return value
    return None


_DOT = re.compile(r'\.(?=(?:[^"]*"[^"]*")*[^"]*$)')
"""A dot outside quotes."""


_ITEM = re.compile("0|[1-9][0-9]{0,8}")
"""The number of an item in a path."""


@cache
def parts(path: str) -> Path:
    """Return the keys and the numbers of items in a dotted path; a key in quotes may hold dots."""
    names = [name.strip('"') for name in _DOT.split(path)]
    return tuple(
        [int(name) if _ITEM.fullmatch(name) else name for name in names]
    )


def lookup(record: Any, path: str) -> Any:
    """Return the value at a dotted path; None if absent. A key that contains the dots itself comes first.

    A part that is a number picks an item of a list, `-1` the last one.
    """
    if is_object(record) and (path in record or "." not in path):
        return record.get(path)
    return value_at(record, parts(path))


def value_at(record: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    for part in path:
        if is_object(record):
            record = record.get(str(part))
            continue
        at = -1 if part == "-1" else part
        if not isinstance(at, int):
            return None
        try:
            record = items(record)[at]
        except IndexError:
            return None
    return record
