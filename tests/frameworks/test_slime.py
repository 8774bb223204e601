"""The recipe for slime, called by its own hub of reward functions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.frameworks.conftest import Recipe

hub = pytest.importorskip("slime.rollout.rm_hub")
Sample = pytest.importorskip("slime.utils.types").Sample
pytestmark = pytest.mark.anyio


def samples(*answers: str) -> list[Any]:
    """The samples of a prompt, as text and as messages."""
    turns = [{"role": "user", "content": "Cancel order 17."}]
    made = [Sample(prompt=turns, response=answer) for answer in answers]
    made[0].prompt = "Cancel order 17."
    return made


async def test_rewards_of_a_group(recipe: Recipe) -> None:
    """Each sample of a group gets its score; one without text gets the mean and is masked in the loss."""
    module = recipe("slime_reward")
    arguments = SimpleNamespace(custom_rm_path=f"{module.__name__}.ruler_rm")
    for _ in range(2):
        group = samples("truth=0.2", "", "truth=0.8")
        assert await hub.batched_async_rm(arguments, group) == [0.2, 0.5, 0.8]
        assert [one.remove_sample for one in group] == [False, True, False]
    assert module.scorer.summary().scored == 2
    await module.scorer.close()
