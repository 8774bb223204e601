"""When two answers are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from ruler_cli.selection.answers import same_as
from tests.values import values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("42", " 42\n"),
        (1, 1.0),
        ({"a": 1, "b": [" x"]}, {"b": ["x "], "a": 1.0}),
        (10**30, 10**30),
        ([], []),
        (False, False),
    ],
)
def test_equal(one: Any, other: Any) -> None:
    """Values are equal, however they are written."""
    assert same_as(one) == same_as(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [("42", 42), (True, 1), (False, 0), ("a", "A"), ([1, 2], [2, 1]), ({}, []), ([None], [[]]), ("[]", [])],
)
def test_unlike(one: Any, other: Any) -> None:
    """Values of other kinds are no equals."""
    assert same_as(one) != same_as(other)


def test_no_answer() -> None:
    """Null, blank text, NaN and what is too deep to compare are no answers."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert [same_as(value) for value in (None, "", " \n", float("nan"), deep)] == [None] * 5


@given(values)
def test_any_value(value: Any) -> None:
    """Whatever stands there is no answer, or one that is equal to itself read again."""
    found = same_as(value)
    if "NaN" not in json.dumps(value):
        assert found == same_as(json.loads(json.dumps(value)))
    hash(found)
