"""The one place where a run is told to stop, by whoever finds out first."""

from __future__ import annotations

import anyio

from ruler_cli.errors import RulerError


class Halt:
    """Once told, nothing new goes; what is in flight may finish."""

    def __init__(self) -> None:
        """Must be made where the loop runs."""
        self.reason: RulerError | None = None
        self.told = anyio.Event()

    def now(self, reason: RulerError) -> None:
        """Stop, for this reason; the first one stays."""
        if self.reason is None:
            self.reason = reason
            self.told.set()
