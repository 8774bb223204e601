"""Hedging: which call is a straggler, and how many may be asked a second time.

A step waits for its slowest call (Dean and Barroso 2013, "The Tail at Scale"). Nothing here waits or asks;
`retries.py` does.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from ruler_cli.types import Request

_RECENT, _STEPS, _ENOUGH = 256, 4, 40
"""Calls that are remembered, more if a step of as many calls as were in flight would not fit so often; and
those that must be known before any is asked again. In a step the slow calls are answered last."""
_USUAL = 0.95
"""Share of the recent calls that a straggler exceeds."""
_EARNED, _SAVED = 0.08, 0.25
"""Second calls that each answer allows, and those that are saved up at most for each place in flight: a judge
that slows down as a whole makes every call a straggler."""
_ANEW = 1 / 16
"""Share of the remembered calls that are new when the times are fitted again."""
_LONGEST = 40.0
"""Logarithm of seconds that no call takes: the fit of a few sizes may name any time for another one."""
_RIDGE = 1.0
"""Draws exponents to 0 if sizes hardly differ, or prompt and labels grow together."""


@dataclass(frozen=True, slots=True)
class CallTime:
    """Logarithms of one call's characters of prompt, number of labels, and seconds."""

    size: float
    labels: float
    seconds: float = 0.0

    @classmethod
    def of(cls, request: Request, seconds: float = 1.0) -> Self:
        """Take in a call that took `seconds`."""
        labels = math.log(max(1, len(request.labels)))
        return cls(math.log(max(1, request.size)), labels, math.log(max(seconds, 1e-6)))


@dataclass(frozen=True, slots=True)
class TimeFit:
    """Seconds that calls of a size take: factor · size^a · labels^b, by least squares of the logarithms."""

    factor: float
    size: float
    labels: float

    @classmethod
    def of(cls, calls: Sequence[CallTime]) -> Self:
        """Fit the times of calls, one at least."""
        size, labels = (
            _mean([call.size for call in calls]),
            _mean([call.labels for call in calls]),
        )
        seconds = _mean([call.seconds for call in calls])
        apart = [
            (call.size - size, call.labels - labels, call.seconds - seconds)
            for call in calls
        ]
        ss = _RIDGE + sum(s * s for s, _, _ in apart)
        ll = _RIDGE + sum(n * n for _, n, _ in apart)
        sl = sum(s * n for s, n, _ in apart)
        st = sum(s * t for s, _, t in apart)
        lt = sum(n * t for _, n, t in apart)
        determinant = ss * ll - sl * sl
        by_size = (st * ll - lt * sl) / determinant
        by_labels = (lt * ss - st * sl) / determinant
        return cls(seconds - by_size * size - by_labels * labels, by_size, by_labels)

    def expected(self, call: CallTime) -> float:
        """Return the logarithm of the seconds that a call of this size takes."""
        return self.factor + self.size * call.size + self.labels * call.labels


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class Hedging:
    """The recent times of one judge's calls, and the second calls that they allow."""

    def __init__(self) -> None:
        self._recent: deque[CallTime] = deque()
        self._window, self._credit = _RECENT, 0.0
        self._fit, self._learned = TimeFit(0.0, 0.0, 0.0), 0
        self._excess: list[float] = []
        """Times of the remembered calls against the fit, as logarithms of ratios, sorted."""

    def learn(self, request: Request, seconds: float, places: int) -> None:
        """Note that an answer came `seconds` after a call was first sent; `places` were in flight at most.

        If the second call answered, the first would have taken longer: it stays beyond the usual time.
        """
        self._window = max(_RECENT, _STEPS * places)
        if len(self._recent) == self._window:
            self._recent.popleft()
        self._recent.append(CallTime.of(request, seconds))
        self._learned += 1
        self._credit = min(self._credit + _EARNED, max(1.0, _SAVED * places))

    def usual(self, request: Request, in_flight: int) -> float | None:
        """Return the seconds within which 95 % of calls of this size are answered; None if few are known.

        Of the first calls the fast ones are answered first: those in flight count as slower until many are
        known.
        """
        known = len(self._recent)
        if known < _ENOUGH:
            return None
        full = known == self._window
        if len(self._excess) < known or self._learned >= _ANEW * known:
            self._learned = 0
            self._fit = TimeFit.of(self._recent)
            self._excess = sorted(
                call.seconds - self._fit.expected(call) for call in self._recent
            )
        rank = math.ceil(_USUAL * (known + (1 if full else in_flight)))
        if rank > known:
            return None
        return math.exp(
            min(
                self._fit.expected(CallTime.of(request)) + self._excess[rank - 1],
                _LONGEST,
            )
        )

    @property
    def allowed(self) -> bool:
        """Tell if one more call may be asked a second time."""
        return self._credit >= 1

    def spend(self) -> None:
        """Note that a call is asked a second time."""
        self._credit -= 1
