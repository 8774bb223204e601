"""Line bytes as values."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse, parse_text
from tests.values import layouts, same, text_of, texts, values

UNREADABLE = (
    (b"[1]", "is JSON but not an object; every record"),
    (b"null", "not an object"),
    (b'"x"', "not an object"),
    (b"12345678901234567890123", "not an object"),
    (b"true", "not an object"),
    (b'{"a": 1} x', "is not JSON"),
    (b'{"a": 123456789012345678901234 x', "is not JSON"),
    (b"{'a': 1}", "is not JSON"),
    (b'{"a": "\xff"}', "is not UTF-8 (byte 7)"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
)


@given(st.dictionaries(texts, values, max_size=5), layouts())
def test_any_object(value: dict[str, Any], layout: dict[str, Any]) -> None:
    """Any text of Python's `json` is read as its value, with integers of any size."""
    assert same(parse(text_of(value, layout)), value)


@given(values)
def test_dump(value: Any) -> None:
    """Every value of a dump or a reply can be written, NaN as null at worst."""
    assert (
        json.loads(dump(value)) is not None
        or value is None
        or math.isnan(value)
        or math.isinf(value)
    )


def test_huge_integers() -> None:
    """An integer beyond 64 bits is not rounded, anywhere in a record, and 10,000 digits are no crash."""
    for number in (2**64, -(2**63) - 1, 10**30, 12345678901234567890123):
        for space in ("", " ", "\n"):
            text = f'{{"a":{space}{number}{space},"b":[1,{space}{number}],"c":0.12345678901234567891}}'
            assert (
                parse(text.encode())["a"],
                parse(text.encode())["b"][1],
            ) == (
                number,
                number,
            )
    assert parse(b'{"a": ' + b"9" * 10_000 + b"}")["a"] == math.inf


def test_unreadable() -> None:
    """The error for a line that is not a JSON object gives the reason."""
    for raw, reason in UNREADABLE:
        with pytest.raises(UnreadableError) as error:
            parse(raw)
        assert reason in str(error.value)


def test_text() -> None:
    """U+2028 and U+0085 are text, and JSON inside a record may have NaN, huge integers and surrogates too."""
    assert parse('{"a": "x\u2028y\u0085z"}\r'.encode()) == {
        "a": "x\u2028y\u0085z"
    }
    assert parse_text("[NaN, 123456789012345678901234, 1]")[1:] == [
        123456789012345678901234,
        1,
    ]
    assert parse_text('"\ud800"') == "\ud800"
