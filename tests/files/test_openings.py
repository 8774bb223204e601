"""Rollouts without a task, groups of several tasks, and files that number their keys from the start."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from ruler_cli.runs.file import score
from ruler_cli.runs.input import Input, open_input
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from ruler_cli.types import Observer
from tests.command import Done
from tests.conftest import Ruler, read, write
from tests.values import talk

ANSWER = {"role": "assistant", "content": "42"}


def rollout_of(task: str, answer: str = "42", **more: Any) -> dict[str, Any]:
    """Make a rollout of a task."""
    output = [
        {"role": "user", "content": task},
        {"role": "assistant", "content": answer},
    ]
    return {"task_id": 0, "messages": output, **more}


def opened(path: Path, **reported: Any) -> tuple[Input, list[str]]:
    """Open an input; return it, and the keys of its groups."""
    with ExitStack() as stack:
        result = open_input(
            InputSettings(str(path), **reported), stack, lambda problem: None
        )
        return result, [group.key for group in result.groups]


def warnings(result: Input) -> str:
    """Return the warnings about an input."""
    assert result.survey is not None
    return "\n".join(result.survey.warnings())


def mixed_groups(result: Input) -> int:
    """Return the number of groups that begin differently."""
    assert result.survey is not None
    return result.survey.mixed


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        ([ANSWER], False),
        ([{"role": "user", "content": " "}, ANSWER], False),
        ([ANSWER, {"role": "tool", "content": "sunny"}, ANSWER], False),
        ([{"role": "system", "content": "Be brief."}, ANSWER], True),
        ([{"role": "user", "content": [{"type": "image_url"}]}, ANSWER], True),
        ([ANSWER, {"role": "user", "content": "6 times 7?"}, ANSWER], True),
        (
            [
                {
                    "role": "transcript",
                    "content": "user: 6 times 7? assistant: 42",
                }
            ],
            True,
        ),
    ],
)
def test_no_task(messages: list[Any], shown: bool, tmp_path: Path) -> None:
    """A rollout without a message before the agent's first turn is counted, with advice."""
    path = write(
        tmp_path / "in.jsonl",
        [{"task_id": 1, "messages": m} for m in (talk("1"), messages)],
    )
    result, _ = opened(path)
    reported = "1 rollout without a task: nothing precedes the agent's first turn (first: line 2)"
    assert (reported in warnings(result)) is not shown
    assert result.survey and result.survey.taskless == (not shown)


def test_odd_roles(tmp_path: Path) -> None:
    """A role that is not text, beside content that is none, is an opening like any other."""
    odd = [{"role": ["x"], "content": ["q", 10**30]}, ANSWER]
    result, keys = opened(
        write(tmp_path / "in.jsonl", [{"task_id": 1, "messages": odd}] * 2)
    )
    assert (keys, mixed_groups(result)) == (["1"], 0)


def test_two_tasks_in_a_group(tmp_path: Path, ruler: Ruler) -> None:
    """Groups of rollouts that begin differently get one warning, from a file and from a pipe."""
    records = [
        rollout_of("a"),
        rollout_of("a"),
        {**rollout_of("b"), "task_id": 1},
        {**rollout_of("c"), "task_id": 1},
    ]
    path = write(tmp_path / "in.jsonl", records)
    reported = "the rollouts of 1 group begin differently (first: line 3), as if they were different tasks"
    done: list[Done] = [
        ruler("score", str(path), "out.jsonl", "-m", "offline"),
        ruler(
            "score", "-", "out.jsonl", "-m", "offline", stdin=path.read_text()
        ),
        ruler("check", str(path), "-m", "offline"),
        ruler("check", "-", "-m", "offline", stdin=path.read_text()),
    ]
    for one in done:
        assert one.returncode == 0
        assert (
            " ".join(f"{one.stdout} {one.stderr}".split()).count(reported) == 1
        )


def test_two_tasks_in_a_line(tmp_path: Path) -> None:
    """A record that is a group is checked by itself; parts of one rollout may begin differently."""
    mixed = {
        "group_id": "m",
        "trajectories": [rollout_of("a"), rollout_of("b")],
    }
    result, _ = opened(
        write(
            tmp_path / "in.jsonl",
            [{"trajectories": [rollout_of("a")] * 2}, mixed],
        )
    )
    assert mixed_groups(result) == 1
    assert "(first: line 2)" in warnings(result)
    parts = [
        {
            "uid": f"u_0_{i}",
            "input": f"q {i}",
            "output": "x",
            "score": 1.0,
            "step": 1,
        }
        for i in range(3)
    ]
    result, _ = opened(write(tmp_path / "verl.jsonl", parts))
    assert not mixed_groups(result)


def test_simulated_users(tmp_path: Path) -> None:
    """If a model plays the user, first user messages differ, and only system messages are compared."""
    system = {"role": "system", "content": "the airline's rules"}
    lines = [
        {
            "task_id": 0,
            "trial": i,
            "reward": 1.0,
            "traj": [system, *talk(str(i), question=f"hello {i}")],
        }
        for i in range(3)
    ]
    result, _ = opened(write(tmp_path / "in.jsonl", lines))
    assert not mixed_groups(result)
    lines[1]["traj"] = [
        {"role": "system", "content": "the shop's rules"},
        *talk("x"),
    ]
    result, _ = opened(write(tmp_path / "in.jsonl", lines))
    assert mixed_groups(result) == 1


def test_one_group(tmp_path: Path) -> None:
    """A dump of one task is warned about if it has no key, or if its rollouts begin differently."""
    alike, mixed = (
        [rollout_of("a", n) for n in "12"],
        [rollout_of("a"), rollout_of("b")],
    )
    unkeyed = [{"messages": one["messages"]} for one in alike]
    for number, (records, key, warned) in enumerate(
        (
            (alike, "`task_id`", False),
            (mixed, "`task_id`", True),
            (unkeyed, "hash of the prompt", True),
        )
    ):
        result, keys = opened(write(tmp_path / f"{number}.jsonl", records))
        assert len(keys) == 1
        assert ("all 2 records are one group" in warnings(result)) is warned
        assert key in result.brief()


def test_prompts_compared(tmp_path: Path) -> None:
    """Prompts of one test of promptfoo may differ: they are what its dump compares."""
    lines = [
        {
            "testIdx": 0,
            "promptIdx": number,
            "prompt": {"raw": f"{how}: 6 times 7?"},
            "vars": {"x": "6 times 7"},
            "response": {"output": "42"},
            "score": 1,
        }
        for number, how in enumerate(("Briefly", "At length"))
    ]
    path = write(tmp_path / "in.jsonl", lines)
    result, keys = opened(path)
    assert (len(keys), result.reader and result.reader.format.family) == (
        1,
        "promptfoo",
    )
    assert warnings(result) == ""


@pytest.mark.parametrize(
    ("files", "keys", "description"),
    [
        # keys that start at 0 in each folder, whose files are seeds of one task
        (
            {
                "math/1.jsonl": "6*7?",
                "math/2.jsonl": "6*7?",
                "geo/1.jsonl": "Oslo?",
            },
            ["geo: 0", "math: 0"],
            "within its folder",
        ),
        (
            {"a.jsonl": "6*7?", "b.jsonl": "Oslo?"},
            ["a.jsonl: 0", "b.jsonl: 0"],
            "within its file",
        ),
        # one task over several files
        (
            {"seed-1.jsonl": "6*7?", "seed-2.jsonl": "6*7?"},
            ["0"],
            "key `task_id`: 4 records",
        ),
    ],
)
def test_several_files(
    files: dict[str, str], keys: list[str], description: str, tmp_path: Path
) -> None:
    """A key that is another task's in another file gets the folder or the file, as the description says."""
    for name, task in files.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        write(
            tmp_path / "in" / name,
            [rollout_of(task, "1"), rollout_of(task, "2")],
        )
    result, seen = opened(tmp_path / "in")
    assert seen == keys
    assert description in result.brief()
    assert "begin differently" not in warnings(result)
    _, named = opened(tmp_path / "in", group_by="task_id")
    assert named == ["0"]


def test_tasks_of_logs(tmp_path: Path) -> None:
    """Logs that name their task keep equal ids of different tasks apart, even if they begin alike."""
    for number, domain in enumerate(["airline", "retail", "airline"]):
        one = {
            "id": "s",
            "task_id": "0",
            "reward_info": {"reward": 1.0},
            "messages": talk("x", question="same"),
        }
        head = {
            "info": {"environment_info": {"domain_name": domain}},
            "tasks": [],
            "simulations": [one, one],
        }
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps(head))
    result, keys = opened(tmp_path / "in")
    assert keys == ["airline: 0", "retail: 0"]
    assert "key `task_id` within its task" in result.brief()


def test_environments_beside(tmp_path: Path) -> None:
    """The environment that verifiers names beside its results is a part of the key."""
    for env, run in (("gsm8k", "a"), ("gsm8k", "b"), ("wordle", "a")):
        folder = tmp_path / "in" / f"{env}--m" / run
        folder.mkdir(parents=True)
        row = {
            "example_id": 0,
            "prompt": f"play {env}",
            "completion": "42",
            "reward": 1.0,
        }
        write(folder / "results.jsonl", [row])
        (folder / "metadata.json").write_text(json.dumps({"env_id": env}))
    _, keys = opened(tmp_path / "in")
    assert keys == ["gsm8k: 0", "wordle: 0"]


def test_labels_in_output(tmp_path: Path, ruler: Ruler) -> None:
    """The scored file of a directory with labelled keys has the groups of the run, which name their files."""
    for name in ("a", "b"):
        (tmp_path / "in").mkdir(exist_ok=True)
        write(
            tmp_path / "in" / f"{name}.jsonl",
            [
                rollout_of(name, "1", reward=1.0),
                rollout_of(name, "2", reward=0.0),
            ],
        )
    assert ruler("score", "in", "out.jsonl", "-m", "offline").returncode == 0
    keys = [
        record["ruler"]["group"]["key"]
        for record in read(tmp_path / "out.jsonl")
    ]
    assert keys == ["a.jsonl: 0"] * 2 + ["b.jsonl: 0"] * 2
    reported = json.loads(ruler("report", "out.jsonl", "--json").stdout)
    assert reported["figures"]["groups"]["all"] == 2
    checked = json.loads(ruler("check", "in", "-m", "offline", "--json").stdout)
    assert (
        checked["groups"],
        checked["records"],
        checked["cannot_be_scored"],
    ) == (
        2,
        4,
        0,
    )


def test_problems_reported_once(tmp_path: Path) -> None:
    """A second pass over the files, for keys with labels, reports nothing twice."""
    reported: list[str] = []

    class Listener(Observer):
        def problem(self, problem: Any) -> None:
            reported.append(problem.reason)

    for name in ("a", "b"):
        (tmp_path / "in").mkdir(exist_ok=True)
        bad = {"task_id": 0, "messages": [{"role": "user", "content": "x"}]}
        path = write(
            tmp_path / "in" / f"{name}.jsonl",
            [rollout_of(name), rollout_of(name, "7"), bad],
        )
        path.write_text(path.read_text() + "broken\n")
    settings = ScoreSettings(
        InputSettings(str(tmp_path / "in")),
        str(tmp_path / "out.jsonl"),
        JudgeSettings("offline"),
    )
    done = anyio.run(score, settings, Listener())
    assert (
        sorted(reason[:20] for reason in reported)
        == ["has no turn of the a"] * 2 + ["is not JSON (unexpec"] * 2
    )
    assert done.summary.rollouts == 6


@pytest.mark.parametrize("ruled", [True, False])
def test_no_rules(ruled: bool, tmp_path: Path) -> None:
    """In a benchmark with a simulated user, rollouts without a system message are counted."""
    rules = [{"role": "system", "content": "Be brief."}] if ruled else []
    run = {
        "task_id": "1",
        "reward_info": {"reward": 1},
        "messages": [*rules, ANSWER, *talk("42")],
    }
    result, _ = opened(write(tmp_path / "in.jsonl", [run, run]))
    assert (
        "2 rollouts without rules for the agent" in warnings(result)
    ) is not ruled


def test_unusual_beginnings(tmp_path: Path) -> None:
    """A greeting or an observation before the task is in a group key that is a hash, with a warning."""
    task, answer = talk("1")
    pages = [{"role": "tool", "content": page} for page in ("a", "b")]
    greeted = [[ANSWER, task, answer]] * 2
    observed = [[task, page, answer] for page in pages]
    for number, rollouts in enumerate((greeted, observed), 1):
        records = [{"messages": messages} for messages in rollouts]
        result, keys = opened(write(tmp_path / f"{number}.jsonl", records))
        assert len(keys) == number
        assert "2 rollouts in which the agent begins, or" in warnings(result)
