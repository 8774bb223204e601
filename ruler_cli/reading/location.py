"""A place that is read or written, as the user names it: a path, an address, a pattern, or `-`."""

from __future__ import annotations

import glob
import io
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruler_cli import suggestions
from ruler_cli.errors import UsageError
from ruler_cli.reading.remote import KEPT, STORES, Store

if TYPE_CHECKING:
    from ruler_cli.writing.atomic import WholeFile

_BUFFER = 1 << 18
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_PATTERN = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"(\d+)")
_OURS = (".partial", ".failed.jsonl")


@dataclass(frozen=True, slots=True)
class Location:
    """A file or directory of this machine, an address, or `-` for stdin or stdout."""

    name: str

    @classmethod
    def of(cls, path: Path) -> Location:
        """The location that was taken for a path: `Path` makes one slash of the two in an address."""
        return cls(str(path) if path.parent.is_dir() else str(path).replace(":/", "://", 1))

    @property
    def stream(self) -> bool:
        """Stdin or stdout."""
        return self.name == "-"

    @property
    def remote(self) -> bool:
        """An address, and no file of this machine; `C:/x` and `file:///x` are files."""
        found = _SCHEME.match(self.name)
        return found is not None and found[1].lower() != "file"

    @property
    def local(self) -> bool:
        """On this machine's disk."""
        return not self.stream and not self.remote

    @property
    def public(self) -> str:
        """The name as a command may show it: without user, password and query of an address."""
        found = _SCHEME.match(self.name)
        if found is None:
            return self.name
        scheme, rest = found[1].lower(), self.name[found.end() :]
        if scheme in ("http", "https") or "=" in rest.partition("?")[2]:  # elsewhere `?` may be a pattern
            rest = rest.partition("?")[0].partition("#")[0]
        host, slash, path = rest.partition("/")
        if "@" in path and "@" not in host and ":" in host and not host.rpartition(":")[2].isdecimal():
            return f"{scheme}://{rest.rpartition('@')[2]}"  # a password that holds slashes
        if scheme in STORES and ":" in host:  # a secret key may hold slashes
            return f"{scheme}://{rest.rpartition('@')[2]}"
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"

    @property
    def shown(self) -> str:
        """The name of an input as a sentence shows it."""
        return "stdin" if self.stream else self.public

    @property
    def unpacked(self) -> str:
        """The public name without the ending that asks for compression."""
        return self.public.removesuffix(".gz").removesuffix(".zst")

    @property
    def as_lines(self) -> bool:
        """Tell if an OUTPUT of this name is JSON lines whatever INPUT is."""
        return self.stream or self.unpacked.endswith((".jsonl", ".ndjson"))

    @property
    def real(self) -> Path:
        """The path on this machine, without links."""
        return Path(os.path.realpath(self.name))

    def store(self) -> Store:
        """The storage of an address; UsageError where nothing opens it."""
        return Store(self.name, self.public)

    def same(self, other: str) -> bool:
        """Tell if another name leads to the same file, by whatever link, or to the same address."""
        there = Location(other)
        if self.remote or there.remote:
            return self.public.rstrip("/") == there.public.rstrip("/")
        try:
            return self.real.samefile(there.real)
        except OSError:  # one of them is not there yet
            return self.real == there.real

    @contextmanager
    def open(self, kept: int = KEPT) -> Iterator[io.BufferedReader[Any]]:
        """Open it for reading bytes as they are; UsageError where it cannot be.

        Of an object `kept` blocks stay in memory.
        """
        name = self.name
        if self.remote:
            with self.store().open(kept) as found:
                yield found
            return
        try:
            raw = io.FileIO(0, closefd=False) if self.stream else io.FileIO(name)
            stream = io.BufferedReader(raw, _BUFFER)
        except IsADirectoryError:
            raise UsageError(f"{name}: is a directory; give one file, or `-` for stdin") from None
        except FileNotFoundError:
            meant = suggestions.suggest_file(name)
            way = f"did you mean {meant}?" if meant else "check the path, or give `-` for stdin"
            raise UsageError(f"{name}: no such file; {way}") from None
        except OSError as error:
            raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
        with raw:  # not the buffer: closing it would wait for a thread that reads a silent pipe
            yield stream

    def create(self) -> WholeFile:
        """Open it for writing; UsageError where it cannot be written."""
        from ruler_cli.writing.atomic import LocalFile, Passing, RemoteFile  # few commands write

        if self.remote:
            return RemoteFile(self.store())
        name = self.name
        try:
            given = Path(name)
            if self.stream:
                return Passing(name)
            if given.is_dir():
                raise UsageError(f"{name}: is a directory; give a file name, or `-` for stdout")
            return Passing(name) if given.exists() and not given.is_file() else LocalFile(name)
        except FileNotFoundError:
            way = f"create it with: mkdir -p {self.real.parent}"
            raise UsageError(f"{name}: its directory does not exist; {way}") from None
        except OSError as error:
            raise UsageError(f"{name}: cannot be written: {error.strerror}") from None

    @property
    def many(self) -> bool:
        """Tell if it is a directory or a pattern, and not one file; of an address the storage is asked."""
        if self.remote:
            return self._expanded() != [self.name]
        if self.stream or os.path.exists(self.name):  # noqa: PTH110 - no error where the name is too long
            return not self.stream and Path(self.name).is_dir()
        return bool(_PATTERN.search(self.name))

    def listed(self) -> Listing:
        """Every file of a directory, at any depth, or that a pattern matches; UsageError where there is none.

        Hidden files and what ruler itself leaves (`*.partial`, `*.failed.jsonl`) are passed over, and what
        is no regular file. Numbers in names count as numbers: part-2 comes before part-10.
        """
        root, base = Path(), ""
        if self.remote:
            found = self._expanded()
            folders = zip(*(name.split("/")[:-1] for name in found), strict=False)
            same = itertools.takewhile(lambda parts: len(set(parts)) == 1, folders)
            base = "/".join(parts[0] for parts in same) + "/"
            names = {name.removeprefix(base) for name in found}
        else:
            root, paths = _matches(self.name)
            names = {str(path.relative_to(root)) for path in paths}
        kept = sorted((name for name in names if not passed_over(name)), key=natural)
        if not kept:
            held = base or root == Path(self.name)
            what = "holds no file to read" if held else "no file matches this pattern"
            raise UsageError(f"{self.public}: {what}; check the {'address' if base else 'path'}")
        whole = base == self.name.rstrip("/") + "/" if base else root == Path(self.name)
        return Listing(root, tuple(kept), base, whole)

    def _expanded(self) -> list[str]:
        """The objects that an address stands for."""
        if self.name.lower().startswith(("http://", "https://")):  # servers list nothing; `?` begins a query
            return [self.name]
        return self.store().expand()


@dataclass(frozen=True, slots=True)
class Listing:
    """Files below a directory: their names relative to it.

    `base` is what stands in front of the names of an address, and empty on this machine. `whole`: it is
    all of a directory, and not what a pattern matches.
    """

    root: Path
    names: tuple[str, ...]
    base: str = ""
    whole: bool = False

    def path(self, name: str) -> Path:
        """The path of a file of this machine."""
        return self.root / name

    def would_hold(self, place: Location) -> bool:
        """Tell if a file would be one of these, or one more: as far as the text of an address tells."""
        if self.base or place.remote:
            beside = self.whole and place.public.rpartition("/")[0] + "/" == self.base
            return (beside and place.as_lines) or place.public in {
                self.at(name).public for name in self.names
            }
        root = Location(str(self.root)).real
        below = self.whole and root in place.real.parents
        if below and not passed_over(str(place.real.relative_to(root))):
            return True
        return place.real in {self.at(name).real for name in self.names}

    def at(self, name: str) -> Location:
        """The location of a file."""
        return Location(self.base + name if self.base else str(self.path(name)))


def passed_over(name: str) -> bool:
    """Tell if a file, by its relative name, is no part of a dump."""
    return name.endswith(_OURS) or any(part.startswith(".") for part in Path(name).parts)


def natural(name: str) -> tuple[tuple[tuple[tuple[int, str], ...], ...], str]:
    """A key that sorts names as people do, folder by folder."""

    def part(text: str) -> tuple[int, str]:
        return (int(text), "") if text.isascii() and text.isdigit() and len(text) < 1000 else (-1, text)

    folders = (filter(None, _NUMBER.split(folder)) for folder in Path(name).parts)
    return tuple(tuple(map(part, folder)) for folder in folders), name


def _matches(source: str) -> tuple[Path, list[Path]]:
    """The directory that all files of a directory or a pattern lie in, and these."""
    if os.path.isdir(source):  # noqa: PTH112 - no error where the name is too long
        return Path(source), _below(Path(source))
    parts = Path(source).parts
    fixed = next(i for i, part in enumerate(parts) if _PATTERN.search(part))
    found: list[Path] = []
    for path in map(Path, glob.glob(source, recursive=True)):  # noqa: PTH207 - a pattern may be absolute
        found += _below(path) if path.is_dir() else [path] if path.is_file() else []
    return Path(*parts[:fixed]), found


def _below(folder: Path) -> list[Path]:
    found = []
    try:
        for place, folders, files in os.walk(folder, onerror=_raised):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [path for name in files if (path := Path(place) / name).is_file()]
    except OSError as error:
        way = "give what may be read, or a pattern"
        raise UsageError(f"{error.filename}: cannot be read: {error.strerror}; {way}") from None
    return found


def _raised(error: OSError) -> None:
    """What stands in a directory that may not be read would be left out without a word."""
    raise error
