"""What each judge gave each body."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.ballots import Outcome
from ruler_cli.scoring.batch import anova, mean, tables
from tests.scoring.saying import ballot, groups, judged, scores


@given(st.lists(scores, min_size=1, max_size=12))
def test_the_mean_is_exact(values: list[float]) -> None:
    """The mean is the true one to twelve decimals, and within what it is of."""
    true = sum(map(Fraction, values), Fraction()) / len(values)
    assert abs(Fraction(mean(values)) - true) <= Fraction(1, 10**12)
    assert min(values) <= mean(values) <= max(values)


def test_equal_means_are_equal() -> None:
    """Decimals that add up to the same have the same mean: no chance of binary decides who is the best."""
    assert mean([0.3, 0.45]) == mean([0.35, 0.4]) == 0.375
    assert mean([0.1, 0.2, 0.3]) == mean([0.3, 0.2, 0.1]) == 0.2


@given(scores, st.integers(1, 40))
def test_the_mean_of_equals_is_the_value(value: float, times: int) -> None:
    """However often a score is given, the mean is that score, bit for bit."""
    assert mean([value] * times).hex() == value.hex()


def test_cells_are_by_body_not_by_slot() -> None:
    """A score goes to the body that was shown, wherever that was."""
    (table,) = tables(judged(ballot([0.1, 0.9]), ballot([0.8, 0.2], 1, bodies=(1, 0))))
    assert table.cells == ((0.1, 0.2), (0.9, 0.8))
    assert table.scores == pytest.approx((0.15, 0.85))
    assert table.passes == 2


@given(groups(), st.randoms())
def test_order_of_ballots_is_nothing(group: Outcome, rng: random.Random) -> None:
    """In whatever order answers came, the tables are the same."""
    assert tables(group) == tables(shuffled(group, rng))


def shuffled(group: Outcome, rng: random.Random) -> Outcome:
    """The same with its answers in another order."""
    ballots = rng.sample(group.ballots, len(group.ballots))
    return replace(group, ballots=tuple(ballots))


def test_windows_lose_their_levels() -> None:
    """Two windows of which one is stricter are put on one scale; the cells say the same."""
    true = [0.3, 0.4, 0.5, 0.6]
    said = [
        ballot([true[0], true[1]], 0, window=0, bodies=(0, 1)),
        ballot([true[2] - 0.2, true[3] - 0.2], 0, window=1, bodies=(2, 3)),
        ballot([true[0], true[2]], 1, window=0, bodies=(0, 2)),
        ballot([true[1] + 0.1, true[3] + 0.1], 1, window=1, bodies=(1, 3)),
    ]
    (table,) = tables(judged(*said, size=4, windows=2))
    found = [score for score in table.scores if score is not None]
    assert found == sorted(found)
    assert table.passes == 2
    assert [sum(cells) / 2 for cells in table.cells] == pytest.approx(found)


def test_a_body_without_a_window_has_no_score() -> None:
    """What no window showed has no score, and the judge no whole pass."""
    (table,) = tables(judged(ballot([0.1, 0.2], bodies=(0, 1)), size=3, windows=2))
    assert table.scores[2] is None
    assert table.passes == 0


def test_anova_is_over_all_columns() -> None:
    """Every pass of every judge is a column; one column, or one body, has no analysis."""
    one = judged(ballot([0.1, 0.9]))
    assert anova(one, tables(one)) is None
    alone = judged(ballot([0.1]), ballot([0.2], 1))
    assert anova(alone, tables(alone)) is None
    panel = judged(ballot([0.1, 0.9]), ballot([0.2, 0.8], 0, 1), ballot([0.2, 0.8], 1, 1), judges=2)
    found = anova(panel, tables(panel))
    assert found is not None
    assert (found.n, found.k, found.df_res) == (2, 3, 2)


def test_anova_of_windows_takes_out_their_levels() -> None:
    """Where rollouts differ by exactly the same in every window, nothing is left over."""
    said = [
        ballot([0.3, 0.4], 0, window=0, bodies=(0, 1)),
        ballot([0.3, 0.4], 0, window=1, bodies=(2, 3)),
        ballot([0.1, 0.3], 1, window=0, bodies=(0, 2)),
        ballot([0.5, 0.7], 1, window=1, bodies=(1, 3)),
    ]
    group = judged(*said, size=4, windows=2)
    found = anova(group, tables(group))
    assert found is not None
    assert found.ms_res == pytest.approx(0, abs=1e-15)
    assert found.ms_item > 0.001
