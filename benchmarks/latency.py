"""Promise 2: with a judge's latency L and C calls in flight, wall time against groups × passes × L / C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.child import PYTHON, Cost
from benchmarks.inputs import write_small, write_trios
from benchmarks.results import Result, alone
from benchmarks.scoring import FOREVER, command, ended, statuses
from tests.judge_server import JudgeServer

Make = Callable[[Path, Path, str, int], list[str]]
_Run = tuple[Cost, float, float]

# (seconds of latency, calls in flight, groups): a multiple of the calls, so that the last round is full
_CASES = ((0.02, 4, 1_000), (0.02, 8, 2_000), (0.2, 64, 4_096), (2.0, 256, 4_096))
_QUICK = ((0.02, 4, 1_000), (0.02, 8, 1_000), (0.2, 64, 1_024), (2.0, 256, 1_024))

_LATENCY, _GROUPS = 0.25, 1_024
_JUDGES = ("openai/good", "openai/fine")
_SEVERAL: dict[str, tuple[int, int, dict[str, object]]] = {
    "2 passes": (32, 1, {"passes": 2}),
    "2 passes, 2 judges": (32, 2, {"passes": 2, "m": _JUDGES}),
    "4 passes --adaptive": (64, 1, {"passes": 4, "adaptive": True}),
}
"""Calls in flight of each judge, judges, options."""


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """A row for each latency; start-up is the best of three runs of one group, less its latency.

    L is what the server measured from request to reply: a millisecond more than it is set, since
    an event loop waits in whole milliseconds, and that is the judge's time, not the pool's.  The bare
    loop of `floor`, run in turn, says how near to the ideal this machine comes at all.
    """
    output = folder / "scored.jsonl"
    one = write_small(folder / "one.jsonl", 1, "line")
    for latency, calls, groups in _QUICK if quick else _CASES:
        source = write_small(folder / "small.jsonl", groups, "line")

        def whole(make: Make, latency: float = latency, calls: int = calls, source: Path = source) -> _Run:
            with JudgeServer(latency, FOREVER) as server:
                starts = [ended(make(one, output, server.base, calls)).cost.wall for _ in range(3)]
                server.reset()
                cost = ended(make(source, output, server.base, calls)).cost
                return cost, min(starts) - latency, server.stats()["latency"]

        bare, bare_start, bare_waited = whole(_floor)
        cost, start, waited = whole(_ruler)
        if (scored := statuses(output).get("scored", 0)) != 2 * groups:
            raise SystemExit(f"only {scored} of {2 * groups} rollouts were scored")
        ideal = groups * waited / calls
        floor = (bare.wall - bare_start) / (groups * bare_waited / calls)
        detail = f"{cost.wall:.2f} s, start-up {start:.2f}, ideal {ideal:.2f}; {cost.cpu / cost.wall:.0%} CPU"
        what = f"wall time / ideal, {1000 * latency:g} ms, {calls} in flight, {groups:,} groups"
        ratio = (cost.wall - start) / ideal
        yield Result(2, what, ratio, f"{detail}; bare loop {floor:.3f}", "<=", 1.03)
    for name in list(_SEVERAL)[-1:] if quick else _SEVERAL:
        yield _several(folder, name)


def _several(folder: Path, name: str) -> Result:
    """A run of passes or of a panel, whose judge errs: so that there is something to ask further.

    Beside it runs the bare loop, over as many groups as these are calls of a judge.
    """
    calls, judges, options = _SEVERAL[name]
    source = write_trios(folder / "trios.jsonl", _GROUPS)
    many = write_small(folder / "many.jsonl", _GROUPS * int(str(options["passes"])), "line")
    one = write_small(folder / "one.jsonl", 1, "line")

    def whole(make: Make, source: Path, judges: int) -> tuple[Cost, float, float, int]:
        output = folder / f"scored-{source.stem}.jsonl"
        with JudgeServer(_LATENCY, FOREVER, errors={"noise": 0.075}) as server:
            starts = [ended(make(one, output, server.base, calls)).cost.wall for _ in range(2)]
            server.reset()
            cost = ended(make(source, output, server.base, calls)).cost
            stats = server.stats()
        ideal = stats["requests"] / judges * stats["latency"] / calls
        return cost, min(starts) - _LATENCY, ideal, stats["requests"]

    def ruler(source: Path, output: Path, base: str, calls: int) -> list[str]:
        return command(source, output, base, c=calls, **options)

    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(whole, _floor, many, 1)
        cost, start, ideal, requests = whole(ruler, source, judges)
        bare, bare_start, bare_ideal, _ = beside.result()
    detail = f"{cost.wall:.2f} s, start-up {start:.2f}, ideal {ideal:.2f}; {cost.cpu / cost.wall:.0%} CPU"
    what = f"wall time / ideal, {1000 * _LATENCY:g} ms, {calls} in flight, {_GROUPS:,} groups, {name}"
    floor = (bare.wall - bare_start) / bare_ideal
    detail = f"{detail}; {requests:,} calls; bare loop {floor:.3f}"
    return Result(2, what, (cost.wall - start) / ideal, detail, "<=", 1.03)


def _floor(source: Path, output: Path, base: str, calls: int) -> list[str]:
    return [PYTHON, "-m", "benchmarks.floor", str(source), str(output), base, str(calls)]


def _ruler(source: Path, output: Path, base: str, calls: int) -> list[str]:
    return command(source, output, base, c=calls)


if __name__ == "__main__":
    sys.exit(alone(measure))
