"""The end of a run: the lines on its groups and scores, OUTPUT, and the next command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from ruler_cli.cli.sentences import summary_lines
from ruler_cli.types import (
    BatchFigures,
    Kind,
    Length,
    PositionBin,
    Summary,
    Usage,
)
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer

TWO = [group("g", 0.1, 0.9), group("h", 0.2, 0.3)]
FULL = BatchFigures(
    groups=50,
    tie_rate=0.5,
    degraded=2,
    slot_curve=(
        PositionBin(0, 0, 0.031, 0.004, 50),
        PositionBin(0, 1, 0.0, 0.002, 300),
        PositionBin(1, 1, -0.031, 0.004, 50),
    ),
    slot_groups=50,
    length=Length(0.02, 0.004, 0.2, 50),
    reliability=(1, 0, 0, 0, 2, 0, 0, 7, 20, 20),
    reliability_median=0.87,
    flawed=5,
    near_misses=1,
    without_outcome=3,
)


def test_clean_run() -> None:
    """A run without failures is one line, and a line for each figure that matters; none is wider than 80."""
    figures = replace(
        FULL,
        degraded=0,
        flawed=0,
        near_misses=0,
        without_outcome=0,
        mean_score=0.56,
    )
    summary = Summary(
        total=40, groups=40, scored=40, tied=11, usage=Usage(calls=160), cost_usd=1.2, seconds=12.3,
        figures=figures,
    )  # fmt: skip
    lines = summary_lines(summary)
    end = "40 of 40 groups scored in 12.3 s: mean 0.56, 11 tied, $1.20 (160 calls)"
    assert lines[0] == end
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "reliability", "position bias", "length",
    ]  # fmt: skip
    assert max(len(f"ruler: {line}") for line in lines) <= 80
    plain = Summary(groups=3, scored=3, usage=Usage(calls=3), seconds=0.25)
    assert summary_lines(plain) == [
        "3 of 3 groups scored in 0.2 s: $0 (3 calls)"
    ]


def test_failures_by_kind() -> None:
    """Each kind of failure is a line with what it means, but for the cap, whose own sentence has the number."""
    kinds = get_args(Kind)
    first, *lines = summary_lines(
        Summary(groups=7, failed=dict.fromkeys(kinds, 1))
    )
    assert "7 failed" in first
    for kind, line in zip(sorted({*kinds} - {"budget"}), lines, strict=True):
        assert line.startswith("1 group not scored: ")
        assert f"({kind})" in line
    assert (
        "no reply in the ledger"
        in summary_lines(Summary(failed={"transport": 1}, unanswered=1))[1]
    )


@pytest.mark.parametrize(
    ("judge", "code", "following"),
    [
        ("good", 0, "ruler report out.jsonl"),
        ("not-json", 1, "--retry-failed"),
        ("400", 1, "--retry-failed"),
    ],
)
def test_next_command(
    judge: str,
    code: int,
    following: str,
    ruler: Ruler,
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    """The last line has OUTPUT and the next command: the report, or the one that asks again after failures."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    run = f"score in.jsonl out.jsonl -m openai/{judge} --api-base {server.base}"
    done = ruler(*run.split())
    assert done.returncode == code
    end, _, command = done.stderr.splitlines()[-1].partition("; next: ")
    assert end == "ruler: written to out.jsonl"
    assert command.endswith(following)
    if code:
        asked = server.stats()["requests"]
        assert ruler(*command.split()[1:]).returncode == code
        assert server.stats()["requests"] > asked
    assert ("--debug shows them" in done.stderr) == (judge == "not-json")


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        ("400", "2 groups not scored"),
        ("not-json", "2 groups not scored"),
        ("401", "no reply is kept; to start over: ruler score in.jsonl"),
    ],
)
def test_without_ledger(
    judge: str,
    sentence: str,
    ruler: Ruler,
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    """If no reply is kept, no advice says that another run goes on or asks again for what failed alone."""
    write(tmp_path / "in.jsonl", TWO)
    run = f"score in.jsonl out.jsonl -m openai/{judge} --api-base {server.base}"
    done = ruler(*f"{run} --ledger none".split())
    assert sentence in done.stderr
    for advice in ("to resume", "--debug", "--retry-failed", "scores the rest"):
        assert advice not in done.stderr


def test_dropped_from_input(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """If OUTPUT is INPUT, dropped groups are only in the failed file, which can be scored again."""
    write(
        tmp_path / "in.jsonl",
        [group("g", 0.1, 0.9), {"group_id": "empty", "trajectories": []}],
    )
    judge = f"-m openai/good --api-base {server.base}"
    done = ruler(*f"score in.jsonl in.jsonl {judge} --on-failure drop".split())
    assert "are in in.jsonl.failed.jsonl\n" in done.stderr
    assert "next: ruler score" not in done.stderr
    again = f"score in.jsonl.failed.jsonl out.jsonl {judge} --retry-failed"
    ruler(*again.split())
    assert server.stats()["requests"] == 1
    line = (tmp_path / "in.jsonl.failed.jsonl").read_text()
    assert json.loads(line)["group_id"] == "empty"
    piped = f"score - - {judge} --on-failure drop --set failed=f.jsonl"
    done = ruler(*piped.split(), stdin=line)
    assert "are in f.jsonl\n" in done.stderr


def test_cap_below_one_call(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """If the cap lets no call go, the same command is no advice; the cap that is named lets one go.

    Groups that a cap leaves out are counted and not named one by one.
    """
    write(tmp_path / "in.jsonl", TWO)
    run = f"score in.jsonl out.jsonl -m good --api-base {server.base} --price 1,2 -c 1 --max-cost"
    done = ruler(*run.split(), "0.0001")
    assert (done.returncode, "to resume" in done.stderr) == (4, False)
    assert (
        "--max-cost 0.0001 is less than any remaining group may cost: 2 groups are not scored; "
        in done.stderr
    )
    assert "group g not scored" not in done.stderr
    enough = done.stderr.rpartition("use ")[2].partition(" or more")[0]
    done = ruler(*run.split(), enough)
    assert server.stats()["requests"] >= 1
    assert done.returncode == 4 * ("to resume" in done.stderr)


ENDS = """
good out.jsonl
good out.jsonl
good - --cached-only
not-json out.jsonl
not-json - --ledger none
not-json out.jsonl --on-failure drop
not-json out.jsonl --max-failures 0 --ledger none
401 out.jsonl
good out.jsonl --price 1000,1000 --max-cost 0.1 --ledger none
"""


def test_three_lines(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A run ends in three lines at most: how much is scored, what is not and why, and what comes next."""
    groups = [group(f"g{i}", 0.1, 0.9) for i in range(30)]
    write(tmp_path / "in.jsonl", [*groups, 1])
    for end in ENDS.strip().splitlines():
        words = f"score in.jsonl --api-base {server.base} -m openai/{end}"
        done = ruler(*words.split())
        *_, last = re.split("\nruler: (?=.* groups scored in )", done.stderr)
        assert last.count("\n") <= 3, last
