"""The page on which a person compares rollouts: answers by key and by finger, kept, downloaded and opened again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from ruler_cli.results.labels import PairLabel, parse_line
from tests.browser.attacks import RESTING, RUNNING
from tests.browser.axe import assert_accessible
from tests.browser.conftest import Show
from tests.browser.reports import plain, ruler, write
from tests.browser.view import Theme, View

PAIRS = 8


def label_of(scored: Path, pairs: int = 500) -> Path:
    """The page of comparisons of a scored file."""
    made = scored.with_name("label.html")
    args = ("label", scored, "--pairs", str(pairs), "-o", made)
    ruler(*args, folder=scored.parent)
    return made


@pytest.fixture(scope="session")
def page(scored: Path) -> Path:
    """A page of eight comparisons of rollouts with several turns."""
    return label_of(scored, PAIRS)


def begin(view: View, name: str = "Ana") -> View:
    """Give a name, and wait for the first comparison."""
    view.find("input[name=name]").fill(name)
    view.by("button", "Start").click()
    return settled(view)


def settled(view: View) -> View:
    """Wait until both texts are in the document."""
    view.find(".l-side .g-turn").first.wait_for()
    return view


def place(view: View) -> int:
    """The number of the comparison in sight."""
    match = re.search(r"Comparison (\d+)", view.find("#view-head").inner_text())
    assert match
    return int(match[1])


def press(view: View, *keys: str) -> None:
    """Press keys, one after another."""
    for key in keys:
        view.page.keyboard.press(key)


def downloaded(view: View) -> list[dict[str, Any]]:
    """The lines of the downloaded file."""
    if view.find(".l-bar").count():
        press(view, "s")
    with view.page.expect_download() as download:
        view.by("button", "Download labels.jsonl").click()
    assert download.value.suggested_filename == "labels.jsonl"
    lines = Path(download.value.path()).read_text().splitlines()
    return [json.loads(line) for line in lines]


def comparisons(path: Path) -> list[dict[str, Any]]:
    """The comparisons as the page holds them."""
    from tests.results.report.written import Page, unpacked

    data = unpacked(Page(path.read_text()).blocks["data"])
    return list(data["comparisons"])


@pytest.mark.smoke
def test_by_key(show: Show, page: Path) -> None:
    """Keys answer, walk and note; what is downloaded is what `ruler_cli.results.labels` reads, line by line."""
    view = begin(show(page))
    assert place(view) == 1
    press(view, "1")
    assert place(view) == 2
    press(view, "n")
    view.page.keyboard.type("2 is 1 too long")
    press(view, "Escape", "ArrowRight", "j", "0", "k", "k", "?", "s", "s")
    assert place(view) == 4 + 1
    lines = downloaded(view)
    held = comparisons(page)
    assert [line["choice"] for line in lines] == [
        "left",
        "right",
        "unsure",
        "equal",
    ]
    for line, pair in zip(lines, held, strict=False):
        read = parse_line(json.dumps(line).encode())
        assert isinstance(read, PairLabel)
        assert {name: line[name] for name in pair} == pair
        assert (read.by, read.drawn, read.chance) == (
            "ana",
            pair["drawn"],
            pair["chance"],
        )
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", read.at)
        assert line["seconds"] >= 0
    assert [line["note"] for line in lines] == ["", "2 is 1 too long", "", ""]


def test_held_key(show: Show, page: Path) -> None:
    """A key that is held down is one answer, and keys with a modifier or in the note are none."""
    view = begin(show(page))
    view.page.keyboard.down("1")
    view.page.keyboard.down("1")
    view.page.keyboard.up("1")
    press(view, "Control+2", "Alt+ArrowRight")
    view.find("#note").fill("12?")
    assert place(view) == 2
    assert view.find("progress").get_attribute("value") == "1"


@pytest.mark.smoke
def test_by_finger(browser: Browser, page: Path) -> None:
    """On a phone one rollout is in sight at a time, a tap shows the other, and a tap answers."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    view = View(context.new_page(), page.as_uri()).open()
    view.find("input[name=name]").fill("Ana")
    view.by("button", "Start").tap()
    settled(view)
    for name, hidden in (("left", "right"), ("right", "left")):
        view.find(".l-tabs button").filter(has_text=name.title()).tap()
        assert view.find(f"#side-{name}").is_visible()
        assert not view.find(f"#side-{hidden}").is_visible()
    wide = "document.documentElement.scrollWidth - innerWidth"
    assert view.page.evaluate(wide) <= 0
    for button in view.find(".l-bar button").all():
        box = button.bounding_box()
        assert box
        assert box["height"] >= 44
        assert box["y"] + box["height"] <= 844
    view.find("[data-choice=left]").tap()
    assert place(view) == 2
    assert settled(view).find("#side-left").is_visible()
    view.find("[data-choice=equal]").tap()
    assert [line["choice"] for line in downloaded(view)] == ["left", "equal"]
    assert view.page.evaluate(wide) <= 0
    view.clean()
    context.close()


def test_reload(show: Show, page: Path) -> None:
    """Answers, notes, the name and the comparison in sight survive a reload; another draw begins anew."""
    view = begin(show(page))
    press(view, "1", "2", "n")
    view.page.keyboard.type("half a tho")
    view.page.reload()
    settled(view.ready())
    assert place(view) == 3
    assert view.find("#note").input_value() == "half a tho"
    assert [line["choice"] for line in downloaded(view)] == ["left", "right"]
    key = view.page.evaluate("Object.keys(localStorage)[0]")
    assert re.fullmatch("ruler-label-[0-9a-f]{16}", key)


@pytest.mark.parametrize(
    "kept",
    [
        "{",
        '{"own": [[0, {"choice": "both"}], [99, {"choice": "left"}], 5, null], "at": -1, "name": 7}',
        '{"own": {"0": 1}, "at": "__proto__"}',
    ],
)
def test_damaged_storage(show: Show, page: Path, kept: str) -> None:
    """Whatever stands in the browser's storage, the page opens and takes answers."""
    view = show(page)
    view.page.evaluate(
        "async kept => localStorage.setItem(`ruler-label-${(await decode('data')).draw}`, kept)",
        kept,
    )
    view.page.reload()
    begin(view.ready())
    press(view, "1")
    assert [line["choice"] for line in downloaded(view)] == ["left"]


def test_no_storage(show: Show, page: Path) -> None:
    """A page of which the browser keeps nothing says so, and its answers can be downloaded."""
    view = show(page)
    view.page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused') } })"
    )
    view.page.reload()
    begin(view.ready())
    assert "This browser keeps nothing" in view.text
    press(view, "2")
    assert [line["choice"] for line in downloaded(view)] == ["right"]


def test_opened_file(show: Show, page: Path, tmp_path: Path) -> None:
    """Of own lines the later counts, whichever rollout stood left; other lines are left."""
    first, second, third, *_ = comparisons(page)
    view = begin(show(page))
    press(view, "1", "1", "s")
    turned = {"left": second["right"], "right": second["left"]}
    lines: list[Any] = [
        first | {"choice": "right", "by": "Ana", "at": "2020-01-01T00:00:00Z"},
        second
        | turned
        | {"choice": "left", "by": "Ana", "at": "2999-01-01T00:00:00Z"},
        third | {"choice": "equal", "by": "Ana", "note": "n", "at": ""},
        third | {"choice": "left", "by": "Boris", "at": ""},
        {"group": "x", "rollout": "y", "mark": "good", "by": "Ana"},
        [1],
    ]
    path = write(tmp_path / "labels.jsonl", lines)
    path.write_bytes(path.read_bytes() + b"no JSON")
    view.find("input[type=file]").set_input_files(str(path))
    view.find(".l-said").filter(has_text="of yours").wait_for()
    words = view.find(".l-said").inner_text()
    assert words == "3 answers of yours, 4 lines about something else"
    done = downloaded(view)
    assert [line["choice"] for line in done] == ["left", "right", "equal"]
    assert done[1]["left"] == second["left"]
    view.page.reload()
    view.ready()
    assert done == downloaded(view)


def test_two_windows(show: Show, page: Path) -> None:
    """A window keeps the answers that another one has stored meanwhile."""
    view = begin(show(page))
    press(view, "j")
    # a window hears nothing of what it keeps itself
    view.page.evaluate(_KEPT_ELSEWHERE)
    press(view, "0")
    view.page.reload()
    press(settled(view.ready()), "s")
    assert [line["choice"] for line in downloaded(view)] == ["left", "equal"]


_KEPT_ELSEWHERE = """() => {
  const [slot] = Object.keys(localStorage).filter((key) => key.startsWith("ruler-label-"));
  const kept = JSON.parse(localStorage[slot]);
  kept.own.push([0, { choice: "left", note: "", at: "2026-11-21T14:00:05.120Z", seconds: 3 }]);
  localStorage[slot] = JSON.stringify(kept);
}"""


def test_shared_turns(show: Show, tmp_path: Path) -> None:
    """Turns that both rollouts share stand once, the task in sight; what is long is folded, until a key opens it."""
    record = plain("g", 0.2, 0.8)
    for rollout in record["trajectories"]:
        user, agent = rollout["messages"]
        rollout["messages"] = [
            {"role": "system", "content": "Be kind. " * 400},
            user,
            {"role": "assistant", "content": "Let me look. " * 200},
            agent,
        ]
        rollout["tools"] = [{"type": "function", "function": {"name": "look"}}]
    scored = write(tmp_path / "s.jsonl", [record])
    view = begin(show(label_of(scored)))
    assert (
        view.find("section[aria-label=Task]").inner_text().count("Book a seat.")
        == 1
    )
    folds = {
        fold.locator("h3").inner_text(): fold.get_attribute("open")
        for fold in view.find("details").all()
    }
    assert folds == {
        "Tools": "",
        "Before the task": None,
        "Both begin alike": None,
    }
    sides = [side.inner_text() for side in view.find(".l-side").all()]
    assert sorted(re.findall(r"answer \d", " ".join(sides))) == [
        "answer 0",
        "answer 1",
    ]
    assert "Let me look" not in " ".join(sides)
    press(view, "o")
    assert not view.find(".g-brief").count()


def test_hostile(show: Show, tmp_path: Path) -> None:
    """No text of a rollout, a key, a name, a note or a file of labels runs or becomes an element."""
    attacks = [*RUNNING, *RESTING[:-1]]
    records = [plain(text, 0.2, 0.8) for text in attacks]
    for record, text in zip(records, attacks, strict=True):
        for i, rollout in enumerate(record["trajectories"]):
            rollout["messages"][0]["content"] = text
            rollout["messages"].append(
                {"role": text or "user", "content": f"{text}{i}"}
            )
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in records))
    report = label_of(path)
    view = begin(show(report), RUNNING[0][:100])
    seen = 0
    while view.find(".l-bar").count():
        settled(view)
        view.find("#note").fill(RUNNING[seen % len(RUNNING)])
        page_is_harmless(view)
        seen += 1
        view.find("[data-choice=left]").click()
    assert seen == len(attacks)
    assert len(downloaded(view)) == len(attacks)


_FOREIGN = """() => ({
  hit: window.__hit ?? null,
  polluted: ({}).__hit ?? null,
  inside: document.querySelectorAll("#app :is(script, style, meta, iframe, object, embed, link, base, img, a)").length,
  handlers: [...document.querySelectorAll("*")].flatMap(e => [...e.attributes]).filter(a => /^on/.test(a.name)).length,
})"""


def page_is_harmless(view: View) -> None:
    """No text became an element or an attribute, and none ran."""
    result = view.page.evaluate(_FOREIGN)
    assert result == {"hit": None, "polluted": None, "inside": 0, "handlers": 0}


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_accessible(show: Show, page: Path, theme: Theme, width: int) -> None:
    """The start, a comparison and the summary are accessible, in either theme, on a desk or a phone."""
    view = show(page, theme=theme, width=width)
    assert_accessible(view)
    begin(view)
    assert_accessible(view)
    press(view, "1", "s")
    assert_accessible(view)
