"""Screens of the commands, as files; those of `report` and `agree` stand with their tests."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Ruler
from tests.screen import same_screen

JUDGED = "-m simulated --ledger ledger.sqlite"
SCREENS = {
    "score": f"score groups.jsonl out.jsonl {JUDGED}",
    "check": f"check groups.jsonl {JUDGED}",
    "check_no_key": "check groups.jsonl -m openai/gpt-4o-mini --ledger none",
    "prompt": "prompt groups.jsonl -m simulated",
    "batch_export": "batch export groups.jsonl requests.jsonl -m openai/gpt-4o-mini --ledger none",
    "select": "select scored.jsonl best.jsonl --keep 2 --by score",
    "ledger_stats": "ledger stats --ledger ledger.sqlite",
    "batch_status": "batch status --ledger ledger.sqlite",
    "config": "config --passes 4 --ledger none",
    "no_such_option": "score groups.jsonl out.jsonl --pases 4",
    "wrong_value": "score groups.jsonl out.jsonl --passes two",
    "no_such_file": "score grups.jsonl out.jsonl -m offline",
    "no_such_shape": "check notes.jsonl -m offline",
    "no_key": "score groups.jsonl out.jsonl -m openai/gpt-4o-mini",
}
"""Command lines by the name of their screen; each is run after `score`."""
_TIMES = re.compile(
    r"\d+\.\d+ s\b|\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\b\d+(\.\d+)? ?[kM]?i?B\b"
)


@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, ruler: Ruler, tmp_path: Path) -> None:
    """A command prints what its stored screen shows; times and sizes apart."""
    shutil.copy(ROOT / "samples" / "groups.jsonl", tmp_path / "groups.jsonl")
    (tmp_path / "notes.jsonl").write_text('{"note": "a", "count": 1}\n')
    if name != "score":
        ruler(*SCREENS["score"].split())
        shutil.copy(tmp_path / "out.jsonl", tmp_path / "scored.jsonl")
    done = ruler(*SCREENS[name].split(), COLUMNS="80")
    shown = f"$ ruler {SCREENS[name]}\n{done.stderr}{done.stdout}exit code {done.returncode}\n"
    same_screen(name, _TIMES.sub("#", shown.replace(str(tmp_path), "FOLDER")))
