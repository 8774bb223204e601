"""An object that is uploaded while it is written, and appears whole or not at all.

Object stores (S3, Cloud Storage, the Hugging Face hub) make an object visible when its upload is
completed, so that waits for `commit`. Any other file system gets NAME.partial, renamed by `commit`.
A process that is killed leaves at most parts of an upload, which the store's own rules remove.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import compressed
from ruler_cli.files.remote import failed, opened, public, reason, refused

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_HELD = frozenset({"s3", "s3a", "gs", "gcs"})
"""Their uploads can be held back, or be given up, once everything is sent."""
_BUFFER = 1 << 16
_PART = 32 << 20
"""Bytes of one part of an upload; S3 takes 10,000, which is 320 GB."""


class RemoteFile(io.RawIOBase):
    """A remote file open for writing. `commit` makes it appear; closing it without that discards it."""

    through, waits = False, True

    def __init__(self, name: str, *, packed: bool = False) -> None:
        """UsageError where the address cannot be written, as far as that shows beforehand.

        `packed`: the bytes are compressed already.
        """
        self.shown = public(name)
        if self.shown.endswith("/"):
            raise UsageError(f"{self.shown}: is a directory; give the address of a file, or `-` for stdout")
        self._done = True  # until there is something to discard
        self._system, self._path = opened(name)
        self._staged = self._path
        kinds = self._system.protocol
        kinds = {kinds} if isinstance(kinds, str) else set(kinds)
        self._held, self._on_close = bool(kinds & _HELD), "hf" in kinds
        try:
            if self._held:
                _look(self._system, self._path)
            self._file = self._open()
        except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
            raise UsageError(f"{self.shown}: cannot be written: {reason(error)}") from None
        self._done = False
        self._buffer = cast(BinaryIO, io.BufferedWriter(self, _BUFFER))
        self.stream = self._buffer if packed else compressed(self.shown, self._buffer)

    def _open(self) -> Any:
        if self._held:
            return self._system.open(self._path, "wb", block_size=_PART, autocommit=False)
        if not self._on_close:
            self._staged = self._path + ".partial"
        return self._system.open(self._staged, "wb", block_size=_PART)

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Take all bytes, sent on when a part is full; OutputError where the storage does not."""
        try:
            self._file.write(data)
        except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
            raise failed(self.shown, error) from None
        return memoryview(data).nbytes

    def end(self, *, durable: bool = True) -> None:
        """Send the rest, where that does not make the object appear: nothing of it stays in memory."""
        if self.stream is not self._buffer:
            self.stream.close()
        self._buffer.flush()
        if self._done or self._on_close:
            return
        try:
            self._file.close()
        except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
            raise failed(self.shown, error) from None

    def commit(self) -> None:
        """Send the rest and make the object appear; OutputError where it did not."""
        if self._done:
            return
        try:
            self._file.close()
            if self._held:
                self._file.commit()
            elif self._staged != self._path:
                self._system.mv(self._staged, self._path)
        except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
            self.discard()
            raise failed(self.shown, error) from None
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
