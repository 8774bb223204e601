"""Files of the wrong kind as INPUT, and names that promise another kind of OUTPUT: refused before a call."""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.files.compression import compressed
from tests.conftest import Ruler, group, read, write

S = "score in.jsonl"
J = "-m offline"
NAMES = {
    f"{S} new/ {J}": "new/: is a directory's name; name a file in it, e.g. new/out.jsonl, and create it",
    f"{S} folder {J}": "folder: is a directory; name a file in it, e.g. folder/out.jsonl, or `-` for stdout",
    f"{S} new/out.jsonl {J}": "create it with: mkdir -p new\n",
    f"{S} out.csv {J}": "out.csv: OUTPUT is JSON lines, and no .csv file; name it out.jsonl",
    f"{S} out.txt {J}": "name it out.jsonl",
    f"{S} out.xlsx {J}": "name it out.jsonl",
    f"{S} out.csv.gz {J}": "name it out.jsonl",
    f"{S} out.jsonl.bz2 {J}": "is compressed as .gz or .zst only; name it out.jsonl.gz",
    f"{S} out.parquet.gz {J}": "such a file is packed already; leave out the last ending",
    f"{S} out.eval {J}": "only written with the scores of an Inspect log",
    f"{S} out.jsonl {J} --failed f.csv": "--failed f.csv: keeps lines of INPUT as they are",
    f"{S} out.jsonl {J} --failed f.json": "name it f.jsonl",
    f"{S} out.jsonl {J} --summary s.csv": "--summary s.csv: is one JSON document; name it s.json",
    f"{S} out.jsonl {J} --summary folder": "--summary folder: is a directory; name a file in it",
    f"{S} out.jsonl {J} --summary new/s.json": "create it with: mkdir -p new",
    "select scored.jsonl out.csv --where live": "out.csv: OUTPUT is JSON lines, and no .csv file",
    "select scored.jsonl new/ --where live": "new/: is a directory's name",
    "report scored.jsonl -o report.pdf": "a report is a local file whose name ends in .html",
    "report scored.jsonl -o folder": "a report is a local file whose name ends in .html",
    "render in.jsonl requests.json": "requests.json: requests are JSON lines, and no .json file; name it ",
    "render in.jsonl new/": "new/: is a directory's name",
}


def test_name(ruler: Ruler, tmp_path: Path) -> None:
    """A name that promises another kind of file than is written is refused, and nothing is written."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    ruler("score", "in.jsonl", "scored.jsonl", "-m", "offline")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    for line, message in NAMES.items():
        done = ruler(*line.split())
        assert (done.returncode, done.stdout) == (2, ""), line
        assert message in done.stderr, line
        assert done.stderr.count("\n") == 1
        assert sorted(tmp_path.iterdir()) == before


OUT = f"{S} out.jsonl"
KEY = {"OPENAI_API_KEY": "k"}
ASKED = "-m openai/gpt-4o"
PATH, STDIN = "check the path", "check the path, or give `-` for stdin"
NEAR = "did you mean in.jsonl?"
MISSING = {
    f"{OUT} {J} --config no.toml": "no.toml: no such file; check the path",
    f"{OUT} {J} --config rubic.txt": "rubic.txt: no such file; did you mean rubric.txt?",
    f"{OUT} {J} --config in.jsonl/x": "in.jsonl/x: no such file; check the path",
    f"{OUT} {J} --failed no/f.jsonl": "--failed no/f.jsonl: its directory does not exist; create it",
    f"{OUT} {J} --summary no/s.json": "--summary no/s.json: its directory does not exist; create it",
    f"{OUT} {J} --rubric @strict.md": f"--rubric @strict.md: no such file; {PATH}",
    f"{OUT} {J} --rubric @in.jsonl/x": f"--rubric @in.jsonl/x: no such file; {PATH}",
    f"{OUT} {J} --rubric @rubic.txt": "--rubric @rubic.txt: no such file; did you mean @rubric.txt?",
    f"{OUT} {J} --rubric strict.md": "--rubric strict.md: names a file; write @strict.md",
    f"{OUT} {ASKED} --ledger own.db --ledger b.db": f"only the first is created; {PATH}",
    f"{OUT} {ASKED} --ledger own.db --ledger rubic.txt": "is created; did you mean rubric.txt?",
    f"{OUT} {ASKED} --ledger own.db --ledger no*.db": f"no*.db: no file matches; {PATH}",
    f"score no*.jsonl out.jsonl {J}": f"no*.jsonl: no file matches; {PATH}",
    f"score folder out.jsonl {J}": f"folder: holds no file to read; {PATH}",
    f"score in.jsonl/x out.jsonl {J}": f"in.jsonl/x: no such file; {STDIN}",
    f"score no/in.jsonl out.jsonl {J}": f"no/in.jsonl: no such file; {STDIN}",
    f"score in.json out.jsonl {J}": f"in.json: no such file; {NEAR}",
    f"check zebra {J}": f"zebra: no such file; {STDIN}",
    f"check inn.jsonl {J}": f"inn.jsonl: no such file; {NEAR}",
    "check in.jsonl --rubric @strict.md": f"--rubric @strict.md: no such file; {PATH}",
    "prompt inn.jsonl": NEAR,
    f"render inn.jsonl requests.jsonl {ASKED}": NEAR,
    f"render in.jsonl no/requests.jsonl {ASKED}": "create it with: mkdir -p no",
    "agree inn.jsonl": NEAR,
    "agree scored.jsonl inn.jsonl": NEAR,
    "report inn.jsonl": NEAR,
    "report scored.jsonl inn.jsonl": NEAR,
    "report scored.jsonl -o no/report.html": "create it with: mkdir -p",
    "select inn.jsonl out.jsonl --where live": NEAR,
    "select scored.jsonl no/out.jsonl --where live": "create it with: mkdir -p no",
    "ledger import inn.jsonl --ledger own.db": NEAR,
    f"batch submit inn.jsonl {ASKED} --ledger own.db": NEAR,
    "config --config no.toml": "no.toml: no such file; check the path",
}
"""Files that do not exist, in every command and option that takes one, with the way out."""


def test_missing(ruler: Ruler, tmp_path: Path) -> None:
    """The error of a missing file is one sentence with what to do, and nothing is written."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    (tmp_path / "rubric.txt").write_text("Be brief.")
    ruler("score", "in.jsonl", "scored.jsonl", "-m", "offline")
    (tmp_path / "folder").mkdir()
    before = {path.name for path in tmp_path.iterdir()}
    for line, message in MISSING.items():
        done = ruler(*line.split(), **KEY)
        assert (done.returncode, done.stdout) == (2, ""), line
        assert message in done.stderr, line
        assert done.stderr.count("\n") == 1
        assert (
            not {path.name for path in tmp_path.iterdir()}
            - before
            - {"own.db", "own.db.batch-lock"}
        ), line


def test_typo_beside_output(ruler: Ruler, tmp_path: Path) -> None:
    """INPUT that is missing beside an OUTPUT that is there is a typo if another name is near."""
    for name in ("run.jsonl", "run_2.jsonl"):
        write(tmp_path / name, [group("a", 0.1, 0.9)])
    typo = ruler("score", "run2.jsonl", "run_2.jsonl", "-m", "offline")
    assert typo.stderr == "ruler: run2.jsonl: no such file; did you mean run.jsonl?\n"
    (tmp_path / "run.jsonl").unlink()
    (tmp_path / "a.jsonl").touch()
    for name in ("run2.jsonl", "dump", "b.jsonl"):
        swapped = ruler("score", name, "run_2.jsonl", "-m", "offline")
        assert f"{name}: no such file; are INPUT and OUTPUT swapped?" in swapped.stderr


def test_own_ending(ruler: Ruler, tmp_path: Path) -> None:
    """An ending that INPUT has, too, is taken as INPUT takes it."""
    for name in ("dump.txt", "dump.log"):
        write(tmp_path / name, [group("a", 0.1, 0.9), group("b", 0.2, 0.3)])
        out = f"scored.{name.rpartition('.')[2]}"
        assert ruler("score", name, out, "-m", "offline").returncode == 0
        assert len(read(tmp_path / out)) == 2


def _scores(groups: list[Any]) -> list[list[float]]:
    """Return the scores of the rollouts of each group."""
    return [[rollout["reward"] for rollout in one["trajectories"]] for one in groups]


def test_list(ruler: Ruler, tmp_path: Path) -> None:
    """JSON lines become a JSON document in OUTPUT .json: a list that the other commands read."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9), group("b", 0.8, 0.2)])
    lines = (tmp_path / "in.jsonl").read_text()
    ruler("score", "in.jsonl", "lines.jsonl", "-m", "offline")
    for out in ("out.json", "out.json.gz"):
        assert ruler("score", "in.jsonl", out, "-m", "offline").returncode == 0
        assert ruler("select", out, "kept.jsonl", "--where", "scored").returncode == 0
        assert _scores(read(tmp_path / "kept.jsonl")) == _scores(
            read(tmp_path / "lines.jsonl")
        )
    assert _scores(json.loads((tmp_path / "out.json").read_text())) == _scores(
        read(tmp_path / "lines.jsonl")
    )
    assert (
        ruler("score", "-", "piped.json", "-m", "offline", stdin=lines).returncode == 0
    )
    assert len(json.loads((tmp_path / "piped.json").read_text())) == 2
    assert (
        ruler("select", "lines.jsonl", "none.json", "--where", "failed").returncode == 0
    )
    assert json.loads((tmp_path / "none.json").read_text()) == []
    assert ruler("report", "out.json").returncode == 0


ROWS = [
    {"prompt": "Say it.", "response": "It, said.", "reward": "1"},
    {"prompt": "Say it.", "response": "No", "reward": "0"},
]


def _table(delimiter: str) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        rows = [list(ROWS[0]), *(list(row.values()) for row in ROWS)]
        path.write_text(
            "".join(delimiter.join(f'"{cell}"' for cell in row) + "\n" for row in rows)
        )

    return make


def _sqlite(path: Path) -> None:
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE rollouts (prompt, response, reward)")
        base.executemany(
            "INSERT INTO rollouts VALUES (:prompt, :response, :reward)", ROWS
        )
    base.close()


CONVERTED = {
    "table.csv": (_table(","), "is CSV"),
    "table.tsv": (_table("\t"), "is TSV"),
    "half.csv": (_table(";"), "is CSV"),
    "rows.pkl": (
        lambda path: path.write_bytes(pickle.dumps(ROWS)),
        "is a Python pickle",
    ),
    "base.sqlite": (_sqlite, "is an SQLite database"),
    "notation.jsonl": (
        lambda path: path.write_text("".join(f"{row}\n" for row in ROWS)),
        "Python's notation",
    ),
}
"""Files of other kinds, with the sentence; the command in it converts the file."""


@pytest.mark.parametrize("name", CONVERTED)
def test_conversion(ruler: Ruler, tmp_path: Path, name: str) -> None:
    """A file of another kind is named with the command that makes JSON lines of it, which works."""
    make, message = CONVERTED[name]
    make(tmp_path / name)
    done = ruler("check", name)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (
        f"{name}: {message}" in done.stderr or f"{name}: holds {message}" in done.stderr
    )
    command = "python3 -c" + done.stderr.strip().partition("python3 -c")[2]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=60)
    out = command.rpartition("> ")[2]
    assert read(tmp_path / out) == ROWS
    assert ruler("score", out, "scored.jsonl", "-m", "offline").returncode == 0


def test_conversion_beside_others(ruler: Ruler, tmp_path: Path) -> None:
    """The command unpacks a compressed file first, and writes over no file that exists."""
    _table(",")(tmp_path / "table.csv")
    content = (tmp_path / "table.csv").read_bytes()
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(content))
    for name in ("table.jsonl", "table.converted.jsonl", "in.jsonl"):
        (tmp_path / name).write_text("kept")
    command = ruler("check", "table.csv.gz").stderr.strip().partition("JSON lines: ")[2]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=60)
    assert read(tmp_path / "table.converted1.jsonl") == ROWS
    assert ruler("check", "-", stdin=content.decode()).stderr.endswith(
        "/dev/stdin > in.converted.jsonl\n"
    )
    with (
        (tmp_path / "t.csv.zst").open("wb") as file,
        compressed(file.name, file) as packed,
    ):
        packed.write(content)
    assert (
        "JSON lines: zstdcat t.csv.zst | python3 -c"
        in ruler("check", "t.csv.zst").stderr
    )


def _zip(member: str) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, "x")

    return make


def _tar(path: Path) -> None:
    (path.parent / "inside").write_text("{}")
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        archive.add(path.parent / "inside", "inside")


def _saved(path: Path) -> None:
    path.mkdir()
    (path / "dataset_info.json").write_text("{}")
    (path / "data-00000-of-00001.arrow").write_bytes(b"\xff\xff\xff\xff0000")


def _bytes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


REFUSED = {
    "book.xlsx": (
        _zip("xl/workbook.xml"),
        "is an Excel workbook; write it as JSON lines: python3 -c ",
    ),
    "model.pt": (_zip("archive/data.pkl"), "is a torch file"),
    "a.npz": (_zip("arr_0.npy"), "holds NumPy arrays and no messages"),
    "some.zip": (_zip("x.png"), "is a zip archive without samples/*.json"),
    "n.npy": (_bytes(b"\x93NUMPY\x01\x00"), "is a NumPy array"),
    "a.tar": (_tar, "is a tar archive; unpack it"),
    "a.tar.gz": (_tar, "is a tar archive; unpack it"),
    "in.yaml": (
        _bytes(b"- group_id: a\n  trajectories: []\n"),
        "is YAML; write it as JSON lines: python3 -c ",
    ),
    "page.html": (_bytes(b"<!DOCTYPE html>\n<html></html>\n"), "is a web page (HTML)"),
    "a.xml": (_bytes(b"<?xml version='1.0'?>\n<a/>\n"), "is XML"),
    "a.png": (_bytes(b"\x89PNG\r\n\x1a\n\x00\x00"), "is a PNG image"),
    "a.pdf": (_bytes(b"%PDF-1.7\n"), "is a PDF document"),
    "a.bz2": (_bytes(b"BZh91AY"), "is bzip2; decompress it with bunzip2"),
    "lfs.jsonl": (
        _bytes(b"version https://git-lfs.github.com/spec/v1\noid x\n"),
        "fetch it: git lfs pull",
    ),
    "d.arrow": (_bytes(b"\xff\xff\xff\xff\x00\x00"), "is an Arrow stream"),
    "saved": (
        _saved,
        "is a data set that Hugging Face's `datasets` saved; write it as JSON lines: python3",
    ),
    "notes.txt": (
        _bytes(b"Dear diary,\ntoday nothing happened.\n"),
        "give JSON lines, one object",
    ),
}
"""Files and directories that hold nothing to read, with the sentence."""


def test_kind(ruler: Ruler, tmp_path: Path) -> None:
    """A file that holds no records is named as what it is, and not as broken JSON."""
    for name, (make, message) in REFUSED.items():
        make(tmp_path / name)
        done = ruler("score", name, "out.jsonl", "-m", "offline")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), name
        assert done.stderr.startswith(f"ruler: {name}: "), name
        assert message in done.stderr
        assert not (tmp_path / "out.jsonl").exists()


def test_saved_dataset(ruler: Ruler, tmp_path: Path) -> None:
    """The command for a saved data set writes the records of all its files of Arrow."""
    arrow = pytest.importorskip("pyarrow")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_info.json").write_text("{}")
    table = arrow.Table.from_pylist(ROWS)
    with arrow.ipc.new_stream(
        tmp_path / "saved" / "data-00000-of-00001.arrow", table.schema
    ) as stream:
        stream.write_table(table)
    command = (
        "python3 -c" + ruler("check", "saved").stderr.strip().partition("python3 -c")[2]
    )
    import sys

    command = command.replace("python3", sys.executable, 1)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=60)
    assert read(tmp_path / "saved.jsonl") == ROWS


def test_foreign_file_in_a_directory(ruler: Ruler, tmp_path: Path) -> None:
    """A directory is read without its files of other kinds."""
    (tmp_path / "dump").mkdir()
    write(tmp_path / "dump" / "in.jsonl", [group("a", 0.1, 0.9)])
    for name in ("a.png", "n.npy", "book.xlsx", "rows.pkl", "a.pdf"):
        make = {**REFUSED, **CONVERTED}[name][0]
        make(tmp_path / "dump" / name)
    assert ruler("score", "dump", "out.jsonl", "-m", "offline").returncode == 0
    assert len(read(tmp_path / "out.jsonl")) == 1


def test_empty(ruler: Ruler, tmp_path: Path) -> None:
    """Of an input without a record nothing is scored, which is said in any case, with exit code 1."""
    for content in ("", "\n\n  \n"):
        (tmp_path / "in.jsonl").write_text(content)
        for source in ("in.jsonl", "-"):
            done = ruler(
                "score", source, "out.jsonl", "-m", "offline", "-q", stdin=content
            )
            assert done.returncode == 1
            assert "INPUT is empty, or holds blank lines only" in done.stderr
