"""A dump's reward or outcome → a number, whatever its shape; None where it is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's words: correct, incorrect, partial, no answer."""
PASSING = 0.5
"""From where on a verifier's number is a pass: it serves 0 and 1, −1 and 1, and shares."""
_PASSED = frozenset((
    "pass", "passed", "passing", "success", "successful", "succeeded", "correct", "right", "resolved",
    "solved", "accepted", "ok", "good", "true", "t", "yes", "y",
))  # fmt: skip
_FAILED = frozenset((
    "fail", "failed", "failing", "failure", "unsuccessful", "incorrect", "wrong", "unresolved",
    "unsolved", "rejected", "error", "errored", "bad", "false", "f", "no", "n", "not_passed",
    "not_resolved", "not_solved",
))  # fmt: skip


def number(value: Any) -> float | None:
    """What a reward comes to.

    A number or truth value; numeric text or an Inspect grade; a list is the sum of its items (rewards
    of single tokens); `{name: {score, weight}}` is the weighted sum; of an object of numbers the key
    `reward` counts, or its only one. None where nothing of this fits: null, NaN, an exception's name.
    """
    if isinstance(value, bool | int | float):
        return _finite(value)
    if isinstance(value, str):
        return _of_text(value.strip())
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
    if isinstance(value, Mapping) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, str) or len(value) > 40:
        return None
    word = value.strip().casefold().replace(" ", "_").replace("-", "_")
    return True if word in _PASSED else False if word in _FAILED else None


def _of_text(text: str) -> float | None:
    if text in _GRADES:
        return _GRADES[text]
    if len(text) > 40 or "_" in text or not text[-1:].isdigit():  # neither "nan" nor "1_0"
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
