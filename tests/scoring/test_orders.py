"""Orders of passes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.sheet import CYCLE, balanced, drawn, keyed, order_of, salt

bases = st.permutations(range(13)).flatmap(lambda all_: st.integers(0, 13).map(lambda n: all_[:n]))
turns = st.integers(0, 40)


@given(bases, turns)
def test_every_item_once(base: list[int], turn: int) -> None:
    """An order shows each item once, and every cycle begins with the base."""
    assert sorted(balanced(base, turn)) == sorted(base)
    assert balanced(base, turn - turn % CYCLE) == base


@given(bases, turns)
def test_pairs(base: list[int], turn: int) -> None:
    """An even turn and the next one are reverses: each item's two places sum to one less than the size."""
    even = turn - turn % 2
    first, second = balanced(base, even), balanced(base, even + 1)
    assert second == first[::-1]
    assert {first.index(item) + second.index(item) for item in base} <= {len(base) - 1}


def test_quarters() -> None:
    """Each further pair begins a quarter of the group later."""
    assert [balanced(range(8), turn) for turn in (2, 4, 6)] == [
        [2, 3, 4, 5, 6, 7, 0, 1],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [6, 7, 0, 1, 2, 3, 4, 5],
    ]


@given(st.integers(1, 12))
def test_a_cycle_differs(quarter: int) -> None:
    """Eight turns over a group that can be quartered are eight orders, and no place is favoured."""
    size = 4 * quarter
    orders = [tuple(balanced(range(size), turn)) for turn in range(CYCLE)]
    assert len(set(orders)) == CYCLE
    for item in range(size):
        assert sum(order.index(item) for order in orders) == CYCLE * (size - 1) / 2


def test_small_groups() -> None:
    """Three rollouts have six orders, and six turns show them all; two have two."""
    assert len({tuple(balanced(range(3), turn)) for turn in range(6)}) == 6
    assert len({tuple(balanced(range(2), turn)) for turn in range(2)}) == 2


def test_cycles_are_drawn_anew() -> None:
    """After eight turns another order is drawn, and within them one is shifted."""
    digests = [keyed(str(n)) for n in range(20)]
    found = [order_of(b"g", digests, seed=0, turn=turn) for turn in range(2 * CYCLE)]
    assert found[1] == found[0][::-1]
    assert found[CYCLE + 1] == found[CYCLE][::-1]
    assert found[CYCLE] not in [balanced(found[0], turn) for turn in range(CYCLE)]
    assert order_of(b"g", digests, seed=1, turn=0) != found[0] != order_of(b"h", digests, seed=0, turn=0)


@given(st.permutations(range(9)), turns)
def test_by_content(mixed: list[int], turn: int) -> None:
    """However bodies are numbered, the same ones stand at the same places."""
    digests = [keyed(str(n)) for n in range(9)]
    shown = order_of(b"g", digests, seed=3, turn=turn)
    again = order_of(b"g", [digests[n] for n in mixed], seed=3, turn=turn)
    assert [mixed[n] for n in again] == shown


def test_fair() -> None:
    """Over draws every item is as likely to be first."""
    digests = [keyed(str(n)) for n in range(4)]
    first = Counter(
        drawn(range(4), digests, salt(b"g", seed=seed, turn=0, attempt=0))[0] for seed in range(800)
    )
    assert all(150 < first[item] < 250 for item in range(4))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), unique=True))
def test_salts(cases: list[tuple[int, int, int]]) -> None:
    """Every seed, turn and attempt has a key of its own."""
    keys = {salt(b"g", seed=seed, turn=turn, attempt=attempt) for seed, turn, attempt in cases}
    assert len(keys) == len(cases)
