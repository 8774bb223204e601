"""Scores of a group that was shown in windows: one score per rollout, without each window's own level.

y = window + rollout + noise by least squares, with a ridge on the windows. Distinct rollouts are numbered
from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from ruler_cli.scoring.statistics import Anova, Moments
from ruler_cli.types import value

RIDGE = 0.5
"""The noise variance of one score over the variance of a window's level.

With that ratio the ridge solution is the best linear unbiased prediction for windows as random effects
(Henderson 1975). benchmarks/README.md compares values: levels that vary more than assumed cost more than
those that vary less, and a ratio estimated from the group is no better, since it has too few windows.
"""
_EXACT = 1e-15
"""A smaller change of all levels is rounding."""
_ROUNDS = 1_000
_TINY = 1e-12

Windows = Sequence[tuple[Sequence[int], Sequence[float]]]
"""The rollouts that each window shows, and their scores, aligned."""


@value
class WindowFit:
    """Scores of distinct rollouts from windows, by rollout; None or () for one that no window shows.

    `adjusted[i]` are the observations of rollout i in the windows' order without their windows' levels, on
    the scale of `scores`: their mean is the score. `anova` is that of the fit without ridge, on the judge's
    scale, with rollouts adjusted for windows; it stands for the one of a complete table.
    """

    scores: tuple[float | None, ...]
    adjusted: tuple[tuple[float, ...], ...]
    anova: Anova


def fit(
    windows: Windows,
    rollouts: int,
) -> WindowFit:
    """Solve y = window + rollout for a group of `rollouts` distinct rollouts.

    The mean of the scores is the mean
    of all observations. If a score would leave the range of the observations, all are drawn towards the
    mean by one factor, which keeps their order and the ratios of their gaps.
    """
    ys = [y for _, scores in windows for y in scores]
    mean = fsum(ys) / len(ys)
    highest = max(ys)
    lowest = min(ys)
    levels = _levels(
        windows,
        rollouts,
        RIDGE,
    )
    cells = _less(
        windows,
        rollouts,
        levels,
    )
    values = [fsum(row) / len(row) for row in cells if row]
    centre = fsum(values) / len(values)
    above = max(values) - centre
    below = centre - min(values)
    # 0 but for rounding if all are equal
    scale = min(
        1.0,
        (highest - mean) / max(above, _TINY),
        (mean - lowest) / max(below, _TINY),
    )
    scores = []
    adjusted = []
    for row in cells:
        fitted = tuple([mean + scale * (y - centre) for y in row])
        score = fsum(fitted) / len(fitted) if fitted else None
        if score is not None:
            score = min(highest, max(lowest, score))
        scores.append(score)
        adjusted.append(fitted)
    # the squares beside the windows, with and without rollouts (type II)
    free = _levels(
        windows,
        rollouts,
        0.0,
    )
    residuals = _less(windows, rollouts, free)
    rest = sum([Moments().add(row).square for row in residuals])
    whole = sum([Moments().add(scores).square for _, scores in windows])
    df_item = len(values) - 1
    df_rest = len(ys) - len(windows) - df_item
    variance = Anova(
        max(0.0, whole - rest),
        df_item,
        rest,
        max(0, df_rest),
        len(ys) / len(values),
    )
    return WindowFit(
        tuple(scores),
        tuple(adjusted),
        variance,
    )


def _levels(
    windows: Windows,
    rollouts: int,
    ridge: float,
) -> list[float]:
    """Return the levels of windows that minimise the squared residuals plus `ridge` times their own squares.

    The value of a rollout is the mean of its scores less their levels, and a level is the shrunken mean of its scores
    less those values. Each is set by the others, one after another, until nothing moves.
    """
    levels = [0.0] * len(windows)
    for _ in range(_ROUNDS):
        cells = _less(
            windows,
            rollouts,
            levels,
        )
        values = [fsum(row) / max(1, len(row)) for row in cells]
        before = levels
        levels = []
        for shown, scores in windows:
            rest = fsum(scores) - fsum([values[rollout] for rollout in shown])
            levels.append(rest / (len(shown) + ridge))
        moved = [
            abs(new - old)
            for new, old in zip(
                levels,
                before,
                strict=True,
            )
        ]
        if max(moved) < _EXACT:
            break
    return levels


def _less(
    windows: Windows,
    rollouts: int,
    levels: Sequence[float],
) -> list[list[float]]:
    """Return the scores of each rollout less the levels of their windows."""
    cells: list[list[float]] = [[] for _ in range(rollouts)]
    for (shown, scores), level in zip(
        windows,
        levels,
        strict=True,
    ):
        for rollout, score in zip(
            shown,
            scores,
            strict=True,
        ):
            cells[rollout].append(score - level)
    return cells
