"""SIGINT, SIGTERM and SIGHUP end a command that waits for a pipe without end, or that is busy."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.values import few

COMMANDS = {
    "report": ("report", "-", "-o", "out.html"),
    "select": ("select", "-", "out.jsonl", "--where", "live"),
}


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
)
@pytest.mark.parametrize("name", few(1, COMMANDS))
def test_signal(name: str, number: signal.Signals, tmp_path: Path) -> None:
    """A signal ends a command quietly, with the signal's exit code, and its temporary files are removed."""
    with subprocess.Popen(
        [sys.executable, "-m", "ruler_cli", *COMMANDS[name]],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            until = time.monotonic() + 60
            while not list(tmp_path.iterdir()):  # its temporary file
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.01)
            time.sleep(
                0.2
            )  # the file appears before the command has recorded it
            process.send_signal(number)
            assert process.wait(60) == 128 + number
        finally:
            process.kill()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert list(tmp_path.iterdir()) == []


BUSY = """
import anyio
from ruler_cli.cli import signals
from ruler_cli.errors import InterruptedRun

async def main(stop):
    {before}
    print("busy", flush=True)
    while True:
        pass

signals._BUSY = 0.3
try:
    signals.run_interruptible(main)
except InterruptedRun as error:
    raise SystemExit(error.exit_code)
"""


@pytest.mark.parametrize(
    "before", ["pass", "print('waits', flush=True); await stop.event.wait()"]
)
def test_signal_while_busy(before: str) -> None:
    """A signal ends a run whose event loop is busy, or becomes busy after the signal, in seconds."""
    code = BUSY.format(before=before)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() in ("busy\n", "waits\n")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 128 + signal.SIGTERM
        finally:
            process.kill()
