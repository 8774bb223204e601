"""Ray on one machine: groups per second of two workers against one process, and its start.

    python -m benchmarks.ray_scale [--quick]

The judge answers at once, so only this machine's own work is measured: the judge server and Ray share
its processors with the workers. A judge that takes seconds hides this work.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import SERVER_LIFETIME, command, digest, ended
from benchmarks.inputs import write_rich, write_small
from benchmarks.results import Result
from benchmarks.results import alone as by_itself
from tests.judge_server import JudgeServer

_RAY = {"engine": "ray"}
_FEW = 32
"""Groups of a run that is mostly start-up."""


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Rows without a promise: they depend on the number of processors."""
    if importlib.util.find_spec("ray") is None:
        yield Result(None, "Ray", None, "ray is not installed")
        return
    groups = 2_000 if quick else 8_000
    few, rich = folder / "few.jsonl", folder / "rich.jsonl"
    write_small(few, _FEW, "line")
    write_rich(rich, groups)
    with JudgeServer(0.0, SERVER_LIFETIME) as server:
        bare, start = (
            _run(few, server, folder),
            _run(few, server, folder, **_RAY),
        )
        one, two = (
            _run(rich, server, folder),
            _run(rich, server, folder, **_RAY),
        )
    yield Result(
        None,
        "Ray: seconds more of a small run",
        start[0] - bare[0],
        f"{start[0]:.1f} s, alone {bare[0]:.1f} s",
    )
    rates = [groups / (one[0] - bare[0]), groups / (two[0] - start[0])]
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )
    detail = f"{rates[1]:.0f} / {rates[0]:.0f} per s on {cores} processors, 20 kB each, without the starts"
    yield Result(
        None,
        "Ray: 2 workers / one process, groups per second",
        rates[1] / rates[0],
        detail,
    )
    same = one[1] == two[1] and bare[1] == start[1]
    yield Result(
        None, "Ray: output equals one process's", float(same), "", ">=", 1.0
    )


def _run(
    source: Path, server: JudgeServer, folder: Path, **options: object
) -> tuple[float, str]:
    """Return the seconds of a run, and the digest of its output."""
    output, ledger = folder / "out.jsonl", folder / "ledger.sqlite"
    for old in folder.glob("ledger.sqlite*"):
        old.unlink()
    cost = ended(
        command(source, output, server.base, ledger=ledger, **options)
    ).cost
    return cost.wall, digest(output)


if __name__ == "__main__":
    sys.exit(by_itself(measure))
