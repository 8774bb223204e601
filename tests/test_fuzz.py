"""Damaged records, the same ones each time; `python -m tests.fuzz` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import run

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = sorted(p for p in SAMPLES.rglob("*.jsonl") if ".scored" not in p.name)


def test_each_damaged() -> None:
    """For any damage of a dump, nothing crashes, no line is lost, and no unreadable group costs a call."""
    result = run(FILES, 2 * len(FILES), seed=0)
    assert sum(result[file.name] for file in FILES) >= 2 * len(FILES)


@pytest.mark.long
@pytest.mark.parametrize("file", FILES, ids=lambda p: p.stem)
def test_damaged(file: Path) -> None:
    """Each of them, damaged in many ways, obeys the same laws."""
    result = run([file], 40, seed=1)
    assert result[file.name] >= 40
