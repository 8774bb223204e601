"""Directories and patterns as lists of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.reading.location import Location, natural_sort_key
from tests.reading.test_directory import write


def names(source: object) -> tuple[str, ...]:
    """List the files of a directory or a pattern."""
    return Location(str(source)).listed().names


def touch(root: Path, *files: str) -> None:
    """Make empty files."""
    write(root, dict.fromkeys(files, b""))


def test_directory(tmp_path: Path) -> None:
    """The list has every file at any depth, numbers in order, without hidden files and ruler's own."""
    touch(tmp_path, "part-10.jsonl", "part-2.jsonl", "s2/a", "s10/a", ".git/x", ".h", "a.partial")
    touch(tmp_path, "o.failed.jsonl")
    os.mkfifo(tmp_path / "pipe")
    assert names(tmp_path) == ("part-2.jsonl", "part-10.jsonl", "s2/a", "s10/a")


def test_pattern(tmp_path: Path) -> None:
    """A pattern stands for its matches, a directory for all its files, named from the first wildcard on."""
    touch(tmp_path, "r1/a.jsonl", "r1/b.json", "r2/a.jsonl", "r2/deep/c.jsonl", "x.jsonl")
    assert names(f"{tmp_path}/r*/*.jsonl") == ("r1/a.jsonl", "r2/a.jsonl")
    assert names(f"{tmp_path}/**/*.jsonl")[-1] == "x.jsonl"
    assert names(f"{tmp_path}/r[2]") == ("r2/a.jsonl", "r2/deep/c.jsonl")
    (tmp_path / "empty").mkdir()
    for source in ("none*", "empty", "a" * 300 + "*"):
        with pytest.raises(UsageError, match="check the path"):
            names(tmp_path / source)


def test_path_of_a_file(tmp_path: Path) -> None:
    """A path is one file, even if its name looks like a pattern or is too long for the system."""
    touch(tmp_path, "a[1].jsonl")
    many = [tmp_path, tmp_path / "*.jsonl", tmp_path / "a[1].jsonl", tmp_path / "none", "-", "a" * 5000]
    assert [Location(str(name)).many for name in many] == [True, True, False, False, False, False]


def test_natural() -> None:
    """Digits that are no number, and folders beside files, have a defined order too."""
    every = ["²", "1/b", "a", "01", "1", "1a", "b/1", "b1", "b-1"]
    assert sorted(sorted(every), key=natural_sort_key) == sorted(
        sorted(every, reverse=True), key=natural_sort_key
    )


def test_unreadable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without read permission is an error: its files would be left out silently."""
    touch(tmp_path, "a.jsonl", "closed/b.jsonl")
    scan = os.scandir

    def guarded(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(UsageError, match="closed: cannot be read: Permission denied"):
        names(tmp_path)
