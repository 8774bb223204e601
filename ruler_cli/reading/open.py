"""INPUT → the container that it is, told by its first bytes, never by its name."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ruler_cli.reading.compression import (
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
from ruler_cli.reading.container import Container
from ruler_cli.reading.directory import Shards
from ruler_cli.reading.document import Document, may_be_document, shape_of
from ruler_cli.reading.events import gathered, may_be_event
from ruler_cli.reading.location import Location
from ruler_cli.reading.parquet import Parquet
from ruler_cli.reading.scratch import Scratch
from ruler_cli.types import Line

_FIRST = 1 << 23
"""Bytes of a first line beyond which a stream is kept on disk before it is told what it is."""


Opened = Callable[[], AbstractContextManager[Iterable[bytes]]]


class JsonLines(Container):
    """JSON lines, in a file that can be read as often as wanted, or `once`, as they come through a pipe."""

    def __init__(self, name: str, opened: Opened, fd: int | None = None, *, once: bool = False) -> None:
        """`opened` gives the lines with their LF, from the first on; `fd` is a file that holds just these."""
        super().__init__(name)
        self._opened, self._fd, self.plain, self.once = opened, fd, fd is not None, once

    def fileno(self) -> int:
        """The file."""
        return super().fileno() if self._fd is None else self._fd

    def records(self) -> Iterator[Line]:
        """Every line that is not blank."""
        with self._opened() as texts:
            yield from lines(self.name, texts)


def open_container(name: str, stack: ExitStack, file: str | None = None) -> Container:
    """Open INPUT, `-` for stdin, until `stack` ends; UsageError says what is wrong and the way out.

    `file` is how the records of a rollout's own file name it: relative to INPUT, or its last name.
    """
    place = Location(name)
    if place.many:
        return _many(place)
    found = _one(place, stack)
    events = isinstance(found, JsonLines) or (isinstance(found, Document) and not found.held)
    if found.once or not events:
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
        from ruler_cli.reading.archive import open_zip  # few runs need it

        return open_zip(name, stream if regular else _spooled(name, stream, stack), stack)
    # from end to end: no block of an object is wanted twice
    source = partial(from_file, stream.fileno()) if regular else partial(place.open, 2)

    @contextmanager
    def again() -> Iterator[BinaryIO]:
        with source() as raw:
            yield decompressed(name, raw)

    if regular and not head.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        decompressed(name, from_file(stream.fileno()))  # which refuses what is no text
        return _file(name, stream.fileno())
    text = decompressed(name, from_file(stream.fileno()) if regular else stream)
    return _stream(name, text, stack, again if regular or remote else None)


def _many(place: Location) -> Container:
    from ruler_cli.reading.harbor import Harbor, trials  # few runs need it

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


def _stream(name: str, stream: BinaryIO, stack: ExitStack, again: Opened | None) -> Container:
    """Text that is no file: JSON lines stay where they are, a document is brought to one.

    `again` reads it anew; None: it comes once. So events are brought there too: a rollout is known when the
    last of them is.
    """
    first: list[bytes] = []
    with readable(name):
        while line := stream.readline(_FIRST):
            first.append(line)
            if not line.isspace():
                break
    last = first[-1] if first else b""
    events = again is None and may_be_event(last.removeprefix(BOM))
    if len(last) < _FIRST and not events and not may_be_document(last):
        rest = itertools.chain(first, stream)
        return JsonLines(name, again or (lambda: nullcontext(rest)), once=again is None)
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
