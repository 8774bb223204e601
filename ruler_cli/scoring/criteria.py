"""Values of the criteria of a rubric → the score of a rollout, and the vetoes that it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from ruler_cli.types import Rubric

_EXACT = 12
_HOLDS = 0.5
"""The least value of a statement that holds."""


def rubric_score(rubric: Rubric, values: Sequence[float]) -> float:
    """Return the score of a rollout with these values, in the order of the criteria; 0 if a veto is broken."""
    if len(values) != len(rubric.criteria):
        number = len(rubric.criteria)
        raise ValueError(f"has {number} criteria, got {len(values)}")
    return 0.0 if broken_vetoes(rubric, values) else weighted(rubric, values)


def weighted(rubric: Rubric, values: Sequence[float]) -> float:
    """Return the weighted mean of values, as a share of the way from the least to the greatest possible sum."""
    weights = [criterion.weight for criterion in rubric.criteria]
    least = fsum([weight for weight in weights if weight < 0])
    most = fsum([weight for weight in weights if weight > 0])
    pairs = zip(
        weights,
        values,
        strict=True,
    )
    reached = fsum([weight * value for weight, value in pairs])
    return round((reached - least) / (most - least), _EXACT)


def broken_vetoes(rubric: Rubric, values: Sequence[float]) -> list[str]:
    """Return the names of the vetoes that values break."""
    names = []
    for name, criterion, value in zip(
        rubric.names, rubric.criteria, values, strict=True
    ):
        holds = 1 - value if criterion.weight < 0 else value
        if criterion.veto and holds < _HOLDS:
            names.append(name)
    return names


def rounding(rubric: Rubric) -> float:
    """Return the variance that rounded values give to a score, by that of one value: a mean of many is finer."""
    weights = [abs(criterion.weight) for criterion in rubric.criteria]
    total = fsum(weights)
    return fsum([(weight / total) ** 2 for weight in weights])
