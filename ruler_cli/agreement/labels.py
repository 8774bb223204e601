"""What a rollout's label comes to: a number, a truth value, or a word for one."""

from __future__ import annotations

from typing import Any

from ruler_cli.formats.rewards import number

_TRUE = ("true", "yes", "pass", "passed", "success", "succeeded", "successful", "correct", "resolved", "good")
_FALSE = ("false", "no", "fail", "failed", "failure", "error", "wrong", "incorrect", "unresolved", "bad")
_WORDS = dict.fromkeys(_TRUE, 1.0) | dict.fromkeys(_FALSE, 0.0)

LARGEST = 1e50
"""Beyond it no number is a score or a label: products of several must stay finite."""


def label_of(value: Any) -> float | None:
    """A label as a number, as rewards are read, or 1 and 0 for words such as `passed` and `failed`.

    None where it is neither: null, NaN, a number too large, an object without a reward.
    """
    if isinstance(value, str):
        word = _WORDS.get(value[:40].strip().lower())
        if word is not None:
            return word
    found = number(value)
    return None if found is None or abs(found) > LARGEST else found
