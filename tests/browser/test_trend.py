"""The page of a trend: what drifts, a chart of each quantity, the table of the steps."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.browser.attacks import RESTING, RUNNING
from tests.browser.axe import assert_accessible
from tests.browser.conftest import Show
from tests.browser.reports import ruler, write
from tests.browser.test_hostile import harmless
from tests.browser.view import View
from tests.cli.scored import scored

STEPS = 16
ATTACKS = [text for text in (*RUNNING, *RESTING) if "/" not in text]
"""Texts that may be the name of a file."""


def training(
    folder: Path, name: str = "step-{}", text: str = "{}"
) -> list[Path]:
    """Scored files of a training whose scores rise without the rewards; `text` words judges and criteria."""
    files = []
    for i in range(STEPS):
        dice = random.Random(i)
        added = 0.04 * max(0, i - 7)
        lines: list[dict[str, Any]] = []
        for g in range(8):
            labels = tuple(float(dice.random() < 0.5) for _ in range(4))
            scores = [
                round(
                    min(1.0, 0.3 + 0.3 * label + dice.gauss(0, 0.05) + added), 3
                )
                for label in labels
            ]
            line = scored(
                f"{i}-{g}", *scores, labels=labels, judge=text.format("m")
            )
            for trajectory in line["trajectories"]:
                annotation = trajectory["ruler"]
                trajectory["messages"][-1]["content"] += "x" * dice.randrange(
                    300
                )
                annotation["suspect"] = dice.random() < 0.02
                annotation["ended"] = "truncated" if dice.random() < 0.1 else ""
                annotation["criteria"] = [
                    {"name": text.format(word), "value": dice.random()}
                    for word in ("safe", "short")
                ]
                annotation["judges"] = [
                    {
                        "judge": text.format("train"),
                        "score": annotation["score"],
                    },
                    {
                        "judge": text.format("held"),
                        "score": dice.uniform(0.3, 0.6),
                    },
                ]
            lines.append(line)
        files.append(
            write(folder / f"{name.format(10 * (i + 1))}.jsonl", lines)
        )
    return files


def page_of(folder: Path, files: list[Path]) -> Path:
    """The page of a trend."""
    ruler("trend", *files, "-o", folder / "trend.html", folder=folder)
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
    done = ruler("trend", *files, "--json", folder=files[0].parent)
    return dict(json.loads(done.stdout))


@pytest.mark.smoke
def test_page(show: Show, trend: Path, measured: dict[str, Any]) -> None:
    """Drifts stand on top, each chart has a point for each step, and a mark where it is beyond chance."""
    view = show(trend, theme="dark")
    assert_accessible(view)
    drift = next(item for item in measured["drift"] if item["kind"] == "label")
    drifts = len(measured["drift"])
    assert (
        view.find("#overview-head").inner_text().startswith(f"{drifts} drift")
    )
    sentence = f"beyond chance at step {drift['step']}, since about step {drift['since']}"
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
    assert [item.removeprefix("chart-") for item in ids] == [
        "score", "gap", "order", "bytes", "length", "spread", "shares", "judges", "criteria",
    ]  # fmt: skip
    rows = view.find(".criteria tbody tr")
    assert rows.count() == STEPS
    drifting = view.find(".criteria th.warn").all_inner_texts()
    assert f"{drift['step']} !" in drifting
    assert figure.locator("svg g[stroke-dasharray] line").count() == 1
    assert "-0.00" not in view.find(".criteria").inner_text()
    view.find("#chart-gap svg a").nth(3).click()
    view.at("#step-3")
    assert rows.nth(3).evaluate("row => row.matches(':target')")


def test_hostile(show: Show, tmp_path: Path) -> None:
    """Names of files, judges and criteria that are attacks are shown as text, and nothing of them runs."""
    for attack in ATTACKS[::9]:
        folder = tmp_path / str(abs(hash(attack)))
        folder.mkdir()
        words = attack.replace("{", "{{").replace("}", "}}")
        files = training(folder, f"{words[:80]} {{}}", f"{words} {{}}")
        view: View = show(page_of(folder, files), height=2_000)
        harmless(view)
