"""Errors of the system and of libraries → errors with a place, a problem and a remedy: the one map for files."""

from __future__ import annotations

import errno
import gzip
import shlex
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ruler_cli.errors import OutputError, RulerError, UnreadableError, UsageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_OURS = (RulerError, UnreadableError)
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = "access denied"
_STORAGE = (
    ("NoCredentialsError PartialCredentialsError CredentialRetrievalError DefaultCredentialsError RefreshError "
     "LocalTokenNotFoundError", "no credentials found", "log in with the provider's tool, or set its variables"),
    ("PermissionError 401 403", _DENIED, "check the credentials and their permissions"),
    ("404", "no such object", "check the address"),
    ("ClientConnectionError ConnectionError ConnectError TimeoutError HTTPClientError FSTimeoutError gaierror "
     "TransportError TimeoutException", "the storage cannot be reached", "check the network and the endpoint"),
    ("FileNotFoundError", "no such object", "check the address"),
    ("NotImplementedError", "this storage is read-only", "name a file of this machine"),
)  # fmt: skip
"""Names of classes, and statuses of HTTP, that storages raise, best known first; problem and remedy."""


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
    except _OURS:
        raise
    except Exception as error:
        known = _known(error, place)
        damage: tuple[type[Exception], ...] = (*_DAMAGE, *more)
        if known is None:  # an OSError without a number is pyarrow's
            damage += (OSError,)
        if isinstance(error, damage) and not getattr(error, "errno", None):
            problem = f"is damaged, truncated or unsupported ({message_of(error)})"
            remedy = "copy or write it again"
        elif known is None:
            raise
        else:
            problem, remedy = f"cannot be read: {known[0]}", known[1]
            file = getattr(error, "filename", None)  # one of several
            place = file if isinstance(file, str) and not _remote(place) else place
        raise UsageError(problem, remedy, place=place) from None


@contextmanager
def writing(place: str, note: str = "") -> Iterator[None]:
    """Turn an error of writing into an OutputError; a pipe without a reader stays one."""
    try:
        yield
    except (*_OURS, BrokenPipeError):
        raise
    except Exception as error:
        known = _known(error, place)
        if known is None:
            raise
        problem, remedy = known
        remedy = f"{note}{remedy}{', then ' if remedy else ''}run again"
        raise OutputError(
            f"cannot be written: {problem}", remedy, place=place
        ) from None


@contextmanager
def creating(place: str, real: Path) -> Iterator[None]:
    """Turn an error of opening a place for writing into a UsageError; `real` is its path without links."""
    try:
        yield
    except _OURS:
        raise
    except Exception as error:
        known = _known(error, place)
        if known is None:
            raise
        problem, remedy = known
        if isinstance(error, FileNotFoundError) and not _remote(place):
            folder = Path(place).parent
            missing = str(real.parent if folder.is_dir() else folder)
            problem = "its directory does not exist"
            remedy = f"create it with: mkdir -p {shlex.quote(missing)}"
        else:
            problem = f"cannot be written: {problem}"
            remedy = remedy or "give another name, or `-` for stdout"
        raise UsageError(problem, remedy, place=place) from None


def without_place(error: RulerError) -> str:
    """Return the sentence of an error for a list in which its place stands already."""
    error.set(place="")
    return str(error)


def _remote(place: str) -> bool:
    return "://" in place


def _known(error: Exception, place: str) -> tuple[str, str] | None:
    """Return problem and remedy of an error of the system, or of a storage; None for any other."""
    if _remote(place):
        return explain(error)
    if isinstance(error, OSError) and error.errno:
        full = error.errno in _DISK_FULL
        return str(error.strerror), "make room" if full else ""
    return None


def explain(error: BaseException) -> tuple[str, str]:
    """Return problem and remedy of a storage's error, without its own message, which may quote a key."""
    signs = set[str]()
    link: BaseException | None = error
    for _ in range(8):  # a file system may report a lost connection as a missing file
        if link is None:
            break
        signs.update(kind.__name__ for kind in type(link).__mro__)
        signs.add(_status(link))
        link = link.__cause__
    for known, problem, remedy in _STORAGE:
        if not signs.isdisjoint(known.split()):
            return problem, remedy
    reason = _status(error) or getattr(error, "strerror", "") or type(error).__name__
    return f"failed ({reason})", "try again, or copy the file to this machine"


def access_denied(error: BaseException) -> bool:
    """Tell if a storage refuses the user's access."""
    return explain(error)[0] == _DENIED


def _status(error: BaseException) -> str:
    """Return the HTTP status of an error, under any of the names that libraries use; "" for none."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return str(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or "")
    for holder, name in ((error, "status"), (error, "code"), (response, "status_code")):
        code = str(getattr(holder, name, None))
        if code.isdigit():
            return code
    return ""
