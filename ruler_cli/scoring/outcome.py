"""Scores that never contradict a verifier: the least change that puts passed above failed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import fsum

from ruler_cli.formats.rewards import PASSING


def passed(outcome: float | None) -> bool | None:
    """Whether a rollout passed its check, by what a verifier said as a number; None where it said nothing."""
    return None if outcome is None else outcome >= PASSING


def ordered(scores: Sequence[float | None], outcomes: Sequence[float | None]) -> tuple[float | None, ...]:
    """Scores of a group in which none that failed is above one that passed; ties between them may be.

    Of all such scores the nearest, by the sum of squared changes: isotonic regression on an order of two
    levels (Barlow et al. 1972). There is one line c; what passed below it is raised to it and what failed
    above it lowered to it. Nothing changes where nothing contradicts. A rollout without a score or an
    outcome stays as it is.
    """
    known = [
        (score, passed(outcome)) for score, outcome in zip(scores, outcomes, strict=True) if score is not None
    ]
    up = sorted(score for score, good in known if good is True)
    down = sorted(score for score, good in known if good is False)
    if not up or not down or down[-1] <= up[0]:
        return tuple(scores)
    line = _line(up, down)
    return tuple(
        score if score is None or good is None else max(score, line) if good else min(score, line)
        for score, good in zip(scores, map(passed, outcomes), strict=True)
    )


def _line(up: list[float], down: list[float]) -> float:
    """Where what is raised to the line and what is lowered to it move by the same sum.

    The balance of the two grows with the line and is straight between two scores, so the line is the
    mean of those that move, once it is known between which scores it lies.
    """
    places = sorted({*up, *down})

    def balance(line: float) -> float:
        raised = fsum(line - score for score in up if score < line)
        return raised - fsum(score - line for score in down if score > line)

    above = places[bisect_left(places, 0.0, key=balance)]  # at the highest nothing is lowered any more
    moved = [score for score in up if score < above] + [score for score in down if score >= above]
    return min(max(fsum(moved) / len(moved), places[0]), above)
