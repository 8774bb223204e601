"""Scored groups and what people say of them → how well one judge, or two, agree with people.

What was drawn at random says how good a judge is. What was chosen because judges or passes disagree says how
good it is there, and counts only if it is all there is. All figures are those of `AgreementBuilder`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple

from ruler_cli.errors import UsageError
from ruler_cli.files.scratch import Scratch, digest
from ruler_cli.results.agreement import (
    EQUAL,
    GATED,
    Agreement,
    AgreementBuilder,
    LabelledPair,
    was_asked,
)
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.labels import (
    RANDOM,
    LabelLine,
    Labels,
    PairLabel,
    RolloutMark,
    latest,
)
from ruler_cli.results.record import GroupRecord, Json
from ruler_cli.results.repeats import merged
from ruler_cli.scoring.inference import FEWEST, CorrectedMean
from ruler_cli.types import Group

MOST_PEOPLE = 6
"""People who are named; of others there is the number."""
_Rollouts = tuple[str, ...]
"""The ids of a labelled rollout, or of two that were compared."""


class LabelledRollouts(NamedTuple):
    """Ids of the rollouts of a group.

    The group is so many `copies` of one, one behind the other, if each rollout is a line and the file stands in it
    more than once.
    """

    ids: Sequence[str] = ()
    copies: int = 1


class Label(NamedTuple):
    """The label of a rollout, the inverse of the chance that it had to be `drawn` as the line says.

    It is `shared` if several people gave one, of which it is the mean.
    """

    value: float
    weight: float = 1.0
    drawn: str = ""
    shared: bool = False


class LabelAgreement:
    """Measures one judge, or two, on labels of files and of records, group by group.

    Without `labels` those of the records count. With them a record's own counts only if its path is `given`, and
    only for a rollout without a mark. A label holds where its rollouts are: in a group of its name, else in another.
    Groups of equal rollouts are one, so they are measured after the last one. Then `left` are the labels without
    rollouts, each as group and rollouts, and `repeated` counts groups that stand more than once.
    """

    def __init__(self, labels: Labels | None, *names: str, given: bool) -> None:
        """Name the judge of each file."""
        labelled = labels or Labels({}, {})
        self._records = labels is None or given
        self._judges = names
        self._sets: dict[tuple[str, str], _LabelSet] = {}
        self._mean = CorrectedMean()
        every: Iterator[LabelLine] = chain(
            *labelled.comparisons.values(), *labelled.marks.values()
        )
        said = (one for one in every if isinstance(one, PairLabel) or one.is_label)
        lines = [*latest(said, lambda one: one.about[1:])]
        self._lines: defaultdict[_Rollouts, list[LabelLine]] = defaultdict(list)
        for one in lines:
            self._lines[one.about[1:]].append(one)
        self._by_first: defaultdict[str, list[_Rollouts]] = defaultdict(list)
        for ids in self._lines:
            self._by_first[ids[0]].append(ids)
        # labelled rollouts that a group of the label's name has, and those that were found
        self._at_home = set[_Rollouts]()
        self._found = set[_Rollouts]()
        self._people = Counter(one.by for one in lines)
        self._of_file = None if labels is None else len(lines)
        self._copies = Counter[bytes]()
        self._scratch = Scratch()
        self.close = self._scratch.close
        self.repeated = Counter(groups=0, scores=0, labels=0)

    @staticmethod
    def keep(group: Group, scored: GroupRecord) -> LabelledRollouts:
        """Return what labels need of the group's text."""
        lines = [record.line.raw for record in group.records]
        copies = lines.count(lines[0]) if len(lines) == len(scored.rollouts) else 1
        if lines != lines[: len(lines) // copies] * copies or copies == len(lines):
            copies = 1
        return LabelledRollouts(rollout_ids(group, scored), copies)

    def add(self, own: LabelledRollouts, *groups: GroupRecord) -> None:
        """Add one group as each file has it, its rollouts in one order."""
        name = group_name(groups[0].key)
        for ids in self._labelled(own.ids):
            if any(line.group == name for line in self._lines[ids]):
                self._at_home.add(ids)
        size = len(own.ids) // own.copies or 1
        for start in range(0, len(own.ids), size):
            part = slice(start, start + size)
            parts = [replace(one, rollouts=one.rollouts[part]) for one in groups]
            content = digest("".join(sorted(own.ids[part])))
            self._copies[content] += 1
            self._scratch.put((content, name, own.ids[part], parts))

    def _labelled(self, ids: Sequence[str]) -> Iterator[_Rollouts]:
        """Yield the rollouts that have a label, and pairs of them, among these ids."""
        known = dict.fromkeys(ids)
        for first in known:
            for one in self._by_first.get(first, ()):
                if known.keys() >= {*one}:
                    yield one

    def _measure(self) -> None:
        """Measure all groups, those with equal rollouts as one."""
        waiting: defaultdict[bytes, list[Any]] = defaultdict(list)
        with self._scratch as scratch:
            for content, *copy in scratch.all():
                waiting[content].append(copy)
                if len(waiting[content]) == self._copies[content]:
                    self._add(waiting.pop(content))

    def _add(self, copies: Sequence[Any]) -> None:
        names = {name for name, *_ in copies}
        _, ids, groups = copies[0]
        if len(copies) > 1:
            sides = [
                merged([(known, both[side]) for _, known, both in copies])
                for side in range(len(groups))
            ]
            groups = [one.group for one in sides]
            self.repeated.update(
                groups=1,
                scores=any(one.scores_differ for one in sides),
                labels=sides[0].labels_differ,
            )
        lines = self._held(names, ids)
        for drawn, pairs in _pairs(lines, ids).items():
            self._set("comparisons", drawn).add_pairs(groups, pairs)
        labels = self._labels(lines, ids, groups[0])
        ways = {label.drawn: None for label in labels if label}
        for drawn in ways if self._of_file is not None else [""]:
            own = [one if one and one.drawn == drawn else None for one in labels]
            self._set("rollouts", drawn).add_rollouts(groups, own)
        self._correct(groups[0], labels)

    def _correct(self, group: GroupRecord, labels: Sequence[Label | None]) -> None:
        """Add the scores of a group, and its labels that were drawn at random."""
        wanted = RANDOM if self._of_file is not None else ""
        scores = list[float]()
        rows = list[tuple[float, float, float]]()
        for rollout, label in zip(group.rollouts, labels, strict=True):
            if rollout.judge_score is not None:
                scores.append(rollout.judge_score)
                if label and label.drawn == wanted:
                    rows.append((scores[-1], label.value, label.weight))
        if scores:
            self._mean.add(len(scores), sum(scores), rows)

    def _held(self, names: Set[str], ids: Sequence[str]) -> list[LabelLine]:
        """Return the labels that hold in a group of these names; a comparison counts in one group."""
        held = list[LabelLine]()
        for labelled in self._labelled(ids):
            lines = self._lines[labelled]
            away = not any(line.group in names for line in lines)
            counted = len(labelled) > 1 and labelled in self._found
            if counted or (away and labelled in self._at_home):
                continue
            self._found.add(labelled)
            held += lines
        return held

    @property
    def left(self) -> list[tuple[str, ...]]:
        """The labels without rollouts."""
        left = (self._lines[ids] for ids in self._lines if ids not in self._found)
        return [*dict.fromkeys(one.about for lines in left for one in lines)]

    def _set(self, kind: str, drawn: str) -> _LabelSet:
        return self._sets.setdefault((kind, drawn), _LabelSet(*self._judges))

    def _count_left(self) -> None:
        """Count labels without rollouts, as far as they say that a rollout is better, by the way they were drawn."""
        for ids in self._lines.keys() - self._found:
            kind = "comparisons" if len(ids) > 1 else "rollouts"
            for drawn in {
                one.drawn
                for one in self._lines[ids]
                if isinstance(one, RolloutMark) or one.value not in (None, EQUAL)
            }:
                self._set(kind, drawn).counts["unmatched"] += 1

    def _labels(
        self, lines: Sequence[LabelLine], ids: Sequence[str], group: GroupRecord
    ) -> list[Label | None]:
        """Return the labels of the rollouts; marks that were drawn at random count before others."""
        given: dict[str, list[RolloutMark]] = {}
        for mark in sorted(lines, key=lambda one: one.drawn != RANDOM):
            if isinstance(mark, RolloutMark):
                given.setdefault(mark.rollout, []).append(mark)
        labels: list[Label | None] = []
        for i, rollout in enumerate(group.rollouts):
            label = None
            if own := given.get(ids[i]):
                drawn = own[0].drawn
                people = [one.label or 0.0 for one in own if one.drawn == drawn]
                weight = 1 / (own[0].chance or 1.0)
                label = Label(fmean(people), weight, drawn, len(people) > 1)
            elif self._records and rollout.label is not None:
                label = Label(rollout.label)
            labels.append(label)
        return labels

    def agreement(self, paired: Json | None = None) -> Agreement:
        """Measure all groups so far: the figures are those of the labels that say the most."""
        self._measure()
        self._count_left()
        if not self._sets:
            self._set("", "")
        ranked = sorted(self._sets.items(), key=_rank)
        measured = [
            ({"of": kind, "drawn": drawn}, labels.counts, labels.agreement(paired))
            for (kind, drawn), labels in ranked
        ]
        way, counts, result = measured[0]
        files = None
        if self._of_file is not None:
            files = {
                "labels": self._of_file,
                "by": dict(self._people.most_common(MOST_PEOPLE)),
                "people": len(self._people),
                **way,
                **{name: counts[name] for name in _COUNTS},
                "unmatched": len(self.left),
                "left_out": sum(one.counts["unscored"] for one in self._sets.values()),
            }
        corrected = None
        mean = self._mean
        if paired is None:
            numbers = {"number": round(mean.number), "labelled": mean.labels}
            partly = 0 < mean.labels < mean.number
            corrected = {"mean": numbers | mean.estimate() if partly else None}
        return {
            **result,
            "label_files": files,
            "corrected": corrected,
            "repeated": {**self.repeated},
            "evidence": [
                way | _evidence(counts, own["scorers"][0])
                for way, counts, own in measured
                if paired is None
            ],
        }


_COUNTS = ("measured", "equal", "unsure", "unscored", "not_asked", "shared")
"""Counts of labelled pairs: with a side that is better; those that people call equal, or are unsure of; those of
which a rollout has no score, and of these those that the judge was not asked about; those of several people. Of
labelled rollouts: with a score; without one, and of these as above; of several people."""


def _evidence(counts: Counter[str], scorer: Json) -> Json:
    """Return what a gate looks at: the labels, those without a score, and those the judge was not asked about."""
    return {
        "labels": counts["measured"] + counts["unscored"] + counts["unmatched"],
        "unscored": counts["unscored"] - counts["not_asked"],
        "not_asked": counts["not_asked"] + counts["unmatched"],
        "accuracy": scorer[GATED],
    }


def _rank(one: tuple[tuple[str, str], _LabelSet]) -> tuple[bool, bool, bool]:
    """Order sets of labels: those that measure something, at random, comparisons before labels of rollouts."""
    (kind, drawn), labels = one
    return (not labels.counts["measured"], drawn != RANDOM, kind != "comparisons")


def _pairs(
    lines: Sequence[LabelLine], ids: Sequence[str]
) -> dict[str, list[LabelledPair]]:
    """Return what people say of pairs of rollouts of a group, by how these were drawn."""
    found: dict[str, dict[tuple[int, int], list[PairLabel]]] = {}
    for line in lines:
        if isinstance(line, RolloutMark):
            continue
        # which one stood left is chance, and may differ between people
        one, other = line.about[1:]
        place = ids.index(one), ids.index(other)
        found.setdefault(line.drawn, {}).setdefault(place, []).append(line)
    return {
        drawn: [
            LabelledPair(
                *place,
                [
                    one.value if one.left == ids[place[0]] else 1 - one.value
                    for one in own
                    if one.value is not None
                ],
                # people may have pages with different draws: each is a sample of all pairs
                sum(1 / (one.chance or 1.0) for one in own),
            )
            for place, own in pairs.items()
        ]
        for drawn, pairs in found.items()
    }


class _LabelSet:
    """The labels that were drawn in one way, and the figures of the judges, and of people, on them."""

    def __init__(self, *judges: str) -> None:
        self.counts = Counter[str]()
        self._builder = AgreementBuilder(*judges)
        self.agreement = self._builder.agreement

    def add_pairs(
        self, groups: Sequence[GroupRecord], pairs: Sequence[LabelledPair]
    ) -> None:
        """Add what people say of pairs of rollouts of a group."""
        self._builder.add(*groups, pairs=pairs)
        for pair in pairs:
            state = "equal" if pair.values else "unsure"
            if pair.decided:
                state = self._state(groups, *pair[:2])
            self.counts[state] += 1
            self.counts["shared"] += len(pair.values) > 1

    def add_rollouts(
        self, groups: Sequence[GroupRecord], labels: Sequence[Label | None]
    ) -> None:
        """Add labels of the rollouts of a group."""
        values = [label and label.value for label in labels]
        weights = [label.weight if label else 0.0 for label in labels]
        self._builder.add(*groups, labels=values, weights=weights)
        for i, label in enumerate(labels):
            if label:
                self.counts[self._state(groups, i)] += 1
                self.counts["shared"] += label.shared

    def _state(self, groups: Sequence[GroupRecord], *indices: int) -> str:
        if all(g.rollouts[i].judge_score is not None for g in groups for i in indices):
            return "measured"
        self.counts["not_asked"] += not was_asked(groups[0])
        return "unscored"


FEWEST_LABELS = 20
"""Labels of a kind from which on they have to pass a gate, beside those that say the most."""
MOST_NOT_ASKED = 0.05
"""The share of labels that a judge may not have been asked about."""
_MEASURING = ("", RANDOM)
"""Ways to draw labels that do not depend on scores."""


def gate(agreement: Agreement, bound: float) -> Json:
    """Tell if the interval of the pairwise accuracy lies at `bound` or above.

    A labelled pair counts as wrong if the judge was asked about it and gave no score. Comparisons and labels of
    rollouts each have to pass if there are enough of them, and few may be of what the judge was not asked about.
    UsageError if there is none, or if what is known of the scores chose all labels.
    """
    first = agreement["evidence"][0]
    problem = ""
    if first["accuracy"]["low"] is None:
        problem = (
            f"an interval takes pairs of {FEWEST} groups, and labels order some in "
            f"{first['accuracy']['groups']}"
        )
    if first["drawn"] not in _MEASURING:
        problem = f"labels that order two rollouts were drawn as {first['drawn']}, and none at random"
    if problem:
        raise UsageError(
            f"nothing can be measured: {problem}",
            f"label a pair in {FEWEST} groups or more, drawn at random",
            place=f"--at-least {bound:g}",
        )
    sets = [
        _verdict(one, bound)
        for one in agreement["evidence"]
        if one is first
        or (one["drawn"] in _MEASURING and one["labels"] >= FEWEST_LABELS)
    ]
    passed = all(one["passed"] for one in sets)
    return {"at_least": bound, **sets[0], "passed": passed, "sets": sets}


def _verdict(evidence: Json, bound: float) -> Json:
    """Tell if labels of one kind pass; those that order no two rollouts say nothing of it."""
    value, low = (evidence["accuracy"][name] for name in ("value", "low"))
    labels = evidence["labels"] - evidence["not_asked"]
    share = evidence["not_asked"] / evidence["labels"]
    reached = value is None if low is None else low >= bound
    return {
        "of": evidence["of"],
        "drawn": evidence["drawn"],
        "value": value,
        "low": low,
        "passed": reached and share <= MOST_NOT_ASKED,
        "labels": labels,
        "unscored": evidence["unscored"],
        "not_asked": share,
    }
