"""Promise 2: with a judge's latency L and C calls in flight, wall time against groups × L / C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.inputs import write_small
from benchmarks.results import Result, alone
from benchmarks.scoring import FOREVER, command, ended, statuses
from tests.judge_server import JudgeServer

# (seconds of latency, calls in flight, groups): a multiple of the calls, so that the last round is full
_CASES = ((0.02, 4, 1_000), (0.02, 8, 2_000), (0.2, 64, 4_096), (2.0, 256, 4_096))
_QUICK = ((0.02, 4, 1_000), (0.02, 8, 1_000), (0.2, 64, 1_024), (2.0, 256, 1_024))


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """A row for each latency; start-up is the best of three runs of one group, less its latency.

    L is what the server measured from request to reply: a millisecond more than it is set, since
    an event loop waits in whole milliseconds, and that is the judge's time, not the pool's.
    """
    output = folder / "scored.jsonl"
    one = write_small(folder / "one.jsonl", 1, "line")
    for latency, calls, groups in _QUICK if quick else _CASES:
        source = write_small(folder / "small.jsonl", groups, "line")
        with JudgeServer(latency, FOREVER) as server:
            starts = [ended(command(one, output, server.base, c=calls)).cost.wall for _ in range(3)]
            start = min(starts) - latency
            server.reset()
            cost = ended(command(source, output, server.base, c=calls)).cost
            waited = server.stats()["latency"]
        if (scored := statuses(output).get("scored", 0)) != 2 * groups:
            raise SystemExit(f"only {scored} of {2 * groups} rollouts were scored")
        ideal = groups * waited / calls
        detail = f"{cost.wall:.2f} s, start-up {start:.2f}; ideal {ideal:.2f}; {cost.cpu / cost.wall:.0%} CPU"
        what = f"wall time / ideal, {1000 * latency:g} ms, {calls} in flight, {groups:,} groups"
        yield Result(2, what, (cost.wall - start) / ideal, detail, "<=", 1.03)


if __name__ == "__main__":
    sys.exit(alone(measure))
