"""The room of the table: the task has most of it, and no dot is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Show


@pytest.mark.smoke
@pytest.mark.parametrize("width", [1024, 1280, 1920, 390])
def test_task_has_the_room(show: Show, run: Path, width: int) -> None:
    """The task is the widest column, and on a phone stands in each row on a line of its own."""
    view = show(run, "#groups", width=width)
    widths: dict[str, float] = view.page.evaluate(
        "Object.fromEntries([...document.querySelector('.body .row.is-scored').children]"
        ".map(cell => [cell.className.replace('cell ', ''), cell.getBoundingClientRect().width]))"
    )
    assert max(widths, key=lambda name: widths[name]) == "task", widths
    sideways = "document.querySelector('.grid').scrollWidth <= document.querySelector('.grid').clientWidth"
    assert view.page.evaluate(sideways)
    first = view.find(".body .row .cell.task").first
    assert first.is_visible()
    assert first.inner_text().startswith("Task ")
