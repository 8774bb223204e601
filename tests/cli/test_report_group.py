"""`ruler report --group`: one group as its judge read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ruler_cli.cli.safe_text import one_line, visible
from ruler_cli.results.identity import group_name
from ruler_cli.types import words_of
from tests.cli.scored import HOSTILE, hostile, scored
from tests.conftest import Ruler, rollout, write
from tests.on_terminal import RAW, widest
from tests.screen import same_screen
from tests.values import few


def test_group(ruler: Ruler, tmp_path: Path) -> None:
    """Head, table, the shared context once, then rollouts best first."""
    own = {
        "judge": "m",
        "passes": 2,
        "reliability": 0.75,
        "cost_usd": 0.25,
        "usage": {"calls": 2},
    }
    group = scored("g", 0.3, 0.75, None, labels=(1, 0, 1), **own)
    for i, trajectory in enumerate(group["trajectories"]):
        first = [
            {"role": "user", "content": "Do it.\n\n  Twice."},
            {"role": "assistant", "content": "Yes."},
        ]
        call = {
            "id": "1",
            "function": {
                "name": "run",
                "arguments": json.dumps({"n": i, "code": "a\nb"}),
            },
        }
        trajectory["messages"] = [
            *first[: 1 + (i < 2)],
            {"role": "assistant", "tool_calls": [call]},
        ]
        trajectory["ruler"]["slots"] = [0.5, 1.0]
    write(tmp_path / "s.jsonl", [scored("before", 0.1, 0.2), group])
    done = ruler("report", "s.jsonl", "--group", "g")
    assert (done.returncode, done.stderr) == (0, "")
    assert widest(done.stdout) <= 80
    same_screen("report_group", done.stdout)


def test_long_names(ruler: Ruler, tmp_path: Path) -> None:
    """A criterion or a judge of any name, such as its whole sentence, leaves room for the scores and what is said."""
    for name in ("The agent tells when the refund arrives. " * 3, *HOSTILE):
        group = scored("g", 0.25, 0.75)
        own = group["trajectories"][0]["ruler"]
        own["criteria"] = [{"name": name, "value": 0.5}]
        own["judges"] = [{"judge": name, "score": 0.125, "explanation": "late"}]
        write(tmp_path / "s.jsonl", [group])
        page = ruler("report", "s.jsonl", "--group", "g").stdout
        assert RAW.findall(page) == []
        assert widest(page) <= 80
        words = page.split()
        for word in ("0.25", "0.12:", "late", *(["0.50"] if name else [])):
            assert word in words, (name, word)


def test_identical_rollouts(ruler: Ruler, tmp_path: Path) -> None:
    """A rollout with the same text as one above refers to it instead of its text."""
    group = scored("g", 0.5, 0.4, 0.3)
    for trajectory in group["trajectories"][:2]:
        trajectory["messages"] = rollout(0.5, "twin")["messages"]
    write(tmp_path / "s.jsonl", [group])
    output = ruler("report", "s.jsonl", "--group", "g").stdout
    assert output.count("twin") == 1
    assert "(same text as rollout 1)" in output


@pytest.mark.parametrize("columns", few(1, [10, 33, 80]))
def test_hostile_content(columns: int, ruler: Ruler, tmp_path: Path) -> None:
    """No text of a rollout reaches the terminal raw, exceeds its width, or looks like ruler's own words."""
    whole = hostile()
    group = {**whole[3], "group_id": "g"}
    group["trajectories"] = [
        trajectory for one in whole for trajectory in one["trajectories"]
    ]
    write(tmp_path / "s.jsonl", [group])
    done = ruler("report", "s.jsonl", "--group", "g", COLUMNS=str(columns))
    assert (done.returncode, done.stderr) == (0, "")
    assert RAW.findall(done.stdout) == []
    assert widest(done.stdout) <= columns
    assert "\nrollout 9: score 1" not in done.stdout


def test_hostile_keys(ruler: Ruler, tmp_path: Path) -> None:
    """A group with any key can be named, and is shown under a name that hides no character."""
    write(
        tmp_path / "s.jsonl",
        [scored(key, 0.9, 0.1, judge=key) for key in HOSTILE],
    )
    for number, key in enumerate(HOSTILE, 1):
        printed = one_line(visible(key))
        done = ruler("report", "s.jsonl", f"--group={printed}", COLUMNS="60")
        assert (done.returncode, done.stderr) == (0, ""), ascii(key)
        assert RAW.findall(done.stdout) == []
        assert widest(done.stdout) <= 60
        assert f"s.jsonl, number {number} in the file\n" in done.stdout


def test_similar_keys(ruler: Ruler, tmp_path: Path) -> None:
    """A key with a control character and one that spells its escape are two groups, and each can be named."""
    keys = ["a\x1b", "a\\x1b", "$'a\\x1b'"]
    write(
        tmp_path / "s.jsonl",
        [scored(key, 0.1 * n, 0.9) for n, key in enumerate(keys, 1)],
    )
    for n, key in enumerate(keys, 1):
        assert (
            f"s.jsonl, number {n} in the file\n"
            in ruler("report", "s.jsonl", "--group", key).stdout
        )
    page = ruler("report", "s.jsonl", "--json").stdout
    assert RAW.findall(page) == []


def test_unknown_key(ruler: Ruler, tmp_path: Path) -> None:
    """An unknown key is refused, with the command that shows how groups are found."""
    write(
        tmp_path / "s.jsonl",
        [scored(f"task-{n}\x1b", 0.1, 0.2) for n in range(300)],
    )
    done = ruler("report", "s.jsonl", "--group", "tsk-17\x1b")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no group `tsk-17\\x1b`" in done.stderr
    output = ruler("report", "s.jsonl", "--group", "zzz").stderr
    assert "`ruler check s.jsonl` shows how groups are found" in output


def test_shared_key(ruler: Ruler, tmp_path: Path) -> None:
    """All groups that share a key are shown; beyond a limit they are counted."""
    write(
        tmp_path / "s.jsonl", [scored("same", 0.1, 0.01 * n) for n in range(25)]
    )
    done = ruler("report", "s.jsonl", "--group", "same")
    assert done.stdout.count("group same") == 20
    assert "5 more groups" in done.stderr
    assert (
        json.loads(
            ruler(*words_of("report s.jsonl --group same --json")).stdout
        )["same_key"]
        == 24
    )


def test_shortened_key(ruler: Ruler, tmp_path: Path) -> None:
    """A very long key is accepted as the page shortens it, since the page prints that command."""
    keys = ["k" * 5000, "k" * 3000 + "other"]
    write(
        tmp_path / "s.jsonl",
        [scored(key, 0.1 + n / 2) for n, key in enumerate(keys)],
    )
    for n, key in enumerate(keys):
        done = ruler("report", "s.jsonl", "--json", "--group", group_name(key))
        assert (done.returncode, json.loads(done.stdout)["ordinal"]) == (
            0,
            n + 1,
        )


def test_pass_scores(ruler: Ruler, tmp_path: Path) -> None:
    """Scores by pass are valid if they are a list of finite numbers, one for each position."""
    odd = (
        [0.25],
        [0.25, None],
        [0.25, True],
        [0.25, float("nan")],
        [0.25, [0.5]],
        {"0": 0.25},
        "0.25",
        None,
    )
    group = scored("g", *[0.5] * (len(odd) + 1))
    for trajectory, reported in zip(
        group["trajectories"], ([0.25, 1], *odd), strict=True
    ):
        trajectory["ruler"] |= {"slots": [0, 1], "pass_scores": reported}
    write(tmp_path / "s.jsonl", [group])
    result = json.loads(
        ruler(*words_of("report s.jsonl --group g --json")).stdout
    )["group"]["rollouts"]
    assert [r["pass_scores"] for r in result] == [[0.25, 1.0], *[[]] * len(odd)]
    assert {tuple(r["slots"]) for r in result} == {(0.0, 1.0)}
