"""The answers of a decision model to typed questions → scores, and how far rounding may move them.

Servers that speak one API differ in all but the probabilities (docs/decisions.md): `confidence` has five meanings, and
the `choice` or `score` beside a distribution may be its most likely level. So only probabilities are read, and an
answer that is not a distribution over what was asked is a defect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from ruler_cli.scoring.parse_reply import DefectError
from ruler_cli.scoring.probability import Share, expectation
from ruler_cli.types import Question, printable

_OFF = 0.05
"""Greatest distance of a sum of probabilities from 1, or half a unit of the last digit for each if that is more."""
_FEWEST = 2
"""Decimals that every server sends at least; JSON leaves out zeros at the end, so 0.1 may be 0.10."""
_MEMBERS = ("noul", "probability", "probabilities", "score")
"""Members of an answer, or of an entry of its probabilities, with numbers that count."""


def typed_shares(
    answers: Mapping[str, Any] | None, questions: Sequence[Question]
) -> dict[str, Share]:
    """Return the share of each question that has an answer, by its name; a refused or missing one has none.

    DefectError if there are no answers, one to something that was not asked, or one that is no distribution.
    """
    if answers is None:
        raise DefectError("it has no answers")
    asked = {question.name for question in questions}
    for name in answers:
        if name not in asked:
            raise DefectError(f"it answers `{printable(name)}`, which was not asked")
    half = 0.5 * 0.1 ** max([_FEWEST, *map(_decimals, answers.values())])
    shares = {}
    for question in questions:
        answer = answers.get(question.name)
        if answer is None:
            continue
        if not isinstance(answer, Mapping):
            raise DefectError(f"the answer to `{question.name}` is not an object")
        if answer.get("type") == "refusal":
            continue
        shares[question.name] = _share(answer, question, half)
    return shares


def _share(answer: Mapping[str, Any], question: Question, half: float) -> Share:
    """Return the share of one answer, whose numbers are rounded by `half` a unit at most."""
    levels = question.levels
    if not levels:
        yes = answer["noul"] if "noul" in answer else answer.get("probability")
        return Share(_probability(yes, question.name), half)
    legend = answer.get("legend")
    if isinstance(legend, Mapping) and legend != _numbered(levels):
        raise DefectError(f"the answer to `{question.name}` is about other levels")
    stated = answer.get("probabilities")
    if stated is None:
        top = len(levels) - 1
        score = answer.get("score")
        if not _is_number(score) or not 0 <= score <= top:
            raise DefectError(f"the answer to `{question.name}` has no probabilities")
        return Share(score / top, half / top)
    if isinstance(stated, Sequence) and not isinstance(stated, str):
        stated = {
            str(entry.get("value")): entry.get("probability")
            for entry in stated
            if isinstance(entry, Mapping)
        }
    if not isinstance(stated, Mapping) or stated.keys() != _numbered(levels).keys():
        raise DefectError(f"the answer to `{question.name}` is about other levels")
    shares = [_probability(stated[name], question.name) for name in _numbered(levels)]
    whole = math.fsum(shares)
    if abs(whole - 1) > max(_OFF, len(levels) * half):
        raise DefectError(f"the probabilities of `{question.name}` sum to {whole:.3g}")
    return expectation(shares, half)


def _numbered(levels: Sequence[str]) -> dict[str, str]:
    return {str(number): level for number, level in enumerate(levels)}


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)


def _probability(value: Any, name: str) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise DefectError(f"the probability of `{name}` is not a number from 0 to 1")
    return float(value)


def _decimals(value: Any) -> int:
    """The most decimals of the probabilities of an answer."""
    if isinstance(value, Mapping) and value.keys().isdisjoint(_MEMBERS):
        return max(map(_decimals, value.values()), default=0)
    if isinstance(value, Mapping):
        stated = value.get("probabilities") or value.get("score")
        inner = [value.get("noul"), value.get("probability"), stated]
        return max(map(_decimals, inner))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return max(map(_decimals, value), default=0)
    if type(value) is not float or not math.isfinite(value):
        return 0
    mantissa, _, exponent = repr(value).partition("e")
    return len(mantissa.partition(".")[2]) - int(exponent or 0)
