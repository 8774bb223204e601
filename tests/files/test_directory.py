"""Many files as one INPUT."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers.directory import Directory
from ruler_cli.types import Line, Problem


def fits(line: Line) -> bool | None:
    """Return whether a record has a `k`; other objects are of another kind."""
    try:
        return "k" in json.loads(line.raw)
    except ValueError:
        return None


def lines(*keys: object) -> bytes:
    """Write JSON lines."""
    return b"".join(b'{"k": %s}\n' % json.dumps(key).encode() for key in keys)


FILES = {
    "part-2.jsonl": lines(1, 2) + b"\n" + lines(3),
    "part-10.jsonl.gz": gzip.compress(lines(4), mtime=0),
    "sub/list.json": json.dumps([{"k": 5}, {"k": 6}], indent=1).encode(),
    "sub/one.json": json.dumps({"k": 7}, indent=1).encode(),
    "metadata.json": b'{"model": "m"}\n',
    "run.log": b"all is well\n",
    "weights.pt": b"PK\x05\x06" + bytes(18),
    "empty.jsonl": b"",
    "blank.jsonl": b"\n\n",
}


def write(root: Path, files: dict[str, bytes]) -> Path:
    """Make a directory of files."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def checked(root: Path) -> tuple[Directory, list[str], list[Problem]]:
    """Open a directory and check its files; return the container, the files left out and the problems."""
    problems: list[Problem] = []
    with ExitStack() as stack:
        directory = open_container(str(root), stack)
    assert isinstance(directory, Directory)
    return directory, directory.check_files(fits, problems.append), problems


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make an INPUT with every kind of file."""
    return write(tmp_path / "in", FILES)


def test_records(root: Path) -> None:
    """Records are numbered through, and each has the name of its file and its number there."""
    directory, notes, problems = checked(root)
    every = list(directory.records())
    assert [json.loads(line.raw)["k"] for line in every] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ]
    assert [line.number for line in every] == sorted(
        {line.number for line in every}
    )
    assert [line.where for line in every] == [
        "part-2.jsonl line 1",
        "part-2.jsonl line 2",
        "part-2.jsonl line 4",
        "part-10.jsonl.gz line 1",
        "sub/list.json item 1",
        "sub/list.json item 2",
        "sub/one.json object 1",
    ]
    assert [directory.where(line.number) for line in every] == [
        line.place for line in every
    ]
    assert list(directory.records()) == every
    assert [line.where for line in directory.sample(50)][:2] == [
        "metadata.json line 1",
        "part-2.jsonl line 1",
    ]
    assert notes == [
        "metadata.json holds no record of this format: left out",
        "run.log is not JSON: left out",
        "weights.pt is neither text nor a known container "
        r"(it begins with b'PK\x05\x06\x00\x00\x00\x00'): left out",
    ]
    assert problems == []


def test_damaged(root: Path) -> None:
    """A damaged file is reported once, its readable part is read, and so are the other files."""
    many = lines(*(f"{i} {os.urandom(200).hex()}" for i in range(5000)))
    bad = {
        "a.jsonl": b'{"torn',
        "b.json": b'[\n{"k": 8}, {"k": 9',
        "c.jsonl.gz": gzip.compress(many)[:-50_000],
        "d.json": b'[\n{"k": 8',
    }
    write(root, bad)
    directory, notes, problems = checked(root)
    every = list(directory.records())
    assert list(directory.records()) == every
    assert {p.place for p in problems} == bad.keys()
    assert len(problems) == 4
    assert all(p.raw == b"" for p in problems)
    assert sum(line.place.startswith("c.jsonl.gz") for line in every) > 1000
    assert len(notes) == 3


def test_changed_meanwhile(root: Path) -> None:
    """A file that cannot be read in a later pass is an error of the run."""
    directory = checked(root)[0]
    list(directory.records())
    (root / "sub" / "list.json").unlink()
    with pytest.raises(UsageError, match="no such file"):
        list(directory.records())


def test_many_left_out(tmp_path: Path) -> None:
    """Some files without records are named, the rest counted; of many files an even selection is sampled."""
    files = {f"{i}.log": b"text\n" for i in range(30)} | {
        f"{i}.json": b'{"k": %d}' % i for i in range(100)
    }
    directory, notes, problems = checked(write(tmp_path / "in", files))
    assert len(notes) == 21
    assert notes[-1] == "… and 10 more files: left out"
    assert problems == []
    assert len(list(directory.records())) == 100
    sample = directory.sample(50)
    assert 20 <= len(sample) <= 50
    assert sample[-1].where.startswith("9")


def test_zeros_after_records(tmp_path: Path) -> None:
    """A crash leaves zeros at the end of a file; the records before them are read."""
    directory, notes, problems = checked(
        write(
            tmp_path / "in", {"a.jsonl": lines(1) + bytes(512), "b": bytes(9)}
        )
    )
    why = "is neither text nor a known container"
    assert [line.raw for line in directory.records()] == [
        lines(1)[:-1],
        bytes(512),
    ]
    assert notes == [f"b {why} (it begins with {bytes(8)!r}): left out"]
    assert problems == []
