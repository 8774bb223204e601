"""False alarms and delay of the drift tests, on simulated trainings with and without a planted onset.

    python -m benchmarks.drift [--quick]
    python -m benchmarks.drift --markdown     print the table of benchmarks/README.md

A training has 30 or 60 steps of 32 groups of 8 rollouts. A rollout succeeds by the level of the policy and the
difficulty of its task. Two judges see success and quality, each with noise of its own, in each rollout, group and step.
Half of the trainings are of each length. A drift begins after a third of the steps and grows from step to step.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.results import Result, alone
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.results.trend import (
    FALSE_ALARMS,
    Drift,
    DriftKind,
    Trend,
    TrendStep,
)

LENGTHS = (30, 60)
GROUPS, SIZE = 32, 8
RUNS, QUICK_RUNS = 200, 10


@dataclass(frozen=True)
class World:
    """A training; what a drift adds is by the number of steps since its onset, 0 before. `labels`: it has rewards.

    `noise` is the standard deviation of a judge's own level from step to step.
    """

    improves: bool = False
    longer: bool = False
    correlation: float = 0.0
    noise: float = 0.012
    labels: bool = True
    both_judges: float = 0.0
    first_judge: float = 0.0
    by_length: float = 0.0


NONE = {
    "nothing changes": World(),
    "nothing changes, a held-out judge and no rewards": World(labels=False),
    "the policy improves: success from 35 % to 75 %": World(improves=True),
    "answers grow to four times their length": World(longer=True),
    "steps follow one another, correlation 0.5": World(correlation=0.5),
    "all of these": World(improves=True, longer=True, correlation=0.5),
    "judges wander, correlation 0.5": World(correlation=0.5, noise=0.1),
    "judges wander, correlation 0.8": World(correlation=0.8, noise=0.1),
}
"""Trainings without a drift. Those whose judges wander are further from what the tests assume than they can stand."""
CASES: dict[str, tuple[DriftKind, World]] = {
    "score + 0.01 a step": ("label", World(both_judges=0.01)),
    "score + 0.03 a step": ("label", World(both_judges=0.03)),
    "score of one of two judges + 0.01 a step": (
        "held_out",
        World(labels=False, first_judge=0.01),
    ),
    "score of one of two judges + 0.03 a step": (
        "held_out",
        World(labels=False, first_judge=0.03),
    ),
    "score of a standard deviation of length + 0.005 a step": (
        "length",
        World(by_length=0.005),
    ),
    "score of a standard deviation of length + 0.02 a step": (
        "length",
        World(by_length=0.02),
    ),
}
"""Trainings with a drift, and the test that looks for it."""


class Noise:
    """Normal noise that follows itself from step to step."""

    def __init__(
        self, dice: random.Random, sd: float, correlation: float
    ) -> None:
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
    judges = [Noise(dice, world.noise, world.correlation) for _ in range(2)]
    made = []
    for step in range(steps):
        share = step / (steps - 1)
        made.append(TrendStep("", step))
        _add_groups(
            made[-1],
            world,
            dice,
            level=-0.8 + 2.2 * share * world.improves + tasks.next(),
            since=max(0, step - onset + 1),
            judged=[noise.next() for noise in judges],
            length=6 + math.log(4) * share * world.longer,
        )
    return made


def _add_groups(
    step: TrendStep,
    world: World,
    dice: random.Random,
    *,
    level: float,
    since: int,
    judged: list[float],
    length: float,
) -> None:
    added = min(0.3, since * world.both_judges)
    first = min(0.3, since * world.first_judge)
    by_length = 0.01 + min(0.15, since * world.by_length)
    for _ in range(GROUPS):
        quality = level + dice.gauss(0, 1)
        success = 1 / (1 + math.exp(-quality))
        middle = 0.35 + 0.03 * quality + dice.gauss(0, 0.05)
        rollouts = []
        for _ in range(SIZE):
            label = float(dice.random() < success)
            longer = dice.gauss(0, 1)
            base = middle + 0.25 * label + by_length * longer
            scores = [
                base + noise + more + dice.gauss(0, 0.15)
                for noise, more in zip(
                    judged, (added + first, added), strict=True
                )
            ]
            rollout = RolloutRecord(
                "scored",
                sum(scores) / 2,
                sum(scores) / 2,
                label=label if world.labels else None,
                judges=[
                    {"judge": name, "score": score}
                    for name, score in zip("ab", scores, strict=True)
                ],
                size=round(math.exp(length + 0.4 * longer)),
            )
            rollouts.append(rollout)
        step.file.add(GroupRecord("scored", rollouts=tuple(rollouts)))


def drifts(world: World, seed: int) -> list[Drift]:
    """Simulate a training, and return what its report names."""
    return Trend(training(world, seed, _length(seed))).drifts


def _length(seed: int) -> int:
    return LENGTHS[seed % len(LENGTHS)]


def _delays(kind: DriftKind, reports: list[list[Drift]]) -> list[float]:
    """Return the steps from the onset to the one at which a drift is named, in order: 1 is at once, never infinite."""
    delays = []
    for seed, named in enumerate(reports):
        onset = _length(seed) // 3
        at = [drift.step - onset + 1 for drift in named if drift.kind == kind]
        delays += [delay for delay in at or [math.inf] if delay > 0]
    return sorted(delays)


def measure(_: Path, quick: bool) -> Iterator[Result]:
    """Count the false alarms, and measure the delays."""
    runs = QUICK_RUNS if quick else RUNS
    # a count that is beyond chance for the stated rate
    allowed = FALSE_ALARMS + 3 * math.sqrt(
        FALSE_ALARMS * (1 - FALSE_ALARMS) / runs
    )
    with ProcessPoolExecutor() as pool:
        for words, world in NONE.items():
            found = [
                *pool.map(partial(drifts, world), range(runs), chunksize=5)
            ]
            alarmed = sum(map(bool, found))
            what = f"trend: reports with a false alarm, {words}"
            limit = allowed if world.noise == World.noise else None
            detail = f"{alarmed} of {runs}"
            yield Result(None, what, alarmed / runs, detail, "<=", limit)
        for words, (kind, world) in CASES.items():
            found = [
                *pool.map(partial(drifts, world), range(runs), chunksize=5)
            ]
            delays = _delays(kind, found)
            share = sum(map(math.isfinite, delays)) / len(delays)
            middle, late = (
                delays[math.ceil(part * len(delays)) - 1] for part in (0.5, 0.9)
            )
            early = runs - len(delays)
            detail = f"steps of delay: {middle:g} median, {late:g} in 90 %; {early} alarms before the onset"
            yield Result(None, f"trend: drift found, {words}", share, detail)


def _markdown() -> None:
    print("| training | reports that name a drift | |\n| --- | --- | --- |")
    for row in measure(Path(), quick=False):
        words = row.what.partition(", ")[2]
        print(f"| {words} | {row.ratio:.1%} | {row.detail} |", flush=True)


if __name__ == "__main__":
    if "--markdown" in sys.argv[1:]:
        _markdown()
    else:
        sys.exit(alone(measure))
