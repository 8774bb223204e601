"""Tasks that stand in another file than the answers."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from tests.conftest import ROOT, Ruler, read, write


def test_join(ruler: Ruler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the documents joins answers with their tasks, and the judge sees both."""
    page = (ROOT / "docs" / "input.md").read_text()
    query = re.search(r'^duckdb -c "(.*)"$', page, re.MULTILINE)
    assert query is not None
    samples = [
        {"task_id": f"greet/{task}", "completion": f"    return {answer!r}\n"}
        for task in (0, 1)
        for answer in ("Hello", "hello \u2028 'x'")
    ]
    problems = [
        {
            "task_id": f"greet/{task}",
            "prompt": f"def greet{task}():",
            "solution": "GOLD",
        }
        for task in (0, 1, 2)
    ]
    write(tmp_path / "samples.jsonl", samples)
    write(tmp_path / "problems.jsonl", problems)
    monkeypatch.chdir(tmp_path)
    duckdb.connect().execute(query[1])
    joined = read(tmp_path / "joined.jsonl")
    assert sorted(joined, key=str) == sorted(
        ({**one, "prompt": f"def greet{one['task_id'][-1]}():"} for one in samples),
        key=str,
    )
    shown = ruler("prompt", "joined.jsonl", "--grouping", "scattered").stdout
    assert 'user: "def greet0():"' in shown or 'user: "def greet1():"' in shown
    assert "GOLD" not in shown
    done = ruler("score", "joined.jsonl", "s.jsonl", "-m", "offline")
    assert done.returncode == 0, done.stderr
    assert "2 groups of 2 rollouts" in done.stderr
