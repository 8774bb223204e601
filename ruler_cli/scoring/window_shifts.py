"""Scores of a group that was shown in windows: one score per rollout, without each window's own level.

y = window + rollout + noise by least squares, with a ridge on the windows. Distinct rollouts are numbered
from 0.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import fsum
from operator import mul

from ruler_cli.scoring.statistics import Anova

RIDGE = 0.5
"""λ, the noise variance of one score over the variance of a window's level.

With that ratio the ridge solution is the best linear unbiased prediction for windows as random effects
(Henderson 1975). benchmarks/README.md compares values: levels that vary more than assumed cost more than
those that vary less, and a λ estimated from the group is no better, since it has too few windows.
"""

_PROBED = 15_000
"""Observations that one efficiency may pass over, each some tens of times: a tenth of a second.

For groups of up to about 150 in windows of 8 the efficiency is exact, for 2,000 it is right to 1 %.
"""
_FEWEST = 500
"""Signs that are drawn at least, one for each window and probe: the more windows, the fewer probes do."""


@dataclass(frozen=True, slots=True)
class WindowFit:
    """Scores of distinct rollouts from windows, by rollout; None or () for one that no window shows.

    `adjusted[i]` are the observations of rollout i in the windows' order without their windows' effects, on
    the scale of `scores`: their mean is the score. `anova` is that of the fit without ridge, on the judge's
    scale, with rollouts adjusted for windows; it stands for the one of a complete table.
    """

    scores: tuple[float | None, ...]
    adjusted: tuple[tuple[float, ...], ...]
    anova: Anova


class _Design:
    """The rollouts of each window. Rollouts are eliminated, so the equations have one unknown per window.

    `inverse[i]` is one over the number of windows that show rollout i, 0 if none does.
    """

    def __init__(self, windows: Sequence[Sequence[int]], rollouts: int) -> None:
        self.windows = windows
        seen = Counter(chain.from_iterable(windows))
        self.observations = seen.total()
        self.inverse = [0.0] * rollouts
        for rollout, times in seen.items():
            self.inverse[rollout] = 1 / times

    def means(self, ys: Iterable[Iterable[float]]) -> list[float]:
        """The mean of each rollout's observations, given by window; 0 without any."""
        total = [0.0 for _ in self.inverse]
        for window, scores in zip(self.windows, ys, strict=True):
            for rollout, y in zip(window, scores, strict=False):
                total[rollout] += y
        return list(map(mul, total, self.inverse))

    def by_rollout(self, levels: Sequence[float]) -> list[float]:
        """The mean of the windows' levels over the windows of each rollout."""
        return self.means(map(repeat, levels))

    def by_window(self, values: Sequence[float]) -> list[float]:
        """The sum over each window of its rollouts' values."""
        return [fsum(map(values.__getitem__, window)) for window in self.windows]

    def times(self, levels: Sequence[float], ridge: float) -> list[float]:
        """(D + λ − Nᵀ K⁻¹ N) levels: the normal equations after the rollouts are eliminated."""
        shared = self.by_window(self.by_rollout(levels))
        products = []
        for window, level, less in zip(
            self.windows,
            levels,
            shared,
            strict=True,
        ):
            weight = len(window) + ridge
            products.append(weight * level - less)
        return products

    def levels(self, ys: Sequence[Sequence[float]], ridge: float) -> list[float]:
        """The windows' effects that minimise the squared residuals plus `ridge` times their own squares."""
        sums = self.by_window(self.means(ys))
        right = [fsum(window) - s for window, s in zip(ys, sums, strict=True)]
        return self.solve(right, ridge)

    def solve(self, right: Sequence[float], ridge: float) -> list[float]:
        """Solve by conjugate gradients (Hestenes & Stiefel 1952); without ridge, the least-norm solution."""
        x = [0.0] * len(right)
        r = p = list(right)
        rr = _dot(r, r)
        enough = rr * 1e-26
        for _ in range(2 * len(right) + 20):
            if rr <= enough:
                break
            ap = self.times(p, ridge)
            curvature = _dot(p, ap)
            if curvature <= 0:
                break
            step = rr / curvature
            x = _plus(x, step, p)
            r = _plus(r, -step, ap)
            before = rr
            rr = _dot(r, r)
            p = _plus(r, rr / before, p)
        return x

    def parts(self) -> list[set[int]]:
        """The rollouts that were shown, by the parts of the table that no window connects."""
        shows: dict[int, list[Sequence[int]]] = {}
        for window in self.windows:
            for rollout in window:
                shows.setdefault(rollout, []).append(window)
        parts = []
        while shows:
            part = set[int]()
            edge = [next(iter(shows))]
            while edge:
                rollout = edge.pop()
                part.add(rollout)
                for window in shows.pop(rollout, ()):
                    edge += shows.keys() & window
            parts.append(part)
        return parts

    def efficiency(self, parts: Sequence[set[int]], ridge: float) -> float:
        """The average precision of the scores relative to the one that the rollouts' mean square assumes.

        C = K − N D⁻¹ Nᵀ is the information on rollouts within windows (John & Williams 1995);
        MS_item is on average s² + var(item) tr C/df. The scores' error variance on contrasts is s² times the
        inverse of C with the ridge (Henderson 1975), K⁻¹ + K⁻¹ N S⁻¹ Nᵀ K⁻¹, S from `times`. Efficiency is df
        over its trace, by tr C/df. The second term's trace is exact, window by window, or for large tables
        estimated from a few random sign vectors (Hutchinson 1990).
        """
        size = len(self.windows)
        df = sum(len(part) - 1 for part in parts)
        information = self.observations - size
        if df < 1 or information < 1:
            return 1.0
        affordable = max(-(-_FEWEST // size), _PROBED // self.observations)
        if size <= affordable:
            share = 1.0
            probes = []
            for i in range(size):
                probe = [0.0] * size
                probe[i] = 1.0
                probes.append(probe)
        else:
            share = 1 / affordable
            signs = (-1.0, 1.0)
            rng = random.Random(0)  # the same table has the same efficiency
            probes = [
                [rng.choice(signs) for _ in range(size)] for _ in range(affordable)
            ]
        inverse = self.inverse
        terms = []
        for part in parts:
            free = 1 - 1 / len(part)
            terms += [inverse[i] * free for i in part]
        trace = fsum(terms)
        for probe in probes:
            spread = self.by_rollout(probe)
            for part in parts:
                centre = fsum(spread[i] for i in part) / len(part)
                for i in part:
                    spread[i] = (spread[i] - centre) * inverse[i]
            solved = self.solve(self.by_window(spread), ridge)
            trace += share * _dot(probe, solved)
        return df**2 / (trace * information)


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return fsum(map(mul, a, b))


def _plus(a: Sequence[float], factor: float, b: Sequence[float]) -> list[float]:
    """`a` plus `factor` times `b`."""
    return [x + factor * y for x, y in zip(a, b, strict=True)]


def fit(
    windows: Sequence[tuple[Sequence[int], Sequence[float]]], rollouts: int
) -> WindowFit:
    """Solve y = window + rollout for a group of `rollouts` distinct rollouts.

    Each window has the rollouts that it shows and their scores, aligned. The mean of the scores is the mean
    of all observations. If a score would leave the range of the observations, all are drawn towards the
    mean by one factor, which keeps their order and the ratios of their gaps.
    """
    design = _Design([shown for shown, _ in windows], rollouts)
    everything = [y for _, scores in windows for y in scores]
    mean = fsum(everything) / len(everything)
    ys = [[y - mean for y in scores] for _, scores in windows]
    # observations less their windows' levels, about the centre of the rollouts' means
    net = _less(ys, design.levels(ys, RIDGE))
    by_rollout: list[list[float]] = [[] for _ in design.inverse]
    for window, scores in zip(design.windows, net, strict=True):
        for rollout, y in zip(window, scores, strict=True):
            by_rollout[rollout].append(y)
    means = [fsum(own) / len(own) for own in by_rollout if own]
    centre = fsum(means) / len(means)
    low = min(everything)
    high = max(everything)
    scale = 1.0
    for x, bound in (
        (min(means) - centre, low - mean),
        (centre - max(means), mean - high),
    ):
        # the extremes are 0 but for rounding if all observations are equal
        if x < bound < 0:
            scale = min(scale, bound / x)
    fitted: list[float | None] = []
    adjusted = []
    for own in by_rollout:
        score = None
        if own:
            score = mean + scale * (fsum(own) / len(own) - centre)
            score = min(high, max(low, score))
        fitted.append(score)
        adjusted.append(tuple([mean + scale * (y - centre) for y in own]))
    parts = design.parts()
    df_item = len(means) - len(parts)
    rest, between = _squares(design, ys)
    variance = Anova.of_squares(
        between,
        df_item,
        rest,
        len(everything) - df_item - len(windows),
        len(everything) / len(means),
        design.efficiency(parts, RIDGE),
    )
    return WindowFit(tuple(fitted), tuple(adjusted), variance)


def _squares(design: _Design, ys: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Sums of squares without ridge: that of the residuals, and the one between rollouts.

    The latter is the decrease of the residuals' if rollouts are added to windows alone (type II), so that the
    ratio of the mean squares is F if all rollouts are alike.
    """
    levels = design.levels(ys, 0.0)
    free = _less(ys, levels)
    items = design.means(free)
    residuals = []
    for window, scores in zip(design.windows, free, strict=True):
        for rollout, y in zip(window, scores, strict=True):
            residuals.append((y - items[rollout]) ** 2)
    rest = fsum(residuals)
    means = [fsum(window) / len(window) for window in ys]
    alone = _less(ys, means)
    whole = fsum(y * y for y in chain.from_iterable(alone))
    return rest, max(0.0, whole - rest)


def _less(ys: Sequence[Sequence[float]], levels: Sequence[float]) -> list[list[float]]:
    """Observations by window, less the level of each window."""
    return [
        [y - level for y in window] for window, level in zip(ys, levels, strict=True)
    ]
