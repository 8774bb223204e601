"""Records of a scored file → their fields with few values, by which a page filters its groups.

One pass finds them, in bounded memory: of a group there remains what it has of the fields that may have few values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import items, lookup
from ruler_cli.formats.paths import rollout_object
from ruler_cli.results.annotations import AnnotationReader, Json
from ruler_cli.types import Group, Rollout, readable_text

MOST_FIELDS = 24
"""Fields of a file that are offered: the first ones."""
MOST_VALUES = 24
"""Different values of a field; one with more is none to filter by."""
_MOST_PATHS = 200
"""Different paths that are counted: those of a file that is no dump, but hostile, have no end."""
_DEPTH = 3
"""Names in a path."""
_MEMBERS = 100
"""Members of an object that are looked at."""
_TAGS = 12
"""Items of a list of words."""
_LONGEST = 80
"""Characters of a path, and of a value."""
_MOST_FRACTIONS = 6
"""Different numbers with a fraction, as of temperatures; more are a measured figure."""
_NOT_FIELDS = frozenset(
    (
        *("ruler", "messages", "explanation", "logs", "reward", "rewards"),
        *("score", "scores", "ruler_score", "independent_reward"),
    )
)
"""Names of what the page shows elsewhere, or not at all."""

GroupValues = list[tuple[int, list[int]]]
"""The fields of a group by their numbers, each with the numbers of its values."""
_Values = tuple[str, ...]
"""The values of a field of one rollout: one, or the words of a list."""
_SCALARS = (str, int, float)


@dataclass(slots=True)
class _Field:
    """A field and its values so far, by the numbers that groups have for them.

    `exact`: all rollouts of each group have the same, and it stands where `Reader.value_at` reads the path.
    """

    path: str
    number: int
    exact: bool
    values: dict[str, int] = field(default_factory=dict)
    many: bool = False
    fractions: int = 0
    uses: int = 0

    def numbers_of(self, values: Sequence[str]) -> list[int]:
        """Number the values of a group; the field is closed with the first value too many."""
        for value in values:
            if value not in self.values:
                self.fractions += _has_fraction(value)
                self.many |= len(self.values) >= MOST_VALUES
                self.many |= self.fractions > _MOST_FRACTIONS
                self.many |= len(value) > _LONGEST
                if self.many:
                    self.values.clear()
                    return []
                self.values[value] = len(self.values)
        self.uses += len(values)
        return [self.values[value] for value in values]

    @property
    def offered(self) -> bool:
        """Tell if it is one to filter by: some groups share a value, and not all do."""
        return not self.many and 1 < len(self.values) < self.uses

    def as_json(self) -> Json:
        """Return the field as JSON."""
        return {"path": self.path, "values": [*self.values], "exact": self.exact}


class RecordFields:
    """The fields of records and rollouts that have few values over a file, group by group.

    A field is a text, a number or a truth value, or a short list of texts, at a path of at most three names; it is
    not what a page shows of a group anyway. A rollout without it has that of its record.
    """

    def __init__(self, annotations: AnnotationReader) -> None:
        self._annotations = annotations
        self._fields: dict[str, _Field] = {}
        self._unlisted = set[str]()
        """Paths with a value that the page does not have but a command finds, such as a long list."""
        reader = annotations.reader
        form = reader.format
        read = (*form.messages, *form.answers, *form.prompt, form.reward)
        self._apart = {*reader.key_paths, *reader.given.values(), *reader.prompt}
        self._apart.update(path for names in read for path in names.split("|"))

    def add(self, group: Group) -> GroupValues:
        """Count the fields of the next group of the file, and return those that it has."""
        rollouts: list[Mapping[str, _Values]] = []
        for record in group.records:
            whole = self._annotations.value(record)
            form = self._annotations.reader.format
            size = len(items(lookup(whole, form.annotations)))
            shared: dict[str, Any] = {}
            for rollout in record.rollouts:
                shared = shared or dict(_scalars(whole, rollout.path[:1]))
                own = rollout_object(whole, rollout)
                values = dict(shared)
                if own is not whole:
                    values |= _scalars(own)
                elif form.listed:
                    values = _items_of(values, rollout, size)
                known = {path: _texts(value) for path, value in values.items()}
                rollouts.append({path: texts for path, texts in known.items() if texts})
                if len(self._unlisted) < _MOST_PATHS:
                    unread = (
                        path for path in known if values[path] and not known[path]
                    )
                    self._unlisted.update(unread)
                new = [path for path in rollouts[-1] if path not in self._fields]
                self._note(whole, rollout, {path: values[path] for path in new})
        return [*self._numbered(rollouts)]

    def _note(self, whole: Json, rollout: Rollout, new: Mapping[str, Any]) -> None:
        """Note new paths with the values there, and for each if a command finds the same."""
        for path, value in new.items():
            if path in self._apart or len(self._fields) >= _MOST_PATHS:
                continue
            read = None
            with suppress(UnreadableError):
                read = self._annotations.reader.value_at(whole, rollout, path)
            self._fields[path] = _Field(path, len(self._fields), read is value)

    def _numbered(
        self, rollouts: Sequence[Mapping[str, _Values]]
    ) -> Iterator[tuple[int, list[int]]]:
        for path in dict.fromkeys(path for one in rollouts for path in one):
            known = self._fields.get(path)
            if known is None or known.many:
                continue
            each = [one.get(path, ()) for one in rollouts]
            known.exact &= each.count(each[0]) == len(each)
            values = dict.fromkeys(value for of in each for value in of)
            if numbers := known.numbers_of([*values]):
                yield known.number, numbers

    def offered(self) -> list[int]:
        """Return the numbers of the fields to filter by, after the last group."""
        return [one.number for one in self._fields.values() if one.offered][
            :MOST_FIELDS
        ]

    def as_json(self) -> list[Json]:
        """Return the fields to filter by: `path`, `values`, and `exact`, if it selects the same rollouts."""
        fields = [*self._fields.values()]
        for one in fields:
            one.exact &= one.path not in self._unlisted
            one.exact &= len(self._unlisted) < _MOST_PATHS
        return [fields[number].as_json() for number in self.offered()]


def _scalars(
    holder: Any, rollouts: Sequence[Any] = (), start: str = "", depth: int = _DEPTH
) -> Iterator[tuple[str, Any]]:
    """Yield the paths of an object with their scalars and lists, without what is below the name of its rollouts."""
    if not isinstance(holder, dict):
        return
    for name in [*holder][:_MEMBERS]:
        value = holder[name]
        if name in _NOT_FIELDS or name in rollouts:
            continue
        path = start + (f'"{name}"' if "." in name else name)
        if len(path) > _LONGEST or not name:
            continue
        if isinstance(value, dict):
            if depth > 1:
                yield from _scalars(value, (), f"{path}.", depth - 1)
        elif value is not None and isinstance(value, (*_SCALARS, list)):
            yield path, value


def _items_of(values: Mapping[str, Any], rollout: Rollout, size: int) -> dict[str, Any]:
    """Return the items of a rollout in lists of as many items as there are rollouts, and all other values."""
    at = int(rollout.path[0])
    return {
        path: value[at] if isinstance(value, list) and len(value) == size else value
        for path, value in values.items()
    }


def _texts(value: Any) -> _Values:
    """Return a scalar as text, or the words of a short list; none if it is anything else."""
    if isinstance(value, list):
        words = 0 < len(value) <= _TAGS and all(isinstance(one, str) for one in value)
        return tuple(
            dict.fromkeys(text for one in value for text in _texts(one) if words)
        )
    if isinstance(value, str):
        text = readable_text(value[: _LONGEST + 1])
        return (text,) if text.strip() else ()
    if isinstance(value, float) and not math.isfinite(value):
        return ()
    return (json.dumps(value),) if isinstance(value, int | float) else ()


def _has_fraction(text: str) -> bool:
    """Tell if a value is a number that is not whole."""
    try:
        return not float(text).is_integer()
    except (ValueError, OverflowError):
        return False
