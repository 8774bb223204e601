"""A limit per minute is never passed, starves no call, and is used."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.limits import AdaptiveConcurrency, Window
from ruler_cli.pool.retries import Caller
from ruler_cli.types import Request, Usage
from tests.values import few
from tests.virtual import World, flood, virtually

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
@example([(10 * LIMIT, 0.0), (1.0, 1.0), (1.0, 0.0), (10 * LIMIT, 0.0), (1.0, 0.0)])
def test_no_minute_above_the_limit(steps: list[tuple[float, float]]) -> None:
    """No 60 seconds hold more than the limit, except for one larger request, and none waits for ever."""
    for minute in minutes(drive(Window(LIMIT), steps)):
        assert (
            sum(minute) <= LIMIT * (1 + 1e-9) or len(minute) == 1 or not any(minute[1:])
        )


@given(
    st.lists(st.tuples(amounts, pauses), min_size=1, max_size=30), st.floats(0.0, 1.0)
)
def test_same_wait(steps: list[tuple[float, float]], share: float) -> None:
    """A call that asks again halfway gets the rest of the same wait, so no waiting call is overtaken."""
    window = Window(LIMIT)
    now = drive(window, steps)[-1][0]
    wait = window.wait(now, 10.0)
    later = now + share * wait
    assert window.wait(later, 10.0) == pytest.approx(now + wait - later, abs=1e-6)


def test_larger_than_the_limit() -> None:
    """A request above the limit goes alone once the window is empty, and later ones do not wait for it."""
    sent = drive(Window(LIMIT), [(1.0, 0.0), (10 * LIMIT, 0.0), (1.0, 0.0), (1.0, 0.0)])
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(sent)]
    assert all(60.0 <= gap <= 61.0 for gap in gaps[:2])
    assert gaps[2] < 1.0


def test_less_than_one() -> None:
    """Half a request per minute is one in two minutes, and not one in each."""
    sent = drive_slowly(Window(0.5), 10)
    assert all(120.0 <= later - earlier <= 122.0 for earlier, later in pairwise(sent))


def drive_slowly(window: Window, calls: int) -> list[float]:
    """Return the times of `calls` requests that look again every ten seconds."""
    now, sent = 0.0, list[float]()
    while len(sent) < calls:
        wait = window.wait(now, 1.0)
        if wait:
            now += min(wait, 10.0)
        else:
            window.take(now, 1.0)
            sent.append(now)
    return sent


@pytest.mark.parametrize("rate", [1.0, 60.0, 6000.0])
def test_start(rate: float) -> None:
    """At the start about a second's worth goes at once, and in the first minute no more than in any."""
    window, burst = Window(rate), 0
    while not window.wait(0.0, 1.0):
        window.take(0.0, 1.0)
        burst += 1
    assert burst <= rate / 60 + 1
    assert (
        sum(at < 1060.0 for at, _ in drive(Window(rate), [(1.0, 0.0)] * int(2 * rate)))
        <= rate
    )


def test_even() -> None:
    """Every second of a minute gets its share: there is no burst at its start."""
    sent = drive(Window(LIMIT), [(1.0, 0.0)] * int(3 * LIMIT))
    spans = [sum(at <= t < at + 3.0 for t, _ in sent) for at in range(1000, 1150, 3)]
    assert max(spans) <= 4 * LIMIT / 60 + 2
    assert min(spans) >= 2 * LIMIT / 60 - 2


@given(st.floats(0.0001, 0.2))
@example(0.0501)
@example(0.05)
def test_memory(pause: float) -> None:
    """Memory does not grow with the rate."""
    window = Window()
    for number in range(int(70.0 / pause) if pause > 0.01 else 7000):
        window.take(number * pause, 1.0)
    assert len(window._log) <= 1300


def test_memory_at_any_rate() -> None:
    """Memory does not grow even at a thousand requests per second."""
    window = Window(60_000.0)
    drive(window, [(1.0, 0.0)] * 70_000)
    assert 600 <= len(window._log) <= 1300


def test_settle() -> None:
    """A call that took less lets others go at once, one that took more holds them back."""
    window = Window(LIMIT)
    entry = window.take(0.0, LIMIT)
    assert window.wait(1.0, 10.0) > 58.0
    window.settle(1.0, entry, -LIMIT + 10.0)
    assert window.used(1.0) == pytest.approx(10.0)
    assert window.wait(1.0, 10.0) == 0.0
    window.settle(1.0, entry, LIMIT)
    assert window.used(1.0) == pytest.approx(LIMIT + 10.0)
    assert 58.0 < window.wait(1.0, 10.0) <= 61.0


def test_settle_late() -> None:
    """A call that ends after its minute does not change the sum."""
    window = Window(LIMIT)
    entry = window.take(0.0, 100.0)
    window.take(50.0, 10.0)
    window.settle(70.0, entry, -100.0)
    assert window.used(70.0) == 10.0
    assert window.used(200.0) == 0.0


def test_without_limit() -> None:
    """Without a limit nothing waits, and everything is counted."""
    window = Window()
    assert [at for at, _ in drive(window, [(1e9, 0.0)] * 10)] == [1000.0] * 10
    assert window.used(1000.0) == 1e10
    assert window.used(1061.0) == 0.0


def run(world: World, asked: Request, minutes: float, **limits: float) -> None:
    """Send requests to that world for `minutes`, within limits."""

    async def main() -> None:
        windows = {name: Window(limit) for name, limit in limits.items()}
        gate = Gate(
            AdaptiveConcurrency(4096),
            StopSignal(),
            requests=windows.get("rpm"),
            tokens=windows.get("tpm"),
        )
        await flood(Caller(world, gate, retries=2, timeout=60.0), 60 * minutes, asked)

    virtually(main)
    world.sent = [
        (at, n) for at, n in world.sent if at < 60 * minutes
    ]  # without those that were in the queue


@pytest.mark.parametrize("rpm", [10.0, 60.0, 300.0])
def test_rpm_is_used(rpm: float) -> None:
    """A long run takes 98 % of its requests per minute and has no minute above them."""
    world = World(latency=2.0, spread=0.5)
    run(world, Request("s", "u", ("a",)), 15, rpm=rpm)
    assert len(world.sent) / (15 * rpm) >= 0.98
    assert world.fullest_minute() <= rpm


@pytest.mark.parametrize("factor", [1 / 3, 1.0, 3.0])
@pytest.mark.parametrize(("tpm", "minutes"), few(1, [(60_000.0, 30), (200_000.0, 15)]))
def test_tpm_is_used(tpm: float, minutes: int, factor: float) -> None:
    """A run uses 98 % of the tokens per minute, for any error of the first estimate.

    The fullest minute passes the limit by no more than the calls in flight take, which is not known yet.
    """
    usage = Usage(1000, 200, 0, 1)
    world = World(latency=2.0, spread=0.5, usage=usage)
    first = (
        1200 * factor - 320
    )  # characters such that the estimate before any reply is wrong by that
    run(world, Request("", "u" * int(3.8 * first), ("a",)), minutes, tpm=tpm)
    assert sum(n for _, n in world.sent) / (minutes * tpm) >= 0.98
    assert world.fullest_minute(tokens=True) <= tpm + most_in_flight(world)


def most_in_flight(world: World) -> float:
    """The most tokens that calls in flight together take."""
    tokens = dict(world.sent)
    changes = [(at, tokens.get(at, 0)) for at, _ in world.busy]
    changes += [(end, -tokens.get(at, 0)) for at, end in world.busy]
    return max(accumulate(n for _, n in sorted(changes)))
