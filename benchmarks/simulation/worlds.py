"""Groups with known truth, and the simulated judge's scores of them, without any prompt."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, pstdev
from typing import Literal

from benchmarks.simulated import NOISE_SPREAD, SimulatedModel, answers
from ruler_cli.prompting.prompt import CYCLE, balanced
from ruler_cli.types import GroupResult, PassScores

Kind = Literal["graded", "outcome"]
KINDS: tuple[Kind, ...] = ("graded", "outcome")
LOWEST, HIGHEST = 0.02, 0.98
TIE = 0.02
"""Groups whose true scores deviate less than this count as tied."""


RANGE = 0.22
"""Standard deviation of a judge's scores if it stretches them to its own range."""


@dataclass(frozen=True, slots=True)
class Model(SimulatedModel):
    """A simulated judge that may use its range anew for each request, and share errors with other judges.

    With z the standardised values of one request, `stretch` makes (1 − stretch) · x + stretch · (.5 + .22 · z)
    of them; then `gain`, a log-sd, multiplies their distance from .5 by a log-normal factor. `shared` is the
    correlation of the persistent errors of two judges.
    """

    stretch: float = 0.0
    gain: float = 0.0
    shared: float = 0.0

    def in_its_range(
        self, values: Sequence[float], gain: float
    ) -> Sequence[float]:
        """Return values as the judge uses its range for them; `gain` is standard normal."""
        if self.stretch:
            centre, spread = fmean(values), pstdev(values)
            standard = [
                (v - centre) / spread if spread else 0.0 for v in values
            ]
            values = [
                (1 - self.stretch) * v + self.stretch * (0.5 + RANGE * z)
                for v, z in zip(values, standard, strict=True)
            ]
        factor = math.exp(self.gain * gain)
        return (
            [0.5 + factor * (v - 0.5) for v in values] if self.gain else values
        )


@dataclass(slots=True)
class Case:
    """One group: its truth, and the persistent errors and the deviation of the noise of each judge."""

    truths: list[float]
    rng: random.Random
    models: tuple[Model, ...] = (Model(),)
    errors: list[list[float]] = field(default_factory=list)
    noises: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        gauss = self.rng.gauss
        common = [gauss() for _ in self.truths]
        for model in self.models:
            part, rest = math.sqrt(model.shared), math.sqrt(1 - model.shared)
            self.errors.append(
                [model.persistent * (part * c + rest * gauss()) for c in common]
            )
            self.noises.append(model.noise * math.exp(NOISE_SPREAD * gauss()))

    def ask(
        self,
        order: Sequence[int],
        pass_index: int,
        *,
        judge: int = 0,
        window: int = 0,
        new_noise: bool = False,
    ) -> PassScores:
        """Draw a judge's scores of rollouts in this order; `new_noise` draws the noise's deviation, too."""
        model, gauss = self.models[judge], self.rng.gauss
        errors = self.errors[judge]
        spread = (
            model.noise * math.exp(NOISE_SPREAD * gauss())
            if new_noise
            else self.noises[judge]
        )
        values, noise = (
            [self.truths[i] + errors[i] for i in order],
            [spread * gauss() for _ in order],
        )
        level, gain = gauss(), gauss() if model.gain else 0.0
        scores = answers(model, model.in_its_range(values, gain), noise, level)
        return PassScores(
            judge,
            pass_index,
            window,
            tuple(order),
            tuple(scores),
            ("",) * len(order),
        )

    def group_result(
        self, all_scores: Sequence[PassScores], windows: int = 1
    ) -> GroupResult:
        """Return the group as it is combined."""
        size = len(self.truths)
        return GroupResult(
            tuple(range(size)),
            ("",) * size,
            (1,) * size,
            tuple(all_scores),
            judges=len(self.models),
            windows=windows,
        )

    def random_order(self) -> list[int]:
        """Draw a random order of all rollouts."""
        return self.rng.sample(range(len(self.truths)), len(self.truths))


@dataclass(slots=True)
class BalancedCase:
    """A case with passes in balanced orders, each drawn once, when needed."""

    case: Case
    judge: int = 0
    _base: list[int] = field(default_factory=list)
    _pass_scores: list[PassScores] = field(default_factory=list)

    def first(self, passes: int) -> list[PassScores]:
        """Return the scores of the first passes."""
        while len(self._pass_scores) < passes:
            pass_index = len(self._pass_scores)
            if pass_index % CYCLE == 0:
                self._base = self.case.random_order()
            self._pass_scores.append(
                self.case.ask(
                    balanced(self._base, pass_index),
                    pass_index,
                    judge=self.judge,
                )
            )
        return self._pass_scores[:passes]


def cases(
    seed: int,
    kind: Kind,
    number: int,
    models: tuple[Model, ...] = (Model(),),
) -> list[Case]:
    """Draw groups of eight, the same for the same seed."""
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


def renumbered(all_scores: Sequence[PassScores]) -> list[PassScores]:
    """Number the scores as passes of one judge, from 0."""
    return [
        replace(pass_scores, pass_index=pass_index)
        for pass_index, pass_scores in enumerate(all_scores)
    ]
