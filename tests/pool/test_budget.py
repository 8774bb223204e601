"""Money is counted once, and reserved money counts."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.pool.limits import Budget

prices = st.floats(0.0, 2.0)


def test_spent_and_reserved() -> None:
    """Spent and reserved money counts towards the cap, up to the cap itself."""
    budget = Budget(1.0)
    budget.reserve(0.5)
    assert budget.fits(0.5)
    assert not budget.fits(0.51)
    budget.settle(0.5, 0.25)
    assert (budget.spent, budget.reserved) == (0.25, 0.0)
    assert budget.fits(0.75)
    assert not budget.fits(0.76)


def test_unsure() -> None:
    """A call without usage counts towards the cap with its estimate, and is not reported as spent."""
    budget = Budget(1.0)
    budget.reserve(0.6)
    budget.settle(0.6, None)
    assert (budget.spent, budget.unsure, budget.reserved) == (0.0, 0.6, 0.0)
    assert not budget.fits(0.5)


def test_promised() -> None:
    """A call pays with no promise to an earlier one: a correction has to fit the cap by itself."""
    budget = Budget(1.0)
    group = asyncio.run(budget.begin([lambda: 0.3, lambda: 0.3]))
    for left in (0.3, 0.0, 0.0):
        budget.reserve(0.1, group)
        assert (group.left, budget.promised) == pytest.approx((left, left))
    assert budget.reserved == pytest.approx(0.3)


def test_without_cap() -> None:
    """Without a cap everything fits and is counted all the same."""
    budget = Budget()
    budget.reserve(1e9)
    assert budget.fits(1e9)
    budget.settle(1e9, 2.0)
    assert budget.spent == 2.0


@given(
    st.lists(st.tuples(prices, st.one_of(st.none(), prices)), max_size=30),
    st.floats(0.0, 5.0),
)
def test_never_past_the_cap(
    calls: list[tuple[float, float | None]], cap: float
) -> None:
    """Spending passes the cap by no more than the estimates were too low, in any order of calls."""
    budget, wrong, flying = Budget(cap), 0.0, list[tuple[float, float | None]]()
    for estimate, actual in calls:
        if budget.fits(estimate):
            budget.reserve(estimate)
            flying.append((estimate, actual))
        if len(flying) > 3:
            budget.settle(*flying.pop(0))
    for estimate, actual in flying:
        budget.settle(estimate, actual)
    wrong = sum(max(0.0, (actual or 0.0) - estimate) for estimate, actual in calls)
    assert budget.spent + budget.unsure <= cap + wrong + 1e-9
    assert budget.reserved == pytest.approx(0.0, abs=1e-9)
