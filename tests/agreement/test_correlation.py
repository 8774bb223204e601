"""Correlation of scores and of errors within groups."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.agreement.correlation import error_sums, of_errors, plain
from tests.agreement.values import grades

Group = list[tuple[float, float, float]]
groups_ = st.lists(
    st.lists(st.tuples(grades, grades, grades), min_size=2, max_size=6), min_size=1, max_size=5
)


def sums(groups: list[Group]) -> Counter[str]:
    """All groups' sums."""
    found: Counter[str] = Counter()
    for group in groups:
        one, other, labels = (list(column) for column in zip(*group, strict=True))
        found.update(error_sums(one, other, labels, ""))
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
    group = [(0.7, 0.7, 1.0), (0.9, 0.9, 1.0), (0.2, 0.0, 0.0), (0.0, 0.2, 0.0)]
    found = sums([group])
    # less slope times label: errors (-.1, .1, .1, -.1) and (-.1, .1, -.1, .1)
    assert of_errors("")(found) == pytest.approx(0.0)
    assert plain("")(found) == pytest.approx(0.49 / 0.53)


@given(groups_)
def test_as_residuals_say(groups: list[Group]) -> None:
    """Both correlations are those of the values written out."""
    found = sums(groups)
    (a, left_a), (b, left_b) = residuals(groups, 0), residuals(groups, 1)
    r = plain("")(found)
    if r is not None:
        assert r == pytest.approx(pearson(a, b), abs=1e-6)
    r = of_errors("")(found)
    if r is not None:
        assert r == pytest.approx(pearson(left_a, left_b), abs=1e-6)


def test_shared_errors_are_found() -> None:
    """Of judges whose errors were drawn to correlate at .7 that is what is found, however good they are."""
    draw = random.Random(0)
    groups = []
    for _ in range(800):
        group: Group = []
        for _ in range(6):
            truth, shared = draw.random(), draw.gauss(0, 0.7**0.5)
            one, other = (truth * k + 0.1 * (shared + draw.gauss(0, 0.3**0.5)) for k in (1.0, 0.5))
            group.append((one, other, truth))
        groups.append(group)
    assert of_errors("")(sums(groups)) == pytest.approx(0.7, abs=0.03)


def test_not_defined() -> None:
    """Judges without spread, without error, or without labels have no correlation of errors."""
    assert plain("")(sums([[(0.5, 0.1, 0.0), (0.5, 0.2, 1.0)]])) is None
    nearly = [(0.1 + 0.2, 0.1, 0.0), (0.3, 0.5, 1.0), (0.3, 0.9, 1.0)]  # what rounding leaves is no signal
    assert plain("")(sums([nearly] * 30)) is None
    assert of_errors("")(sums([[(0.0, 0.1, 0.0), (1.0, 0.2, 1.0), (0.0, 0.3, 0.0)]])) is None
    assert of_errors("")(sums([[(0.0, 0.1, 1.0), (1.0, 0.2, 1.0)]])) is None
