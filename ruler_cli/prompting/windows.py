"""Partition of a group too large for one request into windows: pure, over item numbers and sizes.

Every pass shows each item once, in a random window. Two passes connect the windows through the items that they
have in common, so that the level of each window can be estimated. If sizes allow, a window takes one item of
each stretch of the pass's order: an item has the same relative position in its window as in the order, and a
reversed order mirrors it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Windows = list[list[int]]

WIDE = 4
LEAST = 2
"""Items of a window that compare well, and the fewest that compare at all."""
_ATTEMPTS = 20
"""Pairs of passes that are drawn until windows are connected: nearly every pair is, if windows have three items."""
_STEP = 1.05
"""Factor between two numbers of windows that are tried."""


def fewest(
    number: int,
    most: int,
) -> int:
    """Return the fewest windows of at most `most` items, or one item more if one would stand alone."""
    return max(1, min(-(-number // most), number // LEAST))


@dataclass(frozen=True, slots=True)
class Packing:
    """Items by their sizes in bytes; a window holds `limit` bytes (above 0) and `most` items.

    `order` is that of a pass. `draw` maps a pass, an attempt and an item to a sort key, random and different for any
    two items.
    """

    sizes: Sequence[int]
    limit: float
    most: int
    order: Callable[[int], Sequence[int]]
    draw: Callable[[int, int, int], Any]

    def windows(
        self,
        pass_index: int,
        least: int,
    ) -> Windows:
        """Return the windows of a pass, as few as hold `least` items and are connected; none if nothing fits."""
        even = pass_index - pass_index % 2
        for count in self._counts(least):
            pair = self.pair(0, count, least)
            if pair and even:
                pair = self.pair(even, count, least) or pair
            if pair:
                return pair[pass_index - even]
        return []

    def _counts(self, least: int) -> Iterator[int]:
        """Yield the numbers of windows to try, the fewest first."""
        number = len(self.sizes)
        count = fewest(number, self.most)
        last = max(count, number // least)
        count = max(count, math.ceil(sum(self.sizes) / self.limit))
        while count <= last:
            yield count
            count = max(count + 1, min(last, int(count * _STEP)))

    def pair(
        self,
        even: int,
        count: int,
        least: int,
    ) -> list[Windows]:
        """Partition a pass and the next into `count` windows each; none if they do not fit.

        The windows are connected, but for rare ones of two items.
        """
        pair: list[Windows] = []
        for attempt in range(_ATTEMPTS):
            dealt = []
            for pass_index in (even, even + 1):
                order = self.order(pass_index)
                ranks = {}
                for item in order:
                    ranks[item] = self.draw(pass_index, attempt, item)
                # the largest first, if they do not fit in order
                windows = self._dealt(
                    order,
                    count,
                    least,
                    ranks,
                )
                if not windows:
                    by_size = sorted(order, key=lambda item: -self.sizes[item])
                    windows = self._dealt(
                        by_size,
                        count,
                        least,
                        ranks,
                    )
                if not windows:
                    return pair
                place = {item: at for at, item in enumerate(order)}
                for window in windows:
                    window.sort(key=place.__getitem__)
                dealt.append(windows)
            pair = dealt
            if is_connected(*pair):
                break
        return pair

    def _dealt(
        self,
        order: Sequence[int],
        count: int,
        least: int,
        ranks: Mapping[int, Any],
    ) -> Windows:
        """Deal rows of `count` items, each in a random order, to the windows with the fewest items."""
        most = max(self.most, -(-len(order) // count))
        windows: Windows = [[] for _ in range(count)]
        loads = [0] * count
        for start in range(0, len(order), count):
            row = order[start : start + count]
            for item in sorted(row, key=ranks.__getitem__):
                size = self.sizes[item]
                takers = []
                for at, window in enumerate(windows):
                    if len(window) < most and loads[at] + size <= self.limit:
                        takers.append((len(window), at))
                if not takers:
                    return []
                _, emptiest = min(takers)
                windows[emptiest].append(item)
                loads[emptiest] += size
        if min(map(len, windows)) < min(least, len(order) // count):
            return []
        return windows


def is_connected(
    first: Windows,
    second: Windows,
) -> bool:
    """Return whether common items connect the windows of two passes."""
    reached = set(first[0])
    rest = [set(window) for window in (*first, *second)]
    while near := [window for window in rest if window & reached]:
        rest = [window for window in rest if not window & reached]
        reached.update(*near)
    return not rest
