"""A record loses just the bytes of the rollouts that are left out, or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UnreadableError
from ruler_cli.formats import table
from ruler_cli.results.select import Cutter, cut
from ruler_cli.types import Group, Line, Record, Rollout
from tests.values import layouts, same, text_of, texts, values

ANNOTATION = {"status": "scored", "score": 0.5}
FORMATS = {form.name: form for form in table.FORMATS}


def is_part(short: bytes, whole: bytes) -> bool:
    """Tell if some bytes are others with parts taken out."""
    rest = iter(whole)
    return all(byte in rest for byte in short)


@given(
    st.lists(values, min_size=2, max_size=6),
    st.data(),
    layouts(),
    st.dictionaries(texts, values, max_size=3),
    st.booleans(),
)
def test_exact_cut(
    items: list[Any],
    data: st.DataObject,
    layout: dict[str, Any],
    more: dict[str, Any],
    behind: bool,
) -> None:
    """A cut removes items from the list of a group's line and changes no other byte."""
    lost = data.draw(st.sets(st.integers(0, len(items) - 1), max_size=len(items) - 1))
    member = {"trajectories": items}
    record = {**member, **more, **member} if not behind else {**more, **member}
    record = {k: v for k, v in record.items() if k == "trajectories" or k in more}
    raw = text_of(record, layout)
    result = cut(
        raw, FORMATS["native groups"], [("trajectories", i) for i in lost], len(items)
    )
    left = [item for i, item in enumerate(items) if i not in lost]
    assert same(json.loads(result), {**record, "trajectories": left})
    assert is_part(result, raw)
    assert (result == raw) is (not lost)


def test_other_bytes() -> None:
    """Numbers, escapes, equal keys and white space of the rest are unchanged."""
    raw = rb'{"a":1e0,"trajectories" : [ {"n":1.0 , "n":NaN},"\u00e9", {"b":123456789012345678901} ] , "a":-0}'
    result = cut(raw, FORMATS["native groups"], [("trajectories", 1)], 3)
    assert result == raw.replace(rb',"\u00e9"', b"")
    first = cut(raw, FORMATS["native groups"], [("trajectories", 0)], 3)
    assert first == raw.replace(b'{"n":1.0 , "n":NaN},', b"")


def test_lists() -> None:
    """A record that holds parts of its rollouts in several lists, or compares them, loses none: it stays or goes."""
    several = [form for form in table.FORMATS if form.listed or form.parallel]
    whole = [form for form in several if form.shape != "columns"]
    assert {form.name for form in whole} >= {
        "prompts with a list of responses",
        "lm-eval samples",
        "preference pairs",
        "UltraFeedback",
    }
    for form in whole:
        with pytest.raises(UnreadableError, match="holds its answers in lists"):
            cut(b'{"responses": [1, 2]}', form, [(0,)], 2)


def groups_of(line: Line, *sizes: int) -> list[Group]:
    """Return the groups of one columnar line."""
    at, out = 0, []
    for i, n in enumerate(sizes):
        rollouts = tuple(Rollout([], (at + k,)) for k in range(n))
        out.append(
            Group(f"{i}", (Record(line, rollouts, f"{i}", part=i, parts=len(sizes)),))
        )
        at += n
    return out


LEFT: list[tuple[list[set[int] | None], list[int] | None]] = [
    ([None, {0}], [2]),
    ([{1}, None], [1]),
    ([{0, 1}, {1}], [0, 1, 3]),
    ([{0, 1}, {0, 1}], [0, 1, 2, 3]),
    ([None, None], None),
]
"""The indices selected of the two groups of a line, and the rest of the line."""


def test_line_of_several_groups() -> None:
    """A columnar line is written once, after the last of its groups, with the rest of each list."""
    column = [*range(4)]
    raw = json.dumps({"prompt": column, "ruler": column, "loss": 0.5}).encode()
    for kept, left in LEFT:
        cutter = Cutter(FORMATS["ms-swift steps"])
        first, last = (
            cutter.records(group, places)
            for group, places in zip(
                groups_of(Line(7, 0, raw), 2, 2), kept, strict=True
            )
        )
        assert first == []
        ((number, body),) = last
        assert number == 7
        rest = {"prompt": left, "ruler": left, "loss": 0.5} if left else None
        assert (json.loads(body) if body else None) == rest
    with pytest.raises(UnreadableError, match="has 1 items at `a` for 2 rollouts"):
        cut(b'{"a": [1]}', FORMATS["ms-swift steps"], [(0,)], 2)
