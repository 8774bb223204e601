"""Inspect's `.eval` log: a zip archive with a member `samples/NAME.json` for each sample.

Its members are compressed with Zstandard (method 93) or, in old logs, deflate. Written back, every
other member keeps its name, place, method and content.
"""

from __future__ import annotations

import copy
import lzma
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from ruler_cli.errors import ForeignError, UsageError
from ruler_cli.reading.compression import zstd
from ruler_cli.reading.container import Container, Encoder, task_of
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
_SAMPLE = re.compile(r"samples/([^/]+)\.json")


def open_zip(name: str, file: BinaryIO, stack: ExitStack) -> Container:
    """An archive in a file that can be searched; ForeignError where it holds no samples."""
    with _readable(name):
        archive = stack.enter_context(zipfile.ZipFile(file))
    found = Archive(name, archive)
    if not found.samples:
        if any(info.filename.endswith("data.pkl") for info in found.members):  # never opened: it may run code
            raise ForeignError(f"{name}: is a torch file; export its samples as JSON lines")
        raise ForeignError(
            f"{name}: is a zip archive without samples/*.json; unpack it and give what is inside"
        )
    return found


class Archive(Container):
    """The samples of a log, in the order of the archive; of members of one name the last one counts."""

    unit = "sample"

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        """`archive` is open for reading."""
        super().__init__(name)
        self._archive = archive
        last = {info.filename: info for info in archive.infolist()}
        self.members = [info for info in archive.infolist() if last[info.filename] is info]
        self.samples = [info for info in self.members if _SAMPLE.fullmatch(info.filename)]

    def records(self) -> Iterator[Line]:
        """Every sample."""
        for number, info in enumerate(self.samples, 1):
            yield Line(number, info.header_offset, self.content(info), self.place(number))

    def content(self, info: zipfile.ZipInfo) -> bytes:
        """A member, unpacked."""
        with _readable(self.name, info.filename):
            return self._archive.read(info)

    @property
    def task(self) -> str:  # type: ignore[override]  # read when it is asked for: few need it
        """The task in the log's header."""
        header = next((info for info in self.members if info.filename == "header.json"), None)
        return "" if header is None else task_of(self.content(header))

    def place(self, number: int) -> str:
        """The sample's name."""
        return "sample " + self.samples[number - 1].filename[len("samples/") : -len(".json")]

    def encoder(self, stream: BinaryIO) -> Encoder:
        """Writes the archive again."""
        return _Rewritten(self, stream)


class _Writing(zipfile.ZipFile):
    """An archive that is not ended by being forgotten: what it is written to may be closed by then."""

    def __del__(self) -> None:
        """Nothing."""


class _Rewritten:
    """The archive with other samples; one that is left out is no member any more."""

    def __init__(self, log: Archive, stream: BinaryIO) -> None:
        self._log = log
        self._out = _Writing(stream, "w")
        self._rest = iter(log.members)

    def put(self, number: int, body: bytes) -> None:
        """What stands before this sample, and its new bytes."""
        mine = self._log.samples[number - 1]
        self._others(mine)
        self._out.writestr(_like(mine), body)

    def end(self) -> None:
        """The other members and the directory of the archive."""
        self._others(None)
        self._out.close()

    def _others(self, until: zipfile.ZipInfo | None) -> None:
        for info in self._rest:
            if info is until:
                return
            if not _SAMPLE.fullmatch(info.filename):
                self._out.writestr(_like(info), self._log.content(info))


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """A member's name, date, method and attributes, for other content."""
    new = zipfile.ZipInfo(info.filename, info.date_time)
    new.compress_type = info.compress_type
    new.external_attr, new.create_system = info.external_attr, info.create_system
    new.comment, new.extra = copy.copy(info.comment), b""
    return new


@contextmanager
def _readable(name: str, member: str = "") -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        where = f" ({member})" if member else ""
        raise UsageError(
            f"{name}: the zip archive is damaged or cut off{where}: {error}; copy it again, or have "
            "its program write it anew, e.g. `inspect log convert --to json`"
        ) from None
    except (NotImplementedError, RuntimeError) as error:
        raise UsageError(
            f"{name}: {member} cannot be unpacked: {error}; `inspect log convert --to json` may"
        ) from None
