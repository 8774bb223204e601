"""The table of groups: order, filters, search, virtual rows, keys, and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.results.report.highlights import reasons
from ruler_cli.results.scored_groups import ScoredGroup
from tests.browser.conftest import Show
from tests.browser.reports import plain, report_of, write
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
        "rollouts": lambda i: len(groups[i].rollouts),
        "scores": lambda i: max(groups[i].scores, default=None),
        **{
            name: figure(name)
            for name in ("mean", "sd", "reliability", "disagreement", "cost", "tokens")
        },
        "telling": lambda i: truth.telling[i],
    }


COLUMNS = {
    name: name
    for name in (
        "key",
        "mean",
        "sd",
        "reliability",
        "task",
        "rollouts",
        "cost",
        "tokens",
    )
}
COLUMNS |= {
    "scores": "scores 0 to 1",
    "telling": "flags",
    "disagreement": "against rewards",
}


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
            assert view.keys == truth.ordered(key, down=now == "descending"), (
                column,
                now,
            )
            ways.add(now)
        assert ways == {"ascending", "descending"}, column
        assert view.find(".head [aria-sort]:not([aria-sort=none])").count() == 1


def test_order_of_flags(show: Show, run: Path) -> None:
    """The head of the flags names their order, which is no order of the words, and has no arrow."""
    view = show(run, "#groups", height=TALL)
    for words in ("flags, most telling first", "flags, least telling first"):
        assert view.find(".head .cell.telling").inner_text() == words
        head(view, "flags").click()


def chip(view: View, name: str) -> Any:
    """The button that filters by a word."""
    return view.find(".chip").filter(has_text=name).first


def test_chips_filter(view: View, truth: Truth) -> None:
    """Each chip states how many groups it leaves, leaves those, and is removed by a second press."""
    view.open("#groups")
    chips = view.find(".chip")
    assert chips.count() == 7 + 3 + 2
    for i in range(chips.count()):
        one = chips.nth(i)
        one.click()
        view.find(".chip[aria-pressed=true]").wait_for()
        matching = truth.matching(view.hash)
        assert view.count == len(matching) == int(one.locator(".n").inner_text())
        assert (
            sorted(view.keys)
            == sorted(truth.groups[i].key for i in matching)[: len(view.keys)]
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
    matching = truth.matching(
        "#groups?where=live&mean=0.4..0.6&score=0.5..0.55&label=1..1"
    )
    assert view.count == len(matching) > 0
    assert sorted(view.keys) == sorted(truth.groups[i].key for i in matching)
    view.by("button", "remove: original reward 1").click()
    view.at("#groups?where=live&mean=0.4..0.6&score=0.5..0.55&sort=-mean")
    assert (
        view.count
        == len(truth.matching("#groups?where=live&mean=0.4..0.6&score=0.5..0.55"))
        > len(matching)
    )
    assert view.by("button", "remove: original reward 1").count() == 0


@pytest.mark.parametrize(
    "name", ["mean", "sd", "reliability", "disagreement", "cost", "tokens", "latency"]
)
def test_ranges_over_groups(view: View, truth: Truth, name: str) -> None:
    """A range over groups includes both of its ends, as for `select`, and no group without a value."""
    values = sorted({v for i in range(60) if (v := truth.value(i, name)) is not None})
    low, high = values[len(values) // 3], values[2 * len(values) // 3]
    view.open(f"#groups?{name}={low!r}..{high!r}")
    assert view.count == len(truth.matching(view.hash)) > 0
    assert view.count == sum(
        v is not None and low <= v <= high
        for v in (truth.value(i, name) for i in range(60))
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
        "n => document.querySelector('p[role=status]').textContent === `${n} of 60 groups match`",
        len(keys),
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
    view.page.evaluate(
        "const g = document.querySelector('.grid'); g.scrollTop = g.scrollHeight"
    )
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
        view.page.evaluate(
            "top => { document.querySelector('.grid').scrollTop = top }", top
        )
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
        view.find(
            f".grid[aria-activedescendant=row-{position}] #row-{position}.active"
        ).wait_for()

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
    assert "flags" in str(view.page.evaluate("document.activeElement.textContent"))
    keys.press("ArrowRight")
    assert view.page.evaluate("document.activeElement.textContent") == "sd"
    keys.press("Enter")
    view.at("#groups?sort=-sd")
    assert str(view.page.evaluate("document.activeElement.textContent")).startswith(
        "sd"
    )
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
    """Each row shows its group's figures, rounded, its flags, and its scores as dots with a name."""
    view = show(run, "#groups?sort=ordinal", height=TALL)
    cells = "rows => rows.map(row => [...row.children].map(cell => cell.textContent.trim()))"
    rows = view.find(".body [role=row]").evaluate_all(cells)
    assert len(rows) == 60
    named = "rows => rows.map(row => row.querySelector('.strip')?.getAttribute('aria-label') ?? '')"
    names = view.find(".body [role=row]").evaluate_all(named)
    marked = "rows => rows.map(row => [...row.querySelectorAll('.mark')].map(mark => mark.textContent))"
    flags = view.find(".body [role=row]").evaluate_all(marked)
    for i, (row, name, group) in enumerate(zip(rows, names, truth.groups, strict=True)):
        key, scores, mean, _, sd, reliability, against, _, count, _, tokens = row
        assert (key, int(count)) == (group.key, len(group.rollouts))
        for shown, figure, half in ((mean, group.mean, 0.0051), (sd, group.sd, 0.0051)):
            assert shown == "–" if figure is None else abs(float(shown) - figure) < half
        assert (reliability == "–") == (group.reliability is None)
        assert against == (
            "–" if group.disagreement is None else f"{group.disagreement + 1e-9:.0%}"
        )
        assert tokens == f"{truth.value(i, 'tokens'):,.0f}"
        assert flags[i] == expected_flags(group)
        if group.failed:
            assert (scores, name) == (group.reason, "")
        else:
            result = [float(score) for score in re.findall(r"([\d.]+) \(", name)]
            assert result == pytest.approx(
                sorted(group.scores, reverse=True), abs=0.0051
            )


def expected_flags(group: ScoredGroup) -> list[str]:
    """The flags of a group in words."""
    if group.failed:
        return [f"failed: {group.kind}"]
    words = {"disagrees": "disputed", "unsure": "unreliable", "spread": "far apart"}
    flags = [flag for flag in group.flags if flag != "suspect"]
    return [*(words.get(reason, reason) for reason in reasons(group)), *flags]


def test_dots(show: Show, run: Path, truth: Truth) -> None:
    """A dot stands at its rollout's score: a high reward above the line and filled, a low one below, open."""
    view = show(run, "#groups?sort=ordinal", height=TALL)
    place = next(
        i for i, g in enumerate(truth.groups) if g.scores and len(set(g.scores)) == 4
    )
    dots = view.find(f"[data-position='{place}'] .strip circle").evaluate_all(
        """all => all.map(dot => {
          const strip = dot.closest(".strip").querySelector("line").getBoundingClientRect();
          const box = dot.getBoundingClientRect();
          const at = ((box.left + box.right) / 2 - strip.left) / strip.width;
          const above = (box.top + box.bottom) / 2 < strip.top;
          return [at, above, getComputedStyle(dot).fill === getComputedStyle(document.body).backgroundColor];
        })"""
    )
    rollouts = truth.groups[place].rollouts
    expected = sorted((r.score, r.label == 1, r.label == 0) for r in rollouts)
    assert [tuple(dot) for dot in sorted(dots)] == [
        (pytest.approx(score, abs=0.006), above, hollow)
        for score, above, hollow in expected
    ]


@pytest.mark.parametrize(
    "rewards", [[1] * 6, [0, 0, 0, 1, 1, 1]], ids=["one reward", "two rewards"]
)
def test_dots_are_counted(show: Show, tmp_path: Path, rewards: list[int]) -> None:
    """Each rollout of a small group has a dot that no other covers, also if scores are near or equal."""
    records = [plain("near", *[0.5] * 5, 0.51), plain("other", 0.1, 0.9)]
    for record, labels in zip(records, (rewards, [0, 1]), strict=True):
        for trajectory, label in zip(record["trajectories"], labels, strict=True):
            trajectory["ruler"]["independent_reward"] = label
    view = show(
        report_of(write(tmp_path / "near.jsonl", records), tmp_path), "#groups?sort=key"
    )
    row = view.find(".body [role=row]").first.bounding_box()
    boxes = [
        dot.bounding_box() for dot in view.find("[data-position='0'] circle").all()
    ]
    assert row is not None
    heights = sorted(box["y"] - row["y"] for box in boxes if box is not None)
    assert len(heights) == 6
    assert min(b - a for a, b in pairwise(heights)) > 2
    assert -2 < heights[0] < heights[-1] < row["height"] - 6


@pytest.mark.parametrize("width", [1280, 390])
def test_flags_are_in_sight(show: Show, run: Path, width: int) -> None:
    """Scores and flags stand in the window, not cut: at 1,280 pixels, and on a phone."""
    view = show(run, "#groups", width=width, height=800)
    boxes = view.find(
        ".body .mark, .body .strip, .body .cell.mean:visible"
    ).evaluate_all(
        "all => all.map(e => [e.getBoundingClientRect().left, e.getBoundingClientRect().right])"
    )
    assert len(boxes) > 30
    assert all(left >= 0 and right <= width for left, right in boxes)
    grid = view.find(".grid")
    assert grid.evaluate("grid => grid.scrollWidth <= grid.clientWidth")
    cut = (
        "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
    )
    assert view.find(".body .mark").evaluate_all(cut) == []
    if width == 1280:
        assert view.find(".body .cell.telling").evaluate_all(cut) == []


def test_empty_columns(show: Show, run: Path, many: Path) -> None:
    """A column of which the file has nothing, or one number of rollouts, is left out."""
    titles = (
        "all => all.map(e => e.textContent.replace(/ [▲▼]$|, most telling first$/, ''))"
    )
    every = [
        "key",
        "scores 0 to 1",
        "mean",
        "flags",
        "sd",
        "reliability",
        "against rewards",
        "task",
        "rollouts",
    ]
    assert show(run, "#groups").find(".head button").evaluate_all(titles) == [
        *every,
        "cost",
        "tokens",
    ]
    few = [
        title
        for title in every
        if title not in ("reliability", "against rewards", "rollouts")
    ]
    assert show(many, "#groups").find(".head button").evaluate_all(titles) == few
