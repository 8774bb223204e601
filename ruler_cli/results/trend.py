"""Scored files of the steps of a training → figures of each step, and what drifts over the steps.

The figures are one JSON object, which `ruler report A B C` prints as JSON and the page embeds: docs/json.md describes
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import log, sqrt
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from ruler_cli.results.figures import FileFigures, ScoredFile
from ruler_cli.results.identity import digests_of
from ruler_cli.results.record import Json
from ruler_cli.scoring.drift import BEFORE, LEAST, rises
from ruler_cli.scoring.figures import Figures
from ruler_cli.types import ENDINGS

FALSE_ALARMS = 0.05
"""Share of reports without any drift that name one, at most, if noise is as assumed (see `scoring.drift`).

Each of the tests has an equal part of it.
"""
_FLAT = 3
"""A label that moves by less than a third of what the score does, both in their standard deviations, is flat."""
_ALIKE = 0.95
"""The share of a step's groups that are judged in the usual way, from which on tests count it."""
_RUBRICS = 3
"""Rubrics of a step that are compared with those of others; more are rubrics of single tasks."""
_STEP_FIELDS = ("step", "global_step")
_NUMBERS = (re.compile(r"([0-9]+(?:\.[0-9]+)?)"), re.compile("([0-9]+)"))
"""Numbers in a name: with decimals, or where these do not tell names apart, without."""
_LONGEST_NUMBER = 15
"""Digits of a step; a longer number is a time or an id."""

DriftKind = Literal["label", "held_out", "length"]
"""The tests: the score rises and the label does not, or the held-out judge does not; the score follows length."""
StepOrigin = Literal["name", "field", "order"]
"""The source of the numbers of steps: the names of the files, a field of their records, the order of the files."""
Panel = tuple[Any, ...]
"""The names of the training judge and the held-out one; empty without two judges."""
_WAYS = {
    "judge": "judges",
    "served model": "served",
    "rubric": "rubrics",
    "parameters": "params",
}
"""The things that make scores, with the names of their words."""
_TEXTS = ("step", "source", "reason", "same_as", "differs")


class TrendStep:
    """A file of a trend: its name, the number of its step, and its figures.

    `recorded` is the step that its records name, `content` the same number for files of the same rollouts in any order.
    `reason` says why it has no scores, `same_as` is the step before it that holds the same, `differs` what made its
    scores differently from those of the step before, in words.
    """

    def __init__(self, source: str, step: float, reason: str = "") -> None:
        self.source = source
        self.step = step
        self.reason = reason
        self.file = FileFigures()
        self.recorded: float | None = None
        self.content = 0
        self.same_as: float | None = None
        self.differs = ""

    @property
    def sums(self) -> Figures:
        """The sums over its groups with scores."""
        return self.file.sums

    def read(self, file: ScoredFile, update: Callable[[], object]) -> None:
        """Read the groups of a file, with an `update` after each."""
        self.file = file.figures
        steps = set[float | None]()
        for _, group, scored in file.read():
            scores = [rollout.judge_score for rollout in scored.rollouts]
            rollouts = zip(digests_of(group, scored), scores, strict=True)
            self.content += hash(frozenset(rollouts))
            for record in group.records:
                steps.add(step_of(file.annotations.value(record)))
            update()
        self.recorded = steps.pop() if len(steps) == 1 else None
        if not self.file.groups["scored"]:
            kinds = self.file.words["kinds"].listed().items()
            failed = ", ".join(f"{number} {kind}" for kind, number in kinds)
            self.reason = "no rollout has an annotation of ruler"
            if failed:
                self.reason = f"no rollout has a score; failed groups: {failed}"

    def ways(self) -> dict[str, Counter[str]]:
        """Count its groups by the words of each thing that makes scores; without rubrics of single tasks."""
        ways = {
            name: Counter(self.file.words[words])
            for name, words in _WAYS.items()
        }
        if len(ways["rubric"]) > _RUBRICS:
            del ways["rubric"]
        return ways

    def means(self, kind: DriftKind, panel: Panel) -> tuple[float, ...]:
        """Return the means that a test looks at; of a length the size of its correlation. Empty without them."""
        sums = self.sums
        if kind == "length":
            trend = sums.lengths.trend()
            return () if trend is None else (abs(trend.correlation),)
        means = [sums.means["score"], sums.means["label"]]
        if kind == "held_out":
            means = [sums.judges[name] for name in panel if name in sums.judges]
        counted = [mean.mean for mean in means if mean.number]
        return tuple(counted) if len(counted) == 2 else ()

    def products(self, kind: DriftKind, panel: Panel) -> Mapping[str, float]:
        """Return the products of these within groups."""
        if kind == "held_out":
            pair = self.sums.by_judges.get(panel, {})
            return pair.get("scores", Counter())
        return self.sums.by_label

    def as_json(self) -> Json:
        """Return it as JSON."""
        figures = self.file.figures(lambda _: {})
        step: Json = {name: getattr(self, name) for name in _TEXTS}
        for name in ("score", "label", "bytes"):
            mean = self.sums.means[name]
            step[name] = {"mean": mean.mean} if mean.number else None
        judges = self.sums.judges.items()
        endings = {name: self.file.rollouts[name] for name in ENDINGS}
        return {
            **step,
            "groups": figures["groups"],
            "rollouts": figures["rollouts"] | endings,
            "criteria": figures["criteria"],
            "spread": {"median": figures["spread"]["median"]},
            "against_label": {
                "accuracy": figures["against_label"]["agreement"]
            },
            "with_length": {"score": figures["lengths"]["correlation"]},
            "judges": [
                {"name": name, "mean": mean.mean} for name, mean in judges
            ],
        }


class Drift(NamedTuple):
    """A rise that a test looks for.

    `step` is the first step at which it is beyond chance, `since` that of its likely onset. The `levels` of score and
    label, or of the correlation, are means before the onset, and from there to `step`. `slope` is that of the score on
    the label.
    """

    kind: DriftKind
    step: float
    since: float
    levels: Mapping[str, tuple[float, float]]
    slope: float


class DriftTest:
    """A test: a number of each step that has one.

    The number is the mean score less the `slope` times the mean label (or the mean of the held-out judge). The slope
    is that of the score on the label within the groups of the first steps, so a policy that improves moves both, and
    not the number. Of `length` it is the size of the correlation with the score.
    """

    def __init__(
        self, kind: DriftKind, steps: Sequence[TrendStep], panel: Panel
    ) -> None:
        self.kind: DriftKind = kind
        self._steps = [step for step in steps if step.means(kind, panel)]
        self._means = [step.means(kind, panel) for step in self._steps]
        totals = Counter[str]()
        for step in self._steps[:BEFORE]:
            totals.update(step.products(kind, panel))
        slope = max(0.0, totals["ab"] / totals["bb"]) if totals["bb"] else 0.0
        self._slope = 0.0 if kind == "length" else slope
        self._deviations = sqrt(totals["aa"]), sqrt(totals["bb"])
        self.values: dict[float, float] = {}
        for step, means in zip(self._steps, self._means, strict=True):
            self.values[step.step] = means[0] - self._slope * means[-1]
        self.runs = len(self.values) >= LEAST

    def drift(self, needed: float) -> Drift | None:
        """Return the first drift with the `needed` evidence."""
        groups = [step.sums.counts["groups"] for step in self._steps]
        usual = median(groups[:LEAST])
        weights = [min(1.0, number / usual) for number in groups]
        score_deviation, label_deviation = self._deviations
        for rise in rises([*self.values.values()], weights):
            before = _levels(self._means[: rise.since])
            after = _levels(self._means[rise.since : rise.end])
            score_moved = (after[0] - before[0]) * label_deviation
            label_moved = (after[-1] - before[-1]) * score_deviation * _FLAT
            flat = self.kind == "length" or label_moved <= score_moved
            if rise.evidence >= needed and flat:
                levels = zip(before, after, strict=True)
                named = dict(zip(("score", "label"), levels, strict=False))
                steps = self._steps[rise.end - 1], self._steps[rise.since]
                at, since = (step.step for step in steps)
                return Drift(self.kind, at, since, named, self._slope)
        return None


def _levels(means: Sequence[tuple[float, ...]]) -> list[float]:
    return [fmean(column) for column in zip(*means, strict=True)]


class Trend:
    """The steps of a training in their order, and what drifts.

    Tests count a step if nearly all of its groups were judged in the usual way of the training, and it does not hold
    the same as one before. Of trainings in which nothing drifts at most the share FALSE_ALARMS has a drift here, if
    noise is as assumed.
    """

    def __init__(
        self, steps: Sequence[TrendStep], origin: StepOrigin = "order"
    ) -> None:
        self.steps = sorted(steps, key=lambda step: step.step)
        self.origin = origin
        judged = [step for step in self.steps if not step.reason]
        _compare(judged)
        panels = [step.sums.by_judges for step in judged if step.sums.by_judges]
        self.panel: Panel = next(iter(panels[0])) if panels else ()
        counted = _judged_alike(judged)
        self.left_out = len(judged) - len(counted)
        """Steps that were judged in another way, and that no test counts."""
        counted = [step for step in counted if step.same_as is None]
        labelled = any(step.sums.means["label"].number for step in judged)
        kinds: list[DriftKind] = ["label" if labelled else "held_out", "length"]
        tests = [DriftTest(kind, counted, self.panel) for kind in kinds]
        self.tests = [test for test in tests if test.values]
        running = [test for test in tests if test.runs]
        needed = log(max(1, len(running)) / FALSE_ALARMS)
        drifts = [test.drift(needed) for test in running]
        self.drifts = [drift for drift in drifts if drift is not None]

    def as_json(self) -> Json:
        """Return the figures of the steps, the tests, and what drifts, as JSON."""
        tests = []
        for test in self.tests:
            values = [test.values.get(step.step) for step in self.steps]
            tests.append(
                {"kind": test.kind, "steps": len(test.values), "values": values}
            )
        return {
            "step_from": self.origin,
            "false_alarms": FALSE_ALARMS,
            "tests": tests,
            "drift": [drift._asdict() for drift in self.drifts],
            "steps": [step.as_json() for step in self.steps],
        }


def _judged_alike(steps: Sequence[TrendStep]) -> list[TrendStep]:
    """Return the steps of which nearly all groups were judged in the commonest way of the training."""
    usual: dict[str, Counter[str]] = {}
    for step in steps:
        for name, words in step.ways().items():
            usual.setdefault(name, Counter()).update(words)
    alike = []
    for step in steps:
        shares = []
        for name, words in step.ways().items():
            if words:
                word = usual[name].most_common(1)[0][0]
                shares.append(words[word] / words.total())
        if min(shares, default=1.0) >= _ALIKE:
            alike.append(step)
    return alike


def _compare(steps: list[TrendStep]) -> None:
    """Compare each step with those before it: files that are the same, and what made scores differently."""
    first: dict[int, float] = {}
    for before, step in pairwise(steps[:1] + steps):
        same = first.setdefault(step.content, step.step)
        if step.content and same != step.step:
            step.same_as = same
        step.differs = _changes(before, step)


def _changes(before: TrendStep, after: TrendStep) -> str:
    """Name what made scores differently from those of the step before, and those of how many groups."""
    names = []
    groups = 0
    earlier = before.ways()
    for name, words in after.ways().items():
        usual = earlier.get(name, Counter())
        new = {
            word: number for word, number in words.items() if word not in usual
        }
        if usual and new:
            names.append(name)
            groups = max(groups, sum(new.values()))
    if "judge" in names and "parameters" in names:
        names.remove("parameters")  # their digest is of the judges' names, too
    every = after.file.groups["all"]
    part = f" in {groups} of {every} groups" if names and groups < every else ""
    return ", ".join(names) + part


def step_numbers(
    names: Sequence[str], fields: Sequence[float | None] = ()
) -> tuple[Sequence[float], StepOrigin]:
    """Return the number of each file's step, and its source.

    It is the only number in which the `names` differ, else what the records say (`fields`), else the place of the file.
    """
    for pattern in _NUMBERS:
        parts = [pattern.split(name) for name in names]
        if len({tuple(split[::2]) for split in parts}) > 1:
            continue
        columns = [
            column for column in zip(*parts, strict=True) if len({*column}) > 1
        ]
        if len(columns) == 1 and max(map(len, columns[0])) <= _LONGEST_NUMBER:
            numbers = [
                float(text) if "." in text else int(text) for text in columns[0]
            ]
            if len({*numbers}) == len(names):
                return numbers, "name"
    recorded = [step for step in fields if step is not None]
    if len({*recorded}) == len(names):
        return recorded, "field"
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
