"""Correlation within groups and concordance, by hand and against the values written out."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.statistics.sums import (
    Concordance,
    concordance,
    correlation,
    partial_correlation,
    products,
)
from tests.agreement.values import grades, rows

Group = list[tuple[float, float, float]]
groups_ = st.lists(
    st.lists(st.tuples(grades, grades, grades), min_size=2, max_size=6), min_size=1, max_size=5
)


def sums(groups: list[Group]) -> Counter[str]:
    """All groups' products of two judges' scores and labels."""
    found: Counter[str] = Counter()
    for group in groups:
        one, other, labels = (list(column) for column in zip(*group, strict=True))
        found.update(products(a=one, b=other, y=labels))
    return found


def residuals(groups: list[Group], judge: int) -> tuple[list[float], list[float]]:
    """Scores less the group's mean, and what is left of them after regression on the label."""
    centred: list[float] = []
    labels: list[float] = []
    for group in groups:
        for column, out in ((judge, centred), (2, labels)):
            mean = sum(row[column] for row in group) / len(group)
            out += [row[column] - mean for row in group]
    yy = sum(y * y for y in labels)
    slope = sum(a * y for a, y in zip(centred, labels, strict=True)) / yy if yy else 0.0
    return centred, [a - slope * y for a, y in zip(centred, labels, strict=True)]


def pearson(a: list[float], b: list[float]) -> float:
    """r of values whose mean is zero."""
    below = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / below


def test_errors_by_hand() -> None:
    """Two judges who both see the truth agree in their scores; that they err apart shows in the errors."""
    found = sums([[(0.7, 0.7, 1.0), (0.9, 0.9, 1.0), (0.2, 0.0, 0.0), (0.0, 0.2, 0.0)]])
    # less slope times label: errors (-.1, .1, .1, -.1) and (-.1, .1, -.1, .1)
    assert partial_correlation(found) == pytest.approx(0.0)
    assert correlation(found) == pytest.approx(0.49 / 0.53)


@given(groups_)
def test_as_residuals_say(groups: list[Group]) -> None:
    """Both correlations are those of the values written out."""
    found = sums(groups)
    (a, left_a), (b, left_b) = residuals(groups, 0), residuals(groups, 1)
    for r, wanted in ((correlation(found), (a, b)), (partial_correlation(found), (left_a, left_b))):
        assert r is None or r == pytest.approx(pearson(*wanted), abs=1e-6)


def test_not_defined() -> None:
    """Judges without spread, without error, or without labels have no correlation of errors."""
    assert correlation(sums([[(0.5, 0.1, 0.0), (0.5, 0.2, 1.0)]])) is None
    nearly = [(0.1 + 0.2, 0.1, 0.0), (0.3, 0.5, 1.0), (0.3, 0.9, 1.0)]  # what rounding leaves is no signal
    assert correlation(sums([nearly] * 30)) is partial_correlation(sums([nearly] * 30)) is None
    assert partial_correlation(sums([[(0.0, 0.1, 0.0), (1.0, 0.2, 1.0), (0.0, 0.3, 0.0)]])) is None
    assert partial_correlation(sums([[(0.0, 0.1, 1.0), (1.0, 0.2, 1.0)]])) is None


def test_concordance_by_hand() -> None:
    """Three rollouts, two passed: one pair won, one tied; without unlike labels or scores no τ_b."""
    found = concordance([0.9, 0.4, 0.4], [1, 1, 0])
    assert found == Concordance(pairs=2, won=1, tied=1, spread=2)
    assert (found.lost, found.tau_b) == (0, 0.5)  # (1 - 0) / sqrt(2 * 2)
    assert concordance([0.1, 0.9], [1, 1]).tau_b is concordance([0.5, 0.5], [0, 1]).tau_b is None


@given(st.one_of(rows, st.lists(st.tuples(grades, grades), min_size=150, max_size=200)))
def test_as_if_each_pair_was_looked_at(found: list[tuple[float, float]]) -> None:
    """Counts are those of looking at each pair; scores that are the labels win all pairs."""
    pairs = won = tied = spread = 0
    for (score, label), (other, other_label) in combinations(found, 2):
        spread += score != other
        if label != other_label:
            pairs += 1
            tied += score == other
            won += (score - other) * (label - other_label) > 0
    scores, labels = zip(*found, strict=True)
    assert concordance(scores, labels) == Concordance(pairs, won, tied, spread)
    assert concordance(labels, labels).won == concordance([-y for y in labels], labels).lost == pairs


def test_very_many() -> None:
    """Labels of which no two are alike are counted in less than fifty times what a tenth of them takes."""

    def took(size: int) -> float:
        dice = random.Random(size)
        values = [dice.random() for _ in range(2 * size)]
        begun = time.process_time()
        concordance(values[:size], values[size:])
        return time.process_time() - begun

    assert took(20_000) < 50 * max(took(2_000) for _ in range(3))
