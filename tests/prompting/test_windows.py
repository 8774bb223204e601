"""Windows over numbers and sizes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.prompting.windows import LEAST, WIDE, Packing, Windows, is_connected


def draw(at: int, attempt: int, item: int) -> float:
    """Return a random key."""
    return random.Random(at * 1_000_003 + attempt * 9_973 + item).random()


def pair_of(packing: Packing) -> tuple[Windows, Windows] | None:
    """Return the fewest windows of an order and its reverse."""
    order = list(range(len(packing.sizes)))
    for count in packing.counts():
        if pair := packing.pair([order, order[::-1]], count, draw):
            return pair
    return None


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 100), min_size=2, max_size=60),
    st.integers(20, 400),
    st.integers(2, 12),
    st.sampled_from([LEAST, WIDE]),
)
def test_by_size(sizes: list[int], limit: int, most: int, least: int) -> None:
    """Each pass has each item once, in windows that fit, or there are none."""
    pair = pair_of(Packing(sizes, limit, least, most))
    if pair is None:
        assert sum(sorted(sizes)[-least:]) > limit or sum(sizes) > limit
        return
    number = len(sizes)
    for windows in pair:
        count = len(windows)
        assert sorted(item for window in windows for item in window) == [*range(number)]
        for window in windows:
            assert sum(sizes[item] for item in window) <= limit
            assert min(least, number // count) <= len(window)
            assert len(window) <= max(most, -(-number // count))


@pytest.mark.parametrize("limit", [2, 10, 1 << 40])
def test_many_items(limit: int) -> None:
    """Thousands of items of very different sizes become connected windows."""
    rough = random.Random(0)
    sizes = [int(rough.lognormvariate(6, 1)) for _ in range(2000)]
    pair = pair_of(Packing(sizes, limit * max(sizes), WIDE, 32))
    assert pair is not None
    assert is_connected(*pair)
    fewest = max(2000 / 32, sum(sizes) / limit / max(sizes))
    assert len(pair[0]) <= 1.1 * fewest + 1


def test_connected() -> None:
    """Windows are connected if common items lead from each to each."""
    assert is_connected([[0, 1], [2, 3]], [[0, 2], [1, 3]])
    assert not is_connected([[0, 1], [2, 3]], [[1, 0], [2, 3]])
