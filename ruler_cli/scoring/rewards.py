"""Rewards of a dump → numbers; outcomes of a verifier → passed or failed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from ruler_cli.files.values import (
    first,
    is_list,
    is_object,
    is_text,
    items,
    words,
)

_GRADES = {
    "C": 1.0,
    "I": 0.0,
    "P": 0.5,
    "N": 0.0,
}
"""Inspect's words: correct, incorrect, partial, no answer."""
PASSING = 0.5
"""The least number of a verifier that is a pass; it suits 0 and 1, −1 and 1, and shares."""
_PASSED = words(
    "pass passed passing success successful succeeded correct resolved solved accepted true yes"
)
_FAILED = words(
    "fail failed failing failure unsuccessful incorrect wrong unresolved unsolved rejected error errored false no "
    "not_passed not_resolved not_solved"
)
_RESULTS = dict.fromkeys(_PASSED, True) | dict.fromkeys(_FAILED, False)
"""Words of a verifier, without `good` and `right`, which are often labels."""
_LONGEST = 40
"""Characters of a number in text."""


def number(value: Any) -> float | None:
    """Convert a reward to a finite number.

    A number, truth value, numeric text or Inspect grade counts as it is, a list as the sum of its items
    (rewards of single tokens), `{name: {score, weight}}` as the weighted sum, an object of numbers by its
    key `reward` or its only key. None for everything else: null, NaN, an exception's name.
    """
    if isinstance(value, int | float):
        return _finite(value)
    if is_text(value):
        text = value.strip()
        # neither "nan" nor "1_0"
        numeric = (
            len(text) <= _LONGEST and "_" not in text and text[-1:].isdigit()
        )
        return _finite(text) if numeric else _GRADES.get(text)
    if is_list(value):
        plain = []
        for part in value:
            nested = isinstance(part, list | str)
            plain.append((None if nested else part, 1))
        return _sum(plain)
    if not is_object(value):
        return None
    parts = value.values()
    if all(is_object(part) and "score" in part for part in parts):
        return _sum((part["score"], part.get("weight", 1)) for part in parts)
    usual = first(parts) if len(value) == 1 else None
    reward = value.get("reward", usual)
    return _finite(reward) if isinstance(reward, int | float) else None


def passed(value: Any) -> bool | None:
    """Return whether an outcome means that a rollout passed its check; None if it means neither pass nor fail.

    A number, in any shape that `number` reads, passes from 0.5 on, Inspect's partial grade too. Several
    truth values are several checks, and all must hold. `{name: word}` counts as its only word.
    """
    if items(value) and all(isinstance(item, bool) for item in value):
        return all(value)
    if is_object(value) and len(value) == 1:
        (only,) = value.values()
        value = only if is_text(only) else value
    if (reward := number(value)) is not None:
        return reward >= PASSING
    if not is_text(value):
        return None
    word = value.strip().casefold()
    return _RESULTS.get(
        re.sub(
            "[ -]",
            "_",
            word,
        )
    )


def _sum(weighted: Iterable[tuple[Any, Any]]) -> float | None:
    """The sum of numbers, each with its weight; None if one of them is none, or there are none."""
    pairs: list[Any] = [[*map(number, pair)] for pair in weighted]
    if not pairs or any(None in pair for pair in pairs):
        return None
    return _finite(sum(map(math.prod, pairs)))


def _finite(value: float | str) -> float | None:
    try:
        result = float(value)
    except (OverflowError, ValueError):
        return None
    return result if math.isfinite(result) else None
