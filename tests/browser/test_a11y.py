"""Screen readers and keyboards: names, roles, headings, landmarks, focus."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.browser.axe import violations
from tests.browser.conftest import Show
from tests.browser.view import Theme, View

CHARTS = ["scores", "spread", "labels", "slots", "lengths", "reliability", "failures"]
PAGES = (
    "#overview",
    "#groups?where=live&mean=0..0.9",
    "#group=task-2",
    "#group=task-2&view=one",
    "#group=nobody",
)
each_page = pytest.mark.parametrize("hash_", PAGES)


def ready(view: View, hash_: str) -> View:
    """The page with all its messages in the document."""
    view.open(hash_)
    view.settled()
    return view


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
@each_page
def test_axe(show: Show, run: Path, hash_: str, theme: Theme, width: int) -> None:
    """axe finds nothing on a page, in either theme, on a desk or a phone."""
    assert violations(show(run, hash_, theme=theme, width=width).settled()) == []


@pytest.mark.parametrize("key", ["m", "?"])
def test_axe_in_dialogs(show: Show, run: Path, key: str) -> None:
    """axe finds nothing in the dialogs of marks and of keys."""
    view = show(run, "#groups")
    view.page.keyboard.press(key)
    view.until("document.querySelector('dialog[open]')")
    assert violations(view) == []


def test_axe_finds(view: View) -> None:
    """axe runs beside the policy of the page: it finds a button without a name."""
    view.open("#groups")
    view.page.evaluate(
        "document.querySelector('main').append(document.createElement('button'))"
    )
    assert "button-name" in " ".join(violations(view))


@each_page
def test_names(view: View, hash_: str) -> None:
    """Every button, link, field, chart and region that a screen reader stops at has a name."""
    tree = ready(view, hash_).find("body").aria_snapshot()
    roles = "button|link|textbox|searchbox|combobox|checkbox|grid|region|figure|group|dialog|navigation"
    using = rf"^\s*- '?({roles})\b"
    result = [line.strip() for line in tree.splitlines() if re.match(using, line)]
    assert len(result) > 5
    unnamed = [
        line
        for line in result
        if '"' not in line and not re.match(r"- (figure|group)\b", line)
    ]
    assert unnamed == []
    assert 'role="' not in tree


@each_page
def test_headings_are_in_order(view: View, hash_: str) -> None:
    """A page has one heading of the first rank, and no rank is skipped on the way down."""
    ranks = (
        ready(view, hash_)
        .find("h1:visible, h2:visible, h3:visible, h4:visible, h5:visible")
        .evaluate_all("all => all.map(heading => Number(heading.localName[1]))")
    )
    assert ranks.count(1) == 1
    assert ranks[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(ranks)), ranks


@each_page
def test_landmarks(view: View, hash_: str) -> None:
    """A page has one head, one main part, one foot, and named navigation that marks the current page."""
    ready(view, hash_)
    assert [
        view.page.get_by_role(role).count()
        for role in ("banner", "main", "contentinfo")
    ] == [1, 1, 1]
    report = view.page.get_by_role("navigation", name="Report")
    assert report.count() == 1
    assert report.locator("[aria-current=page]").count() == (
        0 if "group=" in hash_ else 1
    )
    assert view.page.evaluate("document.documentElement.lang") == "en"
    assert view.page.title()


@pytest.mark.smoke
def test_overview_by_screen_reader(view: View) -> None:
    """The overview is read in order: figures, groups to look at, charts with points."""
    tree = ready(view, "#overview").find("main").aria_snapshot()
    order = ['heading "54 of 60 groups scored, 6 failed" [level=2]']
    named = (
        "Worst groups",
        "Most disputed groups",
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
    notes = re.findall(r'link "(.*; show (?:the groups|them))"', tree)
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
    cells = "all => all.map(row => row.querySelectorAll('[role=gridcell]').length)"
    assert set(rows.evaluate_all(cells)) == {6}
    view.go("#groups?sort=mean")
    assert [column.get_attribute("aria-sort") for column in columns.all()].count(
        "ascending"
    ) == 1


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


@each_page
def test_ids_are_unique(view: View, hash_: str) -> None:
    """Each id stands once, and every reference leads to an element."""
    ready(view, hash_)
    ids = view.find("[id]").evaluate_all("all => all.map(element => element.id)")
    assert len(ids) == len(set(ids))
    referred = view.find(
        "[aria-labelledby], [aria-activedescendant], [aria-controls]"
    ).evaluate_all(
        "all => all.flatMap(e => ['labelledby', 'activedescendant', 'controls']"
        ".map(name => e.getAttribute(`aria-${name}`)).filter(Boolean))"
    )
    assert set(referred) <= set(ids)


def test_names_beside_colours(view: View) -> None:
    """Each kind of failure has its name beside its colour: in the legend, in each bar, in the table."""
    ready(view, "#overview")
    kinds = view.find("#chart-failures .legend li").all_inner_texts()
    assert kinds == ["unusable reply", "judge failed", "judge refused"]
    names = view.find("#chart-failures svg a [aria-label]").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label').split(',')[0])"
    )
    assert set(names) == set(kinds)
    view.go("#groups?where=failed")
    output = {
        text.strip() for text in view.find(".body .cell.telling").all_inner_texts()
    }
    assert output == {"failed: reply", "failed: transport", "failed: refused"}
