"""The texts that make scores, kept beside the replies by their digest: rubrics, and parameters of judges.

Their table is created with the first text, in an old ledger too; older versions of ruler do not look at it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from ruler_cli.errors import UsageError
from ruler_cli.ledger.database import open_to_read

_TABLE = "CREATE TABLE IF NOT EXISTS texts (digest TEXT PRIMARY KEY, kind TEXT NOT NULL, text TEXT NOT NULL)"
_INSERT = "INSERT OR IGNORE INTO texts (digest, kind, text) VALUES (?, ?, ?)"
_TOGETHER, _MOST, _LONGEST = 32, 1024, 1 << 20
"""Texts that are written together; the most that wait while another process writes; characters of one."""

params_text = json.JSONEncoder(
    sort_keys=True,
    ensure_ascii=False,
    separators=(",", ":"),
    default=lambda value: type(value).__name__,
).encode
"""Returns the text on the judges of a run, each an object of its name, model and parameters."""


def digest_of(text: str) -> str:
    """Return 16 hex digits that stand for a text: the first of its SHA-256."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def texts(paths: Iterable[Path], digests: Iterable[str]) -> dict[str, str]:
    """Return the kept texts of these digests; a ledger that is absent or cannot be read has none."""
    wanted, found = dict.fromkeys(digests), dict[str, str]()
    for path in paths:
        # texts are shown where they are known, and nothing depends on them
        with contextlib.suppress(UsageError, OSError, ValueError, sqlite3.Error):
            if (ledger := open_to_read(path)) is None:
                continue
            with contextlib.closing(ledger):
                for digest in wanted.keys() - found.keys():
                    for (text,) in ledger.execute(
                        "SELECT text FROM texts WHERE digest = ?", (digest,)
                    ):
                        if isinstance(text, str) and digest_of(text) == digest:
                            found[digest] = text
    return found


class TextWriter:
    """Writes texts into a ledger; they explain scores, so a failure is no error: nothing paid for is lost."""

    def __init__(self, quick: sqlite3.Connection, patient: sqlite3.Connection) -> None:
        """`quick` never waits for other processes, `patient` does."""
        self._quick, self._patient = quick, patient
        self._rows = list[tuple[str, str, str]]()

    def add(self, digest: str, kind: str, text: str) -> None:
        """Write a text, at the latest when the ledger is closed."""
        if len(text) <= _LONGEST:
            self._rows.append((digest, kind, text))
        if len(self._rows) >= _TOGETHER:
            self._write(self._quick)

    def close(self) -> None:
        """Write the texts that wait."""
        if self._rows:
            self._write(self._patient)

    def _write(self, connection: sqlite3.Connection) -> None:
        rows, self._rows = self._rows, []
        with contextlib.suppress(sqlite3.Error), connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_TABLE)
            connection.executemany(_INSERT, rows)
            return
        self._rows = rows[-_MOST:]
