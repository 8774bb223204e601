"""Scored groups and what people say of them → how well a judge agrees with people.

Labels that were drawn at random say how good a judge is; if there are any, only they count. What was chosen because
judges or passes disagree is harder than usual, and never counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from statistics import fmean

from ruler_cli.errors import UsageError
from ruler_cli.files.scratch import digest
from ruler_cli.results.agreement import (
    GATED,
    Agreement,
    AgreementBuilder,
    Vote,
    votes_of,
    was_asked,
)
from ruler_cli.results.identity import group_name
from ruler_cli.results.labels import (
    DISPUTED,
    RANDOM,
    LabelLine,
    Labels,
    PairLabel,
    RolloutMark,
)
from ruler_cli.results.record import GroupRecord, Json
from ruler_cli.scoring.bootstrap import FEWEST, CorrectedMean

MOST_PEOPLE = 6
"""People who are named; of others there is the number."""
_COUNTS = ("measured", "equal", "unsure", "unscored", "not_asked", "shared")
"""Counts of labelled pairs: with a side that is better; those that people call equal, or are unsure of; those of
which a rollout has no score, and of these those that the judge was not asked about; those of several people. Of
labelled rollouts: with a score; without one, and of these as above; of several people."""


class LabelAgreement:
    """Measures a judge on labels of files or of records, group by group.

    Without `labels` those of the records count. With them a record's own counts only if `of_records`, and only
    for a rollout without a mark. If there are comparisons, marks do not count. A label holds where its rollouts
    are, in a group of its name, or of another name if no label says otherwise. Of groups with equal rollouts the first
    one counts; `repeated` is the number of others. `left` are the labels whose rollouts no group had so far, each as
    group and rollouts.
    """

    def __init__(
        self,
        labels: Labels | None,
        *,
        of_records: bool,
    ) -> None:
        """UsageError if what is known of scores chose all labels."""
        self._of_records = labels is None or of_records
        self._figures = AgreementBuilder("score")
        self._mean = CorrectedMean()
        self._counts = Counter[str]()
        self._seen = set[bytes]()
        self.repeated = 0
        lines = list[LabelLine]()
        if labels is not None:
            lines += labels.comparisons
            for marks in labels.marks.values():
                lines += [
                    mark
                    for mark in marks
                    if mark.rollout and mark.label is not None
                ]
        ways = {line.drawn for line in lines}
        if ways == {DISPUTED}:
            problem = "all labels are of disputed pairs, and none at random"
            raise UsageError(
                f"nothing to compare: {problem}", "label pairs at random"
            )
        self._drawn = RANDOM if RANDOM in ways else ""
        lines = [line for line in lines if line.drawn == self._drawn]
        comparisons = [line for line in lines if isinstance(line, PairLabel)]
        self._of = "comparisons" if comparisons else "rollouts"
        self._lines = comparisons or lines
        self._files = labels is not None
        self._by_rollout = defaultdict[str, list[LabelLine]](list)
        for line in self._lines:
            self._by_rollout[line.about[1]].append(line)
        self._left = {line.about for line in self._lines}
        # the groups that labels name for the same rollouts
        self._homes = Counter(about[1:] for about in self._left)

    def add(
        self,
        ids: Sequence[str],
        group: GroupRecord,
    ) -> None:
        """Add a group with the ids of its rollouts; an empty one counts for nothing."""
        if not ids:
            return
        content = digest("".join(sorted(ids)))
        if content in self._seen:
            self.repeated += 1
            return
        self._seen.add(content)
        lines = self._lines_of(ids, group_name(group.key))
        if self._of == "comparisons":
            self._add_comparisons(lines, ids, group)
        else:
            self._add_labels(lines, ids, group)

    def _lines_of(
        self,
        ids: Sequence[str],
        name: str,
    ) -> list[LabelLine]:
        """Return the labels that hold in a group of this name; each holds in one group."""
        lines = list[LabelLine]()
        for rollout in dict.fromkeys(ids):
            for line in self._by_rollout.get(rollout, ()):
                rollouts = line.about[1:]
                here = line.group == name or self._homes[rollouts] == 1
                if here and line.about in self._left and {*rollouts} <= {*ids}:
                    lines.append(line)
        self._left -= {line.about for line in lines}
        return lines

    def _add_comparisons(
        self,
        lines: Sequence[LabelLine],
        ids: Sequence[str],
        group: GroupRecord,
    ) -> None:
        by_pair = defaultdict[tuple[str, ...], list[PairLabel]](list)
        for line in lines:
            if isinstance(line, PairLabel):
                by_pair[line.about[1:]].append(line)
        votes = list[Vote]()
        labelled = set[int]()
        for pair, labels in by_pair.items():
            places = {ids.index(rollout) for rollout in pair}
            labelled |= places
            # people may have pages with different draws: each is a sample of all pairs
            weight = sum(1 / (label.chance or 1.0) for label in labels)
            choices = Counter(label.choice for label in labels)
            equal = choices["equal"]
            better = Counter(label.better for label in labels if label.better)
            decided = better.total()
            for rollout, people in better.items():
                place = ids.index(rollout)
                (worse,) = places - {place}
                vote = Vote(
                    place,
                    worse,
                    people / decided,
                    weight,
                )
                if decided + equal > 1:
                    others = decided + equal - 1
                    vote = vote._replace(
                        agreed=(people - 1 + equal / 2) / others
                    )
                votes.append(vote)
            if decided:
                self._count(group, places)
            else:
                self._counts["equal" if equal else "unsure"] += 1
            self._counts["shared"] += decided + equal > 1
        if votes or labelled:
            self._figures.add(group, votes=votes, labelled=labelled)

    def _add_labels(
        self,
        lines: Sequence[LabelLine],
        ids: Sequence[str],
        group: GroupRecord,
    ) -> None:
        by_rollout = defaultdict[str, list[RolloutMark]](list)
        for line in lines:
            if isinstance(line, RolloutMark):
                by_rollout[line.rollout].append(line)
        labels = dict[int, tuple[float, float]]()
        scores = list[float]()
        rows = list[tuple[float, float, float]]()
        for i, rollout in enumerate(group.rollouts):
            if marks := by_rollout.get(ids[i]):
                label = fmean(mark.label or 0.0 for mark in marks)
                labels[i] = (label, 1 / (marks[0].chance or 1.0))
            elif self._of_records and rollout.label is not None:
                labels[i] = (rollout.label, 1.0)
            if i in labels:
                self._count(group, (i,))
            if rollout.judge_score is not None:
                scores.append(rollout.judge_score)
                if i in labels:
                    rows.append((rollout.judge_score, *labels[i]))
        votes = [*votes_of(labels)]
        self._figures.add(group, votes=votes, labelled=labels)
        self._mean.add(scores, rows)

    def _count(
        self,
        group: GroupRecord,
        places: Collection[int],
    ) -> None:
        """Count a label by what the judge says of its rollouts."""
        scores = [group.rollouts[i].judge_score for i in places]
        if None in scores:
            self._counts["unscored"] += 1
            self._counts["not_asked"] += not was_asked(group)
        else:
            self._counts["measured"] += 1

    @property
    def left(self) -> list[tuple[str, ...]]:
        """The labels without rollouts, in the order of the files."""
        return [
            *dict.fromkeys(
                line.about for line in self._lines if line.about in self._left
            )
        ]

    def agreement(self) -> Agreement:
        """Measure all groups so far."""
        counts = {
            "of": self._of,
            "drawn": self._drawn,
            "unmatched": len(self.left),
        }
        for name in _COUNTS:
            counts[name] = self._counts[name]
        files = None
        if self._files:
            people = Counter(line.by for line in self._lines)
            files = {
                "labels": len(self._lines),
                "by": dict(people.most_common(MOST_PEOPLE)),
                "people": len(people),
            }
        corrected = None
        if self._drawn == RANDOM or not self._files:
            corrected = self._mean.estimate()
        return {
            **self._figures.agreement(),
            "labelled": counts,
            "label_files": files,
            "corrected": corrected,
            "repeated": self.repeated,
        }


MOST_NOT_ASKED = 0.05
"""The share of labels that a judge may not have been asked about."""


def gate(
    agreement: Agreement,
    bound: float,
) -> Json:
    """Return whether the interval of the pairwise accuracy lies at `bound` or above, and what decided.

    A labelled pair counts as wrong if the judge was asked about it and gave no score, and few may be of what it was
    not asked about. UsageError if there are too few labels.
    """
    counts = agreement["labelled"]
    accuracy = agreement["scorers"][0][GATED]
    if accuracy["low"] is None:
        raise UsageError(
            f"nothing can be measured: an interval takes pairs of {FEWEST} groups, and labels order some in "
            f"{accuracy['groups']}",
            f"label a pair in {FEWEST} groups or more, drawn at random",
            place=f"--at-least {bound:g}",
        )
    not_asked = counts["not_asked"] + counts["unmatched"]
    labels = counts["measured"] + counts["unscored"] + counts["unmatched"]
    share = not_asked / labels
    return {
        "at_least": bound,
        "passed": accuracy["low"] >= bound and share <= MOST_NOT_ASKED,
        "value": accuracy["value"],
        "low": accuracy["low"],
        "labels": labels - not_asked,
        "unscored": counts["unscored"] - counts["not_asked"],
        "not_asked": share,
    }
