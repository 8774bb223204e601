"""A wait is never shorter than Retry-After, and callers that wait alike come back apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.pool.retries import delay


@given(st.integers(0, 10_000), st.none() | st.floats(0.0, 3600.0))
def test_delay(retry: int, floor: float | None) -> None:
    """A delay is at least as long as the server asked, and by jitter up to half a minute longer."""
    least = floor or 0.0
    spread = delay(retry, floor, 0.99) - least
    assert delay(retry, floor, 0.0) == least
    assert 0.4 < spread < 30
    assert retry < 6 or spread > 25
