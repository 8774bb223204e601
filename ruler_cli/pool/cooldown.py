"""The time that calls wait after a refusal, and the point at which a judge counts as down.

A gateway over many deployments refuses a call because of the one deployment that it was given to; the next
call is given to another. A limit of the key or of the whole endpoint refuses all calls. A refusal does not
tell the two apart, but the answers to calls that were sent after it do.

When nothing is answered any more: stop asking, try one call now and then, give up at last.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import InitVar, dataclass

from ruler_cli.types import CallError, duration, shorten

_CONTRADICTIONS = 2
"""Refusals that answers must contradict until refusals count as single calls' own."""
_SHARE = 2
"""Answers for each refusal until then."""
_MANY = 6
_AMONG = 8
"""Refused calls, among so many sent in a row and with no later one answered, that show a limit for all."""


class Cooldown:
    """The time in which no call goes, from the results of calls, which are numbered as they are sent.

    A refusal stays open until a call that was sent after it is answered. If that call was sent before the
    wait was over, it contradicts that the refusal holds for all. All calls wait for open refusals,
    unless refusals were single calls' own; and even then if nearly every recent call is refused.
    """

    def __init__(self) -> None:
        self.until = -math.inf
        """The time before which no call goes."""
        self.newest = -1
        """The number of the call sent last of those that were answered."""
        self._open: list[tuple[int, float]] = []
        self._end = -math.inf
        self._refused = self._answered = self._contradictions = 0

    @property
    def single(self) -> bool:
        """True once refusals have proved to be single calls' own."""
        return (
            self._contradictions >= _CONTRADICTIONS
            and self._answered >= _SHARE * self._refused
        )

    def refused(self, now: float, number: int, seconds: float) -> bool:
        """Note that a call has to wait `seconds`. Return True if all calls have to wait."""
        self._end = max(self._end, now + seconds)
        if number > self.newest:
            insort(self._open, (number, now + seconds))
        else:  # a later one was answered before this one was refused
            self._refused += 1
            self._answered += 1
            self._contradictions += 1
        self._decide()
        return self.until > now

    def answered(self, number: int, began: float) -> None:
        """Note the answer to a call that was sent at `began`, which may end a wait of all calls."""
        self.newest = max(self.newest, number)
        closed = bisect_left(self._open, (number, -math.inf))
        single = sum(began < until for _, until in self._open[:closed])
        del self._open[:closed]
        self._refused += single
        self._contradictions += single > 0
        self._answered += began < self._end
        self._decide()

    def _decide(self) -> None:
        """Set the time before which no call goes."""
        last = self._open[-_MANY:]
        nearly_all = len(last) == _MANY and last[-1][0] - last[0][0] < _AMONG
        self.until = -math.inf
        if self._open and (nearly_all or not self.single):
            self.until = max(until for _, until in self._open)


DISTINCT = 8
"""Different calls that fail, with no reply between them, before the judge counts as down."""
_RATED = 2 * DISTINCT
"""Refusals for a limit, with no reply between them, after which it does too: a step may have few calls."""
_WORDS = 160
"""Characters of an error that a sentence on an outage has."""
_FIRST = 1.0
_LONGEST = 60.0
_LONGEST_RATE = 15.0
_GROWTH = 0.2
"""Pause before the next try, as a share of the outage so far: calls wait little longer than it lasts."""


@dataclass(eq=False)
class Breaker:
    """Open while the judge is down.

    Calls that meet a limit count as failed too. A judge that cannot be reached is down at once, since no
    single call is the cause, and so is one that is not up yet if it is waited for. While the breaker is open,
    a failure costs a call none of its tries: so an outage at night fails no group.

    `now` in seconds of the loop's clock, as in every method. `patience` is how many seconds an outage may last,
    `first_patience` how many the judge has to come up; 0 for a judge that is up already. `judge` and `address` are
    named in sentences.
    """

    now: InitVar[float]
    patience: float
    judge: str
    address: str
    first_patience: float

    def __post_init__(self, now: float) -> None:
        self._failing: set[int] = set()
        self._rated = 0
        self._since = self._next = now
        self.starts = self.first_patience > 0
        self.reached = self.starts
        """True if requests reach the judge, or it is waited for until they do."""
        self.open = self.refused = False
        self.last: CallError | None = None

    @property
    def alone(self) -> bool:
        """True if one call has to be answered before others go."""
        return self.open or self.refused

    def replied(self) -> None:
        """Close: a reply came."""
        self._failing.clear()
        self._rated = 0
        self.reached = True
        self.open = self.refused = self.starts = False
        self.last = None

    def failed(
        self,
        now: float,
        call: int,
        error: CallError,
        jitter: float,
        *,
        probe: bool = False,
    ) -> None:
        """Note a failed call that may be tried again; `jitter` in [0, 1) spreads processes apart."""
        if not self._failing:
            self._since = now
        self.last = error
        self.starts = self.starts and not error.rate
        if self.open and not probe:
            return  # it was in flight already when the judge went down
        self._failing.add(call)
        self._rated += error.rate
        several = len(self._failing) >= DISTINCT or self._rated >= _RATED
        if self.open or several or not error.sent or self.starts:
            self.open = True
            longest = _LONGEST_RATE if error.rate else _LONGEST
            pause = min(max(_FIRST, _GROWTH * self.lasted(now)), longest)
            self._next = now + min(pause * (1 + jitter / 2), self.left(now))

    def wait_anew(self) -> None:
        """Count an outage that goes on from its next failure: later calls ask, and are waited for as long."""
        self._failing.clear()
        self._rated = 0
        self._next = -math.inf

    def refuse(self) -> None:
        """Note that the judge refuses all calls: of later ones, the first goes alone."""
        self.refused = True
        self.wait_anew()

    def pause(self, now: float) -> float:
        """Return the seconds until one call may try."""
        return max(0.0, self._next - now)

    def lasted(self, now: float) -> float:
        """Return the seconds since the first failure without a reply after it."""
        return now - self._since

    def left(self, now: float) -> float:
        """Return the seconds that an outage may still last."""
        patience = self.first_patience if self.starts else self.patience
        return (
            max(0.0, self._since + patience - now)
            if self._failing
            else patience
        )

    @property
    def cause(self) -> str:
        """The last error with its judge and the judge's address; empty if a reply came since."""
        if self.last is None:
            return ""
        judge = self.judge
        address = self.address
        words = shorten(self.last.reason, _WORDS)
        if not judge or (address and address in words):
            return words
        return (
            f"{words} ({judge} at {address})"
            if address
            else f"{words} ({judge})"
        )

    @property
    def outage(self) -> str:
        """The sentence on an outage with its cause; empty if there is none."""
        if not self.open or self.last is None:
            return ""
        state = (
            "the judge is not up yet" if self.starts else "the judge is down"
        )
        return f"{'rate limit of the judge' if self.last.rate else state}: {self.cause}"

    def over(self, now: float) -> str | None:
        """Return the sentence on an outage that lasts too long, else None."""
        if not self.open or self.last is None or self.left(now):
            return None
        lasted = duration(self.lasted(now))
        return f"the judge has not answered a call for {lasted}; the last error: {self.cause}"
