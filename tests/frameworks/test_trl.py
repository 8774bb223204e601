"""The recipe for TRL, in `GRPOTrainer` on the CPU with a model of random weights."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ruler_cli
from tests.conftest import ROOT
from tests.frameworks.conftest import Recipe
from tests.frameworks.tiny_model import tiny_model, tiny_tokenizer
from tests.judge_server import JudgeServer

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

GENERATIONS = 4
PROMPTS = ["Cancel order 17.", "Say hello.", "Sing a song.", "Count to three."]
Train = Callable[..., Any]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Train for some steps of two groups with reward functions; return the trainer."""

    def run(*functions: Any, steps: int = 2, prompts: Any = PROMPTS) -> Any:
        tokenizer = tiny_tokenizer()
        trainer = trl.GRPOTrainer(
            model=tiny_model(len(tokenizer)),
            reward_funcs=list(functions),
            args=trl.GRPOConfig(
                output_dir=str(tmp_path / "trained"),
                per_device_train_batch_size=2 * GENERATIONS,
                num_generations=GENERATIONS,
                max_completion_length=6,
                max_steps=steps,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
            ),
            train_dataset=datasets.Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer,
        )
        trainer.train()
        return trainer

    return run


def logged(trainer: Any, name: str) -> list[float]:
    """The rewards of a function in the last step."""
    return list(trainer._logs["rewards"][name])


def advantages(rewards: list[float]) -> list[float]:
    """Normalise rewards group by group, as GRPO does."""
    out = []
    for at in range(0, len(rewards), GENERATIONS):
        group = rewards[at : at + GENERATIONS]
        mean = sum(group) / len(group)
        spread = math.sqrt(
            sum((reward - mean) ** 2 for reward in group) / (len(group) - 1)
        )
        out += [(reward - mean) / (spread + 1e-4) for reward in group]
    return out


def apart(
    name: str, wrapped: Any, change: Callable[[list[str]], list[str]] = list
) -> Any:
    """A reward function of another name that changes the completions and notes what it is asked."""

    async def function(prompts: Any, completions: Any, **columns: Any) -> Any:
        function.seen.append((prompts, change(completions)))  # type: ignore[attr-defined]  # its own list
        return await wrapped(prompts, change(completions), **columns)

    function.__name__ = name
    function.seen = []  # type: ignore[attr-defined]  # see above
    return function


def first_silent(completions: list[str]) -> list[str]:
    """The completions of a step of which the first has no text: it cannot be judged."""
    return ["", *completions[1:]]


def scores(
    server: JudgeServer, prompts: list[str], completions: list[str]
) -> list[float | None]:
    """The scores that the judge gives each group by itself."""
    settings = ruler_cli.load_settings(
        model="hosted_vllm/good", api_base=server.base, ledger=None
    )

    async def ask() -> list[float | None]:
        out: list[float | None] = []
        for at in range(0, len(prompts), GENERATIONS):
            turns = [
                [
                    {"role": "user", "content": prompt},
                    {"role": "assistant", "content": completion},
                ]
                for prompt, completion in zip(prompts, completions, strict=True)
            ][at : at + GENERATIONS]
            group = {"trajectories": [{"messages": each} for each in turns]}
            async for judged in ruler_cli.score_groups([group], settings):
                out += judged.scores
        return out

    return asyncio.run(ask())


def test_rewards_of_steps(
    recipe: Recipe, train: Train, server: JudgeServer
) -> None:
    """Each completion gets the score that its text has in its group, and one Scorer serves all steps."""
    module = recipe("trl_reward")
    asked = apart("ruler", module.ruler_reward)
    trainer = train(asked, steps=3)
    rewards = logged(trainer, "ruler")
    assert rewards == pytest.approx(scores(server, *asked.seen[-1]))
    assert list(trainer._logs["advantages"]) == pytest.approx(
        advantages(rewards), abs=1e-3
    )
    assert len(asked.seen) == 3
    assert module.scorer.summary().scored == 6


def test_no_reward_alone(
    recipe: Recipe, train: Train, server: JudgeServer
) -> None:
    """A completion that could not be scored is left out of its group, if the function is alone."""
    asked = apart("ruler", recipe("trl_reward").ruler_reward, first_silent)
    trainer = train(asked, steps=1)
    rewards = logged(trainer, "ruler")
    assert math.isnan(rewards[0])
    assert rewards[1:] == pytest.approx(scores(server, *asked.seen[-1])[1:])
    assert trainer._logs["advantages"][0] == 0


def test_no_reward_beside_another(recipe: Recipe, train: Train) -> None:
    """Beside another function TRL takes None for 0, the worst reward; the mean of the group is neutral."""
    module = recipe("trl_reward")

    def constant(prompts: Any, **columns: Any) -> list[float]:
        return [1.0] * len(prompts)

    async def half(
        prompts: Any, completions: Any, **columns: Any
    ) -> list[float | None]:
        return [None, 0.5, 0.6, 0.7] * (len(prompts) // GENERATIONS)

    worst = train(half, constant, steps=1)._logs["advantages"][0]
    assert worst == pytest.approx(-1.45, abs=0.005)  # the figure of the page
    asked = apart("ruler", module.ruler_reward_beside, first_silent)
    trainer = train(asked, constant, steps=1)
    rewards = logged(trainer, "ruler")
    assert rewards[0] == pytest.approx(
        sum(rewards[1:GENERATIONS]) / (GENERATIONS - 1)
    )
    assert trainer._logs["advantages"][0] == pytest.approx(0, abs=1e-3)


def test_refused_run(recipe: Recipe, train: Train) -> None:
    """If the judge refuses the run, the training stops with its sentence."""
    module = recipe("trl_reward", {"Qwen/Qwen3-32B": "401"})
    with pytest.raises(ruler_cli.RefusedError):
        train(module.ruler_reward)


def test_conversations(
    recipe: Recipe, train: Train, server: JudgeServer
) -> None:
    """Prompts and completions of a conversational data set are shown as their messages."""
    asked = apart("ruler", recipe("trl_reward").ruler_reward)
    trainer = train(
        asked,
        steps=1,
        prompts=[[{"role": "user", "content": text}] for text in PROMPTS],
    )
    prompts, completions = asked.seen[-1]
    assert prompts[0][0]["role"] == "user"
    texts = [prompt[0]["content"] for prompt in prompts]
    assert logged(trainer, "ruler") == pytest.approx(
        scores(server, texts, [turns[0]["content"] for turns in completions])
    )


RANK = """
import asyncio
import time

import {name} as recipe

ends, step = time.monotonic() + {seconds}, 0
while time.monotonic() < ends:
    step += 1
    prompts = [f"rank {rank} step {{step}} prompt {{i // 2}}" for i in range(16)]
    asyncio.run(recipe.ruler_reward(prompts, ["truth=0.1", "truth=0.9"] * 8))
"""
"""A process that trains for some seconds, each step in an event loop of its own."""


def test_ranks_share_a_limit(recipe: Recipe, server: JudgeServer) -> None:
    """Four processes together send no more than the limit that each has a share of."""
    module = recipe("trl_reward", {"rpm=6000": "rpm=1200"})
    seconds, ranks = 6, 4
    folder = str(Path(str(module.__file__)).parent)
    paths = [folder, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "WORLD_SIZE": str(ranks),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    programs = [
        RANK.format(name=module.__name__, rank=rank, seconds=seconds)
        for rank in range(ranks)
    ]
    began = time.monotonic()
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=environment)
        for program in programs
    ]
    assert [process.wait(60) for process in processes] == [0] * ranks
    lasted = time.monotonic() - began
    sent = server.stats()["requests"]
    assert sent <= 1200 / 60 * (
        lasted + ranks
    )  # each begins with about a second's worth
    assert sent >= 1200 / 60 * (seconds - 3)
