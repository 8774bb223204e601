"""Simulated judge with a known truth, for tests and for tables: random errors that repeat with the request.

    s = level + (truth + persistent error) + position bias + noise      clipped to [0, 1], rounded to .05

A persistent error belongs to the rollout and does not average out over passes; position bias, noise and level
belong to the pass and do. A judge may also use its range anew for the rollouts of each request: with z the
standardised values of one request, `stretch` makes (1 − stretch) · x + stretch · (.5 + .22 · z) of them, and
then `gain` multiplies their distance from .5 by a log-normal factor. The default deviations are working
assumptions of this project, not measured on any judge. Every draw is a normal deviate from a keyed hash, so
the same request has the same answer in any process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import blake2b
from statistics import NormalDist, fmean, pstdev
from typing import Any, Self

from ruler_cli.errors import UsageError
from ruler_cli.judges.offline import blocks, reply_with
from ruler_cli.types import Judge, Reply, Request

NOISE_SPREAD = 0.5
"""Log-sd of a group's noise about its median, `SimulatedModel.noise`."""
RANGE = 0.22
"""Standard deviation of a judge's scores if it stretches them to its own range."""

_TRUTH = re.compile(r"truth=([0-9]{0,3}\.[0-9]{1,17}|[0-9]{1,3})")
_NORMAL = NormalDist()
_EXPLANATION = "Simulated: a known truth with drawn errors; no LLM read this."


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """Standard deviations on the scale from 0 to 1, and the seed of every draw.

    `slot` is the deviation of the position bias. `stretch` is the share from 0 to 1 of the judge's own
    range; `gain` is a log-sd. `shared` is the correlation of persistent errors between judges of different
    seeds, as in a panel.
    """

    persistent: float = 0.08
    slot: float = 0.05
    noise: float = 0.075
    level: float = 0.03
    stretch: float = 0.0
    gain: float = 0.0
    shared: float = 0.0
    seed: int = 0

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Self:
        """A model of a judge's parameters; UsageError for an unknown key or a wrong value."""
        known = [field.name for field in fields(cls)]
        for key, value in params.items():
            if key not in known:
                raise UsageError(
                    f"the simulated judge has no parameter {key!r}; it has {', '.join(known)}"
                )
            right = (
                isinstance(value, int)
                if key == "seed"
                else isinstance(value, int | float) and 0 <= value <= 1
            )
            if isinstance(value, bool) or not right:
                what = "a whole number" if key == "seed" else "a number from 0 to 1"
                raise UsageError(
                    f"the simulated judge's {key} must be {what}, not {value!r}"
                )
        return cls(**params)


@dataclass(frozen=True, slots=True)
class Simulated(Judge):
    """The model as a judge."""

    model: SimulatedModel = SimulatedModel()
    name: str = "simulated"

    async def ask(self, request: Request) -> Reply:
        """Score the labels from the rollouts in the prompt; a label without a rollout has an empty one."""
        scores = score(self.model, request)
        return reply_with(
            {label: (score, _EXPLANATION) for label, score in scores.items()}
        )


def truth(rollout: str) -> float:
    """A rollout's true score: its last `truth=0.35`, else .5 + .12 · N(0, 1) in [.02, .98] by its text."""
    if stated := _TRUTH.findall(rollout):
        return min(1.0, float(stated[-1]))
    return min(0.98, max(0.02, 0.5 + 0.12 * _normal(0, "truth", rollout)))


@lru_cache(maxsize=256)
def position_bias(size: int) -> tuple[float, ...]:
    """Bias by position: −.7 · x over [−1, 1], +.6 for the first and −.6 for the last, standardised."""
    if size < 2:
        return (0.0,) * size
    raw = [-0.7 * (2 * position / (size - 1) - 1) for position in range(size)]
    raw[0] += 0.6
    raw[-1] -= 0.6
    centre, spread = fmean(raw), pstdev(raw)
    return tuple((value - centre) / spread for value in raw)


def answers(
    model: SimulatedModel,
    values: Sequence[float],
    noise: Sequence[float],
    level: float,
    gain: float,
) -> list[float]:
    """Scores for values (truth plus persistent error) in the order shown, by the formula above.

    `noise` is what each position draws, on the scale of the scores; `level` and `gain` are standard normal.
    """
    shown = values
    if model.stretch and values:
        centre, spread = fmean(values), pstdev(values)
        own = [0.5 + RANGE * (v - centre) / spread if spread else 0.5 for v in values]
        shown = [
            (1 - model.stretch) * v + model.stretch * o
            for v, o in zip(values, own, strict=True)
        ]
    if model.gain:
        factor = math.exp(model.gain * gain)
        shown = [0.5 + factor * (v - 0.5) for v in shown]
    shift = model.level * level
    return [
        round(min(1.0, max(0.0, v + shift + model.slot * b + e)) * 20) / 20
        for v, b, e in zip(shown, position_bias(len(values)), noise, strict=True)
    ]


def score(model: SimulatedModel, request: Request) -> dict[str, float]:
    """Label → the judge's score, in the order of `request.labels`; positions are those in the prompt."""
    rollouts = blocks(request.user)
    absent = {label: "" for label in request.labels if label not in rollouts}
    whole = _hash(model.seed, "request", request.system, request.user).hex()
    group = _hash(model.seed, "group", *sorted(rollouts.values())).hex()
    sd = model.noise * math.exp(NOISE_SPREAD * _normal(model.seed, "spread", group))
    level, gain = (
        _normal(model.seed, "level", whole),
        _normal(model.seed, "gain", whole),
    )

    def scored(shown: Mapping[str, str], judge: SimulatedModel) -> dict[str, float]:
        values = [
            truth(rollout) + _persistent(model, rollout) for rollout in shown.values()
        ]
        noise = [
            sd * _normal(model.seed, "noise", rollout, whole)
            for rollout in shown.values()
        ]
        return dict(zip(shown, answers(judge, values, noise, level, gain), strict=True))

    every = scored(rollouts, model) | scored(absent, replace(model, slot=0, stretch=0))
    return {label: every[label] for label in request.labels}


def _persistent(model: SimulatedModel, rollout: str) -> float:
    """The judge's persistent error in a rollout; judges of other seeds share a part of it."""
    own = _normal(model.seed, "persistent", rollout)
    common = _normal(0, "shared", rollout) if model.shared else 0.0
    return model.persistent * (
        math.sqrt(model.shared) * common + math.sqrt(1 - model.shared) * own
    )


def _normal(seed: int, *parts: str) -> float:
    """A standard normal deviate: the inverse distribution function at 52 hashed bits and a half."""
    bits = int.from_bytes(_hash(seed, *parts)[:8]) >> 12
    return _NORMAL.inv_cdf((bits + 0.5) / 2**52)


def _hash(seed: int, *parts: str) -> bytes:
    """BLAKE2b of the parts, each after its length, so that no two lists of parts run together."""
    whole = blake2b(digest_size=16, key=b"simulated %d" % (seed % 2**64))
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        whole.update(len(data).to_bytes(8))
        whole.update(data)
    return whole.digest()
