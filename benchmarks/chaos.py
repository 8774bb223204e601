"""A judge that fails a call in five in one way and a call in five in others: is every group scored?

Promise 3, too, for a judge that refuses single calls, as a gateway over many deployments does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import SERVER_LIFETIME, command, ended, statuses
from benchmarks.inputs import write_small
from benchmarks.results import Result, alone
from tests.judge_server import JudgeServer

_REFUSED = {"429": 0.1}
_CHAOS = {
    "429": 0.1,
    "429-bare": 0.1,
    "500": 0.1,
    "drop": 0.05,
    "malformed": 0.05,
    "drip": 0.02,
}


@dataclass(frozen=True, slots=True)
class _Run:
    """The result of one run: seconds, requests, and rollouts with a score."""

    wall: float
    requests: int
    scored: int


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Run the same file with and without errors; wall times include start-up."""
    groups = (
        1_000 if quick else 2_000
    )  # with fewer, the wait of the last refused call is too large a share
    source = write_small(folder / "small.jsonl", groups, "line")
    plain = _run(source, {}, c=32)
    yield _slower(source, "-c 32", plain, c=32)
    yield _slower(source, "without -c", _run(source, {}))
    wild = _run(source, _CHAOS, c=32)
    name = f"chaos, {groups:,} groups"
    yield Result(
        7,
        f"{name}: scored",
        wild.scored / (2 * groups),
        f"{wild.scored:,} rollouts",
        ">=",
        1.0,
    )
    detail = f"{wild.wall:.1f} / {plain.wall:.1f} s"
    yield Result(
        None, f"{name}: wall time / fault-free", wild.wall / plain.wall, detail
    )
    detail = f"{wild.requests:,} requests; {plain.requests:,} without faults"
    yield Result(
        None, f"{name}: requests per group", wild.requests / groups, detail
    )


def _slower(source: Path, how: str, plain: _Run, **options: object) -> Result:
    refused = _run(source, _REFUSED, **options)
    name = (
        f"a call in ten refused with Retry-After 1, {how}: wall time / without"
    )
    detail = f"{refused.wall:.1f} / {plain.wall:.1f} s; {refused.requests:,} / {plain.requests:,} requests"
    return Result(3, name, refused.wall / plain.wall, detail, "<=", 2.5)


def _run(source: Path, chaos: dict[str, float], **options: object) -> _Run:
    output = source.with_name("scored.jsonl")
    with JudgeServer(
        0.2,
        SERVER_LIFETIME,
        latency_spread=0.3,
        chaos=chaos,
        retry_after=1,
        seed=7,
    ) as server:
        end = ended(
            command(source, output, server.base, timeout=2, **options), 0, 1
        )
        return _Run(
            end.cost.wall,
            server.stats()["requests"],
            statuses(output).get("scored", 0),
        )


if __name__ == "__main__":
    sys.exit(alone(measure))
