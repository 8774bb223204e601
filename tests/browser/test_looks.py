"""Dark and light, paper, narrow windows, and a browser that runs no scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.view import shown


@pytest.mark.smoke
def test_without_scripts(
    browser: Browser, run: Path, figures: dict[str, Any]
) -> None:
    """A browser that runs no scripts shows the main figures, and a sentence that the rest needs them."""
    with shown(browser, run, scripts=False) as view:
        view.page.goto(view.address)
        text = view.text
        view.clean()
    assert "Scripts are off" in text
    assert "Opening the report" not in text
    rows = dict(line.split("\t") for line in text.splitlines() if "\t" in line)
    groups = figures["groups"]
    states = (
        f"{groups['scored']} of {groups['all']} scored ({groups['live']} live, "
    )
    assert rows["groups"].startswith(states)
    assert rows["failed"].startswith("2 ")
    assert f" of {figures['rollouts']['all']} scored" in rows["rollouts"]
    assert rows["mean score"] == f"{figures['scores']['mean']:.2f}"


def test_damaged_file(browser: Browser, run: Path, tmp_path: Path) -> None:
    """A damaged file shows a sentence about the damage in place of the page."""
    before, annotation, data = run.read_text().partition('id="data">')
    (tmp_path / "cut.html").write_text(
        f"{before}{annotation}{data[:200]}{data[400:]}"
    )
    with shown(browser, tmp_path / "cut.html") as view:
        view.page.goto(view.address)
        view.find("#app").filter(
            has_text="This report cannot be opened"
        ).wait_for()
        view.clean()
