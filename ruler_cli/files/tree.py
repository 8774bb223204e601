"""A directory as OUTPUT, on this machine or at an address: files that appear together, at the end of the run.

On this machine each is NAME.partial until then, and the directory is locked, so that no two runs write it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.container import Container, Many, TreeEncoder
from ruler_cli.files.listing import Listing, listed, passed_over
from ruler_cli.files.remote import files_below, is_remote, opened, public, same_place
from ruler_cli.files.remote_output import RemoteFile
from ruler_cli.files.source import open_raw
from ruler_cli.files.whole import LocalFile


class StagedFiles:
    """The files of OUTPUT that are written so far, one of them open."""

    def __init__(self, folder: str, *, remote: bool) -> None:
        """`folder` is the path or the address of the directory in which they will appear."""
        self._folder, self._remote = folder, remote
        self._files: list[LocalFile | RemoteFile] = []
        self._open: LocalFile | RemoteFile | None = None
        self._made: list[Path] = []

    def open(self, name: str) -> BinaryIO:
        """Begin a file; its name tells the compression."""
        self._open = self._begin(name)
        return self._open.stream

    def close(self) -> None:
        """End the file that is open, and bring it to disk or send it."""
        file, self._open = self._open, None
        if file is not None:
            file.end()

    def write(self, name: str, content: bytes) -> None:
        """A whole small file."""
        file = self._begin(name, packed=True)
        file.stream.write(content)
        file.end(durable=False)

    def copy(self, name: str, source: str) -> None:
        """A file as it is; nothing to do where INPUT is OUTPUT."""
        if same_place(self._place(name), source):
            return
        file = self._begin(name, packed=True)
        with open_raw(source) as stream:
            shutil.copyfileobj(stream, file.stream, 1 << 20)
        file.end(durable=False)
        if isinstance(file, LocalFile) and Path(source).is_file():
            shutil.copymode(source, file.partial)

    def publish(self) -> None:
        """Let every file appear."""
        for file in self._files:
            file.commit()

    def discard(self) -> None:
        """Remove what was made."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.discard()
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _begin(self, name: str, *, packed: bool = False) -> LocalFile | RemoteFile:
        place = self._place(name)
        if self._remote:
            self._files.append(RemoteFile(place, packed=packed))
        else:
            for folder in reversed([p for p in Path(place).parents if not p.exists()]):
                folder.mkdir()
                self._made.append(folder)
            self._files.append(LocalFile(place, packed=packed, alone=False))
        return self._files[-1]

    def _place(self, name: str) -> str:
        return f"{self._folder}/{name}"


class OutputTree:
    """OUTPUT as a directory of the files of INPUT; the same use as `Output`."""

    def __init__(self, name: str) -> None:
        """Make and lock the directory; UsageError where it cannot be, before anything is read."""
        self.name, self._address, self.waits = public(name), name.rstrip("/") or "/", is_remote(name)
        self._folder: Path | None = None
        self._empty = True
        self._whole = False
        self._staged = StagedFiles(self._address, remote=self.waits)
        self._container: Many | None = None
        self._encoder: TreeEncoder | None = None
        if self.waits:
            opened(name)  # an address that nothing can be done with is told at once
        else:
            self._folder = Path(name)
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
        if self._folder is None:
            _refuse_other_objects(self._address, container.listing)
        else:
            refuse_others(self._folder, container.listing)
            container.in_place = os.path.realpath(self._folder) == os.path.realpath(container.listing.root)
        container.tree = self.name
        self._container = container

    def put(self, number: int, body: bytes) -> None:
        """Append the record with this number to its file."""
        self._empty = False
        with self._sentence():
            self._files().put(number, body)

    def commit(self) -> None:
        """Let all files appear; OutputError where one does not."""
        with self._sentence():
            self._end(whole=True)
            self._staged.publish()
        self._whole = True

    def __enter__(self) -> OutputTree:
        """The output, open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close; without `commit` what is whole so far stays in .partial files, and at an address nothing."""
        if self._folder is None:
            self._staged.discard()  # not what was committed
            return
        try:
            if not self._whole and self._encoder is not None:
                with contextlib.suppress(OSError, UsageError):
                    self._end(whole=False)
            if not self._whole and self._empty:
                self._staged.discard()
                if self._made:
                    with contextlib.suppress(OSError):
                        self._folder.rmdir()
        finally:
            os.close(self._locked)

    def _files(self) -> TreeEncoder:
        if self._encoder is None:
            assert self._container is not None  # noqa: S101 - records come out of an INPUT that is open
            self._encoder = self._container.into(self._staged)
        return self._encoder

    def _end(self, *, whole: bool) -> None:
        try:
            self._files().end(whole=whole)
        finally:
            self._staged.close()

    @contextlib.contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self.name}: cannot be written: {error.strerror}; what is whole so far is kept; "
                "make room, then run the same command again"
            ) from None


def _refuse_other_objects(address: str, listing: Listing) -> None:
    """The same as `refuse_others` for an address."""
    names = set(listing.names)
    there = (name.rpartition("/")[2] for name in files_below(address))
    other = next((name for name in there if name not in names and not passed_over(name)), None)
    if other is not None and listing.base != address + "/":
        way = "give a directory of its own"
        raise UsageError(f"{public(address)}: holds {other}, which is no file of INPUT; {way}")


def refuse_others(folder: Path, listing: Listing) -> None:
    """UsageError where a directory is no place for these files: it is read, or holds something else."""
    out = Path(os.path.realpath(folder))
    root = None if listing.base else Path(os.path.realpath(listing.root))
    if root in out.parents:
        raise UsageError(f"{folder}: lies in INPUT and would be read as a part of it; give one outside")
    try:
        there = listed(str(folder)).names
    except UsageError:
        return  # it is empty
    names = set(listing.names)
    other = next((name for name in there if name not in names and not passed_over(name)), None)
    if out != root and other is not None:
        raise UsageError(f"{folder}: holds {other}, which is no file of INPUT; give a directory of its own")
