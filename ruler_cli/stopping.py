"""A run that is told to stop: what it waits for, and for how long."""

from __future__ import annotations

import anyio

from ruler_cli.counts import Counts
from ruler_cli.delivery import Delivery
from ruler_cli.errors import ReaderGone
from ruler_cli.observer import Observer
from ruler_cli.pool.panel import Panel

POLL = 0.05
READER = 5.0
"""Seconds that a run which is told to stop waits for a reader of stdout that takes nothing."""


class Stopping:
    """Watches beside a run; ends its scope once it is told to stop and nothing more can come of it."""

    def __init__(
        self, panel: Panel, delivery: Delivery, counts: Counts, observer: Observer, grace: float
    ) -> None:
        """`grace` is how many seconds calls in flight may take to finish."""
        self._panel, self._delivery, self._counts = panel, delivery, counts
        self._observer, self._grace = observer, grace

    async def drain(self, scope: anyio.CancelScope) -> None:
        """Wait for what is in flight, not for ever, and end what only waits."""
        halt = self._panel.halt
        await halt.told.wait()
        self._panel.nudge()
        if not isinstance(halt.reason, ReaderGone):  # `| head` is quiet
            self._observer.stopping(self._panel.in_flight, self._grace)
        with anyio.move_on_after(self._grace):
            quiet, blocked = 0, 0.0
            while quiet < 2:  # twice, so that the last reply is written too
                await anyio.sleep(POLL)
                blocked = blocked + POLL if self._delivery.writing else 0.0
                quiet = 0 if self._panel.in_flight or 0 < blocked < READER else quiet + 1
        scope.cancel()

    async def unread(self, scope: anyio.CancelScope) -> None:
        """Do not wait for ever for a reader who takes nothing of what is left to write."""
        await self._panel.halt.told.wait()
        written, blocked = self._counts.summary.written, 0.0
        while blocked < READER:
            await anyio.sleep(POLL)
            blocked = blocked + POLL if self._counts.summary.written == written else 0.0
            written = self._counts.summary.written
        scope.cancel()
