"""Compressed bytes ↔ text: a reader knows gzip and Zstandard by the first bytes, a writer by the name."""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
from typing import Any, BinaryIO, cast

from ruler_cli.errors import ForeignError, UsageError
from ruler_cli.files.error_map import reading

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "BOM",
    "BUFFER",
    "GZIP_MAGIC",
    "ZSTD_MAGIC",
    "compressed",
    "decompressed",
    "from_file",
    "zstd",
]

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
BUFFER = 1 << 18
BOM = b"\xef\xbb\xbf"
_HEAD = 512
"""Bytes that show if a file is text."""
_JSON = re.compile(rb"(?:\xef\xbb\xbf|^)\s*[\[{](?!\0)", re.MULTILINE)
"""A line that begins as JSON; zeros before or behind it are left by a crash while it was written."""
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_HIDDEN_TEXT = re.compile(rb"BZh|\xfd7zXZ|\xff\xfe|\xfe\xff|\0*[\[{]\0|\0+[\[{]")
"""First bytes of bzip2, xz, UTF-16 and UTF-32: there may be records inside."""


def compressed(name: str, stream: BinaryIO) -> BinaryIO:
    """Wrap a stream for writing by the ending of the name: .gz, .zst, anything else plain."""
    if name.endswith(".gz"):
        file = gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="")
        return cast(BinaryIO, file)
    if name.endswith(".zst"):
        frames = zstd.ZstdFile(stream, "wb")
        # else a file of no records would have no frame, which other programs call damaged
        frames.write(b"")
        return cast(BinaryIO, frames)
    return stream


def decompressed(name: str, stream: io.BufferedReader[Any]) -> BinaryIO:
    """Return a stream of the text, whatever its compression; UsageError if it is no text.

    ForeignError if there can be no records inside.
    """
    text = stream
    with reading(name):
        head = stream.peek(_HEAD)[:_HEAD]
        if head.startswith(GZIP_MAGIC):
            text = io.BufferedReader(gzip.GzipFile(fileobj=stream), BUFFER)
        elif head.startswith(ZSTD_MAGIC):
            text = io.BufferedReader(zstd.ZstdFile(stream, "rb"), BUFFER)
        if text is not stream:
            head = text.peek(_HEAD)[:_HEAD]
    hidden = _HIDDEN_TEXT.match(head)
    if hidden or (_CONTROL.search(head) and not _JSON.search(head)):
        kind = UsageError if hidden else ForeignError
        raise kind(
            f"is neither text nor a known container (it begins with {head[:8]!r})",
            "convert it to JSON lines",
            place=name,
        )
    return cast(BinaryIO, text)


class _FileReader(io.RawIOBase):
    """A regular file, read with an offset of its own: several readers may share one descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd, self._offset = fd, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._fd, len(buffer), self._offset)
        buffer[: len(data)] = data
        self._offset += len(data)
        return len(data)


def from_file(fd: int) -> io.BufferedReader[_FileReader]:
    """Read a regular file from its first byte on; other readers may use the same descriptor."""
    return io.BufferedReader(_FileReader(fd), BUFFER)
