"""The share of a whole `score` run's CPU that measuring the coverage of prompts takes.

python -m benchmarks.coverage [--quick]
python -m benchmarks.coverage INPUT OUTPUT BASE     run once and print the share
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import printed
from benchmarks.inputs import write_rich
from benchmarks.results import Result, alone
from ruler_cli.cli import main
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.prompt import PromptLayout
from ruler_cli.types import Group
from tests.judge_server import JudgeServer

_GROUPS, _QUICK = 1_000, 300


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Measure the share in a run of many groups, start-up included."""
    groups = _QUICK if quick else _GROUPS
    source = write_rich(folder / "in.jsonl", groups)
    with JudgeServer(lifetime=600) as server:
        share = printed(
            "benchmarks.coverage", source, folder / "out.jsonl", server.base
        )
    detail = f"{groups} groups, share of the run"
    yield Result(
        None, "CPU: what is shown of the text", share, detail, "<=", 0.01
    )


def _one(source: str, output: str, base: str) -> None:
    """Run `score` in this process, with a clock around each group."""
    add, spent = Coverage.add, 0.0

    def timed(self: Coverage, group: Group, layout: PromptLayout) -> None:
        nonlocal spent
        begin = time.thread_time()
        add(self, group, layout)
        spent += time.thread_time() - begin

    Coverage.add = timed  # type: ignore[method-assign]  # the clock of this measurement
    sys.argv = [
        "ruler",
        "score",
        source,
        output,
        "-m",
        "openai/good",
        "--api-base",
        base,
        "-c",
        "32",
    ]
    sys.argv += ["--progress", "none", "--ledger", f"{output}.ledger"]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    print(spent / time.process_time())


if __name__ == "__main__":
    if len(sys.argv) == 4:
        _one(*sys.argv[1:])
    else:
        sys.exit(alone(measure))
