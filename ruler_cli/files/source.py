"""One file or stream of INPUT, open before its container is known."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import BinaryIO

from ruler_cli.files.compression import (
    GZIP_MAGIC,
    ZSTD_MAGIC,
    decompressed,
    from_file,
)
from ruler_cli.files.error_map import reading
from ruler_cli.files.location import Listing, Location
from ruler_cli.files.scratch import Scratch

_MAX_FIRST_LINE = 1 << 23
"""Bytes of a first line beyond which a stream is spooled before its container is known."""


class Source:
    """INPUT, or a file of it, with its first bytes, and its text if it is text.

    `listing` has the files of a directory or a pattern, of which no byte is read here. `once`: it is a pipe.
    `fd` is the descriptor of a regular file of the text, uncompressed; None if there is none. `keep`: the
    text of a pipe is kept on disk. `file` is the name of the file for records.
    """

    def __init__(
        self,
        location: Location,
        stack: ExitStack,
        most: int,
        *,
        file: str | None = None,
        keep: bool = False,
    ) -> None:
        """Open it until `stack` ends; UsageError if it cannot be read."""
        self.location, self.most, self.keep = location, most, keep
        self.name, self.stack = location.shown, stack
        own = "" if location.stream else location.public.rpartition("/")[2]
        self.file = own if file is None else file
        self.listing: Listing | None = location.listed() if location.many else None
        self.head = b""
        self.fd: int | None = None
        if self.listing is None:
            self._open()

    def _open(self) -> None:
        self.stream = self.stack.enter_context(self.location.open())
        with reading(self.name):
            status = os.fstat(self.stream.fileno()) if self.location.local else None
            self._regular = status is not None and stat.S_ISREG(status.st_mode)
            if self._regular:
                self.head = os.pread(self.stream.fileno(), 8, 0)
            else:
                self.head = self.stream.peek(8)[:8]
        self.once = not (self._regular or self.location.remote)

    def seekable(self) -> BinaryIO:
        """Return the bytes as a file of this machine."""
        return self.stream if self._regular else self._spooled(self.stream)

    @cached_property
    def first(self) -> list[bytes]:
        """The first lines of text, to the first that is not blank; none of text in a regular file."""
        if self._regular and not self.head.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
            self.fd = self.stream.fileno()
            decompressed(self.name, from_file(self.fd))  # refuses what is no text
            return []
        raw = from_file(self.stream.fileno()) if self._regular else self.stream
        self._text = decompressed(self.name, raw)
        lines: list[bytes] = []
        with reading(self.name):
            while line := self._text.readline(_MAX_FIRST_LINE):
                lines.append(line)
                if not line.isspace():
                    break
        return lines

    @property
    def first_line(self) -> bytes:
        """The first line of a stream's text that is not blank."""
        return self.first[-1] if self.first else b""

    @property
    def is_long(self) -> bool:
        """Tell if the end of the first line is not known."""
        return len(self.first_line) == _MAX_FIRST_LINE

    def read(self, at: int, size: int) -> bytes:
        """Read bytes of the text by their offset; of a stream only those of its first line."""
        if self.fd is None:
            return self.first_line[at : at + size]
        with reading(self.name):
            return os.pread(self.fd, size, at)

    def keep_text(self) -> None:
        """Write the text of a stream to a temporary file."""
        if self.fd is None:
            self.fd = self._spooled(self._text, self.first).fileno()

    @contextmanager
    def open_text(self) -> Iterator[BinaryIO]:
        """Open the text once more, from its beginning; what follows the first lines of a pipe."""
        if self.fd is not None:
            yield from_file(self.fd)
        elif self._regular:
            yield decompressed(self.name, from_file(self.stream.fileno()))
        elif self.once:
            yield self._text
        else:  # two cached blocks: the text is read from end to end, and no block twice
            with self.location.open(2) as stream:
                yield decompressed(self.name, stream)

    def _spooled(self, stream: BinaryIO, head: list[bytes] | None = None) -> BinaryIO:
        """Write the lines of `head` and the rest of a stream to a temporary file."""
        spool = self.stack.enter_context(Scratch())
        for line in head or ():
            spool.write(line)
        with reading(self.name):
            while piece := stream.read(1 << 20):
                spool.write(piece)
        spool.fileno()  # flushes: the file is read by its descriptor
        return spool.file
