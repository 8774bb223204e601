"""A record loses just the bytes of the rollouts that are left out, or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.formats import table
from ruler_cli.results.select import Cutter, cut
from ruler_cli.types import Group, Line, Record, Rollout
from tests.values import layouts, same, text_of, texts, values

FORMATS = {form.name: form for form in table.FORMATS}


def is_part(short: bytes, whole: bytes) -> bool:
    """Return whether some bytes are others with parts taken out."""
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
    lost = data.draw(
        st.sets(st.integers(0, len(items) - 1), max_size=len(items) - 1)
    )
    member = {"trajectories": items}
    record = {**member, **more, **member} if not behind else {**more, **member}
    record = {
        k: v for k, v in record.items() if k == "trajectories" or k in more
    }
    raw = text_of(record, layout)
    result = cut(
        Line(1, 0, raw),
        FORMATS["native groups"],
        [("trajectories", i) for i in lost],
    )
    left = [item for i, item in enumerate(items) if i not in lost]
    assert same(json.loads(result), {**record, "trajectories": left})
    assert is_part(result, raw)
    assert (result == raw) is (not lost)


def test_line_of_several_groups() -> None:
    """A columnar line stays or goes as a whole, after the last of its groups; else it is refused."""
    raw = json.dumps({"prompt": [*range(4)], "loss": 0.5}).encode()
    groups = []
    for part in range(2):
        rollouts = tuple(Rollout([], (2 * part + i,)) for i in range(2))
        record = Record(
            Line(7, 0, raw), rollouts, str(part), part=part, parts=2
        )
        groups.append(Group(str(part), (record,)))
    for places, body in (({0, 1}, raw), (None, b"")):
        cutter = Cutter(FORMATS["ms-swift steps"])
        assert cutter.records(groups[0], places) == []
        assert cutter.records(groups[1], places) == [(7, body)]
    cutter = Cutter(FORMATS["ms-swift steps"])
    cutter.records(groups[0], None)
    with pytest.raises(UsageError, match="no rollout can be removed from"):
        cutter.records(groups[1], {0, 1})
