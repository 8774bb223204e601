"""False alarms and delay of the drift tests, on simulated trainings with and without a planted onset.

    python -m benchmarks.drift [--quick]
    python -m benchmarks.drift --markdown     print the tables of benchmarks/README.md

A training has 30 or 60 steps of 32 groups of 8 rollouts. A rollout succeeds by the level of the policy and the
difficulty of its task. Two judges see success and quality, each with noise of its own, in each rollout, group and step.
Half of the trainings are of each length. A drift begins after a third of the steps and grows from step to step.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.results import Result, alone
from ruler_cli.results.annotations import AnnotationStatus, ScoredGroup, ScoredRollout
from ruler_cli.results.trend import (
    FALSE_ALARMS,
    Drift,
    DriftKind,
    StepBuilder,
    StepFigures,
    Trend,
    TrendStep,
)

LENGTHS = (30, 60)
GROUPS, SIZE = 32, 8
RUNS, QUICK_RUNS = 200, 10
RATES = (FALSE_ALARMS, 0.01, 0.2)
"""Stated rates of false alarms: that of reports, and others, to see the price of each in steps of delay."""


@dataclass(frozen=True)
class World:
    """A training; what a drift adds is by the number of steps since its onset, 0 before."""

    improves: bool = False
    longer: bool = False
    correlation: float = 0.0
    both_judges: float = 0.0
    first_judge: float = 0.0
    by_length: float = 0.0
    narrower: float = 0.0
    suspects: float = 0.0
    unscored: float = 0.0


NONE = {
    "nothing changes": World(),
    "the policy improves: success from 35 % to 75 %": World(improves=True),
    "answers grow to four times their length": World(longer=True),
    "steps follow one another, correlation 0.5": World(correlation=0.5),
    "all of these": World(improves=True, longer=True, correlation=0.5),
}
"""Trainings without a drift."""
CASES: tuple[tuple[World, Mapping[DriftKind, str]], ...] = (
    (
        World(both_judges=0.01, suspects=0.002, unscored=0.01),
        {
            "label": "score + 0.01 a step",
            "suspects": "suspect rollouts + 0.2 % a step",
            "unscored": "groups without scores + 1 % a step",
        },
    ),
    (
        World(both_judges=0.03, suspects=0.01, unscored=0.05),
        {
            "label": "score + 0.03 a step",
            "suspects": "suspect rollouts + 1 % a step",
            "unscored": "groups without scores + 5 % a step",
        },
    ),
    (
        World(first_judge=0.01, narrower=0.03),
        {
            "held_out": "score of one of two judges + 0.01 a step",
            "spread": "spread within groups - 3 % a step",
        },
    ),
    (
        World(first_judge=0.03, narrower=0.1),
        {
            "held_out": "score of one of two judges + 0.03 a step",
            "spread": "spread within groups - 10 % a step",
        },
    ),
    (
        World(by_length=0.005),
        {"length": "score of a standard deviation of length + 0.005 a step"},
    ),
    (
        World(by_length=0.02),
        {"length": "score of a standard deviation of length + 0.02 a step"},
    ),
)
"""Trainings with drifts, and their tests in words; drifts of one training do not touch one another's tests."""


class Noise:
    """Normal noise that follows itself from step to step."""

    def __init__(self, dice: random.Random, sd: float, correlation: float) -> None:
        self._dice, self._sd, self._correlation = dice, sd, correlation
        self._last = dice.gauss(0, 1)

    def next(self) -> float:
        """Return the noise of the next step."""
        own = math.sqrt(1 - self._correlation**2) * self._dice.gauss(0, 1)
        self._last = self._correlation * self._last + own
        return self._sd * self._last


def training(world: World, seed: int, steps: int) -> list[TrendStep]:
    """Simulate the steps of a training."""
    dice = random.Random(seed)
    onset = steps // 3
    tasks = Noise(dice, 0.3, world.correlation)
    judges = [Noise(dice, 0.012, world.correlation) for _ in range(2)]
    made = []
    for step in range(steps):
        share = step / (steps - 1)
        figures = _step(
            world,
            dice,
            level=-0.8 + 2.2 * share * world.improves + tasks.next(),
            since=max(0, step - onset + 1),
            judged=[noise.next() for noise in judges],
            length=6 + math.log(4) * share * world.longer,
        )
        made.append(TrendStep(step, "", figures))
    return made


def _step(
    world: World,
    dice: random.Random,
    *,
    level: float,
    since: int,
    judged: list[float],
    length: float,
) -> StepFigures:
    builder = StepBuilder()
    added = min(0.3, since * world.both_judges)
    first = min(0.3, since * world.first_judge)
    by_length = 0.01 + min(0.15, since * world.by_length)
    spread = max(0.2, (1 - world.narrower) ** since)
    suspects = 0.002 + min(0.3, since * world.suspects)
    unscored = 0.02 + min(0.5, since * world.unscored)
    for _ in range(GROUPS):
        quality = level + dice.gauss(0, 1)
        success = 1 / (1 + math.exp(-quality))
        middle = 0.35 + 0.03 * quality + dice.gauss(0, 0.05)
        failed = dice.random() < unscored
        rollouts = []
        for _ in range(SIZE):
            label = float(dice.random() < success)
            longer = dice.gauss(0, 1)
            own = 0.25 * label + by_length * longer
            base = middle + 0.25 * success + spread * (own - 0.25 * success)
            scores = [
                base + noise + more + spread * dice.gauss(0, 0.15)
                for noise, more in zip(judged, (added + first, added), strict=True)
            ]
            rollout = ScoredRollout(
                indices=(),
                status="scored",
                score=sum(scores) / 2,
                judge_score=sum(scores) / 2,
                label=label,
                judges=dict(zip("ab", scores, strict=True)),
                size=round(math.exp(length + 0.4 * longer)),
                suspect=dice.random() < suspects,
            )
            if failed:
                rollout = replace(
                    rollout, status="failed", score=None, judge_score=None
                )
            rollouts.append(rollout)
        status: AnnotationStatus = "failed" if failed else "scored"
        builder.add(ScoredGroup("", tuple(rollouts), status), [1] * SIZE)
    return builder.figures()


class Alarms(NamedTuple):
    """The index of the onset of a training, and the drifts that its report names at each of RATES."""

    onset: int
    drifts: Mapping[float, list[Drift]]


def alarms(world: World, seed: int) -> Alarms:
    """Simulate a training, and make its report at each of RATES."""
    length = LENGTHS[seed % len(LENGTHS)]
    steps = training(world, seed, length)
    drifts = {rate: Trend(steps, "order", rate).drifts for rate in RATES}
    return Alarms(length // 3, drifts)


Mapped = Callable[[World], list[Alarms]]


def _none(mapped: Mapped) -> Iterator[tuple[str, dict[float, int], int]]:
    """Yield for each kind of training without a drift the reports that name one at each rate, of how many."""
    for words, world in NONE.items():
        found = mapped(world)
        named = {rate: sum(bool(one.drifts[rate]) for one in found) for rate in RATES}
        yield words, named, len(found)


class Delay(NamedTuple):
    """Shares of trainings in which a drift was found, and steps from its onset on; None: it was not."""

    words: str
    early: float
    found: float
    median: int | None
    late: int | None

    @classmethod
    def of(
        cls, words: str, onsets: Sequence[int], found: Sequence[int | None]
    ) -> Delay:
        """Measure the steps from the onset of each training to the one at which the drift was found."""
        delays = []
        for onset, at in zip(onsets, found, strict=True):
            if at is None or at >= onset:
                delays.append(math.inf if at is None else at - onset + 1)
        delays.sort()
        shares = [math.ceil(share * len(delays)) - 1 for share in (0.5, 0.9)]
        steps = [None if math.isinf(delays[i]) else int(delays[i]) for i in shares]
        known = sum(map(math.isfinite, delays)) / len(delays)
        return cls(words, 1 - len(delays) / len(onsets), known, *steps)


def _delays(mapped: Mapped) -> Iterator[dict[float, Delay]]:
    """Yield for each drift its delay at each rate."""
    for world, kinds in CASES:
        results = mapped(world)
        onsets = [one.onset for one in results]
        for kind, words in kinds.items():
            yield {
                rate: Delay.of(words, onsets, [_at(one, rate, kind) for one in results])
                for rate in RATES
            }


def _at(one: Alarms, rate: float, kind: DriftKind) -> int | None:
    """Return the index of the step at which a drift of this kind is named."""
    return {drift.kind: drift.at for drift in one.drifts[rate]}.get(kind)


def _pooled(runs: int, pool: ProcessPoolExecutor) -> Mapped:
    def mapped(world: World) -> list[Alarms]:
        return list(pool.map(alarms, [world] * runs, range(runs), chunksize=5))

    return mapped


def measure(_: Path, quick: bool) -> Iterator[Result]:
    """Count the false alarms, and measure the delays."""
    runs = QUICK_RUNS if quick else RUNS
    with ProcessPoolExecutor() as pool:
        mapped = _pooled(runs, pool)
        # a count that is beyond chance for the stated rate
        allowed = FALSE_ALARMS + 3 * math.sqrt(FALSE_ALARMS * (1 - FALSE_ALARMS) / runs)
        for words, named, number in _none(mapped):
            what = f"trend: reports with a false alarm, {words}"
            alarmed = named[FALSE_ALARMS]
            detail = f"{alarmed} of {number}"
            yield Result(None, what, alarmed / number, detail, "<=", allowed)
        for delays in _delays(mapped):
            delay = delays[FALSE_ALARMS]
            what = f"trend: drift found, {delay.words}"
            detail = f"steps of delay: {delay.median} median, {delay.late} in 90 %"
            yield Result(None, what, delay.found, detail)


def _markdown() -> None:
    def shown(value: int | None) -> str:
        return "–" if value is None else str(value)

    rates = sorted(RATES)
    stated = " | ".join(f"{rate:.0%}" for rate in rates)
    rule = " --- |" * len(rates)
    with ProcessPoolExecutor() as pool:
        mapped = _pooled(RUNS, pool)
        print(
            f"| training without a drift, reports that name one at a stated rate of | {stated} |"
        )
        print(f"| --- |{rule}")
        for words, named, number in _none(mapped):
            cells = [f"{named[rate]} of {number}" for rate in rates]
            print(f"| {words} | {' | '.join(cells)} |")
        print(
            "\nSteps of delay, the median and in 90 % of trainings, and what was found:\n"
        )
        print(f"| drift from its onset on, at a stated rate of | {stated} |")
        print(f"| --- |{rule}")
        early = 0.0
        for delays in _delays(mapped):
            cells = []
            for rate in rates:
                one = delays[rate]
                cells.append(f"{shown(one.median)}, {shown(one.late)}; {one.found:.0%}")
                early = max(early, one.early)
            print(f"| {delays[FALSE_ALARMS].words} | {' | '.join(cells)} |")
        print(
            f"\nBefore the onset the same test alarmed in at most {early:.1%} of the trainings of a cell."
        )


if __name__ == "__main__":
    if "--markdown" in sys.argv[1:]:
        _markdown()
    else:
        sys.exit(alone(measure))
