"""Windows solved by shift least squares."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import sqrt
from statistics import correlation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.statistics.reliability import Anova, Prior, icc, tied
from ruler_cli.statistics.shifts import RIDGE, Fitted, fit

Windows = list[tuple[list[int], list[float]]]
GRID = st.integers(0, 20).map(lambda i: i / 20)


@st.composite
def seen(draw: st.DrawFn) -> tuple[Windows, int]:
    """A group in windows of any size, some empty; some rollouts may be in none."""
    bodies = draw(st.integers(1, 9))
    subsets = st.lists(st.integers(0, bodies - 1), unique=True, max_size=bodies)
    windows = draw(st.lists(subsets, max_size=6))
    scored = [(w, draw(st.lists(GRID, min_size=len(w), max_size=len(w)))) for w in windows]
    return scored, bodies


def in_windows(
    truth: Sequence[float], size: int, rng: random.Random, shift: float, noise: float, turns: int = 2
) -> Windows:
    """Each rollout in one random window per pass, each window at its own level."""
    found: Windows = []
    for _ in range(turns):
        order = rng.sample(range(len(truth)), len(truth))
        for at in range(0, len(order), size):
            bodies = order[at : at + size]
            level = rng.gauss(0, shift)
            found.append((bodies, [truth[i] + level + rng.gauss(0, noise) for i in bodies]))
    return found


def known(fitted: Fitted) -> list[float]:
    """The scores of the bodies that have one."""
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
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def dense(windows: Windows, bodies: int, ridge: float) -> list[float]:
    """Bodies by the full normal equations of y − mean, about their mean."""
    size = bodies + len(windows)
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    ys = [y for _, scores in windows for y in scores]
    mean = sum(ys) / len(ys)
    for w, (shown, scores) in enumerate(windows, bodies):
        matrix[w][w] += ridge
        for body, y in zip(shown, scores, strict=True):
            for i in (body, w):
                right[i] += y - mean
                for j in (body, w):
                    matrix[i][j] += 1
    found = solve(matrix, right)[:bodies]
    return [x - sum(found) / bodies for x in found]


@pytest.mark.parametrize("ridge", [1e-9, 0.1, RIDGE, 10])
def test_normal_equations(ridge: float) -> None:
    """The scores are the solution of the full normal equations, by elimination."""
    rng = random.Random(1)
    truth = [rng.uniform(0.3, 0.7) for _ in range(12)]
    windows = in_windows(truth, 4, rng, 0.1, 0.1, turns=3)
    fitted = fit(windows, 12, ridge)
    mean = sum(known(fitted)) / 12
    wanted = dense(windows, 12, ridge)
    assert [(x - mean) / fitted.scale for x in known(fitted)] == pytest.approx(wanted, abs=1e-7)


@given(seen())
def test_shape(given: tuple[Windows, int]) -> None:
    """Every body that was seen has a score in the observed range; their mean is that of all observations."""
    windows, bodies = given
    fitted = fit(windows, bodies)
    everything = [y for _, scores in windows for y in scores]
    shown = {body for window, _ in windows for body in window}
    assert fitted.missing == tuple(i for i in range(bodies) if i not in shown)
    assert [x is None for x in fitted.scores] == [i not in shown for i in range(bodies)]
    assert len(fitted.effects) == len(windows)
    assert sum(map(len, fitted.adjusted)) == fitted.observations == len(everything)
    for x, own in zip(fitted.scores, fitted.adjusted, strict=True):
        if x is not None:
            assert min(everything) <= x <= max(everything)
            assert sum(own) / len(own) == pytest.approx(x)
    if shown:
        mean = sum(everything) / len(everything)
        assert sum(known(fitted)) / len(shown) == pytest.approx(mean)
    assert 0 < fitted.scale <= 1
    assert fitted.efficiency > 0
    assert fitted.df_res >= 0 <= fitted.df_item
    assert 0 <= icc(fitted.anova, Prior()) <= 1
    assert tied(fitted.anova, Prior()) in {True, False}


@given(seen(), st.randoms(use_true_random=False))
def test_permutations(given: tuple[Windows, int], rng: random.Random) -> None:
    """Neither the order of windows, nor that within one, nor the rollouts' numbers matter."""
    windows, bodies = given
    names = rng.sample(range(bodies), bodies)
    other = []
    for window, scores in rng.sample(windows, len(windows)):
        order = rng.sample(range(len(window)), len(window))
        other.append(([names[window[i]] for i in order], [scores[i] for i in order]))
    a, b = fit(windows, bodies), fit(other, bodies)
    for i, x in enumerate(a.scores):
        assert b.scores[names[i]] == (None if x is None else pytest.approx(x, abs=1e-9))
    assert b.rest == pytest.approx(a.rest, abs=1e-9)
    assert (b.df_res, b.df_item) == (a.df_res, a.df_item)
    assert b.efficiency == pytest.approx(a.efficiency, abs=1e-9)


def test_whole_table() -> None:
    """Where every pass shows all, scores are means over passes and the analysis is the whole table's."""
    rng = random.Random(3)
    columns = [[rng.randint(0, 20) / 20 for _ in range(6)] for _ in range(4)]
    fitted, whole = fit([(list(range(6)), column) for column in columns], 6), Anova.of(columns)
    assert known(fitted) == pytest.approx([sum(row) / 4 for row in zip(*columns, strict=True)])
    assert (fitted.anova.n, fitted.anova.k) == (whole.n, whole.k)
    assert (fitted.anova.ms_item, fitted.anova.ms_res) == pytest.approx((whole.ms_item, whole.ms_res))
    assert (fitted.df_item, fitted.df_res) == (whole.df_item, whole.df_res)
    assert fitted.efficiency == pytest.approx(1)


def test_unconnected() -> None:
    """Windows that nothing connects keep their own means, and every part costs a degree of freedom."""
    fitted = fit([([0, 1], [0.1, 0.3]), ([2, 3], [0.6, 0.8]), ([2, 3], [0.6, 0.8])], 5)
    assert fitted.missing == (4,)
    assert (fitted.df_item, fitted.df_res) == (2, 1)
    scores = known(fitted)
    assert sum(scores[:2]) / 2 < sum(scores[2:]) / 2


def test_all_equal() -> None:
    """Where every answer is the same every score is that, there is no variance, and all are tied."""
    for value in (0.1, 0.3, 0.35, 0.7, 0.95, 1.0):
        windows = [(w, [value] * len(w)) for w, _ in in_windows([0.0] * 10, 4, random.Random(4), 0, 0)]
        fitted = fit(windows, 10)
        assert fitted.scores == (value,) * 10
        assert (fitted.anova.ms_item, fitted.anova.ms_res) == (0, 0)
        assert tied(fitted.anova, Prior(3, 0.01))


def test_contracted() -> None:
    """Scores that leave the observed range are drawn in by one factor, order and ratios of gaps kept."""
    windows: Windows = [([0, 1], [0.0, 1.0]), ([1, 2], [0.0, 1.0]), ([2, 3], [0.0, 1.0])]
    fitted = fit(windows, 4, ridge=0.01)
    scores = known(fitted)
    assert fitted.scale < 0.5
    assert min(scores) == pytest.approx(0)
    assert max(scores) == pytest.approx(1)
    assert scores == sorted(scores)
    wanted = dense(windows, 4, 0.01)
    assert [x - 0.5 for x in scores] == pytest.approx([fitted.scale * w for w in wanted])


def test_nothing() -> None:
    """Without a window nobody has a score, and there is nothing to test."""
    fitted = fit([], 3)
    assert fitted.scores == (None,) * 3
    assert fitted.missing == (0, 1, 2)
    assert fitted.anova == Anova(0, 0, 0, 0, 0, 0)
    assert fit([([], [])], 1).missing == (0,)


def test_efficiency_is_the_variance_of_contrasts() -> None:
    """The efficiency gives the mean variance of the difference of two scores, found by elimination."""
    rng = random.Random(5)
    n = 16
    windows = in_windows([0.5] * n, 4, rng, 0, 0)
    fitted = fit([(w, [rng.random() for _ in w]) for w, _ in windows], n)
    information = [[0.0] * n for _ in range(n)]
    for shown, _ in windows:
        for i in shown:
            information[i][i] += 1
            for j in shown:
                information[i][j] -= 1 / (len(shown) + RIDGE)
    inverse = [solve(information, [float(i == j) for j in range(n)]) for i in range(n)]
    trace = sum(inverse[i][i] for i in range(n)) - sum(map(sum, inverse)) / n
    mean_precision = (2 * n - len(windows)) / (n - 1)
    assert fitted.df_item == n - 1
    assert fitted.efficiency == pytest.approx((n - 1) / trace / mean_precision)


def test_estimated_efficiency() -> None:
    """In a large group a few random probes find the efficiency of its smaller likes."""
    rng = random.Random(6)
    found = []
    for n in (128, 1_000):
        windows = in_windows([rng.uniform(0.4, 0.6) for _ in range(n)], 8, rng, 0.05, 0.05)
        found.append(fit(windows, n).efficiency)
    assert found[0] == pytest.approx(found[1], rel=0.03)


@pytest.mark.long
def test_reliability_is_what_it_says() -> None:
    """Over many groups in windows the reliability is the squared correlation of scores with the truth."""
    rng, squared, said = random.Random(7), [], []
    for _ in range(60):
        truth = [rng.gauss(0.5, 0.1) for _ in range(64)]
        fitted = fit(in_windows(truth, 8, rng, 0.1 / sqrt(RIDGE), 0.1), 64)
        squared.append(correlation(known(fitted), truth) ** 2)
        said.append(icc(fitted.anova, Prior()))
    assert sum(said) / 60 == pytest.approx(sum(squared) / 60, abs=0.03)


@pytest.mark.long
def test_pure_noise() -> None:
    """Of groups in windows that are all noise about 5 % are not called tied."""
    rng = random.Random(8)
    groups = [fit(in_windows([0.5] * 24, 6, rng, 0.1, 0.1), 24) for _ in range(600)]
    share = sum(not tied(fitted.anova, Prior()) for fitted in groups) / len(groups)
    assert share == pytest.approx(0.05, abs=0.025)


def test_better_than_means() -> None:
    """With levels that differ by window, shifts order rollouts better than means of raw scores do."""
    rng, shifted, raw = random.Random(9), 0.0, 0.0
    for _ in range(30):
        truth = [rng.gauss(0.5, 0.12) for _ in range(64)]
        windows = in_windows(truth, 8, rng, 0.1, 0.1)
        shifted += correlation(known(fit(windows, 64)), truth) / 30
        raw += correlation(known(fit(windows, 64, ridge=1e9)), truth) / 30
    assert shifted > raw + 0.02


@pytest.mark.long
def test_large() -> None:
    """2,000 rollouts in 286 windows are solved to the end: a window's residuals sum to λ times its level."""
    rng = random.Random(10)
    truth = [rng.gauss(0.5, 0.1) for _ in range(2_000)]
    windows = in_windows(truth, 14, rng, 0.1, 0.1)
    fitted = fit(windows, 2_000)
    assert len(windows) == 286
    scores = known(fitted)
    centre = sum(scores) / 2_000
    mean = sum(y for _, ys in windows for y in ys) / 4_000
    off = sum(fitted.effects) / len(windows)
    for (shown, ys), effect in zip(windows, fitted.effects, strict=True):
        residuals = [
            y - mean - effect - (scores[i] - centre) / fitted.scale for i, y in zip(shown, ys, strict=True)
        ]
        assert sum(residuals) == pytest.approx(RIDGE * (effect - off), abs=1e-9)
