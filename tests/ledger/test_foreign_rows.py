"""Rows that another program wrote, or whose file it holds, are never an exception."""

from __future__ import annotations

import itertools
import json
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from ruler_cli.ledger.reply_cache import Ledger, key_of
from ruler_cli.types import CallError, Reply
from tests.conftest import Ruler
from tests.ledger.test_reply_cache import ASK, FAILED, reply

COLUMNS = (
    "at",
    "seconds",
    "model",
    "status",
    "prompt",
    "completion",
    "cached",
    "body",
)
VALUES = (
    None,
    "",
    "text",
    "1e999",
    b"",
    b"\xff\x00",
    7,
    -(1 << 62),
    1e300,
    float("inf"),
)


def test_types_of_values(ruler: Ruler, tmp_path: Path) -> None:
    """A value of any type of SQLite's, in any column, is read as one of the column's, or as no answer."""
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        ledger.keep(key_of("m", {}, ASK), "m", reply())
    with closing(sqlite3.connect(path)) as file:
        (row,) = file.execute("SELECT * FROM replies").fetchall()
        file.execute("PRAGMA writable_schema = ON")
        file.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '')"
        )
        file.commit()
    with closing(sqlite3.connect(path)) as file:
        for number, (column, value) in enumerate(
            itertools.product(COLUMNS, VALUES)
        ):
            values = [*row]
            values[0], values[1] = number + 2, struct.pack(">QQ", 0, number)
            values[2 + COLUMNS.index(column)] = value
            file.execute(
                f"INSERT INTO replies VALUES ({', '.join('?' * 10)})", values
            )
        file.commit()
    with Ledger(path) as ledger:
        for number in range(len(COLUMNS) * len(VALUES)):
            key = struct.pack(">QQ", 0, number)
            assert isinstance(ledger.find(key), Reply | CallError | None)
            ledger.keep_all([(key, "m", FAILED)])
        assert sum(ledger.stats().rows.values()) > 1
    for words in (
        ("stats",),
        ("stats", "--json"),
        ("clear", "--yes", "--older-than", "1"),
    ):
        done = ruler("ledger", *words, "--ledger", "ledger")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert json.loads(
        ruler("ledger", "stats", "--json", "--ledger", "ledger").stdout
    )
