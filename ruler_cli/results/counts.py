"""Counts, histograms, quantiles and times of a run; counts are bounded, whatever words a file has."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

_Json = dict[str, Any]
OTHER = "other"
"""The word under which further different words are counted, once there are too many."""
_LONGEST_NAME, _LONGEST_REASON, _LONGEST_KEY = 200, 600, 4000
_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")
_IDS = re.compile(r"(?=[\w-]*\d)[A-Za-z0-9_-]{16,}")
_WORDS, _LISTED = 1000, 24
"""Different words that are counted, and that are listed."""
_BARS = 60
"""Bars of an axis, at most."""


class WordCounts:
    """Counts of words: the first thousand different ones, the rest as `other`."""

    def __init__(self) -> None:
        self._n: Counter[str] = Counter()

    def add(self, word: str) -> str:
        """Count a word, and return the one that it counts as: a very long one by its beginning."""
        word = word[:_LONGEST_NAME]
        if word not in self._n and len(self._n) >= _WORDS:
            word = OTHER
        self._n[word] += 1
        return word

    def by_count(self) -> dict[str, int]:
        """Return the counts of the most frequent words, and of all other ones."""
        ranked = sorted(self._n.items(), key=lambda item: (-item[1], item[0]))
        others = sum(n for _, n in ranked[_LISTED:])
        listed = Counter(dict(ranked[:_LISTED]))
        listed[OTHER] += others
        return dict(+listed)

    @property
    def more(self) -> int:
        """The number of different words that are not listed by themselves."""
        return max(0, len(self._n) - _LISTED)


class FailureReasons:
    """Reasons of failed groups; two are alike if they differ in numbers and ids only.

    The first 500 different reasons are counted, further ones are not.
    """

    _MOST = 500

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], _Json] = {}  # by kind and pattern

    def add(self, kind: str, reason: str, key: str) -> None:
        """Count a group that failed."""
        reason = shorten(reason, _LONGEST_REASON)
        kind = kind[:_LONGEST_NAME]
        pattern = (kind, _NUMBERS.sub("0", _IDS.sub("0", reason)))
        if pattern not in self._counts and len(self._counts) < self._MOST:
            first = key[:_LONGEST_KEY]
            new = {"kind": kind, "reason": reason, "groups": 0, "first": first}
            self._counts[pattern] = new
        if pattern in self._counts:
            self._counts[pattern]["groups"] += 1

    def commonest(self) -> list[_Json]:
        """Return the six commonest reasons, each in the words of the first group that failed with it."""
        ranked = sorted(self._counts.values(), key=lambda one: -one["groups"])
        return ranked[:6]


class Bins:
    """Counts of values between edges; those outside count in the first or the last bin."""

    def __init__(self, edges: Iterable[float]) -> None:
        self._edges = [*edges]
        bins = len(self._edges) - 1
        self._n = [0] * bins
        self._least = [math.inf] * bins
        self._greatest = [-math.inf] * bins

    def add(self, value: float) -> int:
        """Count a value, and return the index of its bin; an edge belongs to the bin above it."""
        index = bisect_right(self._edges, value, 1, len(self._n)) - 1
        self._n[index] += 1
        self._least[index] = min(self._least[index], value)
        self._greatest[index] = max(self._greatest[index], value)
        return index

    def ends(self, index: int) -> list[float]:
        """Return both ends of a bin."""
        return self._edges[index : index + 2]

    def values(self, index: int) -> list[float] | None:
        """Return the least and the greatest value of a bin; None if it is empty."""
        return [self._least[index], self._greatest[index]] if self._n[index] else None

    def bars(self, count: str = "n") -> list[_Json]:
        """Return all bins in order, each with its `count`."""
        ends = zip(self._edges, self._edges[1:], self._n, strict=False)
        return [
            {"from": low, "to": high, count: n, "values": self.values(index)}
            for index, (low, high, n) in enumerate(ends)
        ]


def equal_bins(greatest: float, bins: int) -> Bins:
    """Divide the range from 0 into equal bins."""
    return Bins(greatest * i / bins for i in range(bins + 1))


def histogram(values: Sequence[float], greatest: float, bins: int) -> list[_Json]:
    """Count values in equal bins from 0; no bins without values."""
    counted = equal_bins(greatest, bins)
    for value in values:
        counted.add(value)
    return counted.bars() if values else []


def cells(points: Iterable[tuple[float, float]], **axes: Bins) -> list[_Json]:
    """Count points by the bins of two axes, which have names; cells without any point are left out."""
    (x, first), (y, second) = axes.items()
    counted = Counter([(first.add(one), second.add(two)) for one, two in points])
    return [
        {
            x: first.ends(i),
            y: second.ends(j),
            "n": n,
            "values": {x: first.values(i), y: second.values(j)},
        }
        for (i, j), n in sorted(counted.items())
    ]


def bars_along(points: Sequence[tuple[float, str]]) -> list[_Json]:
    """Count groups in at most 60 bars of equal width along an axis.

    `points` are the time or the number of each group and the kind of its failure, empty without one.
    """
    if not points:
        return []
    low = math.floor(min(points)[0])
    high = math.floor(max(points)[0])
    width = (high - low) // _BARS + 1
    bins = Bins(range(low, high + width + 1, width))
    kinds = [Counter[str]() for _ in bins.bars()]
    for at, kind in points:
        kinds[bins.add(at)][kind] += 1
    return [
        bar | {"failed": {kind: own[kind] for kind in sorted(own) if kind}}
        for bar, own in zip(bins.bars("groups"), kinds, strict=True)
    ]


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the least value that is at or above this share of all; None without values."""
    rank = max(1, math.ceil(share * len(values)))
    return sorted(values)[rank - 1] if values else None


def iso(at: float | None) -> str | None:
    """Write seconds since 1970 as a date and a time."""
    if at is None:
        return None
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def shorten(text: str, most: int) -> str:
    """Cut a text to `most` characters and an ellipsis."""
    return text if len(text) <= most else text[:most] + "…"
