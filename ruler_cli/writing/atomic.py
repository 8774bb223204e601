"""Files that appear whole or not at all: on this machine by rename, at an address by an upload's end.

Object stores (S3, Cloud Storage, the Hugging Face hub) make an object visible when its upload is
completed, so that waits for `commit`. Any other file system gets NAME.partial, renamed by `commit`.
A process that is killed leaves at most parts of an upload, which the store's own rules remove.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.reading.compression import compressed
from ruler_cli.reading.remote import Store, reason, refused

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_BUFFER = 1 << 16
"""Bytes collected before a write: a mebibyte, which no cache holds, made a record take four times as long."""
_HELD = frozenset({"s3", "s3a", "gs", "gcs"})
"""Stores whose uploads can be held back, or be given up, once everything is sent."""
_PART = 32 << 20
"""Bytes of one part of an upload; S3 takes 10,000, which is 320 GB."""


class Passing:
    """Stdout, a pipe or a device: everything is passed on at once, and nothing can be taken back."""

    through = True

    def __init__(self, name: str) -> None:
        """Open it; UsageError where stdout is closed, OSError where it cannot be written."""
        if name == "-" and sys.stdout is None:
            raise UsageError("-: stdout is closed; give a file name")
        self.waits = name == "-"
        self._file = cast(BinaryIO, sys.stdout.buffer if self.waits else Path(name).open("wb"))  # noqa: SIM115 - `keep`
        self.stream = self._file if self.waits else compressed(name, self._file)

    @property
    def packed(self) -> bool:
        """Tell if what is written goes on as it is."""
        return self.stream is self._file

    def end(self, *, durable: bool = True) -> None:
        """Write the rest."""
        if not self.packed:
            self.stream.close()
        self._file.flush()

    def commit(self) -> None:
        """Close it; it is there already."""
        self.keep()

    def keep(self) -> None:
        """Close it, but for stdout, with what is written so far."""
        if self.waits:
            return
        try:
            if not self.packed and not self.stream.closed:
                self.stream.close()
        finally:
            self._file.close()

    def discard(self) -> None:
        """Close it."""
        self.keep()


class LocalFile(Passing):
    """A file of this machine; until `commit` it is NAME.partial, which its writer alone has open."""

    through = waits = False

    def __init__(self, name: str, *, packed: bool = False, alone: bool = True) -> None:
        """Open it; UsageError where another run writes it, OSError where it cannot be written.

        `packed`: the bytes are compressed already. `alone` off: its directory is locked instead, and the
        file is closed when it ends; there a link is no way to a file elsewhere, and is replaced.
        """
        self._target = Path(os.path.realpath(name)) if alone else Path(name)
        self.partial = self._target.with_name(self._target.name + ".partial")
        self._alone = alone
        self._file = locked(self.partial) if alone else self.partial.open("wb", _BUFFER)
        if self._target.exists():  # who may read it stays as it was
            os.fchmod(self._file.fileno(), stat.S_IMODE(self._target.stat().st_mode))
        self.stream = self._file if packed else compressed(name, self._file)

    def end(self, *, durable: bool = True) -> None:
        """Write the rest; `durable`: it outlives a power cut."""
        try:
            super().end()
            if durable:
                os.fsync(self._file.fileno())
        finally:
            if not self._alone:
                self._file.close()

    def commit(self) -> None:
        """Let the file appear, after `end`."""
        self.partial.replace(self._target)
        self._file.close()

    def discard(self) -> None:
        """Remove what was written."""
        try:
            self.keep()
        finally:
            self.partial.unlink(missing_ok=True)


class RemoteFile(io.RawIOBase):
    """A remote file open for writing. `commit` makes it appear; closing it without that discards it."""

    through, waits = False, True

    def __init__(self, store: Store, *, packed: bool = False) -> None:
        """UsageError where the address cannot be written, as far as that shows beforehand.

        `packed`: the bytes are compressed already.
        """
        self._done = True  # until there is something to discard
        self._shown, self._system, self._path = store.shown, store.system, store.path
        if self._shown.endswith("/"):
            raise UsageError(f"{self._shown}: is a directory; give the address of a file, or `-` for stdout")
        self._staged = self._path
        kinds = self._system.protocol
        kinds = {kinds} if isinstance(kinds, str) else set(kinds)
        self._held, self._on_close = bool(kinds & _HELD), "hf" in kinds
        try:
            if self._held:
                _look(self._system, self._path)
            self._file = self._open()
        except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
            raise UsageError(f"{self._shown}: cannot be written: {reason(error)}") from None
        self._done = False
        self._buffer = cast(BinaryIO, io.BufferedWriter(self, _BUFFER))
        self.stream = self._buffer if packed else compressed(self._shown, self._buffer)

    def _open(self) -> Any:
        if self._held:
            return self._system.open(self._path, "wb", block_size=_PART, autocommit=False)
        if not self._on_close:
            self._staged = self._path + ".partial"
        return self._system.open(self._staged, "wb", block_size=_PART)

    @contextlib.contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
            raise OutputError(
                f"{self._shown}: cannot be written: {reason(error)}; what was paid for is kept, run the same "
                "command again"
            ) from None

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Take all bytes, sent on when a part is full; OutputError where the storage does not."""
        with self._sentence():
            self._file.write(data)
        return memoryview(data).nbytes

    def end(self, *, durable: bool = True) -> None:
        """Send the rest, where that does not make the object appear: nothing of it stays in memory."""
        if self.stream is not self._buffer:
            self.stream.close()
        self._buffer.flush()
        if not self._done and not self._on_close:
            with self._sentence():
                self._file.close()

    def commit(self) -> None:
        """Send the rest and make the object appear; OutputError where it did not."""
        if self._done:
            return
        try:
            with self._sentence():
                self._file.close()
                if self._held:
                    self._file.commit()
                elif self._staged != self._path:
                    self._system.mv(self._staged, self._path)
        except OutputError:
            self.discard()
            raise
        self._done = True
        super().close()

    def discard(self) -> None:
        """Forget what was sent, as far as the storage lets; nothing appears, and nothing is raised."""
        if self._done:
            return
        self._done = True
        with contextlib.suppress(Exception):
            self._abandon()
        super().close()

    def _abandon(self) -> None:
        file = self._file
        if self._on_close:
            file.closed = True  # its own `close` would upload
            file.temp_file.close()
            Path(file.temp_file.name).unlink(missing_ok=True)
        elif self._held:
            file.closed = True
            file.discard()
        else:
            file.close()
            self._system.rm_file(self._staged)

    def close(self) -> None:
        """Discard what was not committed."""
        self.discard()
        super().close()


def _look(system: Any, path: str) -> None:
    """Raise what would stop the run at its end: no bucket, no credentials, no network.

    A bucket that may not be looked at may be written all the same.
    """
    try:
        system.info(path.partition("/")[0])
    except Exception as error:
        if not refused(error):
            raise


WholeFile = Passing | RemoteFile


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
