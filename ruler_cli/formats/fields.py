"""Values of a record: at paths, of a kind, in JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    first,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
)
from ruler_cli.types import Rollout

Rollouts = list[Rollout]


def holds(record: JsonObject, terms: str) -> bool:
    """Tell if a record has all of these terms, which are separated by spaces.

    `a` is a key, also of a null, and `a.b` a path to a value. `a[]` is a list, `a{}` an object, `a"` a text, `a#` an
    integer, `a~x` a text that the pattern x matches, `a*` any key that begins with a, `a[].b` a list of
    objects with b. `a|b` is one of the two, and `!a` the absence of a.
    """
    return all(
        any(_holds(record, term) for term in alternatives.split("|"))
        for alternatives in terms.split()
    )


_KINDS = {"[]": list, "{}": dict, '"': str, "#": int}
_FIRST = 5
"""Items of a list that are looked at."""


def _holds(record: JsonObject, term: str) -> bool:
    if term[0] == "!":
        return not _holds(record, term[1:])
    path, _, member = term.partition("[].")
    if member:
        listed = items(lookup(record, path))[:_FIRST]
        return bool(listed) and all(is_object(one) and member in one for one in listed)
    for mark, kind in _KINDS.items():
        if term.endswith(mark):
            return type(lookup(record, term.removesuffix(mark))) is kind
    name, _, pattern = term.partition("~")
    if pattern:
        return re.fullmatch(pattern, str(lookup(record, name))) is not None
    if term.endswith("*"):
        return any(key.startswith(term[:-1]) for key in record)
    return term in record or lookup(record, term) is not None


Places = tuple[tuple[str, int | str], ...]
"""The lists that a path goes through, the outermost first: the path to each, and the number of an item or the key
of an entry there."""


LISTS = re.compile(r"(\[\]|{})\.?")
"""The marks of a path that stand for each item of a list, and for each entry of an object."""


@cache
def _at_list(path: str) -> list[str]:
    """Split a path at its first mark: the part before, the mark, and the rest; the path alone if it has none."""
    return LISTS.split(path, 1)


def first_list(path: str) -> str:
    """Return the part of a path before its first mark."""
    return _at_list(path)[0]


def _at(record: Any, path: str) -> Any:
    return lookup(record, path) if path else record


def _inside(holder: Any, mark: str) -> Iterable[tuple[int | str, Any]]:
    """Return the items of a list, or the entries of an object, with their numbers or keys."""
    if mark == "{}" and is_object(holder):
        return [(key, {"key": key, "value": inner}) for key, inner in holder.items()]
    return enumerate(items(holder))


def every(
    record: Any, path: str, places: Places = (), start: str = ""
) -> Iterator[tuple[Places, Any]]:
    """Yield the values at a path with `[]` or `{}`, each with its places. `start` is the path to the record."""
    before, *marked = _at_list(path)
    if not marked:
        yield places, _at(record, path)
        return
    mark, rest = marked
    whole = start + before
    for number, item in _inside(_at(record, before), mark):
        yield from every(item, rest, (*places, (whole, number)), f"{whole}{mark}.")


def item_at(record: Any, path: str, places: Places = ()) -> Any:
    """Return the value at a path that belongs to a rollout with these places; None if there is none.

    Where the path goes through a list of the rollout's own, it is the item there. Else the path has as many marks,
    and the items of its lists belong to the rollouts in their order, entries by their keys. UnreadableError if it has
    not.
    """
    own = dict(places)
    marks = len(LISTS.findall(path))
    whole = ""
    for level in range(marks):
        before, mark, path = _at_list(path)
        whole += before
        if whole not in own and marks != len(places):
            raise UnreadableError(
                f"has items at `{whole}`, of which nothing tells to which rollout each belongs"
            )
        number = own.get(whole, places[level][1])
        holder = _at(record, before)
        if mark == "{}" and is_object(holder):
            inner = holder.get(str(number))
            record = None if inner is None else {"key": number, "value": inner}
        else:
            listed = isinstance(number, int) and number < len(items(holder))
            record = holder[number] if listed else None
        whole += f"{mark}."
    return _at(record, path)


def present(record: JsonObject, names: str) -> str:
    """Return the first of several paths, with `|` between them, that has a value, or else a key of the record."""
    if "|" not in names or names in record:
        return names
    known = names.split("|")
    valued = (name for name in known if lookup(record, first_list(name)) is not None)
    return first(valued) or first(name for name in known if name in record) or names


def list_field(record: JsonObject, name: str) -> list[Any]:
    """Return the list in a field of the record; UnreadableError if there is none."""
    value = record.get(name)
    if not is_list(value):
        raise UnreadableError(f"has no list `{name}`")
    return value


def wrong_size(path: str, size: int) -> UnreadableError:
    """Return the error for a list at a path that has not one item for each of `size` rollouts."""
    return UnreadableError(f"has no list of {size} items at `{path}`, one a rollout")


def column(record: JsonObject, name: str, size: int) -> list[Any]:
    """Return the list at a path that holds one item for each of `size` rollouts, all None if it is absent.

    UnreadableError if it is no list of that length.
    """
    values = lookup(record, name)
    if values is not None and len(items(values)) != size:
        raise wrong_size(name, size)
    return items(values) or [None] * size


def is_text_list(value: Any) -> bool:
    """Tell if a value is a list of texts, at least one."""
    return bool(items(value)) and all(map(is_text, value))
