"""Errors of estimated scores against the truth, over groups: advantages, ranks and signs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.simulation.worlds import TIE

_SOFT = 0.02
_WORST = 0.05
_ROUND = 9


@dataclass(frozen=True, slots=True)
class Measured:
    """Of the groups that are not tied: root mean square error of advantages (also over the worst 5 % of
    groups), Spearman's correlation, share of the true advantages with another sign. Of the tied groups:
    mean size of the estimated advantage.
    """

    rmse: float
    spearman: float
    wrong_sign: float
    worst: float
    tied: float


def measured(
    pairs: Iterable[tuple[Sequence[float], Sequence[float]]],
) -> Measured:
    """Measure pairs of true and estimated scores, group by group."""
    squares: list[float] = []
    correlations: list[float] = []
    wrong = whole = 0.0
    sizes: list[float] = []
    for truths, scores in pairs:
        given = [
            round(score, _ROUND) for score in scores
        ]  # equal means are equal, in any order
        estimated = advantages(given)
        if deviation(truths) <= TIE:
            sizes.append(fmean(map(abs, estimated)))
            continue
        true = advantages(truths)
        squares.append(
            fmean((a - b) ** 2 for a, b in zip(true, estimated, strict=True))
        )
        correlations.append(spearman(truths, given))
        whole += sum(map(abs, true))
        wrong += sum(
            abs(a)
            for a, b in zip(true, estimated, strict=True)
            if _sign(a) != _sign(b)
        )
    worst = sorted(squares)[-max(1, round(_WORST * len(squares))) :]
    return Measured(
        math.sqrt(fmean(squares)),
        fmean(correlations),
        wrong / whole,
        math.sqrt(fmean(worst)),
        fmean(sizes) if sizes else math.nan,
    )


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of all values; `statistics` is exact, and takes ten times as long."""
    mean = fmean(values)
    return math.sqrt(fmean((value - mean) ** 2 for value in values))


def advantages(scores: Sequence[float]) -> list[float]:
    """Return the advantages, A = (x − mean)/(sd + .02)."""
    mean = fmean(scores)
    spread = deviation(scores) + _SOFT
    return [(score - mean) / spread for score in scores]


def ranks(values: Sequence[float]) -> list[float]:
    """Return ranks from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for i in order[start:stop]:
            result[i] = (start + 1 + stop) / 2
        start = stop
    return result


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the correlation of average ranks; 0 if one side has no order."""
    a, b = ranks(one), ranks(other)
    middle = (len(a) + 1) / 2
    product = sum(
        (x - middle) * (y - middle) for x, y in zip(a, b, strict=True)
    )
    scale = math.sqrt(
        sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)
    )
    return product / scale if scale else 0.0


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
