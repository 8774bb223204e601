"""Rewards as numbers, and words as results of a check or labels."""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from ruler_cli.formats.fields import FieldWords, number, passed
from ruler_cli.formats.fields import raw_value as as_given
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from tests.values import read, talk, values

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
        None, math.nan, "", "nan", "unknown", "skipped", "TimeoutError", "passed " * 40, [], {}, [None],
        {"a": "passed", "b": "failed"}, {"a": None}, {"a": {"b": True}}, ["passed"],
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


def results(*field: Any) -> list[bool | None]:
    """Return the result of each value of a field, after reading all of them."""
    words = FieldWords()
    for value in field:
        words = words.including(value)
    return [passed(words.read(value)) for value in field]


FIELDS: list[Any] = [
    (["passed"], [True]),
    (["failed"], [False]),
    (["right"], [None]),
    (["right", "wrong"], [True, False]),
    (["right", "left", "both"], [None, None, None]),
    (["right", "left", "wrong"], [None, None, None]),
    (["yes", "yes"], [None, None]),
    (["yes", "no"], [True, False]),
    (["no"], [None]),
    (["good", "error"], [True, False]),
    (["C", "C"], [True, True]),
    (["C", "I", "P", "N"], [True, False, True, False]),
    (["A", "B", "C", "D"], [None, None, None, None]),
    (["passed", "timeout", ""], [True, None, None]),
    (["passed", "green"], [None, None]),
    ([True, "right", 0], [True, None, False]),
    (["1", "0.0", "TimeoutError"], [True, False, None]),
    ([{"status": "right"}, {"status": "left"}], [None, None]),
    ([{"status": "passed"}, {"status": "failed"}], [True, False]),
    (["passed", "x" * 100], [None, None]),
]


def test_fields(subtests: pytest.Subtests) -> None:
    """A word is a result only if the other words of its field are results; numbers stay."""
    for field, wanted in FIELDS:
        with subtests.test(field=str(field), wanted=str(wanted)):
            assert results(*field) == wanted


def test_label() -> None:
    """A grade among other letters is no reward, and keeps its raw value."""
    words = FieldWords().including("A").including("C")
    assert number(words.read("C")) is None
    assert as_given(words.read("C")) == "C"
    assert words.including(words.read("C")) == words


def records(*words: str) -> list[dict[str, Any]]:
    """Return a rollout for each word, in groups of two."""
    return [
        {"group_id": i // 2, "messages": talk(f"{word} {i}"), "verdict": word}
        for i, word in enumerate(words)
    ]


def test_first_records() -> None:
    """The words of a stream's first records decide its outcomes."""
    records_read = read(*records("right", "left"), outcome="verdict")
    assert [passed(record.rollouts[0].outcome) for record in records_read] == [
        None,
        None,
    ]


@pytest.mark.parametrize(("last", "wanted"), [("left", None), ("wrong", True)])
def test_later_word(tmp_path: Path, last: str, wanted: bool | None) -> None:
    """All words of a file decide its outcomes, even one far behind the first records."""
    dump = tmp_path / "in.jsonl"
    dump.write_text(
        "".join(json.dumps(r) + "\n" for r in records(*["right"] * 80, last))
    )
    with ExitStack() as stack:
        opened = open_input(
            InputSettings(str(dump), outcome="verdict"), stack, lambda _: None
        )
        rollouts = [rollout for group in opened.groups for rollout in group.rollouts]
    assert {passed(r.outcome) for r in rollouts[:80]} == {wanted}
