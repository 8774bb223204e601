"""An open scored file: its groups with their annotations, and counts of values that cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

from ruler_cli.config import InputSettings
from ruler_cli.errors import UsageError
from ruler_cli.formats.interface import plain
from ruler_cli.reading.grouping import OnProblem
from ruler_cli.reading.input import open_input
from ruler_cli.reading.location import Location
from ruler_cli.results.annotations import MOST_JUDGES, AnnotationReader, refuse_unannotated
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout
from ruler_cli.types import Group


class ScoredFile:
    """A scored file; `counts` and `judges` are complete once all groups were read.

    `counts` holds the numbers of `groups` and of `rollouts`, and of rollouts:
    - `scored`, `failed`, `unmarked`
    - `odd_scores`: annotated as scored, but the score is no finite number
    - `moved`: --blend or --order-by-outcome moved the score away from the judges' own
    - `unlabelled`; `odd_labels`: the label is no number
    - `outcomes`: without a reward, labelled by a verifier or a person
    - `own_labels`: the label at the user's path equals the score

    `odd_costs` counts groups, `more_judges` the scores of judges beyond the first few.
    """

    def __init__(self, settings: InputSettings, stack: ExitStack, on_problem: OnProblem) -> None:
        """UsageError if it holds no records; `on_problem` gets each record that cannot be read."""
        self._labels, self.name = settings.outcome, Location(settings.source).shown
        self.input = open_input(settings, stack, on_problem)
        if self.input.reader is None:
            raise UsageError(f"{self.name}: holds no records; give a file that `ruler score` wrote")
        self.read_group = AnnotationReader(self.input.reader, given=settings.outcome is not None).group
        self.counts: Counter[str] = Counter()
        self.judges: dict[str, None] = {}
        self._panel: set[str] = set()

    def groups(self) -> Iterator[tuple[Group, ScoredGroup]]:
        """Yield each group with its annotations.

        At the end UsageError if no group has any, or if no rollout has a label at the user's path.
        """
        unmarked = labelled = 0
        for group in self.input.groups:
            scored_group = self.read_group(group)
            self.counts["groups"] += 1
            self.counts["odd_costs"] += "cost_usd" in scored_group.invalid_fields
            unmarked += scored_group.status == "unmarked"
            for rollout in scored_group.rollouts:
                labelled += rollout.label is not None
                self._count(rollout)
            yield group, scored_group
        refuse_unannotated(self.name, self.counts["groups"], unmarked)
        if self._labels is not None and not labelled:
            raise UsageError(
                f"--labels {plain(self._labels)}: no rollout of {self.name} has a label there that can be "
                "used; a label is a number, a truth value, or a word such as passed"
            )

    def _count(self, rollout: ScoredRollout) -> None:
        counts, given = self.counts, self._labels is not None
        counts["rollouts"] += 1
        if rollout.judge_score is None:
            counts["odd_scores" if rollout.invalid_fields else rollout.status] += 1
        else:
            counts["scored"] += 1
            counts["moved"] += rollout.judge_score != rollout.score
            if rollout.judge and len(self.judges) < MOST_JUDGES:
                self.judges[rollout.judge] = None
        if rollout.label is None:
            counts["odd_labels" if rollout.label_source else "unlabelled"] += 1
        counts["outcomes"] += not given and rollout.label_source == "outcome"
        counts["own_labels"] += given and rollout.label is not None and rollout.label == rollout.score
        counts["more_judges"] += rollout.more_judges
        for name in rollout.judges:
            if len(self._panel) < MOST_JUDGES:
                self._panel.add(name)
            counts["more_judges"] += name not in self._panel

    @property
    def warning(self) -> str | None:
        """Warn if every label equals its score: then the labels are probably ruler's own scores."""
        if not 1 < self.counts["own_labels"] == self.counts["scored"]:
            return None
        return (
            f"--labels {plain(self._labels or '')}: every label is the very score of its rollout; if that is "
            "where ruler wrote it, leave --labels out for the original rewards, or name where a verifier's "
            "word stands"
        )
