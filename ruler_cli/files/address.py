"""An address as OUTPUT: an object that appears whole, when the run is at its end, or not at all."""

from __future__ import annotations

import contextlib
import io
from types import TracebackType
from typing import BinaryIO, cast

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import compressed
from ruler_cli.files.container import Container, Encoder, Lines
from ruler_cli.files.output import as_lines, refuse_shape
from ruler_cli.files.remote import public
from ruler_cli.files.remote_output import RemoteOutput, open_remote_output

_BUFFER = 1 << 16


class Upload:
    """An object as it is written: what goes into `stream` is compressed as the name asks, and sent."""

    def __init__(self, name: str) -> None:
        """UsageError where the address cannot be written, as far as that shows beforehand."""
        self._object: RemoteOutput = open_remote_output(name)
        self._buffer = cast(BinaryIO, io.BufferedWriter(self._object, _BUFFER))
        self.stream = compressed(public(name), self._buffer)

    def end(self) -> None:
        """Send what is left, as far as that can be before the object appears."""
        if self.stream is not self._buffer:
            self.stream.close()
        self._buffer.flush()

    def commit(self) -> None:
        """Let the object appear, after `end`."""
        self._object.commit()

    def discard(self) -> None:
        """Forget it."""
        self._object.discard()


class OutputAddress:
    """OUTPUT at an address; the same use as `Output`."""

    waits = True

    def __init__(self, name: str) -> None:
        """Begin the object; UsageError where it cannot be written, before anything is read."""
        self.name = public(name)
        if self.name.endswith("/"):
            raise UsageError(f"{self.name}: is a directory; give the address of a file, or `-` for stdout")
        self._upload = Upload(name)
        self._container: Container | None = None
        self._encoder: Encoder | None = None

    def into(self, container: Container) -> None:
        """Write a container of INPUT's kind, where the name does not ask for JSON lines."""
        refuse_shape(self.name, container)
        self._container = None if as_lines(self.name) else container

    def put(self, number: int, body: bytes) -> None:
        """Append the record with this number."""
        self._shape().put(number, body)

    def commit(self) -> None:
        """Let the object appear; OutputError where it does not."""
        self._shape().end()
        self._upload.end()
        self._upload.commit()

    def __enter__(self) -> OutputAddress:
        """The output, open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Without `commit` nothing is there: the replies are in the ledger."""
        with contextlib.suppress(OSError):
            self._upload.discard()

    def _shape(self) -> Encoder:
        """What puts records together; made with the first of them, when all of INPUT is known."""
        if self._encoder is None:
            stream = self._upload.stream
            self._encoder = self._container.encoder(stream) if self._container else Lines(stream)
        return self._encoder
