"""Counts, histograms, quantiles and axes that grow with what is seen, in memory that does not."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_Json = dict[str, Any]
OTHER = "other"
"""The word that counts those that came when there were too many different ones."""
_LONGEST_NAME, _LONGEST_REASON, _LONGEST_KEY = 200, 600, 4000
_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")
_IDS = re.compile(r"(?=[\w-]*\d)[A-Za-z0-9_-]{16,}")


class Tally:
    """How often words occur: the first `most` different ones, the rest as `other`."""

    def __init__(self, most: int = 24) -> None:
        self._most = most
        self._n: dict[str, int] = {}

    def add(self, word: str) -> str:
        """Count one, and say as what; of a very long word only its beginning is kept."""
        word = word[:_LONGEST_NAME]
        if word not in self._n and len(self._n) >= self._most:
            word = OTHER
        self._n[word] = self._n.get(word, 0) + 1
        return word

    def found(self) -> dict[str, int]:
        """The commonest first."""
        return dict(sorted(self._n.items(), key=lambda item: (-item[1], item[0])))


class Reasons:
    """Sentences that groups failed with, alike if only numbers and ids in them differ.

    The first 500 different sentences are counted; groups that failed with another are in no reason.
    """

    _MOST = 500

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[int, str, str]] = {}

    def add(self, kind: str, reason: str, key: str) -> None:
        """Count a group."""
        reason = reason[: _LONGEST_REASON + 1]
        alike = (kind[:_LONGEST_NAME], _NUMBERS.sub("0", _IDS.sub("0", reason)))
        n, text, first = self._found.get(alike, (0, reason, key[:_LONGEST_KEY]))
        if n or len(self._found) < self._MOST:
            self._found[alike] = n + 1, text, first

    def commonest(self, most: int) -> list[_Json]:
        """The commonest, each in the words of the first group that failed with it."""
        ranked = sorted(self._found.items(), key=lambda item: -item[1][0])[:most]
        return [
            {"kind": kind, "reason": _cut(text), "groups": n, "first": first}
            for (kind, _), (n, text, first) in ranked
        ]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"


class Bins:
    """Values counted in equal bins from 0 up; values outside count in the first or the last."""

    def __init__(self, greatest: float, bins: int) -> None:
        self._edges = [greatest * i / bins for i in range(bins + 1)]
        self._n = [0] * bins
        self.total = 0

    def place(self, value: float) -> int:
        """The number of the bin that holds a value; an edge belongs to the bin above it."""
        return bisect_right(self._edges, value, 1, len(self._n)) - 1

    def ends(self, place: int) -> list[float]:
        """The ends of a bin."""
        return self._edges[place : place + 2]

    def add(self, value: float) -> None:
        """Count one."""
        self._n[self.place(value)] += 1
        self.total += 1

    def bars(self) -> list[_Json]:
        """All bins in order; none if nothing was counted."""
        ends = zip(self._edges, self._edges[1:], self._n, strict=False)
        return [{"from": low, "to": high, "n": n} for low, high, n in ends] if self.total else []


class Quantiles:
    """Quantiles of numbers from 0 up, to within 0.5 %: counts by the logarithm (as DDSketch does, 2019).

    A value below 10⁻⁶ counts as the least value seen, one above 10⁹ as the greatest.
    """

    _LOW, _HIGH, _STEP = 1e-6, 1e9, math.log(1.01)

    def __init__(self) -> None:
        self._n = array("q", bytes(8 * (self._place(self._HIGH) + 2)))
        self._least, self._greatest = math.inf, -math.inf
        self.total = 0

    def _place(self, value: float) -> int:
        return 1 + int(math.log(value / self._LOW) / self._STEP)

    def add(self, value: float) -> None:
        """Count one."""
        self.total += 1
        self._least, self._greatest = min(self._least, value), max(self._greatest, value)
        if value <= self._LOW:
            self._n[0] += 1
        else:
            self._n[-1 if value > self._HIGH else self._place(value)] += 1

    def at(self, share: float) -> float | None:
        """The least value that this share of all is at or below; None if nothing was counted."""
        if not self.total:
            return None
        left, place = max(1, math.ceil(share * self.total)), -1
        while left > 0:
            place += 1
            left -= self._n[place]
        if place == 0:
            return self._least
        middle = self._LOW * math.exp((place - 0.5) * self._STEP)
        return self._greatest if place == len(self._n) - 1 else min(max(middle, self._least), self._greatest)

    @property
    def greatest(self) -> float | None:
        """The greatest value; None if nothing was counted."""
        return self._greatest if self.total else None


class Labels:
    """Rollouts by score and label, while every label there is becomes known only at the end.

    Up to 12 different labels stand for themselves, more are told in 12 equal bins between the least
    and the greatest. If labels are very many, one near the end of a bin may count in the next:
    they are told apart to 1/128 of their range only.
    """

    _MOST, _BINS, _FINE = 4096, 12, 256

    def __init__(self, scores: Bins) -> None:
        """`scores` are the bins of scores."""
        self._scores = scores
        self._n: Counter[tuple[int, float]] = Counter()
        self._width = 0.0  # of the grid that labels are rounded down to; 0: they stand as they are
        self._least, self._greatest = math.inf, -math.inf

    def add(self, score: float, label: float) -> None:
        """Count one rollout."""
        self._least, self._greatest = min(self._least, label), max(self._greatest, label)
        self._n[self._scores.place(score), label // self._width if self._width else label] += 1
        if len(self._n) > self._MOST:
            before, counted, self._n = self._width or 1.0, self._n, Counter()
            # halved first: the range of finite numbers need not be one
            half = (self._greatest / 2 - self._least / 2) / self._FINE
            self._width = math.ldexp(1.0, math.frexp(half)[1] + 1)
            for (place, value), n in counted.items():
                self._n[place, value * before // self._width] += n

    def cells(self) -> list[_Json]:
        """The counts by score, then label; cells without any rollout are left out."""
        labels = {label for _, label in self._n}
        exact = not self._width and len(labels) <= self._BINS
        low, step = self._least, (self._greatest - self._least) / self._BINS
        edges = [low + step * i for i in range(self._BINS)] + [self._greatest]
        found: Counter[tuple[int, float, float]] = Counter()
        for (score, label), n in self._n.items():
            value = (label + 0.5) * self._width if self._width else label
            place = bisect_right(edges, value, 1, self._BINS) - 1
            ends = (label, label) if exact else (edges[place], edges[place + 1])
            found[score, *ends] += n
        return [
            {"score": self._scores.ends(score), "label": ends, "n": n}
            for (score, *ends), n in sorted(found.items())
        ]


@dataclass(slots=True)
class Stretch:
    """Groups in a part of an axis: how many, the first and the last, failures by kind."""

    groups: int
    first: float
    last: float
    failed: dict[str, int]

    def take(self, other: Stretch) -> None:
        """Count another's as its own."""
        self.groups += other.groups
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        for kind, n in other.failed.items():
            self.failed[kind] = self.failed.get(kind, 0) + n


SECONDS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400)
"""Widths of a time axis's bars, each a multiple of the one before; then days, doubled."""
GROUPS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 50000, 100000)
"""The same for an axis of groups."""


class Timeline:
    """Groups and failures along an axis that is not known before its end, in any order.

    Only stretches with a group in them are kept, at most 128: if they become more, all grow
    wider. So a time far off takes one stretch and makes no other wider.
    """

    MOST, BARS = 128, 60

    def __init__(self, widths: Sequence[int], start: float = 0) -> None:
        """`start` is the beginning of a stretch."""
        self._widths, self._start = widths, start
        self._step = 0
        self._found: dict[int, Stretch] = {}

    def _width(self, step: int) -> int:
        more = step - len(self._widths) + 1
        return self._widths[step] if more <= 0 else self._widths[-1] << more

    def _number(self, at: float, step: int) -> int:
        return int((at - self._start) // self._width(step))

    def add(self, at: float, kind: str) -> None:
        """Count a group; `kind` says why it failed, empty if it did not."""
        one = Stretch(1, at, at, {kind: 1} if kind else {})
        found = self._found.setdefault(self._number(at, self._step), one)
        if found is not one:
            found.take(one)
        while len(self._found) > self.MOST:
            self._step += 1
            self._found = self._merged(self._found.values(), self._step)

    def _merged(self, found: Iterable[Stretch], step: int) -> dict[int, Stretch]:
        merged: dict[int, Stretch] = {}
        for one in found:
            start = Stretch(0, one.first, one.last, {})
            merged.setdefault(self._number(one.first, step), start).take(one)
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

    def bars(self, found: Sequence[Stretch]) -> list[_Json]:
        """Some stretches as at most 60 of equal width, those without any group among them too."""
        if not found:
            return []
        step, ends = self._step, (found[0].first, found[-1].last)
        while self._number(ends[1], step) - self._number(ends[0], step) >= self.BARS:
            step += 1
        low, high = (self._number(at, step) for at in ends)
        merged, bars, width = self._merged(found, step), list[_Json](), self._width(step)
        for number in range(low, high + 1):
            start, one = self._start + number * width, merged.get(number, Stretch(0, 0, 0, {}))
            failed = dict(sorted(one.failed.items()))
            bars.append({"from": start, "to": start + width, "groups": one.groups, "failed": failed})
        return bars
