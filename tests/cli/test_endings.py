"""Endings of rollouts, from a dump to `check`, OUTPUT, the report and a selection."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ruler_cli.types import ENDINGS, words_of
from tests.conftest import Ruler, read, write
from tests.formats.changes import sample


@pytest.fixture
def dump(tmp_path: Path) -> list[str]:
    """Write slime's samples, of which some ended early; return how each ended."""
    records = sample("slime")
    status = ["truncated", "completed", "aborted", "truncated", "failed"]
    ended = ["truncated", "", "aborted", "truncated", "error"]
    assert len(records) == len(status)
    for record, word in zip(records, status, strict=True):
        record["status"] = word
    write(tmp_path / "in.jsonl", records)
    return ended


def test_output(ruler: Ruler, dump: list[str], tmp_path: Path) -> None:
    """Each record of OUTPUT says how its rollout ended, as text, empty for a normal end."""
    ruler(*words_of("score in.jsonl out.jsonl -m offline"))
    assert [
        record["metadata"]["ruler"]["ended"]
        for record in read(tmp_path / "out.jsonl")
    ] == dump


def test_check(ruler: Ruler, dump: list[str], tmp_path: Path) -> None:
    """`check` counts the rollouts that ended early, in one line; without any it has none."""
    page = ruler("check", "in.jsonl", "-m", "offline").stdout
    ended = re.search(r"^ended +(.*)$", page, re.MULTILINE)
    assert ended and ended[1] == "truncated 2, aborted 1, error 1"
    facts = json.loads(
        ruler(*words_of("check in.jsonl -m offline --json")).stdout
    )
    assert facts["ended"] == {how: dump.count(how) for how in ENDINGS}
    write(tmp_path / "none.jsonl", sample("slime"))
    page = ruler("check", "none.jsonl", "-m", "offline").stdout
    assert "\nfound  " in page
    assert "\n  ended " not in page


def test_report(ruler: Ruler, dump: list[str], tmp_path: Path) -> None:
    """The report marks each rollout that ended early; tests/results selects them."""
    ruler(*words_of("score in.jsonl out.jsonl -m offline"))
    keys = {
        str(record["group_index"]) for record in read(tmp_path / "out.jsonl")
    }
    pages = [
        ruler("report", "out.jsonl", "--group", key).stdout for key in keys
    ]
    notes = re.findall(r"^note +(.*)$", "\n".join(pages), re.MULTILINE)
    shown = "\n".join(notes)
    assert {how: shown.count(how) for how in ENDINGS} == {how: dump.count(how) for how in ENDINGS}  # fmt: skip
