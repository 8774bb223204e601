"""Records of a scored file → their fields with few values, by which a page filters its groups."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ruler_cli.formats.paths import rollout_object
from ruler_cli.results.annotations import AnnotationReader
from ruler_cli.results.record import Json
from ruler_cli.types import (
    Group,
    readable_text,
    words_of,
)

MOST_FIELDS = 24
"""Fields of a file that are offered: the first ones."""
MOST_VALUES = 24
"""Different values of a field; one with more is none to filter by."""
_MOST_PATHS = 200
"""Different paths that are counted: those of a file that is no dump, but hostile, have no end."""
_LONGEST = 80
"""Characters of a path, and of a value."""
_NOT_FIELDS = words_of(
    "ruler messages explanation logs reward rewards score scores ruler_score "
    "independent_reward"
)
"""Names of what the page shows elsewhere, or not at all."""

GroupValues = dict[str, list[int]]
"""The fields of a group by their paths, each with the numbers of its values."""


class RecordFields:
    """The fields of records and rollouts that have few values over a file, group by group.

    A field is a text, a number or a truth value of a record or a rollout, or of an object in it. A rollout without it
    has that of its record.
    """

    def __init__(self, annotations: AnnotationReader) -> None:
        self._annotations = annotations
        # by path, with the number of each value; None: too many values
        self._values: dict[str, dict[str, int] | None] = {}
        self._uses = Counter[str]()

    def add(self, group: Group) -> GroupValues:
        """Count the fields of the next group of the file, and return those that it has."""
        held: dict[str, dict[str, None]] = {}
        for record in group.records:
            whole = self._annotations.value(record)
            for rollout in record.rollouts:
                holder = rollout_object(whole, rollout)
                values = dict(_scalars(whole))
                values.update(_scalars(holder))
                for path, text in values.items():
                    held.setdefault(path, {})[text] = None
        fields: GroupValues = {}
        for path, texts in held.items():
            if len(self._values) < _MOST_PATHS:
                self._values.setdefault(path, {})
            numbers = self._values.get(path)
            if numbers is None:
                continue
            for text in texts:
                numbers.setdefault(text, len(numbers))
            if len(numbers) > MOST_VALUES or max(map(len, texts)) > _LONGEST:
                self._values[path] = None
                continue
            self._uses[path] += len(texts)
            fields[path] = [numbers[text] for text in texts]
        return fields

    def as_json(self) -> list[Json]:
        """Return the fields to filter by, after the last group: some groups share a value, and not all do."""
        offered = [
            {
                "path": path,
                "values": [*values],
            }
            for path, values in self._values.items()
            if values and 1 < len(values) < self._uses[path]
        ]
        return offered[:MOST_FIELDS]


def _scalars(holder: Any, start: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of an object and of the objects in it with their scalars."""
    members = holder.items() if isinstance(holder, dict) else ()
    for name, value in members:
        path = f"{start}{name}"
        if not name or name in _NOT_FIELDS or len(path) > _LONGEST:
            continue
        if isinstance(value, dict) and not start:
            yield from _scalars(value, f"{path}.")
        elif text := _text(value):
            yield path, text


def _text(value: Any) -> str:
    """Return a scalar as text; empty for anything else."""
    if isinstance(value, str):
        return readable_text(value[: _LONGEST + 1]).strip()
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return json.dumps(value) if isinstance(value, int | float) else ""
