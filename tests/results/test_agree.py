"""Figures of agreement: one judge, a panel, and two files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.statistics import concordance
from tests.results.agree_values import measure, rows, scored


@given(st.lists(rows, max_size=6))
def test_pooled_pairs(groups: list[list[tuple[float, float]]]) -> None:
    """The accuracy is that of all pairs of all groups, with ties as halves."""
    result = measure([scored(*zip(*group, strict=True)) for group in groups])
    (scorer,) = result["scorers"]
    row = [concordance(group) for group in groups]
    pairs = sum(c.pairs for c in row)
    won = sum(c.won + c.tied / 2 for c in row)
    accuracy = pytest.approx(won / pairs) if pairs else None
    assert scorer["pairwise_accuracy"]["value"] == accuracy
    assert scorer["tied"] == sum(c.tied for c in row)
    assert result["mixed_groups"] == sum(c.pairs > 0 for c in row)


def test_sampled_pairs() -> None:
    """Of ten thousand rollouts a fixed sample of pairs is measured."""
    many = [
        scored(
            [i / 10_000 for i in range(10_000)], [i % 2 for i in range(10_000)]
        )
    ]
    result = measure(many)
    assert result == measure(many)
    assert 3_500 < result["scorers"][0]["pairs"] < 4_500  # of 5,000 · 5,000
