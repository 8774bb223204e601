"""Annotated records → OUTPUT, a file or a directory; unreadable lines → the failed file.

OUTPUT appears whole or not at all, by atomic rename; until then it is NAME.partial, which holds whole
records only.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.reading.container import Container, Encoder, MultiFileContainer, write_lines
from ruler_cli.reading.location import Listing, Location, is_ignored
from ruler_cli.types import Problem
from ruler_cli.writing.atomic import LocalFile, PassThrough, StagedFiles, create_file

_UNIT_OF_ENDING = {".parquet": "row", ".eval": "sample", ".zip": "sample"}
"""Endings that only one kind of container may have, with the unit of that kind."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Output:
    """OUTPUT, open for records; use as a context and `commit` at the end."""

    def __init__(self, name: str, *, many: bool = False) -> None:
        """Open a file, an address or `-`, or with `many` a directory of the files of INPUT.

        UsageError if it cannot be written, before anything is read.
        """
        self._location = Location(name)
        self.name = self._path = self._location.public
        self._target = StagedFiles(self._location) if many else create_file(self._location)
        self.may_block = self._target.may_block
        """Tells if writing a record may block, as on stdout that is a pipe."""
        self._advice = "" if self._target.partial is None else "what is whole so far is kept; "
        if isinstance(self._target, LocalFile):
            self._path = str(self._target.partial)
        self._container: Container | None = None
        """INPUT, if OUTPUT is of its kind, and not JSON lines."""
        self._empty, self._done = True, False

    def write_as(self, container: Container) -> None:
        """Write the kind of INPUT, unless the name asks for JSON lines; UsageError if that is impossible."""
        if isinstance(container, MultiFileContainer) and isinstance(self._target, StagedFiles):
            _refuse_others(self._location, container.listing)
            container.in_place = not self._location.remote and self._location.same(container.listing.base)
            container.output_directory = self.name
            self._container = container
            return
        _refuse_shape(self._location, container)
        if not self._location.as_lines and type(container).rewrite is not Container.rewrite:
            self._container = container
            self._advice = "it has no end yet and cannot be read; "

    def put(self, number: int, record: bytes) -> None:
        """Append the record with this number, and flush it to a pipe."""
        self._empty = False
        with self._errors():
            self._encoder.put(number, record)
            if type(self._target) is PassThrough:
                self._target.stream.flush()

    def commit(self) -> None:
        """Make OUTPUT appear; OutputError if it does not."""
        with self._errors():
            self._encoder.end()
            if isinstance(self._container, MultiFileContainer) and isinstance(self._target, StagedFiles):
                self._container.write_other_files(self._target)
            self._target.end()
            self._target.commit()
        self._done = True

    def __enter__(self) -> Self:
        """Return the output, open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close; without `commit` whole records stay in .partial files, and nothing stays at an address."""
        target = self._target
        if self._done:
            return
        # an error of the context counts for more
        with contextlib.suppress(OSError), contextlib.nullcontext() if error else self._errors():
            if self._empty or target.partial is None:
                target.discard()
                return
            try:
                # a document gets its end, so that it can be read; damage of INPUT was reported
                with contextlib.closing(target), contextlib.suppress(UsageError):
                    self._encoder.end()
            finally:
                if isinstance(target, LocalFile) and target.plain and self._container is None:
                    _cut_torn(target.partial)

    @cached_property
    def _encoder(self) -> Encoder:
        """The encoder, made with the first record, when all of INPUT is known."""
        if isinstance(self._target, StagedFiles):
            assert isinstance(self._container, MultiFileContainer)  # noqa: S101 - `write_as` came before
            return Encoder(self.name, self._container.rewrite_files(self._target))
        stream = self._target.stream
        return self._container.encoder(stream) if self._container else Encoder(self.name, write_lines(stream))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            first = "make room, then " if error.errno in _DISK_FULL else ""
            raise OutputError(
                f"{self._path}: cannot be written: {error.strerror}; {self._advice}{first}run the same "
                "command again"
            ) from None


def _refuse_others(folder: Location, listing: Listing) -> None:
    """Raise UsageError if a directory lies in INPUT, or holds files that are none of INPUT's."""
    root = listing.root
    if not root.remote and root.real in folder.real.parents:
        raise UsageError(f"{folder.name}: lies in INPUT and would be read as a part of it; give one outside")
    present: Sequence[str] = ()
    if folder.many:
        with contextlib.suppress(UsageError):  # it is empty
            present = folder.listed().names
    other = next((name for name in present if name not in listing.names and not is_ignored(name)), None)
    if other is not None and not folder.same(root.name):
        raise UsageError(
            f"{folder.public}: holds {other}, which is no file of INPUT; give a directory of its own"
        )


def _refuse_shape(output: Location, container: Container) -> None:
    """Raise UsageError if OUTPUT's name asks for a kind of file that cannot be made from this INPUT."""
    name, inner = output.public, output.unpacked
    same = not output.stream and output.same(container.name)
    if not container.rewritable and (same or inner.endswith(".json")):
        raise UsageError(
            f"{name}: INPUT holds rollouts of many events, which are not written again in their "
            f"shape; name {'another OUTPUT' if same else 'OUTPUT'} .jsonl, and it holds one record a rollout"
        )
    if output.as_lines:
        return
    own = [ending for ending, unit in _UNIT_OF_ENDING.items() if unit == container.unit]
    ending = next((ending for ending in _UNIT_OF_ENDING if inner.endswith(ending)), None)
    if ending and ending not in own:
        raise UsageError(f"{name}: a {ending} file is only written for one as INPUT; name OUTPUT .jsonl")
    if own and inner != name:
        raise UsageError(f"{name}: such a file is packed already; leave out the last ending")
    if own and inner.endswith(".json"):
        raise UsageError(
            f"{name}: INPUT is no JSON document; name OUTPUT {' or '.join(own)} as INPUT is, or .jsonl"
        )


class FailedFile:
    """Lines that could not be read, verbatim. The file stays across runs: it may be their only copy.

    A run does not add a line that an earlier run left here; it adds all equal lines of its own input.
    """

    def __init__(self, path: Path | None) -> None:
        """Collect into `path`, which appears with the first line; None collects nothing."""
        self.path = path
        self.written = 0
        self._file: BinaryIO | None = None
        self._earlier: Counter[bytes] = Counter()

    def add(self, problem: Problem) -> None:
        """Append one line, unless an earlier run did or the problem has no bytes."""
        if self.path is None or not problem.raw:
            return
        with self._errors():
            self._file = self._file or self._open(self.path)
            raw = problem.raw.replace(b"\n", b" ")  # a record of a document may lie over several lines
            if self._earlier[_digest(raw)]:
                self._earlier[_digest(raw)] -= 1
                return
            self._file.write(raw + b"\n")
            self.written += 1

    def close(self) -> None:
        """Bring the lines to disk; call it before OUTPUT appears, so that every line is in one of them."""
        file, self._file = self._file, None
        if file is not None:
            with self._errors(), file:
                file.flush()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    os.fsync(file.fileno())

    def _open(self, path: Path) -> BinaryIO:
        last = b"\n"
        if path.is_file():
            with path.open("rb") as stream:  # verbatim: a line may begin as if it were compressed
                for last in stream:
                    self._earlier[_digest(last.removesuffix(b"\n"))] += 1
        file = path.open("ab")
        file.write(b"" if last.endswith(b"\n") else b"\n")
        return file

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None


def _digest(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=16).digest()


def _cut_torn(partial: Path) -> None:
    """Cut off a last record that has no end: the disk may have filled up within it."""
    with partial.open("r+b") as file:
        if size := file.seek(0, os.SEEK_END):
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as text:
                size = text.rfind(b"\n") + 1
            file.truncate(size)
