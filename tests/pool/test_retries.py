"""A wait is never shorter than Retry-After, and every budget of a call ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.pool.retries import RATE_TRIES, RetryBudget, delay
from ruler_cli.types import CallError

BROKEN = CallError("transport", "it is broken", "call")
BUSY = CallError("transport", "it is busy", "call", rate=True)
floors = st.one_of(st.none(), st.floats(0.0, 3600.0))
jitters = st.floats(0.0, 1.0, exclude_max=True)


@given(st.integers(0, 10_000), floors, jitters)
def test_delay(retry: int, floor: float | None, jitter: float) -> None:
    """A delay is at least as long as the server asked, and less than half a minute longer."""
    least = floor or 0.0
    assert least <= delay(retry, floor, jitter) < least + 30 + 1e-9


@given(floors)
def test_delays_spread(floor: float | None) -> None:
    """Callers with the same Retry-After return at different times, further apart with each try."""
    spreads = [
        delay(retry, floor, 0.99) - delay(retry, floor, 0.0)
        for retry in range(10)
    ]
    assert spreads == pytest.approx(sorted(spreads))
    assert spreads[0] > 0.4
    assert spreads[-1] > 25


@given(st.integers(0, 20), jitters)
def test_retries_are_counted(retries: int, jitter: float) -> None:
    """As many retries follow as were set, and then none."""
    tries = RetryBudget(retries, 1e9)
    waits = [tries.wait(BROKEN, 1.0, jitter) for _ in range(retries + 2)]
    assert [wait is None for wait in waits] == [False] * retries + [True, True]


def test_deadline() -> None:
    """The time of tries and own waits is bounded; a wait that the server asks for does not count."""
    tries = RetryBudget(1000, 100.0)
    assert tries.wait(BROKEN, 60.0, 0.0) is not None
    assert tries.wait(BROKEN, 60.0, 0.0) is None
    assert (
        RetryBudget(1000, 100.0).wait(
            replace(BROKEN, retry_after=101.0), 0.0, 0.0
        )
        == 101.0
    )


def test_limits_have_their_own_budget() -> None:
    """Waits at a limit use up no retry and no deadline, and have a bound of their own."""
    tries = RetryBudget(2, 100.0)
    assert all(
        tries.wait(BUSY, 0.1, 0.0) is not None for _ in range(RATE_TRIES)
    )
    assert tries.wait(BUSY, 0.1, 0.0) is None
    assert tries.wait(BROKEN, 1.0, 0.0) is not None
    assert tries.wait(BROKEN, 1.0, 0.0) is not None
    assert tries.wait(BROKEN, 1.0, 0.0) is None
