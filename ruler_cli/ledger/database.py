"""The file of a ledger: SQLite, readable by its owner alone, written by several processes.

Beside the replies it has the texts that make scores, by their digest: rubrics, and parameters of judges. Their
table is created with the first text, in an old ledger too; older versions of ruler do not look at it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ruler_cli.errors import OutputError, UsageError

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
)
COLUMNS = "key, at, seconds, model, status, prompt, completion, cached, body"
INSERT = f"INSERT INTO replies ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of ours
ReplyRecord = tuple[Any, ...]
"""A row of `replies` without its id, in the order of its columns."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_TOGETHER = 1000
"""Rows that are sent to another node together."""


def open_ledger(path: Path) -> sqlite3.Connection:
    """Open a ledger, and create it if it is missing. Each statement is its own transaction.

    A statement waits WAIT seconds for others; a commit outlives the process, not a power cut. Use it
    within `file_errors`.
    """
    real = _create_private(path)
    connection = sqlite3.connect(
        real, timeout=WAIT, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = _as_text
    with _closed_on_error(connection):
        _create_tables(real, connection)
        _set_journal_mode(connection)
    return connection


def empty_ledger() -> sqlite3.Connection:
    """Return a ledger in memory, without rows."""
    connection = sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False
    )
    for statement in TABLES:
        connection.execute(statement)
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a ledger to read it, without creating or changing any file; an empty file is a ledger without rows.

    It may belong to another user, and stand in a read-only directory. Use it within `file_errors`.
    """
    real = Path(os.path.realpath(path))
    status = real.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: is not a regular file")
    _, log, shared = files_of(real)
    logged = log.exists()
    if not status.st_size and not logged:
        return empty_ledger()
    owned = status.st_uid == os.geteuid()
    if owned and os.access(real, os.W_OK) and os.access(real.parent, os.W_OK):
        mode = "rw"
    elif logged and shared.exists():
        # another user's run refuses an index of the log that this user created
        mode = "ro&readonly_shm=1"
    elif logged and log.stat().st_size:
        raise UsageError(
            f"{path}: has a write-ahead log that only its owner can read"
        )
    else:
        mode = "ro&immutable=1"  # without a log nobody writes
    connection = sqlite3.connect(
        f"{real.as_uri()}?mode={mode}",
        uri=True,
        timeout=WAIT,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = _as_text
    with _closed_on_error(connection):
        if _one(connection, "PRAGMA schema_version") == 0:
            connection.close()
            return empty_ledger()
        _refuse_foreign(path, connection)
    return connection


@contextlib.contextmanager
def file_errors(
    subject: str,
    way_out: str,
) -> Iterator[None]:
    """Turn each error with a file into a UsageError: one sentence about `subject` with a way out."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error), way_out) from None
    except (OSError, ValueError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        problem = f"{subject}: {why}"
        raise UsageError(problem, remedy(error, way_out)) from None


@contextlib.contextmanager
def sqlite_errors(path: Path, way_out: str) -> Iterator[None]:
    """Turn an error of SQLite with an open ledger into an OutputError."""
    try:
        yield
    except sqlite3.Error as error:
        problem = f"the ledger cannot be used: {error}"
        raise OutputError(
            problem, remedy(error, way_out), place=str(path)
        ) from None


def remedy(error: object, way_out: str) -> str:
    """Return the way out of an error with a ledger's file; one with damaged pages can be saved in part."""
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_CORRUPT:
        first = "the file is damaged: save what can be read (sqlite3 FILE .recover | sqlite3 NEW) and move it away"
    elif code in _BUSY:
        first = "end the program that holds it"
    elif code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        first = "make room there"
    else:
        return way_out
    return f"{first}, or {way_out}"


@contextlib.contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _as_text(data: bytes) -> str:
    """Decode a text of the file, which another program may have written."""
    return data.decode(errors="replace")


def open_files() -> int:
    """Raise the limit of open files as far as the system allows, and return it.

    Shells give 256 or 1,024 by default, which is too few for many connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1 << 16) if hard != resource.RLIM_INFINITY else 1 << 14
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # the limit stays as it is
            return soft
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def files_of(path: Path) -> list[Path]:
    """Return the paths of the database, its write-ahead log and the log's index."""
    return [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]


def busy(error: sqlite3.Error) -> bool:
    """Return whether another process was writing."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in _BUSY


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
        contextlib.closing(open_to_read(path)) as ledger,
    ):
        rows = ledger.execute(query, (after, *models))
        while part := rows.fetchmany(_TOGETHER):
            yield part


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, which no other file has while it is open; None if it is missing."""
    try:
        status = path.stat()
    except OSError:  # a file that cannot be seen is missing
        return None
    return status.st_dev, status.st_ino


def append_rows(
    path: Path,
    rows: Sequence[ReplyRecord],
) -> None:
    """Append rows of another ledger in one transaction; OutputError if that fails.

    The file is created if nobody has used it yet.
    """
    try:
        with contextlib.closing(open_ledger(path)) as ledger, ledger:
            ledger.execute("BEGIN IMMEDIATE")
            ledger.executemany(INSERT, rows)
    except (UsageError, OSError, sqlite3.Error) as error:
        raise OutputError(
            f"{path}: a worker's replies cannot be stored there: {error}"
        ) from None


def _create_private(path: Path) -> Path:
    """Return the real path of a file, created for its owner alone if it is missing. UsageError if unsafe."""
    real = Path(os.path.realpath(path))
    for folder in reversed([p for p in real.parents if not p.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # an existing file is not opened here: closing it would drop the locks that this process has on it
        real.touch(0o600, exist_ok=False)
    for file in files_of(real):
        if not os.path.lexists(file):
            continue
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{file}: is not a regular file")
        if status.st_uid != os.geteuid():
            raise UsageError(
                f"{file}: belongs to another user, who could change its replies"
            )
        if not all(
            os.access(checked, os.R_OK | os.W_OK)
            for checked in (file, real.parent)
        ):
            raise UsageError(f"{file}: cannot be written")
        if status.st_mode & 0o077:
            file.chmod(0o600)
    return real


def _create_tables(
    path: Path,
    connection: sqlite3.Connection,
) -> None:
    """Create the tables in an empty file; UsageError if another program or a newer version wrote it."""

    def empty() -> bool:
        tables = _one(connection, "SELECT count(*) FROM sqlite_schema")
        return not tables and not _one(connection, "PRAGMA application_id")

    if empty():
        connection.execute("BEGIN IMMEDIATE")
        if empty():  # still: another process may have been first
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    _refuse_foreign(path, connection)


def _one(
    connection: sqlite3.Connection,
    query: str,
) -> int:
    return int(connection.execute(query).fetchall()[0][0])


def _refuse_foreign(
    path: Path,
    connection: sqlite3.Connection,
) -> None:
    if _one(connection, "PRAGMA application_id") != APPLICATION:
        raise UsageError(f"{path}: is another program's database")
    if _one(connection, "PRAGMA user_version") > VERSION:
        raise UsageError(
            f"{path}: was written by a newer version of ruler; update ruler"
        )


def _set_journal_mode(connection: sqlite3.Connection) -> None:
    """Let readers and one writer work at the same time."""
    until = time.monotonic() + WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            break
        except sqlite3.OperationalError as error:
            # SQLite does not let one of two processes wait here
            if not busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = NORMAL")


TEXTS = "CREATE TABLE IF NOT EXISTS texts (digest TEXT PRIMARY KEY, kind TEXT NOT NULL, text TEXT NOT NULL)"
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
            contextlib.closing(open_to_read(path)) as ledger,
        ):
            for digest in wanted - kept.keys():
                for (text,) in ledger.execute(_FIND_TEXT, (digest,)):
                    if isinstance(text, str) and digest_of(text) == digest:
                        kept[digest] = text
    return kept
