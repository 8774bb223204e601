"""Annotated records → OUTPUT, whole or not at all; lines that could not be read → the failed file.

A file appears by atomic rename; until then it is OUTPUT.partial, which holds whole records only.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.compression import compressed
from ruler_cli.files.source import lines, open_source
from ruler_cli.records import Problem

_BUFFER = 1 << 16
"""Bytes collected before a write: a mebibyte, which no cache holds, made a record take four times as long."""


class Output:
    """OUTPUT as records are written to it; use as a context and `commit` at the end."""

    def __init__(self, name: str) -> None:
        """Open OUTPUT (or `-`); UsageError where it cannot be written, before anything is read."""
        self.name = name
        self._target: Path | None = None
        self._partial: Path | None = None
        self._empty = True
        if name == "-":
            if sys.stdout is None:
                raise UsageError("-: stdout is closed; give a file name")
            self._file: BinaryIO = sys.stdout.buffer
            self._stream = self._file
            return
        target = Path(os.path.realpath(name))
        try:
            given = Path(name)
            if given.exists() and not stat.S_ISREG(given.stat().st_mode):
                if given.is_dir():
                    raise UsageError(f"{name}: is a directory; give a file name, or `-` for stdout")
                self._file = given.open("wb")  # a pipe or device: nothing to rename
            else:
                self._target = target
                self._partial = target.with_name(target.name + ".partial")
                self._file = _locked(self._partial)
                if target.exists():  # who may read OUTPUT stays as it was
                    os.fchmod(self._file.fileno(), stat.S_IMODE(target.stat().st_mode))
        except FileNotFoundError:
            way = f"create it with: mkdir -p {target.parent}"
            raise UsageError(f"{name}: its directory does not exist; {way}") from None
        except OSError as error:
            raise UsageError(f"{name}: cannot be written: {error.strerror}") from None
        self._stream = compressed(name, self._file)

    @property
    def to_stdout(self) -> bool:
        """Whether records flow to stdout."""
        return self.name == "-"

    def write(self, record: bytes) -> None:
        """Append one record and its LF."""
        self._empty = False
        try:
            self._stream.write(record + b"\n")
            if self._target is None:
                self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._stuck(error) from None

    def commit(self) -> None:
        """Make OUTPUT appear: flush to disk, then rename."""
        try:
            if self._stream is not self._file:
                self._stream.close()
            self._file.flush()
            if self._target is not None and self._partial is not None:
                os.fsync(self._file.fileno())
                self._partial.replace(self._target)
                self._target = None
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._stuck(error) from None

    def __enter__(self) -> Output:
        """The output, open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close; without `commit` what is whole so far stays in OUTPUT.partial."""
        if self._file is sys.stdout.buffer:
            return
        try:
            try:
                if self._stream is not self._file and not self._stream.closed:
                    self._stream.close()
            finally:
                self._file.close()
            if self._empty and self._target is not None and self._partial is not None:
                self._partial.unlink(missing_ok=True)  # nothing was written: nothing to keep
        except OSError as late:
            if self._stream is self._file and self._partial is not None:
                _cut_torn(self._partial)
            if error is None:
                raise self._stuck(late) from None

    def _stuck(self, error: OSError) -> OutputError:
        where = self._partial or self.name
        kept = "what is whole so far is kept; " if self._partial else ""
        return OutputError(
            f"{where}: cannot be written: {error.strerror}; {kept}make room, then run the same command again"
        )


class FailedFile:
    """Lines that could not be read, verbatim; kept across runs: it may be their only copy.

    A run that meets a line which an earlier run left here does not add it again; equal lines of one
    input are all kept.
    """

    def __init__(self, path: Path | None) -> None:
        """Collect into `path`, which appears with the first line; None only counts."""
        self.path = path
        self.written = 0
        self._file: BinaryIO | None = None
        self._held: Counter[bytes] = Counter()

    def add(self, problem: Problem) -> None:
        """Append one line unless an earlier run did."""
        if self.path is None or not problem.raw:  # what stays in OUTPUT has no bytes of its own here
            return
        try:
            if self._file is None:
                self._file = self._open(self.path)
            mark = _digest(problem.raw)
            if self._held[mark]:
                self._held[mark] -= 1
                return
            self._file.write(problem.raw + b"\n")
            self.written += 1
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Bring the lines to disk; done before OUTPUT appears, so that no line is in neither."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            with file:
                file.flush()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _open(self, path: Path) -> BinaryIO:
        torn = False
        if path.exists() and path.stat().st_size:
            with open_source(str(path)) as stream:
                self._held = Counter(_digest(line.raw) for line in lines(str(path), stream))
            with path.open("rb") as stream:
                stream.seek(-1, os.SEEK_END)
                torn = stream.read(1) != b"\n"
        file = path.open("ab")
        if torn:
            file.write(b"\n")
        return file


def _digest(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=16).digest()


def _locked(partial: Path) -> BinaryIO:
    """Open OUTPUT.partial for this process alone, empty."""
    while True:
        file = os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT, 0o666), "wb", _BUFFER)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if partial.exists() and os.path.samestat(os.fstat(file.fileno()), partial.stat()):
                break
        except BlockingIOError:
            file.close()
            raise UsageError(
                f"{partial}: another run is writing it; wait for that run or give another OUTPUT"
            ) from None
        file.close()  # another run ended just now: what was opened is its OUTPUT already
    file.truncate(0)
    return file


def _cut_torn(partial: Path) -> None:
    """Leave whole records only, after the disk filled up within one."""
    with partial.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - (1 << 16))
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        file.truncate(end)
