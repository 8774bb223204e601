"""Temporary files of a run, which have no name and vanish with the run, and tables of keys in little memory."""

from __future__ import annotations

import os
import pickle
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import blake2b
from typing import Any, BinaryIO, cast

from ruler_cli.files.error_map import temporary

_CACHE = 500
"""Kilobytes of a table that are held in memory."""
_BATCH = 1_000
"""Rows that are read at once."""


class Scratch(AbstractContextManager["Scratch"]):
    """An unnamed temporary file. Writing raises OutputError if the disk is full."""

    def __init__(self) -> None:
        with temporary():
            file = tempfile.TemporaryFile(buffering=1 << 16)  # noqa: SIM115 - see `close`
        self.file = cast(BinaryIO, file)
        self.size = 0

    def write(self, data: bytes) -> int:
        """Append bytes and return their offset."""
        offset = self.size
        with temporary():
            self.size += self.file.write(data)
        return offset

    def put(self, value: object) -> None:
        """Append a value, which `all` reads."""
        # pickle: the file has no name and only this process writes and reads it
        with temporary():
            pickle.dump(
                value,
                self.file,
                pickle.HIGHEST_PROTOCOL,
            )

    def all(self) -> Iterator[Any]:
        """Yield every value that was put, in order; call it after the last `put`."""
        with temporary():
            self.file.seek(0)
        while True:
            try:
                with temporary():
                    value = pickle.load(self.file)  # noqa: S301 - our own file, see `put`
            except EOFError:
                return
            yield value

    def skip(self, to: int) -> None:
        """Leave a hole up to an offset, which takes no space on disk."""
        if to != self.size:
            with temporary():
                self.size = self.file.seek(to)

    def read(
        self,
        size: int,
        at: int,
    ) -> bytes:
        """Read `size` bytes from the offset `at`."""
        return os.pread(
            self.fileno(),
            size,
            at,
        )

    def fileno(self) -> int:
        """Flush the file and return its descriptor."""
        with temporary():
            self.file.flush()
        return self.file.fileno()

    def close(self) -> None:
        """Close the file, which frees the disk."""
        # of bytes still buffered; a full disk was reported already
        with suppress(OSError):
            self.file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def temporary_database(*statements: str, cache: int) -> sqlite3.Connection:
    """Open a temporary SQLite database and run the statements; it keeps `cache` kilobytes in memory."""
    db = sqlite3.connect(
        "",
        check_same_thread=False,
        isolation_level=None,
    )
    for statement in (
        "PRAGMA journal_mode = OFF",
        f"PRAGMA cache_size = -{cache}",
        "BEGIN",
        *statements,
    ):
        db.execute(statement).fetchall()
    return db


class Table:
    """A table in a temporary file that SQLite keeps and deletes, with one statement at a time.

    A run that stops closes it while a thread may still be reading the input into it: SQLite itself would crash, so each
    statement holds a lock, and the thread finds the table closed instead.
    """

    def __init__(self, columns: str) -> None:
        """Take the name of the table and its columns."""
        self._lock = threading.Lock()
        self._db = temporary_database(f"CREATE TABLE {columns}", cache=_CACHE)
        weakref.finalize(self, self._db.close)

    @contextmanager
    def locked(self) -> Iterator[sqlite3.Connection]:
        """Hold the database; OutputError if there is no room on disk."""
        with self._lock, temporary():
            yield self._db

    def rows(
        self,
        query: str,
        *values: object,
    ) -> list[Any]:
        """Return all rows of a query."""
        with self.locked() as db:
            return db.execute(query, values).fetchall()

    def each_row(self, query: str) -> Iterator[Any]:
        """Yield the rows of a query, some at a time."""
        with self.locked() as db:
            cursor = db.execute(query)
        while True:
            with self.locked():
                batch = cursor.fetchmany(_BATCH)
            if not batch:
                return
            yield from batch

    def close(self) -> None:
        """Free the disk; a statement that runs in another thread is broken off."""
        self._db.interrupt()
        with self._lock:
            self._db.close()


class KeyTable:
    """Numbers keys in the order in which they come, by their digests."""

    def __init__(self) -> None:
        self._table = Table("seen (key BLOB PRIMARY KEY, number) WITHOUT ROWID")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def number(self, key: bytes) -> int:
        """Return the number of a key by its digest; a new one gets the next."""
        query = "SELECT number FROM seen WHERE key = ?"
        for (number,) in self._table.rows(query, key):
            return int(number)
        new = self._count
        self._table.rows(
            "INSERT INTO seen VALUES (?, ?)",
            key,
            new,
        )
        self._count += 1
        return new


def digest(key: str) -> bytes:
    """Return 16 bytes that stand for a group key."""
    return blake2b(
        key.encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()
