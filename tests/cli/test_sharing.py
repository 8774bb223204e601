"""`--shard` and several `--ledger` as scripts and people see them."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.test_check import rows
from tests.conftest import Ruler, group, read, rollout, write
from tests.judge_server import JudgeServer
from tests.test_resume import GROUPS, begun, line, masked

OFFLINE = ("-m", "offline", "--ledger", "none")
SIMULATED = ("-m", "simulated", "--ledger", "none")
ADJACENT = [
    rollout(j / 10, f"g{i}-{j}", group_id=f"g{i}", reward=j)
    for i in range(9)
    for j in range(3)
]
NEVER = "http://127.0.0.1:9/v1"
"""An address without a server: any request to it fails."""


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Nine groups, a line each."""
    return write(
        tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(9)]
    )


NEEDS_ALL = {
    "--set debias=true": "--set debias: needs all groups",
    "--set standardize=true -m simulated": "--set standardize: needs all groups",
    "--engine ray": "--engine ray: shares all of INPUT among its workers",
}


def test_whole_run_options(ruler: Ruler, dump: Path) -> None:
    """An option that needs all groups is refused for a shard, and the sentence names the run for it."""
    for options, message in NEEDS_ALL.items():
        done = ruler(
            "score",
            dump,
            "out.jsonl",
            *OFFLINE,
            "--shard",
            "1/2",
            *options.split(),
        )
        assert done.returncode == 2
        assert re.search(message, done.stderr), done.stderr
        assert ("the --ledger of every shard" in done.stderr) is (
            "ray" not in options
        )


@pytest.mark.parametrize("grouping", ["auto", "scattered", "line"])
def test_streams(grouping: str, ruler: Ruler, tmp_path: Path) -> None:
    """Every shard of a pipe writes its own groups and its own lines, in their order."""
    records = [*ADJACENT[:9], {"bad": 1}, *ADJACENT[9:]]
    text = "".join(json.dumps(record) + "\n" for record in records)
    result = []
    for number in (1, 2, 3):
        done = ruler(
            "score", "-", f"out-{number}.jsonl", *OFFLINE, "--shard", f"{number}/3", "--grouping", grouping,
            stdin=text,
        )  # fmt: skip
        assert f"shard {number} of 3" in done.stderr
        result += read(tmp_path / f"out-{number}.jsonl")
    names = [record["messages"][1]["content"] for record in ADJACENT]
    assert sorted(
        record["messages"][1]["content"] for record in result
    ) == sorted(names)
    lost = [read(path) for path in tmp_path.glob("*.failed.jsonl")]
    assert lost == [[{"bad": 1}]]


def test_merged(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """Shards, one killed and run again, then one run with all ledgers equal one process, without a call."""
    server.configure(latency=0.05)
    process = begun(tmp_path, server, 6, "--shard", "1/2", "--ledger", "s1")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    for number in (1, 2):
        done = ruler(
            *line(server, "--shard", f"{number}/2", "--ledger", f"s{number}")
        )
        assert done.returncode == 0, done.stderr
    stats = server.stats()["books"]
    assert stats["contents"] == len(GROUPS)
    assert stats["paid_again"] <= 4  # calls in flight
    asked = server.stats()["requests"]
    ledgers = ("--ledger", "main", "--ledger", "s1", "--ledger", "s2")
    result = rows(
        ruler("check", "in.jsonl", "-m", "openai/good", *ledgers).stdout
    )
    assert result["cached"] == "60"
    done = ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "openai/good",
        "--api-base",
        NEVER,
        *ledgers,
    )
    assert done.returncode == 0, done.stderr
    assert "60 groups answered from the ledger" in done.stderr
    merged = masked(tmp_path / "out.jsonl")
    assert server.stats()["requests"] == asked
    ruler(*line(server, "--ledger", "alone"))
    assert masked(tmp_path / "out.jsonl") == merged


def test_pattern_of_ledgers(
    ruler: Ruler, dump: Path, tmp_path: Path, server: JudgeServer
) -> None:
    """A pattern is accepted for ledgers that are only read, not for the first, which is written."""
    judge = ("-m", "hosted_vllm/qwen", "--api-base", server.base)
    for part in (1, 2):
        options = ("--shard", f"{part}/2", "--ledger", f"shard-{part}.sqlite")
        assert (
            ruler(
                "score", dump, f"out-{part}.jsonl", *judge, *options
            ).returncode
            == 0
        )
    last = ("score", dump, "out.jsonl", *judge, "--cached-only")
    done = ruler(*last, "--ledger", "all.sqlite", "--ledger", "shard-*.sqlite")
    assert (done.returncode, "9 of 9 groups scored" in done.stderr) == (
        0,
        True,
    ), done.stderr
    lone = ruler(*last, "--ledger", "shard-*.sqlite")
    assert (
        lone.returncode,
        "--ledger shard-*.sqlite: is a pattern" in lone.stderr,
    ) == (
        2,
        True,
    )
    none = ruler(*last, "--ledger", "all.sqlite", "--ledger", "part-*.sqlite")
    assert (none.returncode, "no file matches" in none.stderr) == (2, True)
    assert not list(tmp_path.glob("*[*]*"))
