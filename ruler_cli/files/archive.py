"""Inspect's `.eval` log: a zip archive with a member `samples/NAME.json` for each sample.

Its members are compressed with Zstandard (method 93) or, in old logs, deflate. Only inspect_ai writes one.
"""

from __future__ import annotations

import lzma
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import BinaryIO

from ruler_cli.errors import ForeignError, UsageError
from ruler_cli.files.compression import zstd
from ruler_cli.files.container import Container, task_of
from ruler_cli.files.foreign import foreign_member
from ruler_cli.settings.models import MAX_RECORD
from ruler_cli.types import Line

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    zstd.ZstdError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
)
_PIECE = 1 << 16
_SAMPLE = re.compile(r"samples/([^/]+|.+_epoch_\d+)\.json", re.DOTALL)
"""A sample's name; an id may be `HumanEval/0`."""


class Archive(Container):
    """The samples of a log, in the order of the archive; of members with one name the last counts."""

    unit = "sample"

    def __init__(
        self, name: str, file: BinaryIO, stack: ExitStack, most: int = MAX_RECORD << 20
    ) -> None:
        """Open a seekable file; ForeignError if it holds no samples."""
        super().__init__(name, most)
        self.log = file
        with _readable(name):
            self._archive = stack.enter_context(zipfile.ZipFile(file))
        every = self._archive.infolist()
        last = {info.filename: info for info in every}
        self.members = [info for info in every if last[info.filename] is info]
        self.samples = [
            info for info in self.members if _SAMPLE.fullmatch(info.filename)
        ]
        if self.samples:
            return
        kind = foreign_member(name, [info.filename for info in self.members])
        raise ForeignError(
            kind
            or f"{name}: is a zip archive without samples/*.json; unpack it and give what is inside"
        )

    def records(self) -> Iterator[Line]:
        """Yield every sample."""
        for number, info in enumerate(self.samples, 1):
            if info.file_size > self.most:
                yield self.skipped(number, info.header_offset, info.file_size)
            else:
                yield self.line(number, info.header_offset, self.content(info))

    def content(self, info: zipfile.ZipInfo) -> bytes:
        """Return the content of a member, decompressed; no more than the size that the archive states."""
        return b"".join(self._pieces(info))

    def _pieces(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield the content of a member in pieces: a whole read would not be bounded by its stated size."""
        with _readable(self.name, info.filename), self._archive.open(info) as stream:
            yield from iter(partial(stream.read, _PIECE), b"")

    @property
    def task(self) -> str:
        """The task in the log's header."""
        header = next(
            (info for info in self.members if info.filename == "header.json"), None
        )
        return (
            ""
            if header is None or header.file_size > self.most
            else task_of(self.content(header))
        )

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """Make the Line of a sample, with the sample's name."""
        name = self.samples[number - 1].filename[len("samples/") : -len(".json")]
        return Line(number, offset, raw, f"sample {name}")


@contextmanager
def _readable(name: str, member: str = "") -> Iterator[None]:
    """Turn errors of a damaged archive into a UsageError."""
    try:
        yield
    except _DAMAGE as error:
        inside = f" ({member})" if member else ""
        raise UsageError(
            f"{name}: the zip archive is damaged or cut off{inside}: {error}; copy it again, or have "
            "its program write it anew, e.g. `inspect log convert --to json`"
        ) from None
    except (NotImplementedError, RuntimeError) as error:
        raise UsageError(
            f"{name}: {member} cannot be unpacked: {error}; `inspect log convert --to json` may"
        ) from None
