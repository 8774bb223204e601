"""A dump's reward or outcome → a number, whatever its shape; None where it is none.

A word may be a verdict or a label: `right` beside `wrong` is one, beside `left` it is not. One value cannot
tell, the values of the whole field can: `Words` is what is known of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's words: correct, incorrect, partial, no answer."""
PASSING = 0.5
"""From where on a verifier's number is a pass: it serves 0 and 1, −1 and 1, and shares."""
_PASSED = frozenset((
    "pass", "passed", "passing", "success", "successful", "succeeded", "correct", "right", "resolved",
    "solved", "accepted", "ok", "good", "true", "t", "yes", "y", "C",
))  # fmt: skip
_FAILED = frozenset((
    "fail", "failed", "failing", "failure", "unsuccessful", "incorrect", "wrong", "unresolved",
    "unsolved", "rejected", "error", "errored", "bad", "false", "f", "no", "n", "not_passed",
    "not_resolved", "not_solved", "I", "N",
))  # fmt: skip
_NEITHER = frozenset((
    "", "none", "null", "nan", "na", "n/a", "unknown", "skip", "skipped", "pending", "cancelled", "canceled",
    "timeout", "timed_out", "incomplete", "invalid", "not_attempted", "not_run", "partial", "P",
))  # fmt: skip
"""Words of a verifier that say neither."""
_DOUBTFUL = frozenset(("right", "good", "bad", "ok", "t", "f", "y", "n", "yes", "no"))
"""Words that are as often a label or an answer: alone, without a word of the other side, they say nothing."""
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Label:
    """A word at the place of a reward or an outcome that is neither: other words of its field are labels."""

    value: Any


@dataclass(frozen=True, slots=True)
class FieldWords:
    """Which words a field of rewards or outcomes has: some that passed, some that failed, and others."""

    good: bool = False
    bad: bool = False
    others: bool = False

    def including(self, value: Any) -> FieldWords:
        """The same with one more value, of any kind."""
        if value is None or type(value) is float:  # as in most dumps
            return self
        said = _word(raw_value(value))
        if said is None or said in _NEITHER:
            return self
        good, bad = said in _PASSED, said in _FAILED
        return FieldWords(self.good or good, self.bad or bad, self.others or not (good or bad))

    def read(self, value: Any) -> Any:
        """A value as it is, or a Label where its word is no verdict in this field."""
        if value is None or type(value) is float:
            return value
        said = _word(value)
        if said not in _PASSED and said not in _FAILED:
            return value
        sure = said not in _DOUBTFUL or (self.good and self.bad)
        return value if sure and not self.others else Label(value)


def raw_value(value: Any) -> Any:
    """A reward or an outcome as it stands in the dump."""
    return value.value if isinstance(value, Label) else value


def number(value: Any) -> float | None:
    """What a reward comes to.

    A number or truth value; numeric text or an Inspect grade; a list is the sum of its items (rewards
    of single tokens); `{name: {score, weight}}` is the weighted sum; of an object of numbers the key
    `reward` counts, or its only one. None where nothing of this fits: null, NaN, an exception's name.
    """
    if isinstance(value, bool | int | float):
        return _finite(value)
    if isinstance(value, str):
        text = value.strip()
        return _GRADES[text] if text in _GRADES else _numeric(text)
    if isinstance(value, list):
        return _sum(number(item) if not isinstance(item, list | str) else None for item in value)
    if isinstance(value, Mapping):
        return _of_object(value)
    return None


def passed(value: Any) -> bool | None:
    """Whether a verifier's word says that a rollout passed its check; None where it says neither.

    A number, in any shape that `number` reads, passes from 0.5 on, Inspect's partial grade too. Several
    truth values are several checks, and all must hold. `{name: word}` says what its only word says.
    """
    if isinstance(value, list) and value and all(isinstance(item, bool) for item in value):
        return all(value)
    found = number(value)
    if found is not None:
        return found >= PASSING
    said = _word(value)
    return True if said in _PASSED else False if said in _FAILED else None


def _word(value: Any) -> str | None:
    """The word that a value is, or that its only member is; None where it is none, numeric text too.

    Inspect's grades stay as they are: they are known by their case.
    """
    if isinstance(value, Mapping) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, str):
        return None
    if len(value) > _LONGEST:
        return value[:_LONGEST]  # no verdict is that long
    said = value.strip()
    if said in _GRADES:
        return said
    return None if _numeric(said) is not None else said.casefold().replace(" ", "_").replace("-", "_")


def _numeric(text: str) -> float | None:
    if len(text) > _LONGEST or "_" in text or not text[-1:].isdigit():  # neither "nan" nor "1_0"
        return None
    try:
        return _finite(float(text))
    except ValueError:
        return None


def _of_object(value: Mapping[Any, Any]) -> float | None:
    if value and all(isinstance(item, Mapping) and "score" in item for item in value.values()):
        return _sum(_weighted(item) for item in value.values())
    one = value["reward"] if "reward" in value else next(iter(value.values())) if len(value) == 1 else None
    return number(one) if isinstance(one, bool | int | float) else None


def _weighted(item: Mapping[Any, Any]) -> float | None:
    score, weight = number(item["score"]), number(item.get("weight", 1.0))
    return None if score is None or weight is None else score * weight


def _sum(found: Any) -> float | None:
    numbers = list(found)
    return _finite(sum(numbers)) if numbers and None not in numbers else None


def _finite(value: float) -> float | None:
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
