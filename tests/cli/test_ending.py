"""SIGINT, SIGTERM and SIGHUP end a command that waits for a pipe without end."""

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
