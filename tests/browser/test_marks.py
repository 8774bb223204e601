"""Marks and notes: set on a group's page, kept, saved as a file that the commands read, opened, filtered by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from playwright.sync_api import Browser

from tests.browser.attacks import RUNNING
from tests.browser.conftest import Show
from tests.browser.reports import plain, report_of, ruler, write
from tests.browser.test_hostile import harmless
from tests.browser.view import View, shown


def press(view: View, *keys: str) -> None:
    """Press keys, one after another."""
    for key in keys:
        view.page.keyboard.press(key)


def files_of(view: View) -> None:
    """Unfold what saves and opens files."""
    view.go("#groups")
    if not view.find("#marks[open]").count():
        view.find("#marks summary").click()


def saved(view: View, folder: Path) -> Path:
    """The file that the page offers to save."""
    files_of(view)
    with view.page.expect_download() as download:
        view.by("button", "Save marks.jsonl").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def opened(view: View, *files: Path) -> str:
    """Open files of marks, and return what the page says of them."""
    files_of(view)
    view.find("#marks input[type=file]").set_input_files([*map(str, files)])
    message = view.find("#marks [role=note]")
    message.filter(has_text="new mark").wait_for()
    return message.inner_text()


def marks_in(path: Path) -> dict[tuple[str, ...], Any]:
    """The marks that a file holds, by group and rollout, without those that were taken back."""
    lines = map(orjson.loads, path.read_bytes().splitlines())
    marks = {(line["group"], line["rollout"]): line for line in lines}
    return {
        about: mark
        for about, mark in marks.items()
        if mark["mark"] or mark["note"]
    }


def ids(view: View, key: str) -> list[str]:
    """The ids of the rollouts of a group."""
    listed: list[str] = view.page.evaluate(
        "key => opened.rows.ids[opened.rows.key.indexOf(key)]", key
    )
    return listed


@pytest.mark.smoke
def test_marks_are_saved(show: Show, run: Path, tmp_path: Path) -> None:
    """Marks and notes set by key and by finger are lines that can be read again, and filters of the table."""
    view = show(run, "#group=task-2").settled()
    best, second, third = (
        int(name.split()[0][1:]) - 1
        for name in view.find("nav.chips a").all_inner_texts()[:3]
    )
    press(view, "r", "g", "n")
    view.page.keyboard.type("does it, r and j")
    press(view, "Escape", "ArrowRight", "b", "b")
    view.by("button", f"bad: rollout {third + 1}").click()
    press(view, "j")
    view.until("!location.hash.startsWith('#group=task-2')")
    press(view, "ArrowRight")
    files_of(view)
    view.page.get_by_label("Your name").fill("ana")
    press(view, "Tab")
    path = saved(view, tmp_path)
    listed = ids(view, "task-2")
    marks = marks_in(path)
    assert {mark["by"] for mark in marks.values()} == {"ana"}
    assert {about: (m["mark"], m["note"]) for about, m in marks.items()} == {
        ("task-2", ""): ("reviewed", ""),
        ("task-2", listed[best]): ("good", "does it, r and j"),
        ("task-2", listed[third]): ("bad", ""),
    }
    assert listed[second] in path.read_text()  # taken back
    for word in ("reviewed", "good", "bad", "noted"):
        view.go(f"#groups?where={word}")
        assert view.keys == ["task-2"]
    assert "reviewed" in view.find(".mark.own").inner_text()
    view.go("#groups?where=unreviewed")
    assert view.count == 59
    view.go("#group=task-2").settled()
    pressed = view.find(".group-page .m-marks [aria-pressed=true]")
    assert pressed.all_inner_texts() == ["reviewed", "good", "bad"]


def test_new_report_shows_the_same_marks(
    browser: Browser, run: Path, scored: Path, tmp_path: Path
) -> None:
    """A report of the same rollouts by another judge, in another order, shows the marks; one of others does not."""
    rescored = tmp_path / "again.jsonl"
    ruler(
        *("score", scored, rescored, "-m", "simulated", "-p", "seed=9"),
        folder=tmp_path,
    )
    again = [orjson.loads(line) for line in rescored.read_bytes().splitlines()]
    for record in again:
        record["trajectories"].reverse()
    report = report_of(write(rescored, again[::-1]), tmp_path)
    strange = write(tmp_path / "b.jsonl", [plain("task-2", 0.1, 0.9)])
    with shown(browser, run) as view:
        view.open("#groups")
        marked = ids(view, "task-2")[1]
        view.go(f"#group=task-2&id={marked}").settled()
        press(view, "r", "b")
        view.address = report.as_uri()
        view.open(f"#group=task-2&id={marked}").settled()
        pressed = view.find(".m-marks [aria-pressed=true]").all_inner_texts()
        assert pressed == ["reviewed", "bad"]
        assert view.find(".g-chosen h4").inner_text().startswith("#3")
        view.go("#groups?where=reviewed")
        assert view.keys == ["task-2"]
        view.address = report_of(strange, tmp_path).as_uri()
        view.open("#groups")
        assert not view.find(".mark.own").count()
        assert view.messages == []


def test_files_are_merged(show: Show, run: Path, tmp_path: Path) -> None:
    """Of a person's lines the latest counts, others stand with their names, and what is no mark is counted."""
    view = show(run, "#groups")
    first, second = ids(view, "task-2")[:2]
    line = {"group": "task-2", "rollout": first, "at": "2030-01-01T00:00:00Z"}
    lines: list[dict[str, Any]] = [
        line | {"mark": "good", "by": "bo"},
        line | {"mark": "bad", "note": RUNNING[1], "by": "bo"},
        line | {"mark": "good", "by": "bo", "at": "2001-01-01T00:00:00Z"},
        line | {"rollout": second, "mark": "good", "label": 0.25, "by": ""},
        line | {"group": "__proto__", "rollout": "", "mark": "constructor"},
        {"group": "task-2", "left": "a", "right": "b", "choice": "left"},
        {"group": 7},
        line | {"note": "x" * 5_000},
    ]
    path = write(tmp_path / "bo.jsonl", lines)
    with path.open("ab") as file:
        file.write(b"nonsense\n" + b"[" * 100_000 + b"\n\x00\xff\n")
    words = opened(view, path)
    assert words == "3 new marks; 6 lines with no mark"
    view.go(f"#group=task-2&id={first}").settled()
    others = view.find("[data-rollout='1'] .m-note").all_inner_texts()
    assert others == [f"bo: bad, {RUNNING[1]}"]
    harmless(view)
    # a note leaves the label of an opened line, and another mark takes it away
    view.go(f"#group=task-2&id={second}").settled()
    press(view, "n")
    view.page.keyboard.type("half")
    marks = marks_in(saved(view, tmp_path))
    assert marks["task-2", second]["label"] == 0.25
    view.go(f"#group=task-2&id={second}").settled()
    press(view, "b")
    marks = marks_in(saved(view, tmp_path))
    mark = marks["task-2", second]
    assert (mark["mark"], mark["note"]) == ("bad", "half")
    assert mark.get("label") is None
    assert marks["task-2", first]["by"] == "bo"


@pytest.mark.parametrize(
    "script",
    [
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no'); } })",
        "Storage.prototype.setItem = () => { throw new DOMException('full'); }",
        "Storage.prototype.getItem = () => '{}\\n[]\\nno'; Storage.prototype.setItem = () => { throw 0; }",
    ],
)
def test_storage(
    browser: Browser, run: Path, tmp_path: Path, script: str
) -> None:
    """If the browser keeps nothing, or no more, marks last as long as the page, which says so, and can be saved."""
    with shown(browser, run) as view:
        view.page.add_init_script(script)
        view.open("#group=task-2").settled()
        press(view, "r")
        assert "does not keep your marks" in view.find(".g-head").inner_text()
        view.go("#group=task-3").go("#group=task-2")
        pressed = view.find(".g-head [aria-pressed=true]")
        assert pressed.inner_text() == "reviewed"
        assert marks_in(saved(view, tmp_path))
        assert view.messages == []


def test_links(show: Show, tmp_path: Path) -> None:
    """A link to a rollout finds it by its id, also among groups of one key; an unknown id is told."""
    records = [plain("twice", 0.2, 0.8), plain("once", 0.2, 0.8, 0.5)]
    records.append(plain("twice", 0.2, 0.8))
    for trajectory in records[2]["trajectories"]:
        trajectory["messages"][1]["content"] += " of the second"
    view = show(report_of(write(tmp_path / "twice.jsonl", records), tmp_path))
    all_ids = view.page.evaluate("opened.rows.ids")
    view.go(f"#group=twice&id={all_ids[2][1]}").settled()
    chosen = view.find(".g-chosen h4")
    assert chosen.inner_text().startswith("#2")
    assert "answer 1 of the second" in view.text
    press(view, "ArrowRight")
    view.at(f"#group=twice&nth=2&id={all_ids[2][0]}")
    assert chosen.inner_text().startswith("#1")
    for id_ in ("0" * 12, "%3Cscript%3E", "__proto__"):
        view.go(f"#group=once&id={id_}").settled()
        assert "is not in this report" in view.find(".g-notice").inner_text()
    press(view, "c")
    view.find(".g-head [role=status]").filter(has_text="cop").wait_for()
