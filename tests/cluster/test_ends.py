"""What ends early on Ray: a worker, the driver, or the whole run; and the limits of all workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.conftest import Score, timeless
from tests.conftest import ROOT
from tests.judge_server import JudgeServer

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # Ray's own, of which there are many

_LONGEST = 90.0


def workers() -> list[int]:
    """The processes of all workers of this session's cluster."""
    parents, found = dict[int, int](), list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            title, state = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
        except OSError:
            continue
        parents[int(entry.name)] = int(state.rpartition(")")[2].split()[1])
        if title.startswith(b"ray::Worker"):
            found.append(int(entry.name))
    return [number for number in found if _below(number, parents)]


def _below(number: int, parents: dict[int, int]) -> bool:
    """Whether this process has started it, over others."""
    while number and number != os.getpid():
        number = parents.get(number, 0)
    return bool(number)


def until(holds: Callable[[], object]) -> None:
    """Wait for something, not for ever."""
    end = time.monotonic() + _LONGEST
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@pytest.fixture
def begun(
    server: JudgeServer, cluster: str, groups: Path, tmp_path: Path
) -> Callable[[int], subprocess.Popen[str]]:
    """A run in a process of its own that the judge has been asked so many times by."""

    def start(asked: int) -> subprocess.Popen[str]:
        judge = ["-m", "openai/fine", "--api-base", server.base, "--ledger", "ray.jsonl.sqlite"]
        command = ["score", groups.name, "ray.jsonl", *judge, "--engine", "ray", "--ray-address", cluster]
        process = subprocess.Popen(
            [sys.executable, "-m", "ruler_cli", *command, "-c", "6"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        until(lambda: server.stats()["requests"] >= asked or process.poll() is not None)
        return process

    return start


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds processes in /proc")
def test_a_killed_worker(
    score: Score, server: JudgeServer, begun: Callable[[int], subprocess.Popen[str]], tmp_path: Path
) -> None:
    """A worker that is killed changes nothing: another takes over, and only what was in flight is paid twice;
    all workers together had no more calls in flight than were asked for."""
    server.configure(latency=0.3)
    process = begun(20)
    os.kill(workers()[0], signal.SIGKILL)
    said = process.communicate(timeout=_LONGEST)[1]
    assert process.returncode == 0, said
    stats = server.stats()
    assert stats["books"]["contents"] == 80
    assert stats["books"]["paid_again"] <= 6
    server.configure(latency=0.0)
    score("one.jsonl", ray=False)
    assert timeless(tmp_path / "ray.jsonl") == timeless(tmp_path / "one.jsonl")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends(
    how: signal.Signals,
    score: Score,
    server: JudgeServer,
    begun: Callable[[int], subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    """However the driver ends, its workers end, what was kept is there, and the same command goes on."""
    server.configure(latency=0.3)
    process = begun(20)
    assert server.stats()["in_flight_max"] <= 6
    process.send_signal(how)
    said = process.communicate(timeout=_LONGEST)[1]
    assert process.returncode == (130 if how == signal.SIGINT else -9), said
    until(lambda: not workers())
    assert not (tmp_path / "ray.jsonl").exists()
    if how == signal.SIGINT:
        assert "to go on: ruler score" in said
        assert server.stats()["books"]["abandoned"]["calls"] == 0
    server.configure(latency=0.0)
    done = score("ray.jsonl", ray=how == signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    assert "answered from the ledger" in done.stderr
    books = server.stats()["books"]
    assert books["contents"] == 80
    assert books["paid_again"] <= (6 if how == signal.SIGKILL else 0)


def test_a_judge_that_refuses(score: Score, groups: Path, tmp_path: Path) -> None:
    """A key that the judge refuses ends the run as in one process."""
    done = score("ray.jsonl", model="401")
    assert done.returncode == 3
    here = score("one.jsonl", model="401", ray=False)
    assert done.stderr.splitlines()[-2] == here.stderr.splitlines()[-2]
    assert not (tmp_path / "ray.jsonl").exists()
