"""The least time between two calls to a judge that refuses calls however few are in flight.

Such a judge has a limit per second or per minute that it does not name. Refusals show it: fewer calls in
flight would not have prevented them, and a quarter of the recent calls was refused. The interval is then the
time per call that was accepted so far, with the wait that the refusal asks for; it grows with each further
refusal, and shrinks after calls, or minutes, without any. If refusals come as often all the same, no rate is
their cause.
"""

from __future__ import annotations

import math

from ruler_cli.types import value

_CALLS, _SHARE = 32, 8
"""Recent calls, and those of them that are refused if a rate is the cause."""
_PAUSE, _LONGEST_PAUSE, _LONGEST = 0.5, 15.0, 60.0
"""Seconds without a call after a refusal, doubled while no call is accepted; and of the longest interval."""
_MEMORY = 120.0
"""Seconds after which the calls before count half."""
_SLOWER, _FASTER, _FAST = 1.1, 1.05, 1.25
"""Factors on the interval and on the rate: after a refusal, near the rate that failed, and far from it."""
_CLEAN, _DWELL = 20, 8
"""Calls without a refusal until the rate grows, and the most times so many."""
_STEADY = 120.0
"""Seconds without a refusal after which the rate grows too: it may have been low for a while only."""
_FEW, _VAIN = 5, 4
"""Accepted calls between two refusals that are too few to tell, and refusals in vain after longer spans."""
_SLACK = 0.005
"""Seconds that a call may go early: timers are no more exact."""


@value
class Sent:
    """The state of a pool when a call goes.

    `number` counts the calls that went, from 0. `epoch` is that of the concurrency limit. `ahead` are the
    other calls in flight, `replies` all replies so far. `began` is the loop's time.
    """

    number: int
    epoch: int
    ahead: int = 0
    replies: int = 0
    began: float = 0.0


class Pace:
    """The least seconds between two calls, 0 until refusals show a rate."""

    def __init__(self, interval: float = 0.0) -> None:
        self.interval = self.proved = interval
        """Seconds now, and when a call was answered last: refusals alone may be an outage."""
        self._due = self._since = self._refused = -math.inf
        self._accepted, self._between, self._recent, self._newest = 0.0, 0, 0, 0
        self._pause = _PAUSE
        self._failed, self._dwell, self._clean, self._vain = 0.0, 1, 0, 0
        self._begun, self._changed = math.inf, -math.inf
        self._off = False

    def wait(self, now: float) -> float:
        """Return the seconds until a call may go."""
        return max(0.0, self._due - now)

    def answered(self) -> None:
        """Note that a call was answered."""
        self.proved = self.interval

    def clear(self) -> None:
        """Forget the interval: refusals are single calls' own."""
        self.interval, self._due = 0.0, -math.inf

    def sent(self, now: float, number: int) -> None:
        """Count a call that goes; the interval shrinks after many without a refusal."""
        self._newest, self._begun = number, min(self._begun, now)
        if now > self._since + _MEMORY:
            self._accepted /= 2
            self._since = now - _MEMORY / 2 if self._accepted else now
        self._recent = self._recent << 1 & (1 << _CALLS) - 1
        self._accepted += 1
        self._between += 1
        if not self.interval:
            return
        held = now <= self._due + _SLACK
        self._clean += held
        self._due = max(self._due, now - _SLACK) + self.interval
        if self._clean >= _CLEAN * self._dwell:
            self._vain = 0
            self._grow(now)
        elif held and now >= max(self._changed, self._begun) + _STEADY:
            self._grow(now)

    def _grow(self, now: float) -> None:
        self._clean, self._changed = 0, now
        self.interval /= _FASTER if self.interval < 2 * self._failed else _FAST
        if self.interval < self._failed / _SLOWER:  # what failed once does not fail now
            self._failed, self._dwell = 0.0, 1

    def refused(self, now: float, call: Sent, seconds: float, *, certain: bool) -> bool:
        """Note a refusal that asks to wait `seconds`. Return True if a rate is its cause.

        `certain`: fewer calls in flight would not have prevented the refusal.
        """
        self._accepted -= 1
        self._between -= 1
        self._recent |= 1 << min(self._newest - call.number, _CALLS)
        begins = certain and self._recent.bit_count() >= _SHARE and not self._off
        if call.began < self._refused and (self.interval or not begins):
            return self.interval > 0  # it went before an earlier refusal was known
        before, between = self._refused, self._between
        self._refused, self._between = now, 0
        if not (self.interval and certain) and not begins:
            return False
        self._pause = _PAUSE if between > 0 else min(2 * self._pause, _LONGEST_PAUSE)
        wait = max(self._pause, seconds)
        interval = (now + wait - self._since) / max(1.0, self._accepted)
        if self.interval:
            self._vain += between >= _FEW
            if self._vain > _VAIN:
                self.clear()
                self._off = True
                return False
            self._failed, self._dwell = self.interval, min(_DWELL, 2 * self._dwell)
            if 0 < between < _FEW:
                interval = max(interval, (now + wait - before) / between)
            if between > 0:
                interval = max(interval, _SLOWER * self.interval)
        self._clean, self._changed = 0, now
        self.interval = min(_LONGEST, max(self.interval, interval))
        self._due = now + max(wait, self.interval)
        return True
