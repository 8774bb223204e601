"""Serve until stdin closes or the lifetime is over; see the package."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource

from tests.judge_server.batch_apis import BatchApis
from tests.judge_server.conduct import Conduct
from tests.judge_server.judge import Judge
from tests.judge_server.server import serve_command


def main() -> None:
    """Read the options, and serve."""
    parser = argparse.ArgumentParser(
        description="A judge that misbehaves on cue."
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--lifetime", type=float, default=600.0, help="seconds until it ends"
    )
    parser.add_argument(
        "--conduct",
        type=json.loads,
        default={},
        help="fields of Conduct, as JSON",
    )
    parser.add_argument(
        "--batches", type=json.loads, default={}, help="the same of batches"
    )
    options = parser.parse_args()
    # A thousand connections exceed the usual soft limit; macOS allows no more than 10240.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(soft, min(hard, 10240)), hard)
    )
    judge = Judge(Conduct().with_(options.conduct))
    batches = BatchApis(judge, **options.batches)
    # an interruption reaches every process of a terminal
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve_command(batches, options.port, options.lifetime))


if __name__ == "__main__":
    main()
