"""The one place where a run is told to stop, by whoever finds out first."""

from __future__ import annotations

import asyncio
import threading

import anyio

from ruler_cli.errors import RulerError


class Halt:
    """Once told, nothing new goes; what is in flight may finish."""

    def __init__(self) -> None:
        """Must be made where the loop runs."""
        self.reason: RulerError | None = None
        self.told = anyio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def now(self, reason: RulerError) -> None:
        """Stop, for this reason; the first one stays. The thread that reads INPUT may say it too."""
        if self.reason is not None:
            return
        self.reason = reason
        if threading.get_ident() == self._thread:
            self.told.set()
        else:
            self._loop.call_soon_threadsafe(self.told.set)
