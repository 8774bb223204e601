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


@given(scores, st.integers(2, 50))
def test_equal_values_deviate_by_nothing(value: float, times: int) -> None:
    """Values that are all equal have the deviation zero, not what rounding leaves of it."""
    found = Moments()
    found.add([value] * times)
    assert (found.mean, found.deviation) == (value, 0.0)


def centred(groups: list[list[float]]) -> list[float]:
    """All values less their group's mean, in one list."""
    return [value - fmean(group) for group in groups for value in group]


def test_length_is_the_regression_within_groups() -> None:
    """Slope and correlation are those of centred scores on centred logarithms of size."""
    rng = random.Random(4)
    sizes = [[rng.randrange(100, 100_000) for _ in range(6)] for _ in range(40)]
    given = [[0.01 * i + 0.02 * log2(s) + rng.gauss(0, 0.05) for s in row] for i, row in enumerate(sizes)]
    sums = LengthSums()
    for row, said in zip(sizes, given, strict=True):
        sums.add(row, said)
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


def test_no_length_no_slope() -> None:
    """Groups whose rollouts are equally long say nothing, and one group is too few."""
    sums = LengthSums()
    sums.add([100, 100], [0.1, 0.9])
    assert sums.found() is None
    sums.add([100, 200], [0.1, 0.9])
    assert sums.found() is None
    sums.add([100, 200], [0.1, 0.9])
    assert sums.found() is not None


def pairs(shared: float, number: int = 300, seed: int = 6) -> PairSums:
    """Two judges that see a reward with errors of which this share of the variance is one and the same."""
    rng = random.Random(seed)
    sums = PairSums()
    for _ in range(number):
        rewards = [float(rng.random() < 0.5) for _ in range(6)]
        both = [rng.gauss(0, shared**0.5) for _ in rewards]
        own = (1 - shared) ** 0.5
        one, other = (
            [0.3 + 0.4 * r + 0.1 * (b + rng.gauss(0, own)) for r, b in zip(rewards, both, strict=True)]
            for _ in range(2)
        )
        sums.add(one, other, rewards)
    return sums


@pytest.mark.parametrize("shared", [0.0, 0.3, 0.7])
def test_errors_correlate_as_they_share(shared: float) -> None:
    """What correlates once the reward is taken out is what judges get wrong together."""
    sums = pairs(shared)
    errors, plain = sums.errors(), sums.correlation()
    assert errors is not None
    assert plain is not None
    assert errors == pytest.approx(shared, abs=0.06)
    assert plain > errors + 0.1
    assert (sums.rollouts, sums.rewarded) == (1800, 1800)


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


def test_a_flat_judge_correlates_with_nothing() -> None:
    """A judge that gives one score to all has no correlation, not a zero one."""
    sums = PairSums()
    for _ in range(20):
        sums.add([0.5, 0.5, 0.5], [0.2, 0.5, 0.9], [0.0, 1.0, 0.0])
    assert sums.correlation() is None
    assert sums.errors() is None


@pytest.mark.parametrize("huge", [1e300, -1.7e308])
def test_a_reward_beyond_all_scales_is_not_known(huge: float) -> None:
    """A reward whose square no number holds is left out, and errors are those of all other rewards."""
    plain, hostile = PairSums(), PairSums()
    rng = random.Random(2)
    for _ in range(20):
        one, other = [rng.random() for _ in range(3)], [rng.random() for _ in range(3)]
        rewards: list[float | None] = [0.0, 1.0, None]
        plain.add(one, other, rewards)
        hostile.add(one, other, [*rewards[:2], huge])
    assert plain.errors() is not None
    assert hostile.errors() == plain.errors()
    assert hostile.rewarded == plain.rewarded == 40


def test_a_constant_judge_correlates_with_nobody() -> None:
    """What rounding leaves of one score for all is no signal, and no correlation of 1e-17 is told."""
    sums = PairSums()
    for _ in range(30):
        sums.add([0.1 + 0.2, 0.3, 0.3], [0.1, 0.5, 0.9], [0.0, 1.0, 1.0])
    assert (sums.correlation(), sums.errors()) == (None, None)
