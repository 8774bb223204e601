"""What is a document, and what JSON lines."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.files.document import Text, may_be_document, shape_of
from tests.files.test_document import JSON


def kind(text: bytes) -> str | None:
    """What a text is taken for; None is JSON lines."""
    shape = shape_of(lambda at, size: text[at : at + size])
    if shape is None:
        return None
    return "holder" if shape.name else "list" if shape.listed else "objects"


A, B = b'{"a": 1}', b'{"b": [2, "]}"]}'
PRETTY = b'{\n "a": 1\n}'


KINDS = [
    (b"", None),
    (b" \n \n", None),
    (A, None),
    (A + b"\n" + B, None),
    (b"[" + A + b"]", "list"),
    (b"\xef\xbb\xbf [\n" + A + b"\n]\n \n", "list"),
    (b"[]", "list"),
    (b"[\n", "list"),
    (b"[1, 2]\n" + A, None),
    (b"[1, 2]\n\n\n", "list"),
    (b"[oops\n" + A, None),
    (PRETTY, "objects"),
    (PRETTY + b"\n" + PRETTY, "objects"),
    (b'{"a":\n1}', "objects"),
    (b"{\n", "objects"),
    (b'{"trajectory_groups": [' + A + b"]}", "holder"),
    (b'{"trajectory_groups": [' + A + b"]}\n" + A, None),
    (b'{"x": {"simulations": []}, "simulations": [' + A + b"]}", "holder"),
    (b'{\n"simulations": [' + A + b"]}", "holder"),
    (b'{"simulations": {}}', None),
    (b'{"evalId": "x", "results": {"version": 3, "results": [' + A + b"]}}", "holder"),
    (b'{"results": {"samples": [' + A + b"]}}", None),
    (b'{"results": [' + A + b"]}", None),
    (b'{"samples": [' + A + b"]}", None),
    (b'{"eval": {}, "samples": [' + A + b"]}", "holder"),
    (b'{"messages": [{"role": "us\n' + A, None),
    (b'{"messages": [\n' + A, None),
    (b'{"messages": [\n' + A + b"\n" + A, None),
    (b'{"trajectory_groups": [\n' + A + b"\n]}", "holder"),
    (b'{"trajectory_groups": [\n' + A + b",\n" + A + b"]}", "holder"),
    (b'{"messages": [\nll, "b": 1}\n' + A, None),
    (b'{"messages": [{"a": [\nll, "b": 1}\n\n]}]\n' + A + b"\n" + A, None),
    (b'{"messages": [\n' + A + b"\n]\n}\n" + A, "objects"),
    (b'{\n"a": [\n1,\n' + A + b"\n]\n}", "objects"),
    (b"{oops\n" + A, None),
    (b"{oops", None),
    (A + A, None),
    (b"oops\n[1]", None),
    (b'"text"\n' + A, None),
]
"""The beginning of a text, and what it is."""


def test_kinds() -> None:
    """A document is told from JSON lines, also from those whose first line is bad or torn."""
    for text, wanted in KINDS:
        assert kind(text) == wanted, text
        first = next((line for line in text.split(b"\n") if line.strip()), b"")
        assert may_be_document(first) or wanted is None, text


def test_long_line() -> None:
    """A first line beyond the window is a document where it is a list or holds one."""
    long = b'{"pad": "%s", ' % (b"x" * 3_000_000)
    assert kind(long + b'"simulations": [' + A + b"]}") == "holder"
    assert kind(long + b'"other": [' + A + b"]}\n" + A) is None
    assert kind(b"[" + long + b'"a": 1}]') == "list"


def test_torn() -> None:
    """An object begins behind a value only where lines do: two torn first lines are JSON lines."""
    assert kind(b'{"a": [{"b" 1}\n{"a": [2\n{"a": 3}\n') is None
    assert kind(b'{"a": 1, "b": \n{"deep": [[{"a": 2\n{"a": 3}\n') is None


@given(JSON, st.sampled_from([b"", b" ", b",", b"]", b"}x"]), st.sampled_from([None, 2]))
def test_value_end(value: object, rest: bytes, indent: int | None) -> None:
    """A value ends where it ends, whatever follows; cut off, a container or string has no end."""
    raw = json.dumps(value, indent=indent).encode()
    assert window(raw + rest).value_end(0) == len(raw)
    if raw[:1] in (b"{", b"[", b'"'):
        assert all(window(raw[:n]).value_end(0) is None for n in range(len(raw)))


@given(st.binary(max_size=40))
def test_anything(raw: bytes) -> None:
    """No text raises, and an end lies inside."""
    end = window(raw).value_end(0)
    assert end is None or 0 < end <= len(raw)


def window(raw: bytes) -> Text:
    """A text."""
    return Text(lambda at, size: raw[at : at + size])
