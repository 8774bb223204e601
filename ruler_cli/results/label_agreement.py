"""Scored groups and what people say of them → how well one judge, or two, agree with people.

What was drawn at random says how good a judge is. What was chosen because judges or passes disagree says how
good it is there, so it is measured apart. A comparison of two rollouts is a group of two, the better of which
has the label 1, so that all figures are those of `AgreementBuilder`.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any, NamedTuple

from ruler_cli.errors import UsageError
from ruler_cli.files.scratch import Scratch, digest
from ruler_cli.results.agreement import (
    GATED,
    Agreement,
    AgreementBuilder,
    LabelRow,
    Statistic,
    ratio,
    was_asked,
)
from ruler_cli.results.annotations import Json, ScoredGroup
from ruler_cli.results.corrections import Corrections, WeightedLabel
from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.labels import (
    RANDOM,
    LabelLine,
    Labels,
    PairLabel,
    RolloutMark,
    latest,
)
from ruler_cli.results.repeats import merged
from ruler_cli.scoring.inference import (
    FEWEST,
    fewest_to_reach,
    labels_to_decide,
    labels_to_show,
)
from ruler_cli.scoring.statistics import won
from ruler_cli.types import Group

MOST_PEOPLE = 6
"""People who are named; of others there is the number."""
_MOST_DRAWN = 8
"""Ways to draw labels that are told apart."""
_AT_ONCE = 64
"""Labels of a group whose pairs are looked at one by one; of more, a sample."""
_MOST_ON_ONE = 8
"""People on one pair who are compared with one another; of more, a sample."""
_EQUAL = 0.5
_Rollouts = tuple[str, ...]
"""The ids of a labelled rollout, or of two that were compared."""
_Copy = tuple[str, "LabelledRollouts", tuple[ScoredGroup, ...]]
"""A group: its name, its rollouts, and the group as each file has it."""

_People = dict[str, float]
"""The word of each person as a number: 1 if the first of two rollouts is better, 0 if the second is; or a label."""


def _rollouts_of(line: LabelLine) -> _Rollouts:
    return line.about[1:]


class LabelledRollouts(NamedTuple):
    """Ids of the rollouts of a group, and the values to compare them by.

    The group is so many `copies` of one, one behind the other, if each rollout is a line and the file stands in it
    more than once.
    """

    ids: Sequence[str] = ()
    values: Sequence[str | None] = ()
    copies: int = 1


@dataclass(frozen=True, slots=True)
class _Label:
    """The labels that people gave a rollout, `drawn` as the line says; `weight` is the inverse of its chance."""

    people: Mapping[str, float]
    drawn: str = ""
    weight: float = 1.0

    @property
    def value(self) -> float:
        return fmean(self.people.values())


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two rollouts, by index, and the word of people on them; those who are unsure say nothing.

    `weight` is the sum of the inverse chances of all that were asked.
    """

    first: int
    second: int
    people: _People
    weight: float

    @property
    def decided(self) -> _People:
        """Those who say that one of them is better."""
        return {by: value for by, value in self.people.items() if value != _EQUAL}


class LabelAgreement:
    """Measures one judge, or two, on labels of files and of records, group by group.

    Without `labels` those of the records count. With them a record's own counts only if its path is `given`, and
    only for a rollout without a mark. A label holds where its rollouts are: in a group of its name, else in another.
    Groups of equal rollouts are one, so they are measured after the last one. Then `left` are the labels without
    rollouts, each as group and rollouts, and `repeated` counts groups that stand more than once.
    """

    def __init__(
        self, labels: Labels | None, *names: str, given: bool, between: str | None
    ) -> None:
        """Name the judge of each file; `between` is the path of the values to compare rollouts by."""
        labelled = labels or Labels({}, {})
        self._records = labels is None or given
        self._judges = names
        self._path = between
        self._sets: dict[tuple[str, str], _LabelSet] = {}
        self._corrections = Corrections()
        self._valued = False
        marks = [
            mark
            for marks in labelled.marks.values()
            for mark in marks
            if mark.rollout and mark.label is not None
        ]
        pairs = [one for each in labelled.comparisons.values() for one in each]
        self._compares = bool(pairs)
        self._lines: defaultdict[_Rollouts, list[LabelLine]] = defaultdict(list)
        every: list[LabelLine] = [*marks, *pairs]
        lines = [*latest(every, _rollouts_of)]
        for one in lines:
            self._lines[_rollouts_of(one)].append(one)
        self._by_first: defaultdict[str, list[_Rollouts]] = defaultdict(list)
        for ids in self._lines:
            self._by_first[ids[0]].append(ids)
        # labelled rollouts that a group of the label's name has, and those that were found
        self._at_home = set[_Rollouts]()
        self._found = set[_Rollouts]()
        self._people = Counter(one.by for one in lines)
        self._of_file = None if labels is None else len(lines)
        drawn = {mark.chance for mark in marks if mark.drawn == RANDOM}
        self._uneven = len(drawn) > 1
        self._copies = Counter[bytes]()
        self._scratch = Scratch()
        self.close = self._scratch.close
        self.repeated = Counter(groups=0, scores=0, labels=0)

    def keep(
        self, file: ScoredFile, group: Group, scored: ScoredGroup
    ) -> LabelledRollouts:
        """Return what labels and comparisons need of the group's text."""
        values: Sequence[str | None] = ()
        if self._path is not None:
            values = file.annotations.texts_at(group, scored, self._path)
        lines = [record.line.raw for record in group.records]
        copies = lines.count(lines[0]) if len(lines) == len(scored.rollouts) else 1
        if lines != lines[: len(lines) // copies] * copies or copies == len(lines):
            copies = 1
        return LabelledRollouts(rollout_ids(group, scored), values, copies)

    def add(self, own: LabelledRollouts, *groups: ScoredGroup) -> None:
        """Add one group as each file has it, its rollouts in one order."""
        if own.copies > 1:
            size = len(own.ids) // own.copies
            for start in range(0, len(own.ids), size):
                part = slice(start, start + size)
                whole = LabelledRollouts(own.ids[part], own.values[part])
                parts = [replace(one, rollouts=one.rollouts[part]) for one in groups]
                self.add(whole, *parts)
            return
        name = group_name(groups[0].key)
        self._valued |= any(own.values)
        for ids in self._labelled(own.ids):
            if any(line.group == name for line in self._lines[ids]):
                self._at_home.add(ids)
        content = digest("".join(sorted(own.ids)))
        self._copies[content] += 1
        self._scratch.put((content, name, own, groups))

    def _labelled(self, ids: Sequence[str]) -> Iterator[_Rollouts]:
        """Yield the rollouts that have a label, and pairs of them, among these ids."""
        known = dict.fromkeys(ids)
        for first in known:
            for one in self._by_first.get(first, ()):
                if known.keys() >= {*one}:
                    yield one

    def _measure(self) -> None:
        """Measure all groups, those with equal rollouts as one."""
        waiting: defaultdict[bytes, list[_Copy]] = defaultdict(list)
        with self._scratch as scratch:
            for content, *copy in scratch.all():
                waiting[content].append((*copy,))
                if len(waiting[content]) == self._copies[content]:
                    self._add(waiting.pop(content))

    def _add(self, copies: Sequence[_Copy]) -> None:
        names = {name for name, *_ in copies}
        _, own, groups = copies[0]
        if len(copies) > 1:
            sides = [
                merged([(known.ids, both[side]) for _, known, both in copies])
                for side in range(len(groups))
            ]
            groups = tuple([one.group for one in sides])
            self.repeated.update(
                groups=1,
                scores=any(one.scores_differ for one in sides),
                labels=sides[0].labels_differ,
            )
        marks, pairs = self._held(names, own.ids)
        index = {one: i for i, one in reversed([*enumerate(own.ids)])}
        found = self._pairs(pairs, index)
        for drawn, compared in found.items():
            self._set("comparisons", drawn).add_pairs(compared, groups)
        labels = self._rollouts(marks, own.ids, groups[0])
        if self._of_file is None:
            self._set("rollouts", "").add_records(groups)
        else:
            self._add_marks(labels, groups)
        if len(groups) > 1:
            return
        wanted = RANDOM if self._of_file is not None else ""
        weighted: list[WeightedLabel | None] = [
            (label.value, label.weight) if label and label.drawn == wanted else None
            for label in labels
        ]
        values = None
        if self._compares:
            values = {
                (one.first, one.second): (fmean(one.people.values()), one.weight)
                for one in found.get(RANDOM, ())
                if one.people and _scored(groups, one.first, one.second)
            }
        self._corrections.add(groups[0], weighted, values, own.values, own.ids)

    def _held(
        self, names: Set[str], ids: Sequence[str]
    ) -> tuple[list[RolloutMark], list[PairLabel]]:
        """Return the labels that hold in a group of these names; a comparison counts in one group."""
        marks = list[RolloutMark]()
        pairs = list[PairLabel]()
        for labelled in self._labelled(ids):
            lines = self._lines[labelled]
            away = not any(line.group in names for line in lines)
            counted = len(labelled) > 1 and labelled in self._found
            if counted or (away and labelled in self._at_home):
                continue
            self._found.add(labelled)
            for line in lines:
                if isinstance(line, PairLabel):
                    pairs.append(line)
                else:
                    marks.append(line)
        return marks, pairs

    @property
    def left(self) -> list[tuple[str, ...]]:
        """The labels without rollouts."""
        lines = [
            one
            for ids, own in self._lines.items()
            if ids not in self._found
            for one in own
        ]
        return [*dict.fromkeys(one.about for one in lines)]

    def _add_marks(
        self, labels: Sequence[_Label | None], groups: Sequence[ScoredGroup]
    ) -> None:
        for drawn in dict.fromkeys(label.drawn for label in labels if label):
            chosen = [
                label if label and label.drawn == drawn else None for label in labels
            ]
            uneven = self._uneven and drawn == RANDOM
            self._set("rollouts", drawn).add_rollouts(chosen, groups, uneven=uneven)

    def _set(self, kind: str, drawn: str) -> _LabelSet:
        known = (kind, drawn) in self._sets or len(self._sets) < _MOST_DRAWN
        name = (kind, drawn if known or drawn == RANDOM else "other")
        return self._sets.setdefault(name, _LabelSet(*self._judges))

    def _count_left(self) -> None:
        """Count labels without rollouts, as far as they say that a rollout is better, by the way they were drawn."""
        for ids, lines in self._lines.items():
            if ids in self._found:
                continue
            kind = "comparisons" if len(ids) > 1 else "rollouts"
            for drawn in {
                one.drawn
                for one in lines
                if isinstance(one, RolloutMark) or one.value not in (None, _EQUAL)
            }:
                self._set(kind, drawn).counts["unmatched"] += 1

    def _pairs(
        self, lines: Iterable[PairLabel], index: Mapping[str, int]
    ) -> dict[str, list[_Pair]]:
        """Return what people say of pairs of rollouts that the group has, by how these were drawn."""
        found: dict[tuple[str, tuple[str, ...]], _Pair] = {}
        for line in lines:
            # which one stood left is chance, and may differ between people
            one, other = line.about[1:]
            name = (line.drawn, (one, other))
            pair = found.get(name) or _Pair(index[one], index[other], {}, 0.0)
            # people may have pages with different draws: each is a sample of all pairs
            weight = pair.weight + 1 / (line.chance or 1.0)
            found[name] = pair = replace(pair, weight=weight)
            value = line.value
            if value is not None:
                pair.people[line.by] = value if line.left == one else 1 - value
        by_drawn: dict[str, list[_Pair]] = {}
        for (drawn, _), pair in found.items():
            by_drawn.setdefault(drawn, []).append(pair)
        return by_drawn

    def _rollouts(
        self, marks: Sequence[RolloutMark], ids: Sequence[str], group: ScoredGroup
    ) -> list[_Label | None]:
        """Return the labels of the rollouts; marks that were drawn at random count before others."""
        given: dict[str, list[RolloutMark]] = {}
        for mark in sorted(marks, key=lambda one: one.drawn != RANDOM):
            given.setdefault(mark.rollout, []).append(mark)
        labels: list[_Label | None] = []
        for i, rollout in enumerate(group.rollouts):
            own = given.get(ids[i], []) if ids else []
            label = None
            if own:
                drawn = own[0].drawn
                people = {
                    one.by: one.label
                    for one in own
                    if one.drawn == drawn and one.label is not None
                }
                label = _Label(people, drawn, 1 / (own[0].chance or 1.0))
            elif self._records and rollout.label is not None:
                label = _Label({"": rollout.label})
            labels.append(label)
        return labels

    def agreement(self, paired: Json | None = None) -> Agreement:
        """Measure all groups so far: the labels that say the most, and apart the others.

        UsageError if rollouts are to be compared by a value that none has.
        """
        if self._path is not None and not self._valued:
            remedy = "name a path below a rollout or its record"
            raise UsageError(
                "no rollout has a text or a number there",
                remedy,
                option="between",
                value=self._path,
            )
        self._measure()
        self._count_left()
        ranked = sorted(self._sets.items(), key=_rank) or [
            (("", ""), _LabelSet(*self._judges))
        ]
        measured = [
            (*key, labels, labels.agreement(None if i else paired))
            for i, (key, labels) in enumerate(ranked)
        ]
        kind, drawn, main, result = measured[0]
        files = None
        if self._of_file is not None:
            files = {
                "labels": self._of_file,
                "by": dict(self._people.most_common(MOST_PEOPLE)),
                "people": len(self._people),
                "of": kind,
                "drawn": drawn,
                **{name: main.counts[name] for name in _COUNTS},
                "unmatched": len(self.left),
            }
        apart = [
            {"of": kind, "drawn": drawn, **labels.accuracy(own)}
            for kind, drawn, labels, own in measured[1:]
            if labels.counts.total() > labels.counts["unmatched"]
        ]
        evidence = [
            {"of": kind, "drawn": drawn, **labels.evidence(own)}
            for kind, drawn, labels, own in measured
        ]
        corrected = None
        if paired is None:
            corrected = self._corrections.as_json(self._path)
        return {
            **result,
            "label_files": files,
            "apart": apart,
            "corrected": corrected,
            "repeated": {**self.repeated},
            "evidence": evidence if paired is None else [],
        }


_COUNTS = ("measured", "equal", "unsure", "unscored", "not_asked", "shared")
"""Counts of labelled pairs: with a side that is better; those that people call equal, or are unsure of; those of
which a rollout has no score, and of these those that the judge was not asked about; those of several people. Of
labelled rollouts: with a score; without one, and of these as above; of several people."""


def _rank(one: tuple[tuple[str, str], _LabelSet]) -> tuple[bool, bool, bool]:
    """Order sets of labels: those that measure something, at random, comparisons before labels of rollouts."""
    (kind, drawn), labels = one
    return (not labels.counts["measured"], drawn != RANDOM, kind != "comparisons")


def _scored(groups: Iterable[ScoredGroup], *indices: int) -> bool:
    return all(
        group.rollouts[i].judge_score is not None for group in groups for i in indices
    )


def _labelled(group: ScoredGroup, labels: Mapping[int, float | None]) -> ScoredGroup:
    """Return a group of some of its rollouts, by their indices, with these labels."""
    rollouts = [replace(group.rollouts[i], label=label) for i, label in labels.items()]
    return replace(group, rollouts=tuple(rollouts))


class _LabelSet:
    """The labels that were drawn in one way, and the figures of the judges, and of people, on them."""

    def __init__(self, *judges: str) -> None:
        self.counts: Counter[str] = Counter()
        self._builder = AgreementBuilder(*judges)

    def add_pairs(self, pairs: Iterable[_Pair], groups: Sequence[ScoredGroup]) -> None:
        """Add what people say of pairs of rollouts of a group."""
        pairs = [*pairs]
        compared = {i for pair in pairs for i in (pair.first, pair.second)}
        unit = self._builder.next(len(compared))
        asked = was_asked(groups[0])
        for pair in pairs:
            decided = pair.decided
            scored = _scored(groups, pair.first, pair.second)
            state = "measured" if scored else "unscored"
            if not decided:
                state = "equal" if pair.people else "unsure"
            self.counts[state] += 1
            self.counts["not_asked"] += state == "unscored" and not asked
            for by, value in decided.items():
                row = LabelRow(unit, pair.weight, 1 / len(decided), by)
                if scored:
                    self._add_row(groups, pair, value, row)
                elif asked:
                    self._builder.miss(row)
            if len(pair.people) > 1:
                self.counts["shared"] += 1
                if state == "measured":
                    self._add_ceiling(unit, pair, groups[0])

    def _add_row(
        self,
        groups: Sequence[ScoredGroup],
        pair: _Pair,
        value: float,
        row: LabelRow,
    ) -> None:
        labels = {pair.first: value, pair.second: 1 - value}
        self._builder.add(*[_labelled(group, labels) for group in groups], row=row)

    def _add_ceiling(self, unit: int, pair: _Pair, group: ScoredGroup) -> None:
        """Add how well other people, and the judge, agree with one person on the same pair; a tie is one half."""
        scores = [
            group.rollouts[i].judge_score or 0.0 for i in (pair.first, pair.second)
        ]
        people = pair.people
        if len(people) > _MOST_ON_ONE:
            chosen = random.Random(0).sample(sorted(people), _MOST_ON_ONE)
            pair = replace(pair, people={by: people[by] for by in chosen})
        decided = pair.decided
        share = pair.weight / len(decided)
        for by, value in decided.items():
            side = 1 if value > _EQUAL else -1
            judged = won(side * scores[0], side * scores[1])
            amounts = {("judge", "won"): share * judged, ("judge", "rows"): share}
            self._builder.units.add_by_person(unit, amounts, by)
            others = [own for one, own in pair.people.items() if one != by]
            agreed = fmean(won(side * own, side * _EQUAL) for own in others)
            amounts = {("people", "won"): share * agreed, ("people", "rows"): share}
            self._builder.units.add(unit, amounts)

    def add_records(self, groups: Sequence[ScoredGroup]) -> None:
        """Add a group with the labels of its records."""
        rollouts = groups[0].rollouts
        self._count(groups, [i for i, r in enumerate(rollouts) if r.label is not None])
        self._builder.add(*groups)

    def _count(self, groups: Sequence[ScoredGroup], labelled: Sequence[int]) -> None:
        scored = sum(_scored(groups, i) for i in labelled)
        without = len(labelled) - scored
        self.counts.update(
            measured=scored,
            unscored=without,
            not_asked=0 if was_asked(groups[0]) else without,
        )

    def add_rollouts(
        self,
        labels: Sequence[_Label | None],
        groups: Sequence[ScoredGroup],
        *,
        uneven: bool,
    ) -> None:
        """Add labels of the rollouts of a group; if their chances are `uneven`, each pair with its own weight."""
        known = [(i, label) for i, label in enumerate(labels) if label]
        self._count(groups, [i for i, _ in known])
        if uneven:
            unit = self._builder.next(len(labels))
            if len(known) > _AT_ONCE:
                known = random.Random(0).sample(known, _AT_ONCE)
            for (i, one), (j, other) in combinations(known, 2):
                pair = _Pair(i, j, {}, one.weight * other.weight)
                row = LabelRow(unit, pair.weight)
                if one.value == other.value:
                    continue
                if _scored(groups, i, j):
                    value = float(one.value > other.value)
                    self._add_row(groups, pair, value, row)
                elif was_asked(groups[0]):
                    self._builder.miss(row)
        else:
            values = [label.value if label else None for label in labels]
            parts = [_labelled(group, dict(enumerate(values))) for group in groups]
            unit = self._builder.add(*parts)
        self.counts["shared"] += sum(
            label is not None and len(label.people) > 1 for label in labels
        )

    def accuracy(self, agreement: Agreement) -> Json:
        """Return the figures of the judges alone."""
        names = ("name", "pairs", "against", "tied", "pairwise_accuracy")
        return {
            "scorers": [
                {name: one[name] for name in names} for one in agreement["scorers"]
            ],
            **{name: self.counts[name] for name in _COUNTS},
        }

    def evidence(self, agreement: Agreement) -> Json:
        """Return what a gate looks at: the labels, those without a score, and those the judge was not asked about."""
        counts = self.counts
        return {
            "labels": counts["measured"] + counts["unscored"] + counts["unmatched"],
            "unscored": counts["unscored"] - counts["not_asked"],
            "not_asked": counts["not_asked"] + counts["unmatched"],
            "accuracy": agreement["scorers"][0].get(GATED),
        }

    def agreement(self, paired: Json | None) -> Agreement:
        """Return all figures, and those of people if several gave labels for one thing."""
        if not self.counts["shared"]:
            return {**self._builder.agreement(paired), "people": None}
        result = self._builder.agreement(paired, _OF_PEOPLE)
        people = {name: result.pop(name) for name in _OF_PEOPLE}
        return {**result, "people": people}


_OF_PEOPLE: dict[Any, Statistic] = {
    "agreement": ratio(("people", "won"), ("people", "rows")),
    "judge": ratio(("judge", "won"), ("judge", "rows")),
}
"""The agreement of people with one another, and of the judge with one of them on the same pairs."""


FEWEST_LABELS = 20
"""Labels of a kind from which on they have to pass a gate, beside those that say the most."""
MOST_NOT_ASKED = 0.05
"""The share of labels that a judge may not have been asked about."""


def gate(agreement: Agreement, bound: float) -> Json:
    """Tell if the interval of the pairwise accuracy lies at `bound` or above; else how many labels would decide.

    A labelled pair counts as wrong if the judge was asked about it and gave no score. Comparisons and labels of
    rollouts each have to pass if there are enough of them, and few may be of what the judge was not asked about.
    UsageError, with the least number of labels, if there is none, or if what is known of the scores chose all labels.
    """
    first, *others = agreement["evidence"]
    if first["drawn"] not in _MEASURING:
        raise UsageError(
            f"nothing can be measured: labels that order two rollouts were drawn as {first['drawn']}, and none at "
            "random",
            needs(bound),
            option="at_least",
            value=f"{bound:g}",
        )
    if first["accuracy"]["low"] is None:
        raise UsageError(
            f"nothing can be measured: an interval takes pairs of {FEWEST} groups, and labels order some in "
            f"{first['accuracy']['groups']}",
            needs(bound),
            option="at_least",
            value=f"{bound:g}",
        )
    more = [
        one
        for one in others
        if one["drawn"] in _MEASURING and one["labels"] >= FEWEST_LABELS
    ]
    sets = [_verdict(one, bound) for one in (first, *more)]
    passed = all(one["passed"] for one in sets)
    return {"at_least": bound, **sets[0], "passed": passed, "sets": sets}


_MEASURING = ("", RANDOM)
"""Ways to draw labels that do not depend on scores."""


def _verdict(evidence: Json, bound: float) -> Json:
    """Tell if labels of one kind pass; those that order no two rollouts say nothing of it."""
    value, low, high = (evidence["accuracy"][name] for name in ("value", "low", "high"))
    labels = evidence["labels"] - evidence["not_asked"]
    share = evidence["not_asked"] / evidence["labels"]
    needed = None
    if low is not None and low < bound <= high:
        needed = labels_to_decide(value, low, high, bound, labels)
    reached = value is None if low is None else low >= bound
    return {
        "of": evidence["of"],
        "drawn": evidence["drawn"],
        "value": value,
        "low": low,
        "passed": reached and share <= MOST_NOT_ASKED,
        "labels": labels,
        "needed": needed,
        "unscored": evidence["unscored"],
        "not_asked": share,
    }


def needs(bound: float) -> str:
    """Say how many labels can show that a judge is at least that accurate."""
    least = fewest_to_reach(bound)
    if least is None:
        return "no number of labels shows that; choose a lower one"
    middle = (1 + bound) / 2
    return (
        f"label a pair in {least} groups or more: {least} show it if the judge is right about each, about "
        f"{labels_to_show(middle, bound)} if it is right about {middle:.2g} of them"
    )
