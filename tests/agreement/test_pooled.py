"""AUC over all rollouts."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.agreement.pooled import Pooled
from tests.agreement.values import grades

passes = st.lists(
    st.lists(st.tuples(grades, st.sampled_from([0.0, 1.0])), min_size=1, max_size=5), max_size=5
)


def pooled(groups: list[list[tuple[float, float]]]) -> Pooled:
    """All groups, each in a unit of its own."""
    found = Pooled()
    for unit, group in enumerate(groups):
        found.add(unit, [score for score, _ in group], [label for _, label in group])
    return found


def naive(groups: list[list[tuple[float, float]]]) -> float | None:
    """Look at each pair of all rollouts."""
    rollouts = [rollout for group in groups for rollout in group]
    good, bad = ([score for score, label in rollouts if label == name] for name in (1.0, 0.0))
    won = [1.0 if a > b else 0.5 if a == b else 0.0 for a in good for b in bad]
    return sum(won) / len(won) if won else None


def test_by_hand() -> None:
    """Of four pairs two are won and one is tied."""
    found = pooled([[(0.9, 1.0), (0.5, 0.0)], [(0.5, 1.0), (0.7, 0.0)]])
    assert found.auc() == 0.625
    assert found.two == (0.0, 1.0)


@given(passes)
def test_as_if_each_pair_was_looked_at(groups: list[list[tuple[float, float]]]) -> None:
    """The AUC is that of looking at each pair; its linear terms come to nothing over all."""
    found, expected = pooled(groups), naive(groups)
    value = found.auc()
    assert (value is None) == (expected is None)
    if value is not None and expected is not None:
        assert math.isclose(value, expected)
        terms = list(found.terms())
        assert len(terms) == sum(map(len, groups))
        assert math.isclose(sum(term for _, term in terms), 0, abs_tol=1e-9)


def test_linear_terms_tell_the_change() -> None:
    """A unit counted a little more moves the AUC by its terms, as far as a line goes."""
    groups = [[(0.9, 1.0), (0.3, 0.0)], [(0.2, 1.0), (0.4, 0.0)], [(0.5, 1.0), (0.5, 0.0)]] * 40
    more = [*groups, groups[1]]
    change = sum(term for unit, term in pooled(groups).terms() if unit == 1)
    before, after = naive(groups), naive(more)
    assert before is not None
    assert after is not None
    assert math.isclose(after - before, change, rel_tol=0.05)


def test_other_than_two_labels() -> None:
    """One label has no AUC, nor have three; the better of two need not be 1."""
    assert pooled([[(0.9, 1.0), (0.5, 1.0)]]).two is None
    assert pooled([[(0.9, 1.0), (0.5, 1.0)]]).auc() is None
    graded = pooled([[(0.9, 1.0), (0.5, 0.5)], [(0.5, 0.0), (0.7, 1.0)]])
    assert (graded.two, graded.auc(), list(graded.terms())) == (None, None, [])
    assert pooled([[(0.9, 7.0), (0.5, -2.0)]]).auc() == 1.0
