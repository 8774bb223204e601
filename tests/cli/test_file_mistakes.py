"""Files of the wrong kind as INPUT, and names that promise another kind of OUTPUT: refused before a call."""

from __future__ import annotations

import pickle
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ruler_cli.types import words_of
from tests.conftest import Ruler, group, write

S = "score in.jsonl"
J = "-m offline"
NAMES = {
    f"{S} new/ {J}": "new/: is a directory; name a file in it, e.g. new/out.jsonl, or `-` for stdout",
    f"{S} folder {J}": "folder: is a directory; name a file in it, e.g. folder/out.jsonl, or `-` for stdout",
    f"{S} new/out.jsonl {J}": "create it with: mkdir -p new\n",
    f"{S} in.jsonl/out.jsonl {J}": "cannot be written: Not a directory",
    f"{S} out.csv {J}": "out.csv: ruler does not write .csv files; name it out.jsonl",
    f"{S} out.csv.gz {J}": "name it out.jsonl",
    f"{S} out.jsonl.bz2 {J}": "ruler does not write .bz2 files; name it out.jsonl",
    f"{S} out.parquet.gz {J}": "ruler does not write .parquet.gz files; name it out.jsonl",
    f"{S} out.eval {J}": "is written only with an Inspect log as INPUT",
    f"{S} out.jsonl {J} --set failed=f.csv": "is not a plain file on this machine",
    f"{S} out.jsonl {J} --summary folder": "--summary folder: is a directory; name a file in it",
    "select scored.jsonl out.csv --where live": "out.csv: ruler does not write .csv files",
    "select scored.jsonl new/ --where live": "new/: is a directory",
    "report scored.jsonl -o report.pdf": "a report is a local file; end its name in .html",
    "batch export in.jsonl requests.json": "requests.json: ruler does not write .json files; name it requests.jsonl",
    "batch export in.jsonl new/": "new/: is a directory",
}


def test_name(ruler: Ruler, tmp_path: Path) -> None:
    """A name that promises another kind of file than is written is refused, and nothing is written."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    ruler(*words_of("score in.jsonl scored.jsonl -m offline"))
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
MISSING = {
    f"{OUT} {J} --config no.toml": "no.toml: no such file; check the path",
    f"{OUT} {J} --config in.jsonl/x": "in.jsonl/x: no such file; check the path",
    f"{OUT} {J} --set failed=no/f.jsonl": "--set failed=no/f.jsonl: its directory does not exist; create it",
    f"{OUT} {J} --summary no/s.json": "--summary no/s.json: its directory does not exist",
    f"{OUT} {J} --rubric @strict.md": f"--rubric @strict.md: no such file; {PATH}",
    f"{OUT} {J} --rubric @in.jsonl/x": f"--rubric @in.jsonl/x: no such file; {PATH}",
    f"{OUT} {ASKED} --ledger own.db --ledger b.db": f"b.db: no file matches; {PATH}",
    f"{OUT} {ASKED} --ledger own.db --ledger no*.db": f"no*.db: no file matches; {PATH}",
    f"score no*.jsonl out.jsonl {J}": f"no*.jsonl: no file matches; {PATH}",
    f"score folder out.jsonl {J}": f"folder: holds no file to read; {PATH}",
    f"score in.jsonl/x out.jsonl {J}": f"in.jsonl/x: no such file; {STDIN}",
    f"score in.json out.jsonl {J}": f"in.json: no such file; {STDIN}",
    f"check zebra {J}": f"zebra: no such file; {STDIN}",
    "check in.jsonl --rubric @strict.md": f"--rubric @strict.md: no such file; {PATH}",
    "prompt inn.jsonl": STDIN,
    f"batch export inn.jsonl requests.jsonl {ASKED}": STDIN,
    f"batch export in.jsonl no/requests.jsonl {ASKED}": "create it with: mkdir -p no",
    "agree inn.jsonl": STDIN,
    "report inn.jsonl": STDIN,
    "compare scored.jsonl inn.jsonl": STDIN,
    "report scored.jsonl -o no/report.html": "create it with: mkdir -p",
    "select inn.jsonl out.jsonl --where live": STDIN,
    "select scored.jsonl no/out.jsonl --where live": "create it with: mkdir -p no",
    "batch import inn.jsonl --ledger own.db": STDIN,
    "batch import in.jsonl no-*.jsonl --ledger own.db": "no file matches",
    "batch import in.jsonl --ledger none": "give its path",
    f"batch submit inn.jsonl {ASKED} --ledger own.db": STDIN,
    "config --config no.toml": "no.toml: no such file; check the path",
}
"""Files that do not exist, in every command and option that takes one, with the way out."""


def test_missing(ruler: Ruler, tmp_path: Path) -> None:
    """The error of a missing file is one sentence with what to do, and nothing is written."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    (tmp_path / "rubric.txt").write_text("Be brief.")
    ruler(*words_of("score in.jsonl scored.jsonl -m offline"))
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


def _sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE rollouts (prompt, response, reward)")


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps([1]))


def _tar(path: Path) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        archive.addfile(tarfile.TarInfo("inside"))


def _bytes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


UNKNOWN = "is neither text nor a known container (it begins with b'"
REFUSED = {
    "base.sqlite": (_sqlite, f"{UNKNOWN}SQLite f'); convert it to JSON lines"),
    "rows.pkl": (_bytes(pickle.dumps([{"a": 1}])), UNKNOWN),
    "a.png": (_bytes(b"\x89PNG\r\n\x1a\n\0\0"), UNKNOWN),
    "a.tar": (_tar, UNKNOWN),
    "a.tar.gz": (_tar, UNKNOWN),
    "model.pt": (
        _zip,
        "is a zip archive without samples/*.json; unpack it, or",
    ),
    "t.csv": (_bytes(b"prompt, reward\na,1\n"), "give JSON lines, one object"),
    "notes.txt": (_bytes(b"Dear diary,\n"), "give JSON lines, one object"),
}
"""Files that hold nothing to read, with the sentence."""


def test_kind(ruler: Ruler, tmp_path: Path) -> None:
    """A file that holds no records is refused in one sentence; a directory is read without it."""
    for name, (make, message) in REFUSED.items():
        make(tmp_path / name)
        done = ruler("score", name, "out.jsonl", "-m", "offline")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), name
        assert done.stderr.startswith(f"ruler: {name}: "), name
        assert message in done.stderr
        assert not (tmp_path / "out.jsonl").exists()
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    output = ruler(*words_of("score . - -m offline"))
    assert (output.returncode, output.stdout.count("\n")) == (0, 1)
    assert output.stderr.count("left out") == len(REFUSED)


def test_empty(ruler: Ruler, tmp_path: Path) -> None:
    """Of an input without a record nothing is scored, which is said in any case, with exit code 1."""
    for content in ("", "\n\n  \n"):
        (tmp_path / "in.jsonl").write_text(content)
        for source in ("in.jsonl", "-"):
            done = ruler(
                "score",
                source,
                "out.jsonl",
                "-m",
                "offline",
                "-q",
                stdin=content,
            )
            assert done.returncode == 1
            assert "INPUT is empty, or holds blank lines only" in done.stderr
