"""CPU of a request about one rollout, against a request that shows a whole group.

    python -m benchmarks.each [--quick]

Groups of 4 rollouts are scored against the tests' server on loopback: 10,000 of them by a request each, and 2,500 of
them by a request about each rollout, so that both runs make 10,000 requests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import SERVER_LIFETIME, command, ended
from benchmarks.inputs import write_rich
from benchmarks.results import Result, alone
from tests.judge_server import JudgeServer

_ROLLOUTS = 4
_REQUESTS, _QUICK = 10_000, 2_000


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """The ratio of CPU for as many requests, start-up and files included."""
    requests = _QUICK if quick else _REQUESTS
    cpu = {}
    with JudgeServer(lifetime=SERVER_LIFETIME) as server:
        for ask, groups in (
            ("group", requests),
            ("each", requests // _ROLLOUTS),
        ):
            source = write_rich(folder / f"{ask}.jsonl", groups, _ROLLOUTS)
            server.reset()
            line = command(
                source, folder / f"{ask}.out.jsonl", server.base, ask=ask, c=32
            )
            cpu[ask] = ended(line).cost.cpu
            made = server.stats()["requests"]
            if made != requests:
                raise SystemExit(
                    f"{ask}: {made} requests in place of {requests}"
                )
    each, group = (1000 * cpu[ask] / requests for ask in ("each", "group"))
    yield Result(
        None,
        f"--ask each: CPU of {requests:,} requests, against requests about groups of {_ROLLOUTS}",
        each / group,
        f"{each:.2f} ms against {group:.2f} ms a request",
        "<=",
        1.0,
    )


if __name__ == "__main__":
    sys.exit(alone(measure))
