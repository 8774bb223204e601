"""Reliability: analysis of variance, pooled noise, ties and passes needed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.batch import BatchStatistics
from ruler_cli.scoring.combine import combine
from ruler_cli.scoring.criteria import rubric_score
from ruler_cli.scoring.statistics import (
    Anova,
    Noise,
    f_survival,
    passes_for,
    rate,
)
from ruler_cli.scoring.tables import PassTables
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import Criterion, GroupScores, Rubric
from tests.scoring.group_results import group_result, one_pass

SHROUT_FLEISS = [
    (9, 2, 5, 8),
    (6, 1, 3, 2),
    (8, 4, 6, 8),
    (7, 1, 2, 6),
    (10, 5, 6, 9),
    (6, 2, 4, 7),
]
"""Six targets rated by four judges: Shrout & Fleiss 1979, table 2."""


def test_textbook() -> None:
    """The table of Shrout & Fleiss has their mean squares and their ICC(3,1) = .71 and ICC(3,4) = .91."""
    anova = Anova.of(list(zip(*SHROUT_FLEISS, strict=True)))
    assert (anova.k, anova.df_item, anova.df_res) == (4, 5, 15)
    assert anova.ms_item == pytest.approx(11.24, abs=0.005)
    assert anova.ms_res == pytest.approx(1.02, abs=0.005)
    rated = rate(anova, Noise())
    assert rated is not None
    four, tied = rated
    assert four == pytest.approx(0.91, abs=0.005)
    assert four / (4 - 3 * four) == pytest.approx(0.71, abs=0.005)
    assert not tied
    assert passes_for(four, 4) == 4


@pytest.mark.parametrize(("passes", "tied"), [(2, True), (3, True), (4, False)])
def test_own_noise(passes: int, tied: bool) -> None:
    """A group's own noise counts from four passes on, and the batch's before."""
    anova = Anova(
        between=0.07, df_item=7, rest=0.007, df_res=7 * passes - 7, k=passes
    )
    noisy = Noise(1_000, 10.0)
    rated = rate(anova, noisy)
    assert rated is not None
    assert (rated[0] == 0, rated[1]) == (tied, tied)


@given(st.floats(0.001, 0.999), st.integers(1, 16))
def test_passes_for(reliability: float, k: int) -> None:
    """The number of passes reaches a reliability of 0.9 by Spearman–Brown, and one fewer does not."""
    result = passes_for(reliability, k)
    assert result is not None

    def reached(m: float) -> float:
        return m * reliability / (k + (m - k) * reliability)

    assert reached(result) >= 0.9 * (1 - 1e-9)
    assert result == 1 or reached(result - 1) < 0.9 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("f", "d1", "d2"),
    [
        (161.448, 1, 1),
        (18.513, 1, 2),
        (5.858, 15, 4),
        (3.787, 7, 7),
        (1.444, 63, 100),
        (2.010, 7, 1e9),
    ],
)
def test_five_percent(f: float, d1: float, d2: float) -> None:
    """The approximation is right to 0.003 at points beyond which 5 % lie, by SciPy 1.17.1."""
    assert f_survival(f, d1, d2) == pytest.approx(0.05, abs=0.003)
    assert (
        f_survival(2 * f, d1, d2)
        < f_survival(f, d1, d2)
        < f_survival(f / 2, d1, d2)
    )


@pytest.mark.parametrize("number", [1, 5, 200])
def test_identical_passes_of_criteria(number: int) -> None:
    """Passes with the same values of many criteria are reliable: a mean of many is finer than one value."""
    dice = random.Random(number)
    rubric = Rubric([Criterion(f"It holds {i}.") for i in range(number)])
    batch = BatchStatistics()
    results = []
    for _ in range(20):
        rows = [
            tuple(float(dice.random() < 0.5) for _ in range(number))
            for _ in "abcdef"
        ]
        inputs = [rubric_score(rubric, row) for row in rows]
        passes = [one_pass(inputs, i, criteria=tuple(rows)) for i in range(2)]
        results.append(group_result(*passes, rubric=rubric))
        batch.add(PassTables(results[-1]))
    result = [combine(entry, CombineSettings(), batch) for entry in results]
    for entry in result:
        assert isinstance(entry, GroupScores)
        assert entry.one_score or (entry.reliability or 0.0) > 0.97
