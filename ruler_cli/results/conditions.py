"""`NAME`, `NAME=LOW..HIGH` and `PATH=VALUE` → conditions on groups and rollouts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ruler_cli.errors import UsageError
from ruler_cli.files.values import items
from ruler_cli.settings.suggestions import nearest
from ruler_cli.types import ENDINGS, printable

if TYPE_CHECKING:
    from ruler_cli.results.record import GroupRecord, RolloutRecord

_STATES: dict[str, Callable[[GroupRecord], bool]] = {
    "live": lambda group: group.live,
    "tied": lambda group: group.is_tied,
    "failed": lambda group: group.failed,
    "scored": lambda group: group.status == "scored",
    "disagreement": lambda group: group.pairs.lost > 0,
}
FIGURES: dict[str, Callable[[GroupRecord], float | None]] = {
    "mean": lambda group: group.mean,
    "reliability": lambda group: group.reliability,
    "disagreement": lambda group: group.disagreement,
}
"""The figures of a group that a range can name; a group may have none."""
_ENDS = {**dict(zip(ENDINGS, ENDINGS, strict=True)), "finished": ""}
"""Endings of a rollout, by the names of conditions."""
_SHARES = ("reliability", "disagreement")
"""Figures that lie from 0 to 1."""
CRITERIA = "criteria."
"""The beginning of a condition about a criterion; its name follows."""
NAMES = (
    *_STATES,
    "mean",
    "reliability",
    "score",
    f"{CRITERIA}NAME",
    *_ENDS,
)
_RANGE = (
    "write e.g. live, score=0.7.., mean=..0.3 or score=0.3..0.7; "
    'reliability and disagreement are from 0 to 1; a field of this name stands in quotes, "score"=VALUE'
)
_QUOTED = re.compile('"([^"]+)"')
"""A field whose name may be a known one."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A state of a group or a rollout, or the value of a field.

    With `ends` it is a closed range of a figure of a group, of a rollout's score or criterion, or of the number at
    `path`. Without them a `path` has a `value`, as text.
    """

    name: str
    ends: tuple[float, float] | None = None
    path: str = ""
    value: str = ""

    @property
    def about_rollouts(self) -> bool:
        """Return whether it selects rollouts of a group, and not groups."""
        named = (
            self.name == "score" or self.name in _ENDS or self.criterion != ""
        )
        return named or self.path != ""

    @property
    def criterion(self) -> str:
        """The name of the criterion that it is about; empty if it is about none."""
        start, _, name = self.name.partition(CRITERIA)
        return "" if start else name

    def holds(self, group: GroupRecord) -> bool:
        """Return whether it holds for a group; a group without the figure is in no range."""
        if self.about_rollouts:
            return True
        if self.ends is None:
            return _STATES[self.name](group)
        return self._contains(FIGURES[self.name](group))

    def holds_for_rollout(self, rollout: RolloutRecord) -> bool:
        """Return whether it holds for a rollout; one on groups holds for all of theirs, and so does one on a field."""
        if self.criterion:
            value = rollout.criterion_values.get(self.criterion)
            return self._contains(value)
        if self.name in _ENDS:
            return rollout.ended == _ENDS[self.name]
        return self.name != "score" or self._contains(rollout.score)

    def holds_for_value(self, value: Any) -> bool:
        """Return whether it holds for the value of a field; None is null, or absent. A list holds each of its items."""
        if self.ends is not None:
            return type(value) in (int, float) and self._contains(value)
        return any(_is(item, self.value) for item in items(value) or [value])

    def _contains(self, value: float | None) -> bool:
        low, high = self.ends or (math.inf, -math.inf)
        return value is not None and low <= value <= high


_WORDS = {
    True: "true",
    False: "false",
    None: "null",
}


def _is(
    value: Any,
    text: str,
) -> bool:
    """Return whether a value is the one that a text stands for: a text itself, a number or another scalar as JSON."""
    if isinstance(value, str):
        return value == text
    if value is None or isinstance(value, bool):
        return _WORDS[value] == text
    if not isinstance(value, int | float):
        return False
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return type(number) in (int, float) and bool(number == value)


def parse_condition(text: str) -> Condition:
    """Read a condition; UsageError with the way out."""
    # the name of a criterion may hold the sign
    name, equals, ends = text.rpartition("=") if "=" in text else (text, "", "")
    if name in (*_STATES, *_ENDS) and not equals:
        return Condition(name)
    ranged = name in FIGURES or name == "score"
    ranged |= name.startswith(CRITERIA) and name != CRITERIA
    if ranged:
        limits = _limits(ends)
        if limits and (
            name not in _SHARES or (limits[0] <= 1 and limits[1] >= 0)
        ):
            return Condition(name, limits)
    elif name not in NAMES:
        return _field(text)
    raise UsageError(
        "is not a range", _RANGE, place=f"--where {printable(text)}"
    )


def _limits(text: str) -> tuple[float, float] | None:
    """Read a range; None if a text is none."""
    first, dots, last = text.partition("..")
    try:
        low = float(first.strip() or "-inf")
        high = float(last.strip() or "inf")
    except ValueError:
        return None
    bounded = dots and not math.isnan(low + high)
    return (low, high) if bounded and low <= high else None


def _field(text: str) -> Condition:
    """Read a condition on a field; UsageError if it is none, or a known name that is mistyped."""
    path, equals, value = text.partition("=")
    quoted = _QUOTED.fullmatch(path)
    near = None
    if "." not in path and not quoted:
        near = nearest(path, NAMES)
    if path and equals and near is None:
        shown = quoted[1] if quoted else path
        return Condition(
            path,
            _limits(value),
            shown,
            value,
        )
    remedy = f"the conditions are {', '.join(NAMES)} and PATH=VALUE"
    if near is not None:
        shown = f' (or "{path}" of the records)' if equals else ""
        remedy = f"did you mean {near}{shown}? {remedy}"
    raise UsageError(
        "is not a condition",
        printable(remedy, 400),
        place=f"--where {printable(text)}",
    )
