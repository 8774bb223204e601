"""Screen readers and keyboards: names, roles, headings, landmarks, focus."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.axe import assert_accessible, violations
from tests.browser.conftest import Show
from tests.browser.view import Theme, View

CHARTS = [
    "scores",
    "spread",
    "labels",
    "slots",
    "lengths",
    "reliability",
]
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
    """Every page is accessible, in either theme, on a desk or a phone; navigation marks the current one."""
    view = show(run, theme=theme, width=width)
    for hash_ in PAGES:
        view.go(hash_)
        view.settled()
        assert_accessible(view)
        report = view.page.get_by_role("navigation", name="Report")
        current = report.locator("[aria-current=page]").count()
        assert current == (0 if "group=" in hash_ else 1)
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


def test_axe_finds(view: View) -> None:
    """axe runs beside the policy of the page: it finds a button without a name."""
    view.open("#groups")
    view.page.evaluate(
        "document.querySelector('main').append(document.createElement('button'))"
    )
    assert "button-name" in " ".join(violations(view))


@pytest.mark.smoke
def test_overview_by_screen_reader(view: View) -> None:
    """The overview is read in order: figures, groups to look at, charts with points."""
    tree = view.open("#overview").settled().find("main").aria_snapshot()
    order = ['heading "54 of 60 groups scored, 6 failed" [level=2]']
    named = (
        "Groups, the worst first",
        "Why groups failed",
        "The judge",
    )
    order += [f'heading "{name}" [level=3]' for name in named]
    order += [
        f'heading "{view.find(f"#chart-{chart} h3").inner_text()}" [level=3]'
        for chart in CHARTS
    ]
    places = [tree.find(heading) for heading in order]
    assert -1 not in places
    assert places == sorted(places)
    assert tree.count("- figure") == len(CHARTS)
    notes = re.findall(r'link "(.*; show the groups)"', tree)
    assert len(notes) == view.find(".plot svg a").count() > 50


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


def test_list_of_keys(view: View) -> None:
    """A question mark opens the list of keys as a dialog, Escape closes it."""
    view.open("#groups")
    view.page.keyboard.press("?")
    dialog = view.page.get_by_role("dialog", name="Keys")
    dialog.wait_for()
    view.page.keyboard.press("/")
    assert "search" not in view.focus
    view.page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    view.by("button", "Keys").click()
    dialog.wait_for()
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="hidden")
    assert view.hash == "#groups"
