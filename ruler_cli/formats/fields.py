"""Values of a record: at paths, of a kind, in JSON text; and lists with an item for each rollout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeGuard, TypeVar

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_text
from ruler_cli.types import Path, Rollout

T = TypeVar("T")
JsonObject = Mapping[str, Any]
Names = tuple[str, ...]
Rollouts = list[Rollout]
EMPTY: tuple[Any, ...] = (None, "", [], {})


@cache
def words(text: str) -> Names:
    """Return the words of a text: names of fields, the best first."""
    return tuple(text.split())


def holds(record: JsonObject, terms: str) -> bool:
    """Tell if a record has all of these terms, which are separated by spaces.

    `a` is a key, also of a null, and `a.b` a path to a value. `a[]` is a list, `a{}` an object, `a"` a text, `a#` an
    integer, `a^x` a text that begins with x, `a~x` one that
    the pattern x matches, `a*` any key that begins with a, `a[].b` a list of objects with b.
    `a|b` is one of the two, and `!a` the absence of a.
    """
    return all(
        any(_holds(record, term) for term in alternatives)
        for alternatives in _split(terms)
    )


@cache
def _split(terms: str) -> list[list[str]]:
    return [term.split("|") for term in terms.split()]


_KINDS = {"[]": list, "{}": dict, '"': str, "#": int}
_FIRST = 5
"""Items of a list that are looked at."""


def _holds(record: JsonObject, term: str) -> bool:
    if term[0] == "!":
        return not _holds(record, term[1:])
    path, _, member = term.partition("[].")
    if member:
        first_items = items(lookup(record, path))[:_FIRST]
        known = [item for item in objects(first_items) if member in item]
        return bool(known) and len(known) == len(first_items)
    for mark, kind in _KINDS.items():
        if term.endswith(mark):
            return type(lookup(record, term.removesuffix(mark))) is kind
    for mark, tells in (("^", re.match), ("~", re.fullmatch)):
        name, _, pattern = term.partition(mark)
        if pattern:
            return tells(pattern, str(record.get(name))) is not None
    if term.endswith("*"):
        return any(key.startswith(term[:-1]) for key in record)
    return term in record or ("." in term and lookup(record, term) is not None)


def is_text(value: Any) -> TypeGuard[str]:
    """Tell if a value is a text."""
    return isinstance(value, str)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell if a value is an object."""
    return isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Tell if a value is a list."""
    return isinstance(value, list)


def items(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty list for any other value."""
    return value if is_list(value) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [item for item in items(value) if is_object(item)]


def json_value(value: Any, *, text: bool = False) -> Any:
    """Return the value of JSON text, None (or the `text`) if a text is no JSON, any other value unchanged."""
    try:
        return parse_text(value) if is_text(value) else value
    except UnreadableError:
        return value if text else None


def first(values: Iterable[T]) -> T | None:
    """Return the first of these values; None if there is none."""
    return next(iter(values), None)


def first_at(record: Any, *paths: str) -> Any:
    """Return the first value at these dotted paths that is not null; None if there is none."""
    return first(value for path in paths if (value := lookup(record, path)) is not None)


def first_of(record: JsonObject, names: Names) -> Any:
    """Return the first value of these members that is neither null nor empty; None if there is none."""
    return first(value for name in names if (value := record.get(name)))


def lookup(record: Any, path: str) -> Any:
    """Return the value at a dotted path; None if absent. A key that contains the dots itself comes first.

    A part that is a number picks an item of a list, `-1` the last one.
    """
    if is_object(record) and path in record:
        return record[path]
    for part in path.split("."):
        record = _member(record, part)
    return record


def _member(value: Any, name: str) -> Any:
    """Return the member of an object, or the item of a list; None if there is none."""
    if is_object(value):
        return value.get(name)
    index = item_index(name, len(value)) if is_list(value) else None
    return None if index is None else value[index]


@cache
def dotted(path: Path) -> str:
    """Return a path with dots between its parts; "" for an empty one."""
    return ".".join(map(str, path))


def item_index(part: str, size: int) -> int | None:
    """Return the index that a part of a path names in a list of this size; None if there is no such item."""
    if part == "-1" and size:
        return size - 1
    known = part.isdecimal() and len(part) < 10 and int(part) < size
    return int(part) if known else None


def path_of(record: Any, dotted: str) -> Path:
    """Return the path to the value that `lookup` returns for a dotted path; () if there is none."""
    if is_object(record) and dotted in record:
        return (dotted,)
    path: list[str | int] = []
    for part in dotted.split("."):
        index = item_index(part, len(record)) if is_list(record) else None
        path.append(part if index is None else index)
        record = _member(record, part)
        if record is None:
            return ()
    return tuple(path)


def value_at(record: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    for part in path:
        record = _member(record, str(part))
    return record


def list_field(record: JsonObject, name: str, more: str = "") -> list[Any]:
    """Return the list in a field of the record; else an UnreadableError whose message ends with `more`."""
    value = record.get(name)
    if not is_list(value):
        raise UnreadableError(f"has no list `{name}`{more}")
    return value


def column(record: JsonObject, name: str, size: int) -> list[Any]:
    """Return the list at a path that holds one item for each of `size` rollouts, all None if it is absent.

    UnreadableError if it is no list of that length.
    """
    values = lookup(record, name)
    if values is None:
        return [None] * size
    if not is_list(values) or len(values) != size:
        raise UnreadableError(f"has no list of {size} items at `{name}`, one a rollout")
    return values


def is_message_list(value: Any) -> bool:
    """Tell if a value is a list that begins with an object."""
    return is_list(value) and bool(value) and is_object(value[0])


def is_text_list(value: Any) -> bool:
    """Tell if a value is a list of texts, at least one."""
    return bool(items(value)) and all(is_text(item) for item in value)


def printable(text: str, longest: int = 60) -> str:
    """Return text of a dump for a message: printable characters, at most `longest` and an ellipsis."""
    clean = "".join(c if c.isprintable() else "\ufffd" for c in text[: longest + 1])
    return clean if len(clean) <= longest else clean[:longest] + "…"
