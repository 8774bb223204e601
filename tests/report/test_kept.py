"""Which texts there is room for."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.report.kept import Room


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(0, 200), st.randoms())
def test_the_most_telling_fit_in_whatever_order_they_come(sizes: list[int], size: int, dice: object) -> None:
    """Texts are in by rank until the next does not fit, whatever came first, and none is counted twice."""
    room, order = Room(size), list(range(len(sizes)))
    dice.shuffle(order)  # type: ignore[attr-defined]  # a Random
    for rank in order:
        if room.has(rank):
            room.take(rank, sizes[rank])
    fitting = sum(end <= size for end in accumulate(sizes))
    assert [room.has(rank) for rank in range(len(sizes))] == [rank < fitting for rank in range(len(sizes))]
