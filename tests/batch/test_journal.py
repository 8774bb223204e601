"""The journal of batches survives its process."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ruler_cli.errors import OutputError
from ruler_cli.runs.batch.journal import Journal
from tests.conftest import ROOT

_LIVES = (
    "import sys, time; from pathlib import Path; from ruler_cli.runs.batch.journal import Journal\n"
    "with Journal(Path(sys.argv[1])) as journal, journal.alone() as mine:\n"
    "    print(mine, flush=True); time.sleep(60)"
)


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    """Path of a missing ledger."""
    return tmp_path / "a [b]*.sqlite"


def test_alone(ledger_path: Path) -> None:
    """One command submits at a time, and a dead process holds no lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", _LIVES, ledger_path],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT)},
    )
    with process, Journal(ledger_path) as journal:
        assert process.stdout
        assert process.stdout.readline() == b"True\n"
        with journal.alone() as mine:
            assert not mine
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        with journal.alone() as mine:
            assert mine


def test_no_locks(ledger_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks is reported."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        Journal(ledger_path) as journal,
        pytest.raises(OutputError, match="No locks available"),
        journal.alone(),
    ):
        pass
