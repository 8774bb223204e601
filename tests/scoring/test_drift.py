"""The evidence of a shift: its formula, its false alarms, what it finds and when it says nothing."""

from __future__ import annotations

import math
import random
from statistics import median

import numpy as np
import pytest

from ruler_cli.scoring.drift import BEFORE, ENOUGH, LEAST, shifts

CORRELATIONS = {0.0: 0.6, 0.25: 0.3, 0.5: 0.1}


def density(
    x: np.ndarray, covariance: np.ndarray, column: np.ndarray, tau: float, sd: float
) -> float:
    """The density of numbers by matrices: with priors of level and sd, or of the level with this sd."""
    inverse = np.linalg.inv(covariance)
    one = np.ones(len(x))
    level = one @ inverse @ one
    rest = x @ inverse @ x - (one @ inverse @ x) ** 2 / level
    own = column @ inverse @ column - (column @ inverse @ one) ** 2 / level
    both = column @ inverse @ x - (column @ inverse @ one) * (one @ inverse @ x) / level
    left = rest - tau**2 * both**2 / (1 + tau**2 * own)
    factor = (
        np.linalg.det(covariance) ** -0.5 * level**-0.5 * (1 + tau**2 * own) ** -0.5
    )
    if sd:
        return float(factor * math.exp(-left / (2 * sd * sd)))
    return float(factor * left ** (-(len(x) - 1) / 2))


def evidence(values: list[float], errors: list[float], sd: float) -> float:
    """The evidence by matrices."""
    n = len(values)
    x = np.array(values)
    error = np.median(errors[:LEAST])
    scale = np.maximum(error, errors) / error
    steps = np.arange(n)
    level = shifted = 0.0
    for correlation, likely in CORRELATIONS.items():
        noise = correlation ** np.abs(steps[:, None] - steps) / (1 - correlation**2)
        covariance = noise * np.outer(scale, scale)
        level += likely * density(x, covariance, steps * 0.0, 0.0, sd)
        for since in range(BEFORE, n - 1):
            j = since - BEFORE + 1
            weight = likely * 30 / ((j + 29) * (j + 30)) / 2
            shift = (steps >= since) * 1.0
            ramp = np.maximum(0.0, steps - since + 1)
            shifted += weight * density(x, covariance, shift, 2.0, sd)
            shifted += weight * density(x, covariance, ramp, 0.5, sd)
    return math.log(shifted / level)


def noise(dice: random.Random, number: int, correlation: float = 0.0) -> list[float]:
    """Normal noise of standard deviation 1 that follows itself."""
    value = dice.gauss(0, 1)
    values = []
    for _ in range(number):
        values.append(value)
        own = math.sqrt(1 - correlation**2) * dice.gauss(0, 1)
        value = correlation * value + own
    return values


@pytest.mark.parametrize("power", [0, 1])
def test_enough(power: int) -> None:
    """A shift or a ramp without noise is beyond chance with ENOUGH numbers at the earliest."""
    needed = math.log(2 / 0.05)
    earliest = []
    for since in range(BEFORE, ENOUGH):
        values = [0.0] * since + [(i + 1.0) ** power for i in range(20)]
        found = shifts(values, [1e-4] * len(values))
        earliest.append(next(one.end for one in found if one.evidence >= needed))
    assert min(earliest) == ENOUGH


def test_formula() -> None:
    """The running sums give what matrices give, the smaller of both evidences, with errors of any size."""
    dice = random.Random(3)
    for drifting in (0.0, 2.0):
        values = noise(dice, 12)
        values[8:] = [value + drifting * i for i, value in enumerate(values[8:], 1)]
        errors = [0.4] * 12
        errors[4], errors[9] = 0.9, 0.2
        for one in shifts(values, errors):
            known = (values[: one.end], errors[: one.end])
            least = min(evidence(*known, sd) for sd in (0.0, 0.4))
            assert one.evidence == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_false_alarms(correlation: float) -> None:
    """Looked at after every number, noise reaches 1/p in a share p of series at most."""
    dice = random.Random(5)
    series = 80
    reached = 0
    for _ in range(series):
        largest = max(
            one.evidence for one in shifts(noise(dice, 30, correlation), [0.1] * 30)
        )
        reached += largest >= math.log(1 / 0.1)
    # three standard errors above the stated rate
    assert reached / series <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / series)


def test_shift_is_found() -> None:
    """A shift of four standard deviations is found within a few numbers, and mostly its onset, too."""
    dice = random.Random(7)
    onsets = []
    for _ in range(20):
        values = [value + 4 * (i >= 20) for i, value in enumerate(noise(dice, 40))]
        first = next(one for one in shifts(values, [0.5] * 40) if one.evidence >= 4.6)
        assert 20 < first.end <= 34
        onsets.append(first.since)
    assert median(onsets) == 20


def test_units() -> None:
    """The evidence does not depend on the unit of the numbers, nor on their level."""
    values = [value + (i > 9) for i, value in enumerate(noise(random.Random(1), 16))]
    plain = [one.evidence for one in shifts(values, [0.3] * 16)]
    scaled = [0.01 * value + 7 for value in values]
    other = [one.evidence for one in shifts(scaled, [0.003] * 16)]
    assert other == pytest.approx(plain, rel=1e-6)


def test_nothing_to_tell() -> None:
    """Fewer numbers than are needed give none; equal ones, or ones that differ by rounding, no evidence."""
    assert list(shifts([], [])) == []
    assert list(shifts([0.0, 1.0, 2.0, 3.0], [0.1] * 4)) == []
    for values in ([0.1] * 30, [0.1] * 20 + [0.1 + 1e-16] * 10):
        assert all(one.evidence < 0 for one in shifts(values, [0.0] * 30))


def test_luck_at_the_start() -> None:
    """Numbers that are closer than their sampling errors prove nothing about one within these errors."""
    values = [0.5] * 10 + [0.52] * 3
    assert all(one.evidence < 1 for one in shifts(values, [0.05] * 13))
    assert any(one.evidence > 4.6 for one in shifts(values, [0.002] * 13))


def test_outlier() -> None:
    """One number far off is no shift, whether the series ends with it or goes on as before."""
    dice = random.Random(2)
    values = noise(dice, 30)
    values[20] += 12
    assert all(one.evidence < 4.6 for one in shifts(values, [0.5] * 30))
