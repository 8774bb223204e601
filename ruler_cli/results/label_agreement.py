"""Scored groups and what people say of them → how well one judge, or two, agree with people.

What was drawn at random says how good a judge is. What was chosen because judges or passes disagree says how
good it is there, so it is measured apart. A comparison of two rollouts is a group of two, the better of which
has the label 1, so that all figures are those of `AgreementBuilder`.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import Any, NamedTuple

from ruler_cli.errors import UsageError
from ruler_cli.results.agreement import (
    Agreement,
    AgreementBuilder,
    LabelRow,
    Statistic,
    Totals,
    ratio,
)
from ruler_cli.results.annotations import Json, ScoredGroup
from ruler_cli.results.corrections import Corrections, WeightedLabel
from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.labels import RANDOM, LabelLine, Labels, PairLabel, RolloutMark
from ruler_cli.scoring.inference import (
    FEWEST,
    fewest_to_reach,
    labels_to_decide,
    labels_to_show,
)
from ruler_cli.scoring.people import ALPHA, alpha, alpha_sums, kappa
from ruler_cli.scoring.statistics import won
from ruler_cli.types import Group

MOST_PEOPLE = 6
"""People of whom each pair has a kappa."""
_MOST_DRAWN = 8
"""Ways to draw labels that are told apart."""
_AT_ONCE = 64
"""Labels of a group whose pairs are looked at one by one; of more, a sample."""
_MOST_ON_ONE = 8
"""People on one pair who are compared with one another; of more, a sample."""
_EQUAL = 0.5
_KAPPA_RANGE = (-1.0, 1.0)

_People = dict[str, float]
"""The word of each person as a number: 1 if the first of two rollouts is better, 0 if the second is; or a label."""

_Two = tuple[str, str]
_KappaKey = tuple[str, str, str, float, float]
"""The word kappa, two people, and the values that they gave to the same thing."""


class LabelledRollouts(NamedTuple):
    """Ids of the rollouts of a group that has labels or values, and the values to compare them by."""

    ids: Sequence[str] = ()
    values: Sequence[str | None] = ()


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
    only for a rollout without a mark. `left` are the labels without a group and rollouts that have been added, each
    as group and rollouts.
    """

    def __init__(
        self, labels: Labels | None, *names: str, given: bool, between: str | None
    ) -> None:
        """Name the judge of each file; `between` is the path of the values to compare rollouts by."""
        self._labels = labels or Labels({}, {})
        self._records = labels is None or given
        self._judges = names
        self._path = between
        self._sets: dict[tuple[str, str], _LabelSet] = {}
        self._corrections = Corrections()
        self._valued = False
        marks = [
            mark
            for marks in self._labels.marks.values()
            for mark in marks
            if mark.rollout and mark.label is not None
        ]
        pairs = [one for each in self._labels.comparisons.values() for one in each]
        lines: list[LabelLine] = [*marks, *pairs]
        self.left = {one.about: None for one in lines}
        self._people = Counter(one.by for one in lines)
        self._of_file = None if labels is None else len(marks) + len(pairs)
        drawn = {mark.chance for mark in marks if mark.drawn == RANDOM}
        self._uneven = len(drawn) > 1

    def keep(
        self, file: ScoredFile, group: Group, scored: ScoredGroup
    ) -> LabelledRollouts:
        """Return what labels and comparisons need of the group's text."""
        name = group_name(group.key)
        ids: Sequence[str] = ()
        values: Sequence[str | None] = ()
        if self._path is not None:
            values = file.annotations.texts_at(group, scored, self._path)
        if values or name in self._labels.comparisons or name in self._labels.marks:
            ids = rollout_ids(group, scored)
        return LabelledRollouts(ids, values)

    def add(self, own: LabelledRollouts, *groups: ScoredGroup) -> None:
        """Add one group as each file has it, its rollouts in one order."""
        name = group_name(groups[0].key)
        self._valued |= any(own.values)
        index = {one: i for i, one in reversed([*enumerate(own.ids)])}
        found = self._pairs(self._labels.comparisons.get(name, ()), index)
        for drawn, pairs in found.items():
            self._set("comparisons", drawn).add_pairs(pairs, groups)
        labels = self._rollouts(self._labels.marks.get(name, ()), own.ids, groups[0])
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
        compared = None
        if self._labels.comparisons:
            compared = {
                (one.first, one.second): (fmean(one.people.values()), one.weight)
                for one in found.get(RANDOM, ())
                if one.people and _scored(groups, one.first, one.second)
            }
        self._corrections.add(groups[0], weighted, compared, own.values, own.ids)

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

    def _pairs(
        self, lines: Iterable[PairLabel], index: Mapping[str, int]
    ) -> dict[str, list[_Pair]]:
        """Return what people say of pairs of rollouts that the group has, by how these were drawn."""
        found: dict[tuple[str, tuple[str, ...]], _Pair] = {}
        for line in lines:
            if line.left not in index or line.right not in index:
                continue
            self.left.pop(line.about, None)
            # which one stood left is chance, and may differ between people
            one, other = line.about[1:]
            name = (line.drawn, line.about)
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
        known = {*ids}
        given: dict[str, list[RolloutMark]] = {}
        for mark in sorted(marks, key=lambda one: one.drawn != RANDOM):
            if mark.label is not None and mark.rollout in known:
                self.left.pop(mark.about, None)
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
        ranked = sorted(self._sets.items(), key=_rank)
        (kind, drawn), main = ranked[0] if ranked else (("", ""), _LabelSet("score"))
        result = main.agreement(paired)
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
            {"of": kind, "drawn": drawn, **other.accuracy()}
            for (kind, drawn), other in ranked[1:]
        ]
        corrected = None
        if paired is None:
            corrected = self._corrections.as_json(self._path)
        return {**result, "label_files": files, "apart": apart, "corrected": corrected}


_COUNTS = ("measured", "equal", "unsure", "unscored", "shared")
"""Counts of labelled pairs: with a side that is better; those that people call equal, or are unsure of; those of
which a rollout has no score; those of several people."""


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
        self._people: dict[str, None] = {}
        # by two people the keys of the sums of their kappa
        self._kappas: defaultdict[_Two, dict[_KappaKey, None]] = defaultdict(dict)

    def add_pairs(self, pairs: Iterable[_Pair], groups: Sequence[ScoredGroup]) -> None:
        """Add what people say of pairs of rollouts of a group."""
        pairs = [*pairs]
        compared = {i for pair in pairs for i in (pair.first, pair.second)}
        unit = self._builder.next(len(compared))
        for pair in pairs:
            decided = pair.decided
            scored = _scored(groups, pair.first, pair.second)
            state = "measured" if scored else "unscored"
            if not decided:
                state = "equal" if pair.people else "unsure"
            self.counts[state] += 1
            if state == "measured":
                for by, value in decided.items():
                    row = LabelRow(unit, pair.weight, 1 / len(decided), by)
                    self._add_row(groups, pair, value, row)
            if len(pair.people) > 1:
                self._add_people(unit, pair.people, mirrored=True)
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

    def _add_people(self, unit: int, people: _People, *, mirrored: bool) -> None:
        """Add what several people say of one thing.

        A pair of rollouts counts in both directions, if `mirrored`: which one is the first is chance.
        """
        self.counts["shared"] += 1
        self._people |= dict.fromkeys(
            [*people][: max(0, MOST_PEOPLE - len(self._people))]
        )
        ways = [people]
        if mirrored:
            ways.append({by: 1 - value for by, value in people.items()})
        sums = alpha_sums([[*way.values()] for way in ways])
        amounts: dict[object, float] = {
            ("alpha", name): value / len(ways) for name, value in sums.items()
        }
        known = sorted(by for by in people if by in self._people)
        for one, other in combinations(known, 2):
            amounts["kappa", one, other] = 1.0
            for way in ways:
                key = ("kappa", one, other, way[one], way[other])
                amounts[key] = amounts.get(key, 0.0) + 1
                self._kappas[one, other][key] = None
        self._builder.units.add(unit, amounts)

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
        self.counts["measured"] += 1
        self._builder.add(*groups)

    def add_rollouts(
        self,
        labels: Sequence[_Label | None],
        groups: Sequence[ScoredGroup],
        *,
        uneven: bool,
    ) -> None:
        """Add labels of the rollouts of a group; if their chances are `uneven`, each pair with its own weight."""
        self.counts["measured"] += sum(label is not None for label in labels)
        if uneven:
            unit = self._builder.next(len(labels))
            known = [(i, label) for i, label in enumerate(labels) if label]
            if len(known) > _AT_ONCE:
                known = random.Random(0).sample(known, _AT_ONCE)
            for (i, one), (j, other) in combinations(known, 2):
                if one.value != other.value and _scored(groups, i, j):
                    pair = _Pair(i, j, {}, one.weight * other.weight)
                    value = float(one.value > other.value)
                    self._add_row(groups, pair, value, LabelRow(unit, pair.weight))
        else:
            values = [label.value if label else None for label in labels]
            parts = [_labelled(group, dict(enumerate(values))) for group in groups]
            unit = self._builder.add(*parts)
        for label in labels:
            if label and len(label.people) > 1:
                self._add_people(unit, {**label.people}, mirrored=False)

    def accuracy(self) -> Json:
        """Return the figures of the judges alone."""
        scorers = self._builder.agreement()["scorers"]
        names = ("name", "pairs", "against", "tied", "pairwise_accuracy")
        return {
            "scorers": [{name: one[name] for name in names} for one in scorers],
            **{name: self.counts[name] for name in _COUNTS},
        }

    def agreement(self, paired: Json | None) -> Agreement:
        """Return all figures, and those of people if several gave labels for one thing."""
        if not self.counts["shared"]:
            return {**self._builder.agreement(paired), "people": None}
        kappas = {
            pair: Statistic(partial(_kappa, keys), ("kappa", *pair), _KAPPA_RANGE)
            for pair, keys in sorted(self._kappas.items())
        }
        result: dict[Any, Any] = self._builder.agreement(paired, _OF_PEOPLE | kappas)
        people = {name: result.pop(name) for name in _OF_PEOPLE}
        people["kappa"] = [{"people": [*pair], **result.pop(pair)} for pair in kappas]
        return {**result, "people": people}


def _alpha(totals: Totals) -> float | None:
    return alpha({name: totals.get(("alpha", name), 0.0) for name in ALPHA})


def _kappa(keys: Iterable[_KappaKey], totals: Totals) -> float | None:
    return kappa({key[3:]: totals.get(key, 0.0) for key in keys})


_OF_PEOPLE: dict[Any, Statistic] = {
    "agreement": ratio(("people", "won"), ("people", "rows")),
    "judge": ratio(("judge", "won"), ("judge", "rows")),
    "alpha": Statistic(_alpha, ("alpha", "values"), _KAPPA_RANGE),
}
"""The agreement of people with one another, and of the judge with one of them on the same pairs."""


def gate(agreement: Agreement, bound: float) -> Json:
    """Tell if the interval of the pairwise accuracy lies at `bound` or above; else how many labels would decide.

    UsageError, with the least number of labels, if there is none, or if what is known of the scores chose all labels.
    """
    scorer = agreement["scorers"][0]
    accuracy = scorer["pairwise_accuracy"]
    files = agreement["label_files"]
    labels = scorer["compared"]
    if files and files["of"] == "comparisons":
        labels = scorer["pairs"]
    value = accuracy["value"]
    low = accuracy["low"]
    high = accuracy["high"]
    if files and files["drawn"] not in ("", RANDOM):
        raise UsageError(
            f"nothing can be measured: labels that order two rollouts were drawn as {files['drawn']}, and none at "
            "random",
            needs(bound),
            option="at_least",
            value=f"{bound:g}",
        )
    if low is None:
        raise UsageError(
            f"nothing can be measured: an interval takes pairs of {FEWEST} groups, and labels order some in "
            f"{accuracy['groups']}",
            needs(bound),
            option="at_least",
            value=f"{bound:g}",
        )
    needed = None
    if low < bound <= high:
        needed = labels_to_decide(value, low, high, bound, labels)
    return {
        "at_least": bound,
        "value": value,
        "low": low,
        "passed": low >= bound,
        "labels": labels,
        "needed": needed,
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
