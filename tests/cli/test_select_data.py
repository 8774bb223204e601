"""`ruler select` with marks, and as pairs, as scripts and people see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.json
import pyarrow.parquet

from ruler_cli.types import words_of
from tests.conftest import Ruler, read
from tests.results.select_values import dump, trajectory

ASKED = {"role": "user", "content": "Cancel order 17."}


def asked(name: str, *scores: float) -> dict[str, Any]:
    """A scored group whose rollouts answer one question."""
    rollouts = []
    for i, score in enumerate(scores):
        answer = {"role": "assistant", "content": f"{name} {i}"}
        rollouts.append({**trajectory(score), "messages": [ASKED, answer]})
    return {
        "group_id": name,
        "trajectories": rollouts,
        "ruler": {"status": "scored"},
    }


USAGE = {
    "--gap 0.1": "--gap: is for pairs; add --as pairs, or leave it out",
    "--as pairs --gap 0": "'0' is not 0.001 or more",
    "--as pairs --gap nan": "--gap",
    "--as pairs --gap 2": "--gap",
    "--as judge": "--as: 'judge' is not 'pairs'",
    "--where relibility=0.5..": "did you mean reliability?",
}  # fmt: skip


def test_bad_usage(ruler: Ruler, tmp_path: Path) -> None:
    """Bad usage is one sentence with the way out, and nothing is written."""
    groups = [asked(name, 0.1, 0.9) for name in "abcd"]
    dump(tmp_path / "s.jsonl", groups)
    for args, message in USAGE.items():
        done = ruler("select", "s.jsonl", "out.jsonl", *args.split())
        assert (done.returncode, done.stdout) == (2, ""), (args, done.stderr)
        assert message in done.stderr, args
        assert "Traceback" not in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


def test_pairs(ruler: Ruler, tmp_path: Path) -> None:
    """Pairs are written as lines, as a list or as a table; stderr counts what makes none."""
    groups = [
        asked("a", 0.1, 0.9, 0.5, 0.45),
        asked("b", 0.5, 0.6),
        asked("c", 0.3, 0.3),
    ]
    dump(tmp_path / "s.jsonl", groups)
    done = ruler(*words_of("select s.jsonl p.jsonl --as pairs"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[1:] == [
        "ruler: pairs written: 1, from 3 groups; groups without a pair: gap too small 1, tied 1"
    ]
    (pair,) = read(tmp_path / "p.jsonl")
    assert pair["prompt"] == [ASKED]
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == (
        "a 1",
        "a 0",
    )
    for name in ("p.json", "p.parquet", "p.jsonl.gz"):
        made = ruler("select", "s.jsonl", name, "--as", "pairs")
        assert made.returncode == 0, made.stderr
    assert json.loads((tmp_path / "p.json").read_text()) == [pair]
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist()
    assert table == [pair | {"tools": None}]
    assert pyarrow.json.read_json(tmp_path / "p.jsonl").to_pylist() == [pair]
    some = ruler(
        *words_of("select s.jsonl - --as pairs --gap"),
        0.05,
    )
    assert [json.loads(line)["gap"] for line in some.stdout.splitlines()] == [
        0.8,
        0.1,
    ]
    assert read(tmp_path / "s.jsonl") == groups


def test_pairs_of_a_pipe(ruler: Ruler, tmp_path: Path) -> None:
    """A selection can be made pairs of; lines that cannot be read end the command with 1."""
    text = json.dumps(asked("a", 0.1, 0.9)) + "\n"
    done = ruler(*words_of("select - - --as pairs"), stdin=text)
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["prompt"] == [ASKED]
    done = ruler(
        *words_of("select - p.parquet --as pairs"), stdin="{bad\n" + text
    )
    assert done.returncode == 1
    assert "1 line not readable" in done.stderr
    none = ruler(
        *words_of("select - n.parquet --as pairs --gap"), 1, stdin=text
    )
    assert (
        none.returncode,
        "pairs written: 0, from 1 group" in none.stderr,
    ) == (
        0,
        True,
    )
