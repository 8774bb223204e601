"""When nothing is answered any more: stop asking, try one call now and then, give up at last."""

from __future__ import annotations

from ruler_cli.records import Fault

DISTINCT = 8
"""Different calls that fail, with no reply between them, before the judge counts as down."""
PATIENCE = 900.0
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
        self.last: Fault | None = None

    def replied(self) -> None:
        """A reply came: the judge is there."""
        self._failing.clear()
        self.open, self._pause, self.last = False, _FIRST, None

    def failed(self, now: float, call: int, fault: Fault, jitter: float, *, probe: bool = False) -> None:
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
        if not self.open or now - self._since < PATIENCE or self.last is None:
            return None
        return (
            f"the judge has answered no call for {(now - self._since) / 60:.0f} minutes; the last time: "
            f"{self.last.reason}; run the same command again later"
        )
