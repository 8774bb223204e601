"""Running sums against the formulas they stand for."""

from __future__ import annotations

import random
from math import log2
from statistics import correlation, fmean, linear_regression, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.statistics.sums import LengthSums, Moments, PairSums
from tests.scoring.saying import scores

values = st.lists(scores, max_size=20)


@given(values, values)
def test_moments(one: list[float], other: list[float]) -> None:
    """Mean and deviation are those of all values, counted one by one or in two parts."""
    whole, first, second = Moments(), Moments(), Moments()
    whole.add(one + other)
    first.add(one)
    second.add(other)
    for found in (whole, first + second):
        assert found.number == len(one + other)
        assert found.mean == pytest.approx(fmean(one + other) if one + other else 0)
        assert found.deviation == pytest.approx(stdev(one + other) if len(one + other) > 1 else 0, abs=1e-9)
    flat = Moments()
    flat.add([one[0] if one else 0.5] * 9)
    assert flat.deviation == 0.0  # not what rounding leaves of it


def centred(groups: list[list[float]]) -> list[float]:
    """All values less their group's mean, in one list."""
    return [value - fmean(group) for group in groups for value in group]


def test_length_is_the_regression_within_groups() -> None:
    """Slope and correlation are those of centred scores on centred logarithms of size."""
    rng = random.Random(4)
    sizes = [[rng.randrange(100, 100_000) for _ in range(6)] for _ in range(40)]
    given = [[0.01 * i + 0.02 * log2(s) + rng.gauss(0, 0.05) for s in row] for i, row in enumerate(sizes)]
    sums = LengthSums()
    assert sums.found() is None
    for row, said in zip(sizes, given, strict=True):
        sums.add(row, said)
        sums.add([100, 100], [0.1, 0.9])  # equally long: it says nothing
    found = sums.found()
    assert found is not None
    x, y = centred([[log2(s) for s in row] for row in sizes]), centred(given)
    assert found.slope == pytest.approx(linear_regression(x, y).slope)
    assert found.correlation == pytest.approx(correlation(x, y))
    assert found.groups == 40
    assert abs(found.slope - 0.02) < 4 * found.error


def test_the_error_of_the_slope_is_by_groups() -> None:
    """Over many batches without any effect the slope varies by as much as its error says.

    A group's scores hang on the length by chance of its own, as tasks do: rollouts are not independent.
    """
    rng = random.Random(5)
    slopes, errors = [], []
    for _ in range(300):
        sums = LengthSums()
        for _ in range(40):
            own = rng.gauss(0, 0.05)
            sizes = [round(2 ** rng.uniform(8, 12)) for _ in range(6)]
            sums.add(sizes, [(0.1 + own) * log2(s) + rng.gauss(0, 0.05) for s in sizes])
        found = sums.found()
        assert found is not None
        slopes.append(found.slope)
        errors.append(found.error)
    assert fmean(errors) == pytest.approx(stdev(slopes), rel=0.15)


def test_without_rewards_no_errors() -> None:
    """Without rewards, with few and with one and the same for all, errors are not known; scores are."""
    sums = PairSums()
    for _ in range(20):
        sums.add([0.1, 0.5, 0.9], [0.2, 0.5, 0.9], [None, None, None])
    assert sums.errors() is None
    assert sums.correlation() == pytest.approx(0.997, abs=1e-3)
    assert sums.rewarded == 0
    same, few = PairSums(), PairSums()
    for _ in range(20):
        same.add([0.1, 0.5, 0.9], [0.2, 0.5, 0.9], [1.0, 1.0, 1.0])
    few.add([0.1, 0.5, 0.9], [0.2, 0.4, 0.9], [1.0, 0.0, 1.0])
    assert same.errors() is few.errors() is None


def test_rewards_beyond_all_scales_are_not_known() -> None:
    """A reward whose square no number holds is left out, and errors are those of all other rewards."""
    rng = random.Random(2)
    groups = [([rng.random() for _ in range(3)], [rng.random() for _ in range(3)]) for _ in range(20)]
    found = []
    for last in (None, 1e300, -1.7e308):
        sums = PairSums()
        for one, other in groups:
            sums.add(one, other, [0.0, 1.0, last])
        found.append((sums.errors(), sums.rewarded, sums.rollouts))
    assert found[0][0] is not None
    assert found == [found[0]] * 3
    assert found[0][1:] == (40, 60)
