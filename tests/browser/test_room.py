"""The room of the table: the task has most of it, and no dot is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Show
from tests.browser.reports import plain, report_of, write

STACKS = [
    *([0.5] * n for n in (1, 2, 3, 4, 6, 12, 40)),
    *([0.0, *[1.0] * n] for n in (3, 5)),
    [i / 100 for i in range(50)],
]


@pytest.fixture(scope="session")
def stacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of groups with stacks of dots of all heights, with and without rewards."""
    folder = tmp_path_factory.mktemp("stacks")
    records = []
    for i, scores in enumerate(STACKS):
        for way in range(3):
            record = plain(f"a-long-key-of-a-group-{i}-{way}", *scores)
            for at, one in enumerate(record["trajectories"]):
                one["ruler"]["independent_reward"] = [None, 1.0, float(at > 0)][way]
            records.append(record)
    return report_of(write(folder / "s.jsonl", records), folder)


@pytest.mark.smoke
@pytest.mark.parametrize("width", [1280, 1920, 390])
def test_task_has_the_room(show: Show, run: Path, width: int) -> None:
    """The task is the widest column, and on a phone stands in each row on a line of its own."""
    view = show(run, "#groups", width=width)
    widths: dict[str, float] = view.page.evaluate(
        "Object.fromEntries([...document.querySelector('.body .row.is-scored').children]"
        ".map(cell => [cell.className.replace('cell ', ''), cell.getBoundingClientRect().width]))"
    )
    assert max(widths, key=lambda name: widths[name]) == "task", widths
    assert widths["task"] > 240
    first = view.find(".body .row .cell.task").first
    assert first.is_visible()
    assert first.inner_text().startswith("Task ")


@pytest.mark.parametrize("width", [1280, 390])
def test_dots_are_whole(show: Show, stacked: Path, width: int) -> None:
    """Every dot is inside its row, however many have one score, and all rows have one height."""
    view = show(stacked, "#groups?sort=ordinal", width=width, height=4_000)
    cut, rows = view.page.evaluate(
        """() => {
          const rows = [...document.querySelectorAll('.body .row')];
          const cut = rows.flatMap(row => [...row.querySelectorAll('circle')].filter(dot => {
            const [a, b] = [row, dot].map(one => one.getBoundingClientRect());
            return b.top < a.top || b.bottom > a.bottom;
          }).map(() => row.textContent));
          return [cut, rows.map(row => row.offsetHeight)];
        }"""
    )
    assert cut == []
    assert len(rows) == 3 * len(STACKS)
    assert len(set(rows)) == 1


def test_long_keys(show: Show, stacked: Path) -> None:
    """A long key keeps its end in sight, which tells it from others, and has the whole in its title."""
    view = show(stacked, "#groups?sort=ordinal", width=1280)
    first = view.find(".body .cell.key").first
    assert first.get_attribute("title") == "a-long-key-of-a-group-0-0"
    end = first.locator(".tail")
    box, cell = end.bounding_box(), first.bounding_box()
    assert box is not None
    assert cell is not None
    assert box["x"] + box["width"] <= cell["x"] + cell["width"]
    assert end.inner_text() == "roup-0-0"


def test_shortlists_show_tasks(show: Show, run: Path) -> None:
    """The worst and the most disputed groups of the overview have their tasks, on a phone too."""
    for width in (1280, 390):
        view = show(run, "#overview", width=width)
        for name in ("worst", "disputed"):
            tasks = view.find(f"[aria-labelledby={name}-head] li .task")
            assert tasks.count() == 5
            assert all(text.startswith("Task ") for text in tasks.all_inner_texts())


def test_no_flags_no_column(show: Show, tmp_path: Path) -> None:
    """A file without a flag has no column of them, and the keyboard still reaches the heads."""
    records = [plain(f"g{i}", 0.5, 0.6) for i in range(3)]
    view = show(report_of(write(tmp_path / "s.jsonl", records), tmp_path), "#groups")
    assert view.find(".cell.telling").count() == 0
    assert view.find(".head [tabindex='0']").count() == 1


@pytest.mark.parametrize(
    ("judge", "words"), [("offline", "scores differ"), ("openai/x", "usable for GRPO")]
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
