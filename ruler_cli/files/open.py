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

from ruler_cli.files.compression import GZIP_MAGIC, PARQUET_MAGIC, ZIP_MAGIC, ZSTD_MAGIC
from ruler_cli.files.container import Container
from ruler_cli.files.document import Document
from ruler_cli.files.gathered import gathered, may_be_event
from ruler_cli.files.listing import is_many, listed
from ruler_cli.files.parquet import Parquet
from ruler_cli.files.remote import is_remote, open_remote, public
from ruler_cli.files.shape import may_be_document, shape_of
from ruler_cli.files.shards import Shards
from ruler_cli.files.source import BOM, decompressed, from_file, lines, open_raw, readable, shown
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
    if is_many(name):
        return _many(name)
    found = _one(name, stack)
    if not isinstance(found, JsonLines | Document) or (isinstance(found, Document) and found.held):
        return found
    own = "" if name == "-" else public(name).rpartition("/")[2]
    made = gathered(found, own if file is None else file, stack)
    once = name == "-" or not (is_remote(name) or Path(name).is_file())
    return _kept(made, stack) if once and made is not found else made


def _kept(made: Container, stack: ExitStack) -> Container:
    """Records that were gathered from a stream, as lines of a file: other processes may read it."""
    spool = stack.enter_context(Scratch())
    for line in made.records():
        spool.write(line.raw.replace(b"\n", b" ") + b"\n")
    found = JsonLines(made.name, partial(from_file, spool.fileno()), spool.fileno())
    found.rewritable = False
    return found


def _one(name: str, stack: ExitStack) -> Container:
    """One file, or a stream, by its bytes."""
    stream = stack.enter_context(open_raw(name))
    remote = is_remote(name)
    again = partial(open_remote, name, 2)  # from end to end: no block is wanted twice
    name = public(name)
    with readable(name):
        regular = name != "-" and not remote and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        head = os.pread(stream.fileno(), 8, 0) if regular else stream.peek(8)[:8]
    if head.startswith(PARQUET_MAGIC):
        return Parquet(shown(name), stream if regular or remote else _spooled(name, stream, stack))
    if head.startswith(ZIP_MAGIC):
        return _zip(name, stream if regular else _spooled(name, stream, stack), stack)
    if remote:
        return _stream(name, decompressed(name, stream), stack, lambda _: JsonLines(name, again))
    if not regular:
        return _stream(name, decompressed(name, stream), stack, lambda rest: LinesOnce(name, rest), once=True)
    if not head.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        decompressed(name, from_file(stream.fileno()))  # which refuses what is no text
        return _file(name, stream.fileno())
    opened = partial(from_file, stream.fileno())
    return _stream(name, decompressed(name, opened()), stack, lambda _: JsonLines(name, opened))


def _many(name: str) -> Container:
    from ruler_cli.files.harbor import Harbor, trials

    listing = listed(name)
    found = trials(listing)
    if found and not listing.base:
        return Harbor(name, listing, found)
    return Shards(public(name), listing, open_container)


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


def _zip(name: str, file: BinaryIO, stack: ExitStack) -> Container:
    from ruler_cli.files.zip import open_zip

    return open_zip(name, file, stack)
