"""A judge that fails a call in five in one way and a call in five in others: is every group scored?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.inputs import write_small
from benchmarks.results import Result, alone
from benchmarks.scoring import FOREVER, command, ended, statuses
from tests.judge_server import JudgeServer

_CHAOS = {"429": 0.1, "429-bare": 0.1, "500": 0.1, "drop": 0.05, "malformed": 0.05, "drip": 0.02}


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """The same file with and without faults; what is wall time in both is start-up too."""
    groups = 300 if quick else 2_000
    source = write_small(folder / "small.jsonl", groups, "line")
    walls, scored, requests = [], [], []
    for chaos in ({}, _CHAOS):
        output = folder / f"scored-{len(chaos)}.jsonl"
        with JudgeServer(0.2, FOREVER, latency_spread=0.3, chaos=chaos, retry_after=1, seed=7) as server:
            end = ended(command(source, output, server.base, c=32, timeout=2), 0, 1)
            walls.append(end.cost.wall)
            requests.append(server.stats()["requests"])
        scored.append(statuses(output).get("scored", 0))
    name = f"chaos, {groups:,} groups"
    yield Result(7, f"{name}: scored", scored[1] / (2 * groups), f"{scored[1]:,} rollouts", ">=", 1.0)
    detail = f"{walls[1]:.1f} / {walls[0]:.1f} s"
    yield Result(None, f"{name}: wall time / fault-free", walls[1] / walls[0], detail)
    detail = f"{requests[1]:,} requests; {requests[0]:,} without faults"
    yield Result(None, f"{name}: requests per group", requests[1] / groups, detail)


if __name__ == "__main__":
    sys.exit(alone(measure))
