"""Windows over numbers and sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.prompting.windows import LEAST, WIDE, Packing, Windows

sizes_of = st.lists(st.integers(1, 100), min_size=2, max_size=60)


def draw(seed: int) -> Callable[[int, int], float]:
    """Return random keys that depend on the seed alone."""
    return lambda attempt, item: random.Random(
        seed * 1_000_003 + attempt * 9_973 + item
    ).random()


def connected(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]) -> bool:
    """Tell if the windows of two passes are connected through common items."""
    reached, rest = set(first[0]), [set(window) for window in (*first, *second)]
    while near := [window for window in rest if window & reached]:
        reached.update(*near)
        rest = [window for window in rest if window not in near]
    return not rest


def two(
    packing: Packing, order: list[int], count: int
) -> tuple[Windows | None, Windows | None]:
    """Partition an order and its reverse into connected windows."""
    first = packing.partition(order, count, draw(1))
    return first, packing.partition(order[::-1], count, draw(2), first)


@settings(deadline=None)
@given(
    sizes_of, st.integers(20, 400), st.integers(2, 12), st.sampled_from([LEAST, WIDE])
)
def test_by_size(sizes: list[int], limit: int, most: int, least: int) -> None:
    """Windows fit the limit and are connected, or there are none."""
    order = list(range(len(sizes)))
    packing = Packing(sizes, limit, least, most)
    count = packing.count()
    if not count:
        assert sum(sorted(sizes)[-least:]) > limit or sum(sizes) > limit
        return
    first, second = two(packing, order, count)
    assert first is not None
    for windows in (first, second):
        if windows is None:  # sometimes no exchange connects two passes that fit
            continue
        assert sorted(item for window in windows for item in window) == order
        assert all(sum(sizes[item] for item in window) <= limit for window in windows)
        assert all(len(window) >= min(least, len(sizes) // count) for window in windows)
        assert all(
            len(window) <= max(most, -(-len(sizes) // count)) for window in windows
        )
    assert second is None or connected(first, second)


def test_no_second_pass() -> None:
    """If no exchange fits, there is no second pass."""
    packing = Packing([50, 50, 10, 90], limit=100)
    first, second = two(packing, [0, 1, 2, 3], 2)
    assert first is not None
    assert second is None


def test_many_items() -> None:
    """Thousands of items of very different sizes become connected windows, pass by pass."""
    rough = random.Random(0)
    sizes = [int(rough.lognormvariate(6, 1)) for _ in range(2000)]
    packing = Packing(sizes, 2 * max(sizes), WIDE, 32)
    count = packing.count()
    made: list[Windows] = []
    for pass_index in range(4):
        order = rough.sample(range(2000), 2000)
        before = made[-1] if made else None
        windows = packing.partition(order, count, draw(pass_index), before)
        assert windows is not None
        made.append(windows)
    assert all(connected(one, other) for one, other in pairwise(made))
