"""A judge that gives all rollouts of a group the same score: marked, counted and reported at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ruler_cli.cli.summary import summary_lines
from ruler_cli.observer import BatchFigures, Pair, Summary
from tests.conftest import Ruler, group, read, rollout, write
from tests.judge_server import JudgeServer

TWELVE = [group(f"g{i}", 0.1, 0.5, 0.9) for i in range(12)]
TOLD = (
    "12 of 12 groups got the same score for every rollout: this judge does not tell them apart; "
    "another judge (-m) or rubric (--rubric) may, more passes hardly will"
)


def lines(report: str) -> list[str]:
    """The lines about groups with one score."""
    return [line.removeprefix("ruler: ") for line in report.splitlines() if "the same score" in line]


@pytest.mark.parametrize("options", [(), ("--passes", "2")], ids=["one pass", "two passes"])
def test_a_judge_that_says_nothing(
    options: tuple[str, ...], ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Its groups are tied and weigh nothing, and the end of the run says so, also for cached replies."""
    write(tmp_path / "in.jsonl", TWELVE)
    run = ("score", "in.jsonl", "out.jsonl", "-m", "openai/same", "--api-base", server.base, *options)
    for more in ((), ("--cached-only",)):
        done = ruler(*run, "--summary", "sum.json", *more)
        assert (done.returncode, lines(done.stderr)) == (0, [TOLD])
        summary = json.loads((tmp_path / "sum.json").read_text())
        assert [summary[name] for name in ("tied", "alone", "one_score", "unanswered")] == [12, 0, 12, 0]
        assert summary["figures"]["tie_rate"] == 1.0
        parts = [record["ruler"] for record in read(tmp_path / "out.jsonl")]
        assert all(part["tied"] is True and part["weight"] == 0 for part in parts)
        assert all(("reliability" in part) is bool(options) for part in parts)
    assert "0 live, 12 tied" in ruler("report", "out.jsonl").stdout
    assert ruler("select", "out.jsonl", "-", "--where", "live").stdout == ""


def test_a_judge_that_tells_them_apart(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """Groups with nothing to compare are tied and no sign of such a judge, however many there are."""
    same = rollout(0.3, "same")
    write(tmp_path / "in.jsonl", [*TWELVE[:2], *[{"trajectories": [same, same]}] * 5])
    done = ruler(
        "score", "in.jsonl", "out.jsonl", "-m", "openai/good", "--api-base", server.base,
        "--summary", "sum.json",
    )  # fmt: skip
    summary = json.loads((tmp_path / "sum.json").read_text())
    assert [summary[name] for name in ("tied", "alone", "one_score")] == [5, 5, 0]
    assert lines(done.stderr) == []


def test_more_than_a_third() -> None:
    """It is reported from more than a third on of the groups that have something to compare."""
    cases = {(12, 0, 4): [], (12, 0, 5): ["5 of 12 groups"], (12, 9, 2): ["2 of 3 groups"], (3, 3, 0): []}
    for (scored, alone, one_score), says in cases.items():
        report = lines("\n".join(summary_lines(Summary(scored=scored, alone=alone, one_score=one_score))))
        assert [line.partition(" got")[0] for line in report] == says


def test_a_panel_is_told_as_one() -> None:
    """For a panel the line is about all judges."""
    several = BatchFigures(judges=(Pair(("a", "b"), None, 36, None, 0),))
    (report,) = lines("\n".join(summary_lines(Summary(scored=12, one_score=12, figures=several))))
    assert ": these judges do not tell them apart;" in report
