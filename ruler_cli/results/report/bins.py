"""Counts, histograms, quantiles and axes of a run: counts are bounded, a number takes 8 bytes."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import chain, count
from typing import Any

_Json = dict[str, Any]
OTHER = "other"
"""The word that counts those that came when there were too many different ones."""
_LONGEST_NAME, _LONGEST_REASON, _LONGEST_KEY = 200, 600, 4000
_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")
_IDS = re.compile(r"(?=[\w-]*\d)[A-Za-z0-9_-]{16,}")


class WordCounts:
    """How often words occur: the first `most` different ones, the rest as `other`."""

    def __init__(self, most: int = 24) -> None:
        self._most = most
        self._n: Counter[str] = Counter()

    def add(self, word: str) -> str:
        """Count one, and return the word that it counts as: a very long one by its beginning."""
        word = word[:_LONGEST_NAME]
        if word not in self._n and len(self._n) >= self._most:
            word = OTHER
        self._n[word] += 1
        return word

    def found(self) -> dict[str, int]:
        """The commonest first."""
        return dict(sorted(self._n.items(), key=lambda item: (-item[1], item[0])))


class FailureReasons:
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

    def place(self, value: float) -> int:
        """The number of the bin that holds a value; an edge belongs to the bin above it."""
        return bisect_right(self._edges, value, 1, len(self._n)) - 1

    def ends(self, place: int) -> list[float]:
        """The ends of a bin."""
        return self._edges[place : place + 2]

    def add(self, value: float) -> None:
        """Count one."""
        self._n[self.place(value)] += 1

    def bars(self) -> list[_Json]:
        """All bins in order; none if nothing was counted."""
        ends = zip(self._edges, self._edges[1:], self._n, strict=False)
        return [{"from": low, "to": high, "n": n} for low, high, n in ends] if any(self._n) else []


def quantile(values: Sequence[float], share: float) -> float | None:
    """The least value that this share of all is at or below; None of no values."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1] if values else None


class LabelCells:
    """Rollouts by score and label: up to 12 different labels as they are, more in 12 equal bins."""

    _BINS = 12

    def __init__(self, scores: Bins) -> None:
        """`scores` are the bins of scores."""
        self._scores = scores
        self._places, self._labels = array("b"), array("d")

    def add(self, score: float, label: float) -> None:
        """Count one rollout."""
        self._places.append(self._scores.place(score))
        self._labels.append(label)

    def cells(self) -> list[_Json]:
        """The counts by score, then label; cells without any rollout are left out."""
        low, high = min(self._labels, default=0.0), max(self._labels, default=0.0)
        step = (high - low) / self._BINS
        edges = [*(low + step * i for i in range(self._BINS)), high]
        exact = len(set(self._labels)) <= self._BINS
        counted = Counter(zip(self._places, self._labels, strict=True))
        found: Counter[tuple[int, float, float]] = Counter()
        for (place, label), n in counted.items():
            at = bisect_right(edges, label, 1, self._BINS) - 1
            ends = (label, label) if exact else (edges[at], edges[at + 1])
            found[place, *ends] += n
        return [
            {"score": self._scores.ends(place), "label": ends, "n": n}
            for (place, *ends), n in sorted(found.items())
        ]


SECONDS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400)
"""Widths of a time axis's bars; then days, doubled."""
GROUPS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 50000, 100000)
"""The same for an axis of groups."""
_BARS = 60


def along(found: Sequence[tuple[float, str]], widths: Sequence[int], start: int) -> list[_Json]:
    """Count groups in at most 60 bars of equal width; `found` are places on the axis and kinds of failures.

    `start` is the beginning of a bar; a group that did not fail has an empty kind.
    """
    if not found:
        return []
    low, high = min(at for at, _ in found) - start, max(at for at, _ in found) - start
    wider = chain(widths, (widths[-1] << n for n in count(1)))
    width = next(w for w in wider if high // w - low // w < _BARS)
    first = int(low // width)
    bars: list[Counter[str]] = [Counter() for _ in range(first, int(high // width) + 1)]
    for at, kind in found:
        bars[int((at - start) // width) - first][kind] += 1
    return [
        {
            "from": start + n * width,
            "to": start + (n + 1) * width,
            "groups": bar.total(),
            "failed": {kind: bar[kind] for kind in sorted(bar) if kind},
        }
        for n, bar in enumerate(bars, first)
    ]
