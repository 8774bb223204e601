"""Files that appear whole or not at all: on this machine by rename, at an address by an upload's end.

Object stores (S3, Cloud Storage, the Hugging Face hub) make an object visible when its upload is
completed, so that waits for `commit`. Any other file system gets NAME.partial, which `commit` renames.
A process that is killed leaves at most parts of an upload, which the store's own rules remove.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO, cast

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.compression import compressed
from ruler_cli.files.error_map import access_denied, creating
from ruler_cli.files.location import Location
from ruler_cli.files.remote import RemoteStore

_BUFFER = 1 << 16
"""Bytes collected before a write: with a mebibyte, which no cache holds, a record took four times as long."""
_HELD_BACK = frozenset({"s3", "s3a", "gs", "gcs"})
"""Stores whose uploads can be completed or given up after all bytes are sent."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
"""Flags that create a file, and fail where any file or link stands."""
_PART = 32 << 20
"""Bytes of one part of an upload; S3 takes 10,000, which is 320 GB."""


class PassThrough:
    """Stdout, a pipe or a device: bytes are passed on at once, and nothing can be taken back."""

    partial: Path | None = None
    """The place of what was written before an error; None if none of it stays."""
    replaces = False
    """Tells if `commit` takes the place of something that is there."""

    def __init__(self, name: str) -> None:
        """Open it; UsageError if stdout is closed, OSError if it cannot be written."""
        if name == "-" and sys.stdout is None:
            raise UsageError("stdout is closed", "give a file name", place="-")
        self.may_block = name == "-"
        file = sys.stdout.buffer if self.may_block else Path(name).open("wb")  # noqa: SIM115 - `close`
        self._file = cast(BinaryIO, file)
        self.stream = self._file if self.may_block else compressed(name, self._file)

    @property
    def plain(self) -> bool:
        """Tell if bytes are written as they are, without compression."""
        return self.stream is self._file

    def end(self) -> None:
        """Write what is still buffered."""
        if not self.plain:
            self.stream.close()
        self._file.flush()

    def close(self) -> None:
        """Close it with what is written so far; stdout stays open."""
        if self.may_block:
            return
        try:
            if not self.plain and not self.stream.closed:
                self.stream.close()
        finally:
            self._file.close()

    commit = discard = close  # what was written is there already


class LocalFile(PassThrough):
    """A file of this machine; until `commit` it is NAME.partial."""

    may_block = False
    partial: Path

    def __init__(self, name: str, *, lock: bool = True) -> None:
        """Open it; UsageError if another run writes it, OSError if it cannot be written.

        With `lock` off, no other run writes it: `end` closes the file, and a link is replaced, not followed.
        """
        self._target = Path(os.path.realpath(name)) if lock else Path(name)
        self.partial = self._target.with_name(self._target.name + ".partial")
        self._lock = lock
        self._file = (
            _open_locked(self.partial)
            if lock
            else os.fdopen(create_new(self.partial), "wb", _BUFFER)
        )
        if self._target.exists():  # its permissions stay
            os.fchmod(self._file.fileno(), stat.S_IMODE(self._target.stat().st_mode))
        self.stream = compressed(name, self._file)

    @property
    def replaces(self) -> bool:  # type: ignore[override]  # a stream replaces nothing
        """Tell if there is a file of this name."""
        return self._target.exists()

    def end(self) -> None:
        """Write what is still buffered; it survives a power cut."""
        try:
            super().end()
            os.fsync(self._file.fileno())
        finally:
            if not self._lock:
                self._file.close()

    def commit(self) -> None:
        """Rename the file to its name; call it after `end`. OutputError if another file took its place."""
        if self._lock and not _is_at(self.partial, self._file.fileno()):
            problem = "was removed or replaced during the run"
            raise OutputError(problem, "run it again", place=str(self.partial))
        self.partial.replace(self._target)
        self._file.close()

    def discard(self) -> None:
        """Remove what was written."""
        try:
            self.close()
        finally:
            self.partial.unlink(missing_ok=True)


def create_new(path: Path) -> int:
    """Create a file in place of what stands there, and return its descriptor.

    A link that stood there, symbolic or hard, is removed; what it led to is as it was.
    """
    path.unlink(missing_ok=True)
    return os.open(path, _NEW, 0o666)


def _open_locked(partial: Path) -> BinaryIO:
    """Create NAME.partial for this process alone; UsageError if another run has it open."""
    while True:
        _remove_unlocked(partial)
        with contextlib.suppress(FileExistsError):  # another run began just now
            fd = os.open(partial, _NEW, 0o666)
            _lock(fd, str(partial))
            if _is_at(partial, fd):
                return os.fdopen(fd, "wb", _BUFFER)
            os.close(fd)  # another run removed it before the lock


def _remove_unlocked(partial: Path) -> None:
    """Remove what an earlier run left, or a link; UsageError if another run writes it."""
    try:
        fd = os.open(partial, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        if partial.is_symlink():
            partial.unlink(missing_ok=True)
        elif partial.exists():
            raise
        return
    _lock(fd, str(partial))
    if _is_at(
        partial, fd
    ):  # else another run ended just now: this file is its OUTPUT already
        partial.unlink()
    os.close(fd)


def _is_at(path: Path, fd: int) -> bool:
    """Tell if a path is that of an open file."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _lock(fd: int, name: str) -> None:
    """Lock a file, or close it and raise UsageError if another run has locked it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        remedy = "wait for that run, or give another OUTPUT"
        raise UsageError("another run is writing it", remedy, place=name) from None


class RemoteFile:
    """A remote file open for writing. `commit` makes it appear; closing it without that discards it."""

    may_block, plain, partial = True, False, None

    def __init__(self, store: RemoteStore) -> None:
        """Open it; an error if it cannot be written, as far as that shows beforehand.

        The name's ending decides on compression.
        """
        self._system, self._path = store.system, store.path
        protocols = self._system.protocol
        protocols = {protocols} if isinstance(protocols, str) else set(protocols)
        self._held_back = bool(protocols & _HELD_BACK)
        self._on_close = "hf" in protocols
        at_once = self._held_back or self._on_close
        self._staged = self._path if at_once else f"{self._path}.partial"
        if self._held_back:
            self._probe()
        self._file: Any = self._system.open(
            self._staged, "wb", block_size=_PART, autocommit=not self._held_back
        )
        self._done = False
        self.stream = compressed(store.public, self._file)

    def _probe(self) -> None:
        """Raise what would stop the run at its end: no bucket, no credentials, no network.

        A user who may not look at a bucket may be allowed to write to it, so a refusal is no error here.
        """
        try:
            self._system.info(self._path.partition("/")[0])
        except Exception as error:
            if not access_denied(error):
                raise

    @property
    def replaces(self) -> bool:
        """Tell if there is an object of this name."""
        return bool(self._system.exists(self._path))

    def end(self) -> None:
        """Send what is still in memory, if that does not make the object appear."""
        if self.stream is not self._file:
            self.stream.close()
        if not self._on_close:
            self._file.close()

    def commit(self) -> None:
        """Send the rest and make the object appear."""
        self._file.close()
        if self._held_back:
            self._file.commit()
        elif self._staged != self._path:
            self._system.mv(self._staged, self._path)
        self._done = True

    def discard(self) -> None:
        """Give up what was sent, as far as the storage allows; never raises."""
        if self._done:
            return
        self._done, file = True, self._file
        with contextlib.suppress(Exception):
            if self._on_close:
                file.closed = True  # its own `close` would upload
                file.temp_file.close()
                Path(file.temp_file.name).unlink(missing_ok=True)
            elif self._held_back:
                file.closed = True
                file.discard()
            else:
                file.close()
                self._system.rm_file(self._staged)

    close = discard


WritableFile = PassThrough | RemoteFile


def create_file(location: Location) -> WritableFile:
    """Open a location for writing; UsageError if it cannot be written."""
    name, path = location.name, Path(location.name)
    with creating(location.public, location.real):
        if location.remote:
            return RemoteFile(location.store())
        special = location.stream or (path.exists() and not path.is_file())
        return PassThrough(name) if special else LocalFile(name)
