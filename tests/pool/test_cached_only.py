"""Cached replies instead of calls to the judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio

from ruler_cli.ledger.reply_cache import Ledger, ReplyCache
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.retries import CachedOnly
from ruler_cli.types import UNANSWERED, CallError, Reply, Request
from tests.ledger.test_reply_cache import FAILED, reply

ONE, OTHER = Request("s", "one", ("a",)), Request("s", "other", ("a",))


def test_cached_only(tmp_path: Path) -> None:
    """A cached answer is returned, a missing one is passed on; `again` passes over failed calls alone."""

    async def main() -> None:
        missing: list[str] = []
        with Ledger(tmp_path / "ledger") as ledger:
            cache = ReplyCache(ledger, "m", {})
            caller = CachedOnly(cache, StopSignal(), lambda _, request: missing.append(request.user))

            async def asked(*requests: Request, again: bool = False) -> list[Reply | CallError]:
                missing.clear()
                return [await caller.call(request, again=again) for request in requests]

            await cache.keep(cache.key(ONE), reply())
            cached_reply = replace(reply(), cached=True)
            assert (await asked(ONE, OTHER), missing) == ([cached_reply, UNANSWERED], ["other"])
            await cache.keep(cache.key(OTHER), FAILED)
            failed = replace(FAILED, cached=True)
            assert (await asked(ONE, OTHER), missing) == ([cached_reply, failed], [])
            assert (await asked(ONE, OTHER, again=True), missing) == ([cached_reply, UNANSWERED], ["other"])
            assert caller.stats.unanswered == 2

    anyio.run(main)
