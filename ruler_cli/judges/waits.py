"""How long a server asks to wait: every spelling of it, in headers and in messages.

What names this call's own wait wins over what names a limit's reset: `retry-after-ms` and
`Retry-After`, then a delay in the message, then `…ratelimit…reset…`.  No value, however odd,
raises; none is negative, infinite or no number.  A litellm proxy that has too many calls in flight
names a minute, though there is room as soon as one of them ends: that is not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_PART = r"([0-9]+(?:\.[0-9]+)?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)"
_DURATION = re.compile(rf"(?:{_PART}(?![a-z])\s*)+", re.IGNORECASE)
_EACH = re.compile(_PART, re.IGNORECASE)
_UNITS = (("ms", 0.001), ("mil", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0))
_LEAD = re.compile(
    r"(?:(?:try again|retry|wait)(?: again)? (?:in|after|for)|please wait|retryDelay\W{1,4})\s*(?=[0-9])",
    re.IGNORECASE,
)
_IN_FLIGHT = "max_parallel_requests"
"""A litellm proxy's name of a limit that is no rate; its header `rate_limit_type` says which was passed."""
_IN_FLIGHT_NOW = re.compile(rf"current {_IN_FLIGHT}: ([0-9]{{1,19}}), {_IN_FLIGHT}: ([0-9]{{1,19}})")
"""The same in the words of older ones, which say all their limits."""
_LOOKED_AT = 4000
_LONGEST = 100
_EPOCH, _EPOCH_MS = 1e9, 1e11
"""A number from here on is no span but a time: seconds since 1970, or milliseconds."""


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that an answer's headers ask to wait; None where they ask nothing that can be read."""
    low, now = _low(headers), now or datetime.now(UTC)
    asked = _asked(low, now)
    return _reset(low, now) if asked is None else asked


def wait_of(
    headers: Mapping[str, str], message: str, rate: bool, now: datetime | None = None
) -> float | None:
    """Seconds that a failed call is asked to wait, from its headers and its message.

    The resets of limits are on every answer of some providers, so they count only where a limit
    was passed (`rate`).
    """
    low, now = _low(headers), now or datetime.now(UTC)
    told = _IN_FLIGHT_NOW.search(message[:_LOOKED_AT])
    if told and int(told[1]) >= int(told[2]):
        return None
    asked = _asked(low, now)
    if asked is None:
        asked = named(message)
    return _reset(low, now) if asked is None and rate else asked


def named(message: str) -> float | None:
    """Seconds that a message names: `Please try again in 6m0s`, `"retryDelay": "34s"`."""
    message = message[:_LOOKED_AT]
    for lead in _LEAD.finditer(message):
        found = _DURATION.match(message, lead.end())
        if found:
            return _finite(_span(found[0]))
    return None


def _low(headers: Mapping[str, str]) -> dict[str, str]:
    # litellm puts a word of its own before the names
    return {str(k).lower().removeprefix("llm_provider-"): str(v).strip() for k, v in headers.items()}


def _asked(low: Mapping[str, str], now: datetime) -> float | None:
    if low.get("rate_limit_type") == _IN_FLIGHT:
        return None
    milliseconds = low.get("retry-after-ms", "")
    if _NUMBER.fullmatch(milliseconds):
        return _finite(float(milliseconds) / 1000)
    return _seconds(low.get("retry-after", ""), now)


def _reset(low: Mapping[str, str], now: datetime) -> float | None:
    """The latest reset of what is used up; where nothing tells what is, the earliest to come."""
    found = list(_resets(low, now))
    told = [(wait, left) for wait, left in found if left is not None]
    if told:
        return max((wait for wait, left in told if left <= 0), default=None)
    return min((wait for wait, _ in found if wait > 0), default=None)


def _resets(low: Mapping[str, str], now: datetime) -> Iterator[tuple[float, float | None]]:
    """(seconds, what is left) of each limit that is told of."""
    for name, value in low.items():
        if "ratelimit" in name and "reset" in name:
            wait = _seconds(value, now)
            left = low.get(name.replace("reset", "remaining"), "")
            if wait is not None:
                yield wait, float(left) if _NUMBER.fullmatch(left) else None


def _seconds(value: str, now: datetime) -> float | None:
    """Seconds until what a header value names: a span, or a time in any of its forms."""
    if not value or len(value) > _LONGEST:
        return None
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number < _EPOCH:
            return _finite(number)
        return _finite((number if number < _EPOCH_MS else number / 1000) - now.timestamp())
    if _DURATION.fullmatch(value):
        return _finite(_span(value))
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = read(value)
            return _finite(((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds())
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _span(text: str) -> float:
    return sum(float(part[1]) * _unit(part[2].lower()) for part in _EACH.finditer(text))


def _unit(word: str) -> float:
    return next(seconds for start, seconds in _UNITS if word.startswith(start))


def _finite(seconds: float) -> float | None:
    return max(0.0, seconds) if math.isfinite(seconds) else None
