"""Records of a scored file → their fields with few values, by which a page filters its groups."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.formats.paths import rollout_object
from ruler_cli.results.annotations import AnnotationReader
from ruler_cli.results.record import Json
from ruler_cli.types import Group, readable_text

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
_NOT_FIELDS = frozenset(
    (
        *("ruler", "messages", "explanation", "logs", "reward", "rewards"),
        *("score", "scores", "ruler_score", "independent_reward"),
    )
)
"""Names of what the page shows elsewhere, or not at all."""

GroupValues = list[tuple[int, list[int]]]
"""The fields of a group by their numbers, each with the numbers of its values."""


@dataclass(slots=True)
class _Field:
    """A field and its values so far, by the numbers that groups have for them; `many`: it has too many."""

    path: str
    values: dict[str, int] = field(default_factory=dict)
    many: bool = False
    uses: int = 0

    def numbers_of(self, values: Sequence[str]) -> list[int]:
        """Number the values of a group; the field is closed with the first value too many."""
        for value in values:
            number = self.values.setdefault(value, len(self.values))
            self.many |= number >= MOST_VALUES or len(value) > _LONGEST
        if self.many:
            self.values.clear()
            return []
        self.uses += len(values)
        return [self.values[value] for value in values]

    @property
    def offered(self) -> bool:
        """Return whether it is one to filter by: some groups share a value, and not all do."""
        return not self.many and 1 < len(self.values) < self.uses


class RecordFields:
    """The fields of records and rollouts that have few values over a file, group by group.

    A field is a text, a number or a truth value at a path of at most three names. A rollout without it has that of its
    record.
    """

    def __init__(self, annotations: AnnotationReader) -> None:
        self._annotations = annotations
        self._fields: dict[str, _Field] = {}
        reader = annotations.reader
        form = reader.format
        read = (*form.messages, *form.answers, *form.prompt, form.reward)
        self._apart = {
            *reader.group_key.paths,
            *reader.given.values(),
            *reader.prompt,
        }
        self._apart.update(path for names in read for path in names.split("|"))

    def add(self, group: Group) -> GroupValues:
        """Count the fields of the next group of the file, and return those that it has."""
        values: dict[str, dict[str, None]] = {}
        for record in group.records:
            whole = self._annotations.value(record)
            below = {
                path for rollout in record.rollouts for path in rollout.path[:1]
            }
            shared = dict(_scalars(whole, below))
            for rollout in record.rollouts:
                below = rollout_object(whole, rollout)
                held = (
                    shared if below is whole else shared | dict(_scalars(below))
                )
                for path, text in held.items():
                    values.setdefault(path, {})[text] = None
        numbers = {path: i for i, path in enumerate(self._fields)}
        rows = []
        for path, texts in values.items():
            if path in self._apart:
                continue
            if path not in numbers:
                if len(numbers) >= _MOST_PATHS:
                    continue
                numbers[path] = len(numbers)
                self._fields[path] = _Field(path)
            if not self._fields[path].many:
                rows.append(
                    (numbers[path], self._fields[path].numbers_of([*texts]))
                )
        return rows

    def offered(self) -> list[int]:
        """Return the numbers of the fields to filter by, after the last group."""
        fields = self._fields.values()
        numbers = [
            number for number, counted in enumerate(fields) if counted.offered
        ]
        return numbers[:MOST_FIELDS]

    def as_json(self) -> list[Json]:
        """Return the fields to filter by: `path` and `values`."""
        fields = [*self._fields.values()]
        offered = [fields[number] for number in self.offered()]
        return [
            {"path": counted.path, "values": [*counted.values]}
            for counted in offered
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
            yield from _scalars(value, frozenset(), f"{path}.", depth - 1)
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
