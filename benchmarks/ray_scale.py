"""Ray on one machine: groups per second of two workers against one process, its start, its messages.

    python -m benchmarks.ray_scale [--quick]

The judge answers at once, so all that is measured is this machine's own work: the judge server, Ray and the
driver share its processors with the workers. A judge that takes seconds hides all of it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.child import Cost
from benchmarks.inputs import write_rich, write_small
from benchmarks.results import Result
from benchmarks.results import alone as by_itself
from benchmarks.scoring import FOREVER, command, digest, ended
from tests.judge_server import JudgeServer

_WORKERS = 2
_FEW = 32
"""Groups of a run that is nearly all start."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What a run took, and what it wrote."""

    cost: Cost
    digest: str


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Rows without a promise: how many processors there are decides them."""
    if importlib.util.find_spec("ray") is None:
        yield Result(None, "Ray", None, "ray is not installed")
        return
    groups, large = (4_000, 500) if quick else (20_000, 4_000)
    few, many, rich = folder / "few.jsonl", folder / "many.jsonl", folder / "rich.jsonl"
    write_small(few, _FEW, "line")
    write_small(many, groups, "line")
    write_rich(rich, large)
    ray = {"engine": "ray", "ray_workers": _WORKERS}
    with JudgeServer(0.0, FOREVER) as server:
        start = _run(few, server, folder, **ray).cost
        bare = _run(few, server, folder).cost
        one = _run(many, server, folder)
        two = _run(many, server, folder, **ray)
        capped = _run(many, server, folder, c=64, **ray)
        alone, shared_out = _run(rich, server, folder), _run(rich, server, folder, **ray)
    begun = start.wall - bare.wall
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Result(
        None, "Ray: seconds until the first group", begun, f"{start.wall:.1f} s, alone {bare.wall:.1f} s"
    )
    rates = [groups / (one.cost.wall - bare.wall), groups / (two.cost.wall - start.wall)]
    what = f"Ray: {_WORKERS} workers / one process, groups per second"
    detail = f"{rates[1]:.0f} / {rates[0]:.0f} per s on {cores} processors, without the starts"
    yield Result(None, what, rates[1] / rates[0], detail)
    both = [large / (alone.cost.wall - bare.wall), large / (shared_out.cost.wall - start.wall)]
    detail = f"{both[1]:.0f} / {both[0]:.0f} per s, the same with groups of 20 kB"
    yield Result(None, f"{what}, 20 kB each", both[1] / both[0], detail)
    each = 1000 * (two.cost.cpu - start.cpu) / groups, 1000 * (one.cost.cpu - bare.cpu) / groups
    detail = f"{each[0]:.2f} / {each[1]:.2f} ms of CPU per group"
    yield Result(None, "Ray: the driver's share of one process's work", each[0] / each[1], detail)
    shared = groups / (capped.cost.wall - start.wall)
    detail = f"{shared:.0f} / {rates[1]:.0f} groups per s: -c 64 asks the driver for each call"
    yield Result(None, "Ray: with limits of the whole / without", shared / rates[1], detail)
    same = one.digest == two.digest and alone.digest == shared_out.digest
    yield Result(None, "Ray: output equals one process's", float(same), "", ">=", 1.0)


def _run(source: Path, server: JudgeServer, folder: Path, **options: object) -> _Run:
    output, ledger = folder / "out.jsonl", folder / "ledger.sqlite"
    for old in folder.glob("ledger.sqlite*"):
        old.unlink()
    line = command(source, output, server.base, ledger=ledger, **options)
    cost = ended(line).cost
    return _Run(cost, digest(output))


if __name__ == "__main__":
    sys.exit(by_itself(measure))
