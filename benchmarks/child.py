"""Commands run to their end in a process of their own, with what they cost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
LIMIT = 600.0
"""Seconds after which a command is killed: no run is without end."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took: wall seconds, CPU seconds (user + system), peak memory in bytes."""

    wall: float
    cpu: float
    peak: int


@dataclass(frozen=True, slots=True)
class End:
    """How a command ended: its exit code, what it cost, and the last that it said."""

    code: int
    cost: Cost
    said: str


class Child:
    """A command of the checkout in a process of its own; it is killed where it takes too long.

    The kernel counts a child's peak from its parent's size on, so this process must stay small:
    it imports neither litellm nor aiohttp nor a tokenizer, and holds no file in memory.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = " ".join(command)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=_environment(), stdout=self._said, stderr=self._said
        )
        self._killer = threading.Timer(LIMIT, self._process.kill)
        self._killer.start()

    def running(self) -> bool:
        """Whether it has not ended; it stays a zombie until `end`, so a signal cannot go astray."""
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
        with self._said as said:
            said.seek(0)
            tail = said.read()[-2000:].decode(errors="replace")
        unit = 1 if sys.platform == "darwin" else 1024
        return End(code, Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * unit), tail)


def run(command: Sequence[str]) -> Cost:
    """Run a command to its end; SystemExit with its last words where it fails."""
    child = Child(command)
    end = child.end()
    if end.code:
        raise SystemExit(f"{child.command} ended with {end.code}:\n{end.said}")
    return end.cost


def seconds_to_first_byte(command: Sequence[str]) -> float:
    """Seconds from the start of a command until it first sends to the endpoint appended to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT)
        base = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        began = time.perf_counter()
        quiet = subprocess.DEVNULL
        process = subprocess.Popen([*command, base], cwd=ROOT, env=_environment(), stdout=quiet, stderr=quiet)
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(LIMIT)
                if not connection.recv(1):
                    raise SystemExit(f"{' '.join(command)} closed its connection without a request")
                return time.perf_counter() - began
        finally:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """No option and no proxy from outside; litellm asks no network at import."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RULER_")}
    return {**kept, "NO_PROXY": "*", "no_proxy": "*", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
