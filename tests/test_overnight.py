"""Unattended runs: files that vanish, and a judge that fails at night."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from ruler_cli.files.index import Index
from ruler_cli.files.scratch import digest
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.limits import (
    Budget,
    ConcurrencyLimit,
)
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Line, Record, Reply, Request, Usage
from tests.conftest import ROOT, Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.runs import Stage, Stub, truthful
from tests.virtual import World, gate_of, virtually


def test_index_closed_while_read() -> None:
    """An index that is closed under the thread that fills it ends that thread, not the process."""
    for _ in range(20):
        index, begun = Index(), threading.Event()
        ended: list[Exception] = []

        def fill(
            index: Index = index,
            ended: list[Exception] = ended,
            begun: threading.Event = begun,
        ) -> None:
            try:
                for number in range(10**6):
                    key = digest(str(number))
                    index.add(
                        Record(Line(number, 0, b""), ()), key, None, mine=True
                    )
                    if number == 4_000:
                        begun.set()
            except Exception as error:  # noqa: BLE001 - whatever ends the thread
                ended.append(error)

        thread = threading.Thread(target=fill, args=(index, ended, begun))
        thread.start()
        assert begun.wait(10)
        index.close()
        thread.join(10)
        assert len(ended) == 1


def test_outage_that_is_waited_for(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """After `--set max_outage` seconds a run ends; its last lines name the error, the judge and the address."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(12)])
    usual = (
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "openai/500",
        "--api-base",
        server.base,
    )
    done = ruler(
        *usual, "--set", "max_outage=1", "-c", "12", "--summary", "summary.json"
    )
    cause = f"the judge answered 500: The server had an error. (openai/500 at {server.base})"
    assert done.returncode == 3
    assert f" s; the last error: {cause}\n" in done.stderr
    assert (
        cause in json.loads((tmp_path / "summary.json").read_text())["stopped"]
    )
    wrong = ruler(*usual, "--set", "max_outage=-1")
    assert (wrong.returncode, "--set max_outage" in wrong.stderr) == (2, True)


def test_interrupted_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is interrupted while its judge is down says so at its end, with the cause."""
    error = CallError(
        "transport", "the judge answered 503: no upstream", "call", billed=False
    )

    def say(request: Request) -> Reply | CallError:
        return error if anyio.current_time() > 3 else truthful(request)

    groups = [group(f"g{i}", 0.1, 0.9) for i in range(200)]
    stage = Stage(tmp_path, monkeypatch, groups, Stub(say=say))
    done = stage.run(until=60, max_outage=1e6)
    assert done.stopped is not None
    cause = "interrupted; the judge is down: the judge answered 503: no upstream (one)"
    assert (
        str(done.stopped),
        done.stopped.exit_code,
        done.summary.stopped,
    ) == (
        cause,
        130,
        cause,
    )
    stage.judges["one"].say = truthful
    stage.forget()
    whole = stage.run(until=60)
    assert str(whole.stopped) == "interrupted"


def test_cap_without_usage() -> None:
    """An endpoint that reports no usage still gets many calls at once under a cap."""
    judge = World(usage=Usage())

    async def main() -> int:
        gate = gate_of(
            ConcurrencyLimit(8),
            StopSignal(),
            budget=Budget(100.0),
            cost=lambda usage: usage.prompt * 1e-6,
        )
        caller = Caller(judge, gate, retries=0, timeout=600.0)
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(caller.call, Request("s", str(number), ("a",)))
        return judge.most

    assert virtually(main) == 8


def test_closed_stderr(server: JudgeServer, tmp_path: Path) -> None:
    """A run goes on if stderr is closed, at once or later."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(10)])
    score = [
        sys.executable,
        "-m",
        "ruler_cli",
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "openai/400",
    ]
    score += ["--api-base", server.base, "--ledger", "none"]
    for shell in ('"$@" 2>&1 >/dev/null | head -1', '"$@" 2>&-'):
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        subprocess.run(
            ["bash", "-c", shell, "bash", *score],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=60,
            check=False,
            capture_output=True,
        )
        assert len(read(tmp_path / "out.jsonl")) == 10


def test_share_of_a_file(ruler: Ruler, tmp_path: Path) -> None:
    """--max-failures P% is a share of the whole file, also of the lines that its first reading finds."""
    records = "".join(
        json.dumps(group(f"g{i}", 0.1, 0.9)) + "\n" for i in range(100)
    )
    (tmp_path / "in.jsonl").write_text(records + "no JSON\n" * 4)
    assert (
        ruler(
            "score",
            "in.jsonl",
            "out.jsonl",
            "-m",
            "offline",
            "--max-failures",
            "5%",
        ).returncode
        == 1
    )
    assert len(read(tmp_path / "out.jsonl")) == 100
    done = ruler(
        "score",
        "in.jsonl",
        "two.jsonl",
        "-m",
        "offline",
        "--max-failures",
        "3%",
    )
    assert "--max-failures 3%" in done.stderr
    assert not (tmp_path / "two.jsonl").exists()


def test_what_cannot_be_sent(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """A parameter that cannot be sent is bad usage, reported before any call."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    usual = (
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "openai/good",
        "--api-base",
        server.base,
    )
    assert ruler(*usual, "-p", "seed=99999999999999999999").returncode == 2
    assert server.stats()["requests"] == 0


def test_few_files(server: JudgeServer, tmp_path: Path) -> None:
    """A system that allows few open files makes a run slow or is reported; the run never hangs."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    score = [
        sys.executable,
        "-m",
        "ruler_cli",
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "openai/good",
    ]
    score += ["--api-base", server.base, "--ledger", "none"]
    for more, code in (([], 0), (["-c", "500"], 2)):
        done = subprocess.run(
            ["bash", "-c", 'ulimit -n 90; "$@"', "bash", *score, *more],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=60,
            check=False,
            capture_output=True,
        )
        assert done.returncode == code, done.stderr
