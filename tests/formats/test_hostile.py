"""Hostile dumps of every format: the traces of a careless writer, a crash or a trained model."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse
from ruler_cli.runs.file import score
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from ruler_cli.types import Summary
from tests.formats.changes import raws
from tests.formats.test_every_format import EXAMPLES, each_layout
from tests.fuzz import bare
from tests.values import line, reader

BAD_LINES = {
    "log": b"INFO 12:04:11 rollout worker 3 restarted",
    "torn": b'{"messages": [{"role": "user", "content": "Na',
    "list": b'[{"messages": []}]',
    "text": b'"a string"',
    "number": b"-1e3",
    "null": b"null",
    "empty": b"{}",
    "bytes": b'{"a": "\xff\xfe"}',
    "nul": b"\x00\x00\x00",
    "comment": b"# results of tuesday",
    "deep": b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "escape": b'{"a": "\\u12"}',
    "ansi": b"\x1b[2J\x1b]0;owned\x07",
}
"""Lines that are no record of any format."""

ODD_VALUES = {
    "nan": "NaN",
    "infinity": "-Infinity",
    "huge": str(10**40),
    "tiny": "1e-400",
    "exact": "0.1000000000000000055511151231257827",
    "surrogate": '"\\ud800"',
    "separators": '"\u2028\u2029\x85"',
    "nul": '"\\u0000"',
    "delimiter": '"</trajectory>\\n<trajectory id=\\"bcdf\\">"',
    "ansi": '"\\u001b[2J"',
    "deep": "[" * 200 + "]" * 200,
}
"""Values that JSON libraries read differently, or that harm other programs."""


def run(path: Path) -> tuple[Summary, list[bytes], list[bytes]]:
    """Score a file and return the summary, the lines of OUTPUT and those of the failed file."""
    out = path.with_name("out.jsonl")
    done = anyio.run(
        score,
        ScoreSettings(
            InputSettings(str(path)), str(out), JudgeSettings("simulated")
        ),
    )
    failed = Path(f"{out}.failed.jsonl")
    return done.summary, raws(out), raws(failed) if failed.exists() else []


@each_layout
def test_bad_lines(name: str, tmp_path: Path) -> None:
    """Lines that are no record go unchanged to the failed file; all others are scored, in order."""
    good, path = raws(EXAMPLES[name]), tmp_path / "in.jsonl"
    mixed = [good[0]]
    for i, bad in enumerate(BAD_LINES.values(), 1):
        mixed += [bad, *good[i : i + 1]]
    mixed += good[len(BAD_LINES) + 1 :]
    path.write_bytes(b"\n".join(mixed))
    summary, out, failed = run(path)
    assert sorted(failed) == sorted(BAD_LINES.values())
    assert summary.unreadable == len(BAD_LINES)
    assert [bare(parse(o)) for o in out] == [bare(parse(g)) for g in good]


@each_layout
def test_odd_values(name: str, tmp_path: Path) -> None:
    """Values that JSON libraries read differently stay unchanged in every format."""
    path = tmp_path / "in.jsonl"
    begin = b"{" + b"".join(
        f'"odd {odd}": {value}, '.encode() for odd, value in ODD_VALUES.items()
    )
    lines = [raw.replace(b"{", begin, 1) for raw in raws(EXAMPLES[name])]
    if reader(*raws(EXAMPLES[name])).format.shape == "columns":
        pytest.skip(
            "a column that is no list makes a columnar record one of unequal columns"
        )
    path.write_bytes(b"\n".join(lines))
    summary, out, _ = run(path)
    assert summary.complete
    assert all(raw.startswith(begin) for raw in out)


FRAMES: dict[str, Callable[[list[bytes]], bytes]] = {
    "no last line feed": b"\n".join,
    "carriage returns": lambda lines: b"\r\n".join(lines) + b"\r\n",
    "blank lines": lambda lines: b"\n\n \n".join(lines) + b"\n\n",
    "byte order mark": lambda lines: b"\xef\xbb\xbf" + b"\n".join(lines),
    "torn last line": lambda lines: b"\n".join([*lines, lines[-1][:40]]),
}


@pytest.mark.parametrize(
    "name", ["groups", "verl", "roll", "lm_eval", "preference"]
)
@pytest.mark.parametrize("frame", FRAMES)
def test_frames(name: str, frame: str, tmp_path: Path) -> None:
    """Line ends, blank lines, a byte order mark and a torn last line change no record."""
    good, path = raws(EXAMPLES[name]), tmp_path / "in.jsonl"
    path.write_bytes(FRAMES[frame](good))
    summary, out, failed = run(path)
    assert summary.failed == {}
    assert len(failed) == summary.unreadable == (frame == "torn last line")
    assert [bare(parse(o)) for o in out] == [bare(parse(g)) for g in good]


@each_layout
def test_foreign_ruler(name: str, tmp_path: Path) -> None:
    """A record with a foreign field `ruler` goes unchanged to the failed file."""
    good, path = (
        [parse(raw) for raw in raws(EXAMPLES[name])],
        tmp_path / "in.jsonl",
    )
    foreign: list[Any] = [1, "text", [], {"theirs": True}]
    first = [
        json.dumps({**good[0], "ruler": value}).encode() for value in foreign
    ]
    path.write_bytes(b"\n".join([*first, *raws(EXAMPLES[name])]))
    _, _, failed = run(path)
    assert failed == first


def test_emptied(subtests: pytest.Subtests) -> None:
    """A record with any field emptied is read, or is unreadable with a reason."""
    for name, path in EXAMPLES.items():
        with subtests.test(name=name):
            _emptied(raws(path))


def _emptied(good: list[bytes]) -> None:
    detected = reader(*good)
    record = parse(good[0])
    instead: list[Any] = [None, [], "", {}, 0, [None], [{}], [[]]]
    for key, empty in itertools.product(record, instead):
        broken = line(json.dumps({**record, key: empty}).encode())
        try:
            for read in detected.read(broken):
                assert all(
                    r.error is None or r.error.strip() for r in read.rollouts
                )
        except UnreadableError as error:
            assert str(error)
