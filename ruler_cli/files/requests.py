"""Lines of requests → files that providers take, all of them or none: split where one would be too large.

`requests.jsonl` is one file, or `requests-0001.jsonl`, `requests-0002.jsonl`, … where it takes several.
"""

from __future__ import annotations

import itertools
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.compression import compressed
from ruler_cli.files.remote import is_remote
from ruler_cli.files.request_names import Naming
from ruler_cli.files.whole import locked


@dataclass(frozen=True, slots=True)
class Bound:
    """The judge that a set of files is for, and what one of them may hold: None is as much as there is.

    `around` are bytes that come around all lines when they are sent, and count.
    """

    judge: str
    requests: int | None = None
    bytes: int | None = None
    around: int = 0


@dataclass(slots=True, eq=False)
class _Part:
    """One file on its way."""

    file: BinaryIO
    stream: BinaryIO
    partial: Path | None = None
    requests: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Set:
    """The files of one judge."""

    bound: Bound
    stem: str
    parts: list[_Part] = field(default_factory=list)


class RequestFiles:
    """The files of one rendering, a set for each judge; use as a context and `commit` at the end.

    Until then nothing of an earlier rendering is touched, and without it nothing is left behind.
    """

    def __init__(self, name: str, bounds: Sequence[Bound], source: str = "-") -> None:
        """Open the first file of each set; UsageError where it cannot be, or is somebody else's file.

        Nor is one opened that is `source`, where the requests come from.
        """
        self.name, self._source = name, source
        self._done = False
        self._target = _target(name)
        if self._target is None:
            if len(bounds) > 1:
                raise UsageError(f"{name}: a batch holds one model; give a file name, or one judge")
            stream = _stream(name)
            self._sets = [_Set(bounds[0], "", [_Part(stream, compressed(name, stream))])]
            return
        self._naming = Naming.of(self._target)
        stems = self._naming.stems([bound.judge for bound in bounds])
        self._sets = [_Set(bound, stem) for bound, stem in zip(bounds, stems, strict=True)]
        self._stale = self._naming.stale(stems)
        try:
            for each in self._sets:
                self._open(each)
        except BaseException:
            self._abandon()
            raise

    def put(self, judge: int, line: bytes) -> bool:
        """Append a line to the set of a judge; False where it alone is larger than a file may be."""
        files = self._sets[judge]
        bound, part = files.bound, files.parts[-1]
        if self._target is not None:
            if bound.bytes is not None and len(line) + bound.around > bound.bytes:
                return False
            full = bound.requests is not None and part.requests >= bound.requests
            large = bound.bytes is not None and part.bytes + len(line) + bound.around > bound.bytes
            if part.requests and (full or large):
                self._end(part)
                part = self._open(files)
        try:
            part.stream.write(line)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._stuck(error) from None
        part.requests += 1
        part.bytes += len(line)
        return True

    def commit(self) -> list[tuple[str, int, int]]:
        """Make the files appear in place of those of an earlier rendering: (name, requests, bytes) of each.

        What is stale goes first, so that never a part of it stands among those that belong together.
        """
        for files in self._sets:
            self._end(files.parts[-1])
        if self._target is None:
            part = self._sets[0].parts[0]
            self._done = True
            return [(self.name, part.requests, part.bytes)]
        try:
            for path in self._stale:
                path.unlink(missing_ok=True)
            made = [each for files in self._sets for each in self._appear(files)]
        except OSError as error:
            raise self._stuck(error) from None
        self._done = True
        return made

    def _appear(self, files: _Set) -> Iterator[tuple[str, int, int]]:
        for number, part in enumerate(files.parts, 1):
            path = self._naming.path(files.stem, None if len(files.parts) == 1 else number)
            if part.partial is not None:
                part.partial.replace(path)
            yield str(Path(self.name).with_name(path.name)), part.requests, part.bytes
        for number in itertools.count(len(files.parts) + 1):  # of one that was killed
            partial = _partial(self._naming.path(files.stem, number))
            if not partial.exists() or self._is_source(partial):
                break
            partial.unlink()

    def __enter__(self) -> Self:
        """The files, open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close; what was not committed is removed."""
        self._abandon()

    def _open(self, files: _Set) -> _Part:
        path = self._naming.path(files.stem, len(files.parts) + 1)
        partial = _partial(path)
        if self._is_source(partial):
            raise UsageError(f"{self._source}: is where REQUESTS are written until they are whole; rename it")
        try:
            file = locked(partial)
        except OSError as error:
            raise UsageError(f"{self.name}: cannot be written: {error.strerror}") from None
        part = _Part(file, compressed(path.name, file), partial)
        files.parts.append(part)
        return part

    def _is_source(self, path: Path) -> bool:
        with suppress(OSError, ValueError):
            return path.samefile(self._source)
        return False

    def _end(self, part: _Part) -> None:
        """All of it on disk; a set's first file stays open, since the lock goes with it."""
        try:
            if part.stream is not part.file:
                part.stream.close()
            part.file.flush()
            if part.partial is not None:
                os.fsync(part.file.fileno())
                if part not in [files.parts[0] for files in self._sets]:
                    part.file.close()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._stuck(error) from None

    def _abandon(self) -> None:
        for files in self._sets if self.name != "-" else ():
            for part in files.parts:
                with suppress(OSError, ValueError):  # what is packed may have more to say
                    part.stream.close()
                with suppress(OSError):
                    part.file.close()
                if part.partial is not None and not self._done:
                    part.partial.unlink(missing_ok=True)

    def _stuck(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self.name}: cannot be written: {error.strerror}; make room, then run the same command again"
        )


def _partial(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(path.name + ".partial")


def _target(name: str) -> Path | None:
    """The file; None where it is stdout, a pipe or a device."""
    if is_remote(name):
        raise UsageError("REQUESTS: is an address; give a file of this machine")
    if name == "-":
        return None
    given = Path(name)
    try:
        if given.is_dir():
            raise UsageError(f"{name}: is a directory; give a file name, or `-` for stdout")
        if given.exists() and not stat.S_ISREG(given.stat().st_mode):
            return None
        real = Path(os.path.realpath(name))
        if not real.parent.is_dir():
            raise UsageError(f"{name}: its directory does not exist; create it with: mkdir -p {real.parent}")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{name}: cannot be written: {why}") from None
    return real


def _stream(name: str) -> BinaryIO:
    if name != "-":
        try:
            return Path(name).open("wb")
        except OSError as error:
            raise UsageError(f"{name}: cannot be written: {error.strerror}") from None
    if sys.stdout is None:
        raise UsageError("-: stdout is closed; give a file name")
    return sys.stdout.buffer


__all__ = ["Bound", "RequestFiles"]
