"""The Python API: ART's functions, with ART's objects."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import ruler_cli
from ruler_cli import JudgeSettings, ScoreSettings
from ruler_cli.errors import RulerError, UsageError, WrongShapeError
from tests.conftest import group, rollout, write
from tests.judge_server import JudgeServer

pytestmark = pytest.mark.anyio


class Trajectory(BaseModel):
    """The attributes of ART's Trajectory."""

    messages_and_choices: list[Any]
    tools: list[Any] | None = None
    additional_histories: list[Any] = []
    reward: float = 0.0
    metrics: dict[str, float | int | bool] = {}
    metadata: dict[str, Any] = {}
    logs: list[str] = []

    def messages(self) -> list[Any]:
        """Return the messages: a method, as in ART."""
        return self.messages_and_choices


class TrajectoryGroup(BaseModel):
    """The attributes of ART's TrajectoryGroup."""

    trajectories: list[Trajectory]
    exceptions: list[Any] = []
    metadata: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    logs: list[str] = []


class Choice(BaseModel):
    """An OpenAI Choice, without a role."""

    finish_reason: str
    index: int
    message: dict[str, Any]


def art_group() -> TrajectoryGroup:
    """A group as an ART rollout makes it."""
    return TrajectoryGroup(
        trajectories=[
            Trajectory(
                messages_and_choices=[
                    {"role": "user", "content": "q"},
                    Choice(
                        finish_reason="stop",
                        index=0,
                        message={
                            "role": "assistant",
                            "content": f"n{i} truth={truth}",
                        },
                    ),
                ],
                reward=float(i),
                metrics={"correct": True},
                metadata={"scenario_id": "s"},
                logs=["log"],
            )
            for i, truth in enumerate((0.2, 0.9, 0.4))
        ],
        exceptions=["boom"],
        metadata={"scenario_id": "s"},
        metrics={"m": 1},
        logs=["group log"],
    )


async def test_art_object(server: JudgeServer) -> None:
    """An ART-shaped group goes through unchanged and comes back scored, with all its fields."""
    before = art_group()
    original = copy.deepcopy(before)
    after: Any = await ruler_cli.score_group(
        before, "openai/good", {"api_base": server.base}
    )
    assert before == original
    assert isinstance(after, TrajectoryGroup)
    assert [t.reward for t in after.trajectories] == [0.2, 0.9, 0.4]
    for i, trajectory in enumerate(after.trajectories):
        assert trajectory.metrics == {
            "correct": True,
            "independent_reward": float(i),
            "ruler_score": trajectory.reward,
        }
        assert trajectory.logs[0] == "log"
        assert trajectory.logs[1].startswith("RULER explanation: ")
        assert trajectory.metadata == {"scenario_id": "s"}
        assert (
            trajectory.messages_and_choices
            == original.trajectories[i].messages_and_choices
        )
    assert (after.exceptions, after.metadata, after.metrics) == (
        original.exceptions,
        original.metadata,
        original.metrics,
    )
    assert after.logs == original.logs
    again: Any = await ruler_cli.score_group(
        after, "openai/good", {"api_base": server.base}
    )
    assert [t.metrics["independent_reward"] for t in again.trajectories] == [
        0.0,
        1.0,
        2.0,
    ]
    assert all(len(t.logs) == 2 for t in again.trajectories)


async def test_dict() -> None:
    """A dict of the file format comes back as a dict, and the argument does not change."""
    before = group("g", 0.1, 0.9)
    original = copy.deepcopy(before)
    after: Any = await ruler_cli.score_group(before, "offline")
    assert before == original
    assert after["ruler"]["status"] == "scored"
    assert [
        t["ruler"]["independent_reward"] for t in after["trajectories"]
    ] == [
        0.0,
        1.0,
    ]
    empty: dict[str, list[object]] = {"trajectories": []}
    assert await ruler_cli.score_group(empty, "offline") == empty


async def test_message_lists(server: JudgeServer) -> None:
    """Scores come back in the order of the conversations."""
    lists = [rollout(t, str(t))["messages"] for t in (0.7, 0.1, 0.4)]
    result = await ruler_cli.ruler(
        lists, "openai/good", {"api_base": server.base}, tools=[{"name": "f"}]
    )
    assert [s.score for s in result] == [0.7, 0.1, 0.4]
    assert all(s.explanation for s in result)
    assert await ruler_cli.ruler([]) == []


async def test_failures(
    server: JudgeServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A group that cannot be scored raises, or gives None with `swallow_exceptions`."""
    caplog.set_level("INFO", "ruler_cli")
    bad = group("g", 0.1, 0.9)
    where = {"api_base": server.base}
    with pytest.raises(RulerError, match="reply"):
        await ruler_cli.score_group(bad, "openai/empty", where)
    assert (
        await ruler_cli.score_group(
            bad, "openai/empty", where, swallow_exceptions=True
        )
        is None
    )
    with pytest.raises(RulerError, match="reply"):
        await ruler_cli.ruler(
            [rollout(0.1)["messages"]], "openai/not-json", where, debug=True
        )
    assert "judge on group" in caplog.text
    with pytest.raises(RulerError, match="input"):
        await ruler_cli.ruler([[], rollout(0.1)["messages"]], "offline")


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"timeout": "soon"}, "timeout: 'soon' is not a number"),
        ({"timeout": -1}, "timeout: -1 is not 0.001 or more"),
        ({"num_retries": [1]}, r"retries: \[1\] is not a whole number"),
        ({"max_retries": math.inf}, "retries: inf is not a whole number"),
        ({"api_base": 5}, "--api-base: 5 is not a text"),
        ({"api_key": 5}, "api_key: 5 is not a text"),
        ("timeout=5", "extra_litellm_params: is of type str; give a dict"),
    ],
)
async def test_wrong_parameters(params: Any, problem: str) -> None:
    """A parameter that cannot be is a UsageError that names it, before any call."""
    with pytest.raises(UsageError, match=problem):
        await ruler_cli.score_group(group("g", 0.1, 0.9), "openai/good", params)


async def test_swallowed_errors(caplog: pytest.LogCaptureFixture) -> None:
    """With `swallow_exceptions` any error while a group is scored is a warning; no group stays an error."""
    one = group("g", 0.1, 0.9)
    for given, model, params, cause in (
        (one, "openai/o3", None, "OPENAI_API_KEY"),
        (one, "offline", {"timeout": "soon"}, "timeout: 'soon'"),
        (one, 5, None, "-m: 5 is not a text"),
    ):
        caplog.clear()
        model_name: Any = model
        assert (
            await ruler_cli.score_group(
                given, model_name, params, swallow_exceptions=True
            )
            is None
        )
        assert ("ruler_cli", "WARNING") in [
            (record.name, record.levelname) for record in caplog.records
        ]
        assert cause in caplog.text
    one["tools"] = [print]
    with pytest.raises(WrongShapeError, match="`tools` holds a value"):
        await ruler_cli.score_group(one, "offline", swallow_exceptions=True)


async def test_without_a_reward(caplog: pytest.LogCaptureFixture) -> None:
    """An object whose reward would be None is left out of the copy, with a warning; a dict stays in it."""
    silent = [{"role": "user", "content": "q"}]
    before = art_group()
    before.trajectories.insert(
        1, Trajectory(messages_and_choices=silent, reward=0.5)
    )
    after: Any = await ruler_cli.score_group(before, "offline")
    assert [t.metrics["independent_reward"] for t in after.trajectories] == [
        0.0,
        1.0,
        2.0,
    ]
    assert len(before.trajectories) == 4
    assert (
        "s: trajectory 2 is left out of the scored copy: has no turn of the agent to judge"
        in caplog.text
    )
    dicts = group("g", 0.1, 0.9)
    dicts["trajectories"][0]["messages"].pop()
    assert [
        t["reward"] is None
        for t in (await ruler_cli.score_group(dicts, "offline") or {})[
            "trajectories"
        ]
    ] == [True, False]
    async with ruler_cli.Scorer(
        ScoreSettings(judge=JudgeSettings("offline"), ledger=None)
    ) as scorer:
        judged = await scorer.score(before)
        silenced = await scorer.score(
            TrajectoryGroup(trajectories=[before.trajectories[1]])
        )
    assert [score is None for score in judged.scores] == [
        False,
        True,
        False,
        False,
    ]
    assert "no turn of the agent" in judged.trajectories[1]["reason"]
    assert (silenced.failed, silenced.group.trajectories) == (True, [])


async def test_recorded_exchanges() -> None:
    """An ART object that recorded the calls of a client is judged by them."""

    class Recorded(Trajectory):
        exchanges: dict[str, list[Any]]

    def recorded(answer: str) -> Recorded:
        request = {
            "messages": [{"role": "user", "content": "Cancel order 17."}]
        }
        response = {
            "choices": [{"message": {"role": "assistant", "content": answer}}]
        }
        exchanges = {
            "chat_completions": [{"request": request, "response": response}]
        }
        return Recorded(messages_and_choices=[], exchanges=exchanges)

    answers = ("Order 17 is cancelled.", "I cannot cancel orders, sorry.")
    group_of_two = TrajectoryGroup(
        trajectories=[recorded(answer) for answer in answers]
    )
    after: Any = await ruler_cli.score_group(group_of_two, "offline")
    best, worst = after.trajectories
    assert best.reward > worst.reward


def test_reader_who_leaves(tmp_path: Path) -> None:
    """`score_file` into a pipe that nobody reads to its end returns, as the command ends with exit code 0."""
    source = write(
        tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(300)]
    )
    program = (
        "import asyncio, sys, ruler_cli as r;"
        f"asyncio.run(r.score_file({str(source)!r}, '-', r.ScoreSettings(judge=r.JudgeSettings('offline'))));"
        "print('returned', file=sys.stderr)"
    )
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as done:
        assert done.stdout and done.stdout.readline()
        done.stdout.close()
        # after it Python itself may complain that stdout is closed
        assert done.stderr and done.stderr.read().startswith(b"returned\n")


async def test_litellm_parameters(server: JudgeServer) -> None:
    """A key, an endpoint and retries among the parameters take effect and are never part of the body."""
    params = {
        "base_url": server.base,
        "api_key": "sk-mine-123456",
        "num_retries": 1,
        "temperature": 0.1,
    }
    await ruler_cli.ruler([rollout(0.1)["messages"]], "openai/once-429", params)
    body = server.requests()[0]
    assert body["temperature"] == 0.1
    assert not {"api_key", "base_url", "num_retries"} & set(body)
    assert server.stats()["keys"] == ["Bearer sk-mine-123456"]


def test_unknown_name() -> None:
    """The package has the names that it lists, and no others."""
    with pytest.raises(AttributeError, match="nothing"):
        _ = ruler_cli.nothing
