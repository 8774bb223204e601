"""One misbehaving judge server for the session, no key in the environment, no way to a paid call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import pytest

import benchmarks.simulated  # noqa: F401 - a judge that many tests ask
from ruler_cli.pool.limits import LEARNED
from tests.command import run_apart, run_here
from tests.judge_server import JudgeServer

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

# A shell has its background commands ignore Ctrl-C, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that runs several tests at once is slow now and then, and no example is to blame.
# `--hypothesis-profile long`, of `make test-long`, takes the place of the one that is loaded here.
hypothesis.settings.register_profile("ruler", deadline=None, max_examples=25)
hypothesis.settings.register_profile("long", deadline=None, max_examples=100)
hypothesis.settings.load_profile("ruler")


def seconds_of_folders(reports: Iterable[object]) -> dict[str, float]:
    """Return the seconds of each top-level folder of `tests/`, set-up and tear-down included."""
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        if (
            type(report) is pytest.TestReport
        ):  # not a subtest, whose time is in that of its test
            parts = report.nodeid.partition("::")[0].split("/")
            folder = (
                "/".join(parts[:2]) if len(parts) > 2 else f"{parts[0]}/*.py"
            )
            seconds[folder] += report.duration
    return seconds


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the time of each folder; workers run side by side, so the run itself took less than the sum."""
    seconds = seconds_of_folders(
        report
        for reports in terminalreporter.stats.values()
        for report in reports
    )
    if len(seconds) > 1:
        terminalreporter.section(
            "seconds of each folder, added up over the workers"
        )
        for folder, spent in sorted(seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{spent:7.1f}  {folder}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """aiohttp runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def judge_process() -> Iterator[JudgeServer]:
    """The judge server, a process of its own on loopback."""
    with JudgeServer(
        lifetime=1800
    ) as server:  # a slow machine takes long for all tests
        yield server


@pytest.fixture
def server(judge_process: JudgeServer) -> JudgeServer:
    """The judge server with its counters at zero."""
    judge_process.reset()
    return judge_process


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds a key or an option in a variable, so it can pay for nothing."""
    for name in list(os.environ):
        if name.endswith(
            ("_API_KEY", "_API_BASE", "_BASE_URL")
        ) or name.startswith("RULER_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def no_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test writes into a user's cache directory, or finds a reply that another test cached."""
    monkeypatch.setenv(
        "XDG_CACHE_HOME",
        str(tmp_path_factory.getbasetemp() / f"cache-{uuid4().hex}"),
    )


@pytest.fixture(autouse=True)
def nothing_learned() -> None:
    """No pool begins with what one of another test learned of its judge."""
    LEARNED.clear()


Ruler = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ruler(tmp_path: Path) -> Ruler:
    """Run the command in `tmp_path`, in this process."""

    def run(
        *args: object, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        return run_here([*map(str, args)], stdin, tmp_path, env)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Ruler:
    """Run the command in `tmp_path`, in a process of its own, for tests of a start or an end."""

    def run(
        *args: object, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        return run_apart([*map(str, args)], stdin, tmp_path, env)

    return run


def rollout(truth: float, text: str = "", **extra: Any) -> dict[str, Any]:
    """A native trajectory that the judge server scores with `truth`."""
    return {
        "messages": [
            {"role": "user", "content": "Find the answer."},
            {"role": "assistant", "content": f"{text} truth={truth}"},
        ],
        **extra,
    }


def group(name: str, *truths: float) -> dict[str, Any]:
    """A native group whose rollouts have these true scores."""
    return {
        "group_id": name,
        "trajectories": [
            rollout(t, f"{name}-{i}", reward=float(i))
            for i, t in enumerate(truths)
        ],
    }


def write(path: Path, records: list[Any]) -> Path:
    """Write records as JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


OLD = '{"ruler": {"status": "scored"}}\n'
"""An OUTPUT of an earlier run."""


def read(path: Path) -> list[Any]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
