"""Files that appear whole or not at all: on this machine by rename, at an address by an upload's end."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import compressed
from ruler_cli.files.remote import is_remote
from ruler_cli.files.remote_output import RemoteFile

_BUFFER = 1 << 16
"""Bytes collected before a write: a mebibyte, which no cache holds, made a record take four times as long."""


class LocalFile:
    """A file of this machine; until `commit` it is NAME.partial, which its writer alone has open."""

    through = waits = False

    def __init__(self, name: str, *, packed: bool = False, alone: bool = True) -> None:
        """Open it; UsageError where another run writes it, OSError where it cannot be written.

        `packed`: the bytes are compressed already. `alone` off: its directory is locked instead, and the
        file is closed when it ends.
        """
        self._target = Path(os.path.realpath(name))
        self.partial = self._target.with_name(self._target.name + ".partial")
        self._alone = alone
        self._file = locked(self.partial) if alone else self.partial.open("wb", _BUFFER)
        if self._target.exists():  # who may read it stays as it was
            os.fchmod(self._file.fileno(), stat.S_IMODE(self._target.stat().st_mode))
        self.stream = self._file if packed else compressed(name, self._file)

    @property
    def packed(self) -> bool:
        """Whether what is written goes to disk as it is."""
        return self.stream is self._file

    def end(self, *, durable: bool = True) -> None:
        """Write the rest; `durable`: it outlives a power cut."""
        try:
            if not self.packed:
                self.stream.close()
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
        finally:
            if not self._alone:
                self._file.close()

    def commit(self) -> None:
        """Let the file appear, after `end`."""
        self.partial.replace(self._target)
        self._file.close()

    def keep(self) -> None:
        """Close NAME.partial, with what is written so far."""
        try:
            if not self.packed and not self.stream.closed:
                self.stream.close()
        finally:
            self._file.close()

    def discard(self) -> None:
        """Remove what was written."""
        try:
            self.keep()
        finally:
            self.partial.unlink(missing_ok=True)


class Passing:
    """Stdout, a pipe or a device: everything is passed on at once, and nothing can be taken back."""

    through = True

    def __init__(self, name: str) -> None:
        """Open it; UsageError where stdout is closed, OSError where it cannot be written."""
        if name == "-" and sys.stdout is None:
            raise UsageError("-: stdout is closed; give a file name")
        self._own, self.waits = name != "-", name == "-"
        self._file: BinaryIO = Path(name).open("wb") if self._own else sys.stdout.buffer  # noqa: SIM115 - `keep`
        self.stream = compressed(name, self._file) if self._own else self._file

    def end(self) -> None:
        """Pass the rest on."""
        if self.stream is not self._file:
            self.stream.close()
        self._file.flush()

    def commit(self) -> None:
        """Close it; it is there already."""
        self.keep()

    def keep(self) -> None:
        """Close it, but for stdout."""
        if not self._own:
            return
        try:
            if self.stream is not self._file and not self.stream.closed:
                self.stream.close()
        finally:
            self._file.close()

    discard = keep


WholeFile = LocalFile | Passing | RemoteFile


def begin(name: str) -> WholeFile:
    """Open a file for writing, by its path, its address or `-`; UsageError where it cannot be written."""
    if is_remote(name):
        return RemoteFile(name)
    try:
        given = Path(name)
        if name == "-":
            return Passing(name)
        if given.is_dir():
            raise UsageError(f"{name}: is a directory; give a file name, or `-` for stdout")
        return Passing(name) if given.exists() and not given.is_file() else LocalFile(name)
    except FileNotFoundError:
        way = f"create it with: mkdir -p {Path(os.path.realpath(name)).parent}"
        raise UsageError(f"{name}: its directory does not exist; {way}") from None
    except OSError as error:
        raise UsageError(f"{name}: cannot be written: {error.strerror}") from None


def locked(partial: Path) -> BinaryIO:
    """Open NAME.partial for this process alone, empty."""
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
