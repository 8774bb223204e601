"""Agreement of people beyond chance, against published examples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.people import alpha, alpha_sums, kappa


def units(*people: str) -> list[list[float]]:
    """The values of each unit, from the rows of people; a dot is no value."""
    columns = zip(*(row.split() for row in people), strict=True)
    return [[float(value) for value in column if value != "."] for column in columns]


KRIPPENDORFF = units(
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
"""Krippendorff 2011, *Computing Krippendorff's Alpha-Reliability*, example C: four observers, missing data."""
THREE_CODERS = units(
    ". . . . . 3 4 1 2 1 1 3 3 . 3",
    "1 . 2 1 3 3 4 3 . . . . . . .",
    ". . 2 1 3 4 4 . 2 1 1 3 3 . 4",
)
"""The example of *Krippendorff's alpha* in Wikipedia."""


def test_published_alpha() -> None:
    """The interval alphas of two published examples are 0.849 and 0.811."""
    assert alpha(alpha_sums(KRIPPENDORFF)) == pytest.approx(0.849, abs=5e-4)
    assert alpha(alpha_sums(THREE_CODERS)) == pytest.approx(0.811, abs=5e-4)


def test_published_kappa() -> None:
    """The kappa of the example of Cohen 1968, table 1, is .492."""
    shares = [[0.44, 0.07, 0.09], [0.05, 0.20, 0.05], [0.01, 0.03, 0.06]]
    counts: dict[Any, float] = {
        (i, j): 200 * shares[i][j] for i in range(3) for j in range(3)
    }
    assert kappa(counts) == pytest.approx(0.492, abs=5e-4)


def test_undefined() -> None:
    """Without two values of one unit, or if all values are equal, nothing is beyond chance."""
    assert kappa({}) is kappa({(1, 1): 9}) is None
    assert alpha(alpha_sums([])) is alpha(alpha_sums([[1.0], [0.0]])) is None
    assert alpha(alpha_sums([[1.0, 1.0], [1.0, 1.0]])) is None


values = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=4)


@given(st.lists(values, min_size=1, max_size=9))
def test_alpha_by_pairs(found: list[list[float]]) -> None:
    """Alpha is one less the mean squared difference within units, over that of any two values."""
    every = [value for unit in found for value in unit]
    number = len(every)
    chance = sum((a - b) ** 2 for a in every for b in every) / (number * (number - 1))
    observed = sum(
        sum((a - b) ** 2 for a in unit for b in unit) / (len(unit) - 1)
        for unit in found
    )
    own = alpha(alpha_sums(found))
    assert own == (pytest.approx(1 - observed / number / chance) if chance else None)
