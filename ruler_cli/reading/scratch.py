"""Temporary files of a run, which have no name and end with it: bytes by their place, and SQLite's tables."""

from __future__ import annotations

import os
import pickle
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, BinaryIO, cast

from ruler_cli.errors import OutputError
from ruler_cli.types import Line


class Scratch(AbstractContextManager["Scratch"]):
    """Bytes on disk, each piece by its place; OutputError where there is no room for them."""

    def __init__(self) -> None:
        """Nothing yet."""
        with room():
            self.file = cast(BinaryIO, tempfile.TemporaryFile(buffering=1 << 16))  # noqa: SIM115 - see `close`
        self.size = 0

    def write(self, data: bytes) -> int:
        """Append bytes; their place."""
        at = self.size
        with room():
            self.size += self.file.write(data)
        return at

    def put(self, value: object) -> None:
        """Append a value, for `all`."""
        # pickle: the file has no name, is written and read by this process alone, and never kept
        with room():
            pickle.dump(value, self.file, pickle.HIGHEST_PROTOCOL)

    def all(self) -> Iterator[Any]:
        """Every value that was put, in order, once all are."""
        with room():
            self.file.seek(0)
        while True:
            try:
                with room():
                    value = pickle.load(self.file)  # noqa: S301 - our own file, see above
            except EOFError:
                return
            yield value

    def skip(self, to: int) -> None:
        """Leave a hole up to a place, which takes no room."""
        if to != self.size:
            with room():
                self.size = self.file.seek(to)

    def read(self, size: int, at: int) -> bytes:
        """The bytes at a place."""
        return os.pread(self.fileno(), size, at)

    def fileno(self) -> int:
        """The descriptor of the file, which holds all that was written."""
        with room():
            self.file.flush()
        return self.file.fileno()

    def close(self) -> None:
        """Give the disk back."""
        with suppress(OSError):  # what it still wanted to write: that there is no room was told already
            self.file.close()

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def tables(*statements: str, cache: int) -> sqlite3.Connection:
    """Tables in a temporary file that SQLite keeps and deletes, with `cache` kilobytes of it in memory."""
    db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
    for statement in ("PRAGMA journal_mode = OFF", f"PRAGMA cache_size = -{cache}", "BEGIN", *statements):
        db.execute(statement).fetchall()
    return db


@contextmanager
def room() -> Iterator[None]:
    """Turn what keeps a temporary file from being written into one sentence."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
            raise
        raise _no_room(str(error)) from None
    except OSError as error:
        raise _no_room(error.strerror or str(error)) from None


def _no_room(why: str) -> OutputError:
    where = "no directory for temporary files"
    with suppress(OSError):
        where = tempfile.gettempdir()
    return OutputError(
        f"{where}: a temporary file cannot be written: {why}; make room, or name another directory with "
        "TMPDIR"
    )


def placed(lines: Iterator[Line]) -> Iterator[Line]:
    """Records as they stand one after another, without what is between them."""
    at = 0
    for line in lines:
        yield Line(line.number, at, line.raw, line.place, line.source)
        at += len(line.raw)


def spooled(lines: Iterator[Line], scratch: Scratch) -> Scratch:
    """Each record at its offset, in `scratch`."""
    for line in lines:
        scratch.skip(line.offset)
        scratch.write(line.raw)
    return scratch
