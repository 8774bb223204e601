"""The file that a report becomes: whole or not at all, beside its place until it is done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.location import Location


class Target:
    """FILE.html, or `-` for stdout; use as a context and `commit` at the end."""

    def __init__(self, name: str, source: str) -> None:
        """UsageError where it cannot be written, before anything is read; `source` is what is read."""
        self.name = name
        self.size = 0
        self._done = False
        if name != "-":
            refuse(name, source)
        self._file = Location(name).create()

    def write(self, text: str) -> None:
        """Append text."""
        raw = text.encode()
        self.size += len(raw)
        with self._sentence():
            self._file.stream.write(raw)

    def commit(self) -> None:
        """Make the file appear: flush to disk, then rename."""
        with self._sentence():
            self._file.end()
            self._file.commit()
        self._done = True

    def __enter__(self) -> Target:
        """The file, open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close; without `commit` nothing is left of it."""
        if not self._done:
            with contextlib.suppress(OSError):  # a full disk, which `write` or `commit` has told
                self._file.discard()

    @contextlib.contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(
                f"{self.name}: cannot be written: {error.strerror}; make room, then run the same command "
                "again"
            ) from None


def refuse(name: str, source: str) -> None:
    """UsageError where a report cannot have this name."""
    if Location(name).remote:
        raise UsageError(
            f"{Location(name).public}: a report is written to a file of this machine, such as report.html"
        )
    path = Path(name)
    own = Location(source).local and path.exists() and Path(source).exists()
    if own and path.samefile(source):
        raise UsageError(f"{name}: is the scored file itself; give the report another name")
    if path.is_dir():
        raise UsageError(f"{name}: is a directory; give a file name, such as {path / 'report.html'}")
    if path.suffix.lower() != ".html":
        raise UsageError(
            f"{name}: a report is one HTML file; name it {path.with_suffix('.html')}, or give `-` for stdout"
        )
    if path.exists() and not path.is_file():
        raise UsageError(f"{name}: is no file; give another name, or `-` for stdout")
    where = Location(source)
    if where.local and where.many and where.listed().would_hold(Location(name)):
        raise UsageError(f"{name}: lies in SCORED and would be read as a part of it; give a place outside")
