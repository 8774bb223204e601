"""The room of the table: the task has most of it, and no dot is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Show
from tests.browser.reports import plain, report_of, write


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


@pytest.mark.parametrize(
    ("judge", "words"),
    [("offline", "scores differ"), ("openai/x", "usable for GRPO")],
)
def test_embedded_judges_train_nobody(
    show: Show, tmp_path: Path, judge: str, words: str
) -> None:
    """Scores of a judge without a model are not headed as usable for training."""
    records = [plain(f"g{i}", 0.2, 0.8) for i in range(3)]
    for record in records:
        record["ruler"]["judge"] = judge
    view = show(report_of(write(tmp_path / "s.jsonl", records), tmp_path))
    assert (
        view.find(".tile")
        .filter(has_text="live")
        .inner_text()
        .endswith(f"100%, {words}")
    )
