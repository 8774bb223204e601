"""Scored files of the steps of a training → figures of each step, and what drifts over the steps.

The figures are one JSON object, which `ruler report A B C` prints as JSON and the page embeds: docs/json.md describes
it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import log, log2, sqrt
from operator import sub
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from ruler_cli.ledger.database import digest_of
from ruler_cli.results.annotations import Json, ScoredGroup
from ruler_cli.results.figures import FiguresBuilder, ScoredFile
from ruler_cli.results.identity import digests_of
from ruler_cli.scoring.drift import BEFORE, LEAST, rises
from ruler_cli.scoring.statistics import Moments, correlation, products
from ruler_cli.types import ENDINGS, rubric_text

FALSE_ALARMS = 0.05
"""Share of reports without any drift that name one, at most, if noise is as assumed (see `scoring.drift`).

Each of the tests has an equal part of it.
"""
_FLAT = 3
"""A label that moves by less than a third of what the score does, both in their standard deviations, is flat."""
_WAYS = 6
"""Ways to judge that are told apart, the commonest ones."""
_STEP_FIELDS = ("step", "global_step")
_NUMBERS = (re.compile(r"([0-9]+(?:\.[0-9]+)?)"), re.compile("([0-9]+)"))
"""Numbers in a name: with decimals, or where these do not tell names apart, without."""
_LONGEST_NUMBER = 15
"""Digits of a step; a longer number is a time or an id."""

DriftKind = Literal["label", "held_out", "length"]
"""The tests: the score rises and the label does not, or the held-out judge does not; the score follows length."""
StepOrigin = Literal["name", "field", "order"]
"""The source of the numbers of steps: the names of the files, a field of their records, the order of the files."""


Way = tuple[str, str, str, str]
"""The way in which a group was judged: judge, models that answered, and digests of rubric and parameters."""
_WAY = ("judge", "served model", "rubric", "parameters")


class Ways:
    """Tells in which way each group of a training was judged.

    Rubrics of single tasks are one way, as long as each task keeps its own. `panel` has the names of the training judge
    and the held-out one, once they are known.
    """

    def __init__(self) -> None:
        self.panel: list[str] = []
        self._tasks: dict[str, str] = {}
        self._rubrics: dict[str, str] = {}
        self._latest: Way = ("", "", "", "")
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
        if group.status == "scored":
            way = (group.judge, ", ".join(group.served), *asked)
            self._latest = self._served[asked] = way
        return self._served.get(asked, self._latest)


class Pairs(NamedTuple):
    """Two values of rollouts, such as score and label: their means, and the sums of products of the centred values.

    Of a `length` it is the size of the correlation alone.
    """

    means: tuple[float, ...]
    products: Mapping[str, float]


class TrendStep:
    """A file of a trend: its name, the number of its step, and the figures of the run.

    `ways` has its groups by the way in which they were judged, `means` those of all. `recorded` is the step that its
    records name, `content` the same number for files of the same rollouts in any order. `reason` says why it has no
    scores, `same_as` is the step before it that holds the same, `differs` what made its scores differently from those
    of the step before, in words.
    """

    def __init__(self, source: str, step: float, reason: str = "") -> None:
        self.source = source
        self.step = step
        self.reason = reason
        self.figures = FiguresBuilder().figures(lambda _: {})
        self.ways: dict[Way, JudgedGroups] = {}
        self.means: defaultdict[str, Moments] = defaultdict(Moments)
        self.judges: defaultdict[str, Moments] = defaultdict(Moments)
        self.recorded: float | None = None
        self.content = 0
        self.same_as: float | None = None
        self.differs = ""

    def read(self, file: ScoredFile, ways: Ways, update: Callable[[], object]) -> None:
        """Read the groups of a file, with an `update` after each."""
        steps = set[float | None]()
        endings = Counter[str]()
        for _, group, scored in file.read():
            way = ways.of(scored, rubric_text(group.rubric or ""))
            self.ways.setdefault(way, JudgedGroups(self, ways.panel)).add(scored)
            scores = [one.judge_score for one in scored.rollouts]
            both = zip(digests_of(group, scored), scores, strict=True)
            self.content += hash(frozenset(both))
            steps.update(step_of(file.annotations.value(one)) for one in group.records)
            endings.update(one.ended for one in scored.rollouts)
            update()
        for judged in self.ways.values():
            judged.close()
        self.recorded = steps.pop() if len(steps) == 1 else None
        self.figures = file.figures.figures(lambda _: {})
        self.figures["rollouts"] |= {name: endings[name] for name in ENDINGS}
        if not self.figures["groups"]["scored"]:
            kinds = self.figures["failed_by_kind"].items()
            failed = ", ".join(f"{number} {kind}" for kind, number in kinds)
            self.reason = "no rollout has an annotation of ruler"
            if failed:
                self.reason = f"no rollout has a score; failed groups: {failed}"

    def as_json(self, names: Mapping[Way, str]) -> Json:
        """Return it as JSON; `names` are those of the ways."""
        figures = self.figures
        ways = {
            names[way]: one.score for way, one in self.ways.items() if names.get(way)
        }
        means = {
            name: {"mean": one.mean} for name, one in self.means.items() if one.number
        }
        return {
            **{name: getattr(self, name) for name in _TEXTS},
            **{name: means.get(name) for name in _MEANS},
            **{name: figures[name] for name in ("groups", "rollouts", "criteria")},
            "spread": {"median": figures["spread"]["median"]},
            "against_label": {"accuracy": figures["against_label"]["agreement"]},
            "with_length": {"score": figures["lengths"]["correlation"]},
            "ways": _listed(ways),
            "judges": _listed(self.judges),
        }


_TEXTS = ("step", "source", "reason", "same_as", "differs")
_MEANS = ("score", "label", "bytes")


def _listed(means: Mapping[str, Moments]) -> list[Json]:
    return [{"name": name, "mean": one.mean} for name, one in means.items()]


class JudgedGroups:
    """Groups of a `step` that were judged in one way, and what the tests look at; `panel` is that of the `Ways`.

    Scores are the judges' own.
    """

    def __init__(self, step: TrendStep, panel: list[str]) -> None:
        self._step = step
        self._panel = panel
        self._rows: dict[DriftKind, list[tuple[float, float]]]
        self._rows = {"label": [], "held_out": []}
        self._by_length = Counter[str]()
        self.groups = 0
        self.score = Moments()
        self.pairs: dict[DriftKind, Pairs] = {}

    def add(self, group: ScoredGroup) -> None:
        """Count the next group, in the means of the step, too."""
        self.groups += 1
        means = self._step.means
        means["bytes"].add(one.size for one in group.rollouts)
        scored = [
            (r, r.judge_score) for r in group.rollouts if r.judge_score is not None
        ]
        for rollout, score in scored:
            means["score"].add([score])
            self.score.add([score])
            if rollout.label is not None:
                means["label"].add([rollout.label])
                self._rows["label"].append((score, rollout.label))
            judges = rollout.judges
            for name, value in judges.items():
                self._step.judges[name].add([value])
            if len(judges) == 2:
                self._panel[:] = self._panel or judges
            if judges.keys() == {*self._panel} and judges:
                first, second = (judges[name] for name in self._panel)
                self._rows["held_out"].append((first, second))
        rows = [(score, log2(max(r.size, 1))) for r, score in scored]
        self._by_length.update(products("ab", rows))

    def close(self) -> None:
        """Sum up, after the last group."""
        for kind, rows in self._rows.items():
            if rows:
                a, b = zip(*rows, strict=True)
                self.pairs[kind] = Pairs((fmean(a), fmean(b)), products("ab", rows))
        self._rows.clear()
        by_length = correlation(self._by_length)
        if by_length is not None:
            self.pairs["length"] = Pairs((abs(by_length),), {})


class Drift(NamedTuple):
    """A rise that a test looks for.

    `step` is the first step at which it is beyond chance, `since` that of its likely onset. The `levels` of score and
    label, or of the correlation, are means before the onset, and from there to `step`. `judged` names the way in which
    its groups were judged, if there are several. `slope` is that of the score on the label.
    """

    kind: DriftKind
    judged: str
    step: float
    since: float
    levels: Mapping[str, tuple[float, float]]
    slope: float


class DriftTest:
    """A test of the groups that were judged in one way: a number of each step that has one.

    The number is the mean score less the `slope` times the mean label (or the mean of the held-out judge). The slope
    is that of the score on the label among the rollouts of the first steps, so a policy that improves moves both, and
    not the number. Of `length` it is the size of the correlation with the score.
    """

    def __init__(
        self, kind: DriftKind, judged: str, steps: Mapping[float, JudgedGroups]
    ) -> None:
        self.kind: DriftKind = kind
        self.judged = judged
        self._steps = {n: one for n, one in steps.items() if kind in one.pairs}
        pairs = [one.pairs[kind] for one in self._steps.values()]
        sums = Counter[str]()
        for one in pairs[:BEFORE]:
            sums.update(one.products)
        self._slope = max(0.0, sums["ab"] / sums["bb"]) if sums["bb"] else 0.0
        self._deviations = sqrt(sums["aa"]), sqrt(sums["bb"])
        self._means = [one.means for one in pairs]
        numbers = [one[0] - self._slope * one[-1] for one in self._means]
        self.values = dict(zip(self._steps, numbers, strict=True))
        self.runs = len(pairs) >= LEAST

    def drift(self, needed: float) -> Drift | None:
        """Return the first drift with the `needed` evidence."""
        steps = [*self._steps]
        groups = [one.groups for one in self._steps.values()]
        usual = median(groups[:LEAST])
        weights = [min(1.0, number / usual) for number in groups]
        a, b = self._deviations
        for rise in rises([*self.values.values()], weights):
            parts = self._means[: rise.since], self._means[rise.since : rise.end]
            before, after = ([*map(fmean, zip(*part, strict=True))] for part in parts)
            moved = [*map(sub, after, before)]
            if rise.evidence >= needed and moved[-1] * a * _FLAT <= moved[0] * b:
                levels = zip(before, after, strict=True)
                at, since = steps[rise.end - 1], steps[rise.since]
                named = dict(zip(("score", "label"), levels, strict=False))
                return Drift(self.kind, self.judged, at, since, named, self._slope)
        return None


class Trend:
    """The steps of a training in their order, and what drifts; `panel` are the training judge and the held-out one.

    Groups that were judged in another way are a series of their own, so no test runs across a change of the judge.
    Of trainings in which nothing drifts at most the share FALSE_ALARMS has a drift here, if noise is as assumed.
    """

    def __init__(
        self,
        steps: Sequence[TrendStep],
        origin: StepOrigin = "order",
        panel: Sequence[str] = (),
    ) -> None:
        self.steps = sorted(steps, key=lambda one: one.step)
        self.origin = origin
        self.panel = panel
        _compare([one for one in self.steps if not one.reason])
        groups = Counter[Way]()
        judged: defaultdict[Way, dict[float, JudgedGroups]] = defaultdict(dict)
        for step in self.steps:
            for way, one in step.ways.items():
                if one.score.number:
                    groups[way] += one.groups
                if step.same_as is None:
                    judged[way][step.step] = one
        self.ways = _named_ways([way for way, _ in groups.most_common(_WAYS)])
        """The commonest ways in which groups were judged, the most frequent first, and their names."""
        labelled = any(one.means["label"].number for one in self.steps)
        kinds: list[DriftKind] = ["label" if labelled else "held_out", "length"]
        tests = [
            DriftTest(kind, name, judged[way])
            for way, name in self.ways.items()
            for kind in kinds
        ]
        self.tests = [one for one in tests if one.values]
        running = [one for one in tests if one.runs]
        needed = log(max(1, len(running)) / FALSE_ALARMS)
        self.drifts = [*filter(None, (one.drift(needed) for one in running))]

    def as_json(self) -> Json:
        """Return the figures of the steps, the tests, and what drifts, as JSON."""
        tests = [
            {
                "kind": one.kind,
                "judged": one.judged,
                "steps": len(one.values),
                "values": [one.values.get(step.step) for step in self.steps],
            }
            for one in self.tests
        ]
        return {
            "step_from": self.origin,
            "false_alarms": FALSE_ALARMS,
            "tests": tests,
            "drift": [one._asdict() for one in self.drifts],
            "steps": [one.as_json(self.ways) for one in self.steps],
        }


def _compare(steps: list[TrendStep]) -> None:
    """Compare each step with those before it: files that are the same, and what made scores differently."""
    first: dict[int, float] = {}
    for before, step in pairwise(steps[:1] + steps):
        same = first.setdefault(step.content, step.step)
        if step.content and same != step.step:
            step.same_as = same
        step.differs = _changes(before.ways, step.ways)


def _changes(
    before: Mapping[Way, JudgedGroups], after: Mapping[Way, JudgedGroups]
) -> str:
    """Name what made scores differently from those of the step before, and those of how many groups."""
    usual = max(before, key=lambda way: before[way].groups)
    news = after.keys() - before.keys()
    columns = zip(_WAY, usual, *news, strict=True)
    names = [name for name, *values in columns if len({*filter(None, values)}) > 1]
    if "judge" in names and "parameters" in names:
        names.remove("parameters")  # their digest is of the judges' names, too
    groups = sum(after[way].groups for way in news)
    every = sum(one.groups for one in after.values())
    part = f" in {groups} of {every} groups" if names and groups < every else ""
    return ", ".join(names) + part


def _named_ways(ways: Sequence[Way]) -> dict[Way, str]:
    """Name ways by what differs between them; one alone has no name."""
    differ = [len({*column}) > 1 for column in zip(*ways, strict=True)]
    named = {}
    for way in ways:
        parts = zip(("", *_WAY[1:]), way, differ, strict=True)
        texts = [
            f"{name} {value or 'unknown'}".lstrip()
            for name, value, told in parts
            if told
        ]
        named[way] = ", ".join(texts)
    return named


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
