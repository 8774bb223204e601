"""A scored file, open: its groups with their marks, and counts of what can and cannot be used of them."""

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
    """A scored file; `seen` and `judges` are complete once all groups were read.

    `seen` counts `groups` and `rollouts`, and of these `scored`, `failed` and `unmarked`; `odd_scores`:
    marked as scored, by what is no finite number; `moved`: scored, but by --blend or --order-by-outcome
    away from the judges' own score; `unlabelled`; `odd_labels`: with a label that is no number;
    `outcomes`: labelled by a verifier or a person, for want of a reward; `own_labels`: labels at the user's
    path that are the scores; `odd_costs` of groups; `more_judges`: scores of judges beyond the first few.
    """

    def __init__(self, where: InputSettings, stack: ExitStack, on_problem: OnProblem) -> None:
        """UsageError if it holds no records; `on_problem` gets each record that cannot be read."""
        self._labels, self.name = where.outcome, Location(where.source).shown
        self.input = open_input(where, stack, on_problem)
        if self.input.reader is None:
            raise UsageError(f"{self.name}: holds no records; give a file that `ruler score` wrote")
        self.mark = AnnotationReader(self.input.reader, given=where.outcome is not None).group
        self.seen: Counter[str] = Counter()
        self.judges: dict[str, None] = {}
        self._panel: set[str] = set()

    def groups(self) -> Iterator[tuple[Group, ScoredGroup]]:
        """Each group with its marks; at the end UsageError if none has any, or no label asked for."""
        unmarked = labelled = 0
        for group in self.input.groups:
            marked = self.mark(group)
            self.seen["groups"] += 1
            self.seen["odd_costs"] += "cost_usd" in marked.odd
            unmarked += marked.status == "unmarked"
            for rollout in marked.rollouts:
                labelled += rollout.label is not None
                self._count(rollout)
            yield group, marked
        refuse_unannotated(self.name, self.seen["groups"], unmarked)
        if self._labels is not None and not labelled:
            raise UsageError(
                f"--labels {plain(self._labels)}: no rollout of {self.name} has a label there that can be "
                "used; a label is a number, a truth value, or a word such as passed"
            )

    def _count(self, rollout: ScoredRollout) -> None:
        seen, given = self.seen, self._labels is not None
        seen["rollouts"] += 1
        if rollout.judged is None:
            seen["odd_scores" if rollout.odd else rollout.status] += 1
        else:
            seen["scored"] += 1
            seen["moved"] += rollout.judged != rollout.score
            if rollout.judge and len(self.judges) < MOST_JUDGES:
                self.judges[rollout.judge] = None
        if rollout.label is None:
            seen["odd_labels" if rollout.label_source else "unlabelled"] += 1
        seen["outcomes"] += not given and rollout.label_source == "outcome"
        seen["own_labels"] += given and rollout.label is not None and rollout.label == rollout.score
        seen["more_judges"] += rollout.more_judges
        for name in rollout.judges:
            if len(self._panel) < MOST_JUDGES:
                self._panel.add(name)
            seen["more_judges"] += name not in self._panel

    @property
    def doubt(self) -> str | None:
        """A warning that labels may be what ruler wrote: scores that agree with themselves say nothing."""
        if not 1 < self.seen["own_labels"] == self.seen["scored"]:
            return None
        return (
            f"--labels {plain(self._labels or '')}: every label is the very score of its rollout; if that is "
            "where ruler wrote it, leave --labels out for the original rewards, or name where a verifier's "
            "word stands"
        )
