"""The least change that puts what passed above what failed."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.outcome import ordered, passed

score = st.floats(0, 1) | st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0])
outcome = st.sampled_from([None, 0.0, 1.0, -1.0, 0.5])
rollouts = st.lists(st.tuples(st.none() | score, outcome), min_size=1, max_size=12)


def split(
    pairs: list[tuple[float | None, float | None]],
) -> tuple[list[float | None], list[float | None]]:
    """Scores and outcomes apart."""
    return [s for s, _ in pairs], [o for _, o in pairs]


def cost(before: list[float | None], after: tuple[float | None, ...]) -> float:
    """The sum of squared changes."""
    return sum((a - b) ** 2 for a, b in zip(before, after, strict=True) if a is not None and b is not None)


def test_passed() -> None:
    """A half and more is a pass, nothing is neither."""
    assert [passed(x) for x in (None, -1.0, 0.0, 0.49, 0.5, 1.0)] == [None, False, False, False, True, True]


def test_a_known_case() -> None:
    """Two that contradict meet in their mean, and the rest stays."""
    assert ordered([0.2, 0.6, 0.9, 0.1], [1, 0, 1, 0]) == pytest.approx((0.4, 0.4, 0.9, 0.1))


@given(rollouts)
def test_no_failed_outranks_a_passed(pairs: list[tuple[float | None, float | None]]) -> None:
    """Whatever the scores, what failed is never above what passed, and all stay within the range."""
    scores, outcomes = split(pairs)
    after = ordered(scores, outcomes)
    good = [s for s, o in zip(after, outcomes, strict=True) if s is not None and passed(o) is True]
    bad = [s for s, o in zip(after, outcomes, strict=True) if s is not None and passed(o) is False]
    assert not good or not bad or max(bad) <= min(good)
    assert all(s is None or 0 <= s <= 1 for s in after)


@given(rollouts)
def test_what_has_no_outcome_or_no_conflict_stays(pairs: list[tuple[float | None, float | None]]) -> None:
    """A rollout without outcome or score is left as it is, and so are all once the order holds."""
    scores, outcomes = split(pairs)
    after = ordered(scores, outcomes)
    for was, now, said in zip(scores, after, outcomes, strict=True):
        if was is None or said is None:
            assert now == was
    assert ordered(after, outcomes) == after


@given(rollouts)
def test_order_within_what_passed_and_what_failed_stays(
    pairs: list[tuple[float | None, float | None]],
) -> None:
    """Two that both passed or both failed never change places."""
    scores, outcomes = split(pairs)
    after = ordered(scores, outcomes)
    for i, j in combinations(range(len(scores)), 2):
        one, two = scores[i], scores[j]
        if one is not None and two is not None and passed(outcomes[i]) is passed(outcomes[j]) and one <= two:
            first, second = after[i], after[j]
            assert first is not None and second is not None
            assert passed(outcomes[i]) is None or first <= second


@given(rollouts, st.lists(st.floats(0, 1), min_size=12, max_size=12), st.floats(0, 1))
def test_no_other_order_is_nearer(
    pairs: list[tuple[float | None, float | None]], others: list[float], line: float
) -> None:
    """Any other scores that keep the order are at least as far away."""
    scores, outcomes = split(pairs)
    best = cost(scores, ordered(scores, outcomes))
    free: list[float | None] = []
    for was, said, other in zip(scores, outcomes, others[: len(scores)], strict=True):
        good = passed(said)
        kept = (
            None if was is None else was if good is None else max(other, line) if good else min(other, line)
        )
        free.append(kept)
    assert best <= cost(scores, tuple(free)) + 1e-12
    at_line = [
        s if s is None or o is None else max(s, line) if passed(o) else min(s, line)
        for s, o in zip(scores, outcomes, strict=True)
    ]
    assert best <= cost(scores, tuple(at_line)) + 1e-12
