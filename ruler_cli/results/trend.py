"""Scored files of the steps of a training → figures of each step, and what drifts over the steps.

The figures are one JSON object, which `ruler trend A B C` prints as JSON and the page embeds: docs/output.md describes
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import (
    Callable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from math import log, sqrt
from statistics import fmean, median
from typing import (
    Any,
    Literal,
    NamedTuple,
)

from ruler_cli.results.figures import (
    WAYS,
    FileFigures,
    ScoredFile,
)
from ruler_cli.results.identity import digests_of
from ruler_cli.results.record import Json
from ruler_cli.scoring.drift import (
    BEFORE,
    LEAST,
    rises,
)
from ruler_cli.types import ENDINGS

FALSE_ALARMS = 0.05
"""Share of reports without any drift that name one, at most, if noise is as assumed (see `scoring.drift`).

Each of the tests has an equal part of it.
"""
_FLAT = 3
"""A label that moves by less than a third of what the score does, both in their standard deviations, is flat."""
_UNLIKE = 0.05
"""The share of a step's groups that are judged otherwise than in the first step, beyond which no test counts it."""
_RUBRICS = 3
"""Rubrics of a step that are compared with those of the first; more are rubrics of single tasks."""
_JUDGED_BY = ("judge", "served", "rubric", "parameters")
"""The things that make scores and that are compared."""
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LONGEST_NUMBER = 15
"""Digits of a step; a longer number is a time or an id."""

DriftKind = Literal["label", "held_out", "length", "size"]
"""The tests: the score rises and the label, or the held-out judge, does not; the score follows length; length rises."""
StepOrigin = Literal["name", "order"]
"""The source of the numbers of steps: the names of the files, or their order."""
Panel = tuple[Any, ...]
"""The names of the training judge and the held-out one; empty without two judges."""
_Means = Sequence[float]
"""The means of a step that a test looks at: of the score and of what explains it, or the size of a correlation."""


@dataclass
class TrendStep:
    """A file of a trend: its name, the number of its step, and its figures.

    `reason` says why it has no scores. `content` is the same number for files of the same rollouts in any order,
    `same_as` is the step before it that holds the same. `differs` says what made its scores differently from those of
    the first step, `unlike` in how many groups.
    """

    source: str
    step: float
    reason: str = ""
    file: FileFigures = field(default_factory=FileFigures)
    content: int = 0
    same_as: float | None = None
    differs: str = ""
    unlike: int = 0

    def read(
        self,
        file: ScoredFile,
        update: Callable[[], object],
    ) -> None:
        """Read the groups of a file, with an `update` after each."""
        self.file = file.figures
        for _, group, scored in file.groups():
            scores = [rollout.judge_score for rollout in scored.rollouts]
            rollouts = zip(
                digests_of(group, scored),
                scores,
                strict=True,
            )
            self.content += hash(frozenset(rollouts))
            update()
        if not self.file.groups["scored"]:
            kinds = self.file.words["kind"].listed().items()
            failed = ", ".join(f"{number} {kind}" for kind, number in kinds)
            self.reason = f"no rollout has a score; failed groups: {failed}"

    def compare(self, first: TrendStep) -> None:
        """Name what made scores differently from those of the first step, and those of how many groups."""
        unlike = {}
        for way in _JUDGED_BY:
            usual = first.file.words[way]
            counts = self.file.words[way]
            new = counts.total() - sum(counts[word] for word in usual)
            of_tasks = way == "rubric" and len(counts) > _RUBRICS
            if usual and new and not of_tasks:
                unlike[way] = new
        if "judge" in unlike:
            # their digest is of the judges' names, too
            unlike.pop("parameters", None)
        self.unlike = max(unlike.values(), default=0)
        self.differs = ", ".join([WAYS[way] for way in unlike])
        every = self.file.groups["all"]
        if 0 < self.unlike < every:
            self.differs += f" in {self.unlike} of {every} groups"

    def means(
        self,
        kind: DriftKind,
        panel: Panel,
    ) -> tuple[_Means, Mapping[str, float]]:
        """Return the means that a test looks at, empty without them, and their products within groups."""
        sums = self.file.sums
        if kind == "length":
            trend = sums.lengths.trend()
            return [abs(trend.correlation)] if trend else [], {}
        if kind == "size":
            written = sums.means["bytes"]
            return [written.mean] if written.number else [], {}
        moments = [sums.means["score"], sums.means["label"]]
        products = sums.by_label
        if kind == "held_out":
            moments = [sums.judges[judge] for judge in panel]
            products = sums.by_judges.get(panel, Counter())
        if not moments or not all(moment.number for moment in moments):
            return [], {}
        return [moment.mean for moment in moments], products

    def as_json(self) -> Json:
        """Return it as JSON."""
        figures = self.file.figures(lambda _: {})
        sums = self.file.sums
        means: Json = {}
        for name in ("score", "label", "bytes"):
            moment = sums.means[name]
            means[name] = {"mean": moment.mean} if moment.number else None
        judges = [
            {
                "name": judge,
                "mean": moment.mean,
            }
            for judge, moment in sums.judges.items()
            if moment.number
        ]
        endings = {name: self.file.rollouts[name] for name in ENDINGS}
        return {
            "step": self.step,
            "source": self.source,
            "reason": self.reason,
            "same_as": self.same_as,
            "differs": self.differs,
            **means,
            "groups": figures["groups"],
            "rollouts": figures["rollouts"] | endings,
            "criteria": figures["criteria"],
            "spread": {"median": figures["spread"]["median"]},
            "against_label": {
                "accuracy": figures["against_label"]["agreement"],
            },
            "with_length": {"score": figures["lengths"]["correlation"]},
            "judges": judges,
        }


class Drift(NamedTuple):
    """A rise that a test looks for.

    `step` is the first step at which it is beyond chance, `since` that of its likely onset. The `levels` of score and
    label, or of the correlation, are means before the onset, and from there to `step`.
    """

    kind: DriftKind
    step: float
    since: float
    levels: Mapping[str, tuple[float, float]]


class DriftTest:
    """A test: a number of each step that has one, in `values` by the number of the step.

    The number is the mean score less the slope times the mean label (or the mean of the held-out judge). The slope
    is that of the score on the label within the groups of the first steps, so a policy that improves moves both, and
    not the number. Of `length` it is the size of the correlation with the score, of `size` the mean of bytes.
    """

    def __init__(
        self,
        kind: DriftKind,
        steps: Sequence[TrendStep],
        panel: Panel,
    ) -> None:
        self.kind = kind
        self._steps: list[TrendStep] = []
        self._means: list[_Means] = []
        totals = Counter[str]()
        for step in steps:
            means, products = step.means(kind, panel)
            if not means:
                continue
            if len(self._steps) < BEFORE:
                totals.update(products)
            self._steps.append(step)
            self._means.append(means)
        self._deviations = (sqrt(totals["aa"]), sqrt(totals["bb"]))
        slope = 0.0
        if totals["bb"]:
            slope = max(0.0, totals["ab"] / totals["bb"])
        self.values: dict[float, float] = {}
        for step, means in zip(
            self._steps,
            self._means,
            strict=True,
        ):
            self.values[step.step] = means[0] - slope * means[-1]
        self.runs = len(self.values) >= LEAST

    def drift(self, needed: float) -> Drift | None:
        """Return the first drift with the `needed` evidence."""
        groups = [step.file.sums.counts["groups"] for step in self._steps]
        usual = median(groups[:LEAST])
        score_deviation, label_deviation = self._deviations
        weights = [min(1.0, number / usual) for number in groups]
        for rise in rises([*self.values.values()], weights):
            if rise.evidence < needed:
                continue
            levels = []
            for column in zip(*self._means, strict=True):
                before = fmean(column[: rise.since])
                levels.append((before, fmean(column[rise.since : rise.end])))
            moved = [after - before for before, after in levels]
            label_moved = moved[-1] * score_deviation
            if label_moved * _FLAT <= moved[0] * label_deviation:
                return Drift(
                    self.kind,
                    self._steps[rise.end - 1].step,
                    self._steps[rise.since].step,
                    dict(
                        zip(
                            ("score", "label"),
                            levels,
                            strict=False,
                        )
                    ),
                )
        return None


class Trend:
    """The steps of a training in their order, and what drifts.

    Tests count a step if nearly all of its groups were judged as those of the first step, and it does not hold the
    same as one before; `left_out` counts those that were judged otherwise. Of trainings in which nothing drifts at
    most the share FALSE_ALARMS has a drift here, if noise is as assumed.
    """

    def __init__(
        self,
        steps: Sequence[TrendStep],
        origin: StepOrigin = "order",
    ) -> None:
        self.steps = sorted(steps, key=lambda step: step.step)
        self.origin = origin
        self.panel: Panel = ()
        self.left_out = 0
        judged = [step for step in self.steps if not step.reason]
        counted = []
        first: dict[int, float] = {}
        kinds: list[DriftKind] = ["held_out", "length", "size"]
        for step in judged:
            step.compare(judged[0])
            same = first.setdefault(step.content, step.step)
            unlike = step.unlike > _UNLIKE * step.file.groups["all"]
            self.left_out += unlike
            if step.content and same != step.step:
                step.same_as = same
            elif not unlike:
                counted.append(step)
            sums = step.file.sums
            self.panel = self.panel or next(iter(sums.by_judges), ())
            if sums.means["label"].number:
                kinds[0] = "label"
        tests = [
            DriftTest(
                kind,
                counted,
                self.panel,
            )
            for kind in kinds
        ]
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
            row = {
                "kind": test.kind,
                "steps": len(test.values),
                "values": values,
            }
            tests.append(row)
        return {
            "step_from": self.origin,
            "false_alarms": FALSE_ALARMS,
            "tests": tests,
            "drift": [drift._asdict() for drift in self.drifts],
            "steps": [step.as_json() for step in self.steps],
        }


def step_numbers(names: Sequence[str]) -> tuple[Sequence[float], StepOrigin]:
    """Return the number of each file's step: the last one in its name that differs in all, else its place."""
    by_name = [_NUMBER.findall(name)[::-1] for name in names]
    for texts in zip(*by_name, strict=False):
        if max(map(len, texts)) <= _LONGEST_NUMBER:
            numbers = [
                float(text) if "." in text else int(text) for text in texts
            ]
            if len({*numbers}) == len(names):
                return numbers, "name"
    return range(1, len(names) + 1), "order"
