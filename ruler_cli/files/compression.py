"""Compressed bytes ↔ lines: a reader knows gzip and Zstandard by the first bytes, a writer by the name."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import shlex
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, cast

from ruler_cli.errors import UsageError
from ruler_cli.files.foreign import HEAD, refuse_foreign
from ruler_cli.types import Line

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PARQUET_MAGIC = b"PAR1"
ZIP_MAGIC = b"PK\x03\x04"
_BUFFER = 1 << 18
_HEAD = 64
"""Bytes that are yielded of a line that is too long."""
BOM = b"\xef\xbb\xbf"


def compressed(name: str, stream: BinaryIO) -> BinaryIO:
    """Wrap a stream for writing by the ending of the name: .gz, .zst, anything else plain."""
    if name.endswith(".gz"):
        return cast(
            BinaryIO, gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="")
        )
    if name.endswith(".zst"):
        file = zstd.ZstdFile(stream, "wb")
        file.write(
            b""
        )  # else a file of no records would have no frame, which other programs call damaged
        return cast(BinaryIO, file)
    return stream


def decompressed(name: str, stream: io.BufferedReader[Any]) -> BinaryIO:
    """Return a stream of the text, whatever its compression; UsageError if it is no text."""
    text: io.BufferedReader[Any] = stream
    with readable(name):
        head = stream.peek(HEAD)[:HEAD]
        if head.startswith(GZIP_MAGIC):
            text = io.BufferedReader(gzip.GzipFile(fileobj=stream), _BUFFER)
        elif head.startswith(ZSTD_MAGIC):
            text = io.BufferedReader(zstd.ZstdFile(stream, "rb"), _BUFFER)
        if text is not stream:
            head = text.peek(HEAD)[:HEAD]
    refuse_foreign(name, head)
    return cast(BinaryIO, text)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn errors of decompressing and reading into a UsageError with the way out."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError) as error:
        if "too much memory" in str(error):  # of libzstd, which has no class for it
            raise UsageError(
                f"{name}: its Zstandard window is larger than the 128 MiB that are read; compress it again: "
                f"zstd -dc --long=31 {shlex.quote(name)} | zstd > NEW.zst"
            ) from None
        raise UsageError(
            f"{name}: the compressed data is damaged or cut off ({error}); compress it again, or "
            "pipe what can be unpacked into `ruler score -`"
        ) from None
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None


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
    return io.BufferedReader(_FileReader(fd), _BUFFER)


def lines(
    name: str, stream: BinaryIO, most: int, first: Iterable[bytes] = ()
) -> Iterator[Line]:
    """Yield every line that is not blank, split at LF only (U+2028 and U+0085 are text).

    `first` are lines that were read from the stream already. Of a line of more than `most` bytes only the
    beginning is yielded, and the rest is read without being held.
    """
    offset = 0
    read = iter(partial(stream.readline, most + 2), b"")
    with readable(name):
        for number, whole in enumerate(itertools.chain(first, read), 1):
            start = offset
            offset += len(whole)
            raw = whole[:-1] if whole.endswith(b"\n") else whole
            if len(raw) > most:
                size, head, last, whole = len(raw), raw[:_HEAD], whole[-1:], b""  # noqa: PLW2901 - frees it
                raw = b""
                while last and not last.endswith(b"\n"):
                    last = stream.readline(_BUFFER)
                    offset += len(last)
                    size += len(last.removesuffix(b"\n"))
                yield Line(number, start, head, skipped=size)
                continue
            if number == 1 and raw.startswith(BOM):
                raw, start = raw[3:], start + 3
            if raw and not raw.isspace():
                yield Line(number, start, raw)


__all__ = ["BOM", "GZIP_MAGIC", "PARQUET_MAGIC", "ZIP_MAGIC", "ZSTD_MAGIC", "zstd"]
