"""`--where NAME` and `--where NAME=LOW..HIGH` → conditions: few, named, and no language."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from ruler_cli.errors import UsageError
from ruler_cli.formats.interface import plain
from ruler_cli.marked.values import MarkedGroup, MarkedRollout
from ruler_cli.nearest import nearest

_STATES: dict[str, Callable[[MarkedGroup], bool]] = {
    "live": lambda group: group.live,
    "tied": lambda group: group.tied,
    "failed": lambda group: group.failed,
    "scored": lambda group: group.status == "scored",
}
_FIGURES: dict[str, Callable[[MarkedGroup], float | None]] = {
    "reliability": lambda group: group.reliability,
    "disagreement": lambda group: group.disagreement,  # None where no two labels differ
}
_SCORE, _DISAGREEMENT = "score", "disagreement"
NAMES = (*_STATES, *_FIGURES, _SCORE)
_RANGED = (*_FIGURES, _SCORE)
_MEANT = {
    "disputed": "disagreement", "flat": "tied", "not-failed": "scored", "not-live": "tied",
    "not-scored": "failed", "not-tied": "live", "reward": "score", "unscored": "failed",
}  # fmt: skip
"""Names that people try first, where no spelling is near."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A name and, where it is about a figure, a range of which both ends belong to it.

    `bare`: a disagreement without a range, which is that some pair is ordered against its labels.
    """

    name: str
    low: float = -math.inf
    high: float = math.inf
    bare: bool = False

    @property
    def about_rollouts(self) -> bool:
        """Whether it picks rollouts of a group, and not groups."""
        return self.name == _SCORE

    def holds(self, group: MarkedGroup) -> bool:
        """Whether it holds for a group; a figure that the group does not have lies in no range."""
        if self.name in _STATES:
            return _STATES[self.name](group)
        if self.bare:
            return against(group)
        if self.name in _FIGURES:
            return self._contains(_FIGURES[self.name](group))
        return True

    def takes(self, rollout: MarkedRollout) -> bool:
        """Whether it holds for a rollout."""
        return not self.about_rollouts or self._contains(rollout.score)

    def _contains(self, value: float | None) -> bool:
        return value is not None and self.low <= value <= self.high


def condition(text: str) -> Condition:
    """What follows `--where`; UsageError with the way out."""
    name, equals, told = text.partition("=")
    if name not in NAMES:
        raise UsageError(f"--where {plain(text)}: is no condition; {_unknown(text)}")
    if name in _STATES:
        if equals:
            raise UsageError(f"--where {plain(text)}: `{name}` takes no range; write --where {name}")
        return Condition(name)
    if not equals and name == _DISAGREEMENT:
        return Condition(name, bare=True)
    low, high = _range(text, name, told)
    return Condition(name, low, high)


def against(group: MarkedGroup) -> bool:
    """Whether the judge puts some rollout above one with a greater label; a tie does not."""
    told = [(r.label, r.judged) for r in group.rollouts if r.label is not None and r.judged is not None]
    best = -math.inf
    for _, same in itertools.groupby(sorted(told), key=lambda pair: pair[0]):
        scores = [score for _, score in same]
        if scores[0] < best:  # sorted: the least of them
            return True
        best = max(best, scores[-1])
    return False


def _range(text: str, name: str, told: str) -> tuple[float, float]:
    """The ends; a figure that lies from 0 to 1 everywhere is in no range beyond."""
    first, dots, last = told.partition("..")
    wrong, way = f"--where {plain(text)}:", _way(name)
    try:
        low = float(first) if first.strip() else -math.inf
        high = float(last) if last.strip() else math.inf
    except ValueError:
        raise UsageError(f"{wrong} {way}") from None
    if not dots or math.isnan(low + high) or not (first.strip() or last.strip()):
        raise UsageError(f"{wrong} {way}")
    if low > high:
        raise UsageError(f"{wrong} the lower end stands first; {way}")
    if name in _FIGURES and (low > 1 or high < 0):
        raise UsageError(f"{wrong} {name} lies from 0 to 1; {way}")
    return low, high


def _unknown(text: str) -> str:
    """The end of a sentence about a text that is no condition: the nearest one, or how to write a range."""
    whole = re.sub(r"^(!|not[\s_-]+)", "not-", text.strip().casefold())
    name = re.split(r"[\s=<>:]", whole)[0]
    near = _MEANT.get(name) or nearest(name, NAMES)
    if near in _RANGED and name != whole:
        return _way(near)
    every = f"the conditions are {', '.join(NAMES)}"
    return f"did you mean `{near}`? ({every})" if near else every


def _way(name: str) -> str:
    """How to write a range of a figure."""
    more, less = f"{name}=0.7.. for 0.7 and more", f"{name}=..0.7 for 0.7 and less"
    return f"write a range, e.g. {more}, {less}, or {name}=0.3..0.7"
