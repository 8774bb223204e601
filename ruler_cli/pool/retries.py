"""How often and how long one call is tried again: three budgets and the shape of a wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ruler_cli.records import Fault

_BASE, _CEILING = 0.5, 30.0
RATE_TRIES = 60
"""Times that one call may meet a limit; waits that other calls caused are not counted."""
RATE_SECONDS = 3600.0
"""Seconds that one call may wait because it met a limit itself."""


def delay(retry: int, floor: float | None, jitter: float) -> float:
    """Seconds before retry number `retry` (from 0): full jitter, above what the server asked for.

    floor + jitter · min(30, 0.5 · 2^retry), with jitter in [0, 1): the server's word is a floor,
    so that callers who were told the same second do not come back together.
    """
    return (floor or 0.0) + jitter * min(_CEILING, _BASE * float(2 ** min(retry, 16)))


@dataclass(slots=True)
class Tries:
    """What one call has used of its budgets.

    `retries` and `seconds` bound what is neither a limit nor an outage: the second is the deadline over
    all tries, of the time that the call itself took. `began` is when the first try ended. Seconds that the
    server asked for are in no budget: they are not the call's.
    """

    retries: int
    seconds: float
    asked: int = 0
    failed: int = 0
    rated: int = 0
    rated_seconds: float = 0.0
    spent: float = 0.0
    began: float = math.inf

    def wait(self, fault: Fault, took: float, jitter: float) -> float | None:
        """Seconds until the next try; None where a budget is used up."""
        self.spent += took
        if fault.rate:
            wait = delay(self.rated, fault.retry_after, jitter)
            self.rated += 1
            self.rated_seconds += wait - (fault.retry_after or 0.0)
            return wait if self.rated <= RATE_TRIES and self.rated_seconds <= RATE_SECONDS else None
        wait = delay(self.failed, fault.retry_after, jitter)
        self.failed += 1
        self.spent += wait - (fault.retry_after or 0.0)
        return wait if self.failed <= self.retries and self.spent <= self.seconds else None
