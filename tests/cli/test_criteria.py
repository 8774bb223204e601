"""Criteria of a scored file: in the report, against labels, and as a condition."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ruler, read, write
from tests.judge_server import JudgeServer
from tests.judging.test_criteria import judge, marked, written

RUBRIC = [
    {"criterion": "It holds alpha.", "weight": 5, "name": "alpha"},
    {"criterion": "It holds beta.", "weight": 1, "name": "beta"},
    {
        "criterion": "It makes the mistake gamma",
        "weight": -1,
        "name": "ga<b>mma=1",
    },
]


@pytest.fixture
def scored(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> Path:
    """Score 12 groups in two passes; the label is whether alpha holds."""
    draw = random.Random(3)
    groups = []
    for i in range(12):
        marks = [
            {name: draw.randrange(5) / 4 for name in ("alpha", "beta", "gamma")}
            for _ in range(4)
        ]
        group = marked(f"g{i}", *marks)
        for trajectory, values in zip(
            group["trajectories"], marks, strict=True
        ):
            trajectory["reward"] = float(values["alpha"] > 0.5)
        groups.append(group)
    source = written(tmp_path / "in.jsonl", *groups)
    options = (*judge(server), "--rubric", json.dumps(RUBRIC), "--passes", "2")
    assert ruler("score", source, "scored.jsonl", *options).returncode == 0
    return tmp_path / "scored.jsonl"


def test_report(ruler: Ruler, scored: Path) -> None:
    """The report has a row for each criterion, the one that goes with the score the most first."""
    figures = json.loads(ruler("report", scored, "--json").stdout)["figures"][
        "criteria"
    ]
    assert {row["name"] for row in figures} == {row["name"] for row in RUBRIC}
    alpha, *_ = figures
    assert alpha["name"] == "alpha"
    assert alpha["rollouts"] == 48
    assert alpha["with_score"] > 0.9
    assert alpha["reliability"] == 1.0
    assert alpha["first_less_last"] == pytest.approx(0, abs=1e-9)
    gamma = next(row for row in figures if row["name"].startswith("ga"))
    assert gamma["with_score"] < 0
    shown = ruler("report", scored).stdout
    assert re.search(
        r"^alpha +48 +0\.\d\d +0\.9\d +1\.00 ", shown, re.MULTILINE
    )
    group = ruler("report", scored, "--group", "g3").stdout
    assert re.search(r"^alpha +0\.\d\d$", group, re.MULTILINE)


def test_junk_scores(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """A judge's score that is no number, and a lone rollout with criteria, are read by every command."""
    groups = read(scored)
    for group, junk in zip(groups, ("high", [], 1e99, True), strict=False):
        for trajectory in group["trajectories"]:
            trajectory["ruler"]["judge_score"] = junk
    groups[0]["trajectories"] = groups[0]["trajectories"][:1]
    names = ["a.jsonl", "b.jsonl", "c.jsonl"]
    for name in names:
        write(tmp_path / name, groups)
    commands = (
        ["report", "a.jsonl"],
        ["trend", *names],
        ["agree", "a.jsonl", "--json"],
        ["select", "a.jsonl", "-", "--where", "criteria.alpha=0.5.."],
    )
    for command in commands:
        done = ruler(*command)
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr


def test_agree(ruler: Ruler, scored: Path) -> None:
    """Each criterion is measured against the labels as a judge of its own."""
    agreement = json.loads(ruler("agree", scored, "--json").stdout)
    accuracy = {
        row["name"]: row["pairwise_accuracy"]["value"]
        for row in agreement["criteria"]
    }
    assert accuracy["alpha"] == 1.0
    assert accuracy["beta"] < 0.9
    assert "criterion alpha" in ruler("agree", scored).stdout


def values(record: dict[str, Any], name: str) -> list[float]:
    """Return the values of a criterion in a record."""
    return [
        criterion["value"]
        for trajectory in record["trajectories"]
        for criterion in trajectory["ruler"]["criteria"]
        if criterion["name"] == name
    ]


@pytest.mark.parametrize("name", ["alpha", "ga<b>mma=1"])
def test_select(ruler: Ruler, scored: Path, tmp_path: Path, name: str) -> None:
    """A range of a criterion keeps the rollouts with such a value, whatever signs its name has."""
    run = ruler(
        "select", scored, "kept.jsonl", "--where", f"criteria.{name}=0.5.."
    )
    assert run.returncode == 0, run.stderr
    kept = [
        value
        for record in read(tmp_path / "kept.jsonl")
        for value in values(record, name)
    ]
    all_values = [
        value for record in read(scored) for value in values(record, name)
    ]
    assert sorted(kept) == sorted(value for value in all_values if value >= 0.5)
    assert kept
