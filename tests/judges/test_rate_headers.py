"""Every form of the time to wait, and of what rate limits leave."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ruler_cli.judges import provider_errors
from ruler_cli.judges.provider_errors import (
    classify,
    delay_in,
    left_of,
    lowered,
)
from ruler_cli.types import RateLimitRemaining

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NAMES = ("Retry-After", "retry-after-ms")


def retry_after(
    headers: dict[str, str], message: str, now: datetime
) -> float | None:
    """Return the seconds that headers and a message name."""
    return provider_errors.retry_after(lowered(headers), message, now)


SPELLINGS = [
        ("7", 7.0), ("0", 0.0), ("0.5", 0.5), (".5", 0.5), ("7.", 7.0), (" 7 ", 7.0),
        ("Sun, 01 Mar 2026 12:01:30 GMT", 90.0),  # RFC 1123
        ("Sunday, 01-Mar-26 12:01:30 GMT", 90.0),  # RFC 850
        ("Sun Mar  1 12:01:30 2026", 90.0),  # asctime
        ("Sun, 01 Mar 2020 12:01:30 GMT", 0.0),
        ("soon", None), ("", None), ("-3", None), ("inf", None), ("nan", None), ("1e9", None), ("1_0", None),
        ("9" * 400, None), ("5 models", None), ("٣", None),
    ]  # fmt: skip


def test_spellings(subtests: pytest.Subtests) -> None:
    """Numbers and dates are read, and an invalid value is ignored."""
    for value, seconds in SPELLINGS:
        with subtests.test(value=value, seconds=seconds):
            asked = retry_after({"Retry-After": value}, "", NOW)
            assert asked == (
                None if seconds is None else pytest.approx(seconds)
            )


PRIORITIES = [
        ({}, None),
        # the call's own wait first, the finer unit before the coarser
        ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
        ({"retry-after-ms": "x", "Retry-After": "1"}, 1.0),
        ({"llm_provider-retry-after": "4"}, 4.0),
        # a litellm proxy's minute, for a rate and for calls in flight, which may end at once
        ({"retry-after": "60", "rate_limit_type": "requests"}, 60.0),
        ({"retry-after": "60", "rate_limit_type": "max_parallel_requests"}, None),
    ]  # fmt: skip


def test_priorities(subtests: pytest.Subtests) -> None:
    """The finer unit has priority, and a proxy's minute for calls in flight is none."""
    for headers, seconds in PRIORITIES:
        with subtests.test(headers=headers, seconds=seconds):
            assert retry_after(headers, "", NOW) == seconds


LEFT: tuple[tuple[dict[str, Any], RateLimitRemaining | None], ...] = (
    ({}, None),
    ({"x-ratelimit-remaining-requests": "499"}, RateLimitRemaining(499)),
    (
        {"x-ratelimit-remaining-tokens": " 40000.5 "},
        RateLimitRemaining(None, 40_000),
    ),
    (
        {
            "anthropic-ratelimit-requests-remaining": "49",
            "x-ratelimit-remaining": "3",
        },
        RateLimitRemaining(49),
    ),
    (
        {"anthropic-ratelimit-input-tokens-remaining": 30_000},
        RateLimitRemaining(None, 30_000),
    ),
    ({"ratelimit-remaining": "-7"}, RateLimitRemaining(0)),
    (
        {
            "x-ratelimit-remaining-requests": "many",
            "x-ratelimit-remaining": "8",
        },
        RateLimitRemaining(8),
    ),
    *(
        ({"x-ratelimit-remaining": value}, None)
        for value in ("nan", "inf", "1e9", "٣", "9" * 400, "", [1])
    ),
)


def test_left(subtests: pytest.Subtests) -> None:
    """The first header that names a number of requests, or of tokens, counts; less than none is none."""
    for headers, left in LEFT:
        with subtests.test(headers=headers):
            assert left_of(headers) == left


DELAYS = [
    ("Please try again in 1.2s. Visit https://x", 1.2),
    ("Please try again in 20ms.", 0.02),
    ("Please try again in 6m0s.", 360.0),
    ("Please try again in 9m38.016s. Need more?", 578.016),
    ("Please retry after 26 seconds.", 26.0),
    ("Please retry in 20.04466179s.", 20.04466179),
    ("Rate limit is exceeded. Try again in 30 seconds.", 30.0),
    ('{"@type": "RetryInfo", "retryDelay": "34s"}', 34.0),
    ("retryDelay: 34s", 34.0),
    ("please wait 5 minutes", 300.0),
    ("try again in a while, wait for 3s", 3.0),
    ("try again in 5 models", None),
    ("limit 20s", None),
    ("x" * 5000 + "try again in 1s", None),
]


def test_delays(subtests: pytest.Subtests) -> None:
    """A delay that a message names is read in every unit."""
    for message, seconds in DELAYS:
        with subtests.test(message=message, seconds=seconds):
            result = delay_in(message)
            assert result == (
                None if seconds is None else pytest.approx(seconds)
            )


def test_order_with_a_message() -> None:
    """The header has priority, then the message; only a call that may be tried again has a wait."""
    message = "try again in 4s"
    assert retry_after({"Retry-After": "1"}, message, NOW) == 1
    assert retry_after({"Retry-After": "soon"}, message, NOW) == 4
    assert classify(429, "", "Please try again in 6m0s.", {}).retry_after == 360
    assert classify(401, "", "no", {"Retry-After": "7"}).retry_after is None


INVALID = st.one_of(
    st.text(max_size=120),
    st.from_regex(r"[0-9.]{1,40}(ms|s|m|h|d| days)?", fullmatch=True),
    st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,6} [0-9:]{1,9}( GMT| [+-][0-9]{1,6})?"
    ),
    st.datetimes().map(format_datetime),
    st.floats().map(str),
    st.integers().map(str),
)


@given(
    st.dictionaries(st.sampled_from(NAMES), INVALID),
    st.datetimes(timezones=st.just(UTC)),
    INVALID,
)
@example({"Retry-After": "Mon, 01 Jan 0001 00:00:00 +9999"}, NOW, "")
@example({}, NOW, "retry in " + "9" * 400 + "s")
def test_any_value(headers: dict[str, str], now: datetime, text: str) -> None:
    """No header and no message raises, and the result is None or finite and not negative."""
    for result in (
        retry_after(headers, "", now),
        retry_after(headers, f"try again in {text}", now),
    ):
        assert result is None or (math.isfinite(result) and result >= 0)
