"""Counts, histograms, quantiles, times and axes of a run: counts are bounded, a number takes 8 bytes."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any, Literal

_Json = dict[str, Any]
OTHER = "other"
"""The word under which further different words are counted, once there are too many."""
_LONGEST_NAME, _LONGEST_REASON, _LONGEST_KEY = 200, 600, 4000
_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")
_IDS = re.compile(r"(?=[\w-]*\d)[A-Za-z0-9_-]{16,}")


class WordCounts:
    """Counts of words: the first `most` different ones, the rest as `other`."""

    def __init__(self, most: int = 24) -> None:
        self._most = most
        self._n: Counter[str] = Counter()

    def add(self, word: str) -> str:
        """Count a word, and return the one that it counts as: a very long one by its beginning."""
        word = word[:_LONGEST_NAME]
        if word not in self._n and len(self._n) >= self._most:
            word = OTHER
        self._n[word] += 1
        return word

    def by_count(self) -> dict[str, int]:
        """Return the counts, the commonest word first."""
        return dict(sorted(self._n.items(), key=lambda item: (-item[1], item[0])))

    def by_number(self) -> dict[str, int]:
        """Return the counts of words that are numbers, the lowest first; `other` comes before them."""
        counts = self.by_count()
        return dict(
            sorted(
                counts.items(), key=lambda item: 0 if item[0] == OTHER else int(item[0])
            )
        )


class FailureReasons:
    """Reasons of failed groups; two are alike if they differ in numbers and ids only.

    The first 500 different reasons are counted, further ones are not.
    """

    _MOST = 500

    def __init__(self) -> None:
        # by kind and pattern: groups, reason and key of the first
        self._counts: dict[tuple[str, str], tuple[int, str, str]] = {}

    def add(self, kind: str, reason: str, key: str) -> None:
        """Count a group that failed."""
        reason = reason[: _LONGEST_REASON + 1]
        pattern = (kind[:_LONGEST_NAME], _NUMBERS.sub("0", _IDS.sub("0", reason)))
        n, text, first = self._counts.get(pattern, (0, reason, key[:_LONGEST_KEY]))
        if n or len(self._counts) < self._MOST:
            self._counts[pattern] = n + 1, text, first

    def commonest(self) -> list[_Json]:
        """Return the six commonest reasons, each in the words of the first group that failed with it."""
        ranked = sorted(self._counts.items(), key=lambda item: -item[1][0])[:6]
        return [
            {
                "kind": kind,
                "reason": text[:_LONGEST_REASON] + "…" * (len(text) > _LONGEST_REASON),
                "groups": n,
                "first": first,
            }
            for (kind, _), (n, text, first) in ranked
        ]


class Bins:
    """Counts of values in equal bins from 0 up; values outside count in the first or the last."""

    def __init__(self, greatest: float, bins: int) -> None:
        self._edges = [greatest * i / bins for i in range(bins + 1)]
        self._n = [0] * bins
        self._least, self._greatest = [math.inf] * bins, [-math.inf] * bins

    def ends(self, index: int) -> list[float]:
        """Return both ends of a bin."""
        return self._edges[index : index + 2]

    def add(self, value: float) -> int:
        """Count a value, and return the index of its bin; an edge belongs to the bin above it."""
        index = bisect_right(self._edges, value, 1, len(self._n)) - 1
        self._n[index] += 1
        self._least[index] = min(self._least[index], value)
        self._greatest[index] = max(self._greatest[index], value)
        return index

    def values(self, index: int) -> list[float] | None:
        """Return the least and the greatest value of a bin; None if it is empty."""
        return [self._least[index], self._greatest[index]] if self._n[index] else None

    def bars(self) -> list[_Json]:
        """Return all bins in order; none if nothing was counted."""
        ends = zip(self._edges, self._edges[1:], self._n, strict=False)
        bars = [
            {"from": low, "to": high, "n": n, "values": self.values(index)}
            for index, (low, high, n) in enumerate(ends)
        ]
        return bars if any(self._n) else []


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the least value that is at or above this share of all; None without values."""
    return (
        sorted(values)[max(1, math.ceil(share * len(values))) - 1] if values else None
    )


class LabelCells:
    """Counts of rollouts by score and label: up to 12 different labels as they are, more in 12 bins."""

    _BINS = 12

    def __init__(self, scores: Bins) -> None:
        """`scores` are the bins of scores."""
        self._scores = scores
        self._bins, self._labels = array("b"), array("d")

    def add(self, score_bin: int, label: float) -> None:
        """Count one rollout by the bin of its score."""
        self._bins.append(score_bin)
        self._labels.append(label)

    def cells(self) -> list[_Json]:
        """Return the counts by score, then label; cells without any rollout are left out."""
        low, high = min(self._labels, default=0.0), max(self._labels, default=0.0)
        step = (high - low) / self._BINS
        edges = [*(low + step * i for i in range(self._BINS)), high]
        exact = len(set(self._labels)) <= self._BINS
        counted = Counter(zip(self._bins, self._labels, strict=True))
        cells: Counter[tuple[int, float, float]] = Counter()
        values: dict[tuple[float, float], tuple[float, float]] = {}
        for (score_bin, label), n in counted.items():
            i = bisect_right(edges, label, 1, self._BINS) - 1
            ends = (label, label) if exact else (edges[i], edges[i + 1])
            cells[score_bin, *ends] += n
            least, greatest = values.get(ends, (label, label))
            values[ends] = min(least, label), max(greatest, label)
        return [
            {
                "score": self._scores.ends(score_bin),
                "label": [low, high],
                "n": n,
                "values": {
                    "score": self._scores.values(score_bin),
                    "label": list(values[low, high]),
                },
            }
            for (score_bin, low, high), n in sorted(cells.items())
        ]


_WIDTHS = {
    "time": (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400),
    "group": (1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 50000, 100000),
}
"""Widths of an axis's bars, in seconds or groups; then the last one, doubled."""
_BARS = 60


def bars_along(
    points: Sequence[tuple[float, str]], unit: Literal["time", "group"]
) -> list[_Json]:
    """Count groups in at most 60 bars of equal width along an axis.

    `points` are the time or the number of each group and the kind of its failure, empty without one.
    """
    if not points:
        return []
    widths, start = _WIDTHS[unit], int(unit == "group")  # a file has no group 0
    low, high = min(at for at, _ in points) - start, max(at for at, _ in points) - start
    wider = chain(widths, (widths[-1] << n for n in count(1)))
    width = next(w for w in wider if high // w - low // w < _BARS)
    first = int(low // width)
    bars: list[Counter[str]] = [Counter() for _ in range(first, int(high // width) + 1)]
    values: list[list[float] | None] = [None] * len(bars)
    for at, kind in points:
        index = int((at - start) // width) - first
        bars[index][kind] += 1
        least, greatest = values[index] or (at, at)
        values[index] = [min(least, at), max(greatest, at)]
    return [
        {
            "from": start + n * width,
            "to": start + (n + 1) * width,
            "groups": bar.total(),
            "failed": {kind: bar[kind] for kind in sorted(bar) if kind},
            "values": values[n - first],
        }
        for n, bar in enumerate(bars, first)
    ]


def iso(at: float | None) -> str | None:
    """Write seconds since 1970 as a date and a time; None for a year that no calendar has."""
    try:
        return (
            None
            if at is None
            else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}Z"
        )
    except (OverflowError, ValueError, OSError):
        return None
