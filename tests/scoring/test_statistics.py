"""Correlation within groups, concordance, running sums and quantiles against their formulas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.runs.estimate import leading_bits
from ruler_cli.scoring.statistics import (
    quantile,
)


@given(
    st.lists(st.integers(0, 10**9), min_size=1),
    st.sampled_from([0.5, 0.9, 0.99, 1.0]),
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
