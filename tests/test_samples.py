"""Runs of the command over the samples: every record comes out, in order, with the documented exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ruler_cli.files.parse import parse
from tests.command import Done, run_here

SAMPLES = Path(__file__).parent.parent / "samples"
OURS = ("reward", "metrics", "logs", "ruler")
CASES = {
    # name: exit code, records out
    "one": (0, 1),
    "groups": (0, 3),
    "trajectories": (0, 5),
    "scattered": (0, 6),
    "art_groups": (0, 2),
    "tau_bench": (0, 6),
    "hostile": (1, 5),
    "simulated": (0, 40),
}


def ruler(*arguments: str | Path) -> Done:
    """Run the command where the tests are run."""
    return run_here([*map(str, arguments)], "", Path.cwd(), {})


def scored(name: str, to: Path) -> list[dict[str, Any]]:
    """Score a sample with the offline judge and read what came out."""
    code, _ = CASES[name]
    done = ruler("score", SAMPLES / f"{name}.jsonl", to, "-m", "offline")
    assert done.returncode == code, done.stderr
    return [parse(line) for line in to.read_bytes().splitlines()]


def bare(record: dict[str, Any]) -> str:
    """A record without ruler's fields, as text: NaN equals itself there."""
    own = {key: value for key, value in record.items() if key not in OURS}
    if isinstance(own.get("trajectories"), list):
        own["trajectories"] = [
            bare(trajectory) for trajectory in own["trajectories"]
        ]
    return repr(own)


@pytest.mark.parametrize("name", CASES)
def test_records_come_out_in_order(name: str, tmp_path: Path) -> None:
    """Records come out as many as went in, in input order, with nothing changed but ruler's fields."""
    out = scored(name, tmp_path / "out.jsonl")
    failed = tmp_path / "out.jsonl.failed.jsonl"
    lost = set(failed.read_bytes().splitlines()) if failed.exists() else set()
    lines = (SAMPLES / f"{name}.jsonl").read_bytes().splitlines()
    assert len(out) == CASES[name][1]
    assert [bare(record) for record in out] == [
        bare(parse(line)) for line in lines if line not in lost
    ]


@pytest.mark.parametrize("name", CASES)
def test_score_or_reason(name: str, tmp_path: Path) -> None:
    """A trajectory has a score in [0, 1] as its reward, or null and a reason."""
    for record in scored(name, tmp_path / "out.jsonl"):
        for trajectory in record.get("trajectories", [record]):
            part = trajectory["ruler"]
            if part["status"] == "scored":
                assert trajectory["reward"] == part["score"]
                assert 0 <= part["score"] <= 1
            else:
                assert trajectory["reward"] is None
                assert part["reason"]


@pytest.mark.parametrize("name", CASES)
def test_check(name: str) -> None:
    """`check` exits with the code of `score`, and sends nothing."""
    assert (
        ruler("check", SAMPLES / f"{name}.jsonl", "-m", "offline").returncode
        == CASES[name][0]
    )


def test_identical_rollouts(tmp_path: Path) -> None:
    """The first and the last rollout of the first sample group are the same, and so are their scores."""
    first, _, _, last = scored("groups", tmp_path / "out.jsonl")[0][
        "trajectories"
    ]
    assert first["messages"] == last["messages"]
    assert first["ruler"]["score"] == last["ruler"]["score"]


def test_rubric_of_a_group() -> None:
    """A group's `rubric` stands in its request, and the one from the command line does not."""
    shown = ruler(
        "prompt",
        SAMPLES / "groups.jsonl",
        "--group",
        "flaky-date-test",
        "--rubric",
        "Shortest wins.",
    ).stdout
    assert "Skipping or weakening a test is worth at most 0.1." in shown
    assert "Shortest wins." not in shown


def test_only_the_injection_is_flagged(tmp_path: Path) -> None:
    """Of the hostile sample only the rollout that addresses the judge is suspect."""
    records = scored("hostile", tmp_path / "out.jsonl")
    flagged = [
        (record["group_id"], number)
        for record in records
        for number, trajectory in enumerate(record["trajectories"])
        if trajectory["ruler"].get("suspect")
    ]
    assert flagged == [("injection", 2)]


def test_scored_file_again(tmp_path: Path) -> None:
    """The original rewards are those of the dump, however often a file is scored."""
    once, twice = tmp_path / "once.jsonl", tmp_path / "twice.jsonl"
    first = scored("groups", once)
    assert ruler("score", once, twice, "-m", "offline").returncode == 0
    again = [parse(line) for line in twice.read_bytes().splitlines()]
    for before, after in zip(first, again, strict=True):
        for one, other in zip(
            before["trajectories"], after["trajectories"], strict=True
        ):
            assert (
                one["ruler"]["independent_reward"]
                == other["ruler"]["independent_reward"]
            )
            assert one.get("logs") == other.get("logs")


def test_simulated_sample(tmp_path: Path) -> None:
    """Without errors the simulated judge gives each rollout of its sample the truth in its text."""
    to = tmp_path / "out.jsonl"
    exact = [
        text
        for name in ("persistent", "slot", "noise", "level")
        for text in ("-p", f"{name}=0")
    ]
    assert (
        ruler(
            "score", SAMPLES / "simulated.jsonl", to, "-m", "simulated", *exact
        ).returncode
        == 0
    )
    for line in to.read_bytes().splitlines():
        for trajectory in parse(line)["trajectories"]:
            output = trajectory["messages"][-1]["content"]
            assert (
                abs(trajectory["reward"] - float(output.partition("truth=")[2]))
                <= 0.026
            )
