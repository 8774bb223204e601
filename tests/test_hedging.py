"""`--set hedge=true` against the judge server: a straggler's other call ends there, and books and ledger agree."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from ruler_cli import (
    JudgedGroup,
    JudgeSettings,
    PoolSettings,
    Scorer,
    ScoreSettings,
)
from tests.conftest import group
from tests.judge_server import JudgeServer
from tests.values import few

USUAL, NEVER = 0.8, 120.0
"""Seconds of the slower calls of those known, and of one that is not waited for."""
KNOWN = 48
GROUPS = [group(f"g{i:02}", 0.1, i / 100, 0.9) for i in range(KNOWN + 4)]


def replies(ledger: Path) -> int:
    """The number of replies that a ledger holds."""
    with closing(sqlite3.connect(ledger)) as database:
        (number,) = database.execute("SELECT count(*) FROM replies").fetchone()
    return int(number)


def threads_and_tasks() -> tuple[int, int]:
    """The threads of this process, and the tasks of its loop."""
    return threading.active_count(), len(asyncio.all_tasks())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition of the server, not for ever."""
    for _ in range(3000):
        if await asyncio.to_thread(holds):
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came")


async def teach(scorer: Scorer, server: JudgeServer) -> None:
    """Score groups, the last of them slowly."""
    await asyncio.gather(*map(scorer.score, GROUPS[: KNOWN - 8]))
    server.configure(latency=USUAL)
    await asyncio.gather(*map(scorer.score, GROUPS[KNOWN - 8 : KNOWN]))


async def straggle(
    scorer: Scorer, server: JudgeServer, one: Any
) -> JudgedGroup[Any]:
    """Score a group whose first call the server does not answer, and whose second it answers at once."""
    before = server.stats()["requests"]
    server.configure(latency=NEVER)
    scored = asyncio.create_task(scorer.score(one))
    await until(lambda: server.stats()["requests"] > before)
    server.configure(latency=0.0)
    return await asyncio.wait_for(scored, NEVER / 4)


@pytest.mark.anyio
@pytest.mark.parametrize("via", few(1, ["http", "litellm"]))
async def test_straggler(
    via: Literal["http", "litellm"], server: JudgeServer, tmp_path: Path
) -> None:
    """A call that hangs is asked again; the server sees its end, the ledger has one reply, the cap holds."""
    settings = ScoreSettings(
        judge=JudgeSettings(
            "openai/good", server.base, via=via, price=(1.0, 2.0)
        ),
        pool=PoolSettings(concurrency=KNOWN, hedge=True, max_cost=1.0),
        ledger=tmp_path / "ledger.sqlite",
    )
    async with Scorer(settings) as scorer:
        await teach(scorer, server)
        await until(lambda: server.stats()["in_flight"] == 0)
        before = threads_and_tasks()
        scored = await straggle(scorer, server, GROUPS[KNOWN])
        await until(lambda: server.stats()["in_flight"] == 0)
        # the server may see the end of a call a moment before its task ends here
        await asyncio.sleep(0.2)
        assert all(
            now <= then
            for now, then in zip(threads_and_tasks(), before, strict=True)
        )
        after = await scorer.score(GROUPS[-1])
        summary, stats = scorer.summary(), server.stats()
    assert [one.scores for one in (scored, after)] == [
        (0.1, KNOWN / 100, 0.9),
        (0.1, 0.51, 0.9),
    ]
    assert (summary.asked, summary.hedged) == (KNOWN + 3, 1)
    assert not summary.retried
    assert stats["requests"] == KNOWN + 3
    books = stats["books"]
    assert (books["answered"]["calls"], books["abandoned"]["calls"]) == (
        KNOWN + 2,
        1,
    )
    paid, unsure = (
        (each["prompt"] + 2 * each["completion"]) / 1e6
        for each in (books["answered"], books["abandoned"])
    )
    assert summary.cost_usd == pytest.approx(paid)
    assert (
        summary.unsure_usd is not None
        and unsure <= summary.unsure_usd < 2 * unsure
    )
    assert replies(tmp_path / "ledger.sqlite") == KNOWN + 2
