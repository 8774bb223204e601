"""The table of groups: order, filters, search, virtual rows, keys, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Show
from tests.browser.truth import Truth, natural
from tests.browser.view import View

TALL = 3_000
"""Pixels in which all 60 rows are drawn."""


def sorts(truth: Truth) -> dict[str, Callable[[int], Any]]:
    """The sort key of each column."""
    groups = truth.groups

    def figure(name: str) -> Callable[[int], Any]:
        return lambda i: truth.value(i, name)

    return {
        "key": lambda i: natural(groups[i].key),
        "task": lambda i: natural(truth.tasks[i]),
        "status": lambda i: f"{groups[i].status} {groups[i].kind} {str(groups[i].tied).lower()}",
        "rollouts": lambda i: len(groups[i].rollouts),
        "scores": lambda i: max(groups[i].scores, default=None),
        **{name: figure(name) for name in ("mean", "sd", "reliability", "disagreement", "cost", "tokens")},
        "flags": lambda i: " ".join(groups[i].flags) or None,
        "telling": lambda i: truth.telling[i],
    }


COLUMNS = {
    name: name for name in ("key", "task", "status", "rollouts", "scores", "mean", "sd", "reliability")
}
COLUMNS |= {name: name for name in ("disagreement", "cost", "tokens", "flags")} | {"telling": "why telling"}


def head(view: View, title: str) -> Any:
    """The button in a column's head."""
    return view.find(".head").get_by_role("button", name=title, exact=True)


@pytest.mark.smoke
def test_sort(show: Show, run: Path, truth: Truth) -> None:
    """A click on a column's head sorts as Python does, a second click reverses; empty values come last."""
    view = show(run, "#groups", height=TALL)
    assert view.keys == truth.ordered()
    for column, key in sorts(truth).items():
        ways = set()
        for _ in range(2):
            head(view, COLUMNS[column]).click()
            now = view.find(f".head .cell.{column}").get_attribute("aria-sort")
            assert view.keys == truth.ordered(key, down=now == "descending"), (column, now)
            ways.add(now)
        assert ways == {"ascending", "descending"}, column
        assert view.find(".head [aria-sort]:not([aria-sort=none])").count() == 1


def chip(view: View, name: str) -> Any:
    """The button that filters by a word."""
    return view.find(".chip").filter(has_text=name).first


def test_chips_filter(view: View, truth: Truth) -> None:
    """Each chip states how many groups it leaves, leaves those, and is removed by a second press."""
    view.open("#groups")
    chips = view.find(".chip")
    assert chips.count() == 4 + 3 + 2
    for i in range(chips.count()):
        one = chips.nth(i)
        one.click()
        view.find(".chip[aria-pressed=true]").wait_for()
        matching = truth.matching(view.hash)
        assert view.count == len(matching) == int(one.locator(".n").inner_text())
        assert (
            sorted(view.keys) == sorted(truth.groups[i].key for i in matching)[: len(view.keys)]
            or view.count > 50
        )
        one.click()
        view.at("#groups")
        assert view.count == 60


def test_filters_combine(view: View, truth: Truth) -> None:
    """Words of one name widen, names and ranges narrow, and each can be removed again."""
    view.open("#groups?where=failed&where=tied")
    assert view.count == len(truth.matching(view.hash)) > 6
    view.find(".chip").filter(has_text="reply").click()
    view.at("#groups?where=failed&where=tied&kind=reply")
    assert view.count == len(truth.matching(view.hash)) == 2
    view.by("button", "Show all").click()
    view.at("#groups")
    view.go("#groups?where=live&mean=0.4..0.6&score=0.5..0.55&label=1..1&sort=-mean")
    matching = truth.matching("#groups?where=live&mean=0.4..0.6&score=0.5..0.55&label=1..1")
    assert view.count == len(matching) > 0
    assert sorted(view.keys) == sorted(truth.groups[i].key for i in matching)
    view.by("button", "remove: original reward 1").click()
    view.at("#groups?where=live&mean=0.4..0.6&score=0.5..0.55&sort=-mean")
    assert (
        view.count == len(truth.matching("#groups?where=live&mean=0.4..0.6&score=0.5..0.55")) > len(matching)
    )
    assert view.by("button", "remove: original reward 1").count() == 0


@pytest.mark.parametrize("name", ["mean", "sd", "reliability", "disagreement", "cost", "tokens", "latency"])
def test_ranges_over_groups(view: View, truth: Truth, name: str) -> None:
    """A range over groups includes its low end, not its high one, and no group without a value."""
    values = sorted({v for i in range(60) if (v := truth.value(i, name)) is not None})
    low, high = values[len(values) // 3], values[2 * len(values) // 3]
    view.open(f"#groups?{name}={low!r}..{high!r}")
    assert view.count == len(truth.matching(view.hash)) > 0
    assert view.count == sum(
        v is not None and low <= v < high for v in (truth.value(i, name) for i in range(60))
    )


def test_add_a_range(view: View, truth: Truth) -> None:
    """A range can be typed; text that is no number is refused in words."""
    view.open("#groups")
    view.find(".add summary").click()
    view.find(".add select").select_option("score")
    view.find(".add [name=low]").fill("high")
    view.find(".add button").click()
    view.find(".add [role=alert]").filter(has_text="Give a number").wait_for()
    view.find(".add [name=low]").fill("0.9")
    view.find(".add button").click()
    view.at("#groups?score=0.9..")
    assert view.count == len(truth.matching(view.hash)) > 0


def test_unknown_conditions(view: View) -> None:
    """A condition that the table does not know is left out and reported, and the others hold."""
    view.open("#groups?where=live&mean=much&colour=red")
    view.find(".warn").filter(has_text="mean=much, colour=red").wait_for()
    assert view.count == 50


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("TASK-17", {"task-17"}),
        ("of 23.1:", {"task-23"}),
        ("503", {"task-5", "task-35"}),
        ("task 41:", {"task-41"}),
        ("no such words anywhere", set()),
    ],
    ids=["key", "explanation", "reason", "task", "nothing"],
)
def test_search(view: View, words: str, keys: set[str]) -> None:
    """A search looks in keys, tasks, reasons and explanations, and states the number of groups."""
    view.open("#groups")
    view.page.keyboard.press("/")
    view.page.keyboard.type(words)
    view.until(
        "n => document.querySelector('p[role=status]').textContent === `${n} of 60 groups match`", len(keys)
    )
    assert set(view.keys) == keys
    if not keys:
        assert "No group fulfils all of these conditions" in view.text
    view.page.keyboard.press("Escape")
    view.at("#groups")
    assert view.count == 60
    assert 'role="grid"' in view.focus


def test_virtual_rows(show: Show, many: Path) -> None:
    """Of 2,000 groups few rows are in the document, and scrolling to the end shows the last."""
    view = show(many, "#groups?sort=ordinal")
    rows = view.find(".body [role=row]")
    assert view.find(".grid").get_attribute("aria-rowcount") == "2001"
    assert rows.count() < 80
    assert view.keys[0] == "group-0"
    view.page.evaluate("const g = document.querySelector('.grid'); g.scrollTop = g.scrollHeight")
    view.find("[aria-rowindex='2001']").wait_for()
    assert view.keys[-1] == "group-1999"
    assert rows.count() < 80
    box, last = view.find(".grid").bounding_box(), rows.last.bounding_box()
    assert box is not None
    assert last is not None
    assert last["y"] + last["height"] <= box["y"] + box["height"] + 1


def test_scrolling(show: Show, many: Path) -> None:
    """At any scroll position of the grid the visible rows are those of that position, without a gap."""
    view = show(many, "#groups?sort=ordinal")
    for top in (34 * 100, 34 * 1_000 + 17, 34 * 500, 0):
        view.page.evaluate("top => { document.querySelector('.grid').scrollTop = top }", top)
        first = top // 34
        view.find(f"[data-position='{first}']").wait_for()
        seen = view.find(".body [role=row]").evaluate_all(
            """rows => { const box = document.querySelector('.grid').getBoundingClientRect();
              return rows.filter(r => r.getBoundingClientRect().bottom > box.top + 35
                && r.getBoundingClientRect().top < box.bottom).map(r => Number(r.dataset.position)); }"""
        )
        assert seen == list(range(seen[0], seen[0] + len(seen)))
        assert first <= seen[0] <= first + 1
        assert len(seen) >= 15


def test_keyboard_walk(show: Show, many: Path) -> None:
    """Arrows, pages, Home and End lead through the rows, the active one is announced, Enter opens it."""
    view = show(many, "#groups?sort=ordinal")
    grid, keys = view.find(".grid"), view.page.keyboard
    grid.focus()

    def active(position: int) -> None:
        view.find(f".grid[aria-activedescendant=row-{position}] #row-{position}.active").wait_for()

    for pressed, position in (
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("Home", 0),
        ("ArrowUp", 0),
    ):
        keys.press(pressed)
        active(position)
    keys.press("End")
    active(1_999)
    keys.press("ArrowDown")
    active(1_999)
    assert view.find("#row-1999").is_visible()
    keys.press("PageUp")
    view.until("() => !document.querySelector('#row-1999.active')")
    keys.press("Home")
    keys.press("PageDown")
    view.until("() => !document.querySelector('#row-0.active')")
    row = view.find(".row.active")
    position = int(str(row.get_attribute("data-position")))
    assert 5 < position < 40
    keys.press("Enter")
    view.at(f"#group=group-{position}").find(".group-page").wait_for()


def test_head_by_keyboard(view: View) -> None:
    """The heads are one stop of the tab key; arrows lead along them, Enter sorts, down leads to the rows."""
    view.open("#groups")
    keys = view.page.keyboard
    view.find(".grid").focus()
    keys.press("Tab")
    assert "why telling" in str(view.page.evaluate("document.activeElement.textContent"))
    keys.press("ArrowRight")
    assert view.page.evaluate("document.activeElement.textContent") == "rollouts"
    keys.press("Enter")
    view.at("#groups?sort=-rollouts")
    assert str(view.page.evaluate("document.activeElement.textContent")).startswith("rollouts")
    keys.press("ArrowDown")
    assert 'role="grid"' in view.focus


def test_back(show: Show, many: Path) -> None:
    """From a group, the browser's back, Escape and the link restore filters, order and scroll position."""
    view = show(many, "#groups?where=live&sort=-ordinal")
    top = "document.querySelector('.grid')?.scrollTop"
    for how in ("back", "Escape", "link"):
        view.page.evaluate(f"document.querySelector('.grid').scrollTop = {34 * 700}")
        row = view.find("[data-position='705']")
        row.wait_for()
        row.locator(".cell.task").click()
        view.at("#group=group-1294").find(".group-page").wait_for()
        if how == "back":
            view.page.go_back()
        elif how == "Escape":
            view.page.keyboard.press("Escape")
        else:
            view.find(".group-bar a").click()
        view.at("#groups?where=live&sort=-ordinal").find(".grid").wait_for()
        view.until(f"{top} === {34 * 700}")
        assert view.count == 2_000
        view.find("[data-position='705'].active").wait_for()
        assert 'role="grid"' in view.focus


def test_reload(show: Show, many: Path) -> None:
    """A reload restores the filters and the scroll position."""
    view = show(many, "#groups?sort=ordinal")
    view.page.evaluate(f"document.querySelector('.grid').scrollTop = {34 * 300}")
    view.until(f"history.state?.top === {34 * 300}")
    view.page.reload()
    view.ready().find("[data-position='305']").wait_for()
    assert view.page.evaluate("document.querySelector('.grid').scrollTop") == 34 * 300


@pytest.mark.smoke
def test_cells(show: Show, run: Path, truth: Truth) -> None:
    """Each row shows its group's figures, rounded."""
    view = show(run, "#groups?sort=ordinal", height=TALL)
    cells = "rows => rows.map(row => [...row.children].map(cell => cell.textContent.trim()))"
    rows = view.find(".body [role=row]").evaluate_all(cells)
    assert len(rows) == 60
    for i, (row, group) in enumerate(zip(rows, truth.groups, strict=True)):
        key, _, status, _, count, scores, mean, sd = row[:8]
        assert (key, int(count)) == (group.key, len(group.rollouts))
        assert status == (
            f"failed: {group.kind}" if group.failed else "scored, tied" if group.tied else "scored"
        )
        assert (
            mean == (f"{group.mean:.2f}" if group.mean is not None else "–")
            or abs(float(mean) - (group.mean or 0)) < 0.0051
        )
        assert sd == "–" if group.sd is None else abs(float(sd) - group.sd) < 0.00051
        result = [] if scores == "–" else [float(score) for score in scores.split()]
        assert result == pytest.approx(sorted(group.scores, reverse=True), abs=0.0051)
        assert row[11] == f"{truth.value(i, 'tokens'):,.0f}"
        assert row[12] == ", ".join(group.flags)
