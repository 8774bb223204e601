"""A place to read or write, as the user names it: a path, an address, a pattern, or `-`."""

from __future__ import annotations

import glob
import io
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.files.remote import BUCKET_SCHEMES, CACHED_BLOCKS, RemoteStore
from ruler_cli.settings import suggestions

_BUFFER = 1 << 18
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_PATTERN = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"(\d+)")
_OWN_FILES = (".partial", ".failed.jsonl")
"""Endings of files that ruler itself leaves."""


@dataclass(frozen=True, slots=True)
class Location:
    """A file or directory of this machine, an address, or `-` for stdin or stdout."""

    name: str

    @classmethod
    def of(cls, path: Path) -> Location:
        """Make the location of a path that may be an address: `Path` makes one slash of its two."""
        return cls(
            str(path) if path.parent.is_dir() else str(path).replace(":/", "://", 1)
        )

    @property
    def stream(self) -> bool:
        """Tell if it is stdin or stdout."""
        return self.name == "-"

    @property
    def remote(self) -> bool:
        """Tell if it is an address, and no file of this machine; `C:/x` and `file:///x` are files."""
        match = _SCHEME.match(self.name)
        return match is not None and match[1].lower() != "file"

    @property
    def local(self) -> bool:
        """Tell if it is on this machine's disk."""
        return not self.stream and not self.remote

    @property
    def public(self) -> str:
        """The name to print: without user, password and query of an address."""
        match = _SCHEME.match(self.name)
        if match is None:
            return self.name
        scheme, rest = match[1].lower(), self.name[match.end() :]
        if (
            scheme in ("http", "https") or "=" in rest.partition("?")[2]
        ):  # elsewhere `?` may be a pattern
            rest = rest.partition("?")[0].partition("#")[0]
        host, slash, path = rest.partition("/")
        if (
            "@" in path
            and "@" not in host
            and ":" in host
            and not host.rpartition(":")[2].isdecimal()
        ):
            return (
                f"{scheme}://{rest.rpartition('@')[2]}"  # a password that holds slashes
            )
        if scheme in BUCKET_SCHEMES and ":" in host:  # a secret key may hold slashes
            return f"{scheme}://{rest.rpartition('@')[2]}"
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"

    @property
    def shown(self) -> str:
        """The name of an input in sentences."""
        return "stdin" if self.stream else self.public

    @property
    def unpacked(self) -> str:
        """The public name without its ending .gz or .zst."""
        return self.public.removesuffix(".gz").removesuffix(".zst")

    @property
    def as_lines(self) -> bool:
        """Tell if an OUTPUT of this name is JSON lines, for any kind of INPUT."""
        return self.stream or self.unpacked.endswith((".jsonl", ".ndjson"))

    @property
    def real(self) -> Path:
        """The path on this machine, without links."""
        return Path(os.path.realpath(self.name))

    def store(self) -> RemoteStore:
        """Return the storage of an address; UsageError if no package opens it."""
        return RemoteStore(self.name, self.public)

    def same(self, other: str) -> bool:
        """Tell if another name is the same file, also by a link, or the same address."""
        location = Location(other)
        if self.remote or location.remote:
            return self.public.rstrip("/") == location.public.rstrip("/")
        try:
            return self.real.samefile(location.real)
        except OSError:  # one of them does not exist yet
            return self.real == location.real

    @contextmanager
    def open(
        self, cached_blocks: int = CACHED_BLOCKS
    ) -> Iterator[io.BufferedReader[Any]]:
        """Open it for reading bytes as they are; UsageError if it cannot be read.

        Of a remote object `cached_blocks` blocks stay in memory.
        """
        name = self.name
        if self.remote:
            with self.store().open(cached_blocks) as stream:
                yield stream
            return
        try:
            raw = io.FileIO(0, closefd=False) if self.stream else io.FileIO(name)
            reader = io.BufferedReader(raw, _BUFFER)
        except IsADirectoryError:
            raise UsageError(
                f"{name}: is a directory; give one file, or `-` for stdin"
            ) from None
        except (FileNotFoundError, NotADirectoryError):
            advice = suggestions.other_file(
                name, "check the path, or give `-` for stdin"
            )
            problem = (
                "is a link to a file that is not there"
                if Path(name).is_symlink()
                else "no such file"
            )
            raise UsageError(f"{name}: {problem}; {advice}") from None
        except OSError as error:
            raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
        with raw:  # not the buffer: closing it would wait for a thread that reads a silent pipe
            yield reader

    @property
    def many(self) -> bool:
        """Tell if it is a directory or a pattern, and not one file; for an address this asks the storage."""
        if self.remote:
            return self._expanded() != [self.name]
        if self.stream or os.path.exists(self.name):  # noqa: PTH110 - no error where the name is too long
            return not self.stream and Path(self.name).is_dir()
        return bool(_PATTERN.search(self.name))

    def listed(self) -> Listing:
        """List the files of a directory, at any depth, or of a pattern; UsageError if there are none.

        Ignores hidden files, files that ruler itself leaves (`*.partial`, `*.failed.jsonl`), and what is no
        regular file. No link out of INPUT is followed, and none to a directory: whoever may write into INPUT
        could have any file of the user copied into OUTPUT. Numbers in names count as numbers: part-2 comes
        before part-10.
        """
        links: dict[str, str] = {}
        if self.remote:
            files = self._expanded()
            folders = zip(*(address.split("/")[:-1] for address in files), strict=False)
            same = itertools.takewhile(lambda parts: len(set(parts)) == 1, folders)
            base = "/".join(parts[0] for parts in same) + "/"
            whole = base == self.name.rstrip("/") + "/"
        else:
            path = pattern = Path(self.name)
            whole = os.path.isdir(path)  # noqa: PTH112 - no error where the name is too long
            if not whole:  # the names begin with the first part that is a pattern
                path = Path(
                    *itertools.takewhile(
                        lambda part: not _PATTERN.search(part), path.parts
                    )
                )
            files = list(
                map(str, _files_below(path) if whole else _matches(pattern, path))
            )
            base = "" if path == Path() else str(path).rstrip("/") + "/"
        names = set(
            filterfalse(is_ignored, (file.removeprefix(base) for file in files))
        )
        if not self.remote:
            root = os.path.realpath(base)
            links = {
                name: link
                for name in names
                if (link := _link_not_followed(base, name, root))
            }
            names = {
                name for name in names - links.keys() if Path(base + name).is_file()
            }
        left_out = tuple(sorted(set(links.values()), key=natural_sort_key))
        listing = Listing(
            base, tuple(sorted(names, key=natural_sort_key)), whole, left_out
        )
        if not listing.names:
            reason = (
                "holds no file to read"
                if self.remote or whole
                else "no file matches this pattern"
            )
            advice = f"check the {'address' if self.remote else 'path'}"
            if left_out:
                reason += f", and the link {left_out[0]} is not followed"
                advice = "name a file itself, or put copies in place of the links"
            raise UsageError(f"{self.public}: {reason}; {advice}")
        return listing

    def _expanded(self) -> list[str]:
        """Return the addresses of the objects that an address stands for."""
        if self.name.lower().startswith(
            ("http://", "https://")
        ):  # servers list nothing; `?` begins a query
            return [self.name]
        return self.store().expand()


@dataclass(frozen=True, slots=True)
class Listing:
    """Files below a directory: their names relative to it.

    `base` is its path or address, which ends in `/`; empty for the working directory. `whole`: these are all
    files of the directory, and not the matches of a pattern. `links` are those that are not followed.
    """

    base: str
    names: tuple[str, ...]
    whole: bool = False
    links: tuple[str, ...] = ()

    @property
    def root(self) -> Location:
        """The directory."""
        return Location(self.base)

    def at(self, name: str) -> Location:
        """Return the location of a file."""
        return Location(self.base + name)

    def would_hold(self, file: Location) -> bool:
        """Tell if a file is one of these, or would be one more; an address is only compared as text."""
        if self.root.remote or file.remote:
            beside = self.whole and file.public.rpartition("/")[0] + "/" == self.base
            return (beside and file.as_lines) or file.public in {
                self.at(name).public for name in self.names
            }
        root = self.root.real
        below = self.whole and root in file.real.parents
        if below and not is_ignored(str(file.real.relative_to(root))):
            return True
        return file.real in {self.at(name).real for name in self.names}


def is_ignored(name: str) -> bool:
    """Tell if a file, by its relative name, is no part of a dump."""
    return name.endswith(_OWN_FILES) or any(
        part.startswith(".") for part in Path(name).parts
    )


def natural_sort_key(name: str) -> tuple[tuple[tuple[tuple[int, str], ...], ...], str]:
    """Make a key that sorts names as people do, folder by folder, with numbers as numbers."""

    def part(text: str) -> tuple[int, str]:
        return (
            (int(text), "")
            if text.isascii() and text.isdigit() and len(text) < 1000
            else (-1, text)
        )

    folders = (filter(None, _NUMBER.split(folder)) for folder in Path(name).parts)
    return tuple(tuple(map(part, folder)) for folder in folders), name


def _link_not_followed(base: str, name: str, root: str) -> str:
    """Return the part of a path that is a link to a directory, to nothing or out of `root`, else ""."""
    for part in itertools.accumulate(name.split("/"), "{}/{}".format):
        path = Path(base + part)
        if not path.is_symlink():
            continue
        target = os.path.realpath(path)
        if (
            path.is_dir()
            or not path.exists()
            or os.path.commonpath((root, target)) != root
        ):
            return part
    return ""


def _matches(pattern: Path, base: Path) -> Iterator[Path]:
    """Yield the files and links that a pattern stands for, also those in directories that it stands for.

    `**` is expanded here: `glob` would follow links to directories, which may lead in circles.
    """
    parts, root = pattern.parts, os.path.realpath(base)
    deep = parts.index("**") if "**" in parts else len(parts)
    rest = parts[deep + 1 :]
    for path in map(Path, glob.glob(str(Path(*parts[:deep])))):  # noqa: PTH207 - a pattern may be absolute
        link = path != base and _link_not_followed(
            f"{base}/", str(path.relative_to(base)), root
        )
        if link or not path.is_dir():
            yield path
        elif not rest:
            yield from _files_below(path)
        else:
            for folder, folders, _ in os.walk(path):
                folders[:] = [name for name in folders if not name.startswith(".")]
                yield from _matches(Path(glob.escape(folder), *rest), base)


def _files_below(folder: Path) -> list[Path]:
    """Return the files and links of a directory, at any depth; UsageError if a directory may not be read."""
    paths = []
    try:
        for parent, folders, files in os.walk(folder, onerror=_raise):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths += [Path(parent) / name for name in files]
            paths += [
                path for name in folders if (path := Path(parent) / name).is_symlink()
            ]
    except OSError as error:
        advice = "give what may be read, or a pattern"
        raise UsageError(
            f"{error.filename}: cannot be read: {error.strerror}; {advice}"
        ) from None
    return paths


def _raise(error: OSError) -> None:
    """Raise the error: `os.walk` would leave out the files of a directory that may not be read."""
    raise error
