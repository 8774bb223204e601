"""Scored groups → the groups and rollouts to take, by their figures and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from ruler_cli.errors import UsageError
from ruler_cli.formats.reader import Reader
from ruler_cli.results.annotations import AnnotationReader, refuse_unannotated
from ruler_cli.results.conditions import FIGURES, Condition
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, value

By = Literal["variance", "score"]
_NEEDS = {
    "reliability": "score with --passes 2 or more",
    "disagreement": "it needs two scored rollouts with different labels: name labels with --labels PATH",
}
"""Ways out if no group has a figure."""
_NOISE = 1e-12
"""Rounding of a variance, as a share of the greatest square: a smaller gain is none."""


@value
class Keep:
    """Keep at most so many rollouts of each group."""

    most: int
    by: By


@value
class Choice:
    """The groups and rollouts to take: those that fulfil all `conditions`, and of these what `keep` says."""

    conditions: Sequence[Condition] = ()
    keep: Keep | None = None


@value
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
    rollouts has a score. `all`, `unmarked`, `score`, and the names of figures count groups.
    """

    def __init__(self, choice: Choice) -> None:
        self.counts = Counter[str]()
        self._choice = choice
        about_rollouts = [c for c in choice.conditions if c.about_rollouts]
        self._takes_rollouts = bool(choice.keep or about_rollouts)

    def open(
        self,
        reader: Reader,
        source: InputSettings,
    ) -> None:
        """Take the reader of INPUT."""
        at_path = source.outcome is not None
        self.annotations = AnnotationReader(
            reader, at_path=at_path, sized=False
        )

    def select(self, group: Group) -> Selected | None:
        """Return what is taken of a group; None: it is left out."""
        scored = self.annotations.group(group)
        self._count(scored)
        keep = self._choice.keep
        conditions = self._choice.conditions
        if not all(condition.holds(scored) for condition in conditions):
            return None
        taken = [
            rollout
            for rollout in scored.rollouts
            if all(c.holds_for_rollout(rollout) for c in conditions)
        ]
        if keep or any(condition.name == "score" for condition in conditions):
            self.counts["unscored"] += not scored.scores
            taken = [rollout for rollout in taken if rollout.score is not None]
        if keep:
            choose = widest if keep.by == "variance" else highest
            scores = [rollout.score or 0.0 for rollout in taken]
            taken = [taken[i] for i in choose(scores, keep.most)]
        if not taken and self._takes_rollouts:
            return None
        self.counts["kept groups"] += 1
        self.counts["kept rollouts"] += len(taken)
        return Selected(
            group,
            scored,
            taken,
        )

    def _count(self, scored: GroupRecord) -> None:
        self.counts.update(
            groups=1,
            rollouts=len(scored.rollouts),
            unmarked=scored.status == "unmarked",
            score=bool(scored.scores),
        )
        for name, figure_of in FIGURES.items():
            self.counts[name] += figure_of(scored) is not None
        # each record may have criteria of its own: only those of conditions are counted
        for condition in self._choice.conditions:
            for rollout in scored.rollouts if condition.criterion else ():
                has = condition.criterion in rollout.criterion_values
                self.counts[condition.name] += has

    def refuse_missing(self, name: str) -> None:
        """Raise UsageError for a figure that no group of INPUT has; a range that holds none is no error."""
        counts = self.counts
        if counts["groups"]:
            refuse_unannotated(
                name,
                counts["groups"],
                counts["unmarked"],
            )
        for condition in self._choice.conditions:
            named = condition.name in FIGURES or condition.criterion
            if counts["score"] and named and not counts[condition.name]:
                need = _NEEDS.get(
                    condition.name, "`ruler report` names the criteria"
                )
                raise UsageError(
                    f"no group of {name} has one",
                    need,
                    place=f"--where {condition.name}",
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
    if most >= len(scores):
        return [*range(len(scores))]
    lowest = sorted(range(len(scores)), key=scores.__getitem__)
    middle = fmean(scores)
    off = [scores[i] - middle for i in lowest]
    noise = _NOISE * max([x * x for x in off])
    total = sum(off[-most:])
    square = sum([x * x for x in off[-most:]])
    greatest = square / most - (total / most) ** 2
    low = 0
    for i in range(most):
        # one more of the lowest, in place of one of the highest
        total += off[i] - off[i - most]
        square += off[i] ** 2 - off[i - most] ** 2
        variance = square / most - (total / most) ** 2
        if variance > greatest + noise:
            greatest = variance
            low = i + 1
    # none twice: else there were fewer low ones
    return sorted([*lowest[:low], *highest(scores, most - low)])
