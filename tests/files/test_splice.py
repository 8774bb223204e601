"""Edits of JSON text."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.files.parse import parse
from ruler_cli.files.splice import NewMembers, Patches, read_object
from tests.values import layouts, same, text_of, texts, values


def put(raw: bytes, new: NewMembers) -> bytes:
    """Return the text with members set or removed."""
    patches = Patches(raw)
    patches.put(read_object(raw), new)
    return patches.apply()


def test_backslashes() -> None:
    """A string ends at the right quote after any number of backslashes."""
    for text in (
        "\\" * slashes + after
        for slashes in range(7)
        for after in ("", '"', '"]}', '", "b": [{')
    ):
        value = {"a": [{text: text}, [text], text], "c": 1, "d": text}
        raw = json.dumps(value).encode()
        spans = read_object(raw).members
        assert {
            key: json.loads(raw[start:end])
            for key, (_, start, end) in spans.items()
        } == value


@given(st.dictionaries(texts, values, max_size=6), layouts(), st.data())
def test_any_edit(
    value: dict[str, Any], layout: dict[str, Any], data: st.DataObject
) -> None:
    """Setting and removing any members leaves valid JSON, and the rest as it is."""
    keys = data.draw(
        st.lists(
            texts | st.sampled_from([*value, "reward"]), unique=True, max_size=5
        )
    )
    new = {key: data.draw(st.none() | st.just(b'"new"')) for key in keys}
    done = parse(put(text_of(value, layout), new))
    wanted = {
        k: v for k, v in value.items() if k not in new or new[k] is not None
    }
    wanted |= {key: "new" for key, text in new.items() if text is not None}
    assert same(done, wanted)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=7),
    st.data(),
)
def test_equal_keys(
    members: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Setting a duplicate key changes its last member, and removing it removes all of them."""
    raw = ("{" + ", ".join(f'"{k}": {v}' for k, v in members) + "}").encode()
    new = data.draw(
        st.dictionaries(
            st.sampled_from("abc"), st.none() | st.just(b"77"), max_size=3
        )
    )
    done: list[tuple[str, int]] = (
        json.loads(put(raw, new), object_pairs_hook=list) or []
    )
    left = [(k, v) for k, v in members if k not in new or new[k] is not None]
    for key, value in new.items():
        if value is not None:
            at = max(
                (i for i, (k, _) in enumerate(left) if k == key),
                default=len(left),
            )
            left[at:] = [(key, 77), *left[at + 1 :]]
    assert done == left


def test_large() -> None:
    """A line of 50 MB is edited without a copy for each member, at any depth."""
    raw = b'{"reward": 1.0, "messages": ["' + b'[{\\"x' * 10_000_000 + b'"]}'
    assert put(raw, {"reward": b"0.5"}) == raw.replace(b"1.0", b"0.5", 1)
    raw = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b',"b":1}'
    assert put(raw, {"b": b"2"}) == raw[:-2] + b"2}"
