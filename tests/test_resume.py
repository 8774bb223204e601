"""A run that ends early can be continued, pays for nothing twice and reports its state."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import OutputError
from ruler_cli.judging.panel import PanelJudge
from ruler_cli.ledger.reply_cache import ReplyCache
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.limits import ConcurrencyLimit
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.conftest import ROOT, Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.values import few, needs_full_device
from tests.virtual import World, gate_of, virtually

GROUPS = [group(f"g{i}", 0.1, i / 100, 0.9) for i in range(60)]


def masked(path: Path) -> list[Any]:
    """The output without its times."""
    out = read(path)
    for record in out:
        record["ruler"].pop("judged_at")
        record["ruler"].pop("latency_s")
        record["ruler"].pop("cached")
    return out


def begun(
    tmp_path: Path,
    server: JudgeServer,
    asked: int,
    *more: str,
    groups: Any = GROUPS,
    output: str = "out.jsonl",
) -> subprocess.Popen[str]:
    """A run over groups after so many requests to the judge."""
    write(tmp_path / "in.jsonl", groups)
    command = line(server, *more)
    command[2] = output
    process = subprocess.Popen(
        [sys.executable, "-m", "ruler_cli", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    until(lambda: server.stats()["requests"] >= asked)
    return process


def line(server: JudgeServer, *more: str) -> list[str]:
    """The command line of a run."""
    given = dict(zip(more[::2], more[1::2], strict=True))
    options = {
        "-m": "openai/good",
        "--api-base": server.base,
        "-c": "4",
        **given,
    }
    return [
        "score",
        "in.jsonl",
        "out.jsonl",
        *(text for pair in options.items() for text in pair),
    ]


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition, not for ever."""
    for _ in range(400):
        if holds():
            return
        time.sleep(0.02)
    pytest.fail("it never came")


SIDE_BY_SIDE = ("--ask", "group", "--read", "probability")


@pytest.mark.parametrize(
    ("how", "asked", "questions"),
    few(4, [
        (signal.SIGKILL, (), 1),
        (signal.SIGTERM, (), 1),
        (signal.SIGKILL, ("--api", "systemone"), 1),
        (signal.SIGKILL, SIDE_BY_SIDE, 3),
        (signal.SIGINT, (), 1),
    ]),
)  # fmt: skip
def test_continues(
    how: signal.Signals,
    asked: tuple[str, ...],
    questions: int,
    server: JudgeServer,
    ruler: Ruler,
    tmp_path: Path,
) -> None:
    """After any end of a run the same command makes the same output; only calls in flight are paid twice."""
    server.configure(latency=0.05)
    (tmp_path / "sum.json").write_text('{"version": 1, "groups": 3}')
    process = begun(tmp_path, server, 21, "--summary", "sum.json", *asked)
    process.send_signal(how)
    process.communicate(timeout=30)
    assert not (tmp_path / "out.jsonl").exists()
    ended = json.loads((tmp_path / "sum.json").read_text())
    assert ended["exit_code"] == (None if how == signal.SIGKILL else 128 + how)
    done = ruler(*line(server, *asked))
    assert done.returncode == 0, done.stderr
    assert "answered from the ledger" in done.stderr
    books = server.stats()["books"]
    assert books["contents"] == questions * len(GROUPS)
    assert books["paid_again"] <= (4 if how == signal.SIGKILL else 0)
    resumed = masked(tmp_path / "out.jsonl")
    ruler(*line(server, "--ledger", "none", *asked))
    assert masked(tmp_path / "out.jsonl") == resumed


def test_ledger_deleted(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """A run whose ledger is deleted stops and says so once; the same command goes on with a new one."""
    server.configure(latency=0.05)
    process = begun(tmp_path, server, 21, "--ledger", "kept/ledger.sqlite")
    shutil.rmtree(tmp_path / "kept")
    output = process.communicate(timeout=30)[1]
    assert process.returncode == 1
    reason = "the ledger was deleted or replaced during the run"
    assert output.count(reason) == 1
    assert server.stats()["requests"] < len(GROUPS)
    done = ruler(*line(server, "--ledger", "kept/ledger.sqlite"))
    assert done.returncode == 0, done.stderr
    assert server.stats()["books"]["contents"] == len(GROUPS)


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_drains(
    signum: signal.Signals, code: int, server: JudgeServer, tmp_path: Path
) -> None:
    """After a signal calls in flight finish and are cached, none follows, and a message names the way on."""
    server.configure(latency=1.0)
    process = begun(tmp_path, server, 4)
    process.send_signal(signum)
    output = process.communicate(timeout=30)[1]
    assert process.returncode == code
    assert "4 calls in flight" in output
    assert "to resume: ruler score in.jsonl" in output
    stats = server.stats()
    assert stats["requests"] == stats["books"]["answered"]["calls"] == 4
    assert stats["books"]["abandoned"]["calls"] == 0


def test_slow_reader(server: JudgeServer, tmp_path: Path) -> None:
    """A run that is stopped while nobody reads its stdout ends it with a whole record."""
    large = [
        {**group(f"g{i}", 0.1, 0.9), "note": "x" * 300_000} for i in range(9)
    ]
    process = begun(tmp_path, server, 4, groups=large, output="-")
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    out = process.communicate(timeout=30)[0]
    assert process.returncode == 143
    assert out.endswith("\n")
    assert all(
        json.loads(record)["ruler"]["status"] == "scored"
        for record in out.splitlines()
    )


def test_second_signal(server: JudgeServer, tmp_path: Path) -> None:
    """The second signal does not wait for calls in flight; the summary tells the run and both ends."""
    server.configure(latency=15.0)
    process = begun(tmp_path, server, 4, "--summary", "sum.json")
    began = json.loads((tmp_path / "sum.json").read_text())
    for name in ("exit_code", "ended_at", "output_state"):
        assert began[name] is None
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130
    ended = json.loads((tmp_path / "sum.json").read_text())
    assert (ended["exit_code"], ended["stopped"], ended["output_state"]) == (
        130,
        "interrupted",
        "kept",
    )
    assert ended["started_at"] == began["started_at"] <= ended["ended_at"]
    until(lambda: server.stats()["in_flight"] == 0)


def test_failed_before(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """A refused request is asked again with --retry-failed only, one without an answer by each run; a reply stays."""
    write(tmp_path / "in.jsonl", GROUPS[:5])
    for status, code in (("400", 1), ("500", 0)):
        server.reset()
        run = line(server, "-m", f"openai/once-{status}", "--set", "retries=0")
        assert ruler(*run).returncode == 1
        done = ruler(*run)
        assert done.returncode == code
        assert ("5 groups failed in an earlier" in done.stderr) is bool(code)
        for _ in range(2):
            assert ruler(*run, "--retry-failed").returncode == 0
        assert ruler(*run).returncode == 0
        assert server.stats()["requests"] == 10
        out = read(tmp_path / "out.jsonl")
        assert [r["trajectories"][1]["reward"] for r in out] == [
            i / 100 for i in range(5)
        ]


def test_cached_exchange(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """An exchange of several requests is cached whole: a rerun sends none of them."""
    write(tmp_path / "in.jsonl", GROUPS[:5])
    run = line(server, "-m", "openai/once-not-json")
    assert ruler(*run).returncode == 0
    first = masked(tmp_path / "out.jsonl")
    assert ruler(*run).returncode == 0
    assert server.stats()["requests"] == 10
    assert masked(tmp_path / "out.jsonl") == first
    assert {r["ruler"]["cached"] for r in read(tmp_path / "out.jsonl")} == {
        True
    }


def test_cap(server: JudgeServer, ruler: Ruler, tmp_path: Path) -> None:
    """A capped run scores as much as fits, annotates the rest, ends with 4, and a higher cap goes on."""
    write(tmp_path / "in.jsonl", GROUPS)
    options = ("--price", "2,8", "--summary", "sum.json")
    done = ruler(*line(server, *options, "--max-cost", "0.05"))
    assert done.returncode == 4
    summary = json.loads((tmp_path / "sum.json").read_text())
    assert 0.02 < summary["cost_usd"] <= 0.05
    assert summary["scored"] + summary["failed"]["budget"] == len(GROUPS)
    assert "--max-cost 0.05 is reached" in summary["stopped"]
    kinds = [r["ruler"].get("kind") for r in read(tmp_path / "out.jsonl")]
    assert kinds.count("budget") == summary["failed"]["budget"] > 0
    assert ruler(*line(server, *options, "--max-cost", "9")).returncode == 0
    assert server.stats()["requests"] == len(GROUPS)
    assert all(
        t["reward"] is not None
        for r in read(tmp_path / "out.jsonl")
        for t in r["trajectories"]
    )


def test_cap_in_place(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """With INPUT = OUTPUT and `drop`, a cap leaves every record for the run that goes on."""
    write(tmp_path / "in.jsonl", GROUPS)
    run = [
        "in.jsonl" if text == "out.jsonl" else text
        for text in line(server, "--price", "2,8")
    ]
    before = read(tmp_path / "in.jsonl")
    assert (
        ruler(*run, "--on-failure", "drop", "--max-cost", "0.05").returncode
        == 4
    )
    assert read(tmp_path / "in.jsonl") == before
    assert ruler(*run, "--on-failure", "drop").returncode == 0
    assert len(read(tmp_path / "in.jsonl")) == len(GROUPS)
    assert not (tmp_path / "in.jsonl.failed.jsonl").exists()
    assert server.stats()["books"]["paid_again"] == 0


@needs_full_device
def test_unwritable_summary(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """A summary that cannot be written is reported, and does not hide the reason why the run stopped."""
    write(tmp_path / "in.jsonl", GROUPS)
    (tmp_path / "sum").symlink_to("/dev/full")
    done = ruler(
        *line(
            server, "--price", "2,8", "--max-cost", "0.05", "--summary", "sum"
        )
    )
    assert done.returncode == 4
    assert "--summary sum: cannot be written" in done.stderr


def test_max_failures(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """If more groups fail than allowed the run stops with code 1 and keeps its whole records."""
    write(tmp_path / "in.jsonl", GROUPS)
    run = line(server, "-m", "openai/400", "--ledger", "none")
    for most, asked in (("3", 30), ("10%", 40), ("100%", 60)):
        server.reset()
        assert ruler(*run, "--max-failures", most).returncode == 1
        assert server.stats()["requests"] <= asked
        assert (tmp_path / "out.jsonl").exists() is (most == "100%")


def test_fatal_drains(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """An account that runs out during a run ends it with 3; no answered request is sent again."""
    write(tmp_path / "in.jsonl", GROUPS)
    server.configure(latency=0.05, chaos={"quota": 0.05}, seed=1)
    done = ruler(*line(server))
    assert done.returncode == 3
    assert "add credit" in done.stderr
    answered = server.stats()["books"]["answered"]["calls"]
    server.configure(latency=0.05, chaos={})
    assert ruler(*line(server)).returncode == 0
    books = server.stats()["books"]
    assert (books["answered"]["calls"], books["paid_again"]) == (len(GROUPS), 0)
    assert 0 < answered < len(GROUPS)


def test_equal_requests(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """Equal requests are one call, even if both wait for it at once."""
    write(tmp_path / "in.jsonl", [group("same", 0.2, 0.7)] * 10)
    assert ruler(*line(server)).returncode == 0
    assert server.stats()["requests"] == 1
    rewards = [
        [t["reward"] for t in r["trajectories"]]
        for r in read(tmp_path / "out.jsonl")
    ]
    assert rewards == [[0.2, 0.7]] * 10


def test_two_runs_share_a_ledger(
    server: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """Two runs at once on one ledger both succeed, and a third sends no request."""
    server.configure(latency=0.05)
    first = begun(tmp_path, server, 1)
    command = line(server)
    command[2] = "other.jsonl"
    second = ruler(*command)
    first.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0)
    assert masked(tmp_path / "out.jsonl") == masked(tmp_path / "other.jsonl")
    asked = server.stats()["requests"]
    assert ruler(*command).returncode == 0
    assert server.stats()["requests"] == asked


def test_unwritable_ledger() -> None:
    """If the ledger cannot store replies any more the run stops, and still uses the paid ones."""

    class Full(ReplyCache):
        async def keep(self, key: bytes, answer: Reply | CallError) -> None:
            raise OutputError("the ledger is full")

    async def main() -> tuple[Reply | CallError, str, Reply | CallError]:
        caller = Caller(
            World(),
            gate_of(ConcurrencyLimit(1), StopSignal()),
            retries=0,
            timeout=9.0,
        )
        judge = PanelJudge(caller, Full(None, "m", {}))
        first = await judge.call(Request("s", "u", ("a",)))
        return (
            first,
            str(caller.gate.stop_signal.reason),
            await judge.call(Request("s", "v", ("a",))),
        )

    first, reason, second = virtually(main)
    assert first == Reply("ok", Usage(1000, 200, 0, 1))
    assert reason == "the ledger is full"
    assert isinstance(second, CallError)
    assert second.kind == "interrupted"
