"""Promise 3 and the adaptive concurrency limit over long runs in virtual time, with a simulated judge."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import Result, alone, of_limit
from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.judging.panel import open_caller
from ruler_cli.pool.engine import StopSignal
from ruler_cli.settings.models import JudgeSettings, PoolSettings
from ruler_cli.types import Usage
from tests.virtual import World, flood, virtually

_RPM, _RPM_QUICK = (10, 60, 500, 5000), (10, 60, 500)
_TPM, _TPM_QUICK = (
    ({60_000: 1, 1_000_000: 1, 10_000_000: 3}),
    ({60_000: 1, 1_000_000: 1}),
)
"""Tokens per minute, and the factor on the usual tokens of a call."""
_MINUTES = 12
_SPREAD = 0.5
"""Log-deviation of a call's latency and of its tokens: one in six takes 1.6 times the median or more."""
_CAPACITIES, _CAPACITIES_QUICK = (8, 64, 400), (8, 64)
_LATENCIES = 0.5, 2.0, 20.0
_ROUNDS, _ROUNDS_QUICK, _MOST = 400, 200, 60_000
"""Calls per unit of the server's capacity, and the most calls of one row."""
_WARM_UP = 60.0, 30
"""Seconds, or calls in sequence if these take longer."""


def measure(_: Path, quick: bool) -> Iterator[Result]:
    """Two rows for each limit and for each server."""
    for rpm in _RPM_QUICK if quick else _RPM:
        yield from _limited(rpm, Usage(1000, 200), "rpm")
    for tpm, times in (_TPM_QUICK if quick else _TPM).items():
        yield from _limited(tpm, Usage(1000 * times, 200 * times), "tpm")
    for capacity in _CAPACITIES_QUICK if quick else _CAPACITIES:
        for latency in _LATENCIES:
            yield from _adaptive(
                capacity, latency, _ROUNDS_QUICK if quick else _ROUNDS
            )


def _flood(
    world: World,
    until: float,
    limits: dict[str, float],
    calls: int | None = None,
) -> None:
    """Send calls to a world until a time or a number of them, without `-c`."""

    async def main() -> None:
        settings = PoolSettings(retries=2, **limits)  # type: ignore[arg-type]  # by keyword
        caller = open_caller(
            ResolvedJudge(world, None, None),
            JudgeSettings(),
            settings,
            StopSignal(),
        )
        await flood(caller, until, calls=calls)

    virtually(main)


def _limited(limit: float, usage: Usage, unit: str) -> Iterator[Result]:
    world, seconds = (
        World(latency=2.0, spread=_SPREAD, usage=usage),
        60.0 * _MINUTES,
    )
    _flood(world, seconds, {unit: limit})
    world.sent = [
        (at, n) for at, n in world.sent if at < seconds
    ]  # the other calls had been queued
    tokens = unit == "tpm"
    name, taken = (
        f"virtual --{unit} {limit:,}",
        sum(n if tokens else 1 for at, n in world.sent if at >= 60),
    )
    mean, fullest = taken / (_MINUTES - 1), world.fullest_minute(tokens)
    detail = f"{mean:,.0f} per minute in {_MINUTES - 1} virtual minutes after the first"
    peak = f"{fullest:,.0f} in the fullest sliding minute"
    yield from of_limit(name, limit, (mean, detail), (fullest, peak))


def _adaptive(capacity: int, latency: float, rounds: int) -> Iterator[Result]:
    calls = min(_MOST, capacity * rounds)
    world = World(latency=latency, spread=_SPREAD, capacity=capacity)
    _flood(world, math.inf, {}, calls)
    seconds, times = _WARM_UP
    start, end = max(seconds, times * latency), world.sent[-1][0]
    name = f"virtual, hidden capacity {capacity}, {latency:g} s"
    detail = f"{end - start:,.0f} virtual s after {start:,.0f} s of warm-up"
    yield Result(
        None, f"{name}: used", world.used(start, end) / capacity, detail, ">="
    )
    detail = f"{world.refused:,} of {world.asked:,} requests"
    yield Result(None, f"{name}: wasted", world.refused / world.asked, detail)


if __name__ == "__main__":
    sys.exit(alone(measure))
