"""Full disks, pipes and damaged files: each law once, for every place that a command reads or writes.

Signals and kills have their own tables: `test_resume` for runs, `cli/test_ending` for commands that wait.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ruler_cli.files.error_map import zstd
from tests.conftest import OLD, ROOT, Ruler, group, read, write
from tests.values import needs_full_device

GROUPS = [
    {**group(f"g{n}", 0.1, 0.9), "note": os.urandom(200).hex()}
    for n in range(40)
]
SCORE = "score in.jsonl {} -m offline"


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Limit every file to `size` bytes, like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python would leave a cut file of a module
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = before


FULL = {
    SCORE.format("out.jsonl"): "out.jsonl.partial: cannot be written: File too large; finished groups are kept; ",
    SCORE.format("out.jsonl.gz"): "out.jsonl.gz.partial: cannot be written: File too large; ",
    SCORE.format("out.zst"): "out.zst.partial: cannot be written: File too large; ",
    SCORE.format("out.json"): "out.json.partial: cannot be written: File too large; make room, then run again",
    SCORE.format("out.parquet"): "cannot write a temporary file: File too large; make room",
    "select scored.jsonl out.jsonl --keep 40 --by variance": "out.jsonl.partial: cannot be written: File too large",
    "batch export in.jsonl req.jsonl -m openai/o3": "req.jsonl: cannot be written: File too large; make room",
    "report scored.jsonl -o out.html": "cannot write a temporary file: File too large; make room",
}  # fmt: skip
"""Commands on a full disk, and the sentence."""
DEVICES = {
    SCORE.format("/dev/full"): "/dev/full: cannot be written: No space left on device",
    SCORE.format("out.jsonl") + " --set failed=/dev/full": "/dev/full: cannot be written: No space left on device",
}  # fmt: skip
"""Commands that write to a device that is full, and the sentence."""


def one_error(stderr: str) -> str:
    """Return the last line of a command that failed and could be run again, which is no traceback."""
    assert "Traceback" not in stderr
    return "\n".join(
        line for line in stderr.splitlines() if line.startswith("ruler: ")
    )


@pytest.fixture
def inputs(ruler: Ruler, tmp_path: Path) -> Path:
    """A folder with INPUT, and OUTPUT of an earlier run."""
    write(tmp_path / "in.jsonl", GROUPS)
    ruler(*SCORE.format("scored.jsonl").split())
    return tmp_path


@pytest.mark.parametrize("line", FULL)
def test_full_disk(line: str, ruler: Ruler, inputs: Path) -> None:
    """On a full disk a command ends with 1 and one sentence, and leaves whole records or nothing."""
    before = {path.name: path.read_bytes() for path in inputs.iterdir()}
    with disk_of(2500):
        done = ruler(*line.split())
    assert done.returncode == 1
    assert FULL[line] in one_error(done.stderr), done.stderr
    after = {path.name: path.read_bytes() for path in inputs.iterdir()}
    left = {
        name: after[name] for name in after if after[name] != before.get(name)
    }
    assert all(name.endswith(".partial") for name in left)
    for text in left.values() if "out.jsonl " in line else ():
        whole = [json.loads(record) for record in text.splitlines()]
        assert [record["group_id"] for record in whole] == [
            f"g{n}" for n in range(len(whole))
        ]


@needs_full_device
@pytest.mark.parametrize("line", DEVICES)
def test_full_device(line: str, process: Ruler, tmp_path: Path) -> None:
    """A device that is full is reported in one sentence, and no OUTPUT appears."""
    write(tmp_path / "in.jsonl", [*GROUPS, "no record"])
    done = process(*line.split())
    assert done.returncode == 1
    assert DEVICES[line] in one_error(done.stderr), done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_reader_gone(process: Ruler, tmp_path: Path) -> None:
    """A reader of stdout that leaves early ends a command with 0, without a word about it."""
    write(tmp_path / "in.jsonl", GROUPS * 30)
    process(*SCORE.format("scored.jsonl").split())
    for command in (
        "score in.jsonl - -m offline",
        "select scored.jsonl - --keep 40 --by variance",
    ):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "ruler_cli", *command.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(writing)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


def test_named_pipes(ruler: Ruler, tmp_path: Path) -> None:
    """INPUT may be a named pipe, and so may OUTPUT, which gets each record as it is done."""
    for name in ("in", "out"):
        os.mkfifo(tmp_path / name)
    text, taken = (
        b"".join(json.dumps(g).encode() + b"\n" for g in GROUPS),
        list[bytes](),
    )
    ends = [
        threading.Thread(target=lambda: (tmp_path / "in").write_bytes(text)),
        threading.Thread(
            target=lambda: taken.append((tmp_path / "out").read_bytes())
        ),
    ]
    for end in ends:
        end.start()
    done = ruler("score", "in", "out", "-m", "offline")
    for end in ends:
        end.join(60)
    assert done.returncode == 0, done.stderr
    assert taken[0].count(b"\n") == len(GROUPS)


WHOLE = b"".join(json.dumps(g).encode() + b"\n" for g in GROUPS)
DAMAGED = {
    "in.gz": gzip.compress(WHOLE)[:-9],
    "in.zst": zstd.compress(WHOLE)[:-9],
    "in.json": json.dumps(GROUPS).encode()[:-30],
    "in.parquet": b"PAR1 and nothing else",
    "in.eval": b"PK\x03\x04 and nothing else",
    "in.xz": b"\xfd7zXZ\0 and nothing else",
    "in.bin": bytes(range(256)),
}
"""Files of every container that are damaged, or that are none."""


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged(name: str, ruler: Ruler, tmp_path: Path) -> None:
    """A damaged INPUT is refused before a call, with its name and a way out; OUTPUT stays as it was."""
    (tmp_path / name).write_bytes(DAMAGED[name])
    (tmp_path / "out.jsonl").write_text(OLD)
    done = ruler("score", name, "out.jsonl", "-m", "offline")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        rf"ruler: {name}: .*(damaged|is neither text).*; .*\n", done.stderr
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [name, "out.jsonl"]
    )
    assert (tmp_path / "out.jsonl").read_text() == OLD


def test_damaged_file_of_many(ruler: Ruler, tmp_path: Path) -> None:
    """A damaged file of a directory is reported, and the records of every other file are scored."""
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "whole.jsonl", GROUPS)
    for name, data in DAMAGED.items():
        (tmp_path / "in" / name).write_bytes(data)
    done = ruler("score", "in", "out.jsonl", "-m", "offline")
    assert done.returncode == 1
    for name in DAMAGED:
        assert name in done.stderr
    assert len(read(tmp_path / "out.jsonl")) >= len(GROUPS)
