"""Requests on their way to a provider: on disk beside the ledger, with a lock that says who lives.

They may be 200 MB a batch and more than one, so they are never held in memory. The system gives the lock
back when the process is gone, however that ended: so what it left behind is told from what it is doing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ruler_cli.errors import OutputError
from ruler_cli.records import Request

_ENTRY = struct.Struct("<16sIIH")
_MARK, _LOCK = ".batch-", "lock"
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Pick:
    """A request as it lies here: key and number, where its line is and how long, bytes of prompt, labels."""

    key: bytes
    number: int
    offset: int
    size: int
    prompt: int
    labels: int


class Spool:
    """A directory of one submission; a context, which removes it."""

    def __init__(self, ledger: Path) -> None:
        """Make it beside the ledger and lock it; OutputError where the file system has no locks."""
        real = _real(ledger)
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for last in (*[False] * _TRIES, True):
            self.folder = Path(tempfile.mkdtemp(prefix=f"{real.name}{_MARK}", dir=real.parent))
            try:
                self._lock = _locked(self.folder)
                break
            except OSError as error:  # else somebody tidied up between the two steps
                shutil.rmtree(self.folder, ignore_errors=True)
                if last:
                    raise OutputError(
                        f"{real.parent}: no lock can be had there ({error.strerror}), without which two "
                        "submissions may both pay; put the ledger on another file system, with --ledger PATH"
                    ) from None
        self.owner = self.folder.name
        self._lines: dict[int, tuple[BinaryIO, BinaryIO]] = {}

    def add(self, seat: int, key: bytes, line: bytes, request: Request) -> None:
        """Put a request of a judge down, behind the others."""
        if seat not in self._lines:
            names = (f"{seat}.jsonl", f"{seat}.index")
            self._lines[seat] = tuple((self.folder / name).open("w+b") for name in names)  # type: ignore[assignment]  # two
        lines, index = self._lines[seat]
        with self._room():
            lines.write(line)
        prompt = len(request.system.encode("utf-8", "replace")) + len(request.user.encode("utf-8", "replace"))
        with self._room():
            index.write(_ENTRY.pack(key, len(line), prompt, min(len(request.labels), 0xFFFF)))

    def picks(self, seat: int, number: int = 0, offset: int = 0) -> Iterator[Pick]:
        """Every request of a judge in the order in which it came, from one on that lies at `offset`."""
        if seat not in self._lines:
            return
        with self._room():
            self._lines[seat][1].flush()
        with (self.folder / f"{seat}.index").open("rb") as index:
            index.seek(number * _ENTRY.size)
            while entry := index.read(_ENTRY.size):
                key, size, prompt, labels = _ENTRY.unpack(entry)
                yield Pick(key, number, offset, size, prompt, labels)
                number, offset = number + 1, offset + size

    def write(self, seat: int, tag: str, wanted: Callable[[bytes], bool], first: Pick, last: Pick) -> Path:
        """The lines of a judge from one to another that are `wanted`, as a file of their own."""
        path = self.folder / f"ruler-{tag}.jsonl"
        with self._room(), path.open("wb") as out, (self.folder / f"{seat}.jsonl").open("rb") as source:
            self._lines[seat][0].flush()
            for pick in self.picks(seat, first.number, first.offset):
                if pick.number > last.number:
                    break
                if wanted(pick.key):
                    source.seek(pick.offset)
                    out.write(source.read(pick.size))
        return path

    def beat(self) -> None:
        """Leave a sign of life: what is left behind is judged from the last one on."""
        with suppress(OSError):
            os.utime(self.folder / _LOCK)

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self.folder}: the requests cannot be written there: {error.strerror}; make room, or give "
                "a ledger elsewhere with --ledger PATH"
            ) from None

    def __enter__(self) -> Self:
        """The spool."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Remove what is there; the lock stays as a sign of life where the run did not end well."""
        for pair in self._lines.values():
            for file in pair:
                with suppress(OSError):  # a full disk is told of when it is written
                    file.close()
        if error is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            _empty(self.folder)
        os.close(self._lock)


def alive(ledger: Path, owner: str) -> bool:
    """Whether whoever submits under this name is still at it."""
    try:
        lock = os.open(_folder(ledger, owner) / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def last_sign(ledger: Path, owner: str) -> float:
    """Unix time of the last sign of life; 0 where none is left."""
    try:
        return (_folder(ledger, owner) / _LOCK).stat().st_mtime
    except OSError:
        return 0.0


def sweep(ledger: Path, needed: set[str]) -> None:
    """Remove what the dead have left; of those whose signs of life are `needed` that stays."""
    real = _real(ledger)
    for folder in real.parent.glob(f"{_glob(real.name)}{_MARK}*"):
        with suppress(OSError):
            lock = _locked(folder)
            if folder.name in needed:
                _empty(folder)
            else:
                shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(folder: Path) -> int:
    """The lock, taken; OSError where another holds it, or has removed it."""
    path = folder / _LOCK
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino != path.stat().st_ino:
            raise FileNotFoundError(path)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != _LOCK:
            path.unlink(missing_ok=True)


def _folder(ledger: Path, owner: str) -> Path:
    return _real(ledger).parent / owner


def _real(ledger: Path) -> Path:
    return Path(os.path.realpath(ledger))


def _glob(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


__all__ = ["Pick", "Spool", "alive", "last_sign", "sweep"]
