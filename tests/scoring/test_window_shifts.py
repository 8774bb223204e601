"""Scores from windows by least squares."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from math import sqrt
from statistics import correlation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.statistics import Anova, NoisePrior, rate
from ruler_cli.scoring.window_shifts import RIDGE, WindowFit, fit

Windows = list[tuple[list[int], list[float]]]
GRID = st.integers(0, 20).map(lambda i: i / 20)


@st.composite
def seen(draw: st.DrawFn) -> tuple[Windows, int]:
    """A group in windows of any size; some rollouts may be in none."""
    rollouts = draw(st.integers(1, 9))
    ids = st.integers(0, rollouts - 1)
    subsets = st.lists(ids, unique=True, min_size=1, max_size=rollouts)
    windows = draw(st.lists(subsets, min_size=1, max_size=6))
    scored = [
        (w, draw(st.lists(GRID, min_size=len(w), max_size=len(w)))) for w in windows
    ]
    return scored, rollouts


def in_windows(
    truth: Sequence[float],
    size: int,
    rng: random.Random,
    shift: float,
    noise: float,
    turns: int = 2,
) -> Windows:
    """Each rollout in one random window per pass, each window at its own level."""
    result: Windows = []
    for _ in range(turns):
        order = rng.sample(range(len(truth)), len(truth))
        for at in range(0, len(order), size):
            rollouts = order[at : at + size]
            level = rng.gauss(0, shift)
            result.append(
                (rollouts, [truth[i] + level + rng.gauss(0, noise) for i in rollouts])
            )
    return result


def known(fitted: WindowFit) -> list[float]:
    """The scores of the rollouts that have one."""
    return [x for x in fitted.scores if x is not None]


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with pivots."""
    rows = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    n = len(rows)
    for i in range(n):
        best = max(range(i, n), key=lambda j: abs(rows[j][i]))
        rows[i], rows[best] = rows[best], rows[i]
        for j in range(n):
            if j != i:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [
                    a - factor * b for a, b in zip(rows[j], rows[i], strict=True)
                ]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def dense(windows: Windows, rollouts: int, ridge: float) -> list[float]:
    """Rollouts by the full normal equations of y − mean, about their mean."""
    size = rollouts + len(windows)
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    ys = [y for _, scores in windows for y in scores]
    mean = sum(ys) / len(ys)
    for w, (shown, scores) in enumerate(windows, rollouts):
        matrix[w][w] += ridge
        for rollout, y in zip(shown, scores, strict=True):
            for i in (rollout, w):
                right[i] += y - mean
                for j in (rollout, w):
                    matrix[i][j] += 1
    result = solve(matrix, right)[:rollouts]
    return [x - sum(result) / rollouts for x in result]


@given(seen())
def test_shape(given: tuple[Windows, int]) -> None:
    """Every rollout in a window has a score in the observed range; their mean is that of all observations."""
    windows, rollouts = given
    fitted = fit(windows, rollouts)
    everything = [y for _, scores in windows for y in scores]
    shown = {rollout for window, _ in windows for rollout in window}
    assert [x is None for x in fitted.scores] == [
        i not in shown for i in range(rollouts)
    ]
    assert sum(map(len, fitted.adjusted)) == len(everything)
    for x, own in zip(fitted.scores, fitted.adjusted, strict=True):
        if x is not None:
            assert min(everything) <= x <= max(everything)
            assert sum(own) / len(own) == pytest.approx(x)
    if shown:
        mean = sum(everything) / len(everything)
        assert sum(known(fitted)) / len(shown) == pytest.approx(mean)
    assert fitted.anova.df_res >= 0 <= fitted.anova.df_item
    rated = rate(fitted.anova, NoisePrior())
    assert rated is None or 0 <= rated[0] <= 1


@given(seen(), st.randoms(use_true_random=False))
def test_permutations(given: tuple[Windows, int], rng: random.Random) -> None:
    """Neither the order of windows, nor that within one, nor the rollouts' numbers matter."""
    windows, rollouts = given
    names = rng.sample(range(rollouts), rollouts)
    other = []
    for window, scores in rng.sample(windows, len(windows)):
        order = rng.sample(range(len(window)), len(window))
        other.append(([names[window[i]] for i in order], [scores[i] for i in order]))
    a, b = fit(windows, rollouts), fit(other, rollouts)
    for i, x in enumerate(a.scores):
        assert b.scores[names[i]] == (None if x is None else pytest.approx(x, abs=1e-9))
    assert b.anova.ms_res == pytest.approx(a.anova.ms_res, abs=1e-9)
    assert (b.anova.df_res, b.anova.df_item) == (a.anova.df_res, a.anova.df_item)


def test_whole_table() -> None:
    """If every pass shows all, scores are means over passes and the analysis is the complete table's."""
    rng = random.Random(3)
    columns = [[rng.randint(0, 20) / 20 for _ in range(6)] for _ in range(4)]
    fitted, whole = (
        fit([(list(range(6)), column) for column in columns], 6),
        Anova.of(columns),
    )
    assert known(fitted) == pytest.approx(
        [sum(row) / 4 for row in zip(*columns, strict=True)]
    )
    assert fitted.anova.k == whole.k
    assert (fitted.anova.ms_item, fitted.anova.ms_res) == pytest.approx(
        (whole.ms_item, whole.ms_res)
    )
    assert (fitted.anova.df_item, fitted.anova.df_res) == (whole.df_item, whole.df_res)


def test_contracted() -> None:
    """Scores solve the normal equations; if any leaves the observed range, one factor draws all in."""
    windows: Windows = [
        ([0, 1], [0.0, 1.0]),
        ([1, 2], [0.0, 1.0]),
        ([2, 3], [0.0, 1.0]),
    ]
    scores = known(fit(windows, 4))
    assert (min(scores), max(scores)) == (0, 1)
    wanted = dense(windows, 4, RIDGE)
    assert max(wanted) > 0.5
    assert [x - 0.5 for x in scores] == pytest.approx(
        [w * 0.5 / max(wanted) for w in wanted]
    )


@pytest.mark.long
def test_reliability_is_calibrated() -> None:
    """Over many groups in windows the reliability is the squared correlation of scores with the truth."""
    rng, squared, reliabilities = random.Random(7), [], []
    for _ in range(60):
        truth = [rng.gauss(0.5, 0.1) for _ in range(64)]
        fitted = fit(in_windows(truth, 8, rng, 0.1 / sqrt(RIDGE), 0.1), 64)
        squared.append(correlation(known(fitted), truth) ** 2)
        reliabilities.append((rate(fitted.anova, NoisePrior()) or (0.0, True))[0])
    assert sum(reliabilities) / 60 == pytest.approx(sum(squared) / 60, abs=0.03)


def test_large_group() -> None:
    """The time of a fit grows with the number of rollouts, and not with its square."""

    def seconds(rollouts: int) -> float:
        rng = random.Random(1)
        truth = [rng.random() for _ in range(rollouts)]
        windows = in_windows(truth, 4, rng, shift=0.1, noise=0.1)
        began = time.process_time()
        fit(windows, rollouts)
        return time.process_time() - began

    small = min(seconds(1_000) for _ in range(3))
    # a square part would take 16 times as long, and caches take their share
    assert seconds(4_000) < 12 * small
