"""Lists with one item for each rollout, and paths to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.fields import lookup, path_of, value_at
from ruler_cli.formats.table import lists_at, parallel_lists

parts = st.sampled_from(["a", "b", "0", "1", "a.b", "²"])
trees = st.recursive(
    st.integers(0, 3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(parts, inner, max_size=3)
    ),
)


@given(trees, st.lists(parts, min_size=1, max_size=4).map(".".join))
def test_path_like_lookup(value: Any, dotted: str) -> None:
    """`path_of` leads to the value of `lookup`, and is empty if that has none."""
    path = path_of(value, dotted)
    expected = lookup(value, dotted)
    assert (value_at(value, path) if path else None) == expected
    assert bool(path) == (expected is not None)


def test_all_lists() -> None:
    """All lists but empty and excepted ones are parallel; unequal or nested ones are unreadable."""
    record: dict[str, Any] = {
        "a": [1, 2],
        "b": [],
        "c": 3,
        "d": {"e": [1]},
        "f": [1, 2, 3],
        "ruler": [{}, {}],
    }
    assert parallel_lists(record, 2, apart=("f",)) == [("a",), ("ruler",)]
    with pytest.raises(UnreadableError, match="has 3 items at `f` for 2 rollouts"):
        parallel_lists(record, 2)
    with pytest.raises(UnreadableError, match=r"`d\.e`"):
        parallel_lists({"a": [1], "d": {"e": [1]}}, 1)


def test_lists_at() -> None:
    """Only the named lists that exist are parallel."""
    assert lists_at({"a": [1], "b": [1], "z": None}, 1, [("a",), ("z",)]) == [("a",)]
    with pytest.raises(UnreadableError, match="has 1 items at `a`"):
        lists_at({"a": [1]}, 2, [("a",)])


def test_parallel_lists() -> None:
    """Excepted fields and ruler's own are ignored; any other list of that length is unreadable."""
    record = {
        "a": {"b": [1, 2]},
        "prompt": [1, 2],
        "ruler": {"rollouts": [1, 2]},
        "n": [1],
    }
    assert parallel_lists(record, 2, [("a", "b"), ("c",)], ["prompt"]) == [("a", "b")]
    with pytest.raises(UnreadableError, match="`prompt`"):
        parallel_lists(record, 2, [("a", "b")])
