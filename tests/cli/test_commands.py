"""The command line as scripts see it: exit codes, streams, files and sentences."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from ruler_cli.types import words_of
from tests.conftest import ROOT, Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.values import few

OK = [group("a", 0.1, 0.9), group("b", 0.8, 0.2)]


def test_pipe(process: Ruler, server: JudgeServer) -> None:
    """From stdin to stdout: records only on stdout, everything else on stderr."""
    text = "".join(json.dumps(g) + "\n" for g in OK)
    done = process(
        *f"score - - -m openai/good --api-base {server.base}".split(),
        stdin=text,
    )
    assert done.returncode == 0
    assert [
        len(json.loads(line)["trajectories"])
        for line in done.stdout.splitlines()
    ] == [2, 2]
    assert "2 of 2 groups scored" in done.stderr


def test_bad_lines(ruler: Ruler, tmp_path: Path) -> None:
    """A line that cannot be read is named and written verbatim to the failed file; the others are scored.

    The end names that file, and says that lines and trajectories are in it.
    """
    bad = [
        b"{torn",
        b"[1]",
        b'{"trajectories": 3}',
        b'{"no": "messages"}',
        b"\xff\xfe{}",
    ]
    good = json.dumps(OK[0]).encode()
    lines = [good, *bad, good.replace(b'"a"', b'"c"')]
    (tmp_path / "in.jsonl").write_bytes(
        b"\r\n".join([*lines, b""]) + b'{"trajectories": ['
    )
    done = ruler(*words_of("score in.jsonl out.jsonl -m offline"))
    assert done.returncode == 1, done.stderr
    assert [r["group_id"] for r in read(tmp_path / "out.jsonl")] == ["a", "c"]
    failed = (tmp_path / "out.jsonl.failed.jsonl").read_bytes().splitlines()
    assert failed == [*bad, b'{"trajectories": [']
    for number in (2, 3, 4, 5, 6, 8):
        assert f"in.jsonl: line {number} " in done.stderr
    assert "lines and trajectories are in out.jsonl.failed" in done.stderr


def test_key_is_secret(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """A key reaches the judge's header and no other place."""
    write(tmp_path / "in.jsonl", OK)
    key = "sk-verysecret-0123456789"
    run = f"score in.jsonl out.jsonl --api-base {server.base} --api-key-env MY_KEY --debug"
    args = run.split()
    for cue in ("good", "401", "500", "html"):
        done = ruler(
            *args, *f"-m openai/{cue} --set retries={0}".split(), MY_KEY=key
        )
        written = b"".join(p.read_bytes() for p in tmp_path.iterdir())
        assert key not in done.stdout + done.stderr
        assert key.encode() not in written
    assert server.stats()["keys"] == [f"Bearer {key}"]


def test_key_stays_with_its_host(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """OPENAI_API_KEY is not sent to another host unless the user names it for that host."""
    write(tmp_path / "in.jsonl", OK)
    secret = {"OPENAI_API_KEY": "sk-verysecret-0123456789"}
    done = ruler(
        *f"score in.jsonl out.jsonl -m openai/good --api-base {server.base}".split(),
        **secret,
    )
    assert done.returncode == 0
    assert not any("verysecret" in str(k) for k in server.stats()["keys"])


def test_params_and_rubric(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """`-p` values are parsed as JSON if possible; the judge gets the rubric, or a group's own one."""
    write(
        tmp_path / "in.jsonl",
        [OK[0], {**OK[1], "rubric": "Only brevity counts."}],
    )
    (tmp_path / "rubric.txt").write_text("Only politeness counts.\n")
    args = [
        "-p",
        "temperature=0.2",
        "-p",
        "reasoning_effort=low",
        "--rubric",
        "@rubric.txt",
        "-c",
        "1",
    ]
    ruler(
        *f"score in.jsonl out.jsonl -m openai/good --api-base {server.base}".split(),
        *args,
    )
    first, two = server.requests()
    assert (first["temperature"], first["reasoning_effort"]) == (0.2, "low")
    assert "Only politeness counts." in first["messages"][0]["content"]
    assert "Only brevity counts." in two["messages"][0]["content"]


def test_signals(server: JudgeServer, tmp_path: Path) -> None:
    """A signal ends the run with its exit code, whole records in the partial file and the next command."""
    write(
        tmp_path / "in.jsonl",
        [*OK, *(group(f"h{i}", 0.1, 0.2) for i in range(50))],
    )
    args = [
        *f"score in.jsonl out.jsonl -m openai/slow --api-base {server.base} -c 1".split(),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "ruler_cli", *args],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for _ in range(200):
        if server.stats()["requests"] >= 2:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stderr = process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert "to resume: ruler score in.jsonl" in stderr
    assert read(tmp_path / "out.jsonl.partial")
    assert not (tmp_path / "out.jsonl").exists()


def test_closed_pipe(tmp_path: Path) -> None:
    """A reader like `head` that closes the pipe ends the run without a message."""
    write(
        tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.2) for i in range(2000)]
    )
    command = f"{sys.executable} -m ruler_cli score in.jsonl - -m offline --progress none | head -1"
    done = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def until_waiting(process: subprocess.Popen[bytes], stream: str) -> None:
    """Wait until the process handles signals and, for stdout, until its pipe is full."""
    assert process.stdout is not None
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():  # a system without /proc
        time.sleep(4)
        return
    seen: bytes | None = None
    for _ in range(100):
        time.sleep(0.2)
        caught = (
            int(re.findall(r"SigCgt:\s*(\w+)", status.read_text())[0], 16)
            >> (signal.SIGTERM - 1)
            & 1
        )
        before, seen = (
            seen,
            fcntl.ioctl(process.stdout, termios.FIONREAD, b"\0" * 4)
            if caught
            else None,
        )
        if (
            seen is not None
            and seen == before
            and (stream == "stdin" or any(seen))
        ):
            return
    pytest.fail("it never came to wait")


@pytest.mark.parametrize("stream", few(1, ["stdin", "stdout"]))
def test_signal_during_a_wait(stream: str, tmp_path: Path) -> None:
    """A signal ends a run that waits for a pipe to give or take data."""
    write(
        tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.2) for i in range(3000)]
    )
    args = ["-", "o.jsonl"] if stream == "stdin" else ["in.jsonl", "-"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ruler_cli", "score", *args, "-m", "offline"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        until_waiting(process, stream)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()


def test_hostile_key(ruler: Ruler, tmp_path: Path) -> None:
    """A line break in a group's key begins no line of its own on stderr."""
    write(
        tmp_path / "in.jsonl",
        [*OK, {"group_id": "a\nruler: all is well", "trajectories": []}],
    )
    stderr = ruler(*words_of("score in.jsonl o.jsonl -m offline")).stderr
    assert not any(
        line.startswith("ruler: all is well") for line in stderr.splitlines()
    )


def test_ledger_of_a_variable(ruler: Ruler, tmp_path: Path) -> None:
    """A command that is advised names the ledger that a variable gave this one."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    judge = ("-m", "hosted_vllm/x", "--api-base", "http://127.0.0.1:9/v1")
    for words in (
        ("score", "in.jsonl", "out.jsonl", *judge),
        ("batch", "export", "in.jsonl", "requests.jsonl", *judge),
    ):
        done = ruler(*words, RULER_LEDGER="own.db")
        assert "--ledger own.db" in done.stderr, done.stderr
        typed = ruler(*words, "--ledger", "typed.db", RULER_LEDGER="own.db")
        assert "--ledger typed.db" in typed.stderr
        assert "own.db" not in typed.stderr


def test_dropped_records(ruler: Ruler, tmp_path: Path) -> None:
    """Dropped records stand whole in the failed file, and a run can score that file."""
    write(
        tmp_path / "in.jsonl",
        [*OK, {"group_id": "c", "trajectories": [{"messages": []}]}],
    )
    assert (
        ruler(
            *words_of("score in.jsonl o.jsonl -m offline --on-failure drop"),
        ).returncode
        == 1
    )
    assert [r["group_id"] for r in read(tmp_path / "o.jsonl.failed.jsonl")] == [
        "c"
    ]
    assert (
        ruler(
            *words_of("score o.jsonl.failed.jsonl p.jsonl -m offline")
        ).returncode
        == 1
    )
