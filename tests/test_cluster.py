"""Runs on Ray: OUTPUT equals one process's, nothing is paid twice, and limits hold for the whole run."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.cli import score
from tests.conftest import ROOT, Ruler, group, write
from tests.judge_server import JudgeServer

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings("ignore"),  # Ray warns often
]
_TIMES = re.compile(
    rb'"judged_at": ?"[^"]+"|"latency_s": ?[0-9.e+-]+|"cached": ?(true|false)'
)
_LONGEST = 120.0


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """Start two nodes on this machine, each with space for a worker; return their address."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", str(ROOT)
        )  # Ray's processes find this package there
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        small = {
            "num_cpus": 1,
            "object_store_memory": 100 << 20,
            "include_dashboard": False,
        }
        ray_nodes = Cluster(initialize_head=True, head_node_args=small)
        ray_nodes.add_node(num_cpus=1, object_store_memory=100 << 20)
    yield ray_nodes.address
    ray_nodes.shutdown()  # type: ignore[no-untyped-call]  # ray's own


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """An input of eighty groups of four rollouts."""
    return write(tmp_path / "in.jsonl", many(80))


def many(number: int) -> list[Any]:
    """Groups of four rollouts each."""
    return [
        group(f"g{i}", *((7 * i + 13 * k) % 100 / 100 for k in range(4)))
        for i in range(number)
    ]


def arguments(server: JudgeServer, output: str, *more: str) -> list[str]:
    """The arguments of a run with a ledger and a summary beside OUTPUT."""
    files = ["--ledger", f"{output}.sqlite", "--summary", f"{output}.json"]
    return [
        "score",
        "in.jsonl",
        output,
        "-m",
        "openai/fine",
        "--api-base",
        server.base,
        *files,
        *more,
    ]


def ray_options(*more: str) -> tuple[str, ...]:
    """The options of a run on Ray."""
    return ("--engine", "ray", *more)


def started(
    folder: Path, server: JudgeServer, requests: int, *more: str
) -> subprocess.Popen[str]:
    """Start a run on Ray in another process, and wait until the judge has received so many requests."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ruler_cli",
            *arguments(server, "ray.jsonl", *ray_options(*more)),
        ],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    until(
        lambda: (
            server.stats()["requests"] >= requests or process.poll() is not None
        )
    )
    return process


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, for a bounded time."""
    end = time.monotonic() + _LONGEST
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def timeless(path: Path) -> bytes:
    """Return an output without times and without `cached`."""
    return _TIMES.sub(b"", path.read_bytes())


def summary(path: Path) -> dict[str, Any]:
    """Return a run's summary without times, settings and names of files."""
    facts: dict[str, Any] = json.loads(Path(f"{path}.json").read_text())
    # workers add their costs in another order
    facts["usage"]["usd"] = round(facts["usage"]["usd"], 9)
    return {
        name: round(value, 9) if isinstance(value, float) else value
        for name, value in facts.items()
        if name
        not in (
            "seconds",
            "most_in_flight",
            "started_at",
            "ended_at",
            "settings",
            "output",
        )
    }


def workers_of(number: int) -> list[int]:
    """The processes of Ray's workers that are descendants of a process."""
    parents, workers = dict[int, int](), list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            title, state = (
                (entry / "cmdline").read_bytes(),
                (entry / "stat").read_text(),
            )
        except OSError:
            continue
        parents[int(entry.name)] = int(state.rpartition(")")[2].split()[1])
        if title.startswith(b"ray::Worker"):
            workers.append(int(entry.name))

    def is_descendant(each: int) -> bool:
        while each and each != number:
            each = parents.get(each, 0)
        return bool(each)

    return [each for each in workers if is_descendant(each)]


def same_as_one_process(
    process: Ruler, server: JudgeServer, folder: Path, *more: str
) -> None:
    """Assert that a run in one process writes the same."""
    server.configure(latency=0.0)
    assert process(*arguments(server, "one.jsonl", *more)).returncode == 0
    assert timeless(folder / "ray.jsonl") == timeless(folder / "one.jsonl")


@pytest.mark.long
def test_equality(
    process: Ruler, server: JudgeServer, groups: Path, tmp_path: Path
) -> None:
    """Two workers write the bytes of one process, with as many calls, as few in flight, the same summary."""
    options = (
        "--passes",
        "3",
        "--set",
        "debias=true",
        "-c",
        "3",
        "--rpm",
        "60000",
        "--max-cost",
        "9",
        "--price",
        "1,2",
    )
    there = process(*arguments(server, "ray.jsonl", *ray_options(*options)))
    assert there.returncode == 0, there.stderr
    stats = server.stats()
    assert (stats["requests"], stats["books"]["paid_again"]) == (240, 0)
    assert stats["in_flight_max"] <= 3
    same_as_one_process(process, server, tmp_path, *options)
    assert summary(tmp_path / "ray.jsonl") == summary(tmp_path / "one.jsonl")


@pytest.mark.long
def test_options_for_all_groups(
    process: Ruler,
    server: JudgeServer,
    groups: Path,
    cluster: str,
    tmp_path: Path,
) -> None:
    """Options that need all groups work as in one process, also with workers on two nodes."""
    others = (
        "-m",
        "openai/other",
        "--set",
        "standardize=true",
        "--escalate",
        "openai/stronger",
    )
    options = ("--set", "adaptive=true", "--passes", "3", *others)
    run = arguments(
        server, "ray.jsonl", *ray_options("--ray-address", cluster, *options)
    )
    done = process(*run)
    assert done.returncode == 0, done.stderr
    requests, books = server.stats()["requests"], server.stats()["books"]
    assert books["paid_again"] == 0
    same_as_one_process(process, server, tmp_path, *options)
    assert server.stats()["requests"] == 2 * requests
    again = process(*run)
    assert "80 groups answered from the ledger" in again.stderr, again.stderr
    assert server.stats()["requests"] == 2 * requests


@pytest.mark.long
def test_rows_for_another_node(
    process: Ruler,
    server: JudgeServer,
    groups: Path,
    cluster: str,
    tmp_path: Path,
) -> None:
    """A worker on another node begins with the ledger's rows for the run's judges: nothing is paid twice."""
    assert (
        process(*arguments(server, "ray.jsonl", "--shard", "1/3")).returncode
        == 0
    )
    run = arguments(server, "ray.jsonl", *ray_options("--ray-address", cluster))
    done = process(*run)
    assert done.returncode == 0, done.stderr
    assert server.stats()["requests"] == 80
    same_as_one_process(process, server, tmp_path)


@pytest.mark.long
def test_max_cost(
    process: Ruler, server: JudgeServer, groups: Path, tmp_path: Path
) -> None:
    """The cap is for the whole run: USD that a shard leaves go to another, and the end reports the cap."""
    cap = ("--max-cost", "0.02", "--price", "1,2", "-c", "2")
    done = process(*arguments(server, "ray.jsonl", *ray_options(*cap)))
    assert done.returncode == 4, done.stderr
    assert "--max-cost 0.02 is reached" in done.stderr
    spent = summary(tmp_path / "ray.jsonl")["cost_usd"]
    assert (
        0.0165 < spent <= 0.02
    )  # a call costs 0.00067, and the last shards may leave up to five


@pytest.mark.long
@pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="finds processes in /proc"
)
def test_killed_worker(
    process: Ruler, server: JudgeServer, groups: Path, tmp_path: Path
) -> None:
    """A worker that is killed changes nothing: only its calls in flight are paid for twice."""
    server.configure(latency=0.3)
    run = started(tmp_path, server, 20, "-c", "6")
    os.kill(workers_of(run.pid)[0], signal.SIGKILL)
    stderr = run.communicate(timeout=_LONGEST)[1]
    assert run.returncode == 0, stderr
    books = server.stats()["books"]
    assert books["contents"] == 80
    assert books["paid_again"] <= 3
    same_as_one_process(process, server, tmp_path)


@pytest.mark.long
@pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="finds processes in /proc"
)
@pytest.mark.parametrize(
    ("stop_signal", "joined"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGKILL, True)],
)
def test_stopped_driver(
    stop_signal: signal.Signals, joined: bool, process: Ruler, server: JudgeServer, groups: Path,
    tmp_path: Path, request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    """If the driver ends, its workers end, the ledger has the replies, and the same command continues."""
    address = (
        ("--ray-address", request.getfixturevalue("cluster")) if joined else ()
    )
    server.configure(latency=0.3)
    run = started(tmp_path, server, 20, "-c", "6", *address)
    parent = os.getpid() if joined else run.pid
    run.send_signal(stop_signal)
    stderr = run.communicate(timeout=_LONGEST)[1]
    assert run.returncode == (130 if stop_signal == signal.SIGINT else -9), (
        stderr
    )
    until(lambda: not workers_of(parent))
    assert not (tmp_path / "ray.jsonl").exists()
    if stop_signal == signal.SIGINT:
        assert "to resume: ruler score" in stderr
        assert server.stats()["books"]["abandoned"]["calls"] == 0
    server.configure(latency=0.0)
    done = process(*arguments(server, "ray.jsonl", *ray_options(*address)))
    assert done.returncode == 0, done.stderr
    assert "answered from the ledger" in done.stderr
    books = server.stats()["books"]
    assert books["contents"] == 80
    lost = 30  # calls in flight, and those of a remote worker until Ray ends it
    assert books["paid_again"] <= (lost if stop_signal == signal.SIGKILL else 0)


_REFUSED = (
    ("-", ("--engine", "ray"), "its workers cannot read stdin"),
    ("in.fifo", ("--engine", "ray"), "its workers cannot read stdin"),
    (
        "in.jsonl",
        ray_options("--shard", "1/2"),
        "shares all of INPUT among its workers",
    ),
    ("in.jsonl", ray_options("--ledger", "none"), "leave out --ledger none"),
    ("in.jsonl", ("--ray-address", "h:1"), "needs --engine ray"),
)


def test_refused_options(
    ruler: Ruler, groups: Path, subtests: pytest.Subtests
) -> None:
    """Options that Ray cannot support are refused with advice."""
    os.mkfifo(groups.with_name("in.fifo"))
    for source, options, message in _REFUSED:
        with subtests.test(message):
            done = ruler(
                "score",
                source,
                "out.jsonl",
                "-m",
                "hosted_vllm/q",
                "--api-base",
                "http://h/v1",
                *options,
            )
            assert (done.returncode, message in done.stderr) == (2, True), (
                done.stderr
            )


@pytest.mark.parametrize("listens", [False, True])
def test_no_ray_at_the_address(
    listens: bool, ruler: Ruler, groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address at which no Ray answers is reported with advice on the right one."""
    monkeypatch.setattr(score, "_PATIENCE", 0.5)
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        if listens:
            there.listen()
        address = f"127.0.0.1:{there.getsockname()[1]}"
        run = (
            "score",
            "in.jsonl",
            "out.jsonl",
            "-m",
            "hosted_vllm/q",
            "--api-base",
            "http://h/v1",
        )
        done = ruler(*run, *ray_options("--ray-address", address))
        message = f"Ray at {address}: no Ray answers there"
        assert (done.returncode, message in done.stderr) == (3, True), (
            done.stderr
        )
        done = ruler(*run, *ray_options(), RAY_ADDRESS=address)
        assert (done.returncode, message in done.stderr) == (3, True)


def test_without_ray(
    ruler: Ruler, groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Ray is not installed, the error names the command that installs it, before anything is read."""
    monkeypatch.setattr(score, "find_spec", lambda _: None)
    done = ruler(
        "score", "in.jsonl", "out.jsonl", "-m", "hosted_vllm/q", *ray_options()
    )
    assert (done.returncode, "pip install ray" in done.stderr) == (2, True)
