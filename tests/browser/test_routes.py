"""Addresses: the view of one window opens from its address in another."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import Show


def test_controls_are_in_the_address(show: Show, run: Path) -> None:
    """Filters, order and search stand in the address, and open again from it."""
    first = show(run, "#groups")
    first.find(".chip").filter(has_text="live").click()
    first.find(".head").get_by_role("button", name="mean", exact=True).click()
    first.page.keyboard.press("/")
    first.page.keyboard.type("task-1")
    first.at("#groups?where=live&search=task-1&sort=-mean")
    first.until(
        "document.querySelector('p[role=status]').textContent.endsWith('groups')"
    )
    again = show(run, first.hash)
    again.until(
        "n => document.querySelector('p[role=status]').textContent.startsWith(`${n} of `)",
        first.count,
    )
    assert again.keys == first.keys
    assert 0 < first.count < 50
    assert again.find("#search").input_value() == "task-1"
    again.find("#search").press("Escape")
    again.at("#groups?where=live&sort=-mean")
