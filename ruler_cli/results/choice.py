"""Conditions and a rule → the rollouts of each group that are taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Literal

from ruler_cli.errors import UsageError
from ruler_cli.formats.reader import Reader
from ruler_cli.results.annotations import AnnotationReader, refuse_unannotated
from ruler_cli.results.conditions import FIGURES, Condition
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, printable

By = Literal["variance", "score"]
_NOISE = 1e-12
"""Rounding of a variance, as a share of the greatest square: a smaller gain is none."""
_NEEDS = {
    "reliability": "score with --passes 2 or more",
    "disagreement": "it needs two scored rollouts with different labels: name labels with --labels PATH",
}
"""Ways out if no group has a figure."""
_PLACE = "name a path below a rollout or its record"


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep at most so many rollouts of each group."""

    most: int
    by: By


@dataclass(frozen=True, slots=True)
class Choice:
    """The groups and rollouts to take: those that fulfil all `conditions`, and of these what `keep` says."""

    conditions: Sequence[Condition] = ()
    keep: Keep | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """A group with its annotations, and the rollouts of it that are taken."""

    group: Group
    scored: GroupRecord
    rollouts: Sequence[RolloutRecord]

    @property
    def indices(self) -> set[int]:
        """The indices of the parts of its rollouts among all rollouts of the group."""
        return {index for rollout in self.rollouts for index in rollout.indices}


class Selector:
    """Chooses the rollouts of each group, and counts them.

    `counts` are those of all `groups` and `rollouts`, of those `kept groups` and `kept rollouts`, and of
    `unreadable` lines. `unscored` groups fulfil every condition on groups but are left out, since none of their
    rollouts has a score. `annotation`, `score`, and the names of figures count groups that have it.
    """

    def __init__(self, choice: Choice) -> None:
        self.counts = Counter[str]()
        self._choice = choice
        self._found = set[str]()
        """Paths of conditions at which there was a value."""
        self._takes_rollouts = bool(choice.keep)
        for condition in choice.conditions:
            self._takes_rollouts |= condition.about_rollouts

    def open(
        self,
        reader: Reader,
        source: InputSettings,
    ) -> None:
        """Take the reader of INPUT."""
        self.annotations = AnnotationReader(
            reader, at_path=source.outcome is not None, sized=False
        )

    def select(self, group: Group) -> Selected | None:
        """Return what is taken of a group; None: it is left out."""
        scored = self.annotations.group(group)
        self._count(scored)
        counts = self.counts
        keep = self._choice.keep
        conditions = self._choice.conditions
        rollouts = self._with_fields(group, scored.rollouts)
        if not all(condition.holds(scored) for condition in conditions):
            return None
        taken = []
        for rollout in rollouts:
            if all(c.holds_for_rollout(rollout) for c in conditions):
                taken.append(rollout)
        if keep or any(condition.name == "score" for condition in conditions):
            counts["unscored"] += not scored.scores
            taken = [rollout for rollout in taken if rollout.score is not None]
        if keep:
            choose = widest if keep.by == "variance" else highest
            scores = [rollout.score or 0.0 for rollout in taken]
            taken = [taken[i] for i in choose(scores, keep.most)]
        if not taken and self._takes_rollouts:
            return None
        counts["kept groups"] += 1
        counts["kept rollouts"] += len(taken)
        return Selected(
            group,
            scored,
            taken,
        )

    def _count(self, scored: GroupRecord) -> None:
        self.counts.update(
            groups=1,
            rollouts=len(scored.rollouts),
            annotation=scored.status != "unmarked",
            score=bool(scored.scores),
        )
        for name, figure_of in FIGURES.items():
            self.counts[name] += figure_of(scored) is not None
        for condition in self._choice.conditions:
            if condition.criterion:
                self.counts[condition.name] += any(
                    condition.criterion in rollout.criterion_values
                    for rollout in scored.rollouts
                )

    def _with_fields(
        self,
        group: Group,
        rollouts: Sequence[RolloutRecord],
    ) -> Sequence[RolloutRecord]:
        """Return the rollouts for which all conditions on fields hold."""
        for condition in self._choice.conditions:
            if not condition.path:
                continue
            values = self.annotations.values_at(group, condition.path)
            if any(value is not None for value in values):
                self._found.add(condition.path)
            rollouts = [
                rollout
                for rollout in rollouts
                if condition.holds_for_value(rollout.last_of(values))
            ]
        return rollouts

    def refuse_missing(self, name: str) -> None:
        """Raise UsageError for a figure that no group of INPUT has; a range that holds none is no error."""
        counts = self.counts
        if counts["groups"]:
            unmarked = counts["groups"] - counts["annotation"]
            refuse_unannotated(
                name,
                counts["groups"],
                unmarked,
            )
        for condition in self._choice.conditions:
            named = condition.name in FIGURES or condition.criterion
            if counts["score"] and named and not counts[condition.name]:
                problem = f"no group of {name} has one"
                need = _NEEDS.get(
                    condition.name, "`ruler report` names the criteria"
                )
                raise UsageError(
                    problem, need, place=f"--where {condition.name}"
                )
            absent = (
                condition.path not in self._found and condition.value != "null"
            )
            if counts["rollouts"] and condition.path and absent:
                raise UsageError(
                    f"no rollout of {name} has a value there",
                    _PLACE,
                    place=f"--where {printable(condition.name)}",
                )


def highest(
    scores: Sequence[float],
    most: int,
) -> list[int]:
    """Return the indices of the highest scores; of equal ones the first."""
    return sorted(range(len(scores)), key=lambda i: -scores[i])[:most]


def widest(
    scores: Sequence[float],
    most: int,
) -> list[int]:
    """Return the indices of so many scores whose variance is the greatest.

    That is max-variance down-sampling (PODS, Xu et al. 2025, arXiv 2504.13818): the best choice is some of
    the lowest and the rest of the highest, so there are only `most` + 1 to compare. Of equal choices the
    one with more high scores wins, of equal scores the first.
    """
    size = len(scores)
    if most >= size:
        return list(range(size))
    middle = fmean(scores)
    deviations = sorted(score - middle for score in scores)
    sums = [0.0, *accumulate(deviations)]
    squares = [0.0, *accumulate(x * x for x in deviations)]

    def variance(low: int) -> float:
        high = size - (most - low)
        total = sums[low] + sums[-1] - sums[high]
        square = squares[low] + squares[-1] - squares[high]
        return square / most - (total / most) ** 2

    variances = [variance(low) for low in range(most + 1)]
    enough = max(variances) - _NOISE * max(x * x for x in deviations)
    lows = next(low for low, spread in enumerate(variances) if spread >= enough)
    by_score = sorted(range(size), key=scores.__getitem__)
    # none twice: else there were fewer low ones
    return sorted([*by_score[:lows], *highest(scores, most - lows)])
