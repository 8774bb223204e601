"""Promise 2: with a judge's latency L and C calls in flight, wall time against groups × passes × L / C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.commands import (
    PYTHON,
    SERVER_LIFETIME,
    Cost,
    command,
    ended,
    statuses,
)
from benchmarks.inputs import write_small, write_trios
from benchmarks.results import Result, alone
from tests.judge_server import JudgeServer

Make = Callable[[Path, Path, str, int], list[str]]
"""The command line for a source, an output, an endpoint and calls in flight."""
_Run = tuple[Cost, float, float, int]

# (seconds of latency, calls in flight, groups): a multiple of the calls, so that the last round is full
_CASES = (
    (0.02, 4, 1_000),
    (0.02, 8, 2_000),
    (0.2, 64, 4_096),
    (2.0, 256, 4_096),
)
_QUICK = (
    (0.02, 4, 1_000),
    (0.02, 8, 1_000),
    (0.2, 64, 1_024),
    (2.0, 256, 1_024),
)

_LATENCY, _GROUPS = 0.25, 1_024
_JUDGES = ("openai/good", "openai/fine")
_SEVERAL: dict[str, tuple[int, int, dict[str, object]]] = {
    "2 passes": (32, 1, {"passes": 2}),
    "2 passes, 2 judges": (32, 2, {"passes": 2, "m": _JUDGES}),
    "4 passes --set adaptive=true": (64, 1, {"passes": 4, "adaptive": True}),
}
"""Calls in flight of each judge, judges, options."""


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """A row for each latency, and for passes and panels.

    The bare loop of `floor`, run as well, shows the nearest that this machine comes to the ideal.
    """
    for latency, calls, groups in _QUICK if quick else _CASES:
        source = write_small(folder / "small.jsonl", groups, "line")
        bare = _run(_floor, source, calls, latency, 3)
        run = _run(_ruler, source, calls, latency, 3)
        if (
            scored := statuses(folder / "scored-small.jsonl").get("scored", 0)
        ) != 2 * groups:
            raise SystemExit(
                f"only {scored} of {2 * groups} rollouts were scored"
            )
        yield _row(
            f"{1000 * latency:g} ms, {calls} in flight, {groups:,} groups",
            run,
            bare,
        )
    for name in list(_SEVERAL)[-1:] if quick else _SEVERAL:
        yield _several(folder, name)


def _several(folder: Path, name: str) -> Result:
    """Run passes or a panel with a judge that errs, so that adaptive spending asks further.

    The bare loop runs at the same time, over as many groups as a judge has calls.
    """
    calls, judges, options = _SEVERAL[name]
    source = write_trios(folder / "trios.jsonl", _GROUPS)
    many = write_small(
        folder / "many.jsonl", _GROUPS * int(str(options["passes"])), "line"
    )
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(
            _run, _floor, many, calls, _LATENCY, 2, noise=0.075
        )
        run = _run(
            partial(_ruler, options=options),
            source,
            calls,
            _LATENCY,
            2,
            judges,
            noise=0.075,
        )
        bare = beside.result()
    what = (
        f"{1000 * _LATENCY:g} ms, {calls} in flight, {_GROUPS:,} groups, {name}"
    )
    return _row(what, run, bare, f"; {run[3]:,} calls")


def _run(
    make: Make,
    source: Path,
    calls: int,
    latency: float,
    starts: int,
    judges: int = 1,
    **errors: float,
) -> _Run:
    """Return cost, start-up, ideal seconds and requests; start-up is the best run of one group, less L.

    The server measures L from request to reply: it is a millisecond more than configured, since
    an event loop waits in whole milliseconds, which is the judge's time, not the pool's.
    """
    one = write_small(source.with_name(f"one-{source.name}"), 1, "line")
    output = source.with_name(f"scored-{source.name}")
    with JudgeServer(latency, SERVER_LIFETIME, errors=errors or None) as server:
        walls = [
            ended(make(one, output, server.base, calls)).cost.wall
            for _ in range(starts)
        ]
        server.reset()
        cost = ended(make(source, output, server.base, calls)).cost
        stats = server.stats()
    ideal = stats["requests"] / judges * stats["latency"] / calls
    return cost, min(walls) - latency, ideal, stats["requests"]


def _row(what: str, run: _Run, bare: _Run, more: str = "") -> Result:
    (cost, start, ideal, _), (floor, floor_start, floor_ideal, _) = run, bare
    detail = f"{cost.wall:.2f} s, start-up {start:.2f}, ideal {ideal:.2f}; {cost.cpu / cost.wall:.0%} CPU"
    detail += (
        f"{more}; bare loop {(floor.wall - floor_start) / floor_ideal:.3f}"
    )
    return Result(
        2,
        f"wall time / ideal, {what}",
        (cost.wall - start) / ideal,
        detail,
        "<=",
        1.03,
    )


def _floor(source: Path, output: Path, base: str, calls: int) -> list[str]:
    return [
        PYTHON,
        "-m",
        "benchmarks.floor",
        str(source),
        str(output),
        base,
        str(calls),
    ]


def _ruler(
    source: Path,
    output: Path,
    base: str,
    calls: int,
    options: Mapping[str, object] | None = None,
) -> list[str]:
    return command(source, output, base, c=calls, **(options or {}))


if __name__ == "__main__":
    sys.exit(alone(measure))
