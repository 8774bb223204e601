"""A group too large for one request, dealt out into windows: pure, over numbers and their sizes.

Every pass is a partition. A window takes one item of each stretch of the pass's order, so that an
item's place in its window is its place in the order: a reversed order mirrors it. Which window that is
is random, so that two passes tie the windows together and what each of them shifts can be told apart.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

Draw = Callable[[int, int], Any]
"""Attempt and item → what the item is sorted by there: random, and never the same for two items."""
Windows = list[list[int]]

WIDE, LEAST = 4, 2
"""Items of a window that tell something of one another, and fewer than which tell nothing."""
_CHANCES = (1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.0)
"""For each attempt the part of a window that is dealt blindly; the rest fills the emptier windows first."""
_TRIALS = 400
"""Exchanges that are tried to tie windows together; where there is a way nearly every one is right."""
_STEP = 1.05
"""How much larger the next number of windows is that is tried."""


def fewest(number: int, most: int) -> int:
    """The fewest windows of at most `most` items; of one more where an item would stand alone."""
    return max(1, min(-(-number // max(most, 1)), number // LEAST))


def partition(
    order: Sequence[int],
    count: int,
    draw: Draw,
    sizes: Sequence[int],
    *,
    limit: int | None = None,
    least: int = LEAST,
    most: int | None = None,
    before: Sequence[Sequence[int]] | None = None,
) -> Windows | None:
    """Deal the items of `order` into `count` windows, each in the order shown; None where that fails.

    `sizes[item]` sum to no more than `limit` in each window. Windows differ by one item at most, unless
    that does not fit: then they hold from `least` to `most`. With `before`, an earlier pass, the windows
    of both are connected through the items that they have in common.
    """
    room = _Room(sizes, limit)
    if count == 1:
        return [list(order)] if room.fits(order) else None
    rows = [list(order[at : at + count]) for at in range(0, len(order), count)]
    row_of = {item: number for number, row in enumerate(rows) for item in row}
    chances = _CHANCES if limit is not None else _CHANCES[:3]
    for attempt, chance in enumerate(chances):
        made = _dealt(rows, count, partial(draw, attempt), room, chance)
        if room.all_fit(made) and _tied(made, before, room, row_of):
            return [sorted(window, key=row_of.__getitem__) for window in made]
    return _packed(order, count, partial(draw, len(_CHANCES)), room, least, most, before)


def count_for(sizes: Sequence[int], limit: int | None, most: int, least: int = WIDE, start: int = 1) -> int:
    """How few windows, `start` or more, of at least `least` items fit `limit`; 0 where none are found."""
    number = len(sizes)
    last = max(fewest(number, most), number // max(least, 1))
    count = max(fewest(number, most), start)
    if number == 0 or count > last:
        return 0
    if limit is None:
        return count
    if limit <= 0:
        return 0
    room = _Room(sizes, limit)
    count = max(count, -(-sum(sizes) // limit))
    order = sorted(range(number), key=lambda item: -sizes[item])
    while count <= last:
        floor = min(least, number // count)
        if _filled(order, count, room, floor, max(most, -(-number // count))):
            return count
        count = min(max(count + 1, int(count * _STEP)), last) if count < last else last + 1
    return 0


class _Room:
    """What fits into one window."""

    def __init__(self, sizes: Sequence[int], limit: int | None) -> None:
        self.of, self.limit = sizes.__getitem__, limit

    def load(self, window: Sequence[int]) -> int:
        return sum(map(self.of, window))

    def fits(self, window: Sequence[int]) -> bool:
        return self.limit is None or self.load(window) <= self.limit

    def all_fit(self, windows: Windows) -> bool:
        return self.limit is None or all(map(self.fits, windows))


def _dealt(
    rows: Sequence[Sequence[int]], count: int, draw: Callable[[int], Any], room: _Room, chance: float
) -> Windows:
    """One item of each row to each window: the first rows blindly, the others the largest to the emptiest."""
    windows: Windows = [[] for _ in range(count)]
    loads = [0] * count
    shuffled = [sorted(row, key=draw) for row in rows]
    if chance < 1:  # which rows go blindly is drawn too
        shuffled.sort(key=lambda row: draw(row[0]))
    blind = round(len(rows) * chance)
    for number, row in enumerate(shuffled):
        places = list(range(count))
        if number >= blind:
            row.sort(key=room.of, reverse=True)
            places.sort(key=loads.__getitem__)
        for item, place in zip(row, places, strict=False):
            windows[place].append(item)
            loads[place] += room.of(item)
    return windows


def _packed(
    order: Sequence[int],
    count: int,
    draw: Callable[[int], Any],
    room: _Room,
    least: int,
    most: int | None,
    before: Sequence[Sequence[int]] | None,
) -> Windows | None:
    """Windows by size, whose numbers of items may differ; then items change places as far as they fit."""
    place = {item: number for number, item in enumerate(order)}
    by_size = sorted(order, key=lambda item: (-room.of(item), place[item]))
    bound = max(most or len(order), -(-len(order) // count))
    made = _filled(by_size, count, room, min(least, len(order) // count), bound)
    if made is None:
        return None
    _stirred(made, sorted(order, key=draw), room)
    if not _tied(made, before, room, dict.fromkeys(order, 0)):
        return None
    return [sorted(window, key=place.__getitem__) for window in made]


def _filled(by_size: Sequence[int], count: int, room: _Room, least: int, most: int) -> Windows | None:
    """The largest apart, each with some of the smallest, then each item to the emptiest window."""
    if count < 1 or least < 1 or count * least > len(by_size):
        return None
    rest = list(by_size)
    windows = [[item] for item in rest[:count]]
    del rest[:count]
    if least > 1:
        for window in windows:
            window.extend(rest[1 - least :])
            del rest[1 - least :]
    emptiest = [(room.load(window), at) for at, window in enumerate(windows) if len(window) < most]
    heapq.heapify(emptiest)
    for item in rest:
        if not emptiest:
            return None
        load, at = emptiest[0]
        windows[at].append(item)
        if len(windows[at]) < most:
            heapq.heapreplace(emptiest, (load + room.of(item), at))
        else:
            heapq.heappop(emptiest)
    return windows if room.all_fit(windows) else None


def _stirred(windows: Windows, drawn: Sequence[int], room: _Room) -> None:
    """Let each item change places with the next that was drawn, where both windows still fit."""
    at = {item: number for number, window in enumerate(windows) for item in window}
    for one, other in zip(drawn, [*drawn[1:], *drawn[:1]], strict=True):
        here, there = at[one], at[other]
        if here != there and _exchanged(windows, here, one, there, other, room):
            at[one], at[other] = there, here


def _exchanged(windows: Windows, here: int, one: int, there: int, other: int, room: _Room) -> bool:
    """Whether two items could change places: they have if so."""
    first = [other if item == one else item for item in windows[here]]
    second = [one if item == other else item for item in windows[there]]
    if not (room.fits(first) and room.fits(second)):
        return False
    windows[here], windows[there] = first, second
    return True


def _tied(
    windows: Windows, before: Sequence[Sequence[int]] | None, room: _Room, row_of: dict[int, int]
) -> bool:
    """Exchange items of one row until the windows of both passes hang together."""
    if before is None:
        return True
    trials = _TRIALS
    island, islands = _islands(before, windows)
    while islands > 1:
        merged = False
        for here, one, there, other in _pairs(windows, island, row_of):
            trials -= 1
            if trials < 0:
                return False
            if not _exchanged(windows, here, one, there, other, room):
                continue
            found, number = _islands(before, windows)
            if number < islands:
                island, islands, merged = found, number, True
                break
            _exchanged(windows, here, other, there, one, _Room((), None))
        if not merged:
            return False
    return True


def _pairs(
    windows: Windows, island: Sequence[int], row_of: dict[int, int]
) -> Iterator[tuple[int, int, int, int]]:
    """Exchanges between an island and another one: both windows and their items of one row."""
    for here, window in enumerate(windows):
        if island[here] != island[0]:
            continue
        for there, far in enumerate(windows):
            if island[there] == island[0]:
                continue
            yield from ((here, a, there, b) for a in window for b in far if row_of[a] == row_of[b])


def _islands(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """For each window of `second` which connected part it belongs to, and how many parts there are."""
    parent = list(range(len(first) + len(second)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    at = {item: number for number, window in enumerate(first) for item in window}
    for number, window in enumerate(second, len(first)):
        for item in window:
            if item in at:
                parent[root(at[item])] = root(number)
    roots = [root(node) for node in range(len(parent))]
    return roots[len(first) :], len(set(roots))
