"""A judge that gives all rollouts of a group the same score: flagged, counted and reported at the end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Ruler, group, read, rollout, write
from tests.judge_server import JudgeServer

TWELVE = [group(f"g{i}", 0.1, 0.5, 0.9) for i in range(12)]
ALL_TIED = (
    "12 of 12 groups got one score for all rollouts: the judge does not tell them apart; "
    "try another judge or rubric; more passes are unlikely to help"
)


def lines(report: str) -> list[str]:
    """The sentences about groups with one score."""
    return re.findall(
        "[0-9]+ of [0-9]+ groups? got one .+unlikely to help", report
    )


@pytest.mark.parametrize(
    "options", [(), ("--passes", "2")], ids=["one pass", "two passes"]
)
def test_same_scores(
    options: tuple[str, ...], ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Equal scores tie a group with weight 0, and the run's end reports them, for cached replies too."""
    write(tmp_path / "in.jsonl", TWELVE)
    run = (
        *f"score in.jsonl out.jsonl -m openai/same --api-base {server.base}".split(),
        *options,
    )
    for more in ((), ("--cached-only",)):
        done = ruler(*run, "--summary", "sum.json", *more)
        assert (done.returncode, lines(done.stderr)) == (0, [ALL_TIED])
        assert "raise it" not in done.stderr
        assert "noise" not in done.stderr
        summary = json.loads((tmp_path / "sum.json").read_text())
        assert [
            summary[name]
            for name in ("tied", "alone", "one_score", "unanswered")
        ] == [12, 0, 12, 0]
        assert summary["figures"]["tie_rate"] == 1.0
        parts = [record["ruler"] for record in read(tmp_path / "out.jsonl")]
        assert all(
            part["tied"] is True and part["weight"] == 0 for part in parts
        )
        assert all(
            (part["reliability"] == 0) is bool(options) for part in parts
        )
    output = ruler("report", "out.jsonl").stdout
    assert "0 live, 12 tied" in output
    (line,) = re.findall(r"^weak judge +(.*(?:\n +.*)*)", output, re.M)
    assert " ".join(line.split()) == ALL_TIED
    assert ruler("select", "out.jsonl", "-", "--where", "live").stdout == ""


def test_one_distinct_rollout(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Groups with one distinct rollout are tied, but the sentence on equal scores does not count them."""
    same = rollout(0.3, "same")
    write(
        tmp_path / "in.jsonl",
        [*TWELVE[:2], *[{"trajectories": [same, same]}] * 5],
    )
    done = ruler(
        *f"score in.jsonl out.jsonl -m openai/good --api-base {server.base} --summary sum.json".split(),
    )  # fmt: skip
    summary = json.loads((tmp_path / "sum.json").read_text())
    assert [summary[name] for name in ("tied", "alone", "one_score")] == [
        5,
        5,
        0,
    ]
    assert lines(done.stderr) == []
    page = json.loads(ruler("report", "out.jsonl", "--json").stdout)
    assert (
        page["figures"]["groups"] | {"alone": 5, "one_score": 0}
        == page["figures"]["groups"]
    )
    assert "weak judge" not in ruler("report", "out.jsonl").stdout
