"""The limits of one judge: calls in flight, fixed or adaptive, and requests or tokens per minute.

docs/running.md lists the rules of the adaptive limit: additive increase, multiplicative decrease (Chiu and
Jain 1989, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance"), with slow start
(Jacobson 1988). In detail:

- A round is as many replies as the limit allows, of calls that went since it changed, with no failure among
  them and four fifths of the limit in use. The limit grows after one round, and after cuts after ever more.
- Within the cooldown of a cut no refusal lowers the limit below two fifths, until as many have come as the
  limit was: all may fail for another reason.
- It grows to at most 1.1 times the limit that failed. If that is clean too, the memory is wrong and doubling
  starts again.
- Once refusals prove to be single calls' own (`cooldown.py`), the limit that failed is taken up again. The
  same follows if the judge asks the only call in flight to wait, since fewer cannot be; then only a limit
  that refuses nearly all cuts again.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

_START = 4
_CUT, _GROW, _MEMORY, _IN_USE = 0.8, 1.05, 1.1, 0.8
_FLOOR = 0.4
_COOLDOWN = 15.0
_DWELL = 8
_GAIN = 1.15
_STRIKES = 2
_PLATEAU = 60.0


class ConcurrencyLimit:
    """A number of calls in flight that the user has set: nothing changes it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.epoch = 0
        """Number of changes of the limit so far."""
        self.alone = False
        """True if the judge refused the only call in flight: single refusals are not for their number."""

    def sent(self, in_flight: int) -> None:
        """Note that a call goes; `in_flight` counts it too."""

    def replied(self, now: float, epoch: int, seconds: float) -> None:
        """Note that a call that went in `epoch` was answered after `seconds`."""

    def rejected(self, now: float, epoch: int, in_flight: int, retry_after: float | None) -> None:
        """Note that a call passed a limit of the server, with `in_flight` other calls in flight."""

    def cleared(self) -> None:
        """Note that earlier rejections were single calls' own."""

    def disturbed(self) -> None:
        """Note that a call failed for another reason."""


class AdaptiveConcurrency(ConcurrencyLimit):
    """A limit that follows the capacity of the server."""

    def __init__(self, ceiling: int) -> None:
        """`ceiling` connections can be open on this machine."""
        super().__init__(min(_START, ceiling))
        self._ceiling = ceiling
        self._doubling = True
        self._failed: int | None = None
        self._clean: int | None = None
        self._floor, self._rejections = 1, 0
        self._cut_until = self._grow_from = float("-inf")
        self._dwell = self._rounds = 1
        self._rate, self._strikes = 0.0, 0
        self._replies, self._seconds, self._peak, self._disturbed = 0, 0.0, 0, False

    def sent(self, in_flight: int) -> None:
        """Note the highest number in flight."""
        self._peak = max(self._peak, in_flight)

    def replied(self, now: float, epoch: int, seconds: float) -> None:
        """Count towards the round; at its end the limit may grow."""
        if epoch != self.epoch:
            return
        self._replies += 1
        self._seconds += seconds
        if self._replies < self.limit:
            return
        if self._peak < _IN_USE * self.limit or self._disturbed:
            self._begin()
            return
        rate = self.limit * self._replies / max(self._seconds, 1e-9)
        self._rounds += 1
        self._grow(now, rate)

    def rejected(self, now: float, epoch: int, in_flight: int, retry_after: float | None) -> None:
        """Cut the limit, or within a cooldown lower it to what the server still holds."""
        if epoch != self.epoch and now >= self._cut_until:
            return  # it went before the limit changed
        if retry_after and self.limit == 1 and not in_flight:
            self.alone = True
            self.cleared()
            return
        self.alone = False
        if now < self._cut_until:
            self._rejections += 1
            if self._rejections > (self._failed or 0):
                self._rejections, self._floor = 0, max(1, int(self._floor * _FLOOR))
            self._set(max(self._floor, min(self.limit, in_flight)))
        else:
            self._dwell = min(_DWELL, 2 * self._dwell) if self._failed else 1
            self._failed = self.limit
            self._floor, self._rejections = max(1, int(self.limit * _FLOOR)), 0
            if self._clean is not None and self._clean >= self.limit:
                self._clean = None  # the limit that was clean is so no more
            self._doubling = False
            self._set(max(1, int(self.limit * _CUT)))
            self._cut_until = now + max(_COOLDOWN, retry_after or 0.0)
        self._grow_from = now + _COOLDOWN

    def cleared(self) -> None:
        """Go back to the limit that failed, and on from there as if it had not."""
        if self._failed is None:
            return
        limit, self._failed, self._clean = self._failed, None, None
        self._doubling, self._dwell, self._rate, self._strikes = True, 1, 0.0, 0
        self._cut_until = self._grow_from = float("-inf")
        self._set(max(limit, self.limit))

    def disturbed(self) -> None:
        """Hold growth back until a round without failures."""
        self._disturbed = True

    def _grow(self, now: float, rate: float) -> None:
        if self._failed is not None and self._clean is not None and self.limit < self._clean:
            self._set(self._clean)
            return
        self._clean = max(self.limit, self._clean or 0)
        if self._doubling:
            self._double(now, rate)
        elif now < self._grow_from or self._rounds <= self._dwell:
            self._begin()
        elif self._failed is None:  # the time of a plateau is over
            self._doubling, self._strikes = True, _STRIKES - 1
            self._set(2 * self.limit)
        else:
            most = int(_MEMORY * self._failed)
            if self.limit >= most:
                self._failed, self._doubling, self._strikes, self._rate = None, True, 0, rate
                self._dwell = 1
                self._set(2 * self.limit)
            else:
                self._rounds = 0
                self._set(min(most, max(self.limit + 1, math.ceil(self.limit * _GROW))))

    def _double(self, now: float, rate: float) -> None:
        if self.limit == self._ceiling:  # a round more at the same limit is no plateau
            self._begin()
            return
        self._strikes = self._strikes + 1 if rate < _GAIN * self._rate else 0
        self._rate = max(rate, self._rate)
        if self._strikes < _STRIKES:
            self._set(2 * self.limit)
            return
        self._doubling, self._rounds, self._dwell = False, 0, 1
        self._grow_from = now + _PLATEAU
        self._set(max(1, self.limit // 2))

    def _set(self, limit: int) -> None:
        if limit != self.limit:
            self.limit = min(limit, self._ceiling)
            self.epoch += 1
        self._begin()

    def _begin(self) -> None:
        self._replies, self._seconds, self._peak, self._disturbed = 0, 0.0, 0, False


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
