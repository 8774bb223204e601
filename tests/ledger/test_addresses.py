"""Replies of a stand-in never answer for the provider's own model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio

from ruler_cli.judging.panel import PanelJudge
from ruler_cli.ledger.reply_cache import NO_ADDRESS, OTHER_LAYOUT, Ledger, ReplyCache
from ruler_cli.types import UNANSWERED, Request
from tests.ledger.test_reply_cache import reply

NOW = Request("s", "now", ("a",), earlier_user="before")


def test_earlier_keys(tmp_path: Path) -> None:
    """A reply that an earlier version kept under another key is no answer, and is counted with the reason once."""
    sources = {
        "address": (NO_ADDRESS, "", "now"),
        "layout": (OTHER_LAYOUT, "http://stand-in/v1", "before"),
        "both": (OTHER_LAYOUT, "", "before"),
    }
    for name, (why, address, user) in sources.items():
        with Ledger(tmp_path / name) as ledger:
            cache = ReplyCache(ledger, "m", {}, "http://stand-in/v1")
            before = replace(NOW, user=user, earlier_user="")
            earlier = replace(cache, address=address)
            anyio.run(earlier.keep, earlier.key(before), reply())
            judge = PanelJudge(None, cache)
            for _ in range(2):
                assert anyio.run(judge.call, NOW) == UNANSWERED
            assert [*judge.outdated.values()] == [why]
            anyio.run(cache.keep, cache.key(NOW), reply())
            assert cache.find(cache.key(replace(NOW, earlier_user=""))) is not None
