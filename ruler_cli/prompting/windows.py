"""Partition of a group too large for one request into windows: pure, over item numbers and sizes.

Every pass is a partition. A window takes one item of each stretch of the pass's order, so an item has the
same relative position in its window as in the order, and a reversed order mirrors it. The window of an item
is random: so two passes connect the windows, and the shift of each window can be estimated.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

Draw = Callable[[int, int], Any]
"""Attempt and item → sort key of the item in that attempt: random, and different for any two items."""
Windows = list[list[int]]

WIDE = 4
LEAST = 2
"""Items of a window that compare well, and the fewest that compare at all."""
_RANDOM_SHARES = (1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.0)
"""For each attempt the share of a window that is random; the rest goes to the emptier windows first."""
_TRIALS = 400
"""Exchanges that are tried to connect windows; if any connects them, nearly every one does."""
_STEP = 1.05
"""Factor between two numbers of windows that are tried."""


def fewest(number: int, most: int) -> int:
    """Return the fewest windows of at most `most` items, or one item more if one would stand alone."""
    return max(1, min(-(-number // max(most, 1)), number // LEAST))


@dataclass(frozen=True, slots=True)
class Packing:
    """Items by their sizes in bytes, and what a window holds: `limit` bytes, `least` to `most` items."""

    sizes: Sequence[int]
    limit: float = math.inf
    least: int = LEAST
    most: int = 1 << 30

    def count(self, start: int = 1) -> int:
        """Return the fewest windows, from `start` on, that hold all items; 0 if none do."""
        number = len(self.sizes)
        last = max(fewest(number, self.most), number // max(self.least, 1))
        count = max(fewest(number, self.most), start)
        if number == 0 or count > last or self.limit <= 0:
            return 0
        if self.limit == math.inf:
            return count
        count = max(count, math.ceil(sum(self.sizes) / self.limit))
        order = sorted(range(number), key=lambda item: -self.sizes[item])
        while count <= last:
            if self._filled(order, count):
                return count
            following = max(count + 1, int(count * _STEP))
            count = min(following, last) if count < last else following
        return 0

    def partition(
        self,
        order: Sequence[int],
        count: int,
        draw: Draw,
        before: Sequence[Sequence[int]] | None = None,
    ) -> Windows | None:
        """Partition `order` into `count` windows, each in the order shown; None if none is found.

        Windows differ by one item at most; if that does not fit, they hold `least` to `most` items. With
        `before`, the windows of an earlier pass, the windows of both are connected through items that they
        have in common.
        """
        if count == 1:
            if self._fits(order):
                return [list(order)]
            return None
        rows = [order[at : at + count] for at in range(0, len(order), count)]
        row_of = {item: number for number, row in enumerate(rows) for item in row}
        shares = _RANDOM_SHARES if self.limit < math.inf else _RANDOM_SHARES[:3]
        for attempt, share in enumerate(shares):
            made = self._dealt(rows, count, share, partial(draw, attempt))
            if self._fits(*made) and self._connect(made, before, row_of):
                return [sorted(window, key=row_of.__getitem__) for window in made]
        return self._packed(order, count, partial(draw, len(_RANDOM_SHARES)), before)

    def _dealt(
        self,
        rows: Sequence[Sequence[int]],
        count: int,
        share: float,
        drawn: Callable[[int], Any],
    ) -> Windows:
        """One item of each row for each window: a share of rows at random, else the largest to the emptiest."""
        windows: Windows = [[] for _ in range(count)]
        loads = [0] * count
        shuffled = [sorted(row, key=drawn) for row in rows]
        if share < 1:  # the random rows are drawn too
            shuffled.sort(key=lambda row: drawn(row[0]))
        for number, row in enumerate(shuffled):
            targets = list(range(count))
            if number >= round(len(rows) * share):
                row.sort(key=self.sizes.__getitem__, reverse=True)
                targets.sort(key=loads.__getitem__)
            for item, target in zip(row, targets, strict=False):
                windows[target].append(item)
                loads[target] += self.sizes[item]
        return windows

    def _load(self, window: Sequence[int]) -> int:
        return sum(map(self.sizes.__getitem__, window))

    def _fits(self, *windows: Sequence[int]) -> bool:
        return all(self._load(window) <= self.limit for window in windows)

    def _packed(
        self,
        order: Sequence[int],
        count: int,
        draw: Callable[[int], Any],
        before: Sequence[Sequence[int]] | None,
    ) -> Windows | None:
        """Fill windows by size, with different numbers of items; then exchange items as far as they fit."""
        rank = {item: number for number, item in enumerate(order)}
        by_size = sorted(order, key=lambda item: (-self.sizes[item], rank[item]))
        made = self._filled(by_size, count)
        if made is None:
            return None
        at = {item: number for number, window in enumerate(made) for item in window}
        drawn = sorted(order, key=draw)
        for one, other in zip(drawn, drawn[1:] + drawn[:1], strict=True):
            here = at[one]
            there = at[other]
            if here != there and self._exchange(
                made,
                here,
                one,
                there,
                other,
            ):
                at[one], at[other] = there, here
        if not self._connect(made, before, dict.fromkeys(order, 0)):
            return None
        return [sorted(window, key=rank.__getitem__) for window in made]

    def _filled(self, by_size: Sequence[int], count: int) -> Windows | None:
        """Put the largest items apart, each with some of the smallest, then the rest into the emptiest window."""
        number = len(by_size)
        least = min(self.least, number // count)
        most = max(self.most, -(-number // count))
        if least < 1:
            return None
        rest = list(by_size)
        windows = [[item] for item in rest[:count]]
        del rest[:count]
        if least > 1:
            for window in windows:
                window.extend(rest[1 - least :])
                del rest[1 - least :]
        loads = [(self._load(window), at) for at, window in enumerate(windows)]
        emptiest = [one for one in loads if len(windows[one[1]]) < most]
        heapq.heapify(emptiest)
        for item in rest:
            load, at = heapq.heappop(emptiest)
            windows[at].append(item)
            if len(windows[at]) < most:
                heapq.heappush(emptiest, (load + self.sizes[item], at))
        if self._fits(*windows):
            return windows
        return None

    def _exchange(
        self,
        windows: Windows,
        here: int,
        one: int,
        there: int,
        other: int,
    ) -> bool:
        """Exchange two items. Return False, and change nothing, if a window does not fit then."""
        first = [other if item == one else item for item in windows[here]]
        second = [one if item == other else item for item in windows[there]]
        if not self._fits(first, second):
            return False
        windows[here], windows[there] = first, second
        return True

    def _connect(
        self,
        windows: Windows,
        before: Sequence[Sequence[int]] | None,
        row_of: dict[int, int],
    ) -> bool:
        """Exchange items of one row until the windows of both passes are connected; False if that fails."""
        if before is None:
            return True
        trials = _TRIALS
        component, components = _components(before, windows)
        while components > 1:
            near = [at for at, own in enumerate(component) if own == component[0]]
            far = [at for at, own in enumerate(component) if own != component[0]]
            exchanges = (
                (here, one, there, other)
                for here, there in itertools.product(near, far)
                for one, other in itertools.product(windows[here], windows[there])
                if row_of[one] == row_of[other]
            )
            for here, one, there, other in exchanges:
                trials -= 1
                if trials < 0:
                    return False
                if not self._exchange(
                    windows,
                    here,
                    one,
                    there,
                    other,
                ):
                    continue
                changed, number = _components(before, windows)
                if number < components:
                    component = changed
                    components = number
                    break
                # back, to windows that fitted
                self._exchange(
                    windows,
                    here,
                    other,
                    there,
                    one,
                )
            else:
                return False
        return True


def _components(
    first: Sequence[Sequence[int]],
    second: Sequence[Sequence[int]],
) -> tuple[list[int], int]:
    """Return the connected component of each window of `second`, and the number of components."""
    parent = list(range(len(first)))
    at = {item: number for number, window in enumerate(first) for item in window}

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for window in second:
        for item in window[1:]:
            parent[root(at[item])] = root(at[window[0]])
    roots = [root(at[window[0]]) for window in second]
    return roots, len(set(roots))
