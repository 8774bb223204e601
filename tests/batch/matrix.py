"""The crash-between-steps matrix: a client is killed at each step of a batch, and others recover.

    python -m benchmarks.batch_crashes

Within this process the client ends before and after each commit and each call. A client of its own process
is killed (`kill -9`) when the provider has received a request, before it handles the request or before it
answers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.batch.apis import KEY
from tests.batch.crashes import WINDOW, Client, Crash, Steps
from tests.judge_server import BatchServer

GROUPS, PER_BATCH = 5, 3
_ROOT = Path(__file__).resolve().parents[2]
_LONGEST = 120
_LATE = 3.0
"""Seconds in which a slow machine lists batches a few times."""


@dataclass(frozen=True, slots=True)
class CrashResult:
    """Result of one crash: batches created, requests billed, billed again and answered; rounds."""

    point: str
    created: int
    billed: int
    again: int
    answered: int
    rounds: int

    @property
    def good(self) -> bool:
        """Return whether every request is answered, and paid for once."""
        return (self.billed, self.again, self.answered) == (GROUPS, 0, GROUPS)

    def __str__(self) -> str:
        return f"{self.created} created, {self.billed} billed, {self.again} again, {self.answered} answered"


def ends(
    name: str,
    folder: Path,
    lag: int = 0,
    most: int | None = None,
    every: tuple[int, int] = (0, 1),
) -> Iterator[CrashResult]:
    """A client that ends at each of its steps in turn, or at the first of them, in this process.

    `every` (i, n) selects the i-th of every n steps.
    """
    for number, whole in enumerate(_steps(name, folder / "whole")[:most]):
        if number % every[1] != every[0]:
            continue
        here, step = folder / str(number), whole
        here.mkdir()
        with BatchServer(lag=lag) as server:
            client = Client(here, server, name, GROUPS, requests=PER_BATCH)
            client.window = _LATE if lag else client.window
            victim = Steps(fatal=number)
            try:
                client.submit(victim)
                client.collect(victim)
            except Crash as crash:
                step = str(crash)
            yield _result(f"{number:2} {step}", client, server)


def _steps(name: str, folder: Path) -> list[str]:
    folder.mkdir()
    with BatchServer() as server:
        client, steps = (
            Client(folder, server, name, GROUPS, requests=PER_BATCH),
            Steps(),
        )
        client.submit(steps)
        client.collect(steps)
    return steps.passed


def kills(
    name: str,
    folder: Path,
    moments: tuple[str, ...] = ("before", "after"),
    steps: tuple[str, ...] = (
        "upload",
        "create",
        "list",
        "retrieve",
        "results",
    ),
) -> Iterator[CrashResult]:
    """Kill a process by the system at each request, before it is handled or after."""
    remote = (
        steps
        if name == "openai"
        else tuple(step for step in steps if step != "upload")
    )
    for step in remote:
        for moment in moments:
            here = folder / f"{step}-{moment}"
            here.mkdir()
            with BatchServer() as server:
                client = Client(here, server, name, GROUPS)
                _prepare(step, client, server)
                died = _killed(client, server, step, moment)
                yield _result(
                    f"kill -9 {moment} {step}"
                    if died
                    else f"{step}: not killed",
                    client,
                    server,
                )


def _prepare(step: str, client: Client, server: BatchServer) -> None:
    """Prepare the step at which the process is to be killed."""
    if step in ("retrieve", "results"):
        client.submit()
    elif step == "list":  # a client was killed right after it created the batch
        victim = Steps(fatal=_steps_until("after create", client))
        try:
            client.submit(victim)
        except Crash:
            return
        raise AssertionError("it did not end")


def _steps_until(step: str, client: Client) -> int:
    with tempfile.TemporaryDirectory() as folder, BatchServer() as server:
        other, steps = (
            Client(Path(folder), server, client.name, GROUPS),
            Steps(),
        )
        other.submit(steps)
    return steps.passed.index(step)


def _killed(
    client: Client, server: BatchServer, step: str, moment: str
) -> bool:
    """Run a process until it is killed at its first request of that step; tell if it was."""
    command = (
        ["collect"]
        if step in ("list", "retrieve", "results")
        else ["submit", str(client.source)]
    )
    if command[0] == "submit":
        judge = client.settings.judge
        command += ["-m", judge.model, "--api-base", str(judge.api_base)]
    command += [
        "--ledger",
        str(client.ledger_path),
        "--set",
        f"settle={WINDOW}",
        "--api-key-env",
        "TEST_KEY",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "ruler_cli", "batch", *command],
        env={**os.environ, "PYTHONPATH": str(_ROOT), "TEST_KEY": KEY},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    killed = False

    def kill(now: str) -> bool:
        nonlocal killed
        if now != step or killed:
            return True
        killed = True
        process.send_signal(signal.SIGKILL)
        process.wait(_LONGEST)
        return moment != "before"  # before: the request is lost with its client

    server.before, server.after = (
        (kill, lambda now: True)
        if moment == "before"
        else (lambda now: True, kill)
    )
    try:
        process.wait(_LONGEST)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    server.before = server.after = lambda now: True
    return killed and process.returncode == -signal.SIGKILL


def _result(point: str, client: Client, server: BatchServer) -> CrashResult:
    rounds = client.until_complete()
    answered = GROUPS - client.missing()
    return CrashResult(
        point,
        server.created,
        server.billed,
        server.billed_again,
        answered,
        rounds,
    )


def table(columns: dict[str, list[CrashResult]]) -> str:
    """Format a table with a row for each point and a column for each API."""
    names = list(columns)
    points = list(
        dict.fromkeys(
            each.point for result in columns.values() for each in result
        )
    )
    rows = [["point", *names], ["---"] * (len(names) + 1)]
    for point in points:
        cells = [
            next(
                (str(each) for each in columns[name] if each.point == point), ""
            )
            for name in names
        ]
        rows.append([point, *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
