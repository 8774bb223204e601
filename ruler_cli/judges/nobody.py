"""Where a run asks nobody: a judge's name, and no way to it."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ruler_cli.records import UNANSWERED, Fault, Request


@dataclass(frozen=True, slots=True)
class Nobody:
    """Stands where the judge of that name would be; needs no key, sends nothing."""

    name: str

    async def ask(self, request: Request) -> Fault:
        """No answer."""
        return UNANSWERED

    async def __aenter__(self) -> Self:
        """Nothing to open."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Nothing to close."""
