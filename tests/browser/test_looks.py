"""A file that was damaged on its way."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.view import shown


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
