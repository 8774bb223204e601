"""The figures of a batch about its judges and their scores."""

from __future__ import annotations

import random
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.batch import BatchStatistics, ScoreSums
from ruler_cli.scoring.combine import combine
from ruler_cli.scoring.tables import PassTables, mean
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import BatchFigures, GroupResult, GroupScores
from tests.scoring.group_results import (
    failed_call,
    group_result,
    groups,
    one_pass,
    scores,
)


def run(
    *all_judged: GroupResult,
    names: tuple[str, ...] = ("a", "b", "c"),
    **how: Any,
) -> BatchFigures:
    """The figures of a batch that was judged, combined and written."""
    batch = BatchStatistics()
    sums = ScoreSums(names)
    settings = CombineSettings(**how)
    for group in all_judged:
        batch.add(PassTables(group))
    for group in all_judged:
        group_scores = combine(group, settings, batch)
        assert isinstance(group_scores, GroupScores), group_scores
        sums.add(group, group_scores)
    return sums.of(batch, debias=settings.debias)


def test_an_empty_batch() -> None:
    """An empty batch has no figures."""
    assert ScoreSums().of(BatchStatistics()) == BatchFigures()


@given(groups())
def test_figures_are_json(group: GroupResult) -> None:
    """The figures of any batch are finite numbers and can be written as JSON."""
    text = orjson.dumps(asdict(run(group, group, order_by_outcome=True)))
    assert b"NaN" not in text
    assert orjson.loads(text)["groups"] == 2


def test_ties_and_degraded_groups_are_counted() -> None:
    """The tie rate is the share of groups without signal; a group with a failed pass is degraded."""
    clear = group_result(*(one_pass([0.1, 0.5, 0.9], t) for t in range(3)))
    turned = group_result(
        one_pass([0.2, 0.4, 0.6]), one_pass([0.6, 0.4, 0.2], 1), failed_call(2)
    )
    figures = run(clear, clear, clear, turned)
    assert (figures.groups, figures.tie_rate, figures.degraded) == (4, 0.25, 1)
    assert figures.reliability == (1, 0, 0, 0, 0, 0, 0, 0, 0, 3)
    assert figures.reliability_median == pytest.approx(1, abs=0.03)


def test_every_pair_of_judges_is_counted() -> None:
    """Each pair of a panel has its names and its correlation."""
    rng = random.Random(10)
    every = []
    for _ in range(30):
        rewards = tuple(float(rng.random() < 0.5) for _ in range(4))
        replies = [
            one_pass([0.3 + 0.3 * r + rng.gauss(0, 0.1) for r in rewards], 0, j)
            for j in range(3)
        ]
        every.append(group_result(*replies, judges=3, rewards=rewards))
    figures = run(*every).judges
    assert [pair.judges for pair in figures] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]
    for pair in figures:
        assert pair.correlation is not None
        assert pair.correlation > 0.5
        assert pair.rollouts == 120


def test_contradictions_of_outcomes_are_counted() -> None:
    """Passed with a low score and failed with a high one are counted."""
    row = group_result(
        one_pass([0.1, 0.9, 0.3, 0.5, 0.5]),
        outcomes=(True, False, False, True, False),
    )
    two = group_result(
        one_pass([0.05, 0.6, 0.4]),
        owner=(0, None, 1, 2),
        reasons=("", "no messages", "", ""),
        outcomes=(True, True, False, None),
    )
    figures = run(row, two, order_by_outcome=True)
    assert (figures.flawed, figures.near_misses, figures.without_outcome) == (
        2,
        3,
        1,
    )


@given(st.lists(scores, min_size=1, max_size=12))
def test_the_mean_is_exact(values: list[float]) -> None:
    """The mean is the true one to twelve decimals, and within the range of the values."""
    true = sum(map(Fraction, values), Fraction()) / len(values)
    assert abs(Fraction(mean(values)) - true) <= Fraction(1, 10**12)
    assert min(values) <= mean(values) <= max(values)


def test_equal_means_are_equal() -> None:
    """Decimals with equal sums have equal means: no binary rounding decides which rollout is the best."""
    assert mean([0.3, 0.45]) == mean([0.35, 0.4]) == 0.375
    assert mean([0.1, 0.2, 0.3]) == mean([0.3, 0.2, 0.1]) == 0.2
