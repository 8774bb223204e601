"""Paths of a record: the values at them, and those that belong to one rollout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
    value_at,
)
from ruler_cli.types import Rollout, value

Rollouts = list[Rollout]


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


def _inside(
    holder: Any,
    mark: str,
) -> dict[int | str, Any]:
    """Return the items of a list by their numbers, or the entries of an object by their keys."""
    if mark == "{}" and is_object(holder):
        return {k: {"key": k, "value": inner} for k, inner in holder.items()}
    return dict(enumerate(items(holder)))


def every(
    record: Any,
    path: str,
    places: Places = (),
    start: str = "",
) -> Iterator[tuple[Places, Any]]:
    """Yield the values at a path with `[]` or `{}`, each with its places. `start` is the path to the record."""
    before, *marked = _at_list(path)
    value = lookup(record, before) if before else record
    if not marked:
        yield places, value
        return
    mark, rest = marked
    whole = start + before
    for number, item in _inside(value, mark).items():
        here = (*places, (whole, number))
        yield from every(
            item,
            rest,
            here,
            f"{whole}{mark}.",
        )


def item_at(
    record: JsonObject,
    names: str,
    places: Places = (),
) -> Any:
    """Return the value at a path that belongs to a rollout with these places; None if there is none, or no path.

    Of several paths, with `|` between them, it is the first that is there. Where the path goes through a list of the
    rollout's own, it is the item there. Else the path has as many marks, and the items of its lists belong to the
    rollouts in their order, entries by their keys. UnreadableError if it has not.
    """
    if not names:
        return None
    path = present(record, names)
    numbers = dict(places)
    marks = len(LISTS.findall(path))
    whole = ""
    value: Any = record
    for level in range(marks):
        before, mark, path = _at_list(path)
        value = lookup(value, before) if before else value
        whole += before
        if whole not in numbers and marks != len(places):
            raise UnreadableError(
                f"has items at `{whole}`, but nothing tells which rollout each belongs to"
            )
        number = numbers.get(whole, places[level][1])
        if is_list(value):
            value = value_at(value, (number,))
        else:
            value = _inside(value, mark).get(str(number))
        whole += f"{mark}."
    return lookup(value, path) if path else value


def present(
    record: JsonObject,
    names: str,
) -> str:
    """Return the first of several paths, with `|` between them, that has a value, or else the last that is a key."""
    if "|" not in names or names in record:
        return names
    several = names.split("|")
    for name in several:
        # an empty text is an answer too, and no reason to take the reference solution behind it
        if name and lookup(record, first_list(name)) not in (None, [], {}):
            return name
    for name in reversed(several):
        if name in record:
            return name
    return names


def alternatives(fields: Iterable[str]) -> list[str]:
    """Return each of the paths in fields that have several, with `|` between them."""
    return [path for names in fields for path in names.split("|")]


def is_text_list(value: Any) -> bool:
    """Return whether a value is a list of texts, at least one."""
    return bool(items(value)) and all(map(is_text, value))


def rollout_object(
    value: Any,
    rollout: Rollout,
) -> Any:
    """Return a rollout's own object in its record: the record itself if rollouts are items of lists."""
    if rollout.path[:1] and isinstance(rollout.path[0], int):
        return value
    for part in rollout.path:
        value = value[part]
    return value


@value
class RolloutPaths:
    """The values of a record that belong to one rollout.

    `is_listed`: rollouts are items of lists. `is_group`: all answer to one prompt.
    """

    record: JsonObject
    rollout: Rollout
    is_listed: bool
    is_group: bool

    @property
    def places(self) -> Places:
        """The lists that lead to the rollout; those of one that a row did not read are in its path."""
        rollout = self.rollout
        holder = ".".join(map(str, rollout.path[:-1]))
        numbers = []
        for part in rollout.path:
            if isinstance(part, int):
                numbers.append((holder, part))
        return rollout.places or tuple(numbers)

    def in_rollout(self, path: str) -> Any:
        """Return the value at a dotted path below the rollout itself, or its item of the list at that path."""
        if not self.is_listed:
            holder = rollout_object(self.record, self.rollout)
            return lookup(holder, path)
        return value_at(items(lookup(self.record, path)), self.rollout.path[:1])

    def at(self, names: str) -> Any:
        """Return the value at a path below the rollout, else below the record itself.

        Of several paths, with `|` between them, it is the first that is there.
        """
        path = present(self.record, names)
        if LISTS.search(path):
            return item_at(self.record, path, self.places)
        value = self.in_rollout(path)
        if value is None and not self.is_listed:
            return lookup(self.record, path)
        return value

    def shared(self, names: str) -> Any:
        """Return a value that the answers to one prompt share, unless its path goes through a list.

        In a columnar line all share what is not a list.
        """
        if self.is_listed and not LISTS.search(names):
            value = lookup(self.record, present(self.record, names))
            if self.is_group or not is_list(value):
                return value
        return self.at(names)
