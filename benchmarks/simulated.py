"""Simulated judge with a known truth, for tests and for tables: random errors that repeat with the request.

`python -m benchmarks.simulated score … -m simulated` is `ruler` with this judge, which an import of the module adds.

    s = level + (truth + persistent error) + position bias + noise      clipped to [0, 1], rounded to .05

A persistent error belongs to the rollout and does not average out over passes; position bias, noise and level
belong to the pass and do. The default deviations are working assumptions of this project, not measured on
any judge. Every draw is a normal deviate from a keyed hash, so the same request has the same answer in any
process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import blake2b
from statistics import NormalDist, fmean, pstdev
from typing import Any, Self

from ruler_cli.errors import UsageError
from ruler_cli.judges.offline import blocks, reply_with
from ruler_cli.judges.providers import EMBEDDED
from ruler_cli.types import Judge, Reply, Request, Usage

EMBEDDED["simulated"] = "benchmarks.simulated"

NOISE_SPREAD = 0.5
"""Log-sd of a group's noise about its median, `SimulatedModel.noise`."""

_TRUTH = re.compile(r"truth=([0-9]{0,3}\.[0-9]{1,17}|[0-9]{1,3})")
_ASKED = re.compile("trajectory `([a-z]+)`")
_NORMAL = NormalDist()
_EXPLANATION = "Simulated: a known truth with drawn errors; no LLM read this."


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """Standard deviations on the scale from 0 to 1, and the seed of every draw.

    `slot` is the deviation of the position bias.
    """

    persistent: float = 0.08
    slot: float = 0.05
    noise: float = 0.075
    level: float = 0.03
    seed: int = 0

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Self:
        """A model of a judge's parameters; UsageError for an unknown key or a wrong value."""
        names = [field.name for field in fields(cls)]
        for key, value in params.items():
            kinds = (int,) if key == "seed" else (int, float)
            inside = type(value) in kinds and (key == "seed" or 0 <= value <= 1)
            if key not in names or not inside:
                raise UsageError(
                    f"{key}={value!r}: it takes {', '.join(names)}; seed is a whole number, the others are "
                    "from 0 to 1",
                    place="judge simulated",
                )
        return cls(**params)


@dataclass(frozen=True, slots=True)
class Simulated(Judge):
    """The model as a judge."""

    model: SimulatedModel = SimulatedModel()
    name: str = "simulated"

    async def ask(self, request: Request) -> Reply:
        """Score the labels from the rollouts in the prompt, or tell how likely each word is for the one asked about."""
        scores = score(self.model, request)
        if request.words:
            asked = _ASKED.findall(request.user)
            (only, *others) = scores
            at = scores[asked[-1] if others else only]
            return Reply("", Usage(calls=1), likely=_likely(at, request.words))
        ratings = {
            label: (score, _EXPLANATION) for label, score in scores.items()
        }
        return reply_with(ratings, request)


def judge_of(params: Mapping[str, Any]) -> Simulated:
    """Return the judge with these parameters."""
    return Simulated(SimulatedModel.of(params))


def _likely(
    score: float, words: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """The logarithms of the probabilities of the words, whose mean place is the score."""
    at = score * (len(words) - 1)
    shares = [max(1e-6, 1 - abs(at - place)) for place in range(len(words))]
    return tuple(
        sorted(
            zip(words, map(math.log, shares), strict=True),
            key=lambda pair: -pair[1],
        )
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
    centre = fmean(raw)
    spread = pstdev(raw)
    return tuple((value - centre) / spread for value in raw)


def answers(
    model: SimulatedModel,
    values: Sequence[float],
    noise: Sequence[float],
    level: float,
) -> list[float]:
    """Scores for values (truth plus persistent error) in the order shown, by the formula above.

    `noise` is what each position draws, on the scale of the scores; `level` is standard normal.
    """
    scores = []
    biases = position_bias(len(values))
    for value, bias, error in zip(values, biases, noise, strict=True):
        exact = value + model.level * level + model.slot * bias + error
        scores.append(round(min(1.0, max(0.0, exact)) * 20) / 20)
    return scores


def score(model: SimulatedModel, request: Request) -> dict[str, float]:
    """Label → the judge's score, in the order of `request.labels`; positions are those in the prompt."""
    rollouts = blocks(request.user)
    shown = request.user
    if (
        len(rollouts) > 1 and request.words
    ):  # the questions of a pass share its noise
        shown = shown[: shown.rindex("</trajectory>")]
    whole = _hash(model.seed, "request", request.system, shown).hex()
    group = _hash(model.seed, "group", *sorted(rollouts.values())).hex()
    spread = NOISE_SPREAD * _normal(model.seed, "spread", group)
    sd = model.noise * math.exp(spread)
    values = []
    noise = []
    for text in rollouts.values():
        persistent = _normal(model.seed, "persistent", text)
        values.append(truth(text) + model.persistent * persistent)
        noise.append(sd * _normal(model.seed, "noise", text, whole))
    level = _normal(model.seed, "level", whole)
    drawn = answers(model, values, noise, level)
    by_label = dict(zip(rollouts, drawn, strict=True))
    return {label: by_label[label] for label in request.labels or by_label}


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


if __name__ == "__main__":
    from ruler_cli.cli import main

    main()
