"""Windows over numbers and sizes."""

from __future__ import annotations

import random

import pytest

from ruler_cli.prompting.windows import WIDE, Packing, is_connected


def draw(pass_index: int, attempt: int, item: int) -> float:
    """Return a random key."""
    seed = pass_index * 1_000_003 + attempt * 9_973 + item
    return random.Random(seed).random()


@pytest.mark.parametrize("limit", [2, 10, 1 << 40])
def test_many_items(limit: int) -> None:
    """Thousands of items of very different sizes become connected windows."""
    rough = random.Random(0)
    sizes = [int(rough.lognormvariate(6, 1)) for _ in range(2000)]
    orders = [list(range(2000)), list(range(2000))[::-1]]
    packing = Packing(sizes, limit * max(sizes), 32, orders.__getitem__, draw)
    pair = [packing.windows(at, WIDE) for at in (0, 1)]
    assert is_connected(*pair)
    fewest = max(2000 / 32, sum(sizes) / limit / max(sizes))
    assert len(pair[0]) <= 1.1 * fewest + 1
