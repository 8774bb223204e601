"""Reports of the waits for judges."""

from __future__ import annotations

import math
from collections import defaultdict

from ruler_cli.types import Observer, Status

_EVERY = 60.0
"""Seconds between two reports of waits for a judge."""


class WaitReports:
    """Reports the waits for judges to an observer: each when it begins, once a minute, and at its end.

    A judge is reported once a minute at most, however often it comes and goes.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._since = dict[str, float]()
        self._reported = defaultdict[str, float](lambda: -math.inf)

    def look(
        self,
        now: float,
        status: Status,
    ) -> None:
        """Report what has changed until `now`, in seconds of any clock."""
        waits = {wait.judge: wait for wait in status.waits}
        for judge in [judge for judge in self._since if judge not in waits]:
            since = self._since.pop(judge)
            if self._reported[judge] >= since:
                self._observer.answering(judge, now - since)
        busy = status.in_flight or status.queued or status.retrying
        for judge, wait in waits.items():
            begun = judge not in self._since
            self._since.setdefault(judge, now)
            if now >= self._reported[judge] + _EVERY and (busy or begun):
                self._reported[judge] = now
                self._observer.waiting(judge, wait.why, wait.seconds)
