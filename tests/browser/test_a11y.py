"""Screen readers and keyboards: names, roles, headings, landmarks, focus."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.axe import assert_accessible, violations
from tests.browser.conftest import Show
from tests.browser.view import Theme, View

PAGES = (
    "#overview",
    "#groups?where=live&mean=0..0.9",
    "#group=task-2",
    "#group=nobody",
)


@pytest.mark.parametrize(
    ("theme", "width"), [("light", 1280), ("dark", 390), ("light", 1920)]
)
def test_pages(show: Show, run: Path, theme: Theme, width: int) -> None:
    """Every page is accessible, in either theme, on a desk or a phone."""
    view = show(run, theme=theme, width=width)
    for hash_ in PAGES:
        view.go(hash_)
        view.settled()
        assert_accessible(view)
    assert view.page.evaluate("document.documentElement.lang") == "en"
    assert view.page.title()


def test_axe_in_folds(show: Show, run: Path) -> None:
    """axe finds nothing in what the table folds, and in the list of keys."""
    view = show(run, "#groups")
    view.find("#marks summary").click()
    assert violations(view) == []
    view.page.keyboard.press("?")
    view.until("document.querySelector('dialog[open]')")
    assert violations(view) == []


def test_table_by_screen_reader(show: Show, many: Path) -> None:
    """The table is a grid that states its numbers of rows and columns, and the position of each row."""
    view = show(many, "#groups?sort=-ordinal")
    grid = view.page.get_by_role("grid", name="Groups")
    columns = grid.get_by_role("columnheader")
    assert grid.get_attribute("aria-rowcount") == "2001"
    assert grid.get_attribute("aria-colcount") == str(columns.count()) == "6"
    rows = grid.locator(".body").get_by_role("row")
    numbers = "all => all.map(row => Number(row.getAttribute('aria-rowindex')))"
    assert rows.evaluate_all(numbers) == list(range(2, 2 + rows.count()))
    cells = (
        "all => all.map(row => row.querySelectorAll('[role=gridcell]').length)"
    )
    assert set(rows.evaluate_all(cells)) == {6}
    view.go("#groups?sort=mean")
    assert [
        column.get_attribute("aria-sort") for column in columns.all()
    ].count("ascending") == 1


def test_focus_moves_with_the_page(view: View) -> None:
    """A link moves the focus to the page that it opens, so that reading goes on there."""
    view.open()
    view.find("nav a[href='#groups']").focus()
    view.page.keyboard.press("Enter")
    view.until("document.activeElement.matches('.grid')")
    view.page.keyboard.press("Enter")
    view.until("document.activeElement.matches('main')")
    view.page.keyboard.press("Escape")
    view.until("document.activeElement.matches('.grid')")
