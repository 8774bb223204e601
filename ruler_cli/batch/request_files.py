"""Lines of requests → files that providers take, all of them or none: split where one would be too large.

`requests.jsonl` is one file, or `requests-0001.jsonl`, `requests-0002.jsonl`, … where it takes several. A
panel has files for each judge, named after it: `requests.openai-o3.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Self, cast

from ruler_cli.batch.request_lines import Limits
from ruler_cli.errors import OutputError, UsageError
from ruler_cli.reading.compression import decompressed, readable
from ruler_cli.reading.location import Location
from ruler_cli.writing.atomic import LocalFile, PassThrough

_OURS = re.compile(rb'\{"custom_id":"[0-9a-f]{32}","(?:method|params)":')
"""The beginning of a line of ours."""
_LOOKED_AT = 64
_LONGEST = 80
"""Characters of a judge's name in a file's name."""


class RequestFiles:
    """The requests for one judge; use as a context, `end` when all are written, and `commit`.

    Until then they are in NAME.partial and those of further parts, and nothing of an earlier rendering is
    touched.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        """Open the first file; UsageError where it cannot be, or is somebody else's file."""
        place = Location(name)
        if place.remote:
            raise UsageError("REQUESTS: is an address; give a file of this machine")
        self.name, self._limits, self._stale = name, limits, list[Path]()
        self._sizes = [(0, 0)]
        """Requests and bytes of each file; the last one is still written."""
        self._files: list[LocalFile | PassThrough] = []
        try:
            self._through = place.stream or (Path(name).exists() and not Path(name).is_file())
            if self._through:
                self._limits = Limits()
                self._files.append(PassThrough(name))
                return
            self._folder, (self._stem, self._ending) = place.real.parent, _parted(place.real.name)
            self._stale = self._earlier()
            self._files.append(LocalFile(str(place.real)))
        except FileNotFoundError:
            way = f"create it with: mkdir -p {place.real.parent}"
            raise UsageError(f"{name}: its directory does not exist; {way}") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"{name}: cannot be written: {why}; give a file name, or `-` for stdout"
            ) from None

    def put(self, line: bytes) -> bool:
        """Append a line; False where it alone is larger than a file may be."""
        if not self._limits.allow(1, len(line)):
            return False
        requests, size = self._sizes[-1]
        with self._room():
            if not self._limits.allow(requests + 1, size + len(line)):
                self.end()
                self._sizes.append((requests := 0, size := 0))
                # who holds NAME.partial, holds these too
                self._files.append(LocalFile(str(self._path(len(self._sizes))), lock=False))
            self._files[-1].stream.write(line)
        self._sizes[-1] = requests + 1, size + len(line)
        return True

    def end(self) -> None:
        """Bring the last file to disk."""
        with self._room():
            self._files[-1].end()

    def commit(self) -> list[tuple[str, int, int]]:
        """Make the files appear in place of those of an earlier rendering: (name, requests, bytes) of each.

        What is stale goes first, so that never a part of it stands among those that belong together.
        """
        if self._through:
            return [(self.name, *self._sizes[0])]
        made = []
        with self._room():
            for path in self._stale:
                path.unlink(missing_ok=True)
            for number, (file, (requests, size)) in enumerate(zip(self._files, self._sizes, strict=True), 1):
                path = self._path(None if len(self._sizes) == 1 else number)
                cast(LocalFile, file).partial.replace(path)
                made.append((str(Path(self.name).with_name(path.name)), requests, size))
        return made

    def __enter__(self) -> Self:
        """The files, open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close; what was not committed is removed."""
        for file in reversed(self._files):  # the one that holds all of them last
            with suppress(OSError, ValueError):  # what is packed may have more to say
                file.discard()

    def _path(self, number: int | None) -> Path:
        """The file, or one part of it."""
        part = "" if number is None else f"-{number:04d}"
        return self._folder / f"{self._stem}{part}{self._ending}"

    def _earlier(self) -> list[Path]:
        """Files of an earlier rendering under the same name, in the order to remove them.

        A part is removed before those of lower numbers, so that all are found again after a crash; those
        behind a gap are none: a year is no part's number. UsageError where a file is no rendering's.
        """
        parts = takewhile(Path.exists, map(self._path, count(1)))
        stale = [path for path in (self._path(None), *parts) if path.exists()][::-1]
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


def names_for(name: str, judges: Sequence[str]) -> list[str]:
    """The name for each judge: REQUESTS itself for one, else all different, also without regard to case.

    UsageError where several are to share stdout.
    """
    if len(judges) == 1:
        return [name]
    if name == "-":
        raise UsageError(f"{name}: a batch holds one model; give a file name, or one judge")
    stem, ending = _parted(Path(name).name)
    slugs: list[str] = []
    for judge in judges:
        slug = re.sub(r"[^A-Za-z0-9._]+", "-", judge).strip("-.")[-_LONGEST:] or "judge"
        tries = (slug if number == 1 else f"{slug}.{number}" for number in count(1))
        taken = {each.lower() for each in slugs}
        slugs.append(next(each for each in tries if each.lower() not in taken))
    return [str(Path(name).with_name(f"{stem}.{slug}{ending}")) for slug in slugs]


def _parted(name: str) -> tuple[str, str]:
    """The parts of a file's name before and behind the number of a part, or the name of a judge."""
    packed = next((end for end in (".gz", ".zst") if name.endswith(end)), "")
    stem, dot, ending = name.removesuffix(packed).rpartition(".")
    return (stem, dot + ending + packed) if stem else (dot + ending, packed)


def _is_ours(path: Path) -> bool:
    """Tell if a file holds requests of ours, or nothing."""
    with suppress(UsageError), Location(str(path)).open() as raw, readable(str(path)):
        head = decompressed(str(path), raw).read(_LOOKED_AT)
        return not head or _OURS.match(head) is not None
    return False
