"""Scores of a group that was shown in windows: one score per rollout, without each window's own level.

y = window + rollout + noise by least squares, with a ridge on the windows. Distinct rollouts are numbered
from 0.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import fsum
from operator import mul, sub

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

    `ridge` is added to the number of rollouts of each window. `inverse[i]` is one over the number of windows
    that show rollout i, 0 if none does.
    """

    def __init__(
        self, windows: Sequence[Sequence[int]], rollouts: int, ridge: float = RIDGE
    ) -> None:
        self.windows = windows
        self._weights = [len(window) + ridge for window in windows]
        seen = Counter(chain.from_iterable(windows))
        self.observations = seen.total()
        self.inverse = [1 / seen[i] if i in seen else 0.0 for i in range(rollouts)]

    def pairs(self, ys: Iterable[Iterable[float]]) -> Iterator[tuple[int, float]]:
        """Yield each observation with its rollout, given by window."""
        for window, scores in zip(self.windows, ys, strict=True):
            yield from zip(window, scores, strict=False)

    def means(self, ys: Iterable[Iterable[float]]) -> list[float]:
        """The mean of each rollout's observations, given by window; 0 without any."""
        total = [0.0 for _ in self.inverse]
        for rollout, y in self.pairs(ys):
            total[rollout] += y
        return list(map(mul, total, self.inverse))

    def by_rollout(self, levels: Sequence[float]) -> list[float]:
        """The mean of the windows' levels over the windows of each rollout."""
        return self.means(map(repeat, levels))

    def by_window(self, values: Sequence[float]) -> list[float]:
        """The sum over each window of its rollouts' values."""
        return [fsum(map(values.__getitem__, window)) for window in self.windows]

    def times(self, levels: Sequence[float]) -> list[float]:
        """(D + λ − Nᵀ K⁻¹ N) levels: the normal equations after the rollouts are eliminated."""
        shared = self.by_window(self.by_rollout(levels))
        return list(map(sub, map(mul, self._weights, levels), shared))

    def levels(self, ys: Sequence[Sequence[float]]) -> list[float]:
        """The windows' effects that minimise the squared residuals plus λ times their own squares."""
        shared = self.by_window(self.means(ys))
        return self.solve(list(map(sub, map(fsum, ys), shared)))

    def solve(self, right: Sequence[float]) -> list[float]:
        """Solve by conjugate gradients (Hestenes & Stiefel 1952); without ridge, the least-norm solution."""
        x = [0.0] * len(right)
        r = p = list(right)
        rr = _dot(r, r)
        enough = rr * 1e-26
        for _ in range(2 * len(right) + 20):
            if rr <= enough:
                break
            ap = self.times(p)
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

    def efficiency(self, parts: Sequence[set[int]]) -> float:
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
        share = 1.0
        if size <= affordable:
            probes = [[float(i == j) for j in range(size)] for i in range(size)]
        else:
            share = 1 / affordable
            rng = random.Random(0)  # the same table has the same efficiency
            probes = [
                [rng.choice((-1.0, 1.0)) for _ in range(size)]
                for _ in range(affordable)
            ]
        inverse = self.inverse
        trace = fsum(inverse[i] * (1 - 1 / len(part)) for part in parts for i in part)
        for probe in probes:
            spread = self.by_rollout(probe)
            for part in parts:
                centre = fsum(spread[i] for i in part) / len(part)
                for i in part:
                    spread[i] = (spread[i] - centre) * inverse[i]
            trace += share * _dot(probe, self.solve(self.by_window(spread)))
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
    shown = [window for window, _ in windows]
    design = _Design(shown, rollouts)
    everything = [y for _, scores in windows for y in scores]
    mean = fsum(everything) / len(everything)
    ys = [[y - mean for y in scores] for _, scores in windows]
    # observations less their windows' levels, about the centre of the rollouts' means
    by_rollout: list[list[float]] = [[] for _ in design.inverse]
    for rollout, y in design.pairs(_less(ys, design.levels(ys))):
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
    rest, between = _squares(_Design(shown, rollouts, ridge=0.0), ys)
    variance = Anova(
        between,
        df_item,
        rest,
        len(everything) - df_item - len(windows),
        len(everything) / len(means),
        design.efficiency(parts),
    )
    return WindowFit(tuple(fitted), tuple(adjusted), variance)


def _squares(design: _Design, ys: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Sums of squares of a design without ridge: that of the residuals, and the one between rollouts.

    The latter is the decrease of the residuals' if rollouts are added to windows alone (type II), so that the
    ratio of the mean squares is F if all rollouts are alike.
    """
    free = _less(ys, design.levels(ys))
    items = design.means(free)
    rest = fsum((y - items[rollout]) ** 2 for rollout, y in design.pairs(free))
    alone = _less(ys, [fsum(window) / len(window) for window in ys])
    whole = fsum(y * y for y in chain.from_iterable(alone))
    return rest, max(0.0, whole - rest)


def _less(ys: Sequence[Sequence[float]], levels: Sequence[float]) -> list[list[float]]:
    """Observations by window, less the level of each window."""
    return [
        [y - level for y in window] for window, level in zip(ys, levels, strict=True)
    ]
