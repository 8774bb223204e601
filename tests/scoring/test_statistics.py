"""Correlation within groups, concordance, running sums and quantiles against their formulas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.statistics import (
    quantile,
)


@given(
    st.lists(st.integers(0, 10**9), min_size=1),
    st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_quantile(lengths: list[int], share: float) -> None:
    """The share of lengths at or below the quantile is the one asked for."""
    exact = quantile(lengths, share)
    assert exact is not None
    assert sum(n <= exact for n in lengths) >= share * len(lengths)
    assert exact in lengths
