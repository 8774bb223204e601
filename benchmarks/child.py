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


def run(command: Sequence[str]) -> Cost:
    """Run a command of the checkout; SystemExit with its last words where it fails.

    The kernel counts a child's peak from its parent's size on, so this process must stay small:
    it imports neither litellm nor aiohttp nor a tokenizer, and holds no file in memory.
    """
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, env=_environment(), stdout=said, stderr=said)
        killer = threading.Timer(LIMIT, process.kill)
        killer.start()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            tail = said.read()[-2000:].decode(errors="replace")
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{tail}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * unit)


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
