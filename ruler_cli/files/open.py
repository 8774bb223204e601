"""INPUT → the container that it is, known by its first bytes, never by its name."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ruler_cli.errors import UsageError
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
from ruler_cli.files.directory import Directory, HarborJob, find_trials
from ruler_cli.files.document import Document, shape_of
from ruler_cli.files.events import assemble_rollouts, may_be_event
from ruler_cli.files.foreign import refuse_saved_dataset
from ruler_cli.files.location import Location
from ruler_cli.files.scratch import Scratch
from ruler_cli.settings.models import MAX_RECORD
from ruler_cli.types import Line

_MAX_FIRST_LINE = 1 << 23
"""Bytes of a first line beyond which a stream is spooled before its kind is decided."""

OpenLines = Callable[[], AbstractContextManager[BinaryIO]]


class JsonLines(Container):
    """JSON lines, in a file that can be read repeatedly, or `once`, from a pipe."""

    form = "lines"

    def __init__(
        self,
        name: str,
        open_lines: OpenLines,
        fd: int | None = None,
        *,
        first: Sequence[bytes] | None = None,
        most: int = MAX_RECORD << 20,
    ) -> None:
        """`open_lines` opens the text; `fd` is a file of only this text.

        `first` are the first lines of a text that comes `once`, which were read from it already.
        """
        super().__init__(name, most)
        self._open_lines, self.fd, self.once, self._first = (
            open_lines,
            fd,
            first is not None,
            first or (),
        )

    def records(self) -> Iterator[Line]:
        """Yield every line that is not blank."""
        with self._open_lines() as text:
            yield from lines(self.name, text, self.most, self._first)


def open_container(
    name: str,
    stack: ExitStack,
    file: str | None = None,
    *,
    most: int = MAX_RECORD << 20,
) -> Container:
    """Open INPUT, `-` for stdin, until `stack` ends; UsageError says what is wrong and the way out.

    A record of more than `most` bytes is not held. `file` is the name for records of a rollout's own file:
    relative to INPUT; by default the last part of `name`.
    """
    location = Location(name)
    if location.many:
        listing = location.listed()
        if listing.whole:
            refuse_saved_dataset(location.public, listing.names)
        if not location.remote and (trials := find_trials(listing)):
            return HarborJob(name, listing, trials, most)
        return Directory(location.public, listing, partial(open_container, most=most))
    container = _open_one(location, stack, most)
    events = isinstance(container, JsonLines) or (
        isinstance(container, Document) and not container.in_member
    )
    if container.once or not events:
        return container
    own_name = "" if location.stream else location.public.rpartition("/")[2]
    rollouts = assemble_rollouts(container, own_name if file is None else file, stack)
    once = location.stream or not (location.remote or Path(name).is_file())
    if not once or rollouts is container:
        return rollouts
    return spool_lines(rollouts, stack)


def spool_lines(source: Container, stack: ExitStack) -> Container:
    """Write the records of a stream to a temporary file of JSON lines with the same numbers, and open it.

    A record that is not held leaves a hole of its size, which takes no space, and is too large again.
    """
    spool, number = stack.enter_context(Scratch()), 0
    for line in source.records():
        raw = b"{" if line.skipped else line.raw.replace(b"\n", b" ")
        spool.write(b"\n" * (line.number - number - 1) + raw)
        spool.skip(spool.size + max(0, line.skipped - 1))
        spool.write(b"\n")
        number = line.number
    return JsonLines(
        source.name,
        partial(from_file, spool.fileno()),
        spool.fileno(),
        most=source.most,
    )


def _open_one(location: Location, stack: ExitStack, most: int) -> Container:
    """Open one file, or a stream, by its first bytes."""
    stream = stack.enter_context(location.open())
    name, remote = location.shown, location.remote
    with readable(name):
        regular = location.local and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        head = os.pread(stream.fileno(), 8, 0) if regular else stream.peek(8)[:8]
    if head.startswith(PARQUET_MAGIC):
        try:
            from ruler_cli.files.parquet import Parquet
        except ImportError:
            raise UsageError(
                f"{name}: is Parquet; install the reader with: pip install pyarrow"
            ) from None
        return Parquet(
            name, stream if regular or remote else _spool(name, stream, stack), most
        )
    if head.startswith(ZIP_MAGIC):
        from ruler_cli.files.archive import Archive  # few runs need it

        return Archive(
            name, stream if regular else _spool(name, stream, stack), stack, most
        )
    # two cached blocks: the text is read from end to end, and no block twice
    reopen = (
        partial(from_file, stream.fileno()) if regular else partial(location.open, 2)
    )

    @contextmanager
    def reread() -> Iterator[BinaryIO]:
        with reopen() as raw:
            yield decompressed(name, raw)

    if regular and not head.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        decompressed(
            name, from_file(stream.fileno())
        )  # refuses a file that holds no text
        return _open_text_file(name, stream.fileno(), most)
    text = decompressed(name, from_file(stream.fileno()) if regular else stream)
    return _open_text_stream(
        name, text, stack, reread if regular or remote else None, most
    )


def _open_text_file(name: str, fd: int, most: int) -> Container:
    """Open a regular file that holds text: a document or JSON lines."""

    def read(at: int, size: int) -> bytes:
        with readable(name):
            return os.pread(fd, size, at)

    shape = shape_of(read)
    if shape is None:
        return JsonLines(name, partial(from_file, fd), fd, most=most)
    return Document(name, fd, shape, most)


def _open_text_stream(
    name: str, stream: BinaryIO, stack: ExitStack, reread: OpenLines | None, most: int
) -> Container:
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
        if reread is not None:
            return JsonLines(name, reread, most=most)
        return JsonLines(name, lambda: nullcontext(stream), first=first, most=most)
    return _open_text_file(
        name, _spool(name, stream, stack, b"".join(first)).fileno(), most
    )


def _spool(
    name: str, stream: BinaryIO, stack: ExitStack, head: bytes = b""
) -> BinaryIO:
    """Write `head` and the rest of a stream to a temporary file."""
    spool = stack.enter_context(Scratch())
    spool.write(head)
    with readable(name):
        while piece := stream.read(1 << 20):
            spool.write(piece)
    spool.fileno()  # flushes: the file is read by its descriptor
    return spool.file
