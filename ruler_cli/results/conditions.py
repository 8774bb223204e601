"""`NAME` and `NAME=LOW..HIGH` → conditions on groups and rollouts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ruler_cli.errors import UsageError
from ruler_cli.settings.suggestions import suggestion_for
from ruler_cli.types import ENDINGS, printable, value

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
_SHARES = ("reliability", "disagreement")
"""Figures from 0 to 1."""
_ENDS = {**{name: name for name in ENDINGS}, "finished": ""}
"""Endings of a rollout, by the names of conditions."""
CRITERIA = "criteria."
"""The beginning of a condition about a criterion; its name follows."""
NAMES = (*_STATES, "mean", "reliability", "score", f"{CRITERIA}NAME", *_ENDS)


@value
class Condition:
    """A state of a group or a rollout; with `ends` a closed range of a figure, a score or a criterion."""

    name: str
    ends: tuple[float, float] | None = None

    @property
    def about_rollouts(self) -> bool:
        """Return whether it selects rollouts of a group, and not groups."""
        named = self.name == "score" or self.name in _ENDS
        return named or self.criterion != ""

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
        """Return whether it holds for a rollout; one on groups holds for all of theirs."""
        if self.criterion:
            value = rollout.criterion_values.get(self.criterion)
            return self._contains(value)
        if self.name in _ENDS:
            return rollout.ended == _ENDS[self.name]
        return self.name != "score" or self._contains(rollout.score)

    def _contains(self, value: float | None) -> bool:
        low, high = self.ends or (math.inf, -math.inf)
        return value is not None and low <= value <= high


def parse_condition(text: str) -> Condition:
    """Read a condition; UsageError with the way out."""
    # the name of a criterion may hold the sign
    name, equals, ends = text.rpartition("=") if "=" in text else (text, "", "")
    place = f"--where {printable(text)}"
    if name in (*_STATES, *_ENDS) and not equals:
        return Condition(name)
    of_criterion = name.startswith(CRITERIA) and name != CRITERIA
    if not of_criterion and name not in (*FIGURES, "score"):
        near = suggestion_for(name, NAMES)
        remedy = f"the conditions are {', '.join(NAMES)}"
        if near is not None:
            remedy = f"did you mean {near}? {remedy}"
        raise UsageError(
            "is not a condition",
            remedy,
            place=place,
        )
    limits = _limits(ends)
    # no figure lies there, and nothing would be kept
    outside = limits and name in _SHARES and (limits[0] > 1 or limits[1] < 0)
    if limits and not outside:
        return Condition(name, limits)
    raise UsageError(
        "is not a range",
        "write e.g. live, score=0.7.., mean=..0.3 or score=0.3..0.7; reliability and disagreement are from 0 to 1",
        place=place,
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
