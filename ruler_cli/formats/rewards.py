"""A dump's reward or outcome of any shape → a number, or the result of a check; None if it is neither.

A word may be the result of a check or a label: `right` is a result beside `wrong`, but not beside `left`. One
value cannot tell, the values of the whole field can: `FieldWords` sums them up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ruler_cli.formats.fields import is_list, is_object, is_text, items, words

_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's words: correct, incorrect, partial, no answer."""
PASSING = 0.5
"""The least number of a verifier that is a pass; it suits 0 and 1, −1 and 1, and shares."""
_PASSED = frozenset(
    words(
        "pass passed passing success successful succeeded correct right resolved solved accepted ok good true t "
        "yes y C"
    )
)
_FAILED = frozenset(
    words(
        "fail failed failing failure unsuccessful incorrect wrong unresolved unsolved rejected error errored bad "
        "false f no n not_passed not_resolved not_solved I N"
    )
)
_NEITHER = frozenset(
    (
        "",
        *words(
            "none null nan na n/a unknown skip skipped pending cancelled canceled timeout timed_out incomplete "
            "invalid not_attempted not_run partial P"
        ),
    )
)
"""Words of a verifier that mean neither pass nor fail."""
_AMBIGUOUS = frozenset(words("right good bad ok t f y n yes no"))
"""Words that are often a label or an answer: they count only in a field with words of both sides."""
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Label:
    """A word in a field of rewards or outcomes that is neither, as other words of the field are labels."""

    value: Any


@dataclass(frozen=True, slots=True)
class FieldWords:
    """The kinds of words in a field of rewards or outcomes: some for a pass, some for a fail, and others."""

    good: bool = False
    bad: bool = False
    others: bool = False

    def including(self, value: Any) -> FieldWords:
        """Return the same with one more value of any type."""
        if value is None or type(value) is float:  # as in most dumps
            return self
        word = _normalized_word(raw_value(value))
        if word is None or word in _NEITHER:
            return self
        good, bad = word in _PASSED, word in _FAILED
        others = not (good or bad)
        return FieldWords(self.good or good, self.bad or bad, self.others or others)

    def read(self, value: Any) -> Any:
        """Return a value unchanged, or as a Label if its word is no result of a check in this field."""
        if value is None or type(value) is float:
            return value
        word = _normalized_word(value)
        sure = word not in _AMBIGUOUS or (self.good and self.bad)
        known = word in _PASSED or word in _FAILED
        return Label(value) if known and (self.others or not sure) else value


def raw_value(value: Any) -> Any:
    """Return a reward or an outcome as the dump has it."""
    return value.value if isinstance(value, Label) else value


def number(value: Any) -> float | None:
    """Convert a reward to a finite number.

    A number, truth value, numeric text or Inspect grade counts as it is, a list as the sum of its items
    (rewards of single tokens), `{name: {score, weight}}` as the weighted sum, an object of numbers by its
    key `reward` or its only key. None for everything else: null, NaN, an exception's name.
    """
    if isinstance(value, bool | int | float):
        return _finite(value)
    if is_text(value):
        text = value.strip()
        return _GRADES[text] if text in _GRADES else _numeric(text)
    if is_list(value):
        return _sum(
            None if isinstance(one, list | str) else number(one) for one in value
        )
    if not is_object(value) or not value:
        return None
    parts = list(value.values())
    if all(is_object(part) and "score" in part for part in parts):
        return _sum(_product(part["score"], part.get("weight", 1.0)) for part in parts)
    single = parts[0] if len(parts) == 1 else None
    one = value.get("reward", single)
    return number(one) if isinstance(one, bool | int | float) else None


def _product(score: Any, weight: Any) -> float | None:
    factors = number(score), number(weight)
    return None if None in factors else math.prod(factors)  # type: ignore[arg-type]  # no None


def passed(value: Any) -> bool | None:
    """Tell if an outcome means that a rollout passed its check; None if it means neither pass nor fail.

    A number, in any shape that `number` reads, passes from 0.5 on, Inspect's partial grade too. Several
    truth values are several checks, and all must hold. `{name: word}` counts as its only word.
    """
    if items(value) and all(isinstance(item, bool) for item in value):
        return all(value)
    if (reward := number(value)) is not None:
        return reward >= PASSING
    word = _normalized_word(value)
    return True if word in _PASSED else False if word in _FAILED else None


def _normalized_word(value: Any) -> str | None:
    """Return a value or its only member as a normalized word; None if it is none, or numeric text.

    Inspect's grades keep their case, which identifies them.
    """
    if is_object(value) and len(value) == 1:
        value = next(iter(value.values()))
    if not is_text(value):
        return None
    if len(value) > _LONGEST:
        return value[:_LONGEST]  # no result of a check is that long
    word = value.strip()
    if word in _GRADES:
        return word
    plain = word.casefold().replace(" ", "_").replace("-", "_")
    return plain if _numeric(word) is None else None


def _numeric(text: str) -> float | None:
    # neither "nan" nor "1_0"
    if len(text) > _LONGEST or "_" in text or not text[-1:].isdigit():
        return None
    try:
        return _finite(float(text))
    except ValueError:
        return None


def _sum(values: Iterable[float | None]) -> float | None:
    numbers: list[Any] = list(values)
    return _finite(sum(numbers)) if numbers and None not in numbers else None


def _finite(value: float) -> float | None:
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None
