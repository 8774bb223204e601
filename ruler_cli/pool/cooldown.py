"""The time that calls wait after a refusal, and the point at which a judge counts as down.

A gateway over many deployments refuses a call because of the one deployment that it was given to; the next
call is given to another. A limit of the key or of the whole endpoint refuses all calls. A refusal does not
tell the two apart, but the answers to calls that were sent after it do.

When nothing is answered any more: stop asking, try one call now and then, give up at last.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort

from ruler_cli.types import CallError

_CONTRADICTIONS, _SHARE = 2, 2
"""Refusals that answers must contradict, and answers for each refusal, until refusals count as single
calls' own."""
_RECENT, _GAP = 64, 100
"""Calls after which earlier ones count half; calls without a refusal after which earlier ones are
forgotten."""
_MANY, _AMONG = 6, 8
"""Refused calls, among so many sent in a row and with no later one answered, that show a limit for all."""


class Cooldown:
    """The time in which no call goes, from the results of calls, which are numbered as they are sent.

    A refusal stays open until a call that was sent after it is answered. If that call was sent before the
    wait was over, it contradicts that the refusal holds for all. All calls wait for open refusals,
    unless recent refusals were single calls' own; and even then if nearly every call is refused.
    If no answer contradicts those, the earlier ones are forgotten.
    """

    def __init__(self) -> None:
        self.until = -math.inf
        """The time before which no call goes."""
        self._open: list[tuple[int, float]] = []
        self._newest = -1
        self._first, self._end = 0, -math.inf
        self._last = -1
        self._refused = self._answered = 0.0
        self._contradictions = 0

    @property
    def single(self) -> bool:
        """True once refusals have proved to be single calls' own."""
        return self._contradictions >= _CONTRADICTIONS and self._answered >= _SHARE * self._refused

    def refused(self, now: float, number: int, seconds: float) -> bool:
        """Note that a call has to wait `seconds`. Return True if all calls have to wait."""
        if number > self._last + _GAP:
            self._forget()
        self._last = max(self._last, number)
        if now >= self._end:
            self._first = number
        self._first, self._end = min(self._first, number), max(self._end, now + seconds)
        if number < self._newest:  # a later one was answered before this one was refused
            self._refused += 1
            self._answered += 1
            self._contradictions += 1
        else:
            insort(self._open, (number, now + seconds))
        return self._decide() > now

    def answered(self, now: float, number: int, began: float) -> bool:
        """Note the answer to a call that was sent at `began`. Return True if it ends a wait of all calls."""
        self._newest = max(self._newest, number)
        if self._last < 0:
            return False  # no call was refused yet
        before = self.until
        closed = bisect_left(self._open, (number, -math.inf))
        single = sum(began < until for _, until in self._open[:closed])
        if closed - single >= _MANY:
            self._forget()
        self._refused += single
        del self._open[:closed]
        if number > self._first and began < self._end:
            self._answered += 1
            self._contradictions += single > 0
        if self._refused + self._answered > _RECENT:
            self._refused, self._answered = self._refused / 2, self._answered / 2
        return self._decide() <= now < before

    @property
    def begun(self) -> bool:
        """True if nearly every recent call was refused."""
        last = self._open[-_MANY:]
        return len(last) == _MANY and last[-1][0] - last[0][0] < _AMONG

    def _forget(self) -> None:
        self._refused = self._answered = 0.0
        self._contradictions = 0

    def _decide(self) -> float:
        waits = self._open and (self.begun or not self.single)
        self.until = max(until for _, until in self._open) if waits else -math.inf
        return self.until


DISTINCT = 8
"""Different calls that fail, with no reply between them, before the judge counts as down."""
OUTAGE = 900.0
"""Seconds without any reply, by default, after which the run ends; answers so far stay in the ledger."""
_WORDS = 160
"""Characters of an error that a sentence on an outage has."""
_FIRST, _LONGEST, _LONGEST_RATE = 1.0, 60.0, 15.0


class Breaker:
    """Open while the judge is down.

    Calls that meet a limit count as failed too. A judge that cannot be reached is down at once, since no
    single call is the cause. While the breaker is open, a failure costs a call none of its tries: so an
    outage at night fails no group.
    """

    def __init__(self, now: float, patience: float = OUTAGE, judge: str = "", address: str = "") -> None:
        """`now` in seconds of the loop's clock, as in every method.

        `patience` is how many seconds an outage may last. `judge` and `address` are named in sentences.
        """
        self._patience, self._address = patience, address
        self._judge = f"{judge} at {address}" if judge and address else judge
        self._failing: set[int] = set()
        self._since = now
        self._pause = _FIRST
        self._next = now
        self.open = False
        self.last: CallError | None = None

    def replied(self) -> None:
        """Close: a reply came."""
        self._failing.clear()
        self.open, self._pause, self.last = False, _FIRST, None

    def failed(self, now: float, call: int, error: CallError, jitter: float, *, probe: bool = False) -> None:
        """Note a failed call that may be tried again; `jitter` in [0, 1) spreads processes apart."""
        if not self._failing:
            self._since = now
        self.last = error
        if self.open and not probe:
            return  # it was in flight already when the judge went down
        self._failing.add(call)
        if self.open or len(self._failing) >= DISTINCT or not error.sent:
            self.open = True
            self._next = now + self._pause * (1 + jitter)
            self._pause = min(2 * self._pause, _LONGEST_RATE if error.rate else _LONGEST)

    def wait_anew(self) -> None:
        """Count an outage that goes on from its next failure: later calls are waited for as long again."""
        self._failing.clear()

    def wait(self, now: float, *, probing: bool) -> float | None:
        """Return the seconds until one call may try; None while another call is trying."""
        if not self.open:
            return 0.0
        return None if probing else max(0.0, self._next - now)

    @property
    def cause(self) -> str:
        """The last error with its judge and the judge's address; empty if a reply came since."""
        if self.last is None:
            return ""
        reason = self.last.reason
        words = reason if len(reason) <= _WORDS else reason[:_WORDS] + "…"
        named = not self._judge or (self._address and self._address in words)
        return words if named else f"{words} ({self._judge})"

    @property
    def outage(self) -> str:
        """The sentence on an outage with its cause; empty if there is none."""
        if not self.open or self.last is None:
            return ""
        return f"{'rate limit of the judge' if self.last.rate else 'the judge is down'}: {self.cause}"

    def over(self, now: float) -> str | None:
        """Return the sentence on an outage that lasts too long, else None."""
        seconds = now - self._since
        if not self.open or seconds < self._patience or self.last is None:
            return None
        lasted = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
        return f"the judge has answered no call for {lasted}; the last time: {self.cause}"
