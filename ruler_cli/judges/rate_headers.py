"""Headers of a response → what rate limits leave; with the message of an error → the seconds to wait.

A header or message about this call goes before one about a limit: `retry-after-ms` and `Retry-After`, then a
delay in the message, then `…ratelimit…reset…`. No value raises, and no result is negative, infinite or NaN. A
litellm proxy with too many calls in flight names a minute, although one of them may end at once: that is
ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ruler_cli.types import Left

READ = 4000
"""Characters of a message that are read; a gateway may repeat the whole request."""
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_PART = r"([0-9]+(?:\.[0-9]+)?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)"
_DURATION = re.compile(rf"(?:{_PART}(?![a-z])\s*)+", re.IGNORECASE)
_EACH = re.compile(_PART, re.IGNORECASE)
_UNITS = (
    ("ms", 0.001),
    ("mil", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86400.0),
)
_LEAD = re.compile(
    r"(?:(?:try again|retry|wait)(?: again)? (?:in|after|for)|please wait|retryDelay\W{1,4})\s*(?=[0-9])",
    re.IGNORECASE,
)
_IN_FLIGHT = "max_parallel_requests"
"""A litellm proxy's name of a limit that is no rate; its header `rate_limit_type` names the exceeded one."""
_IN_FLIGHT_NOW = re.compile(
    rf"current {_IN_FLIGHT}: ([0-9]{{1,19}}), {_IN_FLIGHT}: ([0-9]{{1,19}})"
)
"""The same in the message of older ones, which names all their limits."""
_VALUE = 100
_EPOCH, _EPOCH_MS = 1e9, 1e11
"""Numbers from here on are times and no spans: seconds since 1970, or milliseconds."""


_REQUESTS = (
    "x-ratelimit-remaining-requests",
    "anthropic-ratelimit-requests-remaining",
    "x-ratelimit-remaining",
    "ratelimit-remaining",
)
_TOKENS = (
    "x-ratelimit-remaining-tokens",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-input-tokens-remaining",
)
"""Names of headers with what is left, the first that a response has counts."""
_LEFT = re.compile(r"\s*(-?)([0-9]{1,15})(?:\.[0-9]{1,15})?\s*")


def left_of(headers: Mapping[str, Any]) -> Left | None:
    """Return the requests and tokens that rate limits leave; None if no header names any.

    The names of headers are in lower case, or `headers` ignores case.
    """
    requests, tokens = _left(headers, _REQUESTS), _left(headers, _TOKENS)
    return None if requests is None and tokens is None else Left(requests, tokens)


def _left(headers: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = headers.get(name)
        if value is not None and (number := _LEFT.fullmatch(str(value)[:_VALUE])):
            return 0 if number[1] else int(number[2])
    return None


def retry_after(
    headers: Mapping[str, str], message: str, rate: bool, now: datetime | None = None
) -> float | None:
    """The seconds that a failed call is asked to wait; None if its headers and message name none.

    Some providers send the resets of limits with every response, so they count only if a limit was
    exceeded (`rate`).
    """
    # litellm puts a prefix of its own before the names
    low = {
        str(k).lower().removeprefix("llm_provider-"): str(v).strip()
        for k, v in headers.items()
    }
    in_flight, now = _IN_FLIGHT_NOW.search(message[:READ]), now or datetime.now(UTC)
    if in_flight and int(in_flight[1]) >= int(in_flight[2]):
        return None
    seconds = None
    if low.get("rate_limit_type") != _IN_FLIGHT:
        fine = low.get("retry-after-ms", "")
        coarse = _seconds(low.get("retry-after", ""), now)
        seconds = _finite(float(fine) / 1000) if _NUMBER.fullmatch(fine) else coarse
    if seconds is None:
        seconds = delay_in(message)
    return _reset(low, now) if seconds is None and rate else seconds


def delay_in(message: str) -> float | None:
    """The seconds that a message names: `Please try again in 6m0s`, `"retryDelay": "34s"`."""
    message = message[:READ]
    for lead in _LEAD.finditer(message):
        if duration := _DURATION.match(message, lead.end()):
            return _finite(_span(duration[0]))
    return None


def _reset(low: Mapping[str, str], now: datetime) -> float | None:
    """The seconds to the latest reset of an exhausted limit; to the next reset if no remainder is named."""
    waits: list[float] = []
    by_left: list[tuple[float, float]] = []
    for name, value in low.items():
        reset = "ratelimit" in name and "reset" in name
        wait = _seconds(value, now) if reset else None
        if wait is not None:
            waits.append(wait)
            left = low.get(name.replace("reset", "remaining"), "")
            if _NUMBER.fullmatch(left):
                by_left.append((float(left), wait))
    if by_left:
        return max((wait for left, wait in by_left if left <= 0), default=None)
    return min(filter(None, waits), default=None)


def _seconds(value: str, now: datetime) -> float | None:
    """The seconds of a header's value: a span, or a time in any of its forms, from `now` on."""
    if not value or len(value) > _VALUE:
        return None
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number < _EPOCH:
            return _finite(number)
        return _finite(
            (number if number < _EPOCH_MS else number / 1000) - now.timestamp()
        )
    if _DURATION.fullmatch(value):
        return _finite(_span(value))
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = read(value)
            return _finite(
                (
                    (when if when.tzinfo else when.replace(tzinfo=UTC)) - now
                ).total_seconds()
            )
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _span(text: str) -> float:
    """The seconds of a span such as `1m30s`."""
    parts = ((float(part[1]), part[2].lower()) for part in _EACH.finditer(text))
    return sum(
        number * next(n for start, n in _UNITS if unit.startswith(start))
        for number, unit in parts
    )


def _finite(seconds: float) -> float | None:
    return max(0.0, seconds) if math.isfinite(seconds) else None
