"""The evidence of a rise: its formula, its false alarms, what it finds and when it says nothing."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from ruler_cli.scoring.drift import LEAST, Rise, rises


def evidence(
    values: list[float], weights: list[float] | None = None
) -> list[Rise]:
    """The evidence after each number, by default of equal weights."""
    return list(rises(values, weights or [1.0] * len(values)))


def noise(
    dice: random.Random, number: int, correlation: float = 0.0
) -> list[float]:
    """Normal noise of standard deviation 1 that follows itself."""
    value = dice.gauss(0, 1)
    values = []
    for _ in range(number):
        values.append(value)
        mine = math.sqrt(1 - correlation**2) * dice.gauss(0, 1)
        value = correlation * value + mine
    return values


@pytest.mark.parametrize("correlation", [0.0, 0.25])
@pytest.mark.parametrize("shape", ["normal", "heavy"])
def test_false_alarms(correlation: float, shape: str) -> None:
    """Looked at after every number, noise of any distribution reaches 1/p in a share p of series at most."""
    dice = random.Random(5)
    series = 200
    reached = 0
    for _ in range(series):
        values = noise(dice, 30, correlation)
        if shape == "heavy":
            values = [math.sinh(3 * value) for value in values]
        largest = max(row.evidence for row in evidence(values))
        reached += largest >= math.log(1 / 0.1)
    # three standard errors above the stated rate
    assert reached / series <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / series)


def test_rise_is_found() -> None:
    """A ramp of one standard deviation a step is found within a few numbers, and mostly its onset, too."""
    dice = random.Random(7)
    onsets = []
    for _ in range(20):
        values = [
            value + max(0, i - 19) for i, value in enumerate(noise(dice, 40))
        ]
        first = next(row for row in evidence(values) if row.evidence >= 3.7)
        assert 21 < first.end <= 32
        onsets.append(first.since)
    assert 19 <= median(onsets) <= 22


def test_units() -> None:
    """The evidence does not depend on the unit of the numbers, nor on their level."""
    values = [
        value + (i > 9) for i, value in enumerate(noise(random.Random(1), 16))
    ]
    assert evidence([0.01 * value + 7 for value in values]) == evidence(values)


def test_nothing_to_tell() -> None:
    """Fewer numbers than are needed give none; equal ones, or ones that differ by rounding, no evidence."""
    assert evidence([]) == []
    assert evidence([float(i) for i in range(LEAST - 1)]) == []
    for values in ([0.1] * 60, [0.1] * 20 + [0.1 + 1e-16] * 10):
        for weight in (0.05, 1.0):
            weights = [weight] * len(values)
            assert all(row.evidence < 0.01 for row in evidence(values, weights))


def test_outlier() -> None:
    """One number far off is no rise, whether the series ends with it or goes on as before."""
    values = noise(random.Random(2), 30)
    values[20] += 12
    assert all(row.evidence < 3.7 for row in evidence(values))
