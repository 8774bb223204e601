"""Requests → replies, under a fixed number of slots, with bounded retries."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from ruler_cli.judges.interface import Judge
from ruler_cli.records import Fault, Reply, Request

_BASE, _CEILING = 0.5, 30.0
_PATIENCE = 600.0
"""Seconds of a server's Retry-After that are waited; a longer one fails the group with its number."""


def delay(retry: int, floor: float | None, jitter: float) -> float:
    """Seconds before retry number `retry` (from 0): full jitter, above what the server asked for.

    floor + jitter · min(30, 0.5 · 2^retry), with jitter in [0, 1): the server's word is a floor,
    so that callers who were told the same second do not come back together.
    """
    return (floor or 0.0) + jitter * min(_CEILING, _BASE * float(2**retry))


class Caller:
    """Asks one judge for many groups; a slot is free while its call waits to be tried again."""

    def __init__(
        self,
        judge: Judge,
        concurrency: int,
        retries: int,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """`concurrency` calls in flight, each tried at most 1 + `retries` times."""
        self._judge = judge
        self._slots = anyio.Semaphore(concurrency)
        self._retries = retries
        self._sleep = sleep
        self._answered = False
        self._random = random.Random()

    async def call(self, request: Request) -> Reply | Fault:
        """One answer, or the Fault that the last try ended in."""
        tried = 0
        while True:
            async with self._slots:
                answer = await self._judge.ask(request)
            if isinstance(answer, Reply):
                self._answered = True
                return answer
            self._answered = self._answered or answer.sent
            if answer.scope != "call":
                return answer
            if (answer.retry_after or 0.0) > _PATIENCE:
                asked = f"{answer.reason}; it asks to wait {answer.retry_after:.0f} s, run again after that"
                return self._given_up(replace(answer, reason=asked), tried)
            if tried == self._retries:
                return self._given_up(answer, tried)
            await self._sleep(delay(tried, answer.retry_after, self._random.random()))
            tried += 1

    def _given_up(self, fault: Fault, tried: int) -> Fault:
        reason = f"{fault.reason} (tried {tried + 1} times)" if tried else fault.reason
        # a judge that no call of this run has ever reached is not there
        return replace(fault, reason=reason, scope="group" if self._answered else "run")
