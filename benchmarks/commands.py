"""Run commands in child processes, and return their cost and their output.

`command` is the command line of `ruler score` against the judge server.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
LIMIT = 600.0
"""Seconds after which a command is killed."""
SERVER_LIFETIME = 3600.0
"""The lifetime of a benchmark's judge server, in seconds."""
_TIME = re.compile(
    rb'"(?:judged_at|latency_s|cached|served)":(?:"[^"]*"|\[[^\]]*\]|[a-z0-9.e-]+)'
)
"""Fields that differ between two runs; a file of texts names no model."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a command: wall seconds, CPU seconds (user + system), peak memory in bytes."""

    wall: float
    cpu: float
    peak: int


@dataclass(frozen=True, slots=True)
class End:
    """The result of a command: its exit code, its cost, and the end of its output."""

    code: int
    cost: Cost
    output: str


class Child:
    """A command of the checkout in a child process; it is killed if it takes too long.

    The kernel counts a child's peak memory from its parent's size, so this process must stay small:
    it imports neither litellm nor aiohttp nor a tokenizer, and holds no file in memory.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = " ".join(command)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_environment(),
            stdout=self._output,
            stderr=self._output,
        )
        self._killer = threading.Timer(LIMIT, self._process.kill)
        self._killer.start()

    def running(self) -> bool:
        """Return whether it is running; it stays a zombie until `end`, so no signal reaches another process."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is None

    def send(self, signal: int) -> None:
        """Send a signal."""
        os.kill(self._process.pid, signal)

    def end(self) -> End:
        """Wait until it ends."""
        _, status, used = os.wait4(self._process.pid, 0)
        wall = time.perf_counter() - self.began
        self._killer.cancel()
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        with self._output as output:
            output.seek(0)
            tail = output.read()[-2000:].decode(errors="replace")
        unit = 1 if sys.platform == "darwin" else 1024
        return End(
            code,
            Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * unit),
            tail,
        )


def command(
    source: Path, output: Path, base: str | None, **options: object
) -> list[str]:
    """Return the command line of `ruler score`; an option's underscores become dashes, `c` and `m` are short.

    True is a flag without a value, a tuple the same option several times. `base` is the endpoint, if any.
    """
    simulated = options.get("m") == "simulated"
    module = "benchmarks.simulated" if simulated else "ruler_cli"
    line = [PYTHON, "-m", module, "score", str(source), str(output)]
    given: dict[str, object] = {
        "-m": "openai/good",
        "--progress": "none",
        "--ledger": "none",
    }
    if base is not None:
        given["--api-base"] = base
    for name, value in options.items():
        given["-" * (1 + (len(name) > 1)) + name.replace("_", "-")] = value
    for flag, value in given.items():
        for each in value if isinstance(value, tuple) else (value,):
            line += [flag] if each is True else [flag, str(each)]
    return line


def ended(line: Sequence[str], *codes: int) -> End:
    """Run a command to its end; SystemExit with its last output unless it exits with one of `codes`, or 0."""
    child = Child(line)
    end = child.end()
    if end.code not in (codes or (0,)):
        raise SystemExit(
            f"{child.command} ended with {end.code}:\n{end.output}"
        )
    return end


def run(module: str, *words: object) -> Cost:
    """Run a module, such as `ruler_cli`, to its end; SystemExit if it fails."""
    return ended([PYTHON, "-m", module, *map(str, words)]).cost


def printed(module: str, *words: object) -> Any:
    """Run a module and parse the JSON that it prints."""
    line = [PYTHON, "-m", module, *map(str, words)]
    return json.loads(
        subprocess.check_output(
            line, cwd=ROOT, env=_environment(), timeout=LIMIT
        )
    )


def seconds_to_first_byte(command: Sequence[str]) -> float:
    """Measure the seconds from a command's start until it first sends to the endpoint appended to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT)
        base = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        began = time.perf_counter()
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            [*command, base],
            cwd=ROOT,
            env=_environment(),
            stdout=quiet,
            stderr=quiet,
        )
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(LIMIT)
                if not connection.recv(1):
                    raise SystemExit(
                        f"{' '.join(command)} closed its connection without a request"
                    )
                return time.perf_counter() - began
        finally:
            process.kill()
            process.wait()


def statuses(output: Path) -> dict[str, int]:
    """Count the rollouts of an output by status."""
    counts: dict[str, int] = {}
    with output.open("rb") as file:
        for line in file:
            for rollout in orjson.loads(line)["trajectories"]:
                status = rollout["ruler"]["status"]
                counts[status] = counts.get(status, 0) + 1
    return counts


def digest(output: Path) -> str:
    """Hash an output without times: two hashes are equal if the outputs are."""
    total = hashlib.sha256()
    with output.open("rb") as file:
        for line in file:
            total.update(_TIME.sub(b"", line))
    return total.hexdigest()


def _environment() -> dict[str, str]:
    """Return the environment without options and proxies; litellm needs no network at import."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RULER_")
    }
    return {
        **variables,
        "NO_PROXY": "*",
        "no_proxy": "*",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
