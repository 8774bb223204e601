"""Position bias: bins, errors, corrections."""

from __future__ import annotations

from ruler_cli.scoring.statistics import PositionBias


def test_groups_of_eight() -> None:
    """In a group of 8 each position has its own bin, whose mean is that of the scores there."""
    estimate = PositionBias()
    estimate.add([0.8, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    bins = estimate.bins()
    assert [round(b.mean, 9) for b in bins] == [
        0.35,
        -0.35,
        -0.25,
        -0.15,
        -0.05,
        0.05,
        0.15,
        0.25,
    ]
    assert [b.scores for b in bins] == [1] * 8
    assert all(b.error is None for b in bins)
    assert [(b.start, b.stop) for b in bins[:2]] == [(0, 0), (0, 1 / 6)]
    assert [(b.start, b.stop) for b in bins[-2:]] == [(5 / 6, 1), (1, 1)]
