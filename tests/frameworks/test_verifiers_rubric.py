"""The recipe for a `Rubric` of verifiers, with its own scoring of groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frameworks.conftest import Recipe

vf = pytest.importorskip("verifiers")
if not hasattr(vf, "Rubric"):
    pytest.skip("this verifiers has no Rubric", allow_module_level=True)
pytestmark = pytest.mark.anyio


def state(answer: str) -> dict[str, Any]:
    """A finished rollout."""
    said = [{"role": "assistant", "content": answer}] if answer else []
    prompt = [{"role": "user", "content": "Cancel order 17."}]
    return {
        "prompt": prompt,
        "completion": said,
        "task": "orders",
        "trajectory": [],
    }


async def test_rewards_of_a_group(recipe: Recipe) -> None:
    """Each rollout of a group gets its score; one without an agent turn the mean of the others."""
    rubric = recipe("ruler_rubric").RulerRubric()
    assert rubric.has_group_rewards
    groups = [
        [state("truth=0.2"), state(""), state("truth=0.8")] for _ in range(2)
    ]
    for states in groups:
        await rubric.score_group(states)
        assert [one["reward"] for one in states] == [0.2, 0.5, 0.8]
        assert [round(one["advantage"], 6) for one in states] == [
            -0.3,
            0.0,
            0.3,
        ]
        assert [one["metrics"] for one in states] == [
            {"ruler": 0.2},
            {"ruler": 0.5},
            {"ruler": 0.8},
        ]
    await rubric.teardown()


async def test_none_breaks_the_scoring_of_a_group() -> None:
    """A None among the rewards of a group stops verifiers, as the page says."""

    async def ruler(prompts: Any, completions: Any) -> list[float | None]:
        return [None] * len(prompts)

    with pytest.raises(TypeError):
        await vf.Rubric(funcs=[ruler]).score_group([state("truth=0.2")])


async def test_refused_run(
    recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    """If the judge refuses the run, verifiers logs it and gives each rollout 0, as the page says."""
    rubric = recipe("ruler_rubric", {"Qwen/Qwen3-32B": "401"}).RulerRubric()
    states = [state("truth=0.2"), state("truth=0.8")]
    await rubric.score_group(states)
    assert [one["reward"] for one in states] == [0.0, 0.0]
    assert "Error calling group reward function ruler" in caplog.text
    await rubric.teardown()
