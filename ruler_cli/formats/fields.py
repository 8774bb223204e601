"""Values of a record: at dotted paths, of a kind, in JSON text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_text


def has_keys(*keys: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a test for records with all of these keys."""
    required = frozenset(keys)
    return lambda record: required <= record.keys()


def items(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty list for any other value."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [item for item in items(value) if isinstance(item, dict)]


def json_value(value: Any, *, text: bool = False) -> Any:
    """Return the value of JSON text, None (or the `text`) if a text is no JSON, any other value unchanged."""
    try:
        return parse_text(value) if isinstance(value, str) else value
    except UnreadableError:
        return value if text else None


def first_at(record: Any, *paths: str) -> Any:
    """Return the first value at these dotted paths that is not null; None if there is none."""
    return next(
        (value for path in paths if (value := lookup(record, path)) is not None), None
    )


def lookup(record: Any, path: str) -> Any:
    """Return the value at a dotted path; None if absent. A key that contains the dots itself comes first.

    A part that is a number picks an item of a list, `-1` the last one.
    """
    if isinstance(record, dict) and path in record:
        return record[path]
    for part in path.split("."):
        if isinstance(record, dict) and part in record:
            record = record[part]
        elif (
            isinstance(record, list)
            and (index := item_index(part, len(record))) is not None
        ):
            record = record[index]
        else:
            return None
    return record


def item_index(part: str, size: int) -> int | None:
    """Return the index that a part of a path names in a list of this size; None if there is no such item."""
    if part == "-1" and size:
        return size - 1
    return (
        int(part) if part.isdecimal() and len(part) < 10 and int(part) < size else None
    )


def list_field(record: Mapping[str, Any], name: str, more: str = "") -> list[Any]:
    """Return the list in a field of the record; else an UnreadableError whose message ends with `more`."""
    value = record.get(name)
    if not isinstance(value, list):
        raise UnreadableError(f"has no list `{name}`{more}")
    return value


def is_message_list(value: Any) -> bool:
    """Tell if a value is a list that begins with an object."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def is_text_list(value: Any) -> bool:
    """Tell if a value is a list of texts, at least one."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, str) for item in value)
    )
