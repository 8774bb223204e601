"""`--set hedge=true` in virtual time: the time of steps and of a dump with it, against the same without."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio

from benchmarks.results import Result, alone
from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.judging.panel import open_caller
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.retries import Caller, CallStats
from ruler_cli.settings.models import JudgeSettings, PoolSettings
from tests.virtual import ASKED, World, flood, virtually

_STEP, _STEPS, _QUICK = 64, 1_000, 200
"""Calls of a step, all in flight at once, and steps."""
_DUMP, _PLACES, _DUMPS = 20_000, 256, 4
"""Calls of a dump, calls in flight, and dumps: the longest calls decide when one ends."""
_SPREADS = {0.4: 1.0, 0.7: 0.85, 1.0: 0.65}
"""Log-deviations of a call's time, and what a step may then take at most."""

Work = Callable[[Caller], Awaitable[None]]


def measure(_: Path, quick: bool) -> Iterator[Result]:
    """Two rows for each spread; the dumps only with their time."""
    for spread, at_most in _SPREADS.items():
        yield from _steps(spread, at_most, _QUICK if quick else _STEPS)
    for spread in _SPREADS:
        yield _dumps(spread, 1 if quick else _DUMPS)


def _steps(spread: float, at_most: float, number: int) -> Iterator[Result]:
    async def work(caller: Caller) -> None:
        for _ in range(number):
            async with anyio.create_task_group() as tasks:
                for _ in range(_STEP):
                    tasks.start_soon(caller.call, ASKED)

    (usual, _), (hedged, stats) = (
        _run(spread, _STEP, hedge, 0, work) for hedge in (False, True)
    )
    name = f"--set hedge=true, steps of {_STEP} calls, deviation {spread}"
    detail = f"{usual / number:.1f} s a step without, {number} steps"
    yield Result(None, f"{name}: time", hedged / usual, detail, "<=", at_most)
    more = stats.hedged / (_STEP * number)
    yield Result(
        None, f"{name}: more calls", more, f"{stats.calls:,} calls", "<=", 0.06
    )


def _dumps(spread: float, number: int) -> Result:
    async def work(caller: Caller) -> None:
        await flood(caller, math.inf, calls=_DUMP)

    runs = [
        [_run(spread, _PLACES, hedge, seed, work) for hedge in (False, True)]
        for seed in range(number)
    ]
    usual, hedged = (
        sum(run[hedge][0] for run in runs) for hedge in (False, True)
    )
    more = sum(stats.hedged for _, (_, stats) in runs) / (number * _DUMP)
    name = f"--set hedge=true, {_DUMP:,} calls in {_PLACES} places, deviation {spread}: time"
    return Result(
        None, name, hedged / usual, f"{more:.2%} more calls, {number} runs"
    )


def _run(
    spread: float, places: int, hedge: bool, seed: int, work: Work
) -> tuple[float, CallStats]:
    """Return the virtual seconds and the counts of a pool's work."""

    async def main() -> tuple[float, CallStats]:
        world = World(latency=2.0, spread=spread, seed=2 * seed + hedge)
        settings = PoolSettings(concurrency=places, hedge=hedge)
        caller = open_caller(
            ResolvedJudge(world, None, None),
            JudgeSettings(),
            settings,
            StopSignal(),
        )
        await work(caller)
        return anyio.current_time(), caller.stats

    return virtually(main)


if __name__ == "__main__":
    sys.exit(alone(measure))
