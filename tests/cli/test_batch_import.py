"""`ruler batch import` as scripts and people see it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ruler_cli.files.error_map import zstd
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.types import words_of
from tests.batch.test_import_replies import expired, good, key, long
from tests.conftest import Ruler


def written(path: Path, *lines: bytes) -> Path:
    """A reply file."""
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_complete_import(ruler: Ruler, tmp_path: Path) -> None:
    """A file of answers is imported with a short table and exit code 0, and a second import adds nothing."""
    written(tmp_path / "r.jsonl", good(1), good(2))
    done = ruler(*words_of("batch import r.jsonl --ledger l.sqlite"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "ledger  l.sqlite",
        "files   1",
        "rows    2",
        "new     2",
    ]
    again = ruler(*words_of("batch import r.jsonl --ledger l.sqlite"))
    assert again.returncode == 0
    assert "known   2" in again.stdout
    with Ledger(tmp_path / "l.sqlite") as ledger:
        assert ledger.find(key(1)) is not None


def test_incomplete_import(ruler: Ruler, tmp_path: Path) -> None:
    """Failed calls, requests to send again and unreadable rows are counted and named, with exit code 1."""
    odd = json.dumps({"custom_id": "\x1b[31mmine", "text": "x"}).encode()
    written(tmp_path / "r.jsonl", good(1), long(2), expired(3), odd, b"{}")
    done = ruler("batch", "import", "r.jsonl")
    assert done.returncode == 1
    assert "failed      too_long 1" in done.stdout
    assert "again       expired 1" in done.stdout
    assert "foreign     1" in done.stdout
    assert "unreadable  1" in done.stdout
    assert "r.jsonl line 4 has a foreign custom_id" in done.stderr
    assert "r.jsonl line 5 has no custom_id" in done.stderr
    assert "the first request that is expired: not executed" in done.stderr
    assert (
        "the first request that is too_long: the judge answered 400"
        in done.stderr
    )
    assert "\x1b" not in done.stdout + done.stderr


def test_json(ruler: Ruler, tmp_path: Path) -> None:
    """`--json` prints the same as one object."""
    written(tmp_path / "r.jsonl", good(1), good(1), long(2), expired(3), b"{}")
    done = ruler(*words_of("batch import r.jsonl --ledger l.sqlite --json"))
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "ledger": "l.sqlite",
        "files": 1,
        "rows": 5,
        "new": 1,
        "known": 1,
        "failed": {"too_long": 1},
        "again": {"expired": 1},
        "foreign": 0,
        "unreadable": 1,
        "odd": [
            {"where": "r.jsonl line 5", "line": 5, "reason": "has no custom_id"}
        ],
    }


def test_sources(ruler: Ruler, tmp_path: Path) -> None:
    """One command reads several files, compressed ones, a quoted pattern, a directory, Parquet and stdin."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    written(tmp_path / "a.jsonl", good(1))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(good(2) + b"\n"))
    (tmp_path / "c.jsonl.zst").write_bytes(zstd.compress(good(5) + b"\n"))
    for number in (1, 2, 10):
        written(tmp_path / f"part-{number}.jsonl", good(f"part {number}"))
    table = pyarrow.table(
        {
            "custom_id": [key(n).hex() for n in "abc"],
            "generated_text": ["a", "b", "c"],
        }
    )
    parquet.write_table(table, tmp_path / "r.parquet")  # the format of Ray Data
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "c.json", good(3))
    names = [
        "a.jsonl",
        "b.jsonl.gz",
        "c.jsonl.zst",
        "part-*.jsonl",
        "folder",
        "r.parquet",
        "-",
    ]
    done = ruler(
        "batch",
        "import",
        *names,
        "-m",
        "mine",
        "--json",
        stdin=good(4).decode(),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["new"] == 11
    assert "mine" in ruler("ledger", "stats").stdout


def test_huge_lines(ruler: Ruler, tmp_path: Path) -> None:
    """A line longer than any reply is named and left out; the following lines keep their numbers."""
    huge = b'{"custom_id": "' + b"0" * (40 << 20) + b'"}'
    written(tmp_path / "r.jsonl", good(1), huge, good(2), b"{}")
    done = ruler("batch", "import", "r.jsonl", "--json")
    result = json.loads(done.stdout)
    assert (result["new"], [one["line"] for one in result["odd"]]) == (
        2,
        [2, 4],
    )
    assert result["odd"][0]["reason"] == "is longer than 32 MiB"
