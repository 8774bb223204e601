"""An INPUT of many files, and where the same files are written again: they appear together, at the end.

On this machine each is NAME.partial until then.
"""

from __future__ import annotations

import contextlib
import shutil
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from ruler_cli.files.container import Container
from ruler_cli.files.location import Listing, Location
from ruler_cli.files.whole import LocalFile, RemoteFile
from ruler_cli.records import Line, Problem
from ruler_cli.shard import Shard


class Many(Container):
    """An INPUT of many files, which may become a directory of the same files."""

    unit = "record"
    listing: Listing
    shard: Shard | None = None
    in_place = False
    """Whether OUTPUT is the same directory: a file of which a part cannot be read would lose that part."""
    tree = ""
    """The directory that is OUTPUT, where it is one: of files that cannot be written again none is made."""

    def copies(self, name: str) -> bool:
        """Whether a file that holds no record is copied into OUTPUT: by one of several processes."""
        return self.shard is None or self.shard.copies(name)

    @abstractmethod
    def settle(self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]) -> list[str]:
        """Find the files that hold no record, once the format is known; a sentence for each of them.

        `fits` tells whether a record is of the format; None: it is no JSON object. What is damaged goes
        to `on_problem`.
        """

    def tasks(self) -> dict[str, str]:
        """The names of its files → the task or environment that each says it belongs to, once all were read.

        A file that says none has an empty name.
        """
        return {}

    @abstractmethod
    def into(self, staged: StagedFiles) -> TreeEncoder:
        """What writes the same files again, with other records."""


class TreeEncoder(Protocol):
    """Writes the files of an INPUT again, with other records."""

    def put(self, number: int, body: bytes) -> None:
        """The record with this number; they come in input order, and some may be left out."""

    def end(self, *, whole: bool) -> None:
        """The end of the last file; `whole`: everything behind it too."""


class StagedFiles:
    """The files of OUTPUT that are written so far, one of them open."""

    def __init__(self, folder: Location) -> None:
        """`folder` is the directory in which they will appear."""
        self._folder = folder
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

    def copy(self, name: str, source: Location) -> None:
        """A file as it is; nothing to do where INPUT is OUTPUT."""
        if source.same(self._place(name)):
            return
        file = self._begin(name, packed=True)
        with source.open() as stream:
            shutil.copyfileobj(stream, file.stream, 1 << 20)
        file.end(durable=False)
        if isinstance(file, LocalFile) and not source.remote:
            shutil.copymode(source.name, file.partial)

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
        if self._folder.remote:
            self._files.append(RemoteFile(Location(place).store(), packed=packed))
        else:
            for folder in reversed([p for p in Path(place).parents if not p.exists()]):
                folder.mkdir()
                self._made.append(folder)
            self._files.append(LocalFile(place, packed=packed, alone=False))
        return self._files[-1]

    def _place(self, name: str) -> str:
        return f"{self._folder.name}/{name}"
