"""A group reward function of slime."""

import asyncio

from ruler_cli import Scorer, load_settings

SETTINGS = load_settings(
    model="hosted_vllm/Qwen/Qwen3-32B",
    api_base="http://localhost:8000/v1",
    ledger=None,
)
scorer, opened = Scorer(SETTINGS), None


async def ruler_rm(args, samples):
    """Reward the samples of a prompt by their scores; one without a score is not trained on."""
    global opened
    opened = opened or asyncio.ensure_future(scorer.open())
    await opened
    judged = await scorer.score(
        [{"prompt": s.prompt, "completion": s.response} for s in samples]
    )
    known = [score for score in judged.scores if score is not None] or [0.0]
    mean = sum(known) / len(known)
    for sample, score in zip(samples, judged.scores, strict=True):
        sample.remove_sample = sample.remove_sample or score is None
    return [mean if score is None else score for score in judged.scores]
