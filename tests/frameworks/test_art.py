"""The recipe for ART, and ART's own functions, with its trajectories, its gathering and its log."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ruler_cli
from tests.frameworks.conftest import Recipe
from tests.judge_server import JudgeServer

art = pytest.importorskip("art")
pytestmark = pytest.mark.anyio

PRICED = {"ledger=None": "price=(1.0, 2.0),\n    ledger=None"}


@pytest.fixture
def model(tmp_path: Path) -> Any:
    """A model of ART that writes its log into a folder and has no backend."""
    return art.Model(
        name="agent",
        project="recipes",
        base_path=str(tmp_path),
        report_metrics=[],
    )


class Logged:
    """A model whose training is ART's log of a step, which computes with each reward."""

    def __init__(self, model: Any) -> None:
        self.model, self.steps = model, list[list[Any]]()
        self.activate_metrics_context = model.activate_metrics_context

    async def train(self, groups: list[Any]) -> None:
        """Log the groups of a step."""
        self.steps.append(groups)
        await self.model.log(groups, split="train", step=len(self.steps))

    def metrics(self) -> list[dict[str, float]]:
        """The rows of the log."""
        (path,) = Path(self.model.base_path).rglob("history.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]


def trajectory(task: str, answer: str, reward: float = 0.0) -> Any:
    """A rollout as ART's users record it; without an answer the agent said nothing."""
    choice = {
        "finish_reason": "stop",
        "index": 0,
        "message": {"role": "assistant", "content": answer},
        "logprobs": None,
    }
    choices = pytest.importorskip("openai.types.chat.chat_completion")
    answers = [choices.Choice.model_validate(choice)] if answer else []
    return art.Trajectory(
        messages_and_choices=[{"role": "user", "content": task}, *answers],
        reward=reward,
    )


class Rollouts:
    """Rollouts of which the last of each group has no agent turn."""

    def __init__(self) -> None:
        self.made = 0

    async def __call__(self, model: Any, task: str) -> Any:
        """Make the next one."""
        self.made += 1
        number = (self.made - 1) % 8
        return trajectory(
            task,
            f"answer {number} truth=0.{number}" if number < 7 else "",
            reward=0.5,
        )


async def test_steps(recipe: Recipe, model: Any) -> None:
    """Groups of each step hold scores as rewards and no trajectory without one; ART's log takes them."""
    module, logged = recipe("art_loop", PRICED), Logged(model)
    await module.train(
        logged, Rollouts(), ["Cancel order 17.", "Say hello."], 2
    )
    assert len(logged.steps) == 2
    for step in logged.steps:
        for group in step:
            assert isinstance(group, art.TrajectoryGroup)
            rewards = sorted(member.reward for member in group.trajectories)
            assert rewards == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
            for member in group.trajectories:
                assert member.metrics["ruler_score"] == member.reward
                assert member.metrics["independent_reward"] == 0.5
                assert member.logs[-1].startswith("RULER explanation: ")
    first, second = logged.metrics()
    assert first["train/reward"] == pytest.approx(0.3)
    assert second["costs/train/judge/ruler"] > 0


async def test_cost_like_arts_own(model: Any, server: JudgeServer) -> None:
    """The cost of the judge stands in the log under the name that ART's own judge gives it."""
    logged = Logged(model)
    logged.activate_metrics_context("train")
    judge = ruler_cli.load_settings(
        model="openai/good", api_base=server.base, price=(1.0, 2.0), ledger=None
    )
    group = art.TrajectoryGroup(
        [trajectory("Say hello.", f"truth=0.{at}") for at in (2, 9)]
    )
    async with ruler_cli.Scorer(judge) as scorer:
        judged = await scorer.score(group)
    await logged.train([judged.group])
    (row,) = logged.metrics()
    assert row["costs/train/judge/ruler"] == pytest.approx(
        judged.fields["cost_usd"]
    )
    assert (
        row["costs/train/judge"]
        == row["costs/train"]
        == row["costs/train/judge/ruler"]
    )


async def test_without_an_agent_turn(model: Any, server: JudgeServer) -> None:
    """A rollout without an agent turn is left out by `score_group`, also if errors are swallowed."""
    task = "Cancel order 17."
    group = art.TrajectoryGroup(
        [
            trajectory(task, "truth=0.2"),
            trajectory(task, ""),
            trajectory(task, "truth=0.9"),
        ]
    )
    for swallow in (False, True):
        scored = await ruler_cli.score_group(
            group,
            "openai/good",
            {"api_base": server.base},
            swallow_exceptions=swallow,
        )
        assert scored is not None
        assert [member.reward for member in scored.trajectories] == [0.2, 0.9]
        await Logged(model).train([scored])
    assert len(group.trajectories) == 3


async def test_recorded_exchanges(server: JudgeServer) -> None:
    """Trajectories that recorded the calls of a client are judged by them, where ART has such."""
    kinds = pytest.importorskip("art.trajectories")
    if not hasattr(kinds, "ChatCompletionsExchange"):
        pytest.skip("this ART records no exchanges")
    chat = pytest.importorskip("openai.types.chat")

    def recorded(answer: str) -> Any:
        now = datetime.now(UTC)
        message = {"role": "assistant", "content": answer}
        choice = {"finish_reason": "stop", "index": 0, "message": message}
        reply = {
            "id": "1",
            "created": 1,
            "model": "m",
            "object": "chat.completion",
            "choices": [choice],
        }
        exchange = kinds.ChatCompletionsExchange(
            request={
                "model": "m",
                "messages": [{"role": "user", "content": "Say hello."}],
            },
            response=chat.ChatCompletion.model_validate(reply),
            start_time=now,
            end_time=now,
        )
        return art.Trajectory(
            exchanges=kinds.TrajectoryExchanges(chat_completions=[exchange])
        )

    group = art.TrajectoryGroup([recorded("truth=0.2"), recorded("truth=0.9")])
    scored: Any = await ruler_cli.score_group(
        group, "openai/good", {"api_base": server.base}
    )
    assert [member.reward for member in scored.trajectories] == [0.2, 0.9]
