"""Promise 4: training steps through a Scorer, against a bare `asyncio.gather`; calls that a judge refuses."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import orjson

from benchmarks.commands import SERVER_LIFETIME
from benchmarks.floor import prompt
from benchmarks.results import Result, alone
from ruler_cli import JudgeSettings, Scorer, ScoreSettings
from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.judging.panel import open_caller
from ruler_cli.pool.engine import StopSignal
from ruler_cli.settings.models import PoolSettings
from ruler_cli.types import CallError, Reply, Request
from tests.judge_server import JudgeServer
from tests.virtual import World, flood, virtually

_GROUPS, _SECONDS, _STEPS = 64, 2.0, 3
_RPM, _TPM = 6_000, 20_000_000
"""Limits of the judge that names what they leave."""
_CALLS, _REFUSED = 1_000, 0.05
"""Calls to a judge that refuses, and the share of its requests that may be refused."""

# the judge's name, its further conduct, and the limits of the first and the second step
_JUDGES: dict[str, tuple[str, dict[str, Any], float | None, float | None]] = {
    "engine that queues": ("hosted_vllm/good", {}, 1.5, 1.1),
    "rate-limit headers": (
        "openai/good",
        {"rpm": _RPM, "tpm": _TPM, "tells": True},
        None,
        1.1,
    ),
    "any other judge": ("openai/good", {}, None, None),
}


def measure(_: Path, quick: bool) -> Iterator[Result]:
    """Rows for the first and the second step with each judge, and one for each judge that refuses."""
    for what, (model, conduct, *limits) in _JUDGES.items():
        for anew in (False,) if quick else (False, True):
            yield from _steps(what, model, conduct, limits, anew)
    for world in _worlds():
        yield _refused(world)


def _steps(
    what: str,
    model: str,
    conduct: dict[str, Any],
    limits: list[float | None],
    anew: bool,
) -> Iterator[Result]:
    """Time steps of one Scorer, or of one for each step."""
    with JudgeServer(_SECONDS, SERVER_LIFETIME, **conduct) as server:
        gather = asyncio.run(_gather(server.base))
        server.reset()
        steps = asyncio.run(_scored(model, server.base, anew))
    name = f"step of {_GROUPS} groups, {_SECONDS:g} s a call, {what}{', a Scorer each' * anew}"
    for number, (seconds, limit) in enumerate(
        zip(steps, [*limits, limits[1]], strict=True), 1
    ):
        detail = f"{seconds:.2f} s, gather {gather:.2f} s"
        yield Result(
            4, f"{name}: step {number}", seconds / gather, detail, "<=", limit
        )


def _groups(step: int) -> list[dict[str, Any]]:
    task = {"role": "user", "content": "Score truth."}
    return [
        {
            "trajectories": [
                {
                    "messages": [
                        task,
                        {
                            "role": "assistant",
                            "content": f"truth={truth} {step} {number}",
                        },
                    ]
                }
                for truth in (0.2, 0.9)
            ]
        }
        for number in range(_GROUPS)
    ]


async def _gather(base: str) -> float:
    """Post the calls of a step at once; return the seconds of the second time, with open connections."""
    bodies = [
        orjson.dumps({"model": "good", "messages": prompt(group)})
        for group in _groups(0)
    ]
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0)
    ) as session:

        async def post(body: bytes) -> bytes:
            async with session.post(
                f"{base}/chat/completions", data=body
            ) as response:
                return await response.read()

        for _ in range(2):
            began = time.perf_counter()
            await asyncio.gather(*map(post, bodies))
    return time.perf_counter() - began


async def _scored(model: str, base: str, anew: bool) -> list[float]:
    """Return the seconds of each step; `anew`: with the time to open a Scorer for it."""
    settings = ScoreSettings(judge=JudgeSettings(model, base), ledger=None)
    seconds = []
    async with AsyncExitStack() as stack:
        scorer = Scorer(settings)
        if not anew:
            await stack.enter_async_context(scorer)
        for step in range(_STEPS):
            began = time.perf_counter()
            async with AsyncExitStack() as own:
                if anew:
                    scorer = await own.enter_async_context(Scorer(settings))
                judged = await asyncio.gather(*map(scorer.score, _groups(step)))
                seconds.append(time.perf_counter() - began)
            if any(each.failed for each in judged):
                raise SystemExit(
                    f"a group failed: {next(each.reason for each in judged if each.failed)}"
                )
    return seconds


@dataclass
class Metered(World):
    """A judge that refuses a request beyond `limit` in a sliding `window` of seconds.

    `asks`: a refusal names the seconds to wait.
    """

    limit: int = 60
    window: float = 60.0
    asks: bool = False
    recent: deque[float] = field(default_factory=deque)

    async def ask(self, request: Request) -> Reply | CallError:
        """Refuse, or answer."""
        now = anyio.current_time()
        while self.recent and self.recent[0] <= now - self.window:
            self.recent.popleft()
        if len(self.recent) < self.limit:
            self.recent.append(now)
            return await super().ask(request)
        self.asked += 1
        self.refused += 1
        wait = self.recent[0] + self.window - now if self.asks else None
        await anyio.sleep(0.01)
        return CallError(
            "transport",
            "429",
            "call",
            retry_after=wait,
            rate=True,
            billed=False,
        )


def _worlds() -> Iterator[World]:
    for capacity in (8, 20, 50):
        name = f"refuses above {capacity} in flight"
        yield World(_SECONDS, spread=0.3, capacity=capacity, name=name)
    for limit, window in ((10, 1.0), (120, 60.0), (600, 60.0)):
        for asks in (True, False):
            named = "names the wait" if asks else "names no wait"
            name = f"refuses beyond {limit} in {window:g} s, {named}"
            yield Metered(
                _SECONDS,
                spread=0.3,
                limit=limit,
                window=window,
                asks=asks,
                name=name,
            )


def _refused(world: World) -> Result:
    """Count the refused requests of 1,000 calls in virtual time."""

    async def main() -> float:
        settings = PoolSettings(retries=2)
        caller = open_caller(
            ResolvedJudge(world, None, None),
            JudgeSettings(world.name),
            settings,
            StopSignal(),
        )
        await flood(caller, math.inf, calls=_CALLS)
        return anyio.current_time()

    seconds = virtually(main)
    detail = f"{world.refused:,} of {world.asked:,} requests in {seconds:,.0f} virtual s"
    return Result(
        4,
        f"a judge that {world.name}",
        world.refused / world.asked,
        detail,
        "<=",
        _REFUSED,
    )


if __name__ == "__main__":
    sys.exit(alone(measure))
