"""Addresses: the view of one window opens from its address in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Show
from tests.browser.view import View

_SEEN = """main => {
  const around = main.querySelector(".g-steps")?.innerText ?? "";
  return main.innerText.replace(around, "").replaceAll(/\\s+/g, " ");
}"""


def seen(view: View) -> str:
    """The text of the page's main part, with the pressed and chosen controls.

    The neighbours of a group are left out: they depend on the table before it.
    """
    view.settled()
    pressed = view.find("[aria-pressed=true]").all_text_contents()
    chosen = view.find(".g-chosen").evaluate_all(
        "all => all.map(e => e.dataset.rollout ?? 'row')"
    )
    return f"{view.find('main').evaluate(_SEEN)} {pressed} {chosen} {view.page.title()}"


@pytest.mark.parametrize(
    "hash_",
    [
        "",
        "#overview",
        "#groups",
        "#groups?where=live&flag=suspect",
        "#groups?where=failed&kind=reply&sort=-key",
        "#groups?mean=0.4..0.6&score=..0.5&sort=sd",
        "#groups?search=task%201%20kettle",
        "#group=task-2",
        "#group=task-2&view=one&rollout=3",
        "#group=task-2&view=side&rollout=3&against=2",
        "#group=task-12&against=0",
        "#group=task-5",
        "#group=nobody",
    ],
)
def test_shared_link(show: Show, run: Path, hash_: str) -> None:
    """A view that was reached within one window is the same if its address is opened in a new one."""
    first = show(run, "#groups").go(hash_)
    assert seen(show(run, first.hash)) == seen(first)


@pytest.mark.smoke
def test_controls_are_in_the_address(show: Show, run: Path) -> None:
    """Filters, order and search stand in the address, and open again from it."""
    first = show(run, "#groups")
    first.find(".chip").filter(has_text="live").click()
    first.find(".head").get_by_role("button", name="mean", exact=True).click()
    first.page.keyboard.press("/")
    first.page.keyboard.type("kettle")
    first.at("#groups?where=live&search=kettle&sort=-mean")
    first.until(
        "document.querySelector('p[role=status]').textContent.endsWith('match')"
    )
    again = show(run, first.hash)
    again.until(
        "n => document.querySelector('p[role=status]').textContent.startsWith(`${n} of `)",
        first.count,
    )
    assert again.keys == first.keys
    assert 0 < first.count < 50
    assert again.find("#search").input_value() == "kettle"


def test_copy_link(view: View) -> None:
    """The button copies the address of the current view of the group."""
    view.open("#group=task-2&view=one&rollout=3")
    view.find(".g-meta summary").click()
    view.by("button", "Copy link").click()
    view.find(".g-ways [role=status]").filter(has_text="cop").wait_for()
    marked = view.find(".g-address")
    if marked.count():  # if the browser has no clipboard for a page of a file
        assert marked.inner_text() == view.address + "#group=task-2&view=one&rollout=3"


def test_back_and_forward(view: View) -> None:
    """The browser's own buttons lead through overview, table and group, and the title names each."""
    view.open()
    titles = [view.page.title()]
    view.find("nav a[href='#groups']").click()
    view.find(".grid").wait_for()
    titles.append(view.page.title())
    view.find(".body .cell.key a").first.click()
    view.find(".group-page").wait_for()
    titles.append(view.page.title())
    assert titles == ["scored.jsonl · ruler report"] * 2 + [
        "task-5 · scored.jsonl · ruler report"
    ]
    view.page.go_back()
    view.find(".grid").wait_for()
    view.page.go_back()
    view.find("#chart-scores").wait_for()
    view.page.go_forward()
    view.find(".grid").wait_for()
    assert view.hash == "#groups"


def test_scroll_position_comes_back(view: View) -> None:
    """The way back from a point far below leads to the place where it was pressed."""
    view.open()
    annotation = view.find("#chart-failures .plot svg a [aria-label]").first
    annotation.scroll_into_view_if_needed()
    before = view.page.evaluate("scrollY")
    assert before > 0
    annotation.click()
    view.find(".grid").wait_for()
    view.page.go_back()
    view.until("top => Math.abs(scrollY - top) <= 1", before)
