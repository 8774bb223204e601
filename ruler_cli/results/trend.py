"""Scored files of the steps of a training → figures of each step, and what drifts over the steps.

A step keeps a few numbers of each of its groups. The figures are one JSON object, which `ruler report A B C` prints
as JSON and the page embeds: docs/json.md describes it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, log, sqrt
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from ruler_cli.formats.chat import first_agent_turn, is_agent
from ruler_cli.ledger.database import digest_of
from ruler_cli.results.annotations import Json, ScoredGroup, ScoredRollout
from ruler_cli.results.criteria import by_criterion
from ruler_cli.scoring.drift import BEFORE, LEAST, Shift, shifts
from ruler_cli.scoring.statistics import (
    Concordance,
    LengthSums,
    Moments,
    RatioSums,
    correlation,
    products,
)
from ruler_cli.types import ENDINGS, Group

FALSE_ALARMS = 0.05
"""Share of reports without any drift that name one, at most, if noise is as assumed (see `scoring.drift`).

Each of the tests has an equal part of it. Shares that vary or follow themselves more than that name one more often:
5 to 37 % were measured.
"""
_FLAT = 3
"""A label that moves by less than a third of what the score does, both in their standard deviations, is flat."""
_CRITERIA = 24
"""Criteria of a step that have a mean."""
_WAYS = 6
"""Ways to judge that are told apart, the commonest ones."""
_STEP_FIELDS = ("step", "global_step")
_NUMBERS = (re.compile(r"([0-9]+(?:\.[0-9]+)?)"), re.compile("([0-9]+)"))
"""Numbers in a name: with decimals, or where these do not tell names apart, without."""
_LONGEST_NUMBER = 15
"""Digits of a step; a longer number is a time or an id."""

DriftKind = Literal["label", "held_out", "length", "spread", "suspects", "unscored"]
"""The tests: the score rises and the label does not, or the held-out judge does not; the score follows length;
the spread within groups falls; more groups have rollouts that address the judge; more have rollouts without a score."""
StepOrigin = Literal["name", "field", "order"]
"""The source of the numbers of steps: the names of the files, a field of their records, the order of the files."""


class Way(NamedTuple):
    """The way in which a group was judged: judge, models that answered, and digests of rubric and parameters."""

    judge: str = ""
    served: str = ""
    rubric: str = ""
    parameters: str = ""

    def unlike(self, other: Way) -> list[str]:
        """Name what differs, as far as both say it."""
        both = zip(self._fields, self, other, strict=True)
        return [name for name, a, b in both if a and b and a != b]


class Ways:
    """Tells in which way each group of a training was judged.

    Rubrics of single tasks are one way, as long as each task keeps its own.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, str] = {}
        self._rubrics: dict[str, str] = {}
        self._latest = Way()
        self._served: dict[tuple[str, str], Way] = {}

    def of(self, group: ScoredGroup, own_rubric: str) -> Way:
        """Return the way of the next group, whose record may have a rubric of its own.

        One without scores, which does not say it all, has that of the last one like it.
        """
        rubric = group.rubric
        if own_rubric and rubric == digest_of(own_rubric):
            alone = self._tasks.setdefault(rubric, group.key) == group.key
            kept = self._rubrics.setdefault(group.key, rubric) == rubric
            if alone:
                rubric = "of its task" if kept else "changed in its task"
        asked = (rubric, group.params)
        if group.status != "scored":
            return self._served.get(asked, self._latest)
        way = Way(group.judge, ", ".join(group.served), *asked)
        self._latest = self._served[asked] = way
        return way


class GroupMean(NamedTuple):
    """A mean over groups, and its standard error; None with fewer than two groups."""

    mean: float
    error: float | None
    groups: int

    @classmethod
    def of(cls, sums: RatioSums) -> GroupMean | None:
        """Return the ratio of sums over groups; None without any."""
        if not sums.x:
            return None
        error = sums.error if sums.groups > 1 else None
        return cls(sums.ratio, error, sums.groups)

    @classmethod
    def of_share(cls, count: int, of: int) -> GroupMean | None:
        """Return the share of groups; its error is that of a share that is neither 0 nor 1."""
        if not of:
            return None
        share = (count + 0.5) / (of + 1)
        return cls(count / of, sqrt(share * (1 - share) / of), of)


class PairedValues:
    """Two values of each rollout that has both, such as its score and its label.

    It keeps the sums of each group, and of the whole step the products of the centred values.
    """

    def __init__(self) -> None:
        self._groups: list[tuple[int, float, float]] = []
        self._rows: list[tuple[float, float]] = []
        self._within = Counter[str]()
        self._overall: Mapping[str, float] = {}

    def add(self, rows: Sequence[tuple[float, float]]) -> None:
        """Add the rollouts of a group."""
        if rows:
            first, second = (sum(column) for column in zip(*rows, strict=True))
            self._groups.append((len(rows), first, second))
            self._rows += rows
            self._within.update(products("ab", rows))

    def close(self) -> None:
        """Sum over all rollouts, after the last group."""
        self._overall = products("ab", self._rows)
        self._rows = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    @property
    def first(self) -> GroupMean | None:
        """The mean of the first value."""
        return self._mean(1.0, 0.0)

    @property
    def second(self) -> GroupMean | None:
        """The mean of the second value."""
        return self._mean(0.0, 1.0)

    def gap(self, slope: float) -> GroupMean | None:
        """Return the mean of the first value less `slope` times the second."""
        return self._mean(1.0, -slope)

    def _mean(self, one: float, other: float) -> GroupMean | None:
        sums = RatioSums()
        for rollouts, first, second in self._groups:
            sums.add(rollouts, one * first + other * second)
        return GroupMean.of(sums)

    @property
    def within(self) -> float | None:
        """The correlation within groups."""
        return correlation(self._within)

    @property
    def overall(self) -> float | None:
        """The correlation over all rollouts."""
        return correlation(self._overall)

    @property
    def sums(self) -> Mapping[str, float]:
        """Sums of products over all rollouts."""
        return self._overall


@dataclass(frozen=True)
class StepFigures:
    """The figures of a step: as JSON, and what the tests look at, by their kinds.

    `pairs` are scores beside labels, and those of two judges; `values` are the numbers of the other tests. `levels`
    are by name what is told of a shift.
    """

    json: Json
    pairs: Mapping[DriftKind, PairedValues]
    values: Mapping[DriftKind, GroupMean | None]
    levels: Mapping[DriftKind, Mapping[str, float | None]]


class StepBuilder:
    """Builds the figures of a step, group by group. Scores are the judges' own.

    `panel` names two judges in the order that they have in an earlier step: of others no gap is measured.
    """

    def __init__(self, panel: Sequence[str] = ()) -> None:
        self._panel = tuple(panel)
        self._groups = Counter[str]()
        self._rollouts = Counter[str]()
        self._means: defaultdict[str, RatioSums] = defaultdict(RatioSums)
        self._judges: defaultdict[str, RatioSums] = defaultdict(RatioSums)
        self._criteria: dict[str, Moments] = {}
        self._spread = Moments()
        self._pairs = Concordance()
        self._labels = PairedValues()
        self._both_judges = PairedValues()
        self._lengths = LengthSums(), LengthSums()
        self._known_lengths = 0

    def add(self, group: ScoredGroup, turns: Sequence[int]) -> None:
        """Count the next group; `turns` are those of the agent in each rollout (see `turns_of`)."""
        rollouts = group.rollouts
        scored = [r for r in rollouts if r.judge_score is not None]
        scores = [r.judge_score or 0.0 for r in scored]
        own = Moments().add(scores)
        counts = {
            "all": True,
            group.status: True,
            "tied": group.tied,
            "suspects": any(r.suspect for r in rollouts),
            "unscored": len(scored) < len(rollouts),
        }
        self._groups.update(name for name, holds in counts.items() if holds)
        for rollout in rollouts:
            self._count(rollout)
        self._add_mean("score", scores)
        self._add_mean("bytes", [r.size for r in rollouts])
        self._add_mean("turns", turns)
        if own.number > 1:
            self._spread.add([own.spread])
            self._known_lengths += own.number - 1
            self._lengths[0].add([(r.size, r.judge_score or 0.0) for r in scored])
        labelled = [r for r in scored if r.label is not None]
        self._labels.add([(r.judge_score or 0.0, r.label or 0.0) for r in labelled])
        if len(labelled) > 1:
            self._lengths[1].add([(r.size, r.label or 0.0) for r in labelled])
        self._pairs += group.pairs
        self._add_panel(scored)
        for name, rows in by_criterion(group).items():
            if name in self._criteria or len(self._criteria) < _CRITERIA:
                values = self._criteria.setdefault(name, Moments())
                values.add(one.value for one, _ in rows)

    def _count(self, rollout: ScoredRollout) -> None:
        counts = {
            "all": True,
            "scored": rollout.judge_score is not None,
            "labelled": rollout.label is not None,
            "suspect": rollout.suspect,
            rollout.ended: rollout.ended,
        }
        self._rollouts.update(name for name, holds in counts.items() if holds)

    def _add_mean(self, name: str, values: Sequence[float]) -> None:
        if values:
            self._means[name].add(len(values), sum(values))

    def _add_panel(self, scored: Sequence[ScoredRollout]) -> None:
        by_judge: defaultdict[str, list[float]] = defaultdict(list)
        for rollout in scored:
            for name, score in rollout.judges.items():
                by_judge[name].append(score)
        for name, scores in by_judge.items():
            self._judges[name].add(len(scores), sum(scores))
        both = [rollout.judges for rollout in scored if len(rollout.judges) == 2]
        if both:
            self._panel = self._panel or tuple(both[0])
            one, other = self._panel
            pairs = [judges for judges in both if judges.keys() == {one, other}]
            self._both_judges.add([(judges[one], judges[other]) for judges in pairs])

    @property
    def panel(self) -> tuple[str, ...]:
        """The judges of a panel of two: the training judge and the held-out one."""
        return self._panel if {*self._panel} == self._judges.keys() else ()

    def figures(self) -> StepFigures:
        """Return the figures, after the last group."""
        pairs: dict[DriftKind, PairedValues] = {
            "label": self._labels,
            "held_out": self._both_judges if self.panel else PairedValues(),
        }
        for one in pairs.values():
            one.close()
        groups = self._groups
        lengths = [one.trend() for one in self._lengths]
        by_length = [one.correlation if one else None for one in lengths]
        shares = {
            kind: GroupMean.of_share(groups[kind], groups["all"]) for kind in _SHARES
        }
        values: dict[DriftKind, GroupMean | None] = {
            "length": None,
            "spread": self._mean_spread(),
            **shares,
        }
        if by_length[0] is not None:
            error = 1 / sqrt(max(1, self._known_lengths - 1))
            values["length"] = GroupMean(by_length[0], error, groups["scored"])
        json = self._json(pairs["label"], values["spread"])
        json["with_length"] = dict(zip(("score", "label"), by_length, strict=True))
        tied = groups["tied"] / groups["scored"] if groups["scored"] else None
        levels: dict[DriftKind, Mapping[str, float | None]] = {
            "length": json["with_length"],
            "spread": {"spread": _mean(values["spread"]), "tied": tied},
            **{kind: {"groups": _mean(share)} for kind, share in shares.items()},
        }
        for kind, one in pairs.items():
            levels[kind] = {"score": _mean(one.first), "label": _mean(one.second)}
        return StepFigures(json, pairs, values, levels)

    def _mean_spread(self) -> GroupMean | None:
        spread = self._spread
        groups = spread.number
        if not groups:
            return None
        error = spread.deviation / sqrt(groups) if groups > 1 else None
        return GroupMean(spread.mean, error, groups)

    def _json(self, labels: PairedValues, spread: GroupMean | None) -> Json:
        means = {
            name: GroupMean.of(self._means[name])
            for name in ("score", "bytes", "turns")
        }
        return {
            "groups": {name: self._groups[name] for name in _GROUPS},
            "rollouts": {name: self._rollouts[name] for name in _ROLLOUTS},
            **{name: _as_json(one) for name, one in means.items()},
            "spread": _as_json(spread),
            "label": _as_json(labels.second),
            "against_label": {
                "within": labels.within,
                "overall": labels.overall,
                "pairs": self._pairs.pairs,
                "accuracy": self._pairs.agreement,
            },
            "criteria": [
                {"name": name, "mean": one.mean, "rollouts": one.number}
                for name, one in self._criteria.items()
            ],
            "judges": [
                {"name": name, "mean": one.ratio, "rollouts": round(one.x)}
                for name in dict.fromkeys((*self.panel, *self._judges))
                for one in [self._judges[name]]
            ],
        }


_GROUPS = ("all", "scored", "failed", "unmarked", "tied", "suspects", "unscored")
_ROLLOUTS = ("all", "scored", "labelled", "suspect", *ENDINGS)
_SHARES: tuple[DriftKind, ...] = ("suspects", "unscored")


def _as_json(estimate: GroupMean | None) -> Json | None:
    if estimate is None:
        return None
    return {"mean": estimate.mean, "error": estimate.error}


def _mean(estimate: GroupMean | None) -> float | None:
    return None if estimate is None else estimate.mean


def turns_of(group: Group, scored: ScoredGroup) -> list[int]:
    """Count the turns of the agent in each rollout of a group."""
    parts = group.rollouts
    turns = []
    for rollout in scored.rollouts:
        histories = [
            messages
            for i in rollout.indices
            for messages in (parts[i].messages, *parts[i].histories)
        ]
        own = [messages[first_agent_turn(messages) :] for messages in histories]
        turns.append(sum(is_agent(message) for each in own for message in each))
    return turns


@dataclass(frozen=True)
class TrendStep:
    """A file of a trend: the number of its step, its name, and its figures; without scores the reason.

    `differs` names what made its scores differently from those of the step before, in words. `ways` has the figures
    of its groups by the way in which they were judged; empty: all were judged alike.
    """

    number: float
    source: str
    figures: StepFigures
    reason: str = ""
    differs: str = ""
    ways: Mapping[Way, StepFigures] = field(default_factory=dict)

    def judged(self, way: Way) -> StepFigures | None:
        """Return the figures of the groups that were judged in a way; None without any."""
        return self.ways.get(way) if self.ways else self.figures


Levels = Mapping[str, tuple[float, float]]
"""Means by name: before the onset of a shift, and from there on."""


class Drift(NamedTuple):
    """A shift that a test looks for.

    `at` is the index of the first step at which it is beyond chance, `since` that of its likely onset. The
    `levels` are those before the onset, and from there to `at`. `judged` names the way in which its groups were
    judged, if there are several. `slope` is that of the score on the label, if the test has one.
    """

    kind: DriftKind
    at: int
    since: int
    levels: Levels
    judged: str = ""
    slope: float | None = None


@dataclass(frozen=True)
class DriftTest:
    """A test of a series: its steps by their indices, and a number of each.

    `columns` has by name what moves with the numbers. `is_drift` tells if a shift is one that is looked for.
    """

    kind: DriftKind
    steps: Sequence[int]
    values: Sequence[GroupMean]
    columns: Mapping[str, Sequence[float | None]]
    is_drift: Callable[[Levels], bool]
    judged: str = ""
    slope: float | None = None

    @property
    def runs(self) -> bool:
        """Tell if there are enough steps."""
        return len(self.steps) >= LEAST

    def first(self, needed: float) -> tuple[Drift | None, float]:
        """Return the first drift with the `needed` evidence, and the largest evidence of any shift up to it."""
        largest = 0.0
        for shift in shifts([one.mean for one in self.values], self._errors()):
            largest = max(largest, shift.evidence)
            levels = self._levels(shift) if shift.evidence >= needed else {}
            if levels and self.is_drift(levels):
                at, since = self.steps[shift.end - 1], self.steps[shift.since]
                drift = Drift(self.kind, at, since, levels, self.judged, self.slope)
                return drift, largest
        return None, largest

    def _errors(self) -> list[float]:
        """Return the errors that the groups of each step would have in the first steps.

        The own error of a step grows with what drifts.
        """
        first = self.values[:LEAST]
        group = median((one.error or 0.0) * sqrt(one.groups) for one in first)
        return [group / sqrt(one.groups) for one in self.values]

    def _levels(self, shift: Shift) -> Levels:
        levels = {}
        for name, column in self.columns.items():
            before = [one for one in column[: shift.since] if one is not None]
            after = [one for one in column[shift.since : shift.end] if one is not None]
            if before and after:
                levels[name] = (fmean(before), fmean(after))
        return levels


class Trend:
    """The steps of a training in their order, and what drifts.

    Groups that were judged in another way are a series of their own, so no test runs across a change of the judge.
    Of trainings in which nothing drifts at most the share `false_alarms` has a drift here, if noise is as assumed.
    """

    def __init__(
        self,
        steps: Iterable[TrendStep],
        origin: StepOrigin,
        false_alarms: float = FALSE_ALARMS,
    ) -> None:
        self.false_alarms = false_alarms
        self.steps = sorted(steps, key=lambda one: one.number)
        self.origin = origin
        groups = Counter[Way]()
        for step in self.steps:
            for way, figures in step.ways.items():
                groups[way] += figures.json["groups"]["all"]
        self.ways = _named_ways([way for way, _ in groups.most_common(_WAYS)])
        """The commonest ways in which groups were judged, the most frequent first, and their names."""
        self.tests: list[DriftTest] = []
        for way in self.ways:
            first = not self.tests
            tests = self._tests_of(way)
            self.tests += [one for one in tests if one.steps and (first or one.runs)]
        self.slopes = {
            one.kind: one.slope
            for one in reversed(self.tests)
            if one.slope is not None and one.judged == self.tests[0].judged
        }
        """The slope of the score on the label, and on that of the held-out judge, in the first steps."""
        running = [one for one in self.tests if one.runs]
        self.needed = log(max(1, len(running)) / false_alarms)
        """The evidence from which on a shift is beyond chance, the natural logarithm of an e-value."""
        found = [one.first(self.needed) for one in running]
        self.evidence = [largest for _, largest in found]
        """The largest evidence of each test that runs."""
        self.drifts = [drift for drift, _ in found if drift is not None]

    def _tests_of(self, way: Way) -> list[DriftTest]:
        """Return the tests of the groups that were judged in one way."""
        tests = [self._gap_test("label", way), self._gap_test("held_out", way)]
        return tests + [self._test(kind, way, rule) for kind, rule in _RULES.items()]

    def _gap_test(self, kind: DriftKind, way: Way) -> DriftTest:
        """Return the test of the score against the label, or of a judge against the held-out one.

        Its number is the mean score less the slope times the mean label. The slope is that of the score on the
        label among the rollouts of the first steps, so a policy that improves moves both, and not the number.
        """
        figures = [one.judged(way) for one in self.steps]
        pairs = [one.pairs[kind] if one else PairedValues() for one in figures]
        first = [one.sums for one in pairs if one][:BEFORE]
        aa, ab, bb = (fsum(one[name] for one in first) for name in ("aa", "ab", "bb"))
        slope = max(0.0, ab / bb) if bb else 0.0

        def is_drift(levels: Levels) -> bool:
            """Tell if the gap rises, and the label is flat or falls, by what rollouts of the first steps differ."""
            score, label = (levels[name][1] - levels[name][0] for name in _GAP)
            flat = label * sqrt(aa) * _FLAT <= score * sqrt(bb)
            return score > slope * label and flat

        test = self._test(kind, way, is_drift, [one.gap(slope) for one in pairs])
        return replace(test, slope=slope if first else None)

    def _test(
        self,
        kind: DriftKind,
        way: Way,
        is_drift: Callable[[Levels], bool],
        values: Sequence[GroupMean | None] | None = None,
    ) -> DriftTest:
        """Make a test of the steps that have a number, of two groups or more."""
        figures = [one.judged(way) for one in self.steps]
        if values is None:
            values = [one.values[kind] if one else None for one in figures]
        known = {
            i: one
            for i, one in enumerate(values)
            if one is not None and one.error is not None
        }
        levels = [own.levels[kind] for i in known if (own := figures[i])]
        names = levels[0] if levels else ()
        columns = {name: [one[name] for one in levels] for name in names}
        judged = self.ways[way]
        return DriftTest(kind, [*known], [*known.values()], columns, is_drift, judged)

    def as_json(self) -> Json:
        """Return the figures of the steps, the tests, and what drifts, as JSON."""
        numbers = [one.number for one in self.steps]
        evidence = iter(self.evidence)
        return {
            "step_from": self.origin,
            "false_alarms": self.false_alarms,
            "needed": self.needed,
            "slopes": self.slopes,
            "tests": [
                {
                    "kind": one.kind,
                    "judged": one.judged,
                    "steps": len(one.steps),
                    "evidence": next(evidence) if one.runs else None,
                }
                for one in self.tests
            ],
            "drift": [
                {
                    "kind": one.kind,
                    "judged": one.judged,
                    "step": numbers[one.at],
                    "since": numbers[one.since],
                    "levels": one.levels,
                }
                for one in self.drifts
            ],
            "steps": [self._step_as_json(one) for one in self.steps],
        }

    def _step_as_json(self, step: TrendStep) -> Json:
        gaps = {
            kind: _as_json(step.figures.pairs[kind].gap(slope))
            for kind, slope in self.slopes.items()
        }
        return {
            "step": step.number,
            "source": step.source,
            "reason": step.reason,
            "differs": step.differs,
            **step.figures.json,
            "ways": [
                {"name": name, "mean": score["mean"], "groups": own["groups"]["all"]}
                for way, name in self.ways.items()
                if name and way in step.ways
                for own in [step.ways[way].json]
                if (score := own["score"])
            ],
            "gaps": gaps,
        }


def _named_ways(ways: Sequence[Way]) -> dict[Way, str]:
    """Name ways by what differs between them; one alone, or none that is known, has no name."""
    if len(ways) < 2:
        return dict.fromkeys(ways or [Way()], "")
    columns = zip(Way._fields, zip(*ways, strict=True), strict=True)
    differ = [name for name, column in columns if len({*column} - {""}) > 1]
    return {
        one: ", ".join(
            value if name == "judge" else f"{name} {value}"
            for name, value in one._asdict().items()
            if name in differ or not differ
        )
        for one in ways
    }


_GAP = ("score", "label")
_RULES: Mapping[DriftKind, Callable[[Levels], bool]] = {
    "length": lambda levels: abs(levels["score"][1]) > abs(levels["score"][0]),
    "spread": lambda levels: levels["spread"][1] < levels["spread"][0],
    "suspects": lambda levels: levels["groups"][1] > levels["groups"][0],
    "unscored": lambda levels: levels["groups"][1] > levels["groups"][0],
}
"""Rules of the tests that need nothing else: the shift is a drift."""


def step_numbers(
    names: Sequence[str], fields: Sequence[float | None] = ()
) -> tuple[Sequence[float], StepOrigin]:
    """Return the number of each file's step, and its source.

    It is the only number in which the `names` differ, else what the records say (`fields`), else the place of the file.
    """
    for pattern in _NUMBERS:
        parts = [pattern.split(name) for name in names]
        if len({tuple(one[::2]) for one in parts}) > 1:
            continue
        columns = [column for column in zip(*parts, strict=True) if len({*column}) > 1]
        if len(columns) == 1 and max(map(len, columns[0])) <= _LONGEST_NUMBER:
            numbers = [float(one) if "." in one else int(one) for one in columns[0]]
            if len({*numbers}) == len(names):
                return numbers, "name"
    known = [one for one in fields if one is not None]
    if len({*known}) == len(names):
        return known, "field"
    return range(1, len(names) + 1), "order"


def step_of(record: Json) -> float | None:
    """Return the step that a record names, itself or in its metadata; None if it names none."""
    metadata = record.get("metadata")
    for place in (record, metadata if isinstance(metadata, dict) else {}):
        for name in _STEP_FIELDS:
            value: Any = place.get(name)
            # a truth value is none
            if type(value) in (int, float) and abs(value) < 10**_LONGEST_NUMBER:
                whole = value == int(value)
                return int(value) if whole else float(value)
    return None
