"""Which rollouts are kept: held against every choice that there is."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.selection.best import commonest, highest, widest

grades = st.integers(0, 4).map(lambda n: n / 4) | st.floats(0, 1)
groups = st.lists(grades, min_size=1, max_size=9)
sizes = st.integers(1, 9)


def variance(scores: Sequence[float]) -> float:
    """As its definition says."""
    mean = math.fsum(scores) / len(scores)
    return math.fsum((score - mean) ** 2 for score in scores) / len(scores)


@given(groups, sizes)
def test_greatest_variance(scores: list[float], most: int) -> None:
    """No other choice of as many rollouts has a greater variance."""
    kept = widest(scores, most)
    assert len(kept) == len(set(kept)) == min(most, len(scores))
    every = itertools.combinations(scores, len(kept))
    assert variance([scores[i] for i in kept]) >= max(map(variance, every)) - 1e-9


@given(st.lists(st.sampled_from([-1e50, -1.0, 0.0, 1.0, 3.0, 1e6, 1e50]), min_size=2, max_size=8), sizes)
def test_greatest_variance_of_any_size(scores: list[float], most: int) -> None:
    """The same for scores of very unlike sizes."""
    kept = widest(scores, most)
    best = max(variance(choice) for choice in itertools.combinations(scores, len(kept)))
    assert variance([scores[i] for i in kept]) >= best * (1 - 1e-9)


@given(groups, sizes)
def test_some_highest_and_the_rest_lowest(scores: list[float], most: int) -> None:
    """What is kept is a run of the lowest scores and a run of the highest: nothing left out lies beyond."""
    kept = widest(scores, most)
    left = sorted(score for i, score in enumerate(scores) if i not in kept)
    if left:
        assert all(scores[i] <= left[0] or scores[i] >= left[-1] for i in kept)


def test_first_of_equal_scores() -> None:
    """Of equal scores the first in the input is kept."""
    assert widest([0.5, 0.0, 1.0, 0.0, 1.0], 2) == [1, 2]
    assert widest([0.5] * 4, 2) == [0, 1]
    assert widest([0.0, 0.5, 1.0, 0.5, 0.5], 3) == [0, 1, 2]
    assert sorted(highest([0.5, 1.0, 0.5, 1.0], 3)) == [0, 1, 3]


def test_more_high_than_low() -> None:
    """Of two choices with one variance that with more high scores is kept."""
    assert widest([0.0, 0.1, 0.5, 0.9, 1.0], 3) == [0, 3, 4]


def test_large_groups() -> None:
    """A group of a hundred thousand takes no square of that."""
    dice = random.Random(1)
    scores = [dice.random() for _ in range(100_000)]
    kept = widest(scores, 50_000)
    assert len(kept) == 50_000
    assert variance([scores[i] for i in kept[:2000]]) == pytest.approx(0.375**2 + 1 / 192, abs=0.01)


@given(groups, sizes)
def test_best_of_n(scores: list[float], most: int) -> None:
    """No rollout that is left out has a higher score than one that is kept."""
    kept = highest(scores, most)
    left = [score for i, score in enumerate(scores) if i not in kept]
    assert len(kept) == min(most, len(scores))
    assert not left or max(left) <= min(scores[i] for i in kept)


@pytest.mark.parametrize(
    ("answers", "scores", "most", "kept"),
    [
        ("aabbb", (0.9, 0.9, 0.1, 0.3, 0.2), 2, [3, 4]),
        ("aabb", (0.1, 0.3, 0.1, 0.4), 1, [3]),
        ("bbaa", (0.1, 0.3, 0.3, 0.1), 9, [1, 0]),
        ("ab", (0.0, 0.0), 1, [0]),
        ("a..b", (0.1, 1.0, 1.0, 0.2), 2, [3]),
        ("...", (0.1, 1.0, 1.0), 2, []),
        ("", (), 2, []),
    ],
)
def test_majority(answers: str, scores: tuple[float, ...], most: int, kept: list[int]) -> None:
    """The best of those with the commonest answer; then the higher mean score, then the first, decides."""
    assert commonest([None if a == "." else a for a in answers], scores, most) == kept


@given(st.lists(st.tuples(st.sampled_from("abc"), grades), min_size=1, max_size=9), sizes)
def test_majority_is_the_commonest(rows: list[tuple[str, float]], most: int) -> None:
    """Every rollout that is kept gave one answer, and no answer was given more often."""
    answers = [answer for answer, _ in rows]
    kept = commonest(answers, [score for _, score in rows], most)
    (won,) = {answers[i] for i in kept}
    assert all(answers.count(won) >= answers.count(other) for other in answers)
    assert len(kept) == min(most, answers.count(won))
