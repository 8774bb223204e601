"""INPUT → the container that it is, told by its first bytes, never by its name."""

from __future__ import annotations

import io
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ruler_cli.files.compression import (
    BOM,
    GZIP_MAGIC,
    PARQUET_MAGIC,
    ZIP_MAGIC,
    ZSTD_MAGIC,
    decompressed,
    from_file,
    lines,
    readable,
)
from ruler_cli.files.container import Container
from ruler_cli.files.document import Document, may_be_document, shape_of
from ruler_cli.files.gathered import gathered, may_be_event
from ruler_cli.files.location import Location
from ruler_cli.files.parquet import Parquet
from ruler_cli.files.shards import Shards
from ruler_cli.records import Line
from ruler_cli.scratch import Scratch

_FIRST = 1 << 23
"""Bytes of a first line beyond which a stream is kept on disk before it is told what it is."""


Opened = Callable[[], "AbstractContextManager[io.BufferedReader[Any]]"]


class JsonLines(Container):
    """JSON lines in a file, which can be read as often as wanted."""

    def __init__(self, name: str, opened: Opened, fd: int | None = None) -> None:
        """`opened` gives the bytes from the first one on; `fd` is a file that holds them uncompressed."""
        super().__init__(name)
        self._opened, self._fd, self.plain = opened, fd, fd is not None

    def fileno(self) -> int:
        """The file."""
        return super().fileno() if self._fd is None else self._fd

    def records(self) -> Iterator[Line]:
        """Every line that is not blank."""
        with self._opened() as stream:
            yield from lines(self.name, decompressed(self.name, stream))


class LinesOnce(Container):
    """JSON lines as they come through a pipe."""

    once = True

    def __init__(self, name: str, stream: Iterable[bytes]) -> None:
        """`stream` yields lines with their LF."""
        super().__init__(name)
        self._stream = stream

    def records(self) -> Iterator[Line]:
        """Every line that is not blank; for one caller."""
        return lines(self.name, self._stream)


def open_container(name: str, stack: ExitStack, file: str | None = None) -> Container:
    """Open INPUT, `-` for stdin, until `stack` ends; UsageError says what is wrong and the way out.

    `file` is how the records of a rollout's own file name it: relative to INPUT, or its last name.
    """
    place = Location(name)
    if place.many:
        return _many(place)
    found = _one(place, stack)
    if not isinstance(found, JsonLines | Document) or (isinstance(found, Document) and found.held):
        return found
    own = "" if place.stream else place.public.rpartition("/")[2]
    made = gathered(found, own if file is None else file, stack)
    once = place.stream or not (place.remote or Path(name).is_file())
    if not once or made is found:
        return made
    lasting = kept(made.name, made.records(), stack)
    lasting.rewritable = False
    return lasting


def kept(name: str, records: Iterable[Line], stack: ExitStack) -> Container:
    """Records of a stream as lines of a file with the same numbers: it may be read again, by others too."""
    spool, number = stack.enter_context(Scratch()), 0
    for line in records:
        spool.write(b"\n" * (line.number - number - 1) + line.raw.replace(b"\n", b" ") + b"\n")
        number = line.number
    return JsonLines(name, partial(from_file, spool.fileno()), spool.fileno())


def _one(place: Location, stack: ExitStack) -> Container:
    """One file, or a stream, by its bytes."""
    stream = stack.enter_context(place.open())
    name, remote = place.shown, place.remote
    with readable(name):
        regular = place.local and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        head = os.pread(stream.fileno(), 8, 0) if regular else stream.peek(8)[:8]
    if head.startswith(PARQUET_MAGIC):
        return Parquet(name, stream if regular or remote else _spooled(name, stream, stack))
    if head.startswith(ZIP_MAGIC):
        from ruler_cli.files.zip import open_zip  # few runs need it

        return open_zip(name, stream if regular else _spooled(name, stream, stack), stack)
    if remote:
        again = partial(place.open, 2)  # from end to end: no block is wanted twice
        return _stream(name, decompressed(name, stream), stack, lambda _: JsonLines(name, again))
    if not regular:
        return _stream(name, decompressed(name, stream), stack, lambda rest: LinesOnce(name, rest), once=True)
    if not head.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        decompressed(name, from_file(stream.fileno()))  # which refuses what is no text
        return _file(name, stream.fileno())
    opened = partial(from_file, stream.fileno())
    return _stream(name, decompressed(name, opened()), stack, lambda _: JsonLines(name, opened))


def _many(place: Location) -> Container:
    from ruler_cli.files.harbor import Harbor, trials  # few runs need it

    listing = place.listed()
    found = [] if listing.base else trials(listing)
    if found:
        return Harbor(place.name, listing, found)
    return Shards(place.public, listing, open_container)


def _file(name: str, fd: int) -> Container:
    """A regular file that holds text."""

    def read(at: int, size: int) -> bytes:
        with readable(name):
            return os.pread(fd, size, at)

    shape = shape_of(read)
    if shape is None:
        return JsonLines(name, partial(from_file, fd), fd)
    return Document(name, fd, shape)


def _stream(
    name: str,
    stream: BinaryIO,
    stack: ExitStack,
    lines_of: Callable[[Iterable[bytes]], Container],
    *,
    once: bool = False,
) -> Container:
    """Text that is no file: JSON lines stay where they are, a document is brought to one.

    So are events that come `once`: a rollout is known when the last of them is.
    """
    first: list[bytes] = []
    with readable(name):
        while line := stream.readline(_FIRST):
            first.append(line)
            if not line.isspace():
                break
    whole = not first or len(first[-1]) < _FIRST
    events = once and whole and bool(first) and may_be_event(first[-1].removeprefix(BOM))
    if not events and (not first or (whole and not may_be_document(first[-1]))):
        return lines_of(itertools.chain(first, stream))
    return _file(name, _spooled(name, stream, stack, b"".join(first)).fileno())


def _spooled(name: str, stream: BinaryIO, stack: ExitStack, head: bytes = b"") -> BinaryIO:
    """What a stream still holds, in a temporary file."""
    spool = stack.enter_context(Scratch())
    spool.write(head)
    with readable(name):
        while piece := stream.read(1 << 20):
            spool.write(piece)
    spool.fileno()  # it is read by its descriptor
    return spool.file
