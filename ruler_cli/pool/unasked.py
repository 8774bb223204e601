"""Requests → what the ledger holds; nobody is asked for the rest, which is told to whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable

from ruler_cli.judges.interface import Judge
from ruler_cli.pool.caller import Caller, Keeper
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.level import Fixed
from ruler_cli.records import UNANSWERED, Fault, Reply, Request

Wanted = Callable[[bytes, Request], None]


class Unasked(Caller):
    """A judge's kept replies; it stands where else the judge is asked."""

    def __init__(self, judge: Judge, halt: Halt, keeper: Keeper, wanted: Wanted | None = None) -> None:
        """`wanted` is told the key and the text of each request without an answer, however often it comes."""
        super().__init__(judge, Gate(Fixed(1), halt), retries=0, timeout=0.0, keeper=keeper)
        self._wanted = wanted

    async def call(self, request: Request, *, again: bool = False) -> Reply | Fault:
        """What is kept. Of what is to be asked `again` only failed calls are: a kept reply stays what it is.

        A second reply to the same request would not be taken in, and so be paid for without end.
        """
        found = await super().call(request)
        failed = again and isinstance(found, Fault) and found.kept
        return await super().call(request, again=True) if failed else found

    async def _ask(self, request: Request, key: bytes = b"") -> Reply | Fault:
        self.tally.unanswered += 1
        if self._wanted is not None:
            self._wanted(key, request)
        return UNANSWERED
