"""Rewards as numbers, and words as results of a check."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from ruler_cli.scoring.rewards import number, passed
from tests.values import values

NUMBERS: list[Any] = [
    (0.25, 0.25),
    (3, 3.0),
    (True, 1.0),
    (False, 0.0),
    ([0.0, 0.5, 1.0], 1.5),
    ([True, 1], 2.0),
    (
        {
            "correct": {"score": 1.0, "weight": 0.5},
            "format": {"score": 0.2, "weight": 1.0},
        },
        0.7,
    ),
    ({"correct": {"score": 1.0}}, 1.0),
    ({"reward": 0.3, "other": 9}, 0.3),
    ({"accuracy": 0.4}, 0.4),
    ("C", 1.0),
    ("I", 0.0),
    ("P", 0.5),
    ("N", 0.0),
    ("1.0", 1.0),
    (" -2e3 ", -2000.0),
]


def test_numbers(subtests: pytest.Subtests) -> None:
    """Every shape of a framework's reward becomes its number."""
    for value, wanted in NUMBERS:
        with subtests.test(value=str(value), wanted=str(wanted)):
            assert number(value) == pytest.approx(wanted)


NONE: list[Any] = [
    None, math.nan, math.inf, -math.inf, "nan", "inf", "TimeoutError", "", "1_0", "1 apple", [], {},
    [None], [[1.0]], ["1"], [1.0, math.nan], {"a": 1, "b": 2}, {"a": {"score": None}},
    {"reward": "x"}, 10**400, {"a": {"score": 1, "weight": None}, "b": 1}, [1e308, 1e308],
]  # fmt: skip


def test_none(subtests: pytest.Subtests) -> None:
    """A value without a number becomes None, never 0."""
    for value in NONE:
        with subtests.test(value=str(value)):
            assert number(value) is None


@given(values)
def test_any_value(value: Any) -> None:
    """Any JSON value becomes a finite number or None."""
    result = number(value)
    assert result is None or math.isfinite(result)


RESULTS: dict[bool | None, list[Any]] = {
    True: [
        True, 1, 1.0, 0.5, "1", "0.75", "C", "P", "passed", " Pass ", "RESOLVED", "success", "true", "Yes",
        [True, True], [0.0, 1.0], {"reward": 1.0}, {"status": "resolved"}, {"resolved": True},
    ],
    False: [
        False, 0, -1, 0.49, -1e300, "0", "-1.0", "I", "N", "failed", "FAIL", "incorrect", "unresolved",
        "not resolved", "Error", "no", "false", [True, False], [0.0, 0.0],
        {"reward": 0}, {"status": "failed"},
    ],
    None: [
        None, math.nan, "", "nan", "unknown", "left", "good", "skipped", "TimeoutError", "passed " * 40, [], {},
        [None], {"a": "passed", "b": "failed"}, {"a": None}, {"a": {"b": True}}, ["passed"],
    ],
}  # fmt: skip


def test_passed(subtests: pytest.Subtests) -> None:
    """A verifier's words and numbers are a pass, a fail or neither."""
    for result, examples in RESULTS.items():
        for value in examples:
            with subtests.test(value=str(value)):
                assert passed(value) is result


@given(values)
def test_passed_agrees_with_number(value: Any) -> None:
    """A value passes exactly if its number does."""
    reward = number(value)
    if reward is not None and not isinstance(value, list):
        assert passed(value) is (reward >= 0.5)
