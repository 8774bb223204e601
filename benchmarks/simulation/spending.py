"""`--set adaptive=true` against the same passes for all, at equal cost and at equal error."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.simulation.measures import Measured
from benchmarks.simulation.schemes import combined
from benchmarks.simulation.worlds import BalancedCase, Kind, cases
from ruler_cli.judging.adaptive import FIRST, GroupStanding, allot

BLOCK = 64
COST_SPREAD = 0.8
"""Log-sd of a group's tokens with uneven costs; otherwise costs are equal."""
TOKENS = 1000.0


@dataclass(frozen=True, slots=True)
class Spent:
    """The spending per group and the quality of the scores; `tokens` in passes of an average group."""

    passes: float
    tokens: float
    rounds: float
    most: int
    measured: Measured


def spending(
    seed: int, kind: Kind, number: int, averages: Sequence[int], *, uneven: bool
) -> dict[str, Spent]:
    """Measure uniform and adaptive passes over the same groups and the same scores, for each average."""
    groups = [BalancedCase(case) for case in cases(seed, kind, number)]
    rng = random.Random(f"{seed}/costs")
    costs = [
        TOKENS * math.exp(COST_SPREAD * rng.gauss()) if uneven else TOKENS
        for _ in groups
    ]
    result = {}
    for average in averages:
        result[f"uniform {average}"] = _spent(groups, costs, [average] * number, 0)
        passes, rounds = [], 0
        for start in range(0, number, BLOCK):
            block = slice(start, start + BLOCK)
            given, times = adaptively(groups[block], costs[block], average)
            passes += given
            rounds += times * len(given)
        result[f"adaptive {average}"] = _spent(groups, costs, passes, rounds / number)
    return result


def adaptively(
    groups: Sequence[BalancedCase], costs: Sequence[float], average: int
) -> tuple[list[int], int]:
    """Return the final number of passes of each group of a block, and the number of rounds."""
    passes, rounds = [min(FIRST, average)] * len(groups), 0
    while True:
        standings = [
            GroupStanding.of(group.case.group_result(group.first(k)), cost)
            for group, k, cost in zip(groups, passes, costs, strict=True)
        ]
        more = allot(standings, average)
        if not any(more):
            return passes, rounds
        passes = [k + extra for k, extra in zip(passes, more, strict=True)]
        rounds += 1


def _spent(
    groups: Sequence[BalancedCase],
    costs: Sequence[float],
    passes: Sequence[int],
    rounds: float,
) -> Spent:
    number = len(groups)
    results = [
        group.case.group_result(group.first(k))
        for group, k in zip(groups, passes, strict=True)
    ]
    return Spent(
        sum(passes) / number,
        sum(k * cost for k, cost in zip(passes, costs, strict=True)) / sum(costs),
        rounds,
        max(passes),
        combined([group.case for group in groups], results),
    )
