"""Annotated records → OUTPUT, a file or a directory, whole or not at all; unreadable lines → the failed file.

A file appears by atomic rename; until then it is NAME.partial, which holds whole records only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import stat
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.reading.container import Container, Encoder, Lines, Many, StagedFiles, TreeEncoder
from ruler_cli.reading.location import Listing, Location, passed_over
from ruler_cli.types import Problem
from ruler_cli.writing.atomic import LocalFile

_OWN = {".parquet": "row", ".eval": "sample", ".zip": "sample"}
"""Names that only one kind of container may have, by the unit of that kind."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class AnyOutput(ABC):
    """OUTPUT as records are written to it; use as a context and `commit` at the end."""

    waits: bool
    """Tells if a record may have to wait for somebody who takes it, as on stdout."""

    def __init__(self, name: str) -> None:
        """`name` is OUTPUT, as the user names it."""
        self._location = Location(name)
        self.name = self._where = self._location.public
        self._kept = "what is whole so far is kept; "
        self._empty, self._done = True, False

    @abstractmethod
    def into(self, container: Container) -> None:
        """Write what INPUT is; UsageError where that cannot be made, or not here."""

    def put(self, number: int, body: bytes) -> None:
        """Append the record with this number."""
        self._empty = False
        with self._sentence():
            self._encoder.put(number, body)

    def commit(self) -> None:
        """Make OUTPUT appear; OutputError where it does not."""
        with self._sentence():
            self._publish()
        self._done = True

    def __enter__(self) -> Self:
        """The output, open."""
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close; without `commit` what is whole so far stays in .partial files, and at an address nothing."""

    @cached_property
    @abstractmethod
    def _encoder(self) -> Encoder | TreeEncoder:
        """What records are put into, made with the first one, when all of INPUT is known."""

    @abstractmethod
    def _publish(self) -> None:
        pass

    @contextlib.contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            room = "make room, then " if error.errno in _NO_ROOM else ""
            raise OutputError(
                f"{self._where}: cannot be written: {error.strerror}; {self._kept}{room}run the same "
                "command again"
            ) from None


class Output(AnyOutput):
    """OUTPUT as one file."""

    def __init__(self, name: str) -> None:
        """Open OUTPUT, an address or `-`; UsageError where it cannot be written, before anything is read."""
        super().__init__(name)
        self._file = self._location.create()
        self.waits = self._file.waits
        self._container: Container | None = None
        if isinstance(self._file, LocalFile):
            self._where = str(self._file.partial)
        else:
            self._kept = ""

    def into(self, container: Container) -> None:
        """Write a container of INPUT's kind, where the name does not ask for JSON lines."""
        refuse_shape(self._location, container)
        if not self._location.as_lines:
            self._container = container
            if type(container).encoder is not Container.encoder:
                self._kept = "it has no end yet and cannot be read; "

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close, as every output does."""
        if self._done:
            return
        try:
            with contextlib.nullcontext() if error else self._sentence():
                if self._empty or not isinstance(self._file, LocalFile):
                    self._file.discard()
                else:
                    self._keep(self._file, torn=isinstance(error, OutputError))
        except OSError:
            return  # the sentence is on its way

    def _keep(self, file: LocalFile, *, torn: bool) -> None:
        """Leave what is whole: a document with its end, without which it could not be read, or lines."""
        try:
            if not torn:
                with contextlib.suppress(UsageError):  # INPUT is damaged, and that is told already
                    self._encoder.end()
        finally:
            try:
                file.keep()
            finally:
                if file.packed and isinstance(self._encoder, Lines):
                    _cut_torn(file.partial)

    def put(self, number: int, body: bytes) -> None:
        """Append the record with this number, and pass it on where somebody waits for it."""
        super().put(number, body)
        if self._file.through:
            with self._sentence():
                self._file.stream.flush()

    def _publish(self) -> None:
        self._encoder.end()
        self._file.end()
        self._file.commit()

    @cached_property
    def _encoder(self) -> Encoder:
        stream = self._file.stream
        return self._container.encoder(stream) if self._container else Lines(stream)


class OutputTree(AnyOutput):
    """OUTPUT as a directory of the files of INPUT, on this machine or at an address.

    A directory of this machine is locked, so that no two runs write it.
    """

    def __init__(self, name: str) -> None:
        """Make and lock the directory; UsageError where it cannot be, before anything is read."""
        super().__init__(name)
        self.waits = self._location.remote
        self._folder = None if self.waits else Path(name)
        self._staged = StagedFiles(Location(name.rstrip("/") or "/"))
        if self._folder is None:
            self._location.store()  # an address that nothing can be done with is told at once
        else:
            self._lock(self._folder)

    def _lock(self, folder: Path) -> None:
        self._made = not folder.exists()
        name = self.name
        try:
            folder.mkdir(exist_ok=True)
            self._locked = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            way = f"create it with: mkdir -p {folder.parent}"
            raise UsageError(f"{name}: its directory does not exist; {way}") from None
        except (FileExistsError, NotADirectoryError):
            way = "INPUT is many files, so give a directory, or a name that ends in .jsonl for one file"
            raise UsageError(f"{name}: is a file; {way}") from None
        except BlockingIOError:
            os.close(self._locked)
            way = "wait for that run or give another OUTPUT"
            raise UsageError(f"{name}: another run is writing it; {way}") from None
        except OSError as error:
            raise UsageError(f"{name}: cannot be written: {error.strerror}") from None

    def into(self, container: Container) -> None:
        """Write the files of this INPUT; UsageError where OUTPUT holds others."""
        assert isinstance(container, Many)  # noqa: S101 - the name of INPUT has told that
        listing = container.listing
        _refuse_others(self._location, listing)
        if self._folder is not None:
            container.in_place = self._location.same(str(listing.root))
        container.tree = self.name
        self._container = container

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close, as every output does."""
        if self._folder is None:
            self._staged.discard()  # not what was committed
            return
        try:
            with contextlib.suppress(OSError, UsageError):
                if not self._done and not self._empty:
                    self._end(whole=False)
                elif not self._done:
                    self._staged.discard()
                    if self._made:
                        self._folder.rmdir()
        finally:
            os.close(self._locked)

    def _publish(self) -> None:
        self._end(whole=True)
        self._staged.publish()

    @cached_property
    def _encoder(self) -> TreeEncoder:
        return self._container.into(self._staged)

    def _end(self, *, whole: bool) -> None:
        try:
            self._encoder.end(whole=whole)
        finally:
            self._staged.close()


def _refuse_others(folder: Location, listing: Listing) -> None:
    """UsageError where a directory is no place for these files: it is read, or holds something else."""
    root = Location(listing.base or str(listing.root))
    if not root.remote and root.real in folder.real.parents:
        raise UsageError(f"{folder.name}: lies in INPUT and would be read as a part of it; give one outside")
    there: Sequence[str] = ()
    if folder.many:
        with contextlib.suppress(UsageError):  # it is empty
            there = folder.listed().names
    other = next((name for name in there if name not in listing.names and not passed_over(name)), None)
    if other is not None and not folder.same(root.name):
        raise UsageError(
            f"{folder.public}: holds {other}, which is no file of INPUT; give a directory of its own"
        )


def refuse_shape(output: Location, container: Container) -> None:
    """UsageError where OUTPUT's name asks for a kind of file that is not made of this INPUT."""
    name, inner = output.public, output.unpacked
    same = not output.stream and output.same(container.name)
    if not container.rewritable and (same or inner.endswith(".json")):
        raise UsageError(
            f"{name}: INPUT holds rollouts of many events, which are not written again in their "
            f"shape; name {'another OUTPUT' if same else 'OUTPUT'} .jsonl, and it holds one record a rollout"
        )
    if output.as_lines:
        return
    own = [end for end, unit in _OWN.items() if unit == container.unit]
    asked = next((end for end in _OWN if inner.endswith(end)), None)
    if asked and asked not in own:
        raise UsageError(f"{name}: a {asked} file is only written for one as INPUT; name OUTPUT .jsonl")
    if own and inner != name:
        raise UsageError(f"{name}: such a file is packed already; leave out the last ending")
    if own and inner.endswith(".json"):
        raise UsageError(
            f"{name}: INPUT is no JSON document; name OUTPUT {' or '.join(own)} as INPUT is, or .jsonl"
        )


class FailedFile:
    """Lines that could not be read, verbatim; kept across runs: it may be their only copy.

    A run that meets a line which an earlier run left here does not add it again; equal lines of one
    input are all kept.
    """

    def __init__(self, path: Path | None) -> None:
        """Collect into `path`, which appears with the first line; None only counts."""
        self.path = path
        self.written = 0
        self._file: BinaryIO | None = None
        self._held: Counter[bytes] = Counter()

    def add(self, problem: Problem) -> None:
        """Append one line unless an earlier run did; nothing of what has no bytes."""
        if self.path is None or not problem.raw:
            return
        with self._sentence():
            self._file = self._file or self._open(self.path)
            raw = problem.raw.replace(b"\n", b" ")  # a record of a document may lie over several lines
            if self._held[_digest(raw)]:
                self._held[_digest(raw)] -= 1
                return
            self._file.write(raw + b"\n")
            self.written += 1

    def close(self) -> None:
        """Bring the lines to disk; done before OUTPUT appears, so that no line is in neither."""
        file, self._file = self._file, None
        if file is not None:
            with self._sentence(), file:
                file.flush()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    os.fsync(file.fileno())

    def _open(self, path: Path) -> BinaryIO:
        last = b"\n"
        if path.is_file():
            with path.open("rb") as stream:  # verbatim: a line may begin as if it were compressed
                for last in stream:
                    self._held[_digest(last.removesuffix(b"\n"))] += 1
        file = path.open("ab")
        file.write(b"" if last.endswith(b"\n") else b"\n")
        return file

    @contextlib.contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None


def _digest(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=16).digest()


def _cut_torn(partial: Path) -> None:
    """Leave whole records only: the disk may have filled up within one."""
    with partial.open("r+b") as file:
        if size := file.seek(0, os.SEEK_END):
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as text:
                size = text.rfind(b"\n") + 1
            file.truncate(size)
