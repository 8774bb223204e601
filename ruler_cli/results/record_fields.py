"""Records of a scored file → their fields with few values, by which a page filters its groups."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Set
from typing import Any

from ruler_cli.formats.paths import alternatives, rollout_object
from ruler_cli.results.annotations import AnnotationReader
from ruler_cli.results.record import Json
from ruler_cli.types import Group, readable_text, words_of

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

    A field is a text, a number or a truth value at a path of at most three names. A rollout without it has that of its
    record.
    """

    def __init__(self, annotations: AnnotationReader) -> None:
        self._annotations = annotations
        # by path, with the number of each value
        self._values: dict[str, dict[str, int]] = {}
        self._uses = Counter[str]()
        reader = annotations.reader
        form = reader.format
        read = (*form.messages, *form.answers, *form.prompt, form.reward)
        # what the page shows elsewhere, and what has too many values
        self._apart = {*reader.group_key.paths, *reader.value_paths.values()}
        self._apart.update(reader.prompt, alternatives(read))

    def add(self, group: Group) -> GroupValues:
        """Count the fields of the next group of the file, and return those that it has."""
        held: dict[str, dict[str, None]] = {}
        for record in group.records:
            whole = self._annotations.value(record)
            lists = {
                path for rollout in record.rollouts for path in rollout.path[:1]
            }
            shared = dict(_scalars(whole, lists))
            for rollout in record.rollouts:
                values = shared
                holder = rollout_object(whole, rollout)
                if holder is not whole:
                    values = shared | dict(_scalars(holder))
                for path, text in values.items():
                    held.setdefault(path, {})[text] = None
        fields: GroupValues = {}
        for path, texts in held.items():
            if len(self._values) < _MOST_PATHS and path not in self._apart:
                self._values.setdefault(path, {})
            numbers = self._values.get(path)
            if numbers is None or path in self._apart:
                continue
            for text in texts:
                numbers.setdefault(text, len(numbers))
            if (
                len(numbers) > MOST_VALUES
                or len(max(texts, key=len)) > _LONGEST
            ):
                self._apart.add(path)
                numbers.clear()
                continue
            self._uses[path] += len(texts)
            fields[path] = [numbers[text] for text in texts]
        return fields

    def offered(self) -> list[str]:
        """Return the fields to filter by, after the last group: some groups share a value, and not all do."""
        paths = []
        for path, values in self._values.items():
            if 1 < len(values) < self._uses[path]:
                paths.append(path)
        return paths[:MOST_FIELDS]

    def as_json(self) -> list[Json]:
        """Return the fields to filter by: `path` and `values`."""
        return [
            {"path": path, "values": [*self._values[path]]}
            for path in self.offered()
        ]


def _scalars(
    holder: Any,
    rollouts: Set[Any] = frozenset(),
    start: str = "",
    depth: int = _DEPTH,
) -> Iterator[tuple[str, str]]:
    """Yield the paths of an object with their scalars, without what is below the names of its rollouts."""
    members = holder.items() if isinstance(holder, dict) else ()
    for name, value in [*members][:_MEMBERS]:
        if not name or name in _NOT_FIELDS or name in rollouts:
            continue
        path = start + (f'"{name}"' if "." in name else name)
        if len(path) > _LONGEST:
            continue
        if isinstance(value, dict) and depth > 1:
            yield from _scalars(
                value,
                frozenset(),
                f"{path}.",
                depth - 1,
            )
        elif text := _text(value):
            yield path, text


def _text(value: Any) -> str:
    """Return a scalar as text; empty for anything else."""
    if isinstance(value, str):
        text = readable_text(value[: _LONGEST + 1])
        return text if text.strip() else ""
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return json.dumps(value) if isinstance(value, int | float) else ""
