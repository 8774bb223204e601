"""The recipe for verifiers: an environment whose episodes are run with an agent that a test scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.frameworks.conftest import Recipe

vf = pytest.importorskip("verifiers.v1")
pytestmark = pytest.mark.anyio

TASKS = '''
import openai
import verifiers.v1 as vf

__all__ = ["Orders", "Script"]


class Order(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    """A task without a reward of its own."""


class Orders(vf.Taskset[Order, vf.TasksetConfig]):
    def load(self):
        return [Order(vf.TaskData(prompt="Cancel order 17."), self.config.task)]


class Script(vf.Harness[vf.HarnessConfig]):
    """An agent that asks the model once, in this process."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        async with openai.AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            messages = [{"role": "user", "content": data.prompt}]
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(0, "", "")
'''


@pytest.fixture
async def agent() -> AsyncIterator[str]:
    """The address of a model whose answers are `truth=0.1`, `truth=0.2` and so on."""
    answers = iter(range(1, 10))

    async def answer(request: web.Request) -> web.Response:
        message = {
            "role": "assistant",
            "content": f"Cancelled. truth=0.{next(answers)}",
        }
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "agent",
        }
        return web.json_response({**reply, "choices": choices, "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a task set and agent that verifiers finds."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("AGENT_KEY", "none")
    (tmp_path / "orders_of_a_test.py").write_text(TASKS)
    yield "orders_of_a_test"


async def episode_of(module: Any, tasks: str, agent: str) -> Any:
    """Run one episode of the recipe's environment with three attempts."""
    clients = pytest.importorskip("verifiers.v1.clients")
    seat = {"harness": {"id": tasks}, "runtime": {"type": "subprocess"}}
    config = {
        "id": module.__name__,
        "taskset": {"id": tasks},
        "n": 3,
        "agent": seat,
    }
    env = module.RulerEnv(module.RulerEnvConfig.model_validate(config))
    client = clients.EvalClientConfig(base_url=agent, api_key_var="AGENT_KEY")
    context = clients.ModelContext(
        client=client, model="agent", sampling=vf.SamplingConfig()
    )
    (task,) = env.taskset.load()
    async with env.serving():
        (slot,) = env.slots(task)
        return await env.run_slot(slot, context)


async def test_attempts_are_scored_side_by_side(
    recipe: Recipe, tasks: str, agent: str
) -> None:
    """Each attempt of an episode gets the score of its messages as a reward."""
    episode = await episode_of(recipe("ruler_env"), tasks, agent)
    assert (episode.ok, episode.errors) == (True, [])
    rewards = {
        trace.messages[-1].content: trace.reward for trace in episode.traces
    }
    assert rewards == {f"Cancelled. truth=0.{at}": at / 10 for at in (1, 2, 3)}
    assert all(set(trace.rewards) == {"ruler"} for trace in episode.traces)


@pytest.mark.parametrize(
    ("model", "reason"), [("not-json", "not scored"), ("401", "answered 401")]
)
async def test_an_episode_without_scores_fails(
    recipe: Recipe, tasks: str, agent: str, model: str, reason: str
) -> None:
    """If a group could not be scored or the judge refuses the run, the episode fails with the reason."""
    module = recipe("ruler_env", {"Qwen/Qwen3-32B": model})
    episode = await episode_of(module, tasks, agent)
    assert not episode.ok
    assert reason in episode.errors[0].message
    assert [trace.rewards for trace in episode.traces] == [{}] * 3
