"""The journal of batches: each request is in at most one open batch, and each step is on the disk."""

from __future__ import annotations

import errno
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.ledger.reply_cache import Ledger, key_of
from ruler_cli.runs.batch.journal import OPEN, BatchRecord, Journal, count_open_requests
from ruler_cli.types import Reply, Request
from tests.conftest import ROOT

KEYS = [bytes([i]) * 16 for i in range(6)]
_LIVES = (
    "import sys, time; from pathlib import Path; from ruler_cli.runs.batch.journal import Journal\n"
    "with Journal(Path(sys.argv[1])) as journal, journal.alone() as mine:\n"
    "    (journal.folder / 'requests').touch(); print(mine, flush=True); time.sleep(60)"
)


def begun(journal: Journal, *keys: bytes) -> BatchRecord:
    """A batch of these requests, about to be created."""
    assert all(journal.free(key, 0) for key in keys)
    fields = {
        "provider": "openai",
        "model": "openai/m",
        "account": "0123abcd",
        "key_env": "KEY",
        "base": None,
        "file": "",
    }
    return journal.begin(
        keys, tag="tag", **fields, requests=len(keys), bytes=100, usd=0.5
    )


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    """Path of a missing ledger."""
    return tmp_path / "a [b]*.sqlite"


def test_recorded(ledger_path: Path) -> None:
    """A record is on the disk beside the replies, and the next process reads every field of it."""
    with Ledger(ledger_path) as ledger, Journal(ledger_path) as journal:
        assert journal._db.execute("PRAGMA synchronous").fetchone() == (2,)
        batch = begun(journal, *KEYS[:2])
        moved = journal.move(batch, "submitted", remote="batch_1", label="validating")
        assert ledger.find(KEYS[0]) is None
        ledger.clear()
    with Journal(ledger_path) as journal:
        (result,) = journal.batches(*OPEN)
        assert result == moved
        assert (result.model, result.key_env, result.requests, result.usd) == (
            "openai/m",
            "KEY",
            2,
            0.5,
        )
        assert (
            journal.keys(result.id),
            result.remote,
            count_open_requests(ledger_path),
        ) == (
            set(KEYS[:2]),
            "batch_1",
            2,
        )
    with (
        closing(sqlite3.connect(ledger_path)) as db,
        db,
    ):  # an older ruler accepts the version of the ledger
        assert db.execute("PRAGMA user_version").fetchone() == (1,)


def test_free_requests(ledger_path: Path) -> None:
    """A request in an open batch is not free; one of a closed batch is."""
    with Journal(ledger_path) as journal, Journal(ledger_path) as other:
        batch: BatchRecord | None = begun(journal, KEYS[0])
        for opened in OPEN:
            assert batch is not None
            batch = journal.move(batch, opened)
            assert (other.free(KEYS[0], 0), journal.free(KEYS[2], 0)) == (False, True)
        assert batch is not None
        closed = journal.move(batch, "failed", reason="so it is")
        assert closed is not None
        assert (closed.state, closed.reason, other.free(KEYS[0], 0)) == (
            "failed",
            "so it is",
            True,
        )
        assert other.move(batch, "creating") is None  # another process has moved it
        assert other.batch(batch.id) == closed


def test_answered_meanwhile(ledger_path: Path) -> None:
    """A request answered since the start is not free; one answered earlier may be sent again."""
    key = key_of("openai/m", {}, Request("s", "u", ("a",)))
    with Journal(ledger_path) as journal, Ledger(ledger_path) as ledger:
        before = journal.newest()
        ledger.keep(
            key,
            "openai/m",
            Reply("{}", body=b'{"choices":[{"message":{"content":"{}"}}]}'),
        )
        assert not journal.free(key, before)
        assert journal.free(key, journal.newest())


def test_no_ledger(ledger_path: Path) -> None:
    """A file that is no ledger is refused with a sentence."""
    ledger_path.write_text("no database at all, but long enough to look like one" * 40)
    with pytest.raises(UsageError, match="--ledger PATH"):
        Journal(ledger_path)


def test_alone(ledger_path: Path) -> None:
    """One command submits at a time, with private request files, and a dead process holds no lock."""
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
        assert [file.name for file in journal.folder.iterdir()] == ["requests"]
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        with journal.alone() as mine:
            assert mine
            assert list(journal.folder.iterdir()) == []
            assert journal.folder.stat().st_mode & 0o077 == 0
        assert not journal.folder.exists()


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
