"""A directory, or a pattern of file names, as the files that a run reads, in the order people expect."""

from __future__ import annotations

import glob
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ruler_cli.errors import UsageError
from ruler_cli.files.remote import expand_remote, is_remote, public

_MAGIC = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"(\d+)")
_OURS = (".partial", ".failed.jsonl")


@dataclass(frozen=True, slots=True)
class Listing:
    """Files below a directory: their names relative to it.

    `base` is what stands in front of the names of an address, and empty on this machine.
    """

    root: Path
    names: tuple[str, ...]
    base: str = ""

    def path(self, name: str) -> Path:
        """Where a file of this machine is."""
        return self.root / name

    def source(self, name: str) -> str:
        """What opens a file: its path or its address."""
        return self.base + name if self.base else str(self.path(name))


def is_many(source: str) -> bool:
    """Whether INPUT is a directory or a pattern, rather than one file; an address is asked for."""
    if is_remote(source):
        return expand_remote(source) != [source]
    if source == "-" or os.path.exists(source):  # noqa: PTH110 - no error where the name is too long
        return source != "-" and Path(source).is_dir()
    return bool(_MAGIC.search(source))


def listed(source: str) -> Listing:
    """Every file of a directory, at any depth, or that a pattern matches; UsageError where there is none.

    Hidden files and what ruler itself leaves (`*.partial`, `*.failed.jsonl`) are passed over, and what
    is no regular file. Numbers in names count as numbers: part-2 comes before part-10.
    """
    if is_remote(source):
        return _remote(source)
    if os.path.isdir(source):  # noqa: PTH112 - no error where the name is too long
        root = Path(source)
        found = _below(root)
    else:
        root = _fixed(source)
        found = []
        for path in map(Path, glob.glob(source, recursive=True)):  # noqa: PTH207 - a pattern may be absolute
            found += _below(path) if path.is_dir() else [path] if path.is_file() else []
    names = {str(path.relative_to(root)) for path in found}
    kept = sorted((name for name in names if not passed_over(name)), key=natural)
    if not kept:
        what = "holds no file to read" if root == Path(source) else "no file matches this pattern"
        raise UsageError(f"{source}: {what}; check the path")
    return Listing(root, tuple(kept))


def _remote(source: str) -> Listing:
    found = expand_remote(source)
    folders = zip(*(name.split("/")[:-1] for name in found), strict=False)
    base = (
        "/".join(same[0] for same in itertools.takewhile(lambda parts: len(set(parts)) == 1, folders)) + "/"
    )
    names = (name.removeprefix(base) for name in found)
    kept = sorted((name for name in names if not passed_over(name)), key=natural)
    if not kept:
        raise UsageError(f"{public(source)}: holds no file to read; check the address")
    return Listing(Path(), tuple(kept), base)


def passed_over(name: str) -> bool:
    """Whether a file, by its relative name, is no part of a dump."""
    return name.endswith(_OURS) or any(part.startswith(".") for part in Path(name).parts)


Natural = tuple[tuple[tuple[tuple[int, str], ...], ...], str]


def natural(name: str) -> Natural:
    """A key that sorts names as people do, folder by folder."""
    return tuple(tuple(map(_part, _split(folder))) for folder in Path(name).parts), name


def _part(text: str) -> tuple[int, str]:
    return (int(text), "") if text.isascii() and text.isdigit() and len(text) < 1000 else (-1, text)


def _split(folder: str) -> list[str]:
    return [part for part in _NUMBER.split(folder) if part]


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


def _fixed(pattern: str) -> Path:
    """The directory that every match of a pattern lies in."""
    parts = Path(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if _MAGIC.search(part))
    return Path(*parts[:fixed])
