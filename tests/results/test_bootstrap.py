"""Figures and intervals over groups."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from ruler_cli.results.agreement import (
    BootstrapUnits,
    Statistic,
    ratio,
)
from ruler_cli.scoring.inference import Measured

MEAN = ratio("x", "n")


def mean(
    values: list[float], most: int = 500, resamples: int = 1_000, by: Statistic = MEAN
) -> Measured:
    """The mean over groups of one value each."""
    result = BootstrapUnits(most)
    for value in values:
        result.add({"x": value, "n": 1.0})
    return result.measure({"mean": by}, resamples)["mean"]


def width(figure: Measured) -> float:
    """Return the width of an interval."""
    assert figure["low"] is not None
    assert figure["high"] is not None
    return float(figure["high"] - figure["low"])


def test_standard_error() -> None:
    """The interval of a mean is that of its standard error, with single groups or many in few units."""
    draw = random.Random(0)
    values = [draw.random() for _ in range(5_000)]
    middle = sum(values) / 5_000
    error = math.sqrt(sum((v - middle) ** 2 for v in values)) / 5_000
    for units, resamples in ((5_000, 300), (250, 1_000)):
        figure = mean(values, units, resamples)
        assert figure["value"] == pytest.approx(middle)
        assert figure["groups"] == 5_000
        assert width(figure) == pytest.approx(2 * 1.96 * error, rel=0.2)


def test_drift() -> None:
    """Groups that improve along the file have the same interval as the same groups shuffled."""
    values = [i / 2_000 for i in range(2_000)]
    mixed = random.Random(2).sample(values, len(values))
    assert width(mean(values, 200)) == pytest.approx(width(mean(mixed, 200)), rel=0.25)


def test_few_groups() -> None:
    """Fewer than five groups have a value and no interval."""
    assert mean([0.0, 1.0, 0.0, 1.0]) == Measured(
        value=0.5, low=None, high=None, groups=4
    )
    assert width(mean([0.0, 1.0, 0.0, 1.0, 0.5])) > 0


def test_equal_groups() -> None:
    """Twelve of twelve is not certainty: the interval of a share is that of twelve labels, and ties are as none."""
    alike = mean([1.0] * 12)
    assert (alike["value"], alike["high"]) == (1.0, 1.0)
    assert alike["low"] == pytest.approx(12 / (12 + 2.201**2), abs=1e-3)
    tied = replace(MEAN, mute="n")
    assert width(mean([0.5] * 12, by=tied)) == pytest.approx(0.5)


def test_near_the_ends() -> None:
    """The interval of a share near 1 reaches further down than up, as the percentiles of resamples do not."""
    figure = mean([1.0] * 19 + [0.0])
    assert figure["low"] == pytest.approx(0.75, abs=0.02)  # the percentile is 0.8
    assert figure["high"] > 0.98


def test_undefined() -> None:
    """A ratio to zero is undefined."""
    nothing = Measured(value=None, low=None, high=None, groups=0)
    assert mean([1.0] * 9, by=ratio("x", "z")) == mean([]) == nothing


def test_paired_difference() -> None:
    """Two figures that vary together differ by little, even if their own intervals are wide."""
    draw = random.Random(4)
    result = BootstrapUnits()
    for _ in range(60):
        a = draw.random()
        result.add({"a": a, "b": a - 0.1 + draw.uniform(-0.01, 0.01), "n": 1.0})
    one, other = (ratio(name, "n") for name in "ab")
    figures = result.measure({"a": one, "d": one - other})
    assert width(figures["d"]) < 0.1 * width(figures["a"])
    assert figures["d"]["value"] == pytest.approx(0.1, abs=0.01)
    assert figures["d"]["low"] is not None
    assert figures["d"]["low"] > 0
