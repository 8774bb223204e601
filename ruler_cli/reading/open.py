"""INPUT → the container that it is, known by its first bytes, never by its name."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ruler_cli.errors import UsageError
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
from ruler_cli.reading.directory import Directory, HarborJob, find_trials
from ruler_cli.reading.document import Document, shape_of
from ruler_cli.reading.events import assemble_rollouts, may_be_event
from ruler_cli.reading.foreign import refuse_saved_dataset
from ruler_cli.reading.location import Location
from ruler_cli.reading.scratch import Scratch
from ruler_cli.types import Line

_MAX_FIRST_LINE = 1 << 23
"""Bytes of a first line beyond which a stream is spooled before its kind is decided."""

OpenLines = Callable[[], AbstractContextManager[Iterable[bytes]]]


class JsonLines(Container):
    """JSON lines, in a file that can be read repeatedly, or `once`, from a pipe."""

    def __init__(
        self, name: str, open_lines: OpenLines, fd: int | None = None, *, once: bool = False
    ) -> None:
        """`open_lines` gives the lines with their LF, from the first on; `fd` is a file of only these."""
        super().__init__(name)
        self._open_lines, self.fd, self.once = open_lines, fd, once

    def records(self) -> Iterator[Line]:
        """Yield every line that is not blank."""
        with self._open_lines() as texts:
            yield from lines(self.name, texts)


def open_container(name: str, stack: ExitStack, file: str | None = None) -> Container:
    """Open INPUT, `-` for stdin, until `stack` ends; UsageError says what is wrong and the way out.

    `file` is the name for records of a rollout's own file: relative to INPUT; by default the last part of
    `name`.
    """
    location = Location(name)
    if location.many:
        listing = location.listed()
        if listing.whole:
            refuse_saved_dataset(location.public, listing.names)
        if not location.remote and (trials := find_trials(listing)):
            return HarborJob(name, listing, trials)
        return Directory(location.public, listing, open_container)
    container = _open_one(location, stack)
    events = isinstance(container, JsonLines) or (isinstance(container, Document) and not container.in_member)
    if container.once or not events:
        return container
    own_name = "" if location.stream else location.public.rpartition("/")[2]
    rollouts = assemble_rollouts(container, own_name if file is None else file, stack)
    once = location.stream or not (location.remote or Path(name).is_file())
    if not once or rollouts is container:
        return rollouts
    spooled = spool_lines(rollouts.name, rollouts.records(), stack)
    spooled.rewritable = False
    return spooled


def spool_lines(name: str, records: Iterable[Line], stack: ExitStack) -> Container:
    """Write the records of a stream to a temporary file of JSON lines with the same numbers, and open it."""
    spool, number = stack.enter_context(Scratch()), 0
    for line in records:
        spool.write(b"\n" * (line.number - number - 1) + line.raw.replace(b"\n", b" ") + b"\n")
        number = line.number
    return JsonLines(name, partial(from_file, spool.fileno()), spool.fileno())


def _open_one(location: Location, stack: ExitStack) -> Container:
    """Open one file, or a stream, by its first bytes."""
    stream = stack.enter_context(location.open())
    name, remote = location.shown, location.remote
    with readable(name):
        regular = location.local and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        head = os.pread(stream.fileno(), 8, 0) if regular else stream.peek(8)[:8]
    if head.startswith(PARQUET_MAGIC):
        try:
            from ruler_cli.reading.parquet import Parquet
        except ImportError:
            raise UsageError(f"{name}: is Parquet; install the reader with: pip install pyarrow") from None
        return Parquet(name, stream if regular or remote else _spool(name, stream, stack))
    if head.startswith(ZIP_MAGIC):
        from ruler_cli.reading.archive import Archive  # few runs need it

        return Archive(name, stream if regular else _spool(name, stream, stack), stack)
    # two cached blocks: the text is read from end to end, and no block twice
    reopen = partial(from_file, stream.fileno()) if regular else partial(location.open, 2)

    @contextmanager
    def reread() -> Iterator[BinaryIO]:
        with reopen() as raw:
            yield decompressed(name, raw)

    if regular and not head.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        decompressed(name, from_file(stream.fileno()))  # refuses a file that holds no text
        return _open_text_file(name, stream.fileno())
    text = decompressed(name, from_file(stream.fileno()) if regular else stream)
    return _open_text_stream(name, text, stack, reread if regular or remote else None)


def _open_text_file(name: str, fd: int) -> Container:
    """Open a regular file that holds text: a document or JSON lines."""

    def read(at: int, size: int) -> bytes:
        with readable(name):
            return os.pread(fd, size, at)

    shape = shape_of(read)
    if shape is None:
        return JsonLines(name, partial(from_file, fd), fd)
    return Document(name, fd, shape)


def _open_text_stream(name: str, stream: BinaryIO, stack: ExitStack, reread: OpenLines | None) -> Container:
    """Open text that is no plain file: JSON lines stay a stream, a document is spooled.

    `reread` opens it again; None: it comes once. Then events are spooled too: a rollout is complete with the
    last event.
    """
    first: list[bytes] = []
    with readable(name):
        while line := stream.readline(_MAX_FIRST_LINE):
            first.append(line)
            if not line.isspace():
                break
    last = first[-1] if first else b""
    events = reread is None and may_be_event(last.removeprefix(BOM))
    document = shape_of(lambda at, size: last[at : at + size]) is not None
    if len(last) < _MAX_FIRST_LINE and not events and not document:
        rest = itertools.chain(first, stream)
        return JsonLines(name, reread or (lambda: nullcontext(rest)), once=reread is None)
    return _open_text_file(name, _spool(name, stream, stack, b"".join(first)).fileno())


def _spool(name: str, stream: BinaryIO, stack: ExitStack, head: bytes = b"") -> BinaryIO:
    """Write `head` and the rest of a stream to a temporary file."""
    spool = stack.enter_context(Scratch())
    spool.write(head)
    with readable(name):
        while piece := stream.read(1 << 20):
            spool.write(piece)
    spool.fileno()  # flushes: the file is read by its descriptor
    return spool.file
