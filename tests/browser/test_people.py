"""The page of a report with labels of people."""

from __future__ import annotations

from pathlib import Path

from tests.browser.axe import assert_accessible
from tests.browser.conftest import Show
from tests.browser.reports import ruler, write
from tests.results.test_people import panel


def test_judges(show: Show, tmp_path: Path) -> None:
    """The page has the accuracy against people of each judge and of all, as on the terminal."""
    write(tmp_path / "l.jsonl", panel(tmp_path))
    people = ("report", "s.jsonl", "--people", "l.jsonl")
    ruler(*people, "-o", "r.html", folder=tmp_path)
    shown = ruler(*people, folder=tmp_path).stdout
    view = show(tmp_path / "r.html")
    assert_accessible(view)
    text = view.find(".findings").inner_text()
    for words in ("all judges: 0.727 (", "two\\x1b[2J: 0.545 (", "two people"):
        assert words in text
        assert words in shown
    assert "ana" not in text
