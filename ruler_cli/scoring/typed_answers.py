"""The answers of a decision model to typed questions → scores, and how far rounding may move them.

Servers that speak one API differ in all but the probabilities (docs/decisions.md): `confidence` has five meanings, and
the `choice` or `score` beside a distribution may be its most likely level. So only probabilities are read, and an
answer that is not a distribution over what was asked is a defect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
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

    DefectError if there are no answers, one to something that was not asked, or one that is not a distribution.
    """
    if answers is None:
        raise DefectError("it has no answers")
    asked = {question.name for question in questions}
    for name in answers:
        if name not in asked:
            raise DefectError(
                f"it answers `{printable(name)}`, which was not asked"
            )
    numbers = chain.from_iterable(map(_numbers, answers.values()))
    half = 0.5 * 0.1 ** max([_FEWEST, *map(_decimals, numbers)])
    shares = {}
    for question in questions:
        answer = answers.get(question.name)
        if answer is None:
            continue
        if not isinstance(answer, Mapping):
            raise DefectError(
                f"the answer to `{question.name}` is not an object"
            )
        if answer.get("type") == "refusal":
            continue
        shares[question.name] = _share(
            answer,
            question,
            half,
        )
    return shares


def _share(
    answer: Mapping[str, Any],
    question: Question,
    half: float,
) -> Share:
    """Return the share of one answer, whose numbers are rounded by `half` a unit at most."""
    levels = question.levels
    if not levels:
        yes = answer["noul"] if "noul" in answer else answer.get("probability")
        return Share(_probability(yes, question.name), half)
    legend = answer.get("legend")
    if isinstance(legend, Mapping) and legend != _numbered(levels):
        raise DefectError(
            f"the answer to `{question.name}` is about other levels"
        )
    stated = answer.get("probabilities")
    if stated is None:
        top = len(levels) - 1
        score = answer.get("score")
        if not _is_number(score) or not 0 <= score <= top:
            raise DefectError(
                f"the answer to `{question.name}` has no probabilities"
            )
        return Share(score / top, half / top)
    if isinstance(stated, list):
        rows = [row for row in stated if isinstance(row, dict)]
        values = [str(row.get("value")) for row in rows]
        stated = {}
        for value, row in zip(
            values,
            rows,
            strict=True,
        ):
            # a value that stands there twice is none of both
            name = value if values.count(value) == 1 else ""
            stated[name] = row.get("probability")
    names = _numbered(levels).keys()
    if not isinstance(stated, Mapping) or stated.keys() != names:
        raise DefectError(
            f"the answer to `{question.name}` is about other levels"
        )
    shares = [_probability(stated[name], question.name) for name in names]
    whole = math.fsum(shares)
    if abs(whole - 1) > max(_OFF, len(levels) * half):
        raise DefectError(
            f"the probabilities of `{question.name}` sum to {whole:.3g}"
        )
    return expectation(shares, half)


def _numbered(levels: Sequence[str]) -> dict[str, str]:
    return {str(number): level for number, level in enumerate(levels)}


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)


def _probability(value: Any, name: str) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise DefectError(
            f"the probability of `{name}` is not a number from 0 to 1"
        )
    return float(value)


def _numbers(answer: Any) -> Iterator[Any]:
    """Yield the probabilities of an answer, or the score in place of them."""
    if not isinstance(answer, Mapping):
        return
    yield answer.get("noul")
    yield answer.get("probability")
    stated = answer.get("probabilities")
    if isinstance(stated, Mapping):
        yield from stated.values()
    elif isinstance(stated, list):
        for row in stated:
            if isinstance(row, dict):
                yield row.get("probability")
    else:
        yield answer.get("score")


def _decimals(number: Any) -> int:
    if type(number) is not float or not math.isfinite(number):
        return 0
    mantissa, _, exponent = repr(number).partition("e")
    return len(mantissa.partition(".")[2]) - int(exponent or 0)
