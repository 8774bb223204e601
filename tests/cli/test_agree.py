"""`ruler agree` as scripts and people see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import Ruler, write
from tests.screen import same_screen
from tests.values import talk


def annotation(score: Any, label: Any = None, **more: Any) -> dict[str, Any]:
    """An annotation as `score` writes it."""
    return {
        "status": "scored",
        "score": score,
        "judge": "m",
        "independent_reward": label,
        **more,
    }


def trajectory(
    name: str, score: Any, label: Any, text: str = "a", **more: Any
) -> dict[str, Any]:
    """A scored trajectory of a group."""
    ruler = annotation(score, label, **more)
    return {
        "group_id": name,
        "messages": talk(text),
        "reward": score,
        "ruler": ruler,
    }


def dump(groups: int = 6, **more: Any) -> list[dict[str, Any]]:
    """Groups of two in which the better one has the higher score, except in the last."""
    return [
        trajectory(
            f"g{g}",
            score if g < groups - 1 else 1 - score,
            label,
            f"{label} {g:03}",
            **more,
        )
        for g in range(groups)
        for score, label in ((0.25, 0.0), (0.75, 1.0))
    ]


def rows(text: str) -> dict[str, str]:
    """The lines of the table, as names and values."""
    split = (line.split("  ", 1) for line in text.splitlines() if "  " in line)
    return {name.strip(): values.strip() for name, values in split}


def test_table(ruler: Ruler, tmp_path: Path) -> None:
    """Value, interval and groups stand in a table of 80 columns, and stderr is empty."""
    write(tmp_path / "s.jsonl", dump())
    done = ruler("agree", "s.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    same_screen("agree", done.stdout)


def test_json(ruler: Ruler, tmp_path: Path) -> None:
    """`--json` prints the same as one object with stable keys, equal on every run."""
    write(tmp_path / "s.jsonl", dump(slots=[0.5]))
    done = ruler("agree", "s.jsonl", "--json")
    assert done.stdout == ruler("agree", "s.jsonl", "--json").stdout
    result = json.loads(done.stdout)
    assert list(result) == [
        "version", "inputs", "labels", "groups", "mixed_groups", "rollouts", "compared",
        "scorers", "baselines", "criteria", "difference", "people", "labelled",
        "label_files", "corrected", "repeated", "gate", "problems", "first_problems",
    ]  # fmt: skip
    (scorer,) = result["scorers"]
    assert list(scorer) == [
        "name", "pairs", "against", "tied", "pairwise_accuracy", "with_unscored",
        "by_gap", "by_slot", "by_length",
    ]  # fmt: skip
    accuracy = scorer["pairwise_accuracy"]
    assert (accuracy["value"], accuracy["groups"]) == (5 / 6, 6)
    assert 0.3 < accuracy["low"] < 0.5
    assert accuracy["high"] == 1
    assert result["labels"] == {"path": None, "files": []}


def test_labels(ruler: Ruler, tmp_path: Path) -> None:
    """Labels are read from the path that the user names, words for truth values included."""
    records = [
        r
        | {
            "meta": {
                "ok": "failed" if r["ruler"]["independent_reward"] else "passed"
            }
        }
        for r in dump()
    ]
    write(tmp_path / "s.jsonl", records)
    done = ruler("agree", "s.jsonl", "--labels", "meta.ok")
    assert done.returncode == 0
    assert rows(done.stdout)["pairwise accuracy"].startswith("0.167")
    assert "`meta.ok`" in done.stdout
    assert (
        ruler("agree", "s.jsonl", RULER_LABELS="meta.ok").stdout == done.stdout
    )
    done = ruler("agree", "s.jsonl", "--labels", "ruler.score")
    assert (
        "warning: --labels ruler.score: every label of s.jsonl equals its score"
        in done.stderr
    )
    done = ruler("agree", "s.jsonl", "--labels", "nowhere")
    assert done.returncode == 2
    assert "--labels nowhere: none of the first records has it" in done.stderr


def test_preferences(ruler: Ruler, tmp_path: Path) -> None:
    """If a dump has no reward but marks one answer as preferred, the preference is the label."""
    answers = {"chosen": talk("a long answer"), "rejected": talk("no")}
    lines = [
        {
            name: [{**one, "content": f"{i} {one['content']}"} for one in own]
            for name, own in answers.items()
        }
        for i in range(6)
    ]
    write(tmp_path / "p.jsonl", lines)
    assert ruler("score", "p.jsonl", "s.jsonl", "-m", "offline").returncode == 0
    done = ruler("agree", "s.jsonl")
    assert done.returncode == 0, done.stderr
    assert "or the outcome" in " ".join(done.stdout.split())
    assert "6 mixed" in done.stdout


def test_left_out(ruler: Ruler, tmp_path: Path) -> None:
    """Rollouts without a score or a label are counted, and the exit code is 1."""
    failed = trajectory("g0", None, 1.0, "x")
    failed["ruler"] = {
        "status": "failed",
        "kind": "refused",
        "reason": "no",
        "independent_reward": 1.0,
    }
    write(tmp_path / "s.jsonl", [*dump(), failed, trajectory("g1", 0.5, None)])
    done = ruler("agree", "s.jsonl")
    assert done.returncode == 1
    assert "1 not scored, 1 without a label" in done.stdout
    sentence = "ruler: 1 not scored, 1 without a label: not measured, so the exit code is 1\n"
    assert done.stderr == sentence
    assert ruler("agree", "s.jsonl", "--json").stderr == sentence
    assert rows(done.stdout)["pairwise accuracy"].startswith("0.833")


def test_nothing_to_compare(ruler: Ruler, tmp_path: Path) -> None:
    """A file without scores, or without labels, is bad usage, and the sentence names the way out."""
    cases: list[tuple[list[Any], str]] = [
        (
            [{"group_id": "g", "messages": talk("a"), "reward": 1}],
            "score it first",
        ),
        ([], "holds no records"),
        (
            [trajectory("g", 0.5, 1.0), trajectory("g", 0.7, 1.0)],
            "s.jsonl: nothing to compare: all labels within each group are equal",
        ),
        ([trajectory("g", 0.5, None)], "--labels PATH"),
        (
            [trajectory("g", "x", 1.0), trajectory("g", None, 0.0)],
            "no rollout has a score",
        ),
        (
            [{"group_id": "g", "messages": talk("a"), "ruler": "mine"}],
            "did not write",
        ),
    ]
    for records, message in cases:
        write(tmp_path / "s.jsonl", records)
        done = ruler("agree", "s.jsonl", "--json")
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr


def test_empty_groups(ruler: Ruler, tmp_path: Path) -> None:
    """Groups without a rollout count for nothing, and are not called the same."""
    empty = [
        {"group_id": name, "trajectories": [], "ruler": {"status": "failed"}}
        for name in "ab"
    ]
    sides = dump(2)[:2]
    rollouts = [
        {name: side[name] for name in ("messages", "reward", "ruler")}
        for side in sides
    ]
    full = {
        "group_id": "g",
        "trajectories": rollouts,
        "ruler": {"status": "scored"},
    }
    write(tmp_path / "s.jsonl", [full, *empty])
    done = ruler("agree", "s.jsonl", "--json")
    page = json.loads(done.stdout)
    assert (page["groups"], page["compared"], page["repeated"]) == (1, 2, 0)
    assert "not counted again" not in done.stderr


def test_hostile_annotations(ruler: Ruler, tmp_path: Path) -> None:
    """A value that is no number is named or ignored, and never ends the command."""
    odd: list[Any] = [
        "x",
        "0.5",
        [],
        [0.5],
        {},
        None,
        True,
        float("nan"),
        10**400,
        1e308,
        -1,
        "\x1b[2J",
    ]
    fields = ("score", "judge", "judges", "slots", "independent_reward")
    hostile = [
        {**annotation(0.5, 1.0), field: value}
        for field in fields
        for value in (*odd, {"\x1b[2J": "y"}, [{}])
    ]
    hostile += [
        annotation(0.5, 1.0, group={"cost_usd": value}) for value in odd
    ]
    rollouts = [
        trajectory(f"h{i // 2}", 0.5, 1.0) | {"ruler": one}
        for i, one in enumerate(hostile)
    ]
    text = "".join(
        json.dumps(r).replace("1e+308", "1e400") + "\n"
        for r in [*dump(), *rollouts]
    )
    (tmp_path / "s.jsonl").write_text(text)
    for more in ([], ["--json"]):
        done = ruler("agree", "s.jsonl", *more)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stdout + done.stderr
    counted = json.loads(ruler("agree", "s.jsonl", "--json").stdout)["inputs"][
        0
    ]
    assert counted["rollouts"] == 12 + len(hostile)
    assert counted["odd_scores"] == len(odd) + 1


def test_hostile_names(ruler: Ruler, tmp_path: Path) -> None:
    """Names of judges and groups send no escape code to the terminal and begin no line."""
    judges = {"a\npairwise accuracy": 0.5, "b\x1b[2J": 0.5}
    write(
        tmp_path / "s.jsonl",
        dump(judge="m\npairwise accuracy 1.0\x1b[2J", judges=judges),
    )
    output = ruler("agree", "s.jsonl").stdout
    assert "\x1b" not in output
    assert (
        sum(
            line.startswith("pairwise accuracy") for line in output.splitlines()
        )
        == 1
    )


def test_deep_groups(ruler: Ruler, tmp_path: Path) -> None:
    """Groups whose messages are too deep to be told apart by content are not taken for one."""
    lines = []
    for depth in range(880, 1000, 2):
        for score, label in ((0.2, 0.0), (0.8, 1.0)):
            one = trajectory(f"g{depth}", score, label)
            one["messages"][-1]["content"] = [
                {"type": "text", "text": "a", "deep": 0}
            ]
            deep = "[" * depth + "]" * depth
            lines.append(
                json.dumps(one).replace('"deep": 0', f'"deep": {deep}')
            )
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    found = json.loads(ruler("agree", "s.jsonl", "--json").stdout)
    assert found["repeated"] == 0
    assert found["scorers"][0]["pairs"] == found["groups"] > 20


def test_blended_scores(ruler: Ruler, tmp_path: Path) -> None:
    """Agreement is that of the judges' own scores, even if the scores in the file are blended with labels."""
    records = dump()
    write(tmp_path / "plain.jsonl", records)
    for record in records:
        annotation = record["ruler"]
        annotation |= {
            "judge_score": annotation["score"],
            "score": annotation["independent_reward"],
        }
        record["reward"] = annotation["score"]
    write(tmp_path / "moved.jsonl", records)
    before, after = (
        json.loads(ruler("agree", f, "--json").stdout)
        for f in ("plain.jsonl", "moved.jsonl")
    )
    assert before["scorers"] == after["scorers"]
    assert (before["inputs"][0]["moved"], after["inputs"][0]["moved"]) == (
        0,
        12,
    )
    assert "the judges' own" in ruler("agree", "moved.jsonl").stdout
    assert "the judges' own" not in ruler("agree", "plain.jsonl").stdout
