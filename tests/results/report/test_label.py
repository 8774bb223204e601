"""The page on which people compare rollouts: its contents, and nothing that would tell them a score."""

from __future__ import annotations

import json
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.results.draw import PairDraw
from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.report import label as label_module
from ruler_cli.results.report.label import LABEL_SCRIPTS, LabelCounts, LabelPage
from ruler_cli.results.report.page import web_files
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from tests.results.report.test_page import HOSTILE, MARKER
from tests.results.report.written import (
    Page,
    at_time,
    group,
    rollout,
    unpacked,
    written,
)


def label(
    source: Path | str, target: Path, most: int = 50, seed: int = 0
) -> tuple[Page, LabelCounts]:
    """The page of a scored file, and its numbers."""
    with ExitStack() as stack:
        stack.enter_context(at_time())
        draw = PairDraw(most, seed)
        page = LabelPage(stack, str(target), str(source), draw)
        file = ScoredFile(
            open_input(InputSettings(str(source)), stack, lambda problem: None)
        )
        for _, row, scored in file.groups():
            page.add(row, scored)
        counts = page.write()
    return Page(target.read_text(encoding="utf-8")), counts


def texts(page: Page) -> list[Any]:
    """The text of each comparison."""
    return [
        unpacked(block) for block in page.blocks["texts"].strip().split("\n")
    ]


def test_contents(tmp_path: Path) -> None:
    """Each comparison has the names of its group and rollouts, how it was drawn, and the lines of both."""
    lines = [group(f"g{i}") for i in range(4)]
    page, counts = label(
        written(tmp_path / "s.jsonl", *lines), tmp_path / "l.html"
    )
    data = unpacked(page.blocks["data"])
    assert set(data) == {"version", "draw", "comparisons", "texts"}
    assert len(data["comparisons"]) == sum(counts.drawn.values()) == 4
    for row, size, text, block in zip(
        data["comparisons"],
        data["texts"],
        texts(page),
        page.blocks["texts"].strip().split("\n"),
        strict=True,
    ):
        assert set(row) == {"group", "left", "right", "drawn", "chance"}
        assert (row["drawn"], row["chance"]) == ("random", 1.0)
        assert size == len(block)
        assert text["context"] == ['user: "Book a seat."']
        sides = [[text["strings"][i] for i in lines] for lines in text["lines"]]
        key = row["group"]
        assert sorted(sides) == [
            [f'assistant: "{key} one"'],
            [f'assistant: "{key} two"'],
        ]
    assert counts.size == (tmp_path / "l.html").stat().st_size
    assert counts.left_out == 0


SECRETS: dict[str, Any] = {
    "score": 0.7310585,
    "judge_score": 0.6180339,
    "explanation": "Zq1Explained",
    "spread": 0.1414213,
    "pass_scores": [0.2718281, 0.5772156],
    "slots": [0.0, 1.0],
    "judges": [{"judge": "Zq2Judge", "score": 0.8346268}],
    "criteria": [{"name": "Zq3Criterion", "value": 0.1234567}],
    "independent_reward": 0.9159655,
    "judge": "Zq4Judge",
    "reason": "Zq5Reason",
}


def secret_texts(value: Any) -> list[str]:
    """Every number of several digits and every word of a value that begins as the secrets do."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [text for part in parts for text in secret_texts(part)]
    return [str(value)] if len(str(value)) > 6 else []


@pytest.mark.parametrize("most", [2, 50])
def test_blind(tmp_path: Path, most: int) -> None:
    """No score, explanation, reward, label, judge or field of a record is anywhere in the file, read or packed."""
    record = group(
        "g",
        *(rollout(f"text {i}", **SECRETS) for i in range(4)),
        judge="Zq6Judge",
        served=["Zq7Served"],
    )
    for row in record["trajectories"]:
        row |= {
            "reward": 0.7310585,
            "metrics": {"independent_reward": 0.9159655, "own": "Zq8Metric"},
            "metadata": {"model": "Zq9Model"},
            "logs": ["RULER explanation: Zq10Logged"],
            "outcome": "Zq11Outcome",
        }
    record["reference"] = "Zq12Reference"
    page, _ = label(
        written(tmp_path / "Zq13Name.jsonl", record), tmp_path / "l.html", most
    )
    everything = json.dumps(
        [unpacked(page.blocks["data"]), texts(page), page.text],
        ensure_ascii=False,
    )
    secrets = secret_texts(SECRETS)
    assert len(secrets) == 13
    assert [row for row in secrets if row in everything] == []
    assert "Zq" not in everything
    assert "text 1" in everything


def test_hostile(tmp_path: Path) -> None:
    """No text of a rollout or a key is in the page as it is, and the page allows its own scripts only."""
    lines = [
        group(
            f"{i}{MARKER}{text}",
            rollout(f"{MARKER}{text} one", 0.1),
            rollout(f"{MARKER}{text} two", 0.2),
        )
        for i, text in enumerate(HOSTILE)
    ]
    page, counts = label(
        written(tmp_path / "s.jsonl", *lines), tmp_path / "l.html", 500
    )
    assert sum(counts.drawn.values()) == len(HOSTILE)
    assert MARKER not in page.text
    assert MARKER in json.dumps(texts(page))
    assert page.scripts == web_files(LABEL_SCRIPTS)
    assert page.policy.count("sha256-") == len(LABEL_SCRIPTS)
    assert "default-src 'none'" in page.policy
    digests = {sha256(script.encode()).digest() for script in page.scripts}
    assert len(digests) == len(LABEL_SCRIPTS)


def test_texts_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that is too large is left out and counted; so is all that comes after the page is full."""
    long = "x" * 30_000
    lines = [
        group("long", rollout("a" + long, 0.1), rollout("b" + long, 0.2)),
        *(group(f"g{i}") for i in range(5)),
    ]
    source = written(tmp_path / "s.jsonl", *lines)
    monkeypatch.setattr(label_module, "MOST_TEXT", 50_000)
    page, counts = label(source, tmp_path / "l.html")
    names = [
        row["group"] for row in unpacked(page.blocks["data"])["comparisons"]
    ]
    assert sorted(names) == [f"g{i}" for i in range(5)]
    assert counts.left_out == 1
    monkeypatch.setattr(label_module, "MOST_TEXTS", 600)
    page, counts = label(source, tmp_path / "l.html")
    assert 0 < counts.drawn["random"] < 5
    assert counts.drawn["random"] + counts.left_out == 6
