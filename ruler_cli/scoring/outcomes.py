"""Scores and outcomes of a group → scores in which no failed rollout outranks a passed one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import fsum


def ordered(
    scores: Sequence[float | None], outcomes: Sequence[bool | None]
) -> list[float | None]:
    """Return scores of a group in which none that failed is above one that passed; they may be equal.

    Of all such scores they are the nearest, by the sum of squared changes: isotonic regression on an order
    of two levels (Barlow et al. 1972). There is one line c; a passed score below it is raised to it, and a
    failed one above it is lowered to it. Nothing changes if nothing contradicts. A rollout without a score
    or an outcome stays as it is.
    """
    moved_scores = list(scores)
    passed = list[float]()
    failed = list[float]()
    for score, outcome in zip(scores, outcomes, strict=True):
        if score is not None and outcome is not None:
            (passed if outcome else failed).append(score)
    if not passed or not failed or max(failed) <= min(passed):
        return moved_scores
    # The balance of the sums of both changes grows with the line, and is linear between two scores. So the
    # line is the mean of the scores that move, once it is known between which scores it lies.
    levels = sorted({*passed, *failed})

    def balance(line: float) -> float:
        raised = fsum([line - score for score in passed if score < line])
        lowered = fsum([score - line for score in failed if score > line])
        return raised - lowered

    # at the highest no score is lowered any more
    above = levels[bisect_left(levels, 0.0, key=balance)]
    moved = [score for score in passed if score < above]
    moved += [score for score in failed if score >= above]
    line = fsum(moved) / len(moved)
    line = min(max(line, levels[0]), above)
    for i, outcome in enumerate(outcomes):
        score = scores[i]
        if score is not None and outcome is not None:
            moved_scores[i] = max(score, line) if outcome else min(score, line)
    return moved_scores
