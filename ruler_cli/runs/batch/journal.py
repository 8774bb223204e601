"""Journal of the batches of a ledger, in the ledger's file: batches submitted, and the requests in them.

A batch is on disk, safe from a power cut, before its provider is asked to create it. A request is in at most
one open batch: `batch_keys` holds its key once, until the batch is closed.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from ruler_cli.errors import OutputError, UsageError, system_errors
from ruler_cli.ledger.database import open_to_read, open_to_write

BatchState = Literal[
    "creating", "submitted", "collected", "failed", "abandoned"
]
"""`creating`: the provider was asked, or was about to be asked, and no answer is recorded."""
OPEN: tuple[BatchState, ...] = ("creating", "submitted")

_TABLES = (
    "CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY, tag TEXT NOT NULL UNIQUE, "
    "provider TEXT NOT NULL, model TEXT NOT NULL, base TEXT, key_env TEXT, account TEXT NOT NULL, "
    "state TEXT NOT NULL, created REAL NOT NULL, changed REAL NOT NULL, "
    "requests INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, usd REAL, file TEXT, "
    "remote TEXT, reason TEXT NOT NULL DEFAULT '', answered INTEGER, failed INTEGER, left_out INTEGER)",
    "CREATE TABLE IF NOT EXISTS batch_keys (key BLOB PRIMARY KEY, batch INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS batch_keys_batch ON batch_keys (batch)",
)
_INSERT = (
    "INSERT INTO batches (tag, provider, model, base, key_env, account, requests, bytes, usd, file, "
    "state, created, changed) VALUES (:tag, :provider, :model, :base, :key_env, :account, "
    ":requests, :bytes, :usd, :file, 'creating', :now, :now)"
)
_NOT_FREE = (
    "SELECT 1 FROM batch_keys WHERE key = ?1 UNION ALL "
    "SELECT 1 FROM replies WHERE key = ?1 AND id > ?2 AND status <> 'odd' LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch on record. Times are Unix time: `created` when the provider was about to be asked to create it.

    `account` is a digest of address and key. `usd` is the expected cost. `remote` is the id at the provider,
    `file` the id of the uploaded request file, `reason` the last that the provider reported.
    Once the batch is closed, `answered`, `failed` (for good) and `left_out` (free to be submitted again)
    count its requests.
    """

    id: int
    tag: str
    provider: str
    model: str
    base: str | None
    key_env: str | None
    account: str
    state: BatchState
    created: float
    changed: float
    requests: int
    bytes: int
    usd: float | None
    file: str | None
    remote: str | None
    reason: str
    answered: int | None
    failed: int | None
    left_out: int | None


_SELECT = f"SELECT {', '.join(field.name for field in fields(BatchRecord))} FROM batches "  # noqa: S608 - names of ours


class Journal(AbstractContextManager["Journal"]):
    """The batches of a ledger; a context manager. Several processes may have it open."""

    def __init__(self, ledger: Path, *, make: bool = True) -> None:
        """Open the journal; UsageError if that is not possible.

        If there is no ledger, it is created, or without `make` the journal is in memory.
        """
        self.path = ledger
        self._file = open_to_write(ledger, make=make)
        # a batch that is paid for must survive a power cut
        self._file.run("PRAGMA synchronous = FULL")
        for statement in _TABLES:
            self._file.run(statement)
        real = Path(os.path.realpath(ledger))
        self._lock = real.with_name(f"{real.name}.batch-lock")

    def free(self, key: bytes, newest: int) -> bool:
        """Return whether a request is in no open batch, and not answered since the ledger's row `newest`."""
        return not self._file.run(_NOT_FREE, key, newest)

    def begin(self, keys: Sequence[bytes], **fields: Any) -> BatchRecord:
        """Record a batch that is about to be created, with the keys of its requests."""
        with self._file.transaction() as connection:
            fields |= {"now": time.time(), "requests": len(keys)}
            id = int(connection.execute(_INSERT, fields).lastrowid or 0)
            rows = ((key, id) for key in keys)
            connection.executemany("INSERT INTO batch_keys VALUES (?, ?)", rows)
        return self.batch(id)

    def move(
        self, batch: BatchRecord, state: BatchState, **changed: Any
    ) -> BatchRecord:
        """Change the state of a batch, on disk when this returns; closing it frees its requests.

        Return the batch as it is now: another process may have changed its state since `batch` was read.
        """
        changed |= {"state": state, "changed": time.time()}
        names = ", ".join(f"{name} = ?" for name in changed)
        with self._file.transaction() as connection:
            cursor = connection.execute(
                f"UPDATE batches SET {names} WHERE id = ? AND state = ?",  # noqa: S608 - names of ours
                (*changed.values(), batch.id, batch.state),
            )
            if cursor.rowcount and state not in OPEN:
                connection.execute(
                    "DELETE FROM batch_keys WHERE batch = ?", (batch.id,)
                )
        return self.batch(batch.id)

    def batches(self, *states: BatchState) -> list[BatchRecord]:
        """Return the batches in these states, all batches without any, the oldest first."""
        batches = [
            BatchRecord(*row) for row in self._file.run(f"{_SELECT}ORDER BY id")
        ]
        return [
            batch for batch in batches if not states or batch.state in states
        ]

    def batch(self, id: int) -> BatchRecord:
        """Return a batch by its row id."""
        return BatchRecord(*self._file.run(f"{_SELECT}WHERE id = ?", id)[0])

    def newest(self) -> int:
        """Return the id of the ledger's newest row; later answers have higher ids."""
        return int(
            self._file.run("SELECT coalesce(max(id), 0) FROM replies")[0][0]
        )

    def keys(self, batch: int) -> set[bytes]:
        """Return the keys of the requests in an open batch."""
        rows = self._file.run(
            "SELECT key FROM batch_keys WHERE batch = ?", batch
        )
        return {key for (key,) in rows}

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the lock for submission and recovery; yields False if another command holds it.

        The system releases the lock when the process ends in any manner. This tells a batch that is being
        submitted from one that a crash left behind. OutputError if the file system has no locks.
        """
        # without a lock two submissions may both pay
        remedy = "use --ledger for a ledger on another disk"
        place = str(self._lock)
        mine = True
        with ExitStack() as stack:
            with system_errors("locked", OutputError, remedy, place=place):
                self._lock.touch(0o600)
                lock = stack.enter_context(self._lock.open("a"))
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    mine = False
                    lock.close()
            yield mine

    def __exit__(self, *_: object) -> None:
        self._file.close()


def count_open_requests(ledger: Path) -> int:
    """Return the number of requests in open batches; 0 if the file holds no batches."""
    # no file, no table or no ledger: others report that
    with (
        suppress(UsageError, OSError, sqlite3.Error),
        closing(open_to_read(ledger)) as file,
    ):
        return int(file.wait_for("SELECT count(*) FROM batch_keys")[0][0])
    return 0
