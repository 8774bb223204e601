"""What a judge is: something that is asked and answers, or says why not."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from ruler_cli.records import Fault, Reply, Request


class Judge(Protocol):
    """A judge, open while it is used as an async context."""

    @property
    def name(self) -> str:
        """What stands in the output as the judge."""

    async def ask(self, request: Request) -> Reply | Fault:
        """One call, no retry; every failure of the outside world is a Fault, never an exception."""

    async def __aenter__(self) -> Self:
        """Open connections."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close them."""
