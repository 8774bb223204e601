"""Cached replies of a judge, used before its calls or instead of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio

from ruler_cli.judging.panel import PanelJudge
from ruler_cli.ledger.reply_cache import Ledger, ReplyCache
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.limits import ConcurrencyLimit
from ruler_cli.pool.retries import Caller
from ruler_cli.types import UNANSWERED, CallError, Reply, Request, value
from tests.ledger.test_reply_cache import FAILED, reply
from tests.pool.test_calls import OK
from tests.virtual import ASKED, Plan, plan, virtually

T = TypeVar("T")

ONE, OTHER = Request("s", "one", ("a",)), Request("s", "other", ("a",))


def test_cached_only(tmp_path: Path) -> None:
    """A cached reply is returned, a missing one is asked for; `again` skips failed calls alone."""

    async def main() -> None:
        with Ledger(tmp_path / "ledger") as ledger:
            cache = ReplyCache(ledger, "m", {})
            judge = PanelJudge(None, cache, stop_signal=StopSignal())

            async def asked(
                *requests: Request, again: bool = False
            ) -> list[Reply | CallError]:
                return [await judge.call(request, again=again) for request in requests]

            await cache.keep(cache.key(ONE), reply())
            result = replace(reply(), cached=True)
            assert await asked(ONE, OTHER) == [result, UNANSWERED]
            await cache.keep(cache.key(OTHER), FAILED)
            failed = replace(FAILED, cached=True)
            assert await asked(ONE, OTHER) == [result, failed]
            assert await asked(ONE, OTHER, again=True) == [result, UNANSWERED]
            assert judge.unanswered == 2

    anyio.run(main)


@value
class Memory(ReplyCache):
    """Replies in memory, under the user message."""

    ledger: None = None
    model: str = "m"
    params: dict[str, Any] = field(default_factory=dict)
    rows: dict[bytes, Reply | CallError] = field(default_factory=dict)

    def key(self, request: Request) -> bytes:
        """The user message."""
        return request.user.encode()

    def find(self, key: bytes) -> Reply | CallError | None:
        """The cached answer."""
        cached = self.rows.get(key)
        return None if cached is None else replace(cached, cached=True)

    async def keep(self, key: bytes, answer: Reply | CallError) -> None:
        """Store an answer."""
        self.rows[key] = answer


def called(judge: Plan, work: Callable[[PanelJudge], Awaitable[T]], cache: Memory) -> T:
    """Run the work with a judge that has this cache, in virtual time."""

    async def main() -> T:
        caller = Caller(
            judge, Gate(ConcurrencyLimit(4), StopSignal()), retries=2, timeout=60.0
        )
        return await work(PanelJudge(caller, cache))

    return virtually(main)


def test_asked_once() -> None:
    """A cached reply is not asked for again; equal waiting requests are one call; `again` asks once more."""
    judge, cache = plan(OK), Memory()

    async def work(asked: PanelJudge) -> tuple[int, int, int]:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(asked.call, ASKED)
        first = len(judge.times)
        assert (await asked.call(ASKED)).cached
        second = len(judge.times)
        for _ in range(3):
            await asked.call(ASKED, again=True)
        return first, second, len(judge.times)

    assert called(judge, work, cache) == (1, 1, 2)
