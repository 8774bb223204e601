"""A file name or `-` → lines, whatever the compression."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import GZIP_MAGIC, ZSTD_MAGIC, zstd
from ruler_cli.records import Line

_BUFFER = 1 << 20
_BOM = b"\xef\xbb\xbf"
_FOREIGN = {
    b"\xff\xfe": "UTF-16 text; convert it with: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16 text; convert it with: iconv -f UTF-16 -t UTF-8",
    b"{\x00": "UTF-16 text; convert it with: iconv -f UTF-16LE -t UTF-8",
    b"\x00{": "UTF-16 text; convert it with: iconv -f UTF-16BE -t UTF-8",
    b"PAR1": "Parquet; write it as JSON lines first, e.g. "
    "pandas.read_parquet(p).to_json(out, orient='records', lines=True)",
    b"PK\x03\x04": "a zip archive; unpack it and give the JSON lines inside",
    b"BZh": "bzip2; decompress it with bunzip2, or recompress as .gz or .zst",
    b"\xfd7zXZ": "xz; decompress it with unxz, or recompress as .gz or .zst",
}


@contextmanager
def open_source(name: str) -> Iterator[BinaryIO]:
    """Open INPUT for reading bytes, decompressed; UsageError says what is wrong and the way out."""
    try:
        stream = io.BufferedReader(io.FileIO(0, closefd=False) if name == "-" else io.FileIO(name), _BUFFER)
    except IsADirectoryError:
        raise UsageError(f"{name}: is a directory; give one file, or `-` for stdin") from None
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file; check the path, or give `-` for stdin") from None
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
    with stream:
        try:
            whole = _decompressed(name, stream)
        except OSError as error:
            raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
        yield whole


def is_compressed(name: str) -> bool:
    """Whether offsets into the file are not offsets into its text."""
    with Path(name).open("rb") as stream:
        return stream.read(4).startswith((GZIP_MAGIC, ZSTD_MAGIC))


def lines(name: str, stream: BinaryIO) -> Iterator[Line]:
    r"""Every line that is not blank, split at LF only (U+2028 and U+0085 are text)."""
    offset = 0
    try:
        for number, whole in enumerate(stream, 1):
            start, size = offset, len(whole)
            offset += size
            raw = whole[:-1] if whole.endswith(b"\n") else whole
            if number == 1 and raw.startswith(_BOM):
                raw, start = raw[3:], start + 3
            if raw and not raw.isspace():
                yield Line(number, start, raw)
    except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError) as error:
        raise UsageError(
            f"{shown(name)}: the compressed data is damaged or cut off ({error}); compress it again, or "
            "pipe what can be unpacked into `ruler score -`"
        ) from None
    except OSError as error:
        raise UsageError(f"{shown(name)}: cannot be read: {error.strerror}") from None


def shown(name: str) -> str:
    """A source as a sentence names it."""
    return "stdin" if name == "-" else name


def _decompressed(name: str, stream: io.BufferedReader[io.FileIO]) -> BinaryIO:
    head = stream.peek(8)[:8]
    for magic, says in _FOREIGN.items():
        if head.startswith(magic):
            raise UsageError(f"{shown(name)}: is {says}")
    if head.startswith(GZIP_MAGIC):
        return cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=stream), _BUFFER))
    if head.startswith(ZSTD_MAGIC):
        return cast(BinaryIO, io.BufferedReader(zstd.ZstdFile(stream, "rb"), _BUFFER))
    return cast(BinaryIO, stream)
