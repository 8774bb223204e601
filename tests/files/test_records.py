"""Records inside documents and lines, by a path of the user."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.files import open_container
from ruler_cli.files.walk import steps_of
from ruler_cli.types import Line
from tests.conftest import Ruler, read, write
from tests.files.test_open import PACKS, fed
from tests.values import talk

A, B, C = ({"n": n, "text": '"]}\\é'} for n in (1, 2, 3))
DOCUMENT = {
    "meta": {"runs": [0], "x": "]"},
    "data": {"runs": [A, B], "a.b": [C], "none": []},
    "pages": [{"rollouts": [A]}, {"rollouts": []}, {"rollouts": [B, C]}],
    "by id": {"one": A, "two": {"runs": [B]}},
}


def entry(key: str, value: object) -> dict[str, object]:
    """Return a member as jq's `to_entries` does."""
    return {"key": key, "value": value}


PATHS: dict[str, list[object]] = {
    "data.runs[]": [A, B],
    ".data.runs[]": [A, B],
    'data."a.b"[]': [C],
    "data.none[]": [],
    "pages[].rollouts[]": [A, B, C],
    "pages[].rollouts": [[A], [], [B, C]],
    "pages.2.rollouts[]": [B, C],
    "by id{}": [entry("one", A), entry("two", {"runs": [B]})],
    "by id{}.value.runs[]": [B],
    "{}": [entry(key, value) for key, value in DOCUMENT.items()],
}
"""Paths, with the records to which they lead in the document."""


def records(path: Path, at: str | None, **others: Any) -> list[Line]:
    """Return the records of a file, which are the same each time; those with bytes in the file stand there."""
    with ExitStack() as stack:
        container = open_container(str(path), stack, records=at, **others)
        lines_read = list(container.records())
        if not container.once:
            assert list(container.records()) == lines_read
        whole = [line for line in lines_read if not line.error]
        assert all(container.where(line.number) == line.where for line in whole)
        if container.fd is not None:
            for line in whole:
                assert (
                    os.pread(container.fd, len(line.raw), line.offset)
                    == line.raw
                )
        return lines_read


def values(lines: list[Line]) -> list[object]:
    """Return the values of records."""
    return [json.loads(line.raw) for line in lines]


@pytest.mark.parametrize("at", PATHS)
def test_path(tmp_path: Path, at: str) -> None:
    """A path leads to the same records in a document, compact or not, in lines, in a list, and in a pipe."""
    wanted = PATHS[at]
    line = json.dumps(DOCUMENT, ensure_ascii=False).encode()
    indented = json.dumps(DOCUMENT, indent=1).encode()
    listed = b"[\n" + line + b",\n" + line + b"]"
    path = tmp_path / "in"
    for number, pack in enumerate(PACKS):
        for text, times in (
            (line, 1),
            (indented, 1),
            (b"\xef\xbb\xbf" + indented + b"\n" + indented, 2),
            (line + b"\n\n" + line + b"\n", 2),
            (listed, 2),
        ):
            path.write_bytes(pack(text))
            assert values(records(path, at)) == wanted * times
        fed(tmp_path / f"pipe{number}", pack(line + b"\n" + line + b"\n"))
        assert values(records(tmp_path / f"pipe{number}", at)) == wanted * 2


def test_list(tmp_path: Path) -> None:
    """`[]` is each item of a list, and a line may be a list, too."""
    path = tmp_path / "in"
    path.write_text(json.dumps([A, B, C]))
    assert values(records(path, "[]")) == [A, B, C]
    write(path, [[A, B], [], [C]])
    assert values(records(path, "[]")) == [A, B, C]


def test_bad_lines(tmp_path: Path) -> None:
    """A line that is damaged, or in which the path leads nowhere, is named, and none of it is a record."""
    bad = [
        b'{"runs": [{}, {"a": ',
        b'{"runs": [{}]} x',
        b'{"messages": []}',
        b"oops",
    ]
    lines = [b'{"runs": [{"a": 1}, {"a": 2}]}', *bad, b'{"runs": [{"a": 3}]}']
    (tmp_path / "in").write_bytes(b"\n".join(lines))
    lines_read = records(tmp_path / "in", "runs[]")
    places = [(line.where, line.raw) for line in lines_read if line.error]
    assert places == [(f"line {n}", raw) for n, raw in enumerate(bad, 2)]
    whole = [line for line in lines_read if not line.error]
    assert [line.where for line in whole] == [
        "record 1",
        "record 2",
        "record 7",
    ]
    assert values(whole) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert [line.number for line in lines_read] == list(range(1, 8))


def test_first_line(tmp_path: Path) -> None:
    """A first line that is not JSON, or torn, is named, and the lines behind it are read."""
    for first in (
        b"Loading the model",
        bytes(9),
        b'{"runs": [{}, {"a":',
        b"INFO: [ok]",
    ):
        (tmp_path / "in").write_bytes(first + b'\n{"runs": [{"a": 1}]}\n')
        bad, good = records(tmp_path / "in", "runs[]")
        assert (bad.raw, bad.where, bool(bad.error)) == (first, "line 1", True)
        assert json.loads(good.raw) == {"a": 1}


def test_rows(tmp_path: Path) -> None:
    """The rows of Parquet are searched as lines are."""
    pq.write_table(pa.table({"runs": [[A, B], [C]]}), tmp_path / "in")
    assert values(records(tmp_path / "in", "runs[]")) == [A, B, C]


@pytest.mark.parametrize("at", ["data.run[]", "metrics{}", "data[]"])
@pytest.mark.parametrize("times", [1, 2])
def test_nowhere(tmp_path: Path, at: str, times: int) -> None:
    """A path that leads nowhere is refused, with the command that proposes one."""
    write(tmp_path / "in", [{"data": {"runs": [A, B]}}] * times)
    with pytest.raises(UsageError, match="ruler check") as error:
        records(tmp_path / "in", at)
    assert "--set records" in error.value.place
    assert f"holds no records at `{at}`" in error.value.problem
    assert error.value.place.startswith(str(tmp_path / "in"))


@pytest.mark.parametrize(
    "at",
    [
        "runs",
        "",
        ".",
        "[1:]",
        "a[1]",
        "a.[",
        'a"b[]',
        '"a[]',
        "a..b[]",
        "{}}",
        "{}.a[]",
    ],
)
def test_no_path(tmp_path: Path, at: str) -> None:
    """Words that are no path of records are refused before INPUT is read."""
    with pytest.raises(UsageError, match="is not a path of records"):
        steps_of(at)


def test_too_large(tmp_path: Path) -> None:
    """A document of more bytes than the bound is refused, with the command that makes lines of it."""
    write(tmp_path / "in", [{"runs": {"a": A, "b": B}}])
    with pytest.raises(
        UsageError, match=r"jq -c '\.runs \| to_entries\[\]' \S+in > l"
    ):
        records(tmp_path / "in", "runs{}", most=70)


@given(
    st.binary(max_size=30), st.sampled_from(["a[]", "{}", "[].a", "{}.value[]"])
)
def test_any_text(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, at: str
) -> None:
    """Any text is read, or refused with a sentence."""
    path = tmp_path_factory.mktemp("any") / "in"
    for begin in (b'{"a": [', b"[{", b'{"a": [1]}\n'):
        path.write_bytes(begin + text)
        try:
            records(path, at)
        except UsageError:
            continue


def test_directory(ruler: Ruler, tmp_path: Path) -> None:
    """Each file of a directory is searched; one in which the path leads nowhere is left out and named."""
    (tmp_path / "in").mkdir()
    for name in ("1.json", "2.json"):
        rollouts = [
            {"task_id": 1, "messages": talk(f"{name} {n}")} for n in range(2)
        ]
        write(tmp_path / "in" / name, [{"runs": rollouts}])
    write(tmp_path / "in" / "metrics.json", [{"mean": 0.5}])
    args = ("-m", "offline", "--set", "records=runs[]")
    done = ruler("score", "in", "out.jsonl", *args)
    assert done.returncode == 0, done.stderr
    assert "metrics.json holds no records at `runs[]`: left out" in done.stderr
    assert len(read(tmp_path / "out.jsonl")) == 4


def test_score(ruler: Ruler, tmp_path: Path) -> None:
    """`score` annotates the records, scattered ones and members of an object too, as it does those of lines."""
    rollouts = [
        {"task_id": n % 2, "messages": talk(f"answer {n}")} for n in range(4)
    ]
    held = {"data": {"runs": rollouts}}
    by_id = {"data": {f"id {n}": rollout for n, rollout in enumerate(rollouts)}}
    lines = [{"runs": rollouts[:3]}, {"runs": rollouts[3:]}]
    write(tmp_path / "plain.jsonl", rollouts)
    ruler("score", "plain.jsonl", "wanted.jsonl", "-m", "offline")
    wanted = [record["reward"] for record in read(tmp_path / "wanted.jsonl")]
    inner = ("--messages", "value.messages", "--group-by", "value.task_id")
    for content, at, more in (
        ([held], "data.runs[]", ()),
        ([by_id], "data{}", inner),
        (lines, "runs[]", ()),
    ):
        write(tmp_path / "in", content)
        done = ruler(
            *(
                "score",
                "in",
                "out.jsonl",
                "-m",
                "offline",
                "--set",
                f"records={at}",
                *more,
            )
        )
        assert done.returncode == 0, done.stderr
        assert [
            record["reward"] for record in read(tmp_path / "out.jsonl")
        ] == wanted
        assert "4 records, 2 groups of 2 rollouts, scattered" in done.stderr


def test_stdin(ruler: Ruler) -> None:
    """From stdin records are read as their lines come; a key that comes back is named by its record."""
    rollouts = [
        {"task_id": n % 2, "messages": talk(f"answer {n}")} for n in range(3)
    ]
    text = (
        json.dumps({"runs": rollouts})
        + "\n"
        + json.dumps({"runs": rollouts})
        + "\n"
    )
    done = ruler(
        "score",
        "-",
        "-",
        "-m",
        "offline",
        "--set",
        "records=runs[]",
        stdin=text,
    )
    assert done.returncode == 2
    assert "record 3 belongs to an earlier group" in done.stderr


@pytest.mark.parametrize("path", ["a[]", "{}"])
def test_two_members_of_one_name(path: str, tmp_path: Path) -> None:
    """A document with two members of one name is refused: one of them would be lost."""
    file = tmp_path / "in.json"
    file.write_text('{"a": [{"k": 1}], "b": [], "a": [{"k": 2}]}')
    with ExitStack() as stack, pytest.raises(UsageError, match="two members"):
        list(open_container(str(file), stack, records=path).records())
