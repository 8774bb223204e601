"""Directories and patterns as lists of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location, natural


def touch(root: Path, *names: str) -> None:
    """Make files."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_directory(tmp_path: Path) -> None:
    """Every file at any depth, numbers in order, without what is hidden or ruler's own."""
    touch(
        tmp_path,
        "part-10.jsonl",
        "part-2.jsonl",
        "s2/a",
        "s10/a",
        ".git/x",
        ".h",
        "a.partial",
        "o.failed.jsonl",
    )
    os.mkfifo(tmp_path / "pipe")
    assert Location(str(tmp_path)).listed().names == ("part-2.jsonl", "part-10.jsonl", "s2/a", "s10/a")
    assert Location(str(tmp_path)).listed().path("s2/a") == tmp_path / "s2/a"


def test_pattern(tmp_path: Path) -> None:
    """What a pattern matches, of a directory all that is in it, named from where the pattern begins."""
    touch(tmp_path, "r1/a.jsonl", "r1/b.json", "r2/a.jsonl", "r2/deep/c.jsonl", "x.jsonl")
    assert Location(f"{tmp_path}/r*/*.jsonl").listed().names == ("r1/a.jsonl", "r2/a.jsonl")
    assert Location(f"{tmp_path}/**/*.jsonl").listed().names[-1] == "x.jsonl"
    assert Location(f"{tmp_path}/r[2]").listed().names == ("r2/a.jsonl", "r2/deep/c.jsonl")
    assert Location(f"{tmp_path}/r[2]").listed().root == tmp_path


@pytest.mark.parametrize("source", ["none*", "empty"])
def test_nothing(tmp_path: Path, source: str) -> None:
    """Where there is no file that is said."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="check the path"):
        Location(str(tmp_path / source)).listed()


def test_many(tmp_path: Path) -> None:
    """A file is one file, also where its name looks like a pattern."""
    touch(tmp_path, "a[1].jsonl")
    assert Location(str(tmp_path)).many
    assert Location(f"{tmp_path}/*.jsonl").many
    assert not Location(f"{tmp_path}/a[1].jsonl").many
    assert not Location(f"{tmp_path}/none").many
    assert not Location("-").many


def test_natural() -> None:
    """Names of digits that are no number, and folders beside files, sort too."""
    names = ["²", "1/b", "a", "01", "1", "1a", "b/1", "b1", "b-1"]
    assert sorted(sorted(names), key=natural) == sorted(sorted(names, reverse=True), key=natural)


def test_closed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that may not be read is an error: its files would be left out without a word."""
    touch(tmp_path, "a.jsonl", "closed/b.jsonl")
    scan = os.scandir

    def guarded(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(UsageError, match="closed: cannot be read: Permission denied"):
        Location(str(tmp_path)).listed()


def test_long_name() -> None:
    """A name that is too long for the system is no directory, and no pattern that matches."""
    assert not Location("a" * 5000).many
    with pytest.raises(UsageError, match="no file matches"):
        Location("a" * 300 + "*").listed()
