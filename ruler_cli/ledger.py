"""Every answer that a judge gave, by the content of what it was asked: SQLite, shared by processes.

Rows are only ever added and the newest of a key holds, so nothing that was paid for is overwritten.
A row is committed before `store` or `keep` returns: it outlives the process, however that ends (after
a power cut the last few rows may be missing, never torn). Bodies are kept as they came, so a better
reader gets more out of old ones.
"""

from __future__ import annotations

import json
import math
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

import anyio
import anyio.to_thread

from ruler_cli.entries import INSERT, NEWEST, Entry, Status, entry_of, mark_of, says_more
from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.database import WAIT, Schema, at_home, busy, cache, connect, files_of, private
from ruler_cli.judges.answer_form import reply_of
from ruler_cli.records import Fault, Reply, Request, Usage

SCHEMA = Schema(
    application=0x52554C52,
    version=1,
    tables=(
        # the body last: what is counted can be read without it
        "CREATE TABLE replies (id INTEGER PRIMARY KEY, key BLOB NOT NULL, at REAL NOT NULL, seconds REAL, "
        "model TEXT NOT NULL, status TEXT NOT NULL, prompt INTEGER, completion INTEGER, cached INTEGER, "
        "body BLOB NOT NULL)",
        "CREATE INDEX replies_key ON replies (key)",
    ),
)
_FIND = "SELECT at, seconds, status, body FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"
_FIND_REPLY = _FIND.replace("key = ?", "key = ? AND status <> 'fault'")
_STATS = (
    "SELECT model, status, count(*), sum(prompt), sum(completion), sum(cached), min(at), max(at) "
    "FROM replies GROUP BY model, status ORDER BY model, status"
)
_SETTLE = 16 << 20
"""Bytes of write-ahead log after which they are moved into the file, in a thread."""
_ROW = 16 << 10
"""Bytes of it that a row takes beside its body: the pages of table and index."""
_WAY_OUT = "give another file with --ledger PATH, or keep no replies: --ledger none"
_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer, or a failed call's mark (a Fault); when it came (Unix time), how many seconds it took."""

    answer: Reply | Fault
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Tally:
    """One model's rows, by status, and the tokens of its replies."""

    model: str
    rows: Mapping[Status, int]
    usage: Usage


@dataclass(frozen=True, slots=True)
class Stats:
    """What a ledger holds: by model, the first and last Unix time, the bytes on disk."""

    models: tuple[Tally, ...] = ()
    first: float | None = None
    last: float | None = None
    size: int = 0

    @property
    def rows(self) -> dict[Status, int]:
        """How many rows there are of each status."""
        return {
            status: sum(model.rows.get(status, 0) for model in self.models) for status in get_args(Status)
        }


def default_path() -> Path:
    """Where the ledger is unless told otherwise: in the user's cache directory."""
    return cache() / "ruler" / "ledger.sqlite"


def located(text: str | None) -> Path | None:
    """`--ledger PATH|none` → the path; None where no reply is to be kept."""
    if text == "none":
        return None
    return at_home(text) if text else default_path()


def key_of(model: str, params: Mapping[str, Any], request: Request) -> bytes:
    """16 bytes that stand for what the judge is asked; UsageError where a parameter is no JSON value.

    Endpoint, key and answer format are not part of it: the same question elsewhere is the same.
    """
    try:
        asked = _canonical(dict(params))
    except (TypeError, ValueError, RecursionError) as error:
        why = f"a parameter of the judge call is no JSON value ({error})"
        raise UsageError(f"ledger: {why}; leave it out, or keep no replies: --ledger none") from None
    digest = blake2b(digest_size=16, person=b"ruler request 1")
    for part in (model, asked, request.system, request.user, f"{request.room} {request.turn}"):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(struct.pack("<Q", len(raw)))
        digest.update(raw)
    return digest.digest()


class Ledger:
    """A ledger, open until `close` or the end of the context; one thread at a time, but for `keep`."""

    def __init__(self, path: Path) -> None:
        """Open it, made where it is not there; UsageError where it cannot be read and written."""
        self.path = path
        self._lock = threading.Lock()
        self._threads: anyio.CapacityLimiter | None = None
        self._unsettled = 0
        try:
            self._file = private(path)
            # one waits for other processes, in a thread; the other never does, in the event loop
            self._patient = connect(self._file, SCHEMA)
            self._quick = connect(self._file, SCHEMA)
            self._quick.execute("PRAGMA busy_timeout = 0")
            self._patient.execute("PRAGMA cache_size = -32768")  # for many at once: the index of a million
        except UsageError as error:
            raise UsageError(f"{error}; {_WAY_OUT}") from None
        except (OSError, ValueError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"{path}: cannot be used as a ledger: {why}; {_WAY_OUT}") from None

    def find(self, key: bytes, marks: bool = True) -> Kept | None:
        """The newest answer to a request; with `marks` off, marks of failed calls are passed over.

        None where there is none, or none that can be read as a reply: it is to be asked again.
        """
        rows = self._read(_FIND if marks else _FIND_REPLY, key)
        if not rows:
            return None
        at, seconds, status, body = rows[0]
        answer = mark_of(body) if status == "fault" else reply_of(body)
        if answer is None or (status != "fault" and isinstance(answer, Fault)):
            return None
        return Kept(answer, at, seconds or 0.0)

    def status(self, key: bytes) -> Status | None:
        """What stands for a request, None where nothing does."""
        found = self._read(NEWEST, key)
        return found[0][0] if found else None

    async def store(self, key: bytes, model: str, answer: Reply | Fault, seconds: float) -> None:
        """Keep an answer, as `keep` does; in a thread only where another process is writing."""
        row = entry_of(key, model, answer, seconds)
        if not self._written(self._quick, row):
            await self._aside(self._keep, row)
            return
        self._unsettled += len(row[-1]) + _ROW
        if self._unsettled >= _SETTLE:
            self._unsettled = 0
            await self._aside(self._settle)

    def keep(self, key: bytes, model: str, answer: Reply | Fault, seconds: float) -> None:
        """Keep a reply, a body that is none (a Fault of scope "call"), or a mark (of scope "group").

        `seconds` is how long the call took. It is on record when this returns, else OutputError. Any
        other Fault is a ValueError: the next run is to ask again.
        """
        self._keep(entry_of(key, model, answer, seconds))

    def keep_all(self, answers: Sequence[tuple[bytes, str, Reply | Fault]]) -> list[Status | None]:
        """Keep what came otherwise than by calls, (key, model, answer) each, all of it or nothing.

        What a ledger holds is not covered by what says less (`says_more`). The status that each request
        had before its answer, None where it had none. Answers as for `keep`: else ValueError; OutputError
        where they cannot be written.
        """
        rows = [entry_of(key, model, answer, 0.0) for key, model, answer in answers]
        with self._lock:
            try:
                self._patient.execute("BEGIN IMMEDIATE")
                try:
                    held = [self._put(row) for row in rows]
                    self._patient.execute("COMMIT")
                except BaseException:
                    if self._patient.in_transaction:  # SQLite itself gives up where a disk is full
                        self._patient.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise self._stuck("written", error) from None
        return held

    def stats(self) -> Stats:
        """Count what is kept."""
        found = self._read(_STATS)
        models: dict[str, Tally] = {}
        for model, status, number, prompt, completion, cached, _, _ in found:
            more = Usage(prompt or 0, completion or 0, cached or 0, 0 if status == "fault" else number)
            old = models.get(model, Tally(model, {}, Usage()))
            models[model] = Tally(model, {**old.rows, status: number}, old.usage + more)
        return Stats(
            tuple(models.values()),
            min((row[-2] for row in found), default=None),
            max((row[-1] for row in found), default=None),
            sum(file.stat().st_size for file in files_of(self._file) if file.exists()),
        )

    def clear(self, older_than: float | None = None) -> int:
        """Remove every row, or those older than so many seconds; how many, and the room is given back."""
        before = math.inf if older_than is None else time.time() - older_than
        with self._lock:
            try:
                number = self._patient.execute("DELETE FROM replies WHERE at < ?", (before,)).rowcount
                self._patient.execute("VACUUM")
                self._patient.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                raise self._stuck("cleared", error) from None
        return number

    def close(self) -> None:
        """Close it; what was kept is on record already."""
        self._quick.close()
        self._patient.close()

    def __enter__(self) -> Self:
        """The ledger, open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _read(self, query: str, *values: bytes) -> list[Any]:
        try:
            try:
                return self._quick.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                if not busy(error):
                    raise
                with self._lock:  # readers wait for one thing: the mending after a process was killed
                    return self._patient.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._stuck("read", error) from None

    async def _aside(self, work: Callable[..., None], *args: object) -> None:
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(1)
        with anyio.CancelScope(shield=True):  # the reply is paid for, whatever stops the run
            await anyio.to_thread.run_sync(work, *args, limiter=self._threads)

    def _keep(self, row: Entry) -> None:
        with self._lock:
            if not self._written(self._patient, row):
                raise self._stuck("written", f"another process has been writing it for {WAIT:.0f} s")

    def _written(self, connection: sqlite3.Connection, row: Entry) -> bool:
        try:
            connection.execute(INSERT, row)
        except sqlite3.Error as error:
            if busy(error):
                return False
            raise self._stuck("written", error) from None
        return True

    def _put(self, row: Entry) -> Status | None:
        """Insert a row that says more than what is there; the status of that."""
        found: list[tuple[Status]] = self._patient.execute(NEWEST, row[:1]).fetchall()
        held = found[0][0] if found else None
        if says_more(row[4], held):
            self._patient.execute(INSERT, row)
        return held

    def _settle(self) -> None:
        """Move the write-ahead log into the file; others wait only for what came meanwhile."""
        with self._lock:
            try:
                for how in ("PASSIVE", "RESTART"):
                    self._patient.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
            except sqlite3.Error as error:
                if not busy(error):
                    raise self._stuck("written", error) from None

    def _stuck(self, verb: str, why: object) -> OutputError:
        return OutputError(f"{self.path}: the ledger cannot be {verb}: {why}; make room there, or {_WAY_OUT}")
