"""The page of a trend: what drifts, a chart of each quantity, the table of the steps."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.attacks import RESTING, RUNNING
from tests.browser.axe import violations
from tests.browser.conftest import Show
from tests.browser.reports import ruler, write
from tests.browser.test_hostile import harmless
from tests.browser.test_looks import COLOURS
from tests.browser.view import Theme, View, shown
from tests.cli.scored import scored

STEPS = 16
ATTACKS = [one for one in (*RUNNING, *RESTING) if "/" not in one]
"""Texts that may be the name of a file."""


def training(folder: Path, name: str = "step-{}", text: str = "{}") -> list[Path]:
    """Scored files of a training whose scores rise without the rewards; `text` words judges and criteria."""
    files = []
    for i in range(STEPS):
        dice = random.Random(i)
        added = 0.04 * max(0, i - 7)
        lines: list[dict[str, Any]] = []
        for g in range(8):
            labels = tuple(float(dice.random() < 0.5) for _ in range(4))
            scores = [
                round(min(1.0, 0.3 + 0.3 * one + dice.gauss(0, 0.05) + added), 3)
                for one in labels
            ]
            line = scored(f"{i}-{g}", *scores, labels=labels, judge=text.format("m"))
            for trajectory in line["trajectories"]:
                own = trajectory["ruler"]
                trajectory["messages"][-1]["content"] += "x" * dice.randrange(300)
                own["suspect"] = dice.random() < 0.02
                own["ended"] = "truncated" if dice.random() < 0.1 else ""
                own["criteria"] = [
                    {"name": text.format(word), "value": dice.random()}
                    for word in ("safe", "short")
                ]
                own["judges"] = [
                    {"judge": text.format("train"), "score": own["score"]},
                    {"judge": text.format("held"), "score": dice.uniform(0.3, 0.6)},
                ]
            lines.append(line)
        files.append(write(folder / f"{name.format(10 * (i + 1))}.jsonl", lines))
    return files


def page_of(folder: Path, files: list[Path]) -> Path:
    """The page of a trend."""
    ruler("report", *files, "-o", folder / "trend.html", folder=folder)
    return folder / "trend.html"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The steps of a training."""
    return training(tmp_path_factory.mktemp("trend"))


@pytest.fixture(scope="session")
def trend(files: list[Path]) -> Path:
    """The page of a training."""
    return page_of(files[0].parent, files)


@pytest.fixture(scope="session")
def measured(files: list[Path]) -> dict[str, Any]:
    """The trend as JSON."""
    done = ruler("report", *files, "--json", folder=files[0].parent)
    return dict(json.loads(done.stdout))


@pytest.mark.smoke
def test_page(show: Show, trend: Path, measured: dict[str, Any]) -> None:
    """Drifts stand on top, each chart has a point for each step, and a mark where it is beyond chance."""
    view = show(trend)
    drift = next(one for one in measured["drift"] if one["kind"] == "label")
    tests = len(measured["tests"])
    drifts = len(measured["drift"])
    assert (
        view.find("#overview-head")
        .inner_text()
        .startswith(f"{drifts} of {tests} tests")
    )
    sentence = (
        f"beyond chance at step {drift['step']}, since about step {drift['since']}"
    )
    assert sentence in view.find(".findings").inner_text()
    figure = view.find("#chart-score")
    assert (
        figure.locator("figcaption")
        .inner_text()
        .endswith(f"from step {drift['step']} on.")
    )
    names = figure.locator("svg a [aria-label]").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label'))"
    )
    assert len(names) == 2 * STEPS
    first = measured["steps"][0]["score"]["mean"]
    assert names[0].startswith(f"step 10: mean score {first:.3f}".rstrip("0"))
    ids = view.find(".chart").evaluate_all("all => all.map(e => e.id)")
    assert [one.removeprefix("chart-") for one in ids] == [
        "score", "gap", "order", "length", "spread", "shares", "bytes", "judges", "criteria",
    ]  # fmt: skip
    rows = view.find(".steps tbody tr")
    assert rows.count() == STEPS
    drifting = view.find(".steps th.warn").all_inner_texts()
    assert f"{drift['step']} !" in drifting
    assert figure.locator("svg g[stroke-dasharray] line").count() == 1
    view.find("#chart-gap svg a").nth(3).click()
    view.at("#step-3")
    assert rows.nth(3).evaluate("row => row.matches(':target')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(show: Show, trend: Path, theme: Theme) -> None:
    """In both themes every text has a contrast of at least 4.5 against its background, and axe finds nothing."""
    view = show(trend, theme=theme)
    assert violations(view) == []
    result: list[tuple[str, float]] = view.page.evaluate(COLOURS)
    assert len(result) > 10
    assert [pair for pair in result if pair[1] < 4.5] == []


def test_names(show: Show, trend: Path) -> None:
    """Every button, link and region has a name, ranks go in steps, ids are unique, landmarks stand once."""
    view = show(trend)
    tree = view.find("body").aria_snapshot().splitlines()
    using = r"^\s*- '?(button|link|region|figure|group|navigation|table)\b"
    result = [line.strip() for line in tree if re.match(using, line)]
    assert len(result) > 50
    unnamed = [
        line
        for line in result
        if '"' not in line and not re.match(r"- (figure|group|table)\b", line)
    ]
    assert unnamed == []
    ranks = view.find("h1, h2, h3").evaluate_all(
        "all => all.map(heading => Number(heading.localName[1]))"
    )
    assert ranks[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(ranks)), ranks
    ids = view.find("[id]").evaluate_all("all => all.map(element => element.id)")
    assert len(ids) == len(set(ids))
    for role in ("banner", "main", "contentinfo"):
        assert view.page.get_by_role(role).count() == 1
    links = view.find("nav a").evaluate_all(
        "all => all.map(a => a.getAttribute('href'))"
    )
    assert {link.removeprefix("#") for link in links} <= set(ids)


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_width(show: Show, trend: Path, width: int) -> None:
    """The page never scrolls sideways; the table does by itself."""
    view = show(trend, width=width)
    wide = "document.documentElement.scrollWidth <= innerWidth"
    assert view.page.evaluate(wide)
    inside = "all => all.every(svg => svg.getBoundingClientRect().right <= innerWidth)"
    assert view.find(".plot svg").evaluate_all(inside)


@pytest.mark.parametrize("width", [390, 1280])
def test_long_names(show: Show, tmp_path: Path, width: int) -> None:
    """Names of judges and criteria of any length fit the page, and each is in sight or in a title."""
    for text in ("{} " + "criterion " * 30, "{}" + "x" * 300):
        folder = tmp_path / str(len(text))
        folder.mkdir()
        view = show(page_of(folder, training(folder, text=text)), width=width)
        titles = view.find(".legend [title]").evaluate_all(
            "all => all.map(e => e.title)"
        )
        assert text.format("safe") in titles
        for summary in view.find(".chart summary").all():
            summary.click()
        assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        entries = "all => all.map(one => one.getBoundingClientRect())"
        for box in view.find(".legend li").evaluate_all(entries):
            assert box["right"] <= width
            assert box["height"] < 60
        heads = view.find(".chart th").evaluate_all(entries)
        assert max(box["width"] for box in heads) < 400


def test_judged_apart(show: Show, tmp_path: Path) -> None:
    """Groups of another judge from some step on have a line of their own, and the change a sentence."""
    files = training(tmp_path)
    for path in files[8:]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines[:3]:
            line["ruler"]["judge"] = "<b>other"
        write(path, lines)
    view = show(page_of(tmp_path, files))
    assert (
        "not the same judge in 3 of 8 groups as before"
        in view.find(".findings").inner_text()
    )
    legend = view.find("#chart-ways .legend").inner_text()
    assert "<b>other" in legend
    points = view.find("#chart-ways svg a")
    assert points.count() == STEPS + STEPS // 2


def test_theme_and_print(show: Show, trend: Path) -> None:
    """The button changes the theme, and paper is light and has all of the page."""
    view = show(trend, theme="dark")
    view.by("button", "Theme: auto").click()
    view.by("button", "Theme: dark").click()
    view.by("button", "Theme: light").wait_for()
    assert view.page.evaluate("document.documentElement.dataset.theme") == "light"
    view.page.emulate_media(media="print")
    assert not view.find(".buttons").is_visible()
    assert view.find(".steps tbody tr").last.is_visible()


def test_without_scripts(browser: Browser, trend: Path) -> None:
    """A browser that runs no scripts shows what drifts as a table."""
    with shown(browser, trend, scripts=False) as view:
        view.page.goto(view.address)
        text = view.text
        view.clean()
    assert "Scripts are off" in text
    assert "score and reward\tthe mean score rose from " in text


def test_hostile(show: Show, tmp_path: Path) -> None:
    """Names of files, judges and criteria that are attacks are shown as text, and nothing of them runs."""
    for attack in ATTACKS[::9]:
        folder = tmp_path / str(abs(hash(attack)))
        folder.mkdir()
        words = attack.replace("{", "{{").replace("}", "}}")
        files = training(folder, f"{words[:80]} {{}}", f"{words} {{}}")
        view: View = show(page_of(folder, files), height=2_000)
        harmless(view)
        for summary in view.find(".chart summary").all():
            summary.click()
        harmless(view)
