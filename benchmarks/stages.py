"""Every stage of a run over one file, at three sizes: CPU, memory and bytes.

A figure is the difference of two sizes, so that none includes the start-up; the growth is that
of the two larger sizes over that of the two smaller ones, and is 1 if a group costs the same in both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.commands import (
    SERVER_LIFETIME,
    Cost,
    command,
    ended,
    printed,
    run,
)
from benchmarks.inputs import write_rich
from benchmarks.projection import SHARDS, SIZE
from benchmarks.promises import TAU_BENCH
from tests.judge_server import JudgeServer

Write = Callable[[Path, int], Path]
_MODEL, _ANTHROPIC = "openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5"
_LEAST_CPU = 0.5
"""Least seconds of CPU in the difference of two runs that show growth, and not the machine's noise."""
_LINES = 100
"""Groups whose request lines for Anthropic are measured: litellm makes them, and all are alike."""


@dataclass(slots=True)
class FileCosts:
    """The costs of one file: cost by stage, and counts of each group or request by name."""

    groups: int
    cost: dict[str, Cost] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stages:
    """CPU of a group by stage (ms), its growth, the peak memory (MiB) by size, and the counts."""

    ms: dict[str, float]
    growth: dict[str, float]
    peaks: tuple[float, ...]
    counts: dict[str, float]


def kinds() -> dict[str, Write]:
    """Return each kind of group with the function that writes a file of it."""
    result: dict[str, Write] = {"20 kB a group": write_rich}
    if TAU_BENCH.exists():
        result["tau-bench"] = write_tau_bench
    return result


def write_tau_bench(path: Path, groups: int) -> Path:
    """Write tau-bench's rollouts trial after trial, so many groups of 8, no two of them alike.

    The file's 50 groups have 4 rollouts: each is written twice, with another end, and every 50 groups the
    policy at the head of all conversations names another case.
    """
    result = [
        json.loads(line)
        for line in TAU_BENCH.read_text(encoding="utf-8").splitlines()
    ]
    rollouts: dict[tuple[int, int], dict[str, Any]] = {
        (r["task_id"], r["trial"]): r for r in result
    }
    tasks = sorted({task for task, _ in rollouts})
    trials = sorted({trial for _, trial in rollouts})
    with path.open("w", encoding="utf-8") as file:
        for trial in range(SIZE):
            for number in range(groups):
                copy, task = divmod(number, len(tasks))
                source = rollouts[tasks[task], trials[trial % len(trials)]]
                first, *rest, last = source["traj"]
                first = {
                    **first,
                    "content": f"{first['content']}\nCase {copy}.",
                }
                last = {
                    **last,
                    "content": f"{last['content']}{' Bye.' * (trial // len(trials))}",
                }
                record = {
                    **source,
                    "task_id": number,
                    "trial": trial,
                    "traj": [first, *rest, last],
                }
                file.write(json.dumps(record) + "\n")
    return path


def measure(folder: Path, write: Write, sizes: tuple[int, int, int]) -> Stages:
    """Run every stage at each size."""
    with JudgeServer(lifetime=SERVER_LIFETIME) as server:
        files = [
            _file_costs(folder, write, groups, server.base) for groups in sizes
        ]
    ms: dict[str, float] = {}
    growth: dict[str, float] = {}
    for stage in files[0].cost:
        steps = [
            large.cost[stage].cpu - small.cost[stage].cpu
            for small, large in pairwise(files)
        ]
        groups = [
            large.groups - small.groups for small, large in pairwise(files)
        ]
        ms[stage] = 1000 * steps[-1] / groups[-1]
        if stage != "shard" and steps[0] >= _LEAST_CPU:
            growth[stage] = ms[stage] / (1000 * steps[0] / groups[0])
    ms["foreign"] = (SHARDS * ms.pop("shard") - ms["render"]) / (SHARDS - 1)
    peaks = tuple(
        max(cost.peak for cost in each.cost.values()) / (1 << 20)
        for each in files
    )
    counts = {**files[-1].counts, "anthropic": _anthropic_line(folder, write)}
    return Stages(ms, growth, peaks, counts)


def _file_costs(
    folder: Path, write: Write, groups: int, base: str
) -> FileCosts:
    here = folder / f"size-{groups}"
    here.mkdir()
    result, source = FileCosts(groups), write(here / "in.jsonl", groups)
    _run_all(result, here, source, base)
    _count_tokens(result.counts, source, here / "live.sqlite")
    for file in here.iterdir():
        file.unlink()
    here.rmdir()
    return result


def _run_all(result: FileCosts, here: Path, source: Path, base: str) -> None:
    """Run every stage, one after another."""
    groups, cost, counts = result.groups, result.cost, result.counts
    ledger, live, out = (
        here / "ledger.sqlite",
        here / "live.sqlite",
        here / "out.jsonl",
    )
    common = ("-m", _MODEL, "--ledger", ledger)
    counts["input"] = source.stat().st_size / groups / SIZE
    cost["check"] = run("ruler_cli", "check", source, *common)
    cost["render"] = run(
        "ruler_cli", "batch", "export", source, here / "requests.jsonl", *common
    )
    parts = sorted(here.glob("requests*.jsonl"))
    counts["openai"] = sum(part.stat().st_size for part in parts) / groups
    replies = [part.with_suffix(".replies") for part in parts]
    for part, answered in zip(parts, replies, strict=True):
        run("benchmarks.engine", "openai", part, answered)
        part.unlink()
    counts["reply"] = sum(each.stat().st_size for each in replies) / groups
    shard = here / "shard.jsonl"
    cost["shard"] = run(
        "ruler_cli",
        "batch",
        "export",
        source,
        shard,
        *common,
        "--shard",
        f"1/{SHARDS}",
    )
    cost["import"] = run(
        "ruler_cli", "batch", "import", *replies, "--ledger", ledger
    )
    line = command(source, out, None, m=_MODEL, ledger=ledger, cached_only=True)
    cost["cached"] = ended(line).cost
    counts["ledger"] = ledger.stat().st_size / groups
    counts["output"] = out.stat().st_size / groups / SIZE
    cost["live"] = ended(
        command(source, here / "live.jsonl", base, m=_MODEL, ledger=live)
    ).cost


def _count_tokens(counts: dict[str, float], source: Path, ledger: Path) -> None:
    """Count the tokens of a request: as the judge server counts them, and as `check` estimates them."""
    reported = printed(
        "ruler_cli", "ledger", "stats", "--ledger", ledger, "--json"
    )["models"][0]
    requests = reported["rows"]["answer"]
    counts["server_prompt"] = reported["prompt_tokens"] / requests
    counts["server_completion"] = reported["completion_tokens"] / requests
    estimate = printed(
        "ruler_cli", "check", source, "-m", _MODEL, "--ledger", "none", "--json"
    )
    for part in ("prompt", "completion"):
        counts[part] = (
            estimate[f"{part}_tokens"]["expected"]
            / estimate["calls"]["expected"]
        )


def _anthropic_line(folder: Path, write: Write) -> float:
    """Return the bytes of one request in Anthropic's form."""
    source, requests = (
        write(folder / "few.jsonl", _LINES),
        folder / "few.requests.jsonl",
    )
    run(
        "ruler_cli",
        "batch",
        "export",
        source,
        requests,
        "-m",
        _ANTHROPIC,
        "--ledger",
        "none",
    )
    size = requests.stat().st_size / _LINES
    source.unlink()
    requests.unlink()
    return size
