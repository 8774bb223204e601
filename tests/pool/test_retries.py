"""A wait is never shorter than Retry-After, and every budget of a call ends."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.pool.retries import RetryBudget, delay
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
