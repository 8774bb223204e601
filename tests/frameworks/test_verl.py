"""The recipe for verl, in its reward loop: a reward worker of Ray on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.conftest import Recipe
from tests.frameworks.tiny_model import tiny_tokenizer

verl = pytest.importorskip("verl")
torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
GENERATIONS = 3


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with two processors, for all tests."""
    module = pytest.importorskip("ray")
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield module
    module.shutdown()


@pytest.fixture
def config(tmp_path: Path) -> Any:
    """verl's configuration of PPO with one reward worker and a tokenizer of bytes."""
    hydra = pytest.importorskip("hydra")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    folder = Path(verl.__file__).parent / "trainer" / "config"
    with hydra.initialize_config_dir(str(folder), version_base=None):
        return hydra.compose(
            "ppo_trainer",
            [
                f"actor_rollout_ref.model.path={tmp_path / 'model'}",
                f"actor_rollout_ref.rollout.n={GENERATIONS}",
                "reward.num_workers=1",
                "reward.reward_manager.source=importlib",
                "reward.reward_manager.name=RulerRewardManager",
            ],
        )


def batch(config: Any, answers: list[list[str]], split: str = "train") -> Any:
    """Rollouts as verl's agent loops hand them to a reward worker: prompts and padded responses."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        config.actor_rollout_ref.model.path
    )
    texts = [text for group in answers for text in group]
    ids = [tokenizer(text)["input_ids"] for text in texts]
    longest, prompt = max(map(len, ids)), [2, 3]
    responses = torch.tensor([one + [0] * (longest - len(one)) for one in ids])
    mask = torch.tensor(
        [
            [1] * (len(prompt) + len(one)) + [0] * (longest - len(one))
            for one in ids
        ]
    )
    prompts = torch.tensor([prompt] * len(texts))
    groups = [number for number, group in enumerate(answers) for _ in group]
    raw = numpy.empty(len(texts), dtype=object)
    raw[:] = [
        [{"role": "user", "content": f"Task {number}."}] for number in groups
    ]
    return verl.DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": responses,
            "attention_mask": mask,
        },
        non_tensors={
            "uid": numpy.array(
                [f"prompt {number}" for number in groups], dtype=object
            ),
            "raw_prompt": raw,
            "data_source": numpy.array(["tasks"] * len(texts), dtype=object),
            "extra_info": numpy.array(
                [{"split": split} for _ in texts], dtype=object
            ),
        },
    )


def rewards(config: Any, data: Any) -> tuple[list[float], list[bool]]:
    """Have verl compute the rewards of a batch; return them with what the recipe says of each."""
    loop = pytest.importorskip("verl.experimental.reward_loop")
    scored = loop.RewardLoopManager(config).compute_rm_score(data)
    totals = scored.batch["rm_scores"].sum(dim=1)
    return [round(float(total), 6) for total in totals], list(
        scored.non_tensor_batch["ruler_scored"]
    )


def test_rewards_of_a_batch(recipe: Recipe, config: Any, ray: Any) -> None:
    """Rollouts come one by one and are scored with those of their prompt; one without text gets the mean."""
    config.reward.reward_manager.module.path = recipe("verl_reward").__file__
    data = batch(
        config,
        [
            ["truth=0.1", "truth=0.5", "truth=0.9"],
            ["truth=0.2", "", "truth=0.6"],
        ],
    )
    values, scored = rewards(config, data)
    assert values == [0.1, 0.5, 0.9, 0.2, 0.4, 0.6]
    assert scored == [True, True, True, True, False, True]


def test_rollouts_that_never_come(
    recipe: Recipe, config: Any, ray: Any
) -> None:
    """If a rollout of a prompt never comes, those that are there are scored; validation has its own size."""
    config.reward.reward_manager.module.path = recipe(
        "verl_reward", {"PATIENCE = 600": "PATIENCE = 1"}
    ).__file__
    values, _ = rewards(config, batch(config, [["truth=0.1", "truth=0.5"]]))
    assert values == [0.1, 0.5]
    config.reward.reward_manager.module.path = recipe("verl_reward").__file__
    values, _ = rewards(
        config, batch(config, [["truth=0.3"], ["truth=0.7"]], split="test")
    )
    assert values == [0.3, 0.7]


def test_refused_run(recipe: Recipe, config: Any, ray: Any) -> None:
    """If the judge refuses the run, every rollout fails with its sentence, and none waits for ever."""
    config.reward.reward_manager.module.path = recipe(
        "verl_reward", {"Qwen/Qwen3-32B": "401"}
    ).__file__
    with pytest.raises(ray.exceptions.RayTaskError, match="answered 401"):
        rewards(
            config, batch(config, [["truth=0.1", "truth=0.5", "truth=0.9"]])
        )
