"""`ruler agree --people` and `--at-least` as scripts and people use them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks.simulated import truth
from ruler_cli.types import words_of
from tests import people
from tests.cli.scored import HOSTILE
from tests.cli.test_agree import dump, trajectory
from tests.conftest import ROOT, Ruler, write
from tests.screen import same_screen

SIMULATED = ROOT / "samples" / "simulated.jsonl"


@pytest.fixture
def scored(ruler: Ruler, tmp_path: Path) -> Path:
    """The simulated groups with scores."""
    done = ruler(
        "score", SIMULATED, *words_of("s.jsonl -m simulated --passes 2")
    )
    assert done.returncode == 0, done.stderr
    return tmp_path / "s.jsonl"


def test_table(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """The table of a team of two: the judge and people's own agreement, without the disputed pairs."""
    lines = people.comparisons(scored, 60, {"ana": 0.02, "bo": 0.06})
    write(tmp_path / "l.jsonl", lines)
    # a third person, on pairs that somebody chose
    chosen = people.comparisons(
        scored, 20, {"cy": 0.02}, seed=1, drawn="disputed"
    )
    write(tmp_path / "m.jsonl", chosen)
    command = ("agree", "s.jsonl", "--people", "l.jsonl", "--people")
    done = ruler(*command, "m.jsonl", "--at-least", "0.5")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    same_screen("agree_labels", done.stdout)


def test_json(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """The JSON says what the labels are, what was left out, and the verdict."""
    lines = people.comparisons(scored, 40, {"ana": 0.02})
    write(tmp_path / "l.jsonl", lines)
    done = ruler(
        *words_of("agree s.jsonl --people l.jsonl --at-least 0.9 --json")
    )
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["labels"]["files"] == ["l.jsonl"]
    gate = result["gate"]
    assert list(gate) == [
        "at_least", "passed", "value", "low", "highest", "labels", "unscored", "not_asked",
    ]  # fmt: skip
    assert gate["value"] == result["scorers"][0]["pairwise_accuracy"]["value"]
    assert (gate["at_least"], gate["passed"]) == (0.9, False)
    assert gate["labels"] == result["labelled"]["measured"]
    assert "gate" in json.loads(ruler("agree", "s.jsonl", "--json").stdout)


def test_exit_codes(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """Records without a label are normal; a label of no rollout is named, and only the gate passes it over."""
    lines = people.comparisons(scored, 40, {"ana": 0.02})
    write(tmp_path / "l.jsonl", lines)
    assert ruler("agree", "s.jsonl", "--people", "l.jsonl").returncode == 0
    stray = lines[0] | {"group": "elsewhere\x1b[2J", "left": "0" * 12}
    write(tmp_path / "l.jsonl", [*lines, stray])
    # a line that cannot be read
    scored.write_text(scored.read_text() + "{\n")
    done = ruler("agree", "s.jsonl", "--people", "l.jsonl")
    assert done.returncode == 1
    assert (
        "group 'elsewhere\\x1b[2J': no such rollout in s.jsonl" in done.stderr
    )
    assert "s.jsonl: line 41" in done.stderr
    gated = ruler(*words_of("agree s.jsonl --people l.jsonl --at-least 0.4"))
    assert (gated.returncode, gated.stderr) == (0, done.stderr)
    assert "passed" in gated.stdout
    gated = ruler(*words_of("agree s.jsonl --people l.jsonl --at-least 0.99"))
    assert gated.returncode == 1
    assert "failed: the interval" in gated.stdout


def test_nothing_measured(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """Without labels, or with too few, the exit code is 2, with the reason."""
    few = people.comparisons(scored, 3, {"ana": 0.02})
    write(tmp_path / "few.jsonl", few)
    write(tmp_path / "none.jsonl", [])
    write(
        tmp_path / "stray.jsonl",
        [few[0] | {"group": "elsewhere", "left": "0" * 12}],
    )
    write(
        tmp_path / "equal.jsonl", [line | {"choice": "equal"} for line in few]
    )
    reasons = {
        "few": "an interval needs ordered pairs in 5 groups",
        "none": "no label says that one rollout is better",
        "stray": "in group 'elsewhere': no such rollout",
        "equal": "no label says that one rollout is better",
    }
    for name, reason in reasons.items():
        labels = f"{name}.jsonl"
        done = ruler(
            "agree",
            "s.jsonl",
            "--people",
            labels,
            "--at-least",
            "0.7",
            "--json",
        )
        assert (done.returncode, done.stdout) == (2, ""), name
        assert reason in done.stderr
    many = people.comparisons(scored, 40, {"ana": 0.02})
    for drawn, code in (("disputed", 2), ("", 0)):
        lines = [line | {"drawn": drawn, "chance": None} for line in many]
        write(tmp_path / "l.jsonl", lines)
        done = ruler(*words_of("agree s.jsonl --people l.jsonl --at-least 0.4"))
        assert done.returncode == code, drawn
        assert ("none at random" in done.stderr) == (code == 2)
    write(tmp_path / "u.jsonl", [trajectory("g", s, None) for s in (0.1, 0.9)])
    done = ruler("agree", "u.jsonl", "--at-least", "0.7")
    assert done.returncode == 2


def test_corrections(ruler: Ruler, tmp_path: Path) -> None:
    """Labels of some rollouts correct the mean of all."""
    lines = [json.loads(line) for line in SIMULATED.read_text().splitlines()]
    rollouts = [r for line in lines for r in line["trajectories"]]
    for rollout in random.Random(0).sample(rollouts, 80):
        good = truth(json.dumps(rollout["messages"])) > 0.5
        rollout["metadata"] = {"good": good}
    write(tmp_path / "in.jsonl", lines)
    ruler(*words_of("score in.jsonl s.jsonl -m simulated"))
    command = ("agree", "s.jsonl", "--labels", "metadata.good")
    done = ruler(*command)
    assert done.returncode == 1
    assert "160 without a label: not measured" in done.stderr
    same_screen("agree_corrected", done.stdout)
    result = json.loads(ruler(*command, "--json").stdout)
    corrected = result["corrected"]
    assert (corrected["labelled"], corrected["number"]) == (80, 240)


def test_hostile_labels(ruler: Ruler, tmp_path: Path) -> None:
    """Names of people and ways to draw may hold anything; none reaches a terminal raw."""
    write(tmp_path / "s.jsonl", dump(len(HOSTILE)))
    lines = []
    for text, (name, (one, other)) in zip(
        HOSTILE, people.rollouts(tmp_path / "s.jsonl"), strict=True
    ):
        line = {
            "group": name,
            "left": one[0],
            "right": other[0],
            "choice": "right",
        }
        short = text[:3000]
        lines += [line | {"by": by, "drawn": short} for by in (short, "ana")]
        lines.append(line | {"by": short, "drawn": "random", "note": short})
    write(tmp_path / "l.jsonl", lines)
    for more in ([], ["--json"], ["--at-least", "0.2"]):
        done = ruler("agree", "s.jsonl", "--people", "l.jsonl", *more)
        assert done.returncode in (0, 2), done.stderr
        assert "Traceback" not in done.stderr
        for raw in ("\x1b", "\u202e", "\x07"):
            assert raw not in done.stdout + done.stderr


def test_unreadable_labels(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """A file that is no file of labels is bad usage, with its name, the line and the reason."""
    (tmp_path / "l.jsonl").write_text('{"group": "task-1", "mark": 3}\n')
    for name, reason in (("l.jsonl", "line 1"), ("none.jsonl", "no such file")):
        done = ruler("agree", scored.name, "--people", name)
        assert done.returncode == 2
        assert f"--people {name}: " in done.stderr
        assert reason in done.stderr
    for command in ("agree", "report"):
        done = ruler(command, scored.name, "--labels", "l.jsonl")
        assert (done.returncode, done.stdout) == (2, "")
        assert (
            "--labels l.jsonl: none of the first records has it" in done.stderr
        )
    done = ruler("agree", scored.name, "--at-least", "1.5")
    assert done.returncode == 2
    assert "--at-least" in done.stderr
