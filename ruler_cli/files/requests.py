"""Lines of requests → files that providers take, all of them or none: split where one would be too large.

`requests.jsonl` is one file, or `requests-0001.jsonl`, `requests-0002.jsonl`, … where it takes several. Of
a panel each judge has such a set, named after it: `requests.openai-o3.jsonl`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import BinaryIO, Self

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.compression import compressed
from ruler_cli.files.output import locked
from ruler_cli.files.remote import is_remote
from ruler_cli.files.source import decompressed, open_raw, readable

_OURS = re.compile(rb'\{"custom_id":"[0-9a-f]{32}","(?:method|params)":')
"""The beginning of a line of ours."""
_LOOKED_AT = 64
_LONGEST = 80
"""Characters of a judge's name in a file's name."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file or batch may hold; `bytes` are those of its lines and of what is `around` them all.

    None: as much as there is.
    """

    requests: int | None = None
    bytes: int | None = None
    around: int = 0

    def allow(self, requests: int, size: int) -> bool:
        """Whether a file may hold so many requests, of so many bytes."""
        number = self.requests is None or requests <= self.requests
        return number and (self.bytes is None or size + self.around <= self.bytes)


@dataclass(slots=True)
class _Set:
    """The files of one judge; `sizes` are the requests and bytes of each, the last one is still written."""

    stem: str
    limits: Limits
    file: BinaryIO
    stream: BinaryIO
    sizes: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])


class RequestFiles:
    """The files of one rendering, a set for each judge; use as a context and `commit` at the end.

    Until then they are in a folder REQUESTS.partial, and nothing of an earlier rendering is touched.
    """

    def __init__(self, name: str, judges: Sequence[tuple[str, Limits]]) -> None:
        """Open the first file of each set; UsageError where it cannot be, or is somebody else's file."""
        if is_remote(name):
            raise UsageError("REQUESTS: is an address; give a file of this machine")
        self.name, self._sets = name, list[_Set]()
        try:
            self._stream = _stream(name)
            if self._stream is None:
                self._begin(Path(os.path.realpath(name)), judges)
        except FileNotFoundError:
            folder = Path(os.path.realpath(name)).parent
            raise UsageError(
                f"{name}: its directory does not exist; create it with: mkdir -p {folder}"
            ) from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"{name}: cannot be written: {why}; give a file name, or `-` for stdout"
            ) from None
        if self._stream is not None:
            if len(judges) > 1:
                raise UsageError(f"{name}: a batch holds one model; give a file name, or one judge")
            self._sets.append(_Set("", Limits(), self._stream, compressed(name, self._stream)))

    def _begin(self, target: Path, judges: Sequence[tuple[str, Limits]]) -> None:
        packed = next((end for end in (".gz", ".zst") if target.name.endswith(end)), "")
        stem, dot, ending = target.name.removesuffix(packed).rpartition(".")
        stem, self._ending = (stem, dot + ending + packed) if stem else (dot + ending, packed)
        stems = _stems(stem, [judge for judge, _ in judges])
        self._folder = target.with_name(f"{target.name}.partial")
        self._stale = self._earlier([stem, *stems])
        self._folder.mkdir(exist_ok=True)
        self._lock = locked(self._folder / "lock.partial")
        for each, (_, limits) in zip(stems, judges, strict=True):
            self._sets.append(_Set(each, limits, *self._open(each, 1)))

    def put(self, judge: int, line: bytes) -> bool:
        """Append a line to the set of a judge; False where it alone is larger than a file may be."""
        files = self._sets[judge]
        if not files.limits.allow(1, len(line)):
            return False
        requests, size = files.sizes[-1]
        with self._room():
            if not files.limits.allow(requests + 1, size + len(line)):
                self._end(files)
                files.file, files.stream = self._open(files.stem, len(files.sizes) + 1)
                files.sizes.append((requests := 0, size := 0))
            files.stream.write(line)
        files.sizes[-1] = requests + 1, size + len(line)
        return True

    def commit(self) -> list[tuple[str, int, int]]:
        """Make the files appear in place of those of an earlier rendering: (name, requests, bytes) of each.

        What is stale goes first, so that never a part of it stands among those that belong together.
        """
        with self._room():
            for files in self._sets:
                self._end(files)
            if self._stream is not None:
                return [(self.name, *self._sets[0].sizes[0])]
            for path in self._stale:
                path.unlink(missing_ok=True)
            return [made for files in self._sets for made in self._appear(files)]

    def _appear(self, files: _Set) -> Iterator[tuple[str, int, int]]:
        for number, (requests, size) in enumerate(files.sizes, 1):
            path = self._path(files.stem, None if len(files.sizes) == 1 else number)
            self._partial(files.stem, number).replace(path)
            yield str(Path(self.name).with_name(path.name)), requests, size

    def __enter__(self) -> Self:
        """The files, open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close; what was not committed is removed."""
        for files in self._sets if self.name != "-" else ():
            for stream in (files.stream, files.file):
                with suppress(OSError, ValueError):  # what is packed may have more to say
                    stream.close()
        if self._stream is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._lock.close()

    def _open(self, stem: str, number: int) -> tuple[BinaryIO, BinaryIO]:
        file = self._partial(stem, number).open("wb")
        return file, compressed(self._ending, file)

    def _end(self, files: _Set) -> None:
        """Bring a set's last file to disk."""
        if files.stream is not files.file:
            files.stream.close()
        files.file.flush()
        if self._stream is None:
            os.fsync(files.file.fileno())
            files.file.close()

    def _partial(self, stem: str, number: int) -> Path:
        """Where a file is until all of them are whole."""
        return self._folder / f"{stem}-{number}.partial"

    def _path(self, stem: str, number: int | None) -> Path:
        """The file of a set, or one part of it."""
        part = "" if number is None else f"-{number:04d}"
        return self._folder.with_name(f"{stem}{part}{self._ending}")

    def _earlier(self, stems: Sequence[str]) -> list[Path]:
        """Files of an earlier rendering under the same names, in the order to remove them.

        A part is removed before those of lower numbers, so that all are found again after a crash; those
        behind a gap are none: a year is no part's number. UsageError where a file is no rendering's.
        """
        stale: list[Path] = []
        for stem in dict.fromkeys(stems):
            parts = takewhile(Path.exists, (self._path(stem, number) for number in count(1)))
            stale += reversed([path for path in (self._path(stem, None), *parts) if path.exists()])
        for path in stale:
            if not _is_ours(path):
                raise UsageError(
                    f"{path}: is in the way and holds no requests of ruler; move it, or write to another file"
                )
        return stale

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            why = f"cannot be written: {error.strerror}; make room, then run the same command again"
            raise OutputError(f"{self.name}: {why}") from None


def _stems(stem: str, judges: Sequence[str]) -> list[str]:
    """A set's name for each judge, all different, also where upper and lower case are one."""
    if len(judges) == 1:
        return [stem]
    names: list[str] = []
    for judge in judges:
        slug = re.sub(r"[^A-Za-z0-9._]+", "-", judge).strip("-.")[-_LONGEST:] or "judge"
        tries = (slug if number == 1 else f"{slug}.{number}" for number in count(1))
        taken = {name.lower() for name in names}
        names.append(next(name for name in tries if name.lower() not in taken))
    return [f"{stem}.{name}" for name in names]


def _is_ours(path: Path) -> bool:
    """Whether a file holds requests of ours, or nothing."""
    with suppress(UsageError), open_raw(str(path)) as raw, readable(str(path)):
        head = decompressed(str(path), raw).read(_LOOKED_AT)
        return not head or _OURS.match(head) is not None
    return False


def _stream(name: str) -> BinaryIO | None:
    """stdout, a pipe or a device, to be written as it is; None where the name is that of a file."""
    if name != "-":
        given = Path(name)
        return given.open("wb") if given.exists() and not given.is_file() else None
    if sys.stdout is None:
        raise UsageError("-: stdout is closed; give a file name")
    return sys.stdout.buffer


__all__ = ["Limits", "RequestFiles"]
