"""Correlation within groups, concordance, running sums and quantiles against their formulas."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from math import log2
from statistics import fmean, linear_regression

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.runs.estimate import leading_bits
from ruler_cli.scoring.statistics import (
    LengthSums,
    pair_products,
    partial_correlation,
    quantile,
)


def centred(groups: list[list[float]]) -> list[float]:
    """All values less their group's mean, in one list."""
    return [value - fmean(group) for group in groups for value in group]


def test_length_is_the_regression_within_groups() -> None:
    """Slope and correlation are those of centred scores on centred logarithms of size."""
    rng = random.Random(4)
    sizes = [[rng.randrange(100, 100_000) for _ in range(6)] for _ in range(40)]
    given = [
        [0.01 * i + 0.02 * log2(s) + rng.gauss(0, 0.05) for s in row]
        for i, row in enumerate(sizes)
    ]
    sums = LengthSums()
    assert sums.trend() is None
    for row, output in zip(sizes, given, strict=True):
        sums.add(zip(row, output, strict=True))
        sums.add([(100, 0.1), (100, 0.9)])  # equally long: it says nothing
    result = sums.trend()
    assert result is not None
    x, y = centred([[log2(s) for s in row] for row in sizes]), centred(given)
    assert result.slope == pytest.approx(linear_regression(x, y).slope)
    assert result.correlation == pytest.approx(statistics.correlation(x, y))
    assert result.groups == 40
    assert abs(result.slope - 0.02) < 4 * result.error


def test_rewards_beyond_all_scales_are_not_known() -> None:
    """A reward whose square no number holds is left out, and errors are those of all other rewards."""
    rng = random.Random(2)
    groups = [
        ([rng.random() for _ in range(3)], [rng.random() for _ in range(3)])
        for _ in range(20)
    ]
    result = []
    for last in (None, 1e300, -1.7e308):
        scores, errors = Counter[str](), Counter[str]()
        for one, other in groups:
            products = pair_products(
                list(zip(one, other, [0.0, 1.0, last], strict=True))
            )
            scores.update(products["scores"])
            errors.update(products["errors"])
        result.append((partial_correlation(errors), errors["n"], scores["n"]))
    assert result[0][0] is not None
    assert result == [result[0]] * 3
    assert result[0][1:] == (40, 60)


@given(
    st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0])
)
def test_quantile(lengths: list[int], share: float) -> None:
    """The share of lengths at or below the quantile is the one asked for, to one part in 128."""
    result = quantile((leading_bits(length, 8) for length in lengths), share)
    exact = quantile(lengths, share)
    assert result is not None
    assert exact is not None
    assert sum(n <= exact for n in lengths) >= share * len(lengths)
    assert exact in lengths
    assert exact * 127 / 128 <= result <= exact
