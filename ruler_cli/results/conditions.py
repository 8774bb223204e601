"""`NAME` and `NAME=LOW..HIGH` → conditions on groups and rollouts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruler_cli.errors import UsageError
from ruler_cli.types import ENDINGS, printable

if TYPE_CHECKING:
    from ruler_cli.results.annotations import ScoredGroup, ScoredRollout

_STATES: dict[str, Callable[[ScoredGroup], bool]] = {
    "live": lambda group: group.live,
    "tied": lambda group: group.tied,
    "failed": lambda group: group.failed,
    "scored": lambda group: group.status == "scored",
    "disagreement": lambda group: group.pairs.lost > 0,
}
FIGURES: dict[str, Callable[[ScoredGroup], float | None]] = {
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
NAMES = (*_STATES, "mean", "reliability", "score", f"{CRITERIA}NAME", *_ENDS)
_RANGE = (
    "write e.g. live, score=0.7.., mean=..0.3 or score=0.3..0.7; "
    "reliability and disagreement are from 0 to 1"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A state of a group or a rollout.

    With `ends` it is a closed range of a figure of a group, or of a rollout's score or criterion.
    """

    name: str
    ends: tuple[float, float] | None = None

    @property
    def about_rollouts(self) -> bool:
        """Tell if it selects rollouts of a group, and not groups."""
        return self.name == "score" or self.name in _ENDS or self.criterion != ""

    @property
    def criterion(self) -> str:
        """The name of the criterion that it is about; empty if it is about none."""
        start, _, name = self.name.partition(CRITERIA)
        return "" if start else name

    def holds(self, group: ScoredGroup) -> bool:
        """Tell if it holds for a group; a group without the figure is in no range."""
        if self.about_rollouts:
            return True
        if self.ends is None:
            return _STATES[self.name](group)
        return self._contains(FIGURES[self.name](group))

    def holds_for_rollout(self, rollout: ScoredRollout) -> bool:
        """Tell if it holds for a rollout; a condition on groups holds for all of theirs."""
        if self.criterion:
            values = {one.name: one.value for one in rollout.criteria}
            return self._contains(values.get(self.criterion))
        if self.name in _ENDS:
            return rollout.ended == _ENDS[self.name]
        return not self.about_rollouts or self._contains(rollout.score)

    def _contains(self, value: float | None) -> bool:
        low, high = self.ends or (math.inf, -math.inf)
        return value is not None and low <= value <= high


def parse_condition(text: str) -> Condition:
    """Read a condition; UsageError with the way out."""
    # the name of a criterion may hold the sign
    name, equals, ends = text.rpartition("=") if "=" in text else (text, "", "")
    if name in (*_STATES, *_ENDS) and not equals:
        return Condition(name)
    problem = "is not a range"
    remedy = _RANGE
    ranged = name in FIGURES or name == "score"
    ranged |= name.startswith(CRITERIA) and name != CRITERIA
    if name not in NAMES and not ranged:
        problem = "is not a condition"
        remedy = f"the conditions are {', '.join(NAMES)}"
    elif ranged:
        first, dots, last = ends.partition("..")
        try:
            low = float(first.strip() or "-inf")
            high = float(last.strip() or "inf")
        except ValueError:
            low = high = math.nan
        within = name not in _SHARES or (low <= 1 and high >= 0)
        bounded = not math.isnan(low + high)
        if dots and bounded and low <= high and within:
            return Condition(name, (low, high))
    raise UsageError(problem, remedy, option="where", value=printable(text))
