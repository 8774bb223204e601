"""An async reward function for TRL's GRPOTrainer."""

import asyncio
import os
from itertools import groupby

from ruler_cli import Scorer, load_settings

RANKS = int(os.environ.get("WORLD_SIZE", "1"))
SETTINGS = load_settings(
    model="hosted_vllm/Qwen/Qwen3-32B",
    api_base="http://localhost:8000/v1",
    rpm=6000 / RANKS,
    ledger=None,
)
scorer = Scorer(SETTINGS)


async def scores_of_groups(prompts, completions):
    """Score the completions of each prompt side by side; a list for each prompt, None without a score."""
    pairs = zip(prompts, completions, strict=True)
    groups = [
        [
            {"prompt": prompt, "completion": completion}
            for prompt, completion in same
        ]
        for _, same in groupby(pairs, key=lambda pair: pair[0])
    ]
    return [
        judged.scores
        for judged in await asyncio.to_thread(scorer.score_all, groups)
    ]


async def ruler_reward(prompts, completions, **columns):
    """Reward completions; None, which leaves one out of its group, for one that could not be scored."""
    return [
        score
        for scores in await scores_of_groups(prompts, completions)
        for score in scores
    ]


async def ruler_reward_beside(prompts, completions, **columns):
    """Reward completions beside another function: one without a score gets the mean of its group."""
    rewards = []
    for scores in await scores_of_groups(prompts, completions):
        known = [score for score in scores if score is not None] or [0.0]
        mean = sum(known) / len(known)
        rewards += [mean if score is None else score for score in scores]
    return rewards


# trainer = GRPOTrainer(model, reward_funcs=ruler_reward, train_dataset=dataset)
