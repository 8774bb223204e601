"""Position bias: bins, errors, corrections."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from ruler_cli.scoring.statistics import PositionBias

scores = st.lists(st.integers(0, 20).map(lambda i: i / 20), min_size=1, max_size=40)
BIAS = (0.12, 0.05, 0.03, 0.01, -0.01, -0.03, -0.05, -0.12)


def batch(
    groups: int, bias: tuple[float, ...], seed: int = 3, passes: int = 2
) -> PositionBias:
    """Groups in random order and its reverse, by a judge that adds the bias of each position."""
    rng, estimate = random.Random(seed), PositionBias()
    size = len(bias)
    for _ in range(groups):
        truth = [rng.gauss(0.5, 0.12) for _ in range(size)]
        shown = []
        for pass_index in range(passes):
            order = (
                list(range(size)) if pass_index % 2 == 0 else list(range(size))[::-1]
            )
            shown.append(
                [
                    truth[i] + b + rng.gauss(0, 0.07)
                    for i, b in zip(order, bias, strict=True)
                ]
            )
        estimate.add(*shown)
    return estimate


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


def test_shrunk_is_better() -> None:
    """For a bias as small as its noise, shrunk corrections are nearer to it than the means."""
    bias = tuple(b / 4 for b in BIAS)
    raw = shrunk = 0.0
    for seed in range(40):
        estimate = batch(30, bias, seed)
        raw += sum(
            (b.mean - w) ** 2 for b, w in zip(estimate.bins(), bias, strict=True)
        )
        shrunk += sum(
            (c - w) ** 2 for c, w in zip(estimate.corrections(8), bias, strict=True)
        )
    assert shrunk < 0.8 * raw
