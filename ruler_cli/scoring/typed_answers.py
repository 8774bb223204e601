"""The answers of a decision model to typed questions → scores, and how far rounding may move them.

Servers that speak one API differ in all but the probabilities (docs/decisions.md): `confidence` has five meanings, and
the `choice` or `score` beside a distribution may be its most likely level. So only probabilities are read, and an
answer that is not a distribution over what was asked is a defect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from ruler_cli.scoring.parse_reply import DefectError
from ruler_cli.scoring.probability import Share, expectation
from ruler_cli.types import Question, printable

_OFF = 0.05
"""Greatest distance of a sum of probabilities from 1, or half a unit of the last digit for each if that is more."""
_FEWEST = 2
"""Decimals that every server sends at least; JSON leaves out zeros at the end, so 0.1 may be 0.10."""


def typed_shares(
    answers: Mapping[str, Any] | None, questions: Sequence[Question]
) -> dict[str, Share]:
    """Return the share of each question that has an answer, by its name; a refused or missing one has none.

    DefectError if there are no answers, one to something that was not asked, or one that is no distribution.
    """
    if answers is None:
        raise DefectError("it has no answers")
    unknown = answers.keys() - {question.name for question in questions}
    if unknown:
        name = printable(min(unknown))
        raise DefectError(f"it answers `{name}`, which was not asked")
    decimals = [_FEWEST]
    for answer in answers.values():
        decimals += map(_decimals, _numbers(answer))
    half = 0.5 * 0.1 ** max(decimals)
    shares = {}
    for question in questions:
        answer = answers.get(question.name)
        if answer is None:
            continue
        if not isinstance(answer, Mapping):
            raise _defect(question, "is not an object")
        if answer.get("type") != "refusal":
            shares[question.name] = _share(answer, question, half)
    return shares


def _defect(question: Question, problem: str) -> DefectError:
    return DefectError(f"the answer to `{question.name}` {problem}")


def _share(answer: Mapping[str, Any], question: Question, half: float) -> Share:
    """Return the share of one answer, whose numbers are rounded by `half` a unit at most."""
    levels = question.levels
    if not levels:
        yes = answer["noul"] if "noul" in answer else answer.get("probability")
        return Share(_probability(yes, question), half)
    numbered = {str(number): level for number, level in enumerate(levels)}
    legend = answer.get("legend")
    stated = answer.get("probabilities")
    if isinstance(stated, list):
        rows = [row for row in stated if isinstance(row, dict)]
        values = [str(row.get("value")) for row in rows]
        stated = {}
        for value, row in zip(values, rows, strict=True):
            # a value that stands there twice is none of both
            name = value if values.count(value) == 1 else ""
            stated[name] = row.get("probability")
    is_other = isinstance(legend, Mapping) and legend != numbered
    if stated is None and not is_other:
        top = len(levels) - 1
        score = answer.get("score")
        if not _is_number(score) or not 0 <= score <= top:
            raise _defect(question, "has no probabilities")
        return Share(score / top, half / top)
    is_whole = isinstance(stated, Mapping) and stated.keys() == numbered.keys()
    if is_other or not is_whole:
        raise _defect(question, "is about other levels")
    shares = [_probability(stated[name], question) for name in numbered]
    whole = math.fsum(shares)
    if abs(whole - 1) > max(_OFF, len(levels) * half):
        raise DefectError(
            f"the probabilities of `{question.name}` sum to {whole:.3g}"
        )
    return expectation(shares, half)


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)


def _probability(value: Any, question: Question) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise DefectError(
            f"the probability of `{question.name}` is not a number from 0 to 1"
        )
    return float(value)


def _numbers(answer: Any) -> Iterator[Any]:
    """Yield the probabilities of an answer, or the score in place of them."""
    if not isinstance(answer, Mapping):
        return
    yield answer.get("noul")
    yield answer.get("probability")
    stated = answer.get("probabilities", [answer])
    if isinstance(stated, Mapping):
        yield from stated.values()
    for row in stated if isinstance(stated, list) else ():
        if isinstance(row, Mapping):
            yield row.get("probability", answer.get("score"))


def _decimals(number: Any) -> int:
    if type(number) is not float or not math.isfinite(number):
        return 0
    mantissa, _, exponent = repr(number).partition("e")
    return len(mantissa.partition(".")[2]) - int(exponent or 0)
