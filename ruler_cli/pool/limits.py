"""The limits of one judge: calls in flight, fixed or adaptive, and requests or tokens per minute.

docs/running.md lists the rules of the adaptive limit: additive increase, multiplicative decrease (Chiu and
Jain 1989, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance"), with slow start
(Jacobson 1988). In detail:

- A round is as many replies as the limit allows, of calls that went since it changed, with no failure among
  them and four fifths of the limit in use. The limit grows after one round, and after cuts after ever more.
- Within the cooldown of a cut no refusal lowers the limit below two fifths, until as many have come as the
  limit was: all may fail for another reason. A refusal of a call that went after an earlier one was known
  lowers it to nine tenths of the calls in flight.
- Calls beyond the first few go at most 32 times as fast as the judge is known to answer, and for 15 s after
  a refusal hardly faster, so that a refusal comes before most of a burst went.
- It grows to at most 1.1 times the limit that failed. If that is clean too, the memory is wrong and doubling
  starts again.
- What rate-limit headers leave beside the calls in flight bounds them, and is used at once until a call is
  refused. Headers that leave nothing while calls are answered are no longer believed.
- Two calls of a round that time out, with others answered meanwhile but none that was sent later, waited in
  the judge's queue: as many as were answered can wait so long, so the limit falls to four fifths of them.
- A pool begins with what the last one learned of the same judge. Refusals, and limits below the usual start,
  are forgotten after a quarter of an hour: the judge may have been down.
- Once refusals prove to be single calls' own (`cooldown.py`), the limit that failed is taken up again. The
  same follows if the judge asks the only call in flight to wait, since fewer cannot be; then only a limit
  that refuses nearly all cuts again.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

from ruler_cli.pool.pace import Pace, Sent

START, START_OF_QUEUE = 8, 64
"""Calls in flight at first; and those of a judge that has calls wait in a queue and refuses none."""
_CUT, _GROW, _MEMORY, _IN_USE = 0.8, 1.05, 1.1, 0.8
_FLOOR, _LESS = 0.4, 0.9
_COOLDOWN = 15.0
_DWELL = 8
_GAIN = 1.15
_STRIKES = 2
_PLATEAU = 60.0
_REPLIES = 40
"""Replies before a limit that failed is tried again."""
_SURGE, _CALM = 32, 1.25
"""Factors on the rate at which the judge answers: for a burst of calls, and for 15 s after a refusal."""
_SOON = 0.005
"""Seconds that are not worth a timer."""
_HALF, _FEW = 0.5, 4
"""Share of the calls in flight that were accepted before, and so few calls: below both numbers a rate may be
the cause of a refusal."""
_RECENT = 8
"""Weight of all earlier replies against the newest in the mean of their seconds."""
_TWO = 2
"""Calls of a round that time out if they wait in a queue."""
_VAIN = 32
"""Replies in a row whose headers leave nothing, until headers are no longer believed."""
_KNOWN, _VALID = 256, 900.0
"""Judges of which a process remembers what it learned, and the seconds until it forgets what failed."""


class ConcurrencyLimit:
    """A number of calls in flight that the user has set: nothing changes it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.epoch = 0
        """Number of changes of the limit so far."""
        self.alone = False
        """True if the judge refused the only call in flight: single refusals are not for their number."""

    @property
    def allowed(self) -> int:
        """The calls that may be in flight now."""
        return self.limit

    def wait(self, now: float) -> float:
        """Return the seconds until a call may go."""
        return 0.0

    def sent(self, now: float, call: Sent) -> None:
        """Note that a call goes."""

    def replied(self, now: float, call: Sent, seconds: float) -> None:
        """Note that a call was answered after `seconds`."""

    def rejected(
        self, now: float, call: Sent, in_flight: int, retry_after: float | None
    ) -> None:
        """Note that a call passed a limit of the server, with `in_flight` other calls in flight."""

    def cleared(self) -> None:
        """Note that earlier rejections were single calls' own."""

    def back(self) -> None:
        """Note that the judge answers again after it refused all calls for longer than a limit's window."""

    def disturbed(self) -> None:
        """Note that a call failed for another reason."""

    def timed_out(self, now: float, call: Sent, answered: int) -> None:
        """Note that neither a call nor a later one was answered in time; `answered` calls were meanwhile."""

    def left(self, in_flight: int, calls: int | None) -> None:
        """Note that rate limits leave so many `calls` beside those `in_flight`; None: they are not named."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The state of an adaptive limit that the next pool begins with.

    `interval` is the least time between two calls, `seconds` the mean time of a call, `at` a time of the
    monotonic clock.
    """

    limit: int
    failed: int | None
    clean: int | None
    doubling: bool
    dwell: int
    interval: float
    seconds: float
    at: float


LEARNED: dict[Hashable, Learned] = {}
"""Of this process, by judge; the newest stand last."""


class AdaptiveConcurrency(ConcurrencyLimit):
    """A limit that follows the capacity of the server."""

    def __init__(
        self, ceiling: int, start: int = START, judge: Hashable = None
    ) -> None:
        """`ceiling` connections can be open on this machine. `start` calls go at first.

        `judge` is the key under which pools of this process share what they learn; None: they do not.
        """
        super().__init__(min(start, ceiling))
        self._ceiling, self._judge = ceiling, judge
        self._most, self._vain, self._lifted = ceiling, 0, False
        self._start, self._proved, self._late = self.limit, 0, 0
        self._seconds_each = self._gap = 0.0
        self._spread = self._refused = float("-inf")
        self._doubling = True
        self._failed: int | None = None
        self._clean: int | None = None
        self._floor, self._rejections = 1, 0
        self._cut_until = self._grow_from = float("-inf")
        self._dwell = self._rounds = 1
        self._rate, self._strikes = 0.0, 0
        self._replies, self._seconds, self._peak, self._disturbed = 0, 0.0, 0, False
        learned = LEARNED.get(judge)
        self.pace = Pace()
        if learned is not None:
            self._take_up(learned)

    def _take_up(self, learned: Learned) -> None:
        self._seconds_each, self._clean = learned.seconds, learned.clean
        if time.monotonic() >= learned.at + _VALID:
            self.limit = min(max(self._start, learned.clean or 0), self._ceiling)
            return
        self.pace = Pace(learned.interval)
        self.limit = min(learned.limit, self._ceiling)
        self._failed, self._doubling, self._dwell = (
            learned.failed,
            learned.doubling,
            learned.dwell,
        )

    @property
    def allowed(self) -> int:
        """The calls that may be in flight now."""
        return min(self.limit, self._most)

    def wait(self, now: float) -> float:
        """Return the seconds until a call may go, so that a refusal comes before most of a burst went."""
        burst = self._spread - self._start * self._gap - now
        return max(self.pace.wait(now), burst if burst > _SOON else 0.0)

    def sent(self, now: float, call: Sent) -> None:
        """Note the highest number in flight, and the time."""
        self._peak = max(self._peak, call.ahead + 1)
        self._spread = max(self._spread, now) + self._gap
        self.pace.sent(now, call.number)

    def replied(self, now: float, call: Sent, seconds: float) -> None:
        """Count towards the round; at its end the limit may grow."""
        self._proved = max(self._proved, call.ahead)
        self.pace.answered()
        self._seconds_each += (seconds - self._seconds_each) / (
            _RECENT if self._seconds_each else 1
        )
        self._spread_out(now)
        if call.epoch != self.epoch:
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

    def rejected(
        self, now: float, call: Sent, in_flight: int, retry_after: float | None
    ) -> None:
        """Cut the limit, or within a cooldown lower it to what the server still holds.

        If it refuses although half as many are in flight as it accepted before, a rate may be the cause.
        """
        late = call.began > self._refused
        self._refused = now
        self._spread_out(now)
        self._spread = max(self._spread, now + self._start * self._gap)
        if self._is_rate(now, call, retry_after or 0.0):
            return
        if call.epoch != self.epoch and now >= self._cut_until:
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
            held = max(1, int(_LESS * in_flight)) if late else in_flight
            self._set(max(self._floor, min(self.limit, held)))
        else:
            self._dwell = min(_DWELL, 2 * self._dwell) if self._failed else 1
            if self._lifted:  # far above the calls that were in flight
                self.limit, self._lifted = (
                    min(self.limit, max(call.ahead, in_flight) + 1),
                    False,
                )
            self._failed = min(self.limit, call.ahead + 1)
            self._floor, self._rejections = max(1, int(self.limit * _FLOOR)), 0
            if self._clean is not None and self._clean >= self.limit:
                self._clean = None  # the limit that was clean is so no more
            self._doubling = False
            self._set(max(1, int(self.limit * _CUT)))
            self._cut_until = now + max(_COOLDOWN, retry_after or 0.0)
        self._grow_from = now + _COOLDOWN

    def _is_rate(self, now: float, call: Sent, seconds: float) -> bool:
        """Tell if a rate is the cause of a refusal, and not the number of calls in flight."""
        paced = self.pace.interval > 0
        most = (
            self.limit - 1
            if paced
            else max(1, min(self._proved, _FEW), _HALF * self._proved)
        )
        if not self.pace.refused(now, call, seconds, certain=call.ahead < most):
            return False
        if not paced:
            self._restore()
        self._remember()
        return True

    def _spread_out(self, now: float) -> None:
        """Set the time between calls of a burst, by the calls that the judge is known to answer at once."""
        calm = now < self._refused + _COOLDOWN
        at_once = (
            self.limit if calm else min(self.limit, max(self._start, self._proved + 1))
        )
        self._gap = self._seconds_each / at_once / (_CALM if calm else _SURGE)

    def cleared(self) -> None:
        """Go back to the limit that failed, without an interval."""
        self.pace.clear()
        self._restore()

    def back(self) -> None:
        """Go back to the most calls that were accepted: no limit per minute refuses all for so long."""
        self.pace = Pace()
        self._failed = max(self._failed or 1, self._proved)
        self._restore()
        self._remember()

    def _restore(self) -> None:
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

    def timed_out(self, now: float, call: Sent, answered: int) -> None:
        """Cut the limit to what is answered in time; without any answer the judge is stuck or down."""
        most = max(1, int(_CUT * answered))
        if call.epoch != self.epoch or not answered or most >= call.ahead:
            return
        self._late += 1
        if self._late < _TWO:  # a single call may be slow by itself
            return
        # timeouts cost more than refusals, so the limit grows again as slowly as it may
        self._failed, self._clean, self._dwell = answered, None, _DWELL
        self._doubling, self._rounds, self._grow_from = False, 0, now + _PLATEAU
        self._set(most)

    def left(self, in_flight: int, calls: int | None) -> None:
        """Bound the calls in flight, and lift the limit to the bound unless a call was refused."""
        if calls is None:
            self._most = self._ceiling
            return
        self._vain = 0 if calls else self._vain + 1
        if self._vain >= _VAIN:
            self._most = self._ceiling
            return
        self._most = max(1, min(in_flight + calls, self._ceiling))
        # not for a few more, since each change of the limit begins a new round
        if self._failed is None and self._most >= 2 * self.limit:
            self._lifted = True
            self._set(self._most)

    def _grow(self, now: float, rate: float) -> None:
        if (
            self._failed is not None
            and self._clean is not None
            and self.limit < self._clean
        ):
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
                self._failed, self._doubling, self._strikes, self._rate = (
                    None,
                    True,
                    0,
                    rate,
                )
                self._dwell = 1
                self._set(2 * self.limit)
            else:
                self._approach(
                    min(most, max(self.limit + 1, math.ceil(self.limit * _GROW)))
                )

    def _approach(self, limit: int) -> None:
        """Grow by a step; to the limit that failed not before many replies, since that may cost a refusal."""
        if limit >= (self._failed or 0) and self._rounds * self.limit < _REPLIES:
            self._begin()
            return
        self._rounds = 0
        self._set(limit)

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

    def _remember(self) -> None:
        if self._judge is None:
            return
        LEARNED.pop(self._judge, None)  # the newest stands last
        LEARNED[self._judge] = Learned(
            self.limit,
            self._failed,
            self._clean,
            self._doubling,
            self._dwell,
            self.pace.proved,
            self._seconds_each,
            time.monotonic(),
        )
        for judge in list(LEARNED)[
            :-_KNOWN
        ]:  # a copy: other threads may have pools too
            LEARNED.pop(judge, None)

    def _begin(self) -> None:
        self._replies, self._seconds, self._peak, self._disturbed = 0, 0.0, 0, False
        self._late = 0
        self._remember()


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
        if (
            limit is not None and limit < 1
        ):  # one in several minutes: the minute is made longer
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
        owed = min(
            self._due - _BURST, self._log[-1].until
        )  # an empty window owes nothing
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
