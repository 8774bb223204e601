"""A directory as OUTPUT."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.output import OutputTree
from tests.files.test_shards import FILES, opened, read, rewrite, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An INPUT of every kind of file."""
    return write(tmp_path / "in", FILES)


def test_permissions(root: Path, tmp_path: Path) -> None:
    """Who may read a file of OUTPUT stays as it was."""
    (write(tmp_path / "out", {"part-2.jsonl": b""}) / "part-2.jsonl").chmod(0o600)
    rewrite(opened(root)[0], tmp_path / "out")
    assert (tmp_path / "out" / "part-2.jsonl").stat().st_mode & 0o777 == 0o600


def test_no_place(root: Path, tmp_path: Path) -> None:
    """A place that would be read as INPUT, holds other files, or is no directory is told at once."""
    found = opened(root)[0]
    with OutputTree(str(root / "sub")) as output, pytest.raises(UsageError, match="lies in INPUT"):
        output.into(found)
    other = write(tmp_path / "other", {"sub/theirs.txt": b""})
    with OutputTree(str(other)) as output, pytest.raises(UsageError, match=r"holds sub/theirs\.txt"):
        output.into(found)
    with pytest.raises(UsageError, match="is a file"):
        OutputTree(str(root / "run.log"))
    with pytest.raises(UsageError, match="mkdir -p"):
        OutputTree(str(tmp_path / "no" / "out"))
    if os.geteuid():
        (tmp_path / "out").mkdir(0o500)
        with pytest.raises(UsageError, match="cannot be written"):
            OutputTree(str(tmp_path / "out" / "x"))


def test_locked(tmp_path: Path) -> None:
    """Two runs never write one directory."""
    with OutputTree(str(tmp_path)), pytest.raises(UsageError, match="another run"):
        OutputTree(str(tmp_path))
    with OutputTree(str(tmp_path)):
        pass


def test_full_disk(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room that is a sentence, and nothing appears."""

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    found = opened(root)[0]
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device; what is whole so far is kept"):
        rewrite(found, tmp_path / "out")
    assert not [name for name in read(tmp_path / "out") if not name.endswith(".partial")]
