"""A reward manager of verl that scores all rollouts of a prompt side by side."""

import asyncio

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from ruler_cli import Scorer, load_settings

SETTINGS = load_settings(
    model="hosted_vllm/Qwen/Qwen3-32B",
    api_base="http://localhost:8000/v1",
    ledger=None,
)
PATIENCE = 600
"""Seconds without a further rollout of a prompt after which those that are there are scored."""


class RulerRewardManager(RewardManagerBase):
    """Scores all rollouts of a prompt side by side."""

    def __init__(self, config, tokenizer, compute_score, **router):
        super().__init__(config, tokenizer, compute_score)
        rollout = config.actor_rollout_ref.rollout
        self.sizes = {"train": rollout.n, "test": rollout.val_kwargs.n}
        self.groups = {}
        self.scorer, self.opened = Scorer(SETTINGS), None

    async def run_single(self, data):
        item = data[-1]  # of a rollout in several parts the last one
        uid, reward = (
            item.non_tensor_batch["uid"],
            asyncio.get_running_loop().create_future(),
        )
        group = self.groups.setdefault(uid, [])
        group.append((self.rollout(item), reward))
        split = item.non_tensor_batch.get("extra_info", {}).get(
            "split", "train"
        )
        if len(group) < self.sizes.get(split, self.sizes["train"]):
            await asyncio.wait([reward], timeout=PATIENCE)
        if self.groups.get(uid) is group:
            del self.groups[uid]
            await self.score(group)
        score, scored = await reward
        return {
            "reward_score": score,
            "reward_extra_info": {"ruler_scored": scored},
        }

    def rollout(self, item):
        """Return the prompt of a rollout, and its answer as text."""
        response = item.batch["responses"]
        length = int(item.batch["attention_mask"][-len(response) :].sum())
        answer = self.tokenizer.decode(
            response[:length], skip_special_tokens=True
        )
        return {
            "prompt": list(item.non_tensor_batch["raw_prompt"]),
            "completion": answer,
        }

    async def score(self, group):
        """Give each rollout its score, and one without a score the mean of its group."""
        self.opened = self.opened or asyncio.ensure_future(self.scorer.open())
        try:
            await self.opened
            judged = await self.scorer.score([rollout for rollout, _ in group])
        except Exception as error:
            for _, reward in group:
                reward.set_exception(error)
            return
        known = [score for score in judged.scores if score is not None] or [0.0]
        mean = sum(known) / len(known)
        for (_, reward), score in zip(group, judged.scores, strict=True):
            reward.set_result(
                (mean if score is None else score, score is not None)
            )
