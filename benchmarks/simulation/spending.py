"""`--set adaptive=true` against the same passes for all, at equal cost and at equal error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.simulation.measures import Measured
from benchmarks.simulation.schemes import combined
from benchmarks.simulation.worlds import BalancedCase, Kind, cases
from ruler_cli.judging.adaptive import UNIT, needs_more
from ruler_cli.settings.models import FIRST_PASSES

MOST = 6
UNIFORM = (2, 3, 4, 6)


@dataclass(frozen=True, slots=True)
class Spent:
    """The mean passes for a group, and the quality of the scores."""

    passes: float
    measured: Measured


def spending(seed: int, kind: Kind, number: int) -> dict[str, Spent]:
    """Measure uniform and adaptive passes over the same groups and the same scores."""
    groups = [BalancedCase(case) for case in cases(seed, kind, number)]
    result = {}
    for passes in UNIFORM:
        result[f"uniform {passes}"] = _spent(groups, [passes] * number)
    result["adaptive"] = _spent(groups, [adaptively(group) for group in groups])
    return result


def adaptively(group: BalancedCase) -> int:
    """Return the passes of a group as ruler makes them."""
    passes = FIRST_PASSES
    while passes < MOST:
        result = group.case.group_result(group.first(passes))
        if not needs_more(result):
            break
        passes += UNIT
    return passes


def _spent(groups: Sequence[BalancedCase], passes: Sequence[int]) -> Spent:
    results = []
    for group, number in zip(groups, passes, strict=True):
        results.append(group.case.group_result(group.first(number)))
    measured = combined([group.case for group in groups], results)
    return Spent(sum(passes) / len(passes), measured)


def at_equal_cost(
    uniform: Sequence[Spent], passes: float, metric: str
) -> float:
    """Return the measure of so many passes for all, interpolated on log scales."""
    points = [
        (math.log(spent.passes), math.log(getattr(spent.measured, metric)))
        for spent in uniform
    ]
    return math.exp(_interpolated(points, math.log(passes)))


def at_equal_error(uniform: Sequence[Spent], rmse: float) -> float:
    """Return the passes for all that reach an RMSE, interpolated on log scales."""
    points = [
        (-math.log(spent.measured.rmse), math.log(spent.passes))
        for spent in uniform
    ]
    return math.exp(_interpolated(points, -math.log(rmse)))


def _interpolated(points: Sequence[tuple[float, float]], x: float) -> float:
    """Return the y at an x on the line through points with rising x; beyond the last, the last piece goes on."""
    pieces = list(pairwise(points))
    fitting = [piece for piece in pieces if x <= piece[1][0]]
    (x0, y0), (x1, y1) = (fitting or pieces[-1:])[0]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
