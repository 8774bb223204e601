"""Which rollouts of a group are kept: by score, by the spread of what is kept, by the commonest answer.

Each function takes the scores of a group's rollouts in input order and returns places among them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import accumulate

_NOISE = 1e-12
"""How much more variance is more, as a share of the greatest square: sums are rounded."""


def highest(scores: Sequence[float], most: int) -> list[int]:
    """The best of n; of equal ones the first."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:most]


def widest(scores: Sequence[float], most: int) -> list[int]:
    """The rollouts whose scores have the greatest variance of all choices of so many.

    That is max-variance down-sampling (PODS, Xu et al. 2025, arXiv 2504.13818): the best choice is some of
    the lowest and the rest of the highest, so there are only `most` + 1 to compare. Of equal choices the
    one with more high scores, of equal scores the first.
    """
    if most >= len(scores):
        return list(range(len(scores)))
    ranked = sorted(scores)
    middle = math.fsum(ranked) / len(ranked)
    apart = [score - middle for score in ranked]
    sums = [0.0, *accumulate(apart)]
    squares = [0.0, *accumulate(x * x for x in apart)]
    margin = _NOISE * max(x * x for x in apart)
    best, lows = -math.inf, 0
    for low in range(most + 1):
        behind = len(ranked) - (most - low)
        total = sums[low] + sums[-1] - sums[behind]
        square = squares[low] + squares[-1] - squares[behind]
        variance = square / most - (total / most) ** 2
        if variance > best + margin:
            best, lows = variance, low
    wanted = Counter(ranked[:lows] + ranked[len(ranked) - (most - lows) :])
    kept = []
    for i, score in enumerate(scores):
        if wanted[score]:
            wanted[score] -= 1
            kept.append(i)
    return kept


def commonest(answers: Sequence[Hashable | None], scores: Sequence[float], most: int) -> list[int]:
    """The best of those that gave the answer which most gave; None is no answer.

    Of answers that equally many gave, the one with the higher mean score, then the one that came first.
    """
    by_answer: dict[Hashable, list[int]] = {}
    for i, answer in enumerate(answers):
        if answer is not None:
            by_answer.setdefault(answer, []).append(i)
    if not by_answer:
        return []
    voters = max(by_answer.values(), key=lambda found: (len(found), _mean([scores[i] for i in found])))
    return [voters[i] for i in highest([scores[i] for i in voters], most)]


def _mean(scores: Sequence[float]) -> float:
    return round(math.fsum(scores) / len(scores), 9)
