"""Requests → replies of the ledger alone: nobody is asked for what it lacks."""

from __future__ import annotations

from collections.abc import Callable

from ruler_cli.errors import RulerError
from ruler_cli.ledger import ReplyCache
from ruler_cli.pool.caller import Tally
from ruler_cli.pool.gate import INTERRUPTED
from ruler_cli.pool.halt import Halt
from ruler_cli.records import UNANSWERED, Fault, Reply, Request

Missing = Callable[[bytes, Request], None]


class CachedOnly:
    """A judge's cached replies, in the place of a `Caller`."""

    def __init__(self, cache: ReplyCache, halt: Halt, missing: Missing | None = None) -> None:
        """`missing` takes the key and the text of each request without an answer, however often it comes."""
        self._cache, self._halt, self._missing = cache, halt, missing
        self.tally = Tally()

    async def call(self, request: Request, *, again: bool = False) -> Reply | Fault:
        """Return the cached answer. With `again` a failed call is none, but a cached reply stays what it is.

        A second reply to the same request would not be taken in, and so be paid for without end.
        """
        key = self._cache.key(request)
        try:
            found = self._cache.find(key)
        except RulerError as error:
            self._halt.now(error)
            return INTERRUPTED
        if found is not None and not (again and isinstance(found, Fault)):
            return found
        self.tally.unanswered += 1
        if self._missing is not None:
            self._missing(key, request)
        return UNANSWERED
