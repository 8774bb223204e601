"""What was meant to be submitted, what was, and which requests are out: in the ledger's own file.

Each step is on the disk, a power cut included, before the next one is taken at the provider. A request is
out in at most one batch: its key stands once in `batch_keys`, from the intent until the batch is closed.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ruler_cli.errors import OutputError
from ruler_cli.files.database import opened, refusing

State = Literal[
    "intended", "uploaded", "creating", "submitted", "collected", "canceled", "failed", "abandoned"
]
"""`creating`: the provider has been asked, or was about to be, and nobody has seen its answer."""
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
_FIELDS = (
    "id", "tag", "provider", "model", "base", "key_env", "account", "owner", "state", "created", "changed",
    "began", "requests", "bytes", "usd", "file", "remote", "label", "reason", "answered", "failed",
    "left_out", "not_it",
)  # fmt: skip
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM batches "  # noqa: S608 - names of ours
_MOVES = frozenset(_FIELDS[_FIELDS.index("began") :])
_ANSWERED = "SELECT 1 FROM replies WHERE key = ? AND id > ? AND status <> 'odd' LIMIT 1"


@dataclass(frozen=True, slots=True)
class Way:
    """How a provider is reached: without any secret. `account` tells keys and addresses from another."""

    provider: str
    model: str
    base: str | None
    key_env: str | None
    account: str


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch on record. Times are Unix time, `began` that at which the provider was asked for it.

    `owner` is whoever submits it, `usd` the cost expected for it. `label` and `reason` are the provider's
    last word. `answered`, `failed` for good and `left_out` count its requests once it is closed; the last
    are free to be submitted again. `not_it` are batches of the provider that were looked into and are
    others.
    """

    id: int
    tag: str
    way: Way
    owner: str
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
    not_it: frozenset[str]

    @property
    def open(self) -> bool:
        """Whether its requests are out."""
        return self.state in OPEN


class Journal:
    """The batches of a ledger; a context. Several processes may have it open."""

    def __init__(self, ledger: Path) -> None:
        """Open it, made where it is not there; UsageError where it cannot be."""
        self.path = ledger
        with refusing(f"{ledger}: cannot be used as a ledger", "give another file with --ledger PATH"):
            self._db = opened(ledger)
            # what was paid for must be found again after a power cut, too
            self._db.execute("PRAGMA synchronous = FULL")
            # a million keys in no order go in twice as fast, while nobody else can write
            self._db.execute("PRAGMA cache_size = -65536")
            if not self._db.execute(_MADE).fetchone():
                with self.writing():
                    for statement in _TABLES:
                        self._db.execute(statement)

    @contextmanager
    def writing(self, newest: int = 0) -> Iterator[Writing]:
        """One transaction, in which nobody else writes the ledger; OutputError where it cannot be written.

        What is answered since the ledger's row `newest` is not taken into a batch any more.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield Writing(self._db, newest)
                self._commit()
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise OutputError(
                f"{self.path}: the ledger cannot be written: {error}; make room there, or give another file "
                "with --ledger PATH"
            ) from None

    def move(self, batch: Batch, state: State, **fields: Any) -> Batch | None:
        """Put a batch into another state, on record when this returns; a closed one frees its requests.

        None where it is no longer in the state that it was seen in: somebody else has moved it.
        """
        if unknown := fields.keys() - _MOVES:
            raise ValueError(f"no such fields: {unknown}")
        if "not_it" in fields:
            fields["not_it"] = " ".join(sorted(fields["not_it"]))
        fields |= {"state": state, "changed": time.time()}
        names = ", ".join(f"{name} = ?" for name in fields)
        with self.writing():
            done = self._db.execute(
                f"UPDATE batches SET {names} WHERE id = ? AND state = ?",  # noqa: S608 - names of ours
                (*fields.values(), batch.id, batch.state),
            )
            if done.rowcount and state not in OPEN:
                self._db.execute("DELETE FROM batch_keys WHERE batch = ?", (batch.id,))
        return self.one(batch.id) if done.rowcount else None

    def batches(self, *states: State) -> list[Batch]:
        """Every batch in one of these states, or in any, the oldest first."""
        wanted = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        return [_batch(row) for row in self._read(f"{_SELECT}{wanted} ORDER BY id", *states)]

    def one(self, id: int) -> Batch:
        """A batch by its number."""
        return _batch(self._read(f"{_SELECT}WHERE id = ?", id)[0])

    def open(self) -> list[Batch]:
        """Every batch whose requests are out."""
        return self.batches(*OPEN)

    def newest(self) -> int:
        """The number of the ledger's newest row: what is answered later has a higher one."""
        return int(self._read("SELECT coalesce(max(id), 0) FROM replies")[0][0])

    def holds(self, batch: int, key: bytes) -> bool:
        """Whether a request is out in this batch."""
        return bool(self._read("SELECT 1 FROM batch_keys WHERE key = ? AND batch = ?", key, batch))

    def keys(self, batch: int) -> set[bytes]:
        """Every request that is out in this batch."""
        return {row[0] for row in self._read("SELECT key FROM batch_keys WHERE batch = ?", batch)}

    def remotes(self) -> set[str]:
        """The provider's names of all batches that are known to be ours."""
        return {row[0] for row in self._read("SELECT remote FROM batches WHERE remote IS NOT NULL")}

    def close(self) -> None:
        """Close it; what was recorded is on the disk."""
        self._db.close()

    def __enter__(self) -> Self:
        """The journal, open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _commit(self) -> None:
        self._db.execute("COMMIT")

    def _read(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise OutputError(f"{self.path}: the ledger cannot be read: {error}") from None


class Writing:
    """What can be done within one transaction."""

    def __init__(self, db: sqlite3.Connection, newest: int) -> None:
        self._db, self._newest = db, newest
        since = db.execute("SELECT 1 FROM replies WHERE id > ? LIMIT 1", (newest,))
        self._answered_since = since.fetchone() is not None

    def begin(self, way: Way, owner: str) -> tuple[int, str]:
        """The intent to submit one more batch: its number and its tag."""
        tag, now = f"{int(time.time()):08x}-{secrets.token_hex(6)}", time.time()
        given = (tag, way.provider, way.model, way.base, way.key_env, way.account, owner, now, now)
        done = self._db.execute(
            "INSERT INTO batches (tag, provider, model, base, key_env, account, owner, state, created, "
            "changed) VALUES (?, ?, ?, ?, ?, ?, ?, 'intended', ?, ?)",
            given,
        )
        return int(done.lastrowid or 0), tag

    def measure(self, id: int, requests: int, size: int, usd: float | None) -> None:
        """Say how large the batch is, and what it is expected to cost in USD."""
        self._db.execute(
            "UPDATE batches SET requests = ?, bytes = ?, usd = ? WHERE id = ?", (requests, size, usd, id)
        )

    def claim(self, id: int, key: bytes) -> bool:
        """Take a request into a batch; False where it is out in another, or answered since."""
        if self._answered_since and self._db.execute(_ANSWERED, (key, self._newest)).fetchone():
            return False
        return self._db.execute("INSERT OR IGNORE INTO batch_keys VALUES (?, ?)", (key, id)).rowcount == 1

    def drop(self, id: int) -> None:
        """Take back an intent of this transaction that nothing was put into."""
        self._db.execute("DELETE FROM batches WHERE id = ?", (id,))


def there(ledger: Path) -> bool:
    """Whether there is a ledger at all, so that nothing has to be made to say that nothing is there."""
    try:
        return os.path.lexists(ledger)
    except ValueError:
        return False


def out(ledger: Path) -> int:
    """How many requests are out in open batches; the ledger is only looked at, and 0 is nothing to tell."""
    if not there(ledger):
        return 0
    try:
        with closing(sqlite3.connect(ledger, timeout=1.0)) as db:
            return int(db.execute("SELECT count(*) FROM batch_keys").fetchone()[0])
    except (sqlite3.Error, ValueError):  # no table, no ledger: who needs it says so
        return 0


def _batch(row: tuple[Any, ...]) -> Batch:
    values: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    way = Way(*(values.pop(name) for name in ("provider", "model", "base", "key_env", "account")))
    return Batch(way=way, not_it=frozenset(values.pop("not_it").split()), **values)
