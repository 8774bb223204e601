"""A Rubric of verifiers before 0.3, whose reward is the score of a rollout in its group."""

import asyncio

import verifiers as vf

from ruler_cli import Scorer, load_settings

SETTINGS = load_settings(
    model="hosted_vllm/Qwen/Qwen3-32B",
    api_base="http://localhost:8000/v1",
    ledger=None,
)


class RulerRubric(vf.Rubric):
    """A Rubric whose reward is the score of a rollout in its group."""

    def __init__(self):
        super().__init__(funcs=[self.ruler])
        self.scorer, self.opened = Scorer(SETTINGS), None

    async def ruler(self, prompts, completions) -> list[float]:
        self.opened = self.opened or asyncio.ensure_future(self.scorer.open())
        await self.opened
        pairs = zip(prompts, completions, strict=True)
        judged = await self.scorer.score(
            [{"prompt": p, "completion": c} for p, c in pairs]
        )
        known = [score for score in judged.scores if score is not None] or [0.0]
        mean = sum(known) / len(known)
        return [mean if score is None else score for score in judged.scores]

    @vf.teardown
    async def close(self):
        await self.scorer.close()
