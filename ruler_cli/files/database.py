"""A SQLite file of its owner alone, which several processes write."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from ruler_cli.errors import UsageError

WAIT = 60.0
"""Seconds that another process's write is waited for."""
_BACKSTOP = 1 << 14
"""Pages of write-ahead log (64 MiB) after which a write moves them into the file itself."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What makes a database ours: the number that stands in its head, its version, its tables."""

    application: int
    version: int
    tables: tuple[str, ...]


def cache() -> Path:
    """The user's cache directory."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return base if base.is_absolute() else at_home("~/.cache")  # the standard ignores a relative one


def at_home(path: str) -> Path:
    """A path that may begin with `~`, also where no shell has read it."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: there is no such home directory; give a path that begins with /") from None


def private(path: Path) -> Path:
    """Where the file really is: made for its owner alone, or found to be the owner's.

    UsageError (OSError from the system) where it cannot be used, without a way out.
    """
    real = Path(os.path.realpath(path))
    for folder in reversed([p for p in real.parents if not p.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # an existing file is not opened here: closing it would drop the locks that this process has on it
        os.close(os.open(real, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    for file in files_of(real):
        if not os.path.lexists(file):
            continue
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{file}: is no regular file")
        if found.st_uid != os.geteuid():
            raise UsageError(f"{file}: belongs to another user, who could change what it says")
        if not os.access(file, os.R_OK | os.W_OK) or not os.access(real.parent, os.W_OK | os.X_OK):
            raise UsageError(f"{file}: cannot be written")
    return real


def connect(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open what `private` found, each statement its own transaction; it waits WAIT seconds for others.

    A commit outlives the process, not a power cut. UsageError where it is not ours, sqlite3.Error
    where it is no database.
    """
    connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
    try:
        _recognise(path, connection, schema)
        for file in files_of(path):
            if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
                file.chmod(0o600)
        _share(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def look_up(path: Path, schema: Schema) -> sqlite3.Connection | None:
    """Open a file to read what it holds, which is neither made nor changed; None where it is empty.

    It may belong to another user, and lie where nothing can be written. UsageError where it is not
    there or not ours, OSError or sqlite3.Error where it cannot be read.
    """
    real = Path(os.path.realpath(path))
    if not stat.S_ISREG((found := real.stat()).st_mode):
        raise UsageError(f"{path}: is no regular file")
    log, shared = files_of(real)[1:]
    if not found.st_size and not log.exists():
        return None
    mine = found.st_uid == os.geteuid() and os.access(real, os.W_OK) and os.access(real.parent, os.W_OK)
    # another user's run would refuse an index of the log that we had made there; without a log nobody writes
    how = "rw" if mine else "ro&readonly_shm=1" if log.exists() and shared.exists() else "ro&immutable=1"
    if not mine and log.exists() and not shared.exists() and log.stat().st_size:
        raise UsageError(f"{path}: has a log beside it that only its owner can read in")
    connection = sqlite3.connect(
        f"{real.as_uri()}?mode={how}", uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False
    )
    try:
        if _one(connection, "PRAGMA schema_version") == 0:
            connection.close()
            return None
        _refuse_foreign(path, connection, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def files_of(path: Path) -> list[Path]:
    """The database, its write-ahead log and the log's index."""
    return [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]


def busy(error: sqlite3.Error) -> bool:
    """Whether another process was writing."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _recognise(path: Path, connection: sqlite3.Connection, schema: Schema) -> None:
    """Make the tables in an empty file; refuse what another program or a newer version wrote."""

    def empty() -> bool:
        tables = _one(connection, "SELECT count(*) FROM sqlite_schema")
        return not tables and not _one(connection, "PRAGMA application_id")

    if empty():
        connection.execute("BEGIN IMMEDIATE")
        if empty():  # still: another process may have been first
            for statement in schema.tables:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.application}")
            connection.execute(f"PRAGMA user_version = {schema.version}")
        connection.execute("COMMIT")
    _refuse_foreign(path, connection, schema)


def _one(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchall()[0][0])


def _refuse_foreign(path: Path, connection: sqlite3.Connection, schema: Schema) -> None:
    if _one(connection, "PRAGMA application_id") != schema.application:
        raise UsageError(f"{path}: is another program's database")
    if _one(connection, "PRAGMA user_version") > schema.version:
        raise UsageError(f"{path}: was written by a newer version of ruler; update ruler")


def _share(connection: sqlite3.Connection) -> None:
    until = time.monotonic() + WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            break
        except sqlite3.OperationalError as error:  # of two that do this at once SQLite lets neither wait
            if not busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_BACKSTOP}")
