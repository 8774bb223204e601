"""Whose word a refusal is: the judge's, and then nobody goes for so long, or only that call's own.

A gateway over many deployments refuses a call because of the one deployment that it was given to; the next
call is given to another. A limit of the key or of the whole endpoint refuses all. Nothing in a refusal
tells the two apart, but what comes of the calls that were sent after it does.

When nothing is answered any more: stop asking, try one call now and then, give up at last.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort

from ruler_cli.types import CallError

_TURNS, _SHARE = 2, 2
"""Times that others were answered after a refusal, and how many of them for each, until refusals count as
single calls' own."""
_LATELY, _GAP = 64, 100
"""Calls after which what was seen before counts half; calls without a refusal after which it is gone."""
_MANY, _AMONG = 6, 8
"""Refused of those sent one after the other, with none after them answered: a limit for all has begun."""


class Cooldown:
    """The time in which nobody goes, from what becomes of calls, which are numbered as they are sent.

    A refusal stays open until a call that was sent after it is answered. If that call was sent before the
    wait was over, it contradicts that the refusal holds for all. Open refusals are waited for by everybody,
    unless it was seen lately that they are single calls' own; and even then if nearly all that is sent
    is refused. If nobody contradicts those, nothing is left of what was seen.
    """

    def __init__(self) -> None:
        """Nobody was refused yet, and nobody knows whose word a refusal is."""
        self._held = -math.inf
        self._open: list[tuple[int, float]] = []
        self._newest = -1
        self._first, self._end = 0, -math.inf
        self._last = -1
        self._refused = self._answered = 0.0
        self._turns = 0

    @property
    def until(self) -> float:
        """The time before which nobody goes."""
        return self._held

    @property
    def single(self) -> bool:
        """Whether refusals have shown themselves to be single calls' own."""
        return self._turns >= _TURNS and self._answered >= _SHARE * self._refused

    def refused(self, now: float, number: int, seconds: float) -> bool:
        """A call is to wait for so long; whether nobody may go meanwhile."""
        if number > self._last + _GAP:
            self._forget()
        self._last = max(self._last, number)
        if now >= self._end:
            self._first = number
        self._first, self._end = min(self._first, number), max(self._end, now + seconds)
        if number < self._newest:  # a later one was answered before this one was refused
            self._refused += 1
            self._answered += 1
            self._turns += 1
        else:
            insort(self._open, (number, now + seconds))
        return self._decide() > now

    def answered(self, now: float, number: int, began: float) -> bool:
        """A call that was sent at `began` is answered; whether a wait of all ends by that."""
        held, self._newest = self._held, max(self._newest, number)
        closed = bisect_left(self._open, (number, -math.inf))
        single = sum(began < until for _, until in self._open[:closed])
        if closed - single >= _MANY:
            self._forget()
        self._refused += single
        del self._open[:closed]
        if number > self._first and began < self._end:
            self._answered += 1
            self._turns += single > 0
        if self._refused + self._answered > _LATELY:
            self._refused, self._answered = self._refused / 2, self._answered / 2
        return self._decide() <= now < held

    @property
    def begun(self) -> bool:
        """Whether nearly all is refused that was sent of late."""
        last = self._open[-_MANY:]
        return len(last) == _MANY and last[-1][0] - last[0][0] < _AMONG

    def _forget(self) -> None:
        self._refused = self._answered = 0.0
        self._turns = 0

    def _decide(self) -> float:
        waits = self._open and (self.begun or not self.single)
        self._held = max(until for _, until in self._open) if waits else -math.inf
        return self._held


DISTINCT = 8
"""Different calls that fail, with no reply between them, before the judge counts as down."""
OUTAGE = 900.0
"""Seconds without any reply after which the run ends; what was answered is kept for the next."""
_FIRST, _LONGEST, _LONGEST_RATE = 1.0, 60.0, 15.0


class Breaker:
    """Open while the judge is down.  Limits that are passed again and again count as well; a judge that
    cannot be reached any more is down at once, since that is no call's own fault.

    While it is open a failure is the judge's and not the call's, so that an outage at night fails
    no group: it costs each call none of its tries.
    """

    def __init__(self, now: float) -> None:
        """`now` in seconds of the loop's clock, as everywhere."""
        self._failing: set[int] = set()
        self._since = now
        self._pause = _FIRST
        self._next = now
        self.open = False
        self.last: CallError | None = None

    def replied(self) -> None:
        """A reply came: the judge is there."""
        self._failing.clear()
        self.open, self._pause, self.last = False, _FIRST, None

    def failed(self, now: float, call: int, fault: CallError, jitter: float, *, probe: bool = False) -> None:
        """A call failed that may be tried again; `jitter` in [0, 1) spreads processes apart."""
        if not self._failing:
            self._since = now
        self.last = fault
        if self.open and not probe:
            return  # it was in flight already when the judge went down
        self._failing.add(call)
        if self.open or len(self._failing) >= DISTINCT or not fault.sent:
            self.open = True
            self._next = now + self._pause * (1 + jitter)
            self._pause = min(2 * self._pause, _LONGEST_RATE if fault.rate else _LONGEST)

    def wait(self, now: float, *, probing: bool) -> float | None:
        """Seconds until one call may try; None while another is trying."""
        if not self.open:
            return 0.0
        return None if probing else max(0.0, self._next - now)

    def over(self, now: float) -> str | None:
        """The sentence to end the run with, once patience is."""
        if not self.open or now - self._since < OUTAGE or self.last is None:
            return None
        return (
            f"the judge has answered no call for {(now - self._since) / 60:.0f} minutes; the last time: "
            f"{self.last.reason}; run the same command again later"
        )
