"""Lists with one item for each rollout, and paths to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.fields import lookup, value_at
from ruler_cli.formats.table import Format
from ruler_cli.results.select import parallel_lists, path_of

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
    """All lists with an item for each rollout are parallel, but the excepted ones; nested ones are doubtful."""
    record: dict[str, Any] = {"a": [1, 2], "b": [], "c": 3, "f": [1, 2], "ruler": [{}, {}]}  # fmt: skip
    form = Format("x", "x", listed=True, lists=("*",), apart=("f",))
    assert parallel_lists(form, record, 2) == [("a",), ("ruler",)]
    with pytest.raises(UnreadableError, match=r"`d\.e`"):
        parallel_lists(form, {"a": [1], "d": {"e": [1]}}, 1)


def test_parallel_lists() -> None:
    """Named lists are parallel; another list of that length is doubtful, unless all others are apart."""
    record = {"a": {"b": [1, 2]}, "prompt": [1, 2], "ruler": {"rollouts": [1, 2]}, "n": [1]}  # fmt: skip
    form = Format("x", "x", listed=True, lists=("a.b", "n"))
    with pytest.raises(UnreadableError, match="`prompt`"):
        parallel_lists(form, record, 2)
    for apart in (("prompt",), ("*",)):
        known = replace(form, apart=apart)
        assert parallel_lists(known, record, 2) == [("a", "b")]
    with pytest.raises(UnreadableError, match="compares its answers"):
        parallel_lists(Format("x", "x", listed=True), record, 2)
