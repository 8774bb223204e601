"""Scores, original rewards and outcomes of a group → the scores of OUTPUT."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import fsum

from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import GroupError, GroupResult


def blended(
    scores: Sequence[float | None],
    result: GroupResult,
    how: CombineSettings,
) -> list[float | None] | GroupError:
    """Mix the dump's rewards into scores and order them by its outcomes, as `how` says."""
    values = list(scores)
    share = how.blend
    for i, score in enumerate(scores):
        if share is None or score is None:
            continue
        reward = result.rewards[i] if result.rewards else None
        if reward is None or not 0 <= reward <= 1:
            has = "no reward" if reward is None else f"the reward {reward:g}"
            reason = (
                f"rollout {i + 1} has {has}, and scores are blended with rewards from 0 to 1; name the path "
                "of such a reward"
            )
            return GroupError("input", reason)
        values[i] = share * score + (1 - share) * reward
    if how.order_by_outcome and result.outcomes:
        return ordered(values, result.outcomes)
    return values


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
    for score, outcome in zip(
        scores,
        outcomes,
        strict=True,
    ):
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
    above = levels[
        bisect_left(
            levels,
            0.0,
            key=balance,
        )
    ]
    moved = [score for score in passed if score < above]
    moved += [score for score in failed if score >= above]
    line = fsum(moved) / len(moved)
    line = min(max(line, levels[0]), above)
    for i, outcome in enumerate(outcomes):
        score = scores[i]
        if score is not None and outcome is not None:
            moved_scores[i] = max(score, line) if outcome else min(score, line)
    return moved_scores
