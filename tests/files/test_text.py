"""Where values end, in text of any length that may be anything."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.files.text import NOTHING, Text, object_end
from tests.files.test_document import JSON


def window(raw: bytes) -> Text:
    """A text."""
    return Text(lambda at, size: raw[at : at + size])


@given(JSON, st.sampled_from([b"", b" ", b",", b"]", b"}x"]), st.sampled_from([None, 2]))
def test_value_end(value: object, rest: bytes, indent: int | None) -> None:
    """A value ends where it ends, whatever follows; cut off, a container or string has no end."""
    raw = json.dumps(value, indent=indent).encode()
    assert window(raw + rest).value_end(0, keep=True) == len(raw)
    assert window(b"  " + raw + rest).value_end(2, keep=False) == len(raw) + 2
    if raw[:1] in (b"{", b"[", b'"'):
        assert all(window(raw[:n]).value_end(0, keep=True) is None for n in range(len(raw)))
        assert all(object_end(raw[:n]) is None for n in range(len(raw)))


@given(st.binary(max_size=40))
def test_anything(raw: bytes) -> None:
    """No text raises, and an end lies inside."""
    end = window(raw).value_end(0, keep=True)
    assert end is None or 0 < end <= len(raw)


@pytest.mark.parametrize("keep", [False, True])
def test_far(keep: bool) -> None:
    """Values, strings and white space may be longer than the window; what is kept can be cut out."""
    long = b'"' + rb"\\\"" * 700_000 + b'", '
    deep = b"[" * 30 + long * 2 + b"]" * 30
    raw = deep + b" " * 3_000_000 + b"1" * 2_000_000
    text = window(raw)
    assert text.value_end(0, keep=keep) == len(deep)
    if keep:
        assert text.slice(0, len(deep)) == deep
    at = text.skip(len(deep))
    assert at == len(deep) + 3_000_000
    assert text.byte(at) == ord("1")
    assert text.value_end(at, keep=True) == len(raw)
    assert text.skip(len(raw)) == len(raw)
    assert text.byte(len(raw)) == NOTHING


def test_line() -> None:
    """A line ends at its LF or with the text, and is none where that is far."""
    assert window(b"abc\nd").line(1) == b"bc"
    assert window(b"abc").line(0) == b"abc"
    assert window(b"x" * 3_000_000 + b"\n").line(0) is None
