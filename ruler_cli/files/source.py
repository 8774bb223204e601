"""One file or stream of INPUT, open before its container is known; compressed bytes → text.

gzip and Zstandard are known by the first bytes.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from shutil import copyfileobj
from typing import Any, BinaryIO, NamedTuple, cast

from ruler_cli.errors import ForeignError, UsageError
from ruler_cli.files.error_map import reading, zstd
from ruler_cli.files.location import BUFFER, Listing, Location
from ruler_cli.files.scratch import Scratch
from ruler_cli.files.splice import end_of

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
BOM = b"\xef\xbb\xbf"
_MAX_FIRST_LINE = 1 << 23
"""Bytes of a first line beyond which a stream is spooled before its container is known."""
_HEAD = 512
"""Bytes that show if a file is text."""
_JSON = re.compile(rb"(?:\xef\xbb\xbf|^)\s*[\[{](?!\0)", re.MULTILINE)
"""A line that begins as JSON; zeros before or behind it are left by a crash while it was written."""
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_HIDDEN_TEXT = re.compile(
    rb"BZh|\xfd7zXZ|\0*[\[{]\0|\0+[\[{]|\xff\xfe|\xfe\xff|\0\0\xfe\xff"
)
"""First bytes of bzip2, xz, UTF-16 and UTF-32: there may be records inside."""


def decompressed(name: str, stream: io.BufferedReader[Any]) -> BinaryIO:
    """Return a stream of the text, whatever its compression; UsageError if it is not text.

    ForeignError if there can be no records inside.
    """
    text = stream
    with reading(name):
        head = stream.peek(_HEAD)
        if head.startswith(GZIP_MAGIC):
            text = io.BufferedReader(gzip.GzipFile(fileobj=stream), BUFFER)
        elif head.startswith(ZSTD_MAGIC):
            text = io.BufferedReader(zstd.ZstdFile(stream, "rb"), BUFFER)
        head = text.peek(_HEAD)[:_HEAD]
    hidden = _HIDDEN_TEXT.match(head)
    if hidden or (_CONTROL.search(head) and not _JSON.search(head)):
        kind = UsageError if hidden else ForeignError
        raise kind(
            f"is neither text nor a known container (it begins with {head[:8]!r})",
            "convert it to JSON lines in UTF-8",
            place=name,
        )
    return cast(BinaryIO, text)


class _Positioned(io.RawIOBase):
    """A regular file from its first byte on; other readers may use the same descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._offset = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = os.pread(
            self._fd,
            len(buffer),
            self._offset,
        )
        buffer[: len(piece)] = piece
        self._offset += len(piece)
        return len(piece)


def from_file(fd: int) -> io.BufferedReader[Any]:
    """Read a regular file from its first byte on; other readers may use the same descriptor."""
    return io.BufferedReader(_Positioned(fd), BUFFER)


class Events(NamedTuple):
    """The formats' knowledge of events, of which several are one record.

    `begin` returns whether a first record may be an event; `gather` turns a container of events into records, and gets
    the file's name for them.
    """

    begin: Callable[[bytes], bool]
    gather: Callable[[Any, str, ExitStack], Any]


class Source:
    """INPUT, or a file of it, with its first bytes, and its text if it is text.

    `listing` has the files of a directory or a pattern, of which no byte is read here. `once`: it is a pipe.
    `fd` is the descriptor of a regular file of the text, uncompressed; None if there is none. `keep`: the
    text of a pipe is kept on disk. `records` is the path of the records in it, if the user gave one. `events`
    gathers events; without it they are records.
    """

    head = b""
    once = False
    fd: int | None = None
    _regular = False

    def __init__(
        self,
        location: Location,
        stack: ExitStack,
        most: int,
        *,
        keep: bool = False,
        records: str | None = None,
        events: Events | None = None,
    ) -> None:
        """Open it until `stack` ends; UsageError if it cannot be read."""
        self.location = location
        self.most = most
        self.keep = keep
        self.records = records
        self.events = events
        self.name = location.shown
        self.stack = stack
        self.listing: Listing | None = None
        if location.many:
            self.listing = location.listed()
            return
        self.stream = stack.enter_context(location.open())
        with reading(self.name):
            if location.local:
                mode = os.fstat(self.stream.fileno()).st_mode
                self._regular = stat.S_ISREG(mode)
            self.head = self.stream.peek(8)[:8]
        self.once = not (self._regular or location.remote)

    def seekable(self) -> BinaryIO:
        """Return the bytes as a file of this machine."""
        return self.stream if self._regular else self._spooled(self.stream)

    @cached_property
    def first(self) -> list[bytes]:
        """The first lines of text, to the first that is not blank; refuses what is not text."""
        raw = from_file(self.stream.fileno()) if self._regular else self.stream
        self._text = decompressed(self.name, raw)
        if self._regular and self._text is raw:
            self.fd = self.stream.fileno()
        lines: list[bytes] = []
        with reading(self.name):
            while line := self._text.readline(_MAX_FIRST_LINE):
                lines.append(line)
                if not line.isspace():
                    break
        return lines

    @property
    def begins_with_line(self) -> bool:
        """Return whether a file of text begins with a JSON object on its first line, and goes on."""
        if not self._regular or self.head.removeprefix(BOM)[:1] != b"{":
            return False
        goes_on = self.read(len(self.first[0]), 1 << 16).strip()
        return end_of(self.first_line, 0) is not None and bool(goes_on)

    @property
    def first_line(self) -> bytes:
        """The first line of the text that is not blank, without a byte order mark."""
        return self.first[-1].removeprefix(BOM) if self.first else b""

    def read(
        self,
        at: int,
        size: int,
    ) -> bytes:
        """Read bytes of the text by their offset; of a stream only those of its first line."""
        if self.fd is None:
            return self.first_line[at : at + size]
        with reading(self.name):
            return os.pread(
                self.fd,
                size,
                at,
            )

    def keep_text(self) -> None:
        """Write the text of a stream to a temporary file."""
        if self.fd is None:
            head = b"".join(self.first)
            self.fd = self._spooled(self._text, head).fileno()

    @contextmanager
    def open_text(self) -> Iterator[BinaryIO]:
        """Open the text again from its beginning; of a pipe, the text behind its first lines."""
        if self.fd is not None:
            yield from_file(self.fd)
        elif self._regular:
            yield decompressed(self.name, from_file(self.stream.fileno()))
        elif self.once:
            yield self._text
        else:
            with self.location.open() as stream:
                yield decompressed(self.name, stream)

    def _spooled(
        self,
        stream: BinaryIO,
        head: bytes = b"",
    ) -> BinaryIO:
        """Write `head` and the rest of a stream to a temporary file."""
        spool = self.stack.enter_context(Scratch())
        spool.write(head)
        with reading(self.name):
            copyfileobj(
                stream,
                spool,
                1 << 20,
            )
        spool.fileno()  # flushes: the file is read by its descriptor
        return spool.file
