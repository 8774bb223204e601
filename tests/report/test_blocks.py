"""JSON as it stands in a page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given

from ruler_cli.report.blocks import as_json, packed, unpacked
from tests.values import texts


@given(texts)
def test_a_block_shows_nothing_and_holds_everything(text: str) -> None:
    """Any text comes back from its block, whose characters are those of base64."""
    block = packed([as_json({text: [text]})])
    assert re.fullmatch(rb"[A-Za-z0-9+/]+=*", block)
    readable = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert unpacked(block) == {readable: [readable]}


@given(texts, texts)
def test_pieces_make_one_block(one: str, other: str) -> None:
    """It does not matter how a value is cut into pieces, nor when it is packed."""
    body = as_json([one, other])
    assert packed([body[:3], body[3:]]) == packed([body])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_null(value: Any) -> None:
    """A page reads strict JSON: there is no NaN in it."""
    assert as_json({"a": [value, "\ud800"]}) == '{"a":[null,"\ufffd"]}'.encode()
