"""Rows of a ledger: which of two says more."""

from __future__ import annotations

import itertools
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.entries import Status, says_more

STATUSES: tuple[Status, ...] = get_args(Status)
REPLIES = ("answer", "truncated", "refusal")


def last(statuses: tuple[Status, ...]) -> Status | None:
    """What stands when these have come in this order."""
    held: Status | None = None
    for status in statuses:
        held = status if says_more(status, held) else held
    return held


@given(st.lists(st.sampled_from(STATUSES), max_size=5))
def test_order(came: list[Status]) -> None:
    """What stands in the end does not depend on the order, but for which of several replies was first."""
    ends = {last(order) for order in itertools.permutations(came)}
    if any(status in REPLIES for status in came):
        assert ends == set(came) & set(REPLIES)
    else:
        assert len(ends) == 1


def test_same_again() -> None:
    """Nothing says more than itself, and no reply more than another."""
    assert not [status for status in STATUSES if says_more(status, status)]
    assert not [pair for pair in itertools.permutations(REPLIES, 2) if says_more(*pair)]  # type: ignore[arg-type]
