"""A training loop of ART that scores each group with a Scorer."""

import art

from ruler_cli import Scorer, load_settings

SETTINGS = load_settings(
    model="hosted_vllm/Qwen/Qwen3-32B",
    api_base="http://localhost:8000/v1",
    ledger=None,
)


async def train(model, rollout, tasks, steps):
    """Train for some steps with eight rollouts of each task."""
    async with Scorer(SETTINGS) as scorer:

        async def judged(group):
            """Score a group; None, which leaves it out, if there is nothing to learn from it."""
            result = await scorer.score(group)
            return None if result.failed or result.tied else result.group

        for _ in range(steps):
            model.activate_metrics_context("train")
            groups = await art.gather_trajectory_groups(
                (
                    art.TrajectoryGroup(rollout(model, task) for _ in range(8))
                    for task in tasks
                ),
                after_each=judged,
            )
            await model.train(groups)
