"""Histograms, quantiles and time axes that grow with what is seen, in memory that does not."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from ruler_cli.report.values import Bar, Cell, Ends, TimeBar


class Bins:
    """Values counted in equal stretches; what lies outside counts in the first or the last."""

    def __init__(self, greatest: float, bins: int) -> None:
        """From 0 to `greatest`."""
        self._edges = [greatest * i / bins for i in range(bins + 1)]
        self._inner = self._edges[1:-1]
        self._n = [0] * bins
        self.total = 0

    def place(self, value: float) -> int:
        """The number of the stretch that a value is in; an edge belongs to the stretch above it."""
        return bisect_right(self._inner, value)

    def ends(self, place: int) -> Ends:
        """From where to where a stretch goes."""
        return self._edges[place], self._edges[place + 1]

    def add(self, value: float) -> None:
        """Count one."""
        self._n[bisect_right(self._inner, value)] += 1
        self.total += 1

    def bars(self) -> tuple[Bar, ...]:
        """All stretches in order; none where nothing was counted."""
        return tuple(Bar(self.ends(i), n) for i, n in enumerate(self._n)) if self.total else ()


class Quantiles:
    """Quantiles of numbers from 0 up, to within 0.5 %: counts by the logarithm (as DDSketch does, 2019).

    What is below 10⁻⁶ counts as the least value seen, what is above 10⁹ as the greatest.
    """

    _LOW, _HIGH, _STEP = 1e-6, 1e9, math.log(1.01)

    def __init__(self) -> None:
        self._n = array("q", bytes(8 * (self._place(self._HIGH) + 2)))
        self._least, self.greatest = math.inf, -math.inf
        self.total = 0

    def _place(self, value: float) -> int:
        return 1 + int(math.log(value / self._LOW) / self._STEP)

    def add(self, value: float) -> None:
        """Count one."""
        self.total += 1
        self._least, self.greatest = min(self._least, value), max(self.greatest, value)
        if value <= self._LOW:
            self._n[0] += 1
        else:
            self._n[-1 if value > self._HIGH else self._place(value)] += 1

    def at(self, share: float) -> float | None:
        """The least value that this share of all is at or below; None where nothing was counted."""
        if not self.total:
            return None
        left, place = max(1, math.ceil(share * self.total)), -1
        while left > 0:
            place += 1
            left -= self._n[place]
        if place == 0:
            return self._least
        middle = self._LOW * math.exp((place - 0.5) * self._STEP)
        return self.greatest if place == len(self._n) - 1 else min(max(middle, self._least), self.greatest)


class Labels:
    """Rollouts by score and label, while every label there is becomes known only at the end.

    Up to 12 different labels stand for themselves, more are told in 12 equal stretches between the least
    and the greatest. Where labels are very many, one near the end of a stretch may count in the next:
    they are told apart to 1/128 of their range only.
    """

    _MOST, _STRETCHES, _FINE = 4096, 12, 256

    def __init__(self, scores: Bins) -> None:
        """`scores` are the stretches of scores."""
        self._scores = scores
        self._n: dict[tuple[int, float], int] = {}
        self._width = 0.0  # of the grid that labels are rounded down to; 0: they stand as they are
        self._least, self._greatest = math.inf, -math.inf

    def add(self, score: float, label: float) -> None:
        """Count one rollout."""
        self._least, self._greatest = min(self._least, label), max(self._greatest, label)
        at = (self._scores.place(score), label // self._width if self._width else label)
        self._n[at] = self._n.get(at, 0) + 1
        if len(self._n) > self._MOST:
            self._coarsen()

    def _coarsen(self) -> None:
        before = self._width or 1.0
        # halved first: the range of finite numbers need not be one
        half = (self._greatest / 2 - self._least / 2) / self._FINE
        self._width = math.ldexp(1.0, math.frexp(half)[1] + 1)
        found: dict[tuple[int, float], int] = {}
        for (score, label), n in self._n.items():
            at = (score, label * before // self._width)
            found[at] = found.get(at, 0) + n
        self._n = found

    def cells(self) -> tuple[Cell, ...]:
        """What was counted, by score, then label; stretches without any rollout are left out."""
        labels = {label for _, label in self._n}
        exact = not self._width and len(labels) <= self._STRETCHES
        low, step = self._least, (self._greatest - self._least) / self._STRETCHES
        edges = [low + step * i for i in range(self._STRETCHES)] + [self._greatest]
        found: dict[tuple[int, Ends], int] = {}
        for (score, label), n in self._n.items():
            value = (label + 0.5) * self._width if self._width else label
            place = bisect_right(edges, value, 1, self._STRETCHES) - 1
            other = (label, label) if exact else (edges[place], edges[place + 1])
            found[score, other] = found.get((score, other), 0) + n
        return tuple(Cell(self._scores.ends(s), other, n) for (s, other), n in sorted(found.items()))


class Stretch:
    """Groups in a stretch of an axis: how many, the first and the last, failures by kind."""

    __slots__ = ("failed", "first", "groups", "last")

    def __init__(self, at: float) -> None:
        self.groups, self.first, self.last = 0, at, at
        self.failed: dict[str, int] = {}

    def take(self, other: Stretch) -> None:
        """Count another's as its own."""
        self.groups += other.groups
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        for kind, n in other.failed.items():
            self.failed[kind] = self.failed.get(kind, 0) + n


SECONDS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400)
"""Widths of a time axis's stretches, each a multiple of the one before; then days, doubled."""
GROUPS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 50000, 100000)
"""The same for an axis of groups."""


class Timeline:
    """Groups and failures along an axis that is not known before its end, in any order.

    Only stretches with a group in them are kept, at most 128: where they become more, stretches grow
    wider. So a time far off takes one stretch and makes no other wider.
    """

    MOST, BARS = 128, 60

    def __init__(self, widths: Sequence[int], start: float = 0) -> None:
        """`start` is where a stretch begins."""
        self._widths, self._start = widths, start
        self._step = 0
        self._found: dict[int, Stretch] = {}

    def _width(self, step: int) -> int:
        more = step - len(self._widths) + 1
        return self._widths[step] if more <= 0 else self._widths[-1] << more

    def add(self, at: float, kind: str) -> None:
        """Count a group; `kind` says why it failed, empty where it did not."""
        number = int((at - self._start) // self._width(self._step))
        found = self._found.get(number)
        if found is None:
            found = self._found[number] = Stretch(at)
        found.groups += 1
        if at < found.first:
            found.first = at
        elif at > found.last:
            found.last = at
        if kind:
            found.failed[kind] = found.failed.get(kind, 0) + 1
        while len(self._found) > self.MOST:
            self._step += 1
            self._found = self._merged(self._found.values(), self._step)

    def _merged(self, found: Iterable[Stretch], step: int) -> dict[int, Stretch]:
        merged: dict[int, Stretch] = {}
        for stretch in found:
            number = int((stretch.first - self._start) // self._width(step))
            merged.setdefault(number, Stretch(stretch.first)).take(stretch)
        return merged

    def near(self, most: float = math.inf) -> list[Stretch]:
        """The stretches whose groups are at most so far from the median one."""
        found = sorted(self._found.values(), key=lambda stretch: stretch.first)
        left = sum(stretch.groups for stretch in found) / 2
        for middle in found:
            left -= middle.groups
            if left <= 0:
                return [s for s in found if abs(s.first - middle.first) <= most]
        return []

    def bars(self, found: Sequence[Stretch]) -> tuple[TimeBar, ...]:
        """Some stretches as at most 60 of equal width, those without any group among them too."""
        if not found:
            return ()
        step = self._step
        while True:
            width = self._width(step)
            low, high = (int((at - self._start) // width) for at in (found[0].first, found[-1].last))
            if high - low < self.BARS:
                break
            step += 1
        merged = self._merged(found, step)
        nothing = Stretch(0)
        bars = []
        for number in range(low, high + 1):
            start, one = self._start + number * width, merged.get(number, nothing)
            bars.append(TimeBar((start, start + width), one.groups, dict(sorted(one.failed.items()))))
        return tuple(bars)
