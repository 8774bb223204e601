"""One judge's part of the ledger, in the form in which the pool asks for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from ruler_cli.ledger import Kept, key_of
from ruler_cli.records import Fault, Reply, Request


class Store(Protocol):
    """What keeps answers: a ledger, or several."""

    def find(self, key: bytes) -> Kept | None:
        """The answer to a request; None where it is to be asked."""

    async def store(self, key: bytes, model: str, answer: Reply | Fault, seconds: float) -> None:
        """Keep an answer; it is on record when this returns."""


class Shelf:
    """What a run of one judge finds and keeps."""

    def __init__(self, ledger: Store, model: str, params: Mapping[str, Any]) -> None:
        """`model` and `params` as the user gave them: they are part of every key."""
        self._ledger, self._model, self._params = ledger, model, params

    def key(self, request: Request) -> bytes:
        """What tells this request from every other."""
        return key_of(self._model, self._params, request)

    def find(self, key: bytes, since: float = math.inf) -> Reply | Fault | None:
        """What was answered before, marked as such unless it came `since` then (Unix time)."""
        kept = self._ledger.find(key)
        if kept is None:
            return None
        if isinstance(kept.answer, Fault):
            return replace(kept.answer, kept=kept.at < since)
        return replace(kept.answer, seconds=kept.seconds, kept=kept.at < since)

    async def keep(self, key: bytes, answer: Reply | Fault) -> None:
        """Store an answer; it is safe when this returns."""
        seconds = answer.seconds if isinstance(answer, Reply) else 0.0
        await self._ledger.store(key, self._model, answer, seconds)
