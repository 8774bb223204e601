"""Requests or tokens per minute: the seconds until the next call may go."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_SPAN = 60.25
"""Seconds of the window: a quarter more than a minute, for time that the network adds or takes."""
_GRAIN = 0.05
"""Seconds that share an entry, so that memory is bounded at any rate."""
_COARSE = 1.0
"""Seconds that share an entry of a window without a limit, which only counts for display."""
_BURST = 1.0
"""Seconds' worth that may go at once: a full minute's would send twice the limit in the first minute."""


@dataclass(slots=True)
class Entry:
    """The amount that went within one grain of time from `since` on; it leaves the window at `until`."""

    since: float
    until: float
    amount: float


class Window:
    """A sliding minute that never holds more than its limit, and is filled evenly.

    Two rules, both needed: an exact log of what went (no minute above the limit), and a virtual
    schedule (GCRA, ITU-T I.371, with a tolerance of one second), without which all would go in the
    first second of every minute.  Without a limit it only counts.
    """

    def __init__(self, limit: float | None = None) -> None:
        """`limit` is an amount per minute: requests, or tokens."""
        self.limited = limit is not None
        self._span = _SPAN
        self._grain = _COARSE if limit is None else _GRAIN
        if limit is not None and limit < 1:  # one in several minutes: the minute is made longer
            self._span, limit = _SPAN / limit, 1.0
        self._limit = limit
        self._log: deque[Entry] = deque()
        self._sum = 0.0
        self._due = float("-inf")

    def wait(self, now: float, amount: float) -> float:
        """Return the seconds until `amount` may go; 0 is now.

        An amount above the whole limit goes alone, as soon as the window is empty.
        """
        if self._limit is None:
            return 0.0
        self._forget(now)
        if not self._log:
            return 0.0
        owed = min(self._due - _BURST, self._log[-1].until)  # an empty window owes nothing
        wait = max(0.0, owed - now)
        over = self._sum + amount - self._limit
        for entry in self._log:
            if over <= 0:
                break
            over -= entry.amount
            wait = max(wait, entry.until - now)
        return wait

    def take(self, now: float, amount: float) -> Entry:
        """Count an amount that goes now. Return its entry, for `settle`."""
        self._forget(now)
        until = now + self._span
        if not self._log or self._log[-1].since + self._grain < now:
            self._log.append(Entry(now, until, 0.0))
        entry = self._log[-1]
        entry.amount += amount
        entry.until = until
        self._sum += amount
        if self._limit is not None:
            self._due = max(self._due, now) + amount * self._span / self._limit
        return entry

    def settle(self, now: float, entry: Entry, more: float) -> None:
        """Correct an estimate by `more`, which may be negative."""
        self._forget(now)
        if self._log and entry.until >= self._log[0].until:
            entry.amount += more
            self._sum += more
        if self._limit is not None:
            self._due += more * self._span / self._limit

    def used(self, now: float) -> float:
        """Return the amount of the last minute."""
        self._forget(now)
        return self._sum

    def _forget(self, now: float) -> None:
        while self._log and self._log[0].until <= now:
            self._sum -= self._log.popleft().amount
        if not self._log:
            self._sum = 0.0  # drops the rounding error of the sum
            self._due = float("-inf")
