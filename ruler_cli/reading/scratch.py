"""Temporary files of a run, which have no name and end with it: bytes by offset, and SQLite's tables."""

from __future__ import annotations

import os
import pickle
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, BinaryIO, cast

from ruler_cli.errors import OutputError


class Scratch(AbstractContextManager["Scratch"]):
    """An unnamed temporary file. Writing raises OutputError if the disk is full."""

    def __init__(self) -> None:
        """Create the file, empty."""
        with write_errors():
            self.file = cast(BinaryIO, tempfile.TemporaryFile(buffering=1 << 16))  # noqa: SIM115 - see `close`
        self.size = 0

    def write(self, data: bytes) -> int:
        """Append bytes and return their offset."""
        offset = self.size
        with write_errors():
            self.size += self.file.write(data)
        return offset

    def put(self, value: object) -> None:
        """Append a value, which `all` reads."""
        # pickle: the file has no name and only this process writes and reads it
        with write_errors():
            pickle.dump(value, self.file, pickle.HIGHEST_PROTOCOL)

    def all(self) -> Iterator[Any]:
        """Yield every value that was put, in order; call it after the last `put`."""
        with write_errors():
            self.file.seek(0)
        while True:
            try:
                with write_errors():
                    value = pickle.load(self.file)  # noqa: S301 - our own file, see `put`
            except EOFError:
                return
            yield value

    def skip(self, to: int) -> None:
        """Leave a hole up to an offset, which takes no space on disk."""
        if to != self.size:
            with write_errors():
                self.size = self.file.seek(to)

    def read(self, size: int, at: int) -> bytes:
        """Read `size` bytes from the offset `at`."""
        return os.pread(self.fileno(), size, at)

    def fileno(self) -> int:
        """Flush the file and return its descriptor."""
        with write_errors():
            self.file.flush()
        return self.file.fileno()

    def close(self) -> None:
        """Close the file, which frees the disk."""
        with suppress(OSError):  # of bytes still buffered; a full disk was reported already
            self.file.close()

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


def temporary_database(*statements: str, cache: int) -> sqlite3.Connection:
    """Open a temporary SQLite database and run the statements; it keeps `cache` kilobytes in memory."""
    db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
    for statement in ("PRAGMA journal_mode = OFF", f"PRAGMA cache_size = -{cache}", "BEGIN", *statements):
        db.execute(statement).fetchall()
    return db


@contextmanager
def write_errors() -> Iterator[None]:
    """Turn an error of writing a temporary file into an OutputError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
            raise
        raise _write_error(str(error)) from None
    except OSError as error:
        raise _write_error(error.strerror or str(error)) from None


def _write_error(reason: str) -> OutputError:
    directory = "no directory for temporary files"
    with suppress(OSError):
        directory = tempfile.gettempdir()
    return OutputError(
        f"{directory}: a temporary file cannot be written: {reason}; make room, or name another directory "
        "with TMPDIR"
    )
