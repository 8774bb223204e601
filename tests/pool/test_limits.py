"""A limit per minute is never passed, starves no call, and is used."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ruler_cli.pool.limits import AdaptiveConcurrency, Window
from ruler_cli.pool.retries import Caller
from ruler_cli.types import Request, Usage
from tests.values import few
from tests.virtual import World, called, flood

Sent = list[tuple[float, float]]
"""Time and amount of each request."""
LIMIT = 600.0


def drive(window: Window, steps: list[tuple[float, float]]) -> Sent:
    """Send every (amount, pause before it), after the wait that the window returns."""
    now, sent = 1000.0, []
    for amount, pause in steps:
        now += pause
        for _ in range(5):  # the second time only for the last bit of a float
            wait = window.wait(now, amount)
            if not wait:
                break
            assert wait <= 61.0
            now += wait
        else:
            pytest.fail("it waits again and again")
        window.take(now, amount)
        sent.append((now, amount))
    return sent


def minutes(sent: Sent) -> list[list[float]]:
    """Return the amounts within 60 seconds, from each request on."""
    return [
        [n for at, n in sent[i:] if at < start + 60.0]
        for i, (start, _) in enumerate(sent)
    ]


amounts = st.one_of(
    st.just(1.0), st.floats(0.0, 2.0 * LIMIT), st.floats(0.0, LIMIT / 100)
)
pauses = st.one_of(st.just(0.0), st.floats(0.0, 0.2), st.floats(0.0, 90.0))


@given(st.lists(st.tuples(amounts, pauses), max_size=60))
@example(
    [(10 * LIMIT, 0.0), (1.0, 1.0), (1.0, 0.0), (10 * LIMIT, 0.0), (1.0, 0.0)]
)
def test_no_minute_above_the_limit(steps: list[tuple[float, float]]) -> None:
    """No 60 seconds hold more than the limit, except for one larger request, and none waits for ever."""
    for minute in minutes(drive(Window(LIMIT), steps)):
        assert (
            sum(minute) <= LIMIT * (1 + 1e-9)
            or len(minute) == 1
            or not any(minute[1:])
        )


def run(world: World, asked: Request, minutes: float, **windows: Any) -> None:
    """Send requests to that world for `minutes`, within limits."""

    async def work(caller: Caller) -> None:
        await flood(caller, 60 * minutes, asked)

    called(world, work, AdaptiveConcurrency(4096), **windows)
    # without those that were in the queue
    world.sent = [(at, n) for at, n in world.sent if at < 60 * minutes]


@pytest.mark.parametrize("factor", [1 / 3, 1.0, 3.0])
@pytest.mark.parametrize(
    ("tpm", "minutes"), few(1, [(60_000.0, 30), (200_000.0, 15)])
)
def test_tpm_is_used(tpm: float, minutes: int, factor: float) -> None:
    """A run uses 98 % of the tokens per minute, for any error of the first estimate.

    The fullest minute passes the limit by no more than the calls in flight take, which is not known yet.
    """
    usage = Usage(1000, 200, 0, 1)
    world = World(latency=2.0, spread=0.5, usage=usage)
    first = (
        1200 * factor - 320
    )  # characters such that the estimate before any reply is wrong by that
    run(
        world,
        Request("", "u" * int(3.8 * first), ("a",)),
        minutes,
        tokens=Window(tpm),
    )
    assert sum(n for _, n in world.sent) / (minutes * tpm) >= 0.98
    assert world.fullest_minute(tokens=True) <= tpm + most_in_flight(world)


def most_in_flight(world: World) -> float:
    """The most tokens that calls in flight together take."""
    tokens = dict(world.sent)
    changes = [(at, tokens.get(at, 0)) for at, _ in world.busy]
    changes += [(end, -tokens.get(at, 0)) for at, end in world.busy]
    return max(accumulate(n for _, n in sorted(changes)))
