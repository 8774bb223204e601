"""The breaker opens on an outage, not on one bad call, and always ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.pool.cooldown import DISTINCT, OUTAGE, Breaker
from ruler_cli.types import CallError

BROKEN = CallError("transport", "it is broken", "call")
BUSY = CallError("transport", "it is busy", "call", rate=True)
GONE = CallError("transport", "it is gone", "call", sent=False)


def opened(error: CallError = BROKEN, now: float = 0.0, jitter: float = 0.0) -> Breaker:
    """A breaker that has just opened."""
    breaker = Breaker(now)
    for call in range(DISTINCT):
        breaker.failed(now, call, error, jitter)
    return breaker


@pytest.mark.parametrize("error", [BROKEN, BUSY])
def test_opens(error: CallError) -> None:
    """So many different calls that fail or meet a limit, without a reply between, open it."""
    breaker = Breaker(0.0)
    for call in range(DISTINCT):
        assert not breaker.open
        assert breaker.wait(0.0, probing=False) == 0.0
        breaker.failed(0.0, call, error, 0.0)
    assert breaker.open
    assert breaker.wait(0.0, probing=False) == 1.0


def test_one_bad_call() -> None:
    """One call that fails repeatedly is no outage of the judge."""
    breaker = Breaker(0.0)
    for _ in range(100):
        breaker.failed(0.0, 7, BROKEN, 0.0)
    assert not breaker.open


def test_few_calls() -> None:
    """Few calls that are refused for a limit again and again, with no reply between, open it too."""
    breaker = Breaker(0.0)
    opened = []
    for number in range(2 * DISTINCT):
        breaker.failed(0.0, number % 2, BUSY, 0.0)
        opened.append(breaker.open)
    breaker.replied()
    breaker.failed(0.0, 0, BUSY, 0.0)
    assert [*opened, breaker.open] == [False] * (2 * DISTINCT - 1) + [True, False]


def test_reply_between() -> None:
    """One reply resets the count."""
    breaker = Breaker(0.0)
    for call in range(10 * DISTINCT):
        breaker.failed(0.0, call, BROKEN, 0.0)
        if call % (DISTINCT - 1) == 0:
            breaker.replied()
    assert not breaker.open


def test_one_probe_at_a_time() -> None:
    """While it is open, one call may try at its time, and all others wait for that one."""
    breaker = opened()
    assert breaker.wait(0.4, probing=False) == pytest.approx(0.6)
    assert breaker.wait(1.0, probing=False) == 0.0
    assert breaker.wait(1.0, probing=True) is None


@pytest.mark.parametrize(("error", "longest"), [(BROKEN, 60.0), (BUSY, 15.0)])
def test_pauses(error: CallError, longest: float) -> None:
    """A pause is a fifth of the outage so far: a second at least, a minute or for limits 15 s at most."""
    breaker, now, pauses = opened(error), 0.0, list[float]()
    for probe in range(40):
        pause = breaker.wait(now, probing=False)
        assert pause is not None
        assert pause == pytest.approx(min(max(1.0, now / 5), longest))
        pauses.append(pause)
        now += pause
        breaker.failed(now, 100 + probe, error, 0.0, probe=True)
        if now > 800:
            break
    assert (pauses[0], pauses[-1]) == pytest.approx((1.0, longest))


def test_last_try() -> None:
    """The last try of an outage is made when patience ends, not later."""
    breaker, now = Breaker(0.0, 70.0), 0.0
    breaker.failed(0.0, 0, GONE, 0.9)
    while breaker.over(now) is None:
        now += breaker.wait(now, probing=False) or 0.0
        breaker.failed(now, 1, GONE, 0.9, probe=True)
    assert now == pytest.approx(70.0)


def test_not_up_yet() -> None:
    """A judge that is waited for at the beginning is down at its first error, and for no longer than that."""
    for error in (GONE, BROKEN):
        breaker = Breaker(0.0, 900.0, "openai/m", first_patience=60.0)
        breaker.failed(5.0, 0, error, 0.0)
        assert breaker.outage == f"the judge is not up yet: {error.reason} (openai/m)"
        assert breaker.left(5.0) == 60.0
        assert breaker.over(64.0) is None
        assert breaker.over(65.0) is not None
        breaker.replied()
        breaker.failed(100.0, 0, GONE, 0.0)
        assert breaker.outage.startswith("the judge is down")
        assert breaker.left(100.0) == 900.0
    breaker = Breaker(0.0, 900.0, first_patience=60.0)
    breaker.failed(5.0, 0, BUSY, 0.0)  # it is up
    assert not breaker.open


def test_refused() -> None:
    """After a refusal of all calls, one call at a time goes until one is answered."""
    breaker = Breaker(0.0)
    breaker.refuse()
    assert breaker.alone
    assert breaker.wait(0.0, probing=False) == 0.0
    assert breaker.wait(0.0, probing=True) is None
    assert breaker.outage == ""
    breaker.replied()
    assert not breaker.alone


@given(st.floats(0.0, 0.999))
def test_jitter(jitter: float) -> None:
    """Jitter makes a pause longer, by half at most, so that processes do not come back together."""
    assert opened(jitter=jitter).wait(0.0, probing=False) == pytest.approx(
        1.0 + jitter / 2
    )


def test_stragglers() -> None:
    """Calls that were in flight when it opened and fail then do not put the next try off."""
    breaker = opened()
    for call in range(100, 200):
        breaker.failed(0.9, call, BROKEN, 0.0)
    assert breaker.wait(1.0, probing=False) == 0.0


def test_closes() -> None:
    """The first reply closes it, and the next outage begins with a short pause."""
    breaker = opened()
    for probe in range(5):
        breaker.failed(10.0, 100 + probe, BROKEN, 0.0, probe=True)
    breaker.replied()
    assert not breaker.open
    assert breaker.wait(10.0, probing=False) == 0.0
    for call in range(DISTINCT):
        breaker.failed(20.0, call, BROKEN, 0.0)
    assert breaker.wait(20.0, probing=False) == 1.0


def test_over() -> None:
    """Patience ends 15 minutes after the first failure without a reply since, and reports the last reason."""
    breaker = opened(now=100.0)
    breaker.failed(200.0, 99, BUSY, 0.0, probe=True)
    assert breaker.over(100.0 + OUTAGE - 1.0) is None
    assert breaker.over(100.0 + OUTAGE) == (
        "the judge has answered no call for 15 minutes; the last time: it is busy"
    )
    breaker.replied()
    assert breaker.over(1e6) is None


@pytest.mark.parametrize(
    ("patience", "words"), [(30.0, "for 30 s;"), (3600.0, "for 60 minutes;")]
)
def test_patience(patience: float, words: str) -> None:
    """The time that an outage may last is a setting."""
    breaker = Breaker(0.0, patience)
    breaker.failed(0.0, 1, GONE, 0.0)
    assert breaker.over(patience - 1.0) is None
    assert words in str(breaker.over(patience))


def test_cause() -> None:
    """Each sentence on an outage has the error's words, bounded, with the judge and its address, once."""
    at = "http://127.0.0.1:9/v1"
    for error, words in (
        (BROKEN, f"the judge is down: it is broken (openai/m at {at})"),
        (BUSY, f"rate limit of the judge: it is busy (openai/m at {at})"),
        (
            replace(BROKEN, reason=f"nobody at {at}"),
            f"the judge is down: nobody at {at}",
        ),
        (
            replace(BROKEN, reason="x" * 999),
            f"the judge is down: {'x' * 160}… (openai/m at {at})",
        ),
    ):
        breaker = Breaker(0.0, OUTAGE, "openai/m", at)
        assert (breaker.outage, breaker.cause) == ("", "")
        for call in range(DISTINCT):
            breaker.failed(0.0, call, error, 0.0)
        assert breaker.outage == words
        assert str(breaker.over(OUTAGE)).endswith(words.partition(": ")[2])
        breaker.replied()
        assert (breaker.outage, breaker.cause) == ("", "")


def test_idle_is_no_outage() -> None:
    """Hours without a failure do not count towards patience."""
    breaker = opened(now=50_000.0)
    assert breaker.over(50_001.0) is None
