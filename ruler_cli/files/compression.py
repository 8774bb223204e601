"""gzip and Zstandard, told apart by the first bytes when reading and by the name when writing."""

from __future__ import annotations

import gzip
import sys
from typing import BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PARQUET_MAGIC = b"PAR1"
ZIP_MAGIC = b"PK\x03\x04"


def compressed(name: str, stream: BinaryIO) -> BinaryIO:
    """Wrap a stream for writing as the name's ending asks: .gz, .zst, anything else plain."""
    if name.endswith(".gz"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename=""))
    if name.endswith(".zst"):
        made = zstd.ZstdFile(stream, "wb")
        made.write(b"")  # else a file of no records would have no frame, which other programs call damaged
        return cast(BinaryIO, made)
    return stream


__all__ = ["GZIP_MAGIC", "PARQUET_MAGIC", "ZIP_MAGIC", "ZSTD_MAGIC", "compressed", "zstd"]
