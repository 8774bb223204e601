"""Errors of the system and of libraries → errors with a place, a problem and a remedy: the one map for files."""

from __future__ import annotations

import gzip
import shlex
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ruler_cli.errors import (
    OutputError,
    RulerError,
    UnreadableError,
    UsageError,
    system_problem,
)

if sys.version_info >= (3, 14):
    from compression import zstd as zstd  # noqa: PLC0414 - others use it
else:
    from backports import zstd as zstd  # noqa: PLC0414 - others use it

_DAMAGE: tuple[type[Exception], ...] = (
    EOFError,
    gzip.BadGzipFile,
    zlib.error,
    zstd.ZstdError,
)
_SQLITE_FULL = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
"""Beginnings of the names of SQLite's errors about its file: no room, no directory for it, no descriptor left."""


def message_of(error: BaseException) -> str:
    """Return the first line of a library's message, in characters that are safe to print."""
    first = (str(error).splitlines() or [""])[0]
    clean = "".join(
        c if c.isprintable() and c.isascii() else "?" for c in first
    )
    return clean[:150].rstrip(". ")


@contextmanager
def reading(place: str, *more: type[Exception]) -> Iterator[None]:
    """Turn an error of reading or decoding a file into a UsageError; `more` are a decoder's own errors."""
    with _mapped(
        place,
        "be read",
        UsageError,
        str,
    ):
        try:
            yield
        except _DAMAGE + more as error:
            is_system = getattr(
                error,
                "errno",
                None,
            ) or _is_address(place)
            if is_system and not isinstance(error, _DAMAGE):
                raise
            raise UsageError(
                f"is damaged, truncated or unsupported ({message_of(error)})",
                "copy or write it again",
                place=place,
            ) from None


def writing(place: str, note: str = "") -> AbstractContextManager[None]:
    """Turn an error of writing into an OutputError; a pipe without a reader stays one."""
    again = f"{note}{{}}run again".format
    return _mapped(
        place, "be written", OutputError, lambda r: again(r and f"{r}, then ")
    )


def temporary() -> AbstractContextManager[None]:
    """Turn an error of writing a temporary file, or a temporary table of SQLite, into an OutputError."""
    remedy = "make room, or set TMPDIR to another directory"
    folder = tempfile.tempdir or "temporary files"
    return _mapped(
        folder, "write a temporary file", OutputError, lambda _: remedy
    )


@contextmanager
def creating(place: str, real: Path) -> Iterator[None]:
    """Turn an error of opening a place for writing into a UsageError; `real` is its path without links."""
    elsewhere = "give another name, or `-` for stdout"
    with _mapped(
        place, "be written", UsageError, lambda remedy: remedy or elsewhere
    ):
        try:
            yield
        except FileNotFoundError:
            if _is_address(place):
                raise
            folder = Path(place).parent
            missing = str(real.parent if folder.is_dir() else folder)
            raise UsageError(
                "its directory does not exist",
                f"create it with: mkdir -p {shlex.quote(missing)}",
                place=place,
            ) from None


@contextmanager
def _mapped(
    place: str, verb: str, kind: type[RulerError], advice: Callable[[str], str]
) -> Iterator[None]:
    """Turn an error of the system or of a storage into one of a kind; `advice` completes the remedy."""
    try:
        yield
    except (RulerError, UnreadableError, BrokenPipeError):
        raise
    except Exception as error:
        if _is_address(place):
            problem, remedy = _explain(error)
        elif isinstance(error, OSError):
            problem, remedy = system_problem(error)
        elif getattr(
            error,
            "sqlite_errorname",
            "",
        ).startswith(_SQLITE_FULL):
            problem = str(error)
            remedy = ""
        else:
            raise
        raise kind(
            f"cannot {verb}: {problem}", advice(remedy), place=place
        ) from None


def _is_address(place: str) -> bool:
    return "://" in place


def _explain(error: Exception) -> tuple[str, str]:
    """Return problem and remedy of a storage's error, without its own message, which may quote a key."""
    if isinstance(error, PermissionError):
        return "access denied", "check the credentials and their permissions"
    if isinstance(error, FileNotFoundError):
        return "no such object", "check the address and the network"
    if isinstance(error, NotImplementedError):
        return "this storage is read-only", "name a file on this machine"
    status = getattr(
        error,
        "status",
        None,
    ) or getattr(
        error,
        "code",
        "",
    )
    return (
        f"failed ({type(error).__name__} {status})".replace(" )", ")"),
        "check the address, the credentials and the network",
    )
