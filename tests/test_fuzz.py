"""A few thousand damaged records, the same ones each time; `python -m tests.fuzz` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import run

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = sorted(p for p in SAMPLES.rglob("*.jsonl") if ".scored" not in p.name)


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.stem)
def test_damaged(file: Path) -> None:
    """However a dump is damaged, nothing crashes, no line is lost, and nothing unreadable costs a call."""
    found = run([file], 60, seed=1)
    assert found[file.name] >= 60
