"""Scored groups and labels → how well a judge agrees with them; labels are those of records, or of people.

Pairs that were drawn at random say how good a judge is; if there are any, only they count. What was chosen because
judges or passes disagree is harder than usual, and never counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import (
    Iterable,
    Mapping,
    Sequence,
)
from itertools import combinations

from ruler_cli.errors import UsageError
from ruler_cli.files.scratch import digest
from ruler_cli.results.agreement import (
    GATED,
    Agreement,
    AgreementBuilder,
    Vote,
    was_asked,
)
from ruler_cli.results.identity import group_name
from ruler_cli.results.labels import (
    DISPUTED,
    RANDOM,
    PairLabel,
)
from ruler_cli.results.record import GroupRecord, Json
from ruler_cli.scoring.bootstrap import FEWEST, CorrectedMean

MOST_PEOPLE = 6
"""People who are named; of others there is the number."""
MOST_NOT_ASKED = 0.05
"""The share of labels that a judge may not have been asked about."""
_COUNTS = ("measured", "equal", "unsure", "unscored", "not_asked", "shared")
"""Counts of labelled pairs: with a side that is better; those that people call equal, or are unsure of; those of
which a rollout has no score, and of these those that the judge was not asked about; those of several people. Of
labelled rollouts: with a score; without one, and of these as above."""
_Pair = tuple[str, ...]


class LabelAgreement:
    """Measures a judge group by group on labels of people; without `labels` those of the records count.

    A label holds where its rollouts are, in a group of its name, or of another name if no label says otherwise. Of
    groups with equal rollouts the first one counts; `repeated` is the number of others.
    """

    def __init__(self, labels: Iterable[PairLabel] | None) -> None:
        """UsageError if what is known of scores chose all labels."""
        self._files = labels is not None
        self._figures = AgreementBuilder("score")
        self._mean = CorrectedMean()
        self._counts = Counter[str]()
        self._seen = set[bytes]()
        self.repeated = 0
        lines = [] if labels is None else [*labels]
        ways = {line.drawn for line in lines}
        if ways == {DISPUTED}:
            raise UsageError(
                "nothing to compare: all labels are of disputed pairs, and none at random",
                "label pairs at random",
            )
        self._drawn = RANDOM if RANDOM in ways else ""
        self._lines = [line for line in lines if line.drawn == self._drawn]
        self._rollouts = set[str]()
        # by the pair of rollouts and the name of the group, in the order of the files
        self._left: defaultdict[_Pair, dict[str, list[PairLabel]]]
        self._left = defaultdict(dict)
        for line in self._lines:
            self._rollouts.update(line.pair)
            self._left[line.pair].setdefault(line.group, []).append(line)

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
        if not self._files:
            self._add_records(group)
        elif labels := self._labels_of(ids, group_name(group.key)):
            self._add_comparisons(labels, ids, group)

    def _labels_of(
        self,
        ids: Sequence[str],
        name: str,
    ) -> Mapping[_Pair, list[PairLabel]]:
        """Return the labels that hold in a group of this name, by rollouts; each holds in one group."""
        labels: dict[_Pair, list[PairLabel]] = {}
        for pair in combinations(sorted({*ids} & self._rollouts), 2):
            homes = self._left.get(pair, {})
            if name in homes:
                labels[pair] = homes.pop(name)
            elif len(homes) == 1:
                labels[pair] = homes.popitem()[1]
        return labels

    def _add_comparisons(
        self,
        labels: Mapping[_Pair, Sequence[PairLabel]],
        ids: Sequence[str],
        group: GroupRecord,
    ) -> None:
        votes = []
        labelled = set[int]()
        for pair, lines in labels.items():
            places = [ids.index(rollout) for rollout in pair]
            labelled.update(places)
            # people may have pages with different draws: each is a sample of all pairs
            weight = sum(line.weight for line in lines)
            better = Counter(line.better for line in lines if line.better)
            equal = sum(line.choice == "equal" for line in lines)
            decided = better.total()
            others = decided + equal - 1
            for rollout, people in better.items():
                place = ids.index(rollout)
                agreed = None
                if others:
                    agreed = (people - 1 + equal / 2) / others
                worse = sum(places) - place
                share = people / decided
                votes.append(Vote(place, worse, share, weight, agreed))
            if decided:
                self._count(group, places)
            else:
                self._counts["equal" if equal else "unsure"] += 1
            self._counts["shared"] += others > 0
        self._figures.add(group, votes=votes, labelled=labelled)

    def _add_records(self, group: GroupRecord) -> None:
        scores = []
        rows = []
        for i, rollout in enumerate(group.rollouts):
            score = rollout.judge_score
            if rollout.label is not None:
                self._count(group, [i])
            if score is not None:
                scores.append(score)
            if score is not None and rollout.label is not None:
                rows.append((score, rollout.label, 1.0))
        self._figures.add(group)
        self._mean.add(scores, rows)

    def _count(
        self,
        group: GroupRecord,
        places: Iterable[int],
    ) -> None:
        """Count a label by what the judge says of its rollouts."""
        if None in [group.rollouts[i].judge_score for i in places]:
            self._counts["unscored"] += 1
            self._counts["not_asked"] += not was_asked(group)
        else:
            self._counts["measured"] += 1

    @property
    def left(self) -> list[tuple[str, ...]]:
        """The labels whose rollouts no group had so far, each as group and rollouts."""
        return [
            (name, *pair)
            for pair, homes in self._left.items()
            for name in homes
        ]

    def agreement(self) -> Agreement:
        """Measure all groups so far."""
        files = None
        if self._files:
            people = Counter(line.by for line in self._lines)
            files = {
                "labels": len(self._lines),
                "by": dict(people.most_common(MOST_PEOPLE)),
                "people": len(people),
            }
        return {
            **self._figures.agreement(),
            "labelled": {
                "of": "comparisons" if self._files else "rollouts",
                "drawn": self._drawn,
                "unmatched": len(self.left),
                **{name: self._counts[name] for name in _COUNTS},
            },
            "label_files": files,
            "corrected": self._mean.estimate(),
            "repeated": self.repeated,
        }


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
            f"nothing can be measured: an interval needs ordered pairs in {FEWEST} groups, and the labels order "
            f"pairs in {accuracy['groups']}",
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
        # one resample in 40 has the added group with all pairs wrong three times or more; groups of unequal numbers of
        # pairs make it less
        "highest": 1 - 3 / (accuracy["groups"] + 2),
        "labels": labels - not_asked,
        "unscored": counts["unscored"] - counts["not_asked"],
        "not_asked": share,
    }
