"""Intervals of few labels, and means that scores correct."""

from __future__ import annotations

import math
import random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.inference import (
    FEWEST,
    CorrectedMean,
    Measured,
    score_interval,
    t_quantile,
)

Row = tuple[float, float]
"""A score and a label."""


def known(estimate: Measured | None) -> tuple[float, float, float]:
    """The value and the ends of an interval that there must be."""
    assert estimate is not None
    assert estimate["low"] is not None
    return estimate["value"], estimate["low"], estimate["high"]


def corrected(
    groups: list[list[Row]], labelled: dict[int, list[tuple[int, float]]]
) -> dict[str, Any]:
    """The means with labels of some rollouts, each with its weight, by group."""
    mean = CorrectedMean()
    for number, group in enumerate(groups):
        rows = [(*group[i], weight) for i, weight in labelled.get(number, [])]
        mean.add(len(group), sum(score for score, _ in group), rows)
    return mean.estimate()


def drawn(judge: float, seed: int, groups: int = 60, size: int = 4) -> list[list[Row]]:
    """Groups with labels 0 and 1 of one mean; the judge gives the label, or a random one."""
    dice = random.Random(seed)
    made = []
    for _ in range(groups):
        labels = [float(dice.random() < 0.7) for _ in range(size)]
        made.append(
            [
                (label if dice.random() < judge else float(dice.random() < 0.4), label)
                for label in labels
            ]
        )
    return made


def one_each(
    groups: list[list[Row]], number: int
) -> dict[int, list[tuple[int, float]]]:
    """Label the first rollout of the first groups."""
    return {i: [(0, 1.0)] for i in range(min(number, len(groups)))}


def test_t_quantiles() -> None:
    """The quantiles are those of the tables of Student's distribution."""
    table = {
        1: 12.706,
        2: 4.303,
        4: 2.776,
        10: 2.228,
        19: 2.093,
        60: 2.000,
        math.inf: 1.960,
    }
    for df, t in table.items():
        assert t_quantile(df) == pytest.approx(t, abs=5e-4)


@pytest.mark.parametrize(
    ("right", "number", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_published_intervals(right: int, number: int, low: float, high: float) -> None:
    """Independent labels have Wilson's interval: the examples of Newcombe 1998, table I, method 3."""
    share = right / number
    variance = share * (1 - share) / number
    ends = score_interval(share, variance, number, math.inf)
    assert ends == pytest.approx((low, high), abs=5e-5)


@given(
    st.floats(0, 1), st.floats(0, 1), st.integers(FEWEST, 10**6), st.integers(1, 10**6)
)
def test_interval_holds_its_share(
    share: float, variance: float, alike: int, df: int
) -> None:
    """An interval lies between 0 and 1 and holds its share, whatever its variance."""
    low, high = score_interval(share, variance, alike, df)
    assert 0 <= low <= share + 1e-9
    assert share - 1e-9 <= high <= 1


def test_all_labelled() -> None:
    """If all has labels, the corrected mean is that of the labels, with their interval but for a degree of freedom."""
    groups = drawn(0.9, 1)
    every = {i: [(j, 1.0) for j in range(4)] for i in range(len(groups))}
    found = corrected(groups, every)
    mean, low, high = known(found["corrected"])
    assert mean == pytest.approx(fmean(label for group in groups for _, label in group))
    assert (low, high) == pytest.approx(known(found["labels"])[1:], abs=0.002)
    assert found["weight"] == 0


def test_useless_scores() -> None:
    """Scores that are all alike, or against the labels, leave the labels alone."""
    groups = drawn(0.9, 2)
    flat = [[(0.5, label) for _, label in group] for group in groups]
    against = [[(1 - label, label) for _, label in group] for group in groups]
    for scores in (flat, against):
        found = corrected(scores, one_each(scores, 30))
        assert found["weight"] == 0
        assert known(found["corrected"])[0] == known(found["labels"])[0]


def test_good_scores() -> None:
    """Scores that are the labels give the mean of all scores, from a few labels, within a narrower interval."""
    groups = drawn(1.0, 3, groups=200)
    found = corrected(groups, one_each(groups, 30))
    mean, low, high = known(found["corrected"])
    assert mean == pytest.approx(known(found["scores"])[0], abs=0.02)
    alone = known(found["labels"])
    assert high - low < 0.7 * (alone[2] - alone[1])
    # 30 labels without an error do not prove that there is none
    assert high - low > 0.1


def test_biased_scores() -> None:
    """Scores that are all too low are corrected, by labels that were drawn at random."""
    groups = [
        [(0.6 * score, label) for score, label in group]
        for group in drawn(0.9, 4, groups=400)
    ]
    found = corrected(groups, one_each(groups, 100))
    assert known(found["scores"])[0] < 0.45
    _, low, high = known(found["corrected"])
    assert low < 0.7 < high
    assert high - low < 0.2


def test_weights() -> None:
    """Labels count by the inverse of their chance: those drawn oftener count less."""
    groups = [[(0.5, 1.0)]] * 40 + [[(0.5, 0.0)]] * 40
    likely = {i: [(0, 1.0)] for i in range(40)}
    rare = {i: [(0, 4.0)] for i in range(40, 50)}
    found = corrected(groups, likely | rare)
    assert known(found["labels"])[0] == pytest.approx(0.5)


def test_other_labels() -> None:
    """Labels on a scale of their own keep it, and so does the interval."""
    groups = [[(score, 5 * label - 2) for score, label in g] for g in drawn(0.9, 5)]
    found = corrected(groups, one_each(groups, 40))
    mean, low, high = known(found["corrected"])
    assert -2 <= low < mean < high <= 3
    assert low < 5 * 0.7 - 2 < high


def test_few_groups() -> None:
    """Labels of fewer than five groups have a mean and no interval; without labels only scores are known."""
    groups = drawn(0.9, 6)
    found = corrected(groups, one_each(groups, FEWEST - 1))
    assert (found["labels"]["low"], found["labels"]["groups"]) == (None, 4)
    assert corrected(groups, {})["labels"] is None
    assert CorrectedMean().estimate()["scores"] is None


rows = st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))


@given(st.lists(st.lists(rows, min_size=1, max_size=4), min_size=5, max_size=12))
def test_any_values(groups: list[list[Row]]) -> None:
    """Means and ends are finite and in order for any scores and labels."""
    found = corrected(groups, one_each(groups, 9))
    for name in ("scores", "labels", "corrected"):
        value, low, high = known(found[name])
        assert 0 <= low <= high <= 1
        assert math.isfinite(value)
