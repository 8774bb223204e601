"""Errors of the system and of libraries → errors with a place, a problem and a remedy: the one map for files."""

from __future__ import annotations

import errno
import shlex
import sqlite3
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ruler_cli.errors import OutputError, RulerError, UsageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_DAMAGE: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, zstd.ZstdError)
"""Errors of reading and decompressing. An OSError without a number is that of gzip or pyarrow."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SQLITE_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


def message_of(error: BaseException) -> str:
    """Return the first line of a library's message, in characters that are safe to print."""
    first = (str(error).splitlines() or [""])[0]
    clean = "".join(c if c.isprintable() and c.isascii() else "?" for c in first)
    return clean[:150].rstrip(". ")


@contextmanager
def reading(place: str, *more: type[Exception]) -> Iterator[None]:
    """Turn an error of reading or decoding a file into a UsageError; `more` are a decoder's own errors."""
    try:
        yield
    except _DAMAGE + more as error:
        if isinstance(error, OSError) and error.errno:
            problem, remedy = f"cannot be read: {error.strerror}", ""
            place = error.filename if isinstance(error.filename, str) else place
        else:
            problem = f"is damaged, truncated or unsupported ({message_of(error)})"
            remedy = "copy or write it again"
        raise UsageError(problem, remedy, place=place) from None


@contextmanager
def writing(place: str, note: str = "") -> Iterator[None]:
    """Turn an error of writing into an OutputError; a pipe without a reader stays one."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        room = "make room, then " if error.errno in _DISK_FULL else ""
        problem = f"cannot be written: {error.strerror}"
        raise OutputError(problem, f"{note}{room}run again", place=place) from None


@contextmanager
def creating(name: str, real: Path) -> Iterator[None]:
    """Turn an error of opening a place for writing into a UsageError; `real` is its path without links."""
    try:
        yield
    except FileNotFoundError:
        folder = Path(name).parent
        missing = str(real.parent if folder.is_dir() else folder)
        remedy = f"create it with: mkdir -p {shlex.quote(missing)}"
        raise UsageError("its directory does not exist", remedy, place=name) from None
    except OSError as error:
        problem = f"cannot be written: {error.strerror}"
        remedy = "give another name, or `-` for stdout"
        raise UsageError(problem, remedy, place=name) from None


@contextmanager
def temporary() -> Iterator[None]:
    """Turn an error of writing a temporary file into an OutputError."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code not in _SQLITE_FULL:
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(
            f"cannot write a temporary file: {reason}",
            "make room, or set TMPDIR to another directory",
            place=_temporary_directory(),
        ) from None


def _temporary_directory() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "no directory for temporary files"


def without_place(error: RulerError) -> str:
    """Return the sentence of an error for a list in which its place stands already."""
    error.set(place="")
    return str(error)
