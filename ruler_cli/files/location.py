"""A place to read or write, as the user names it: a path, an address, a pattern, or `-`."""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import reading
from ruler_cli.types import value

if TYPE_CHECKING:
    from ruler_cli.files.remote import RemoteStore

BUFFER = 1 << 18
_BUCKETS = frozenset(
    {"s3", "s3a", "gs", "gcs", "hf", "az", "abfs", "abfss", "adl"}
)
"""Schemes whose addresses hold a bucket where others hold a host."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_PATTERN = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"([0-9]{1,999})")
_OWN_FILES = (".partial", ".failed.jsonl")
"""Endings of files that ruler itself leaves."""


@value
class Location:
    """A file or directory of this machine, an address, or `-` for stdin or stdout."""

    name: str

    @property
    def stream(self) -> bool:
        """Return whether it is stdin or stdout."""
        return self.name == "-"

    @property
    def remote(self) -> bool:
        """Return whether it is an address, and no file of this machine; `C:/x` and `file:///x` are files."""
        match = _SCHEME.match(self.name)
        return match is not None and match[1].lower() != "file"

    @property
    def local(self) -> bool:
        """Return whether it is on this machine's disk."""
        return not self.stream and not self.remote

    @property
    def public(self) -> str:
        """The name to print: without user, password and query of an address."""
        match = _SCHEME.match(self.name)
        if match is None:
            return self.name
        scheme = match[1].lower()
        rest = self.name[match.end() :]
        # elsewhere `?` may be a pattern
        address, _, query = rest.partition("?")
        if scheme in ("http", "https") or "=" in query:
            rest = address.partition("#")[0]
        host, slash, path = rest.partition("/")
        if ":" in host:
            is_port = host.rpartition(":")[2].isdecimal()
            # a password or a secret key may hold slashes, so that it does not end in the host
            if scheme in _BUCKETS or not (is_port or "@" in host):
                host, slash, path = rest, "", ""
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
    def real(self) -> Path:
        """The path on this machine, without links."""
        return Path(os.path.realpath(self.name))

    def store(self) -> RemoteStore:
        """Return the storage of an address; UsageError if no package opens it."""
        from ruler_cli.files.remote import RemoteStore

        scheme, _, rest = self.name.lower().partition("://")
        host = rest.partition("/")[0]
        # `abfs://container@account` holds no key
        is_user = "@" in host and scheme.startswith(("s3", "g"))
        if scheme in _BUCKETS and (":" in host or is_user):
            raise UsageError(
                "holds a key, which other users of this machine can see",
                "give it in the environment or the provider's configuration",
                place=self.public,
            )
        return RemoteStore(self.name, self.public)

    def same(self, name: str) -> bool:
        """Return whether another name is the same file, also by a link, or the same address."""
        location = Location(name)
        if self.remote or location.remote:
            return self.public.rstrip("/") == location.public.rstrip("/")
        try:
            return self.real.samefile(location.real)
        except OSError:  # one of them does not exist yet
            return self.real == location.real

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader[Any]]:
        """Open it for reading bytes as they are; UsageError if it cannot be read."""
        name = self.name
        if self.remote:
            with self.store().open() as stream:
                yield stream
            return
        with reading(name):
            try:
                raw = io.FileIO(
                    0 if self.stream else name, closefd=not self.stream
                )
            except (FileNotFoundError, NotADirectoryError):
                remedy = "check the path, or give `-` for stdin"
                raise UsageError(
                    "no such file",
                    remedy,
                    place=name,
                ) from None
            reader = io.BufferedReader(raw, BUFFER)
        with raw:  # not the buffer: closing it would wait for a thread that reads a silent pipe
            yield reader

    @property
    def many(self) -> bool:
        """Return whether it is a directory or a pattern, and not one file; for an address this asks the storage."""
        if self.remote:
            return self.store().expand() != [self.name]
        if self.stream:
            return False
        if os.path.exists(self.name):  # noqa: PTH110 - no error where the name is too long
            return Path(self.name).is_dir()
        return bool(_PATTERN.search(self.name))

    def listed(self) -> Listing:
        """List the files of a directory, at any depth, or of a pattern; UsageError if there are none.

        Ignores hidden files, files that ruler itself leaves (`*.partial`, `*.failed.jsonl`), and what is not a regular
        file. No link out of INPUT is followed, and none to a directory: whoever may write into INPUT could have any
        file of the user copied into OUTPUT.
        """
        listing = (
            self._remote_listing() if self.remote else self._local_listing()
        )
        if listing.names:
            return listing
        pattern = not (self.remote or listing.whole)
        problem = "no file matches" if pattern else "holds no file to read"
        remedy = "check the path"
        if listing.links:
            problem += f", and the link {listing.links[0]} is not followed"
            remedy = "name a file itself, or put copies in place of the links"
        raise UsageError(
            problem,
            remedy,
            place=self.public,
        )

    def _remote_listing(self) -> Listing:
        files = self.store().expand()
        # `commonpath` would make one slash of the two after a scheme
        folders = [file.rpartition("/")[0] + "/" for file in files]
        common = os.path.commonprefix(folders)  # noqa: RUF071
        base = common[: common.rfind("/") + 1]
        names = _sorted([file.removeprefix(base) for file in files])
        return Listing(
            base,
            names,
            base == self.name.rstrip("/") + "/",
        )

    def _local_listing(self) -> Listing:
        parts = Path(self.name).parts
        whole = os.path.isdir(self.name)  # noqa: PTH112 - no error where the name is too long
        # names begin with the first part that is a pattern
        fixed = itertools.takewhile(
            lambda part: not _PATTERN.search(part), parts
        )
        folder = Path(*parts if whole else fixed)
        base = "" if folder == Path() else f"{str(folder).rstrip('/')}/"
        root = os.path.realpath(folder)
        names = set[str]()
        links = set[str]()

        def look(below: str, parts: tuple[str, ...]) -> None:
            """Add the matches of the parts of a pattern; a folder stands for all files in it, at any depth."""
            rest = parts[1:]
            deep = not parts or parts[0] == "**"
            if deep and rest:  # `**` stands for no folder, too
                look(below, rest)
            path = f"{base}{below}".rstrip("/") or str(folder)
            with reading(path), os.scandir(path) as entries:
                for entry in entries:
                    name = below + entry.name
                    to = os.path.realpath(entry.path)
                    if not deep and not fnmatchcase(entry.name, parts[0]):
                        continue
                    if is_ignored(entry.name):
                        continue
                    # a link to a folder may lead in circles
                    if entry.is_dir(follow_symlinks=False):
                        look(f"{name}/", parts if deep else rest)
                    elif rest:
                        if entry.is_symlink() and os.path.isdir(to):  # noqa: PTH112
                            links.add(name)
                    elif entry.is_file(follow_symlinks=False):
                        names.add(name)
                    elif entry.is_symlink():
                        inside = os.path.commonpath((root, to)) == root
                        is_read = inside and os.path.isfile(to)  # noqa: PTH113 - a loop is none
                        (names if is_read else links).add(name)

        if os.path.isdir(folder):  # noqa: PTH112
            look("", parts[len(folder.parts) :])
        return Listing(
            base,
            _sorted(names),
            whole,
            _sorted(links),
        )


@value
class Listing:
    """Files below a directory: their names relative to it.

    `base` is its path or address, which ends in `/`; empty for the working directory. `whole`: these are all
    files of the directory, and not the matches of a pattern. `links` are those that are not followed.
    """

    base: str
    names: tuple[str, ...]
    whole: bool = False
    links: tuple[str, ...] = ()

    def at(self, name: str) -> Location:
        """Return the location of a file."""
        return Location(self.base + name)

    def would_hold(self, file: Location) -> bool:
        """Return whether a file is listed, or would be if it existed; an address is only compared as text."""
        if self.whole and file.remote:
            if file.public.rpartition("/")[0] + "/" == self.base:
                return True
        elif self.whole:
            root = Location(self.base).real
            if root in file.real.parents:
                return not is_ignored(str(file.real.relative_to(root)))
        return any(self.at(name).same(file.name) for name in self.names)


def is_ignored(name: str) -> bool:
    """Return whether a file, by its relative name, is not part of a dump."""
    hidden = any(part.startswith(".") for part in name.split("/"))
    return hidden or name.endswith(_OWN_FILES)


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    """Sort the names that are part of a dump folder by folder, with numbers as numbers: part-2 before part-10."""

    def key(name: str) -> list[list[str | int]]:
        folders = []
        for folder in name.split("/"):
            # text and numbers take turns, so that equal places compare
            pieces: list[str | int] = list(_NUMBER.split(folder))
            pieces[1::2] = map(int, pieces[1::2])
            folders.append(pieces)
        return folders

    return tuple(sorted(filterfalse(is_ignored, sorted(names)), key=key))
