"""Windows over numbers and sizes."""

from __future__ import annotations

import random

import pytest

from ruler_cli.prompting.windows import WIDE, Packing, Windows, is_connected


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
