"""The batches of a ledger, in its own file: what was submitted, and which requests are out.

A batch is on the disk, a power cut included, before its provider is asked to create it. A request is out in
at most one batch: its key stands once in `batch_keys`, from then until the batch is closed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self

from ruler_cli.errors import OutputError
from ruler_cli.ledger.database import file_errors, open_ledger

State = Literal[
    "intended", "uploaded", "creating", "submitted", "collected", "canceled", "failed", "abandoned"
]
"""`creating`: the provider has been asked, or was about to be, and nobody has seen its answer.

`intended` and `uploaded` stood before it in journals of versions before.
"""
OPEN: tuple[State, ...] = ("intended", "uploaded", "creating", "submitted")

_TABLES = (
    "CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY, tag TEXT NOT NULL UNIQUE, "
    "provider TEXT NOT NULL, model TEXT NOT NULL, base TEXT, key_env TEXT, account TEXT NOT NULL, "
    "owner TEXT NOT NULL, state TEXT NOT NULL, created REAL NOT NULL, changed REAL NOT NULL, began REAL, "
    "requests INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, usd REAL, file TEXT, "
    "remote TEXT, label TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', "
    "answered INTEGER, failed INTEGER, left_out INTEGER, not_it TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE IF NOT EXISTS batch_keys (key BLOB PRIMARY KEY, batch INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS batch_keys_batch ON batch_keys (batch)",
)
_MADE = "SELECT 1 FROM sqlite_schema WHERE name = 'batch_keys_batch'"
_CLAIMS = "CREATE TEMP TABLE claims (key BLOB PRIMARY KEY, tag TEXT NOT NULL) WITHOUT ROWID"
_TAKEN = (
    "SELECT 1 FROM batch_keys WHERE key = ?1 UNION ALL SELECT 1 FROM temp.claims WHERE key = ?1 UNION ALL "
    "SELECT 1 FROM replies WHERE key = ?1 AND id > ?2 AND status <> 'odd' LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch on record. Times are Unix time, `began` that at which the provider was asked for it.

    `account` identifies address and key, and betrays neither. `usd` is the cost expected for it. `label`
    and `reason` are the provider's last word. `answered`, `failed` for good and `left_out` count its
    requests once it is closed; the last are free to be submitted again. `not_it` lists batches of the
    provider that were looked into and are others.
    """

    id: int
    tag: str
    provider: str
    model: str
    base: str | None
    key_env: str | None
    account: str
    state: State
    created: float
    changed: float
    began: float | None
    requests: int
    bytes: int
    usd: float | None
    file: str | None
    remote: str | None
    label: str
    reason: str
    answered: int | None
    failed: int | None
    left_out: int | None
    not_it: str


_SELECT = f"SELECT {', '.join(field.name for field in fields(BatchRecord))} FROM batches "  # noqa: S608 - names of ours


class Journal:
    """The batches of a ledger; a context. Several processes may have it open."""

    def __init__(self, ledger: Path) -> None:
        """Open it, made where it is not there; UsageError if it cannot be."""
        self.path = ledger
        with file_errors(f"{ledger}: cannot be used as a ledger", "give another file with --ledger PATH"):
            self._db = open_ledger(ledger)
            # what was paid for must be found again after a power cut, too
            self._db.execute("PRAGMA synchronous = FULL")
            if not self._db.execute(_MADE).fetchone():
                with self.writing():
                    for statement in _TABLES:
                        self._db.execute(statement)
            self._db.execute(_CLAIMS)
        real = Path(os.path.realpath(ledger))
        self.folder = real.with_name(f"{real.name}.batch")
        self._lock = real.with_name(f"{real.name}.batch-lock")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction, in which nobody else writes the ledger; OutputError if it cannot be written."""
        with self._writable():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._commit()
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def free(self, key: bytes, newest: int) -> bool:
        """Tell if a request is in no batch, and not answered since the ledger's row `newest`."""
        return not self._read(_TAKEN, key, newest)

    def claim(self, tag: str, key: bytes) -> None:
        """Set a free request aside for a batch that will begin, by its tag."""
        with self._writable():
            self._db.execute("INSERT INTO temp.claims VALUES (?, ?)", (key, tag))

    def begin(self, tag: str, **fields: Any) -> BatchRecord:
        """Record that a batch is about to be created, and that all requests set aside for it are out."""
        now = time.time()
        fields |= {"tag": tag, "owner": "", "state": "creating", "created": now, "changed": now, "began": now}
        names, marks = ", ".join(fields), ", ".join("?" * len(fields))
        with self.writing():
            done = self._db.execute(
                f"INSERT INTO batches ({names}) VALUES ({marks})",  # noqa: S608 - names of ours
                tuple(fields.values()),
            )
            id = int(done.lastrowid or 0)
            claimed = "INSERT INTO batch_keys SELECT key, ? FROM temp.claims WHERE tag = ?"
            self._db.execute(claimed, (id, tag))
        return self.one(id)

    def move(self, batch: BatchRecord, state: State, **changed: Any) -> BatchRecord | None:
        """Put a batch into another state, on record when this returns; a closed one frees its requests.

        None if it is no longer in the state that it was seen in: another process has moved it.
        """
        changed |= {"state": state, "changed": time.time()}
        names = ", ".join(f"{name} = ?" for name in changed)
        with self.writing():
            done = self._db.execute(
                f"UPDATE batches SET {names} WHERE id = ? AND state = ?",  # noqa: S608 - names of ours
                (*changed.values(), batch.id, batch.state),
            )
            if done.rowcount and state not in OPEN:
                self._db.execute("DELETE FROM batch_keys WHERE batch = ?", (batch.id,))
        return self.one(batch.id) if done.rowcount else None

    def batches(self, *states: State) -> list[BatchRecord]:
        """Every batch in one of these states, or in any, the oldest first."""
        wanted = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        return [BatchRecord(*row) for row in self._read(f"{_SELECT}{wanted} ORDER BY id", *states)]

    def one(self, id: int) -> BatchRecord:
        """A batch by its number."""
        return BatchRecord(*self._read(f"{_SELECT}WHERE id = ?", id)[0])

    def newest(self) -> int:
        """The number of the ledger's newest row; later answers have a higher one."""
        return int(self._read("SELECT coalesce(max(id), 0) FROM replies")[0][0])

    def keys(self, batch: int) -> set[bytes]:
        """Every request that is out in this batch."""
        return {row[0] for row in self._read("SELECT key FROM batch_keys WHERE batch = ?", batch)}

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the lock of the one command that submits or recovers; False if another command has it.

        The system gives a lock back when its process is gone, however that ended: so a batch that is
        being submitted is told from one that was left behind. `folder`, for request files, is empty at
        first, and removed at the end.
        """
        with ExitStack() as stack:
            try:
                lock = os.open(self._lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(mode=0o700)
                stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
                mine = True
            except BlockingIOError:
                mine = False
            except OSError as error:
                raise OutputError(
                    f"{self._lock}: cannot be locked ({error.strerror}), and without that two submissions "
                    "may both pay; make room, or put the ledger on another file system, with --ledger PATH"
                ) from None
            yield mine

    def __enter__(self) -> Self:
        """The journal, open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it; what was recorded is on the disk."""
        self._db.close()

    def _commit(self) -> None:
        self._db.execute("COMMIT")

    def _read(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise OutputError(f"{self.path}: the ledger cannot be read: {error}") from None

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise OutputError(
                f"{self.path}: the ledger cannot be written: {error}; make room there, or give another file "
                "with --ledger PATH"
            ) from None


def there(ledger: Path) -> bool:
    """Tell if there is a ledger, which need not be made to say that nothing was submitted."""
    return ledger.exists()


def out(ledger: Path) -> int:
    """How many requests are out in open batches; 0 if the file holds no batches."""
    try:
        with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=rw", uri=True, timeout=1.0)) as db:
            return int(db.execute("SELECT count(*) FROM batch_keys").fetchone()[0])
    except (sqlite3.Error, ValueError):  # no file, no table, no ledger: who needs it says so
        return 0
