"""A record that is larger than the bound is named and skipped, and never held."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import zstd
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Problem
from tests.conftest import ROOT, Ruler, group
from tests.files.test_archive import packed
from tests.files.test_open import fed
from tests.files.test_output_files import stored
from tests.values import few

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

MIB = 1 << 20


def rows(size: int = 2 * MIB) -> list[bytes]:
    """Make three groups; the second has more than `size` bytes."""
    every = [
        group("a", 0.1, 0.9),
        group("large", 0.3, 0.4) | {"pad": "{[" + "x" * size},
        group("b", 0.2, 0.8),
    ]
    return [json.dumps(record).encode() for record in every]


def as_list(every: list[bytes]) -> bytes:
    """Make a JSON list."""
    return b"[" + b",\n".join(every) + b"]"


def as_table(every: list[bytes]) -> bytes:
    """Make a Parquet file."""
    stream = io.BytesIO()
    values = [{"pad": ""} | json.loads(row) for row in every]
    pq.write_table(pa.Table.from_pylist(values), stream)
    return stream.getvalue()


MAKE: dict[str, Callable[[list[bytes]], bytes]] = {
    "jsonl": b"\n".join,
    "gz": lambda every: gzip.compress(b"\n".join(every)),
    "zst": lambda every: zstd.compress(b"\n".join(every)),
    "eval": lambda every: packed(
        zipfile.ZIP_DEFLATED,
        {f"samples/{number}.json": row for number, row in enumerate(every)},
    ),
    "parquet": as_table,
}


DOCUMENTS: dict[str, Callable[[list[bytes]], bytes]] = {
    "json": as_list,
    "held": lambda every: (
        b'{"trajectory_groups": %s, "more": [1]}' % as_list(every)
    ),
    "json.gz": lambda every: gzip.compress(as_list(every)),
    "objects": lambda every: b"\n".join(b"{\n" + row[1:] for row in every),
}


def found(name: str, most: int = 1) -> tuple[list[str], list[Problem]]:
    """Read an input with a bound of so many MiB: the keys of its groups, and its problems."""
    problems: list[Problem] = []
    with ExitStack() as stack:
        source = open_input(
            InputSettings(name, max_record=most), stack, problems.append
        )
        return [group.key for group in source.groups], problems


@pytest.mark.parametrize("kind", MAKE)
def test_skipped(kind: str, tmp_path: Path) -> None:
    """In each container the record is named with its size and the way out, and those around it are read."""
    path = tmp_path / f"in.{kind}"
    path.write_bytes(MAKE[kind](rows()))
    keys, problems = found(str(path))
    assert keys == ["a", "b"]
    (problem,) = problems
    assert problem.where in ("line 2", "row 2", "sample 1")
    assert (
        problem.reason
        == "has 2 MiB, more than --set max_record allows; raise it, or make records smaller"
    )
    assert (problem.raw, problem.too_large) == (b"", True)
    assert found(str(path), 3) == (["a", "large", "b"], [])


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_document(kind: str, tmp_path: Path) -> None:
    """A document that is larger than the bound is refused whole, with the command that makes lines of it."""
    path = tmp_path / f"in.{kind}"
    path.write_bytes(DOCUMENTS[kind](rows()))
    with pytest.raises(
        UsageError, match=r"more than 1 MiB.* convert it to lines: jq -c"
    ):
        found(str(path))
    assert found(str(path), 3) == (["a", "large", "b"], [])


@pytest.mark.parametrize("kind", ["jsonl", "zst"])
@pytest.mark.parametrize("grouping", ["auto", "scattered"])
def test_skipped_in_a_pipe(kind: str, grouping: str, tmp_path: Path) -> None:
    """A pipe is read on behind the record, also if all of it is first kept on disk."""
    trajectories = [
        json.dumps(
            {"group_id": key, "messages": one["messages"], "pad": "x" * size}
        ).encode()
        for key, size in (("a", 1), ("large", 2 * MIB), ("a", 1))
        for one in group("g", 0.1)["trajectories"]
    ]
    fed(tmp_path / "pipe", MAKE[kind](trajectories))
    problems: list[Problem] = []
    with ExitStack() as stack:
        settings = InputSettings(
            str(tmp_path / "pipe"),
            max_record=1,
            grouping=grouping,  # type: ignore[arg-type]
        )
        keys = [
            group.key
            for group in open_input(settings, stack, problems.append).groups
        ]
    assert keys == ["a"]
    assert [(problem.line, problem.reason[:9]) for problem in problems] == [
        (2, "has 2 MiB")
    ]


def test_skipped_in_a_directory(tmp_path: Path) -> None:
    """A file with one such record is reported and not left out; a large file that is not JSON is left out."""
    folder = tmp_path / "in"
    folder.mkdir()
    every = rows()
    (folder / "a.jsonl").write_bytes(every[0])
    (folder / "large.jsonl").write_bytes(every[1])
    (folder / "blob").write_bytes(b"x" * 3 * MIB)
    keys, problems = found(str(folder))
    assert keys == ["a"]
    assert [problem.where for problem in problems] == ["large.jsonl line 1"]


def test_events(tmp_path: Path) -> None:
    """A rollout of many small events may be too large as a whole."""
    message = b'{"role": "user", "content": "%s"}\n' % (b"x" * 1000)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "long.jsonl").write_bytes(message * 2000)
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.jsonl").write_bytes(
            message + message.replace(b"user", b"assistant")
        )
    keys, problems = found(str(tmp_path / "in"))
    assert len(keys) == 1
    assert [(problem.where, problem.reason[:9]) for problem in problems] == [
        ("long.jsonl rollout 1", "has 1 MiB")
    ]


def test_nothing_left(tmp_path: Path) -> None:
    """A file of which every record is too large is refused with the reason."""
    (tmp_path / "in.jsonl").write_bytes(rows()[1])
    with pytest.raises(
        UsageError, match="line 1 has 2 MiB, more than --set max_record allows"
    ):
        found(str(tmp_path / "in.jsonl"))


def test_command(ruler: Ruler, tmp_path: Path) -> None:
    """`score` names the line and ends with 1; INPUT, its only copy, is never replaced without it."""
    text = b"\n".join(rows())
    (tmp_path / "in.jsonl").write_bytes(text)
    done = ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "offline",
        "--set",
        "max_record=1",
    )
    assert done.returncode == 1, done.stderr
    assert (
        "in.jsonl: line 2 has 2 MiB, more than --set max_record allows"
        in done.stderr
    )
    assert [
        json.loads(line)["group_id"] for line in stored(tmp_path / "out.jsonl")
    ] == ["a", "b"]
    assert not (tmp_path / "out.jsonl.failed.jsonl").exists()
    done = ruler(
        "score",
        "in.jsonl",
        "in.jsonl",
        "-m",
        "offline",
        "--set",
        "max_record=1",
    )
    assert (done.returncode, "would lose line 2" in done.stderr) == (2, True)
    assert (tmp_path / "in.jsonl").read_bytes() == text
    for command in ("check", "prompt"):
        done = ruler(
            command, "in.jsonl", "-m", "offline", "--set", "max_record=1"
        )
        assert ("more than --set max_record" in done.stderr) is True, command
    assert (
        ruler(
            "score", "in.jsonl", "-", "-m", "offline", "--set", "max_record=901"
        ).returncode
        == 2
    )


PEAK = """
import pathlib, resource, sys
from ruler_cli.cli import main
try:
    main()
finally:
    status = pathlib.Path("/proc/self/status")  # there rusage counts the memory of the parent, too
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if status.exists():
        peak = int(status.read_text().partition("VmHWM:")[2].split()[0])
    print("peak", peak, file=sys.stderr)
"""


def peak(name: str, folder: Path) -> int:
    """Score a file in a process of its own; return its peak memory, in the system's unit."""
    words = (
        "score",
        name,
        "out.jsonl",
        "-m",
        "offline",
        "--set",
        "max_record=1",
        "--ledger",
        "none",
    )
    run = subprocess.run(
        [sys.executable, "-c", PEAK, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
    )
    assert "2 of 2 groups scored" in run.stderr, run.stderr
    return int(run.stderr.split()[-1])


def zip_with_a_member_that_is_no_sample(every: list[bytes]) -> bytes:
    """Make an archive in which the large content is no sample."""
    first, large, last = every
    members = {"samples/1.json": first, "blob": large, "samples/2.json": last}
    return packed(zipfile.ZIP_ZSTANDARD, members)


def zip_that_lies(every: list[bytes]) -> bytes:
    """Make an archive that states a small size for its large member, which is none of a sample."""
    text = packed(
        zipfile.ZIP_ZSTANDARD,
        {
            "samples/1.json": every[0],
            "blob": every[1],
            "samples/2.json": every[2],
        },
    )
    return text.replace(
        struct.pack("<I", len(every[1])), struct.pack("<I", 1000)
    )


BOMBS = MAKE | {
    "eval": lambda every: packed(
        zipfile.ZIP_ZSTANDARD,
        {f"samples/{number}.json": row for number, row in enumerate(every)},
    ),
    "member": zip_with_a_member_that_is_no_sample,
    "lie": zip_that_lies,
}


@pytest.mark.parametrize(
    "kind",
    few(
        1,
        [
            "zst",
            "eval",
            "json",
            "gz",
            "jsonl",
            "held",
            "objects",
            "member",
            "lie",
        ],
    ),
)
def test_memory(kind: str, tmp_path: Path) -> None:
    """A record of 64 MiB takes no more memory than its bound of 1 MiB: it took several times its size.

    Nor does a member of an archive that is no sample.
    """
    first, _, last = rows(0)
    sizes = {}
    for size in (1000, 64 * MIB):
        large = b'{"group_id": "l", "pad": "' + b"x" * size + b'"}'
        (tmp_path / "in").write_bytes(BOMBS[kind]([first, large, last]))
        sizes[size] = peak("in", tmp_path)
    assert sizes[64 * MIB] < 1.5 * sizes[1000], sizes
