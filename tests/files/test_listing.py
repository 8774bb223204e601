"""Directories and patterns as lists of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from tests.conftest import Ruler, group
from tests.conftest import write as write_lines
from tests.files.test_directory import write


def names(source: object) -> tuple[str, ...]:
    """List the files of a directory or a pattern."""
    return Location(str(source)).listed().names


def touch(root: Path, *files: str) -> None:
    """Make empty files."""
    write(root, dict.fromkeys(files, b""))


def test_directory(tmp_path: Path) -> None:
    """The list has every file at any depth, without hidden files and ruler's own."""
    touch(
        tmp_path,
        "part-10.jsonl",
        "part-2.jsonl",
        "s2/a",
        "s10/a",
        ".git/x",
        ".h",
        "a.partial",
    )
    touch(tmp_path, "o.failed.jsonl")
    os.mkfifo(tmp_path / "pipe")
    assert names(tmp_path) == ("part-2.jsonl", "part-10.jsonl", "s2/a", "s10/a")


def test_pattern(tmp_path: Path) -> None:
    """A pattern stands for its matches, a directory for all its files, named from the first wildcard on."""
    touch(
        tmp_path,
        "r1/a.jsonl",
        "r1/b.json",
        "r2/a.jsonl",
        "r2/deep/c.jsonl",
        "x.jsonl",
    )
    assert names(f"{tmp_path}/r*/*.jsonl") == ("r1/a.jsonl", "r2/a.jsonl")
    assert names(f"{tmp_path}/**/*.jsonl")[-1] == "x.jsonl"
    assert names(f"{tmp_path}/r[2]") == ("r2/a.jsonl", "r2/deep/c.jsonl")
    (tmp_path / "empty").mkdir()
    for source in ("none*", "empty", "a" * 300 + "*"):
        with pytest.raises(UsageError, match="check the path"):
            names(tmp_path / source)


def linked(tmp_path: Path) -> Path:
    """Make a directory with links of every kind, and a file outside that holds a secret."""
    root = tmp_path / "in"
    touch(root, "a.jsonl", "s1/b.jsonl")
    write(tmp_path, {"secret": b"key", "far/c.jsonl": b""})
    for name, target in {
        "absolute": f"{tmp_path}/secret",
        "relative": "../secret",
        "s1/up": "../../secret",
        "chain": "relative",
        "broken": "../none",
        "folder": "../far",
        "parent": "..",
        "self": ".",
        "system": "/proc/self/environ",
        "own": "s1/b.jsonl",
        "own-folder": "s1",
        "own-chain": f"{root}/own",
        "own-broken": "none",
        "own-loop": "own-loop",
        ".hidden": "../secret",
    }.items():
        (root / name).symlink_to(target)
    (tmp_path / "door").symlink_to(root)
    return root


LEAVING = (
    "absolute", "broken", "chain", "folder", "own-broken", "own-folder", "own-loop", "parent", "relative",
    "s1/up", "self",
)  # fmt: skip


def test_links(tmp_path: Path) -> None:
    """A link out of INPUT, to a directory or to nothing is not followed and named; one to its file is read.

    So it is for a directory, a pattern, and a directory that is itself given by a link.
    """
    root = linked(tmp_path)
    inside = ("a.jsonl", "own", "own-chain", "s1/b.jsonl")
    for source in (
        root,
        tmp_path / "door",
        f"{root}/*",
        f"{root}/**",
        f"{tmp_path}/door/**",
    ):
        listing = Location(str(source)).listed()
        assert (listing.names, listing.links) == (
            inside,
            (*LEAVING, "system"),
        ), source
    only = Location(f"{root}/*/c.jsonl")
    with pytest.raises(
        UsageError,
        match="no file matches, and the link folder is not followed",
    ):
        only.listed()
    assert names(f"{root}/own*") == ("own", "own-chain")
    assert (
        Location(str(root / "absolute")).many is False
    )  # a file that the user names is read


def test_link_to_nothing(tmp_path: Path) -> None:
    """A link to nothing is named as one, and never suggested in place of itself."""
    link = tmp_path / "train.jsonl"
    link.symlink_to("gone")
    with pytest.raises(UsageError, match="no such file; check the path"):
        Location(str(link)).open().__enter__()
    with pytest.raises(
        UsageError,
        match=r"and the link train\.jsonl is not followed; name a file itself",
    ):
        Location(str(tmp_path)).listed()


def test_link_is_not_read(ruler: Ruler, tmp_path: Path) -> None:
    """A file outside INPUT does not come into OUTPUT; links to it are named, the first twenty of them."""
    (tmp_path / "secret").write_text(
        '{"group_id": "g", "messages": [{"role": "user", "content": "keep out"}]}\n'
    )
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.jsonl", [group("g", 0.1, 0.9)])
    for number in range(30):
        (tmp_path / "in" / f"notes-{number}.txt").symlink_to("../secret")
    done = ruler("score", "in", "out.jsonl", "-m", "offline", "-q")
    assert done.returncode == 0, done.stderr
    link = "is a link out of INPUT, to a directory or to nothing: left out"
    assert done.stderr.count(link) == 20
    assert "… and 10 more files: left out" in done.stderr
    assert "keep out" not in (tmp_path / "out.jsonl").read_text()


def test_path_of_a_file(tmp_path: Path) -> None:
    """A path is one file, even if its name looks like a pattern or is too long for the system."""
    touch(tmp_path, "a[1].jsonl")
    many = [
        tmp_path,
        tmp_path / "*.jsonl",
        tmp_path / "a[1].jsonl",
        tmp_path / "none",
        "-",
        "a" * 5000,
    ]
    assert [Location(str(name)).many for name in many] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_unreadable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without read permission is an error: its files would be left out silently."""
    touch(tmp_path, "a.jsonl", "closed/b.jsonl")
    scan = os.scandir

    def guarded(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(
        UsageError, match="closed: cannot be read: Permission denied"
    ):
        names(tmp_path)
