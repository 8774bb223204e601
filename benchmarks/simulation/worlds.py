"""Groups whose truth is known, and what the simulated judge says of them: ballots, without any prompt."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from ruler_cli.judges.simulated import NOISE_SPREAD, SimulatedModel, answers
from ruler_cli.prompting.layout import CYCLE, balanced
from ruler_cli.types import GroupResult, PassScores

Kind = Literal["graded", "outcome"]
KINDS: tuple[Kind, ...] = ("graded", "outcome")
LOWEST, HIGHEST = 0.02, 0.98
TIE = 0.02
"""Groups whose true scores deviate less count as tied."""


@dataclass(slots=True)
class Case:
    """One group: its truth, and of each judge the persistent errors and the deviation of its noise."""

    truths: list[float]
    rng: random.Random
    models: tuple[SimulatedModel, ...] = (SimulatedModel(),)
    errors: list[list[float]] = field(default_factory=list)
    noises: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        gauss = self.rng.gauss
        common = [gauss() for _ in self.truths]
        for model in self.models:
            part, rest = math.sqrt(model.shared), math.sqrt(1 - model.shared)
            self.errors.append([model.persistent * (part * c + rest * gauss()) for c in common])
            self.noises.append(model.noise * math.exp(NOISE_SPREAD * gauss()))

    def ask(
        self, order: Sequence[int], turn: int, *, judge: int = 0, window: int = 0, anew: bool = False
    ) -> PassScores:
        """What a judge says of the bodies in this order; `anew` draws the noise's deviation for it."""
        model, gauss = self.models[judge], self.rng.gauss
        errors = self.errors[judge]
        spread = model.noise * math.exp(NOISE_SPREAD * gauss()) if anew else self.noises[judge]
        values, noise = [self.truths[i] + errors[i] for i in order], [spread * gauss() for _ in order]
        scores = answers(model, values, noise, gauss(), gauss() if model.gain else 0.0)
        return PassScores(judge, turn, window, tuple(order), tuple(scores), ("",) * len(order))

    def judged(self, all_scores: Sequence[PassScores], windows: int = 1) -> GroupResult:
        """The group as it comes to be combined."""
        size = len(self.truths)
        return GroupResult(
            tuple(range(size)),
            ("",) * size,
            (1,) * size,
            tuple(all_scores),
            judges=len(self.models),
            windows=windows,
        )

    def drawn(self) -> list[int]:
        """A random order of all bodies."""
        return self.rng.sample(range(len(self.truths)), len(self.truths))


@dataclass(slots=True)
class Asked:
    """A case whose passes are asked for in balanced orders, each once, as they are needed."""

    case: Case
    judge: int = 0
    _base: list[int] = field(default_factory=list)
    _ballots: list[PassScores] = field(default_factory=list)

    def first(self, passes: int) -> list[PassScores]:
        """The ballots of so many passes."""
        while len(self._ballots) < passes:
            turn = len(self._ballots)
            if turn % CYCLE == 0:
                self._base = self.case.drawn()
            self._ballots.append(self.case.ask(balanced(self._base, turn), turn, judge=self.judge))
        return self._ballots[:passes]


def cases(
    seed: int, kind: Kind, number: int, models: tuple[SimulatedModel, ...] = (SimulatedModel(),)
) -> list[Case]:
    """Groups of eight, the same for the same seed."""
    result = []
    for i in range(number):
        rng = random.Random(f"{seed}/{kind}/{i}")
        result.append(Case(_truths(kind, rng, 8), rng, models))
    return result


def _truths(kind: Kind, rng: random.Random, size: int) -> list[float]:
    if kind == "graded":
        spread = 0.12 * math.exp(0.6 * rng.gauss())
        drawn = [0.5 + spread * rng.gauss() for _ in range(size)]
    else:
        chance = rng.betavariate(0.6, 0.6)
        passed = [rng.random() < chance for _ in range(size)]
        drawn = [0.25 + 0.5 * good + 0.04 * rng.gauss() for good in passed]
        if len(set(passed)) == 1:
            drawn = [fmean(drawn)] * size
    return [min(HIGHEST, max(LOWEST, truth)) for truth in drawn]


def same(all_scores: Sequence[PassScores]) -> list[PassScores]:
    """The ballots numbered as passes of one judge, from 0."""
    return [replace(pass_scores, pass_index=turn) for turn, pass_scores in enumerate(all_scores)]
