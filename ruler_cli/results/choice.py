"""Conditions, marks and a rule → the rollouts of each group that are taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Any, Literal

from ruler_cli.errors import UsageError
from ruler_cli.formats.paths import rollout_object
from ruler_cli.formats.reader import Reader
from ruler_cli.results.annotations import AnnotationReader, refuse_unannotated
from ruler_cli.results.conditions import FIGURES, MARK, Condition
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.labels import Labels, RolloutMark
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.settings.models import InputSettings
from ruler_cli.settings.suggestions import suggest_path
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
_SAMPLE = 5
"""Records in which a path is looked for that is near to one that no record has."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep at most so many rollouts of each group."""

    most: int
    by: By


@dataclass(frozen=True, slots=True)
class Choice:
    """The groups and rollouts to take: of those that `marks` name those that fulfil all `conditions`, then `keep`."""

    conditions: Sequence[Condition] = ()
    keep: Keep | None = None
    marks: Labels | None = None

    def __post_init__(self) -> None:
        """UsageError for a word of marks without files, and for files without such lines."""
        if self.marks is None and self.words:
            raise UsageError(
                "is about the lines of a file of marks",
                "name the file with --marks FILE",
                place=f"--where {printable(f'{MARK}={self.words[0]}')}",
            )
        if self.marks is not None and not self.marked:
            words = printable(" and ".join(self.words))
            raise UsageError(
                f"no line marks a group or a rollout {words}".rstrip(),
                "lines that compare two rollouts are passed over",
                place="--marks",
            )

    @property
    def words(self) -> Sequence[str]:
        """The words that a line of marks must have."""
        return [
            condition.value
            for condition in self.conditions
            if condition.name == MARK
        ]

    @property
    def marked(self) -> Sequence[RolloutMark]:
        """The lines of marks that have these words."""
        lines = []
        for marks in self.marks.marks.values() if self.marks else ():
            for mark in marks:
                if {*self.words} <= {mark.mark}:
                    lines.append(mark)
        return lines


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
        self._sample: list[Any] = []
        self._marked = None
        self._takes_rollouts = bool(choice.keep or choice.marks)
        for condition in choice.conditions:
            self._takes_rollouts |= condition.about_rollouts
        if choice.marks is not None:
            self._marked = MarkedRollouts(choice.marked)

    def open(
        self,
        reader: Reader,
        source: InputSettings,
    ) -> None:
        """Take the reader of INPUT."""
        self.annotations = AnnotationReader(
            reader, given=source.outcome is not None, sized=False
        )

    @property
    def unmatched(self) -> Sequence[RolloutMark]:
        """The lines of files of marks that named nothing in INPUT."""
        return () if self._marked is None else self._marked.left

    def select(self, group: Group) -> Selected | None:
        """Return what is taken of a group; None: it is left out."""
        scored = self.annotations.group(group)
        self._count(scored)
        counts = self.counts
        keep = self._choice.keep
        conditions = self._choice.conditions
        rollouts: Sequence[RolloutRecord] = scored.rollouts
        if self._marked is not None:
            rollouts = self._marked.of(group, scored)
        rollouts = self._with_fields(group, rollouts)
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
            elif len(self._sample) < _SAMPLE:
                record = group.records[0]
                value = self.annotations.value(record)
                self._sample.append(value)
                for rollout in record.rollouts[:1]:
                    self._sample.append(rollout_object(value, rollout))
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
                near = suggest_path(condition.path, self._sample)
                raise UsageError(
                    f"no rollout of {name} has a value there",
                    f"did you mean {printable(near)}?" if near else _PLACE,
                    place=f"--where {printable(condition.name)}",
                )


class MarkedRollouts:
    """The groups and rollouts that lines of marks name."""

    def __init__(self, lines: Sequence[RolloutMark]) -> None:
        self._wanted: dict[str, set[str]] = {}
        self._left: dict[tuple[str, ...], RolloutMark] = {}
        for line in lines:
            self._wanted.setdefault(line.group, set()).add(line.rollout)
            self._left[line.about] = line

    @property
    def left(self) -> Sequence[RolloutMark]:
        """The lines that named no group or rollout so far."""
        return tuple(self._left.values())

    def of(
        self,
        group: Group,
        scored: GroupRecord,
    ) -> Sequence[RolloutRecord]:
        """Return the rollouts of a group that lines name; all, if one names the group."""
        name = group_name(group.key)
        wanted = self._wanted.get(name)
        if not wanted:
            return ()
        ids = rollout_ids(group, scored)
        for rollout_id in ("", *ids):
            self._left.pop((name, rollout_id), None)
        if "" in wanted:
            return scored.rollouts
        pairs = zip(scored.rollouts, ids, strict=True)
        return [
            rollout for rollout, rollout_id in pairs if rollout_id in wanted
        ]


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
