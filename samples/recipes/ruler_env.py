"""An environment of verifiers that scores the attempts at a task side by side."""

import asyncio

import verifiers.v1 as vf

from ruler_cli import Scorer, load_settings

__all__ = ["RulerEnv"]
SETTINGS = load_settings(
    model="hosted_vllm/Qwen/Qwen3-32B",
    api_base="http://localhost:8000/v1",
    ledger=None,
)


class RulerEnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig()
    n: int = 8


class RulerEnv(vf.Env[RulerEnvConfig]):
    """Attempts at one task, scored side by side."""

    scorer = None

    async def start(self):
        self.scorer = Scorer(SETTINGS)
        await self.scorer.open()

    async def stop(self):
        if self.scorer is not None:
            await self.scorer.close()

    async def run(self, task, agents):
        async with asyncio.TaskGroup() as attempts:
            for _ in range(self.config.n):
                attempts.create_task(agents.agent.run(task))

    async def finalize(self, task, episode):
        group = {
            "trajectories": [
                {"messages": trace.messages} for trace in episode.traces
            ]
        }
        judged = await self.scorer.score(group)
        if judged.failed:
            raise ValueError(f"not scored: {judged.reason}")
        for trace, score in zip(episode.traces, judged.scores, strict=True):
            if score is not None:
                trace.record_reward("ruler", score)
