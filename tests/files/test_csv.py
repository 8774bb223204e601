"""CSV and TSV as tables of rows."""

from __future__ import annotations

import csv
import io
import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.files import open_container
from ruler_cli.files.containers.csv_table import CsvTable
from ruler_cli.files.containers.lines import JsonLines
from ruler_cli.types import Line
from tests.conftest import Ruler, read
from tests.files.test_open import PACKS


def rows(path: Path, most: int = 1 << 20) -> list[Line]:
    """Return the rows of a table, which are the same each time."""
    with ExitStack() as stack:
        container = open_container(str(path), stack, most=most)
        assert isinstance(container, CsvTable)
        lines = list(container.records())
        assert list(container.records()) == lines
        return lines


def text_of(
    table: list[list[str]], delimiter: str = ",", end: str = "\n"
) -> str:
    """Write a table as Python's writer does."""
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, lineterminator=end).writerows(table)
    return stream.getvalue()


CELL = st.text(st.sampled_from('ab"\n,;\té\u2028{[1'), max_size=6)


@given(
    st.lists(st.lists(CELL, min_size=3, max_size=3), min_size=1, max_size=9),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig"]),
    st.sampled_from(PACKS),
    st.integers(12, 40),
)
def test_any_table(
    tmp_path_factory: pytest.TempPathFactory,
    table: list[list[str]],
    delimiter: str,
    end: str,
    encoding: str,
    pack: object,
    most: int,
) -> None:
    """Each row is an object of its texts, whatever the dialect, the encoding and the compression are.

    A row that is larger than the bound is named with its size, and spoils no other.
    """
    table = [
        ["x", *row] for row in [[""] * 3, *table]
    ]  # no row begins as JSON does
    path = tmp_path_factory.mktemp("csv") / "in.jsonl"
    text = text_of([["n", "a", "b c", "d"], *table], delimiter, end)
    assert callable(pack)
    path.write_bytes(pack(text.encode(encoding)))
    lines = rows(path)
    wanted = [
        dict(zip(["n", "a", "b c", "d"], row, strict=True)) for row in table
    ]
    assert [json.loads(line.raw) for line in lines] == wanted
    assert [line.where for line in lines] == [
        f"row {n + 1}" for n in range(len(table))
    ]
    sizes = [len(text_of([row], delimiter, end).encode()) for row in table]
    for size, line, whole in zip(sizes, rows(path, most), lines, strict=True):
        small = size <= most and len(whole.raw) <= most
        assert line == whole if small else line.skipped


def test_index(tmp_path: Path) -> None:
    """A column without a name is named by its number: the index of pandas, empty ones that a spreadsheet adds."""
    (tmp_path / "in").write_text(",id,answer,\n0,1,2,\n")
    (row,) = rows(tmp_path / "in")
    named = {"id": "1", "answer": "2"}
    assert json.loads(row.raw) == {"column 1": "0", **named, "column 4": ""}


def test_damaged(tmp_path: Path) -> None:
    """A damaged row is named with its number and its line; its bytes are as they came, and no other is lost."""
    good = b"a,b\r\n" + b"1,2\r\n" * 5
    bad = {
        b"1,2,3": "has 3 cells where the header has 2",
        b"1": "has 1 cells where the header has 2",
        b'"x\ny","z" ': "has 0 cells where the header has 2; check its quotes",
        b"\xff,2": "is not UTF-8",
    }
    text = good + b"".join(row + b"\r\n3,4\r\n" for row in bad) + b'5,"6\r\n'
    (tmp_path / "in").write_bytes(text)
    lines = rows(tmp_path / "in")
    damaged = [line for line in lines if line.error]
    assert [line.raw for line in damaged] == [*bad, b'5,"6']
    assert [line.where for line in damaged] == [
        "row 6 (line 7)",
        "row 8 (line 9)",
        "row 10 (line 11)",
        "row 12 (line 14)",
        "row 14 (line 16)",
    ]
    for line, reason in zip(damaged, bad.values(), strict=False):
        assert line.error.startswith(reason)
    assert damaged[-1].error == "opens a quote that is never closed"
    whole = [json.loads(line.raw) for line in lines if not line.error]
    assert whole == [{"a": "1", "b": "2"}] * 5 + [{"a": "3", "b": "4"}] * 4


NO_TABLES = [
    b'{"a": 1, "b": 2}\n{"a": 1, "b": 2}\n',
    b'worker, started\n{"a": 1, "b": 2}\n{"a": 1, "b": 2}\n',
    b'worker,started\n{"a": 1, "b": 2}\n{"a": 1, "b": 2}\n',
    b'worker,started\n[{"a": 1}, 2]\n',
    b"worker,started\n" * 5 + b'{"a": 1, "b": 2}\n',
    b'{"a": 1, "b": {"c": [1,\n{"a": 1, "b": 2}\n',
    b"Dear diary, today\nit rained, again\nand again, and\n",
    b"2026-01-01 12:00:00,123 INFO up\n2026-01-01 12:00:01,456 INFO down\n",
    b"12,13\n14,15\n",
    b"id,answer\n",
    b"id,id\n1,2\n",
    b"column 3,id,\n1,2,3\n",
    b",answer\n1,2\n",
    b"id,answer\n1\n",
    b'id,answer\n1,"2\n3,4\n',
    b"answer\n1\n",
]
"""Texts that hold commas and are no tables."""


@pytest.mark.parametrize("text", NO_TABLES)
def test_no_table(tmp_path: Path, text: bytes) -> None:
    """JSON lines, also behind other lines, a log, prose, and rows without names are no table."""
    (tmp_path / "in.csv").write_bytes(text)
    with ExitStack() as stack:
        container = open_container(str(tmp_path / "in.csv"), stack)
        assert isinstance(container, JsonLines)


def test_promptfoo(ruler: Ruler, tmp_path: Path) -> None:
    """Names of columns that repeat get numbers, so that the table of promptfoo is read: its outputs are a group."""
    table = read(Path("samples/formats/promptfoo_table.jsonl"))
    names = [name.removesuffix(" 2") for name in table[0]]
    text = text_of([names, *[[*row.values()] for row in table]])
    (tmp_path / "in.csv").write_text(text)
    assert [json.loads(line.raw) for line in rows(tmp_path / "in.csv")] == table
    (tmp_path / "in.csv").write_text(text.replace("FAIL", "ERROR"))
    run = ruler("check", "in.csv", "-m", "offline", "--json")
    (problem,) = json.loads(run.stdout)["bad"]
    assert problem["reason"].endswith("its status is ERROR")


def test_empty_rows(tmp_path: Path) -> None:
    """A row of delimiters alone, as a spreadsheet leaves behind the last row, is no record."""
    (tmp_path / "in").write_text('a;b\n";";";"\n;\n1;2\n;\n')
    assert [json.loads(row.raw) for row in rows(tmp_path / "in")] == [
        {"a": ";", "b": ";"},
        {"a": "1", "b": "2"},
    ]


def test_large_cells(tmp_path: Path) -> None:
    """A few rows show a table whose cells are large."""
    cell = "x" * 3_000_000
    (tmp_path / "in").write_text(
        f"a,b\n1,{cell}\n2,{cell}\n3,{cell}\n4,{cell}\n"
    )
    assert [row.raw[:9] for row in rows(tmp_path / "in", 4_000_000)] == [
        b'{"a":"%d",' % n for n in range(1, 5)
    ]


def test_score(ruler: Ruler, tmp_path: Path) -> None:
    """A table is scored into JSON lines, with its cells as they are; a damaged row is in the failed file."""
    table = [["id", "prompt", "completion", "reward"]]
    table += [
        [str(n // 2), f"Q{n // 2},\n?", f"A {n}", "0.5"] for n in range(8)
    ]
    (tmp_path / "in.csv").write_text(text_of(table) + "torn,row\n")
    args = ("-m", "offline", "--group-by", "id")
    done = ruler("score", "in.csv", "out.jsonl", *args)
    assert done.returncode == 1, done.stderr
    assert (
        "in.csv: row 9 (line 18) has 2 cells where the header has 4"
        in done.stderr
    )
    failed = tmp_path / "out.jsonl.failed.jsonl"
    assert failed.read_text() == "torn,row\n"
    scored = read(tmp_path / "out.jsonl")
    assert [record["prompt"] for record in scored] == [
        row[1] for row in table[1:]
    ]
    assert all(record["ruler"]["status"] == "scored" for record in scored)


def test_failed_rows(ruler: Ruler, tmp_path: Path) -> None:
    """A row that cannot be read is kept with its line breaks, once however often the file is scored."""
    rows = [
        "q,a,ok",
        "hi,z,1",
        "hi,w,0",
        "ho,k,1",
        "ho,m,0",
        "ho,n,0",
        "ho,o,0",
    ]
    damaged = 'hi,"x\ny",1,2'
    (tmp_path / "in.csv").write_text("\n".join([*rows, damaged]) + "\n")
    words = (
        "-m",
        "offline",
        "--messages",
        "a",
        "--prompt",
        "q",
        "--outcome",
        "ok",
    )
    for _ in range(2):
        assert ruler("score", "in.csv", "out.jsonl", *words).returncode == 1
        assert (
            tmp_path / "out.jsonl.failed.jsonl"
        ).read_text() == f"{damaged}\n"
