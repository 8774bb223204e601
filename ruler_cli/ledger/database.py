"""The file of a ledger: SQLite, readable by its owner alone, written by several processes.

Beside the replies it has the texts that make scores, by their digest: rubrics, and parameters of judges.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import sqlite3
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from ruler_cli.errors import OutputError, UsageError, system_errors
from ruler_cli.types import value

WAIT = 60.0
"""Seconds to wait for another process's write."""
APPLICATION, VERSION = 0x52554C52, 1
"""Numbers in the head of the database file that mark it as a ledger of this version."""
TABLES = (
    # the body last: counts are read without it
    "CREATE TABLE replies (id INTEGER PRIMARY KEY, key BLOB NOT NULL, at REAL NOT NULL, seconds REAL, "
    "model TEXT NOT NULL, status TEXT NOT NULL, prompt INTEGER, completion INTEGER, cached INTEGER, "
    "body BLOB NOT NULL)",
    "CREATE INDEX replies_key ON replies (key)",
    "CREATE TABLE texts (digest TEXT PRIMARY KEY, kind TEXT NOT NULL, text TEXT NOT NULL)",
)
_WRITTEN = (
    "SELECT (SELECT count(*) FROM sqlite_schema) + (SELECT application_id <> 0 "
    "FROM pragma_application_id)"
)
"""Is 0 if no program has written the file."""
COLUMNS = "key, at, seconds, model, status, prompt, completion, cached, body"
INSERT = f"INSERT INTO replies ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of ours
ReplyRecord = tuple[Any, ...]
"""A row of `replies` without its id, in the order of its columns."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Codes of errors while another process writes."""
_PAUSE = 0.005
"""Seconds between two looks whether another process still writes."""
ANOTHER = (
    "give another file with --ledger PATH, or keep no replies: --ledger none "
    "(`sqlite3 FILE .recover | sqlite3 NEW` saves what a damaged one still holds)"
)
_FILES = 1 << 16
"""The most files that are open at once."""
_TOGETHER = 1000
"""Rows that are sent to another node together."""


@value
class LedgerFile:
    """An open ledger. `identity` is what tells its file from another file that takes its place.

    Each statement is its own transaction; a commit outlives the process, not a power cut.
    """

    path: Path
    connection: sqlite3.Connection
    identity: tuple[int, int] | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while a statement or a transaction runs."""

    def run(self, query: str, *values: object) -> list[Any]:
        """Run a statement as soon as no other process is writing, and return its rows."""
        with sqlite_errors(self.path):
            return self.wait_for(query, *values)

    def wait_for(self, query: str, *values: object) -> list[Any]:
        """Run a statement as `run` does; its errors are those of SQLite."""
        # not by the timeout of the connection: an event loop must not wait for it
        until = time.monotonic() + WAIT
        while True:
            try:
                with self.lock:
                    return self.connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code not in _BUSY or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction as soon as no other process is writing; it holds, or none of it."""
        with sqlite_errors(self.path), self.lock, self.connection:
            self.wait_for("BEGIN IMMEDIATE")
            yield self.connection

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


def open_to_write(path: Path | None, *, make: bool = True) -> LedgerFile:
    """Open a ledger, and create it if it is missing; UsageError if it is unusable.

    Without a path, or if it is missing and `make` is false, the ledger is empty and in memory.
    """
    if path is None or not (make or is_there(path)):
        return _empty()
    with file_errors(f"{path}: cannot be used as a ledger", ANOTHER):
        real = _create_private(path)
        file = _connect(path, str(real))
        with _closed_on_error(file):
            _create_tables(file)
            # readers and one writer work at the same time
            file.wait_for("PRAGMA journal_mode = WAL")
            file.wait_for("PRAGMA synchronous = NORMAL")
            # for many at once: the index of a million
            file.wait_for("PRAGMA cache_size = -32768")
    return file


def open_to_read(path: Path) -> LedgerFile:
    """Open a ledger to read it, without creating or changing any file; an empty file is a ledger without rows.

    It may belong to another user, and stand in a read-only directory. Use it within `file_errors`.
    """
    real = Path(os.path.realpath(path))
    status = real.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: is not a regular file")
    log = files_of(real)[1]
    if not status.st_size and not log.exists():
        return _empty()
    writable = os.access(real, os.W_OK) and os.access(real.parent, os.W_OK)
    mode = "rw"
    if not writable or status.st_uid != os.geteuid():
        mode = "ro&immutable=1"  # without a log nobody writes
        if log.exists() and log.stat().st_size:
            raise UsageError(
                f"{path}: has a write-ahead log that only its owner can read"
            )
    file = _connect(path, f"{real.as_uri()}?mode={mode}")
    with _closed_on_error(file):
        if _number(file, "PRAGMA schema_version") == 0:
            file.close()
            return _empty()
        _refuse_foreign(file)
    return file


def is_there(path: Path) -> bool:
    """Return whether a file exists and is not empty; UsageError if its directory cannot be read."""
    with system_errors("read", UsageError, place=str(path)):
        return path.exists() and not (
            path.is_file() and not path.stat().st_size
        )


def _connect(path: Path, address: str) -> LedgerFile:
    connection = sqlite3.connect(
        address,
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = _as_text
    return LedgerFile(path, connection, identity_of(path))


def _empty() -> LedgerFile:
    """Return a ledger in memory, without rows."""
    file = _connect(Path(os.devnull), ":memory:")
    for statement in TABLES:
        file.wait_for(statement)
    return file


@contextlib.contextmanager
def file_errors(
    subject: str,
    remedy: str,
) -> Iterator[None]:
    """Turn each error with a file into a UsageError: one sentence about `subject` with a remedy."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error), remedy) from None
    except (OSError, ValueError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        problem = f"{subject}: {why}"
        raise UsageError(problem, remedy) from None


@contextlib.contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn an error of SQLite with an open ledger into an OutputError."""
    try:
        yield
    except sqlite3.Error as error:
        problem = f"the ledger cannot be used: {error}"
        raise OutputError(problem, ANOTHER, place=str(path)) from None


@contextlib.contextmanager
def _closed_on_error(file: LedgerFile) -> Iterator[None]:
    try:
        yield
    except BaseException:
        file.close()
        raise


def _as_text(data: bytes) -> str:
    """Decode a text of the file, which another program may have written."""
    return data.decode(errors="replace")


def open_files() -> int:
    """Raise the limit of open files as far as the system allows, and return it.

    Shells give 256 or 1,024 by default, which is too few for many connections.
    """
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, wanted = (
        min(limit, _FILES) if limit != resource.RLIM_INFINITY else _FILES
        for limit in limits
    )
    if soft < wanted:
        # else the limit stays as it is
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limits[1]))
            return wanted
    return soft


def files_of(path: Path) -> list[Path]:
    """Return the paths of the database, its write-ahead log and the log's index."""
    return [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]


def rows_of(
    path: Path | None, models: Sequence[str] = (), after: int = 0
) -> Iterator[list[ReplyRecord]]:
    """Yield the rows of a ledger whose id is above `after`, some at a time; of some models, or of all."""
    if path is None or not path.exists():
        return
    of_models = (
        f" AND model IN ({', '.join('?' * len(models))})" if models else ""
    )
    query = f"SELECT {COLUMNS} FROM replies WHERE id > ?{of_models} ORDER BY id"  # noqa: S608
    with (
        file_errors(f"{path}: cannot be read as a ledger", "leave it out"),
        contextlib.closing(open_to_read(path)) as file,
    ):
        rows = file.connection.execute(query, (after, *models))
        while part := rows.fetchmany(_TOGETHER):
            yield part


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, which no other file has while it is open; None if it is missing."""
    try:
        status = path.stat()
    except OSError:  # a file that cannot be seen is missing
        return None
    return status.st_dev, status.st_ino


def append_rows(path: Path, rows: Sequence[ReplyRecord]) -> None:
    """Append rows of another ledger in one transaction; RulerError if that fails.

    The file is created if nobody has used it yet.
    """
    with (
        contextlib.closing(open_to_write(path)) as file,
        file.transaction() as connection,
    ):
        connection.executemany(INSERT, rows)


def _create_private(path: Path) -> Path:
    """Return the real path of a file, created for its owner alone if it is missing. UsageError if unsafe."""
    real = Path(os.path.realpath(path))
    folder = real.parent
    for missing in reversed([p for p in real.parents if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # an existing file is not opened here: closing it would drop the locks that this process has on it
        real.touch(0o600, exist_ok=False)
    for file in files_of(real):
        if not os.path.lexists(file):
            continue
        status = file.lstat()
        problem = ""
        if not stat.S_ISREG(status.st_mode):
            problem = "is not a regular file"
        elif status.st_uid != os.geteuid():
            problem = "belongs to another user, who could change its replies"
        elif not os.access(file, os.W_OK) or not os.access(folder, os.W_OK):
            problem = "cannot be written"
        if problem:
            raise UsageError(f"{file}: {problem}")
        if status.st_mode & 0o077:
            file.chmod(0o600)
    return real


def _create_tables(file: LedgerFile) -> None:
    """Create the tables in an empty file; UsageError if another program or a newer version wrote it."""
    if not _number(file, _WRITTEN):
        file.wait_for("BEGIN IMMEDIATE")
        if not _number(file, _WRITTEN):  # another process may have been first
            for statement in TABLES:
                file.wait_for(statement)
            file.wait_for(f"PRAGMA application_id = {APPLICATION}")
            file.wait_for(f"PRAGMA user_version = {VERSION}")
        file.wait_for("COMMIT")
    _refuse_foreign(file)


def _number(file: LedgerFile, query: str) -> int:
    return int(file.wait_for(query)[0][0])


def _refuse_foreign(file: LedgerFile) -> None:
    if _number(file, "PRAGMA application_id") != APPLICATION:
        raise UsageError(f"{file.path}: is another program's database")
    if _number(file, "PRAGMA user_version") > VERSION:
        raise UsageError(
            f"{file.path}: was written by a newer version of ruler; update ruler"
        )


_FIND_TEXT = "SELECT text FROM texts WHERE digest = ?"
INSERT_TEXT = (
    "INSERT OR IGNORE INTO texts (digest, kind, text) VALUES (?, ?, ?)"
)
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


def texts(
    paths: Iterable[Path],
    digests: Iterable[str],
) -> dict[str, str]:
    """Return the kept texts of these digests; a ledger that is absent or cannot be read has none."""
    wanted = set(digests)
    kept = dict[str, str]()
    for path in paths:
        with (
            contextlib.suppress(UsageError, OSError, ValueError, sqlite3.Error),
            contextlib.closing(open_to_read(path)) as file,
        ):
            for digest in wanted - kept.keys():
                for (text,) in file.wait_for(_FIND_TEXT, digest):
                    if isinstance(text, str) and digest_of(text) == digest:
                        kept[digest] = text
    return kept
