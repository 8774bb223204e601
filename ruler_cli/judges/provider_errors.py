"""Error responses of providers → kind, scope and remedy of a failed call, in one table.

Headers of a response tell what rate limits leave, and `retry-after-ms`, `Retry-After` or the message of an error
the seconds to wait. No value raises, and no result is negative, infinite or NaN. A litellm proxy with too many
calls in flight names a minute, although one of them may end at once: that is ignored.

Reads the bodies of errors in all providers' spellings, and the context and the request's size in tokens
that the message of an error states.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from ruler_cli.judges.replies import (
    LARGEST,
    TOO_LARGE,
    parse_foreign,
    reply_in,
    without_key,
)
from ruler_cli.types import (
    BOM,
    CallError,
    Kind,
    RateLimitRemaining,
    Reply,
    Secret,
    clean,
    words_of,
)

Scope = Literal["run", "group", "call"]

_FORMAT = re.compile(
    r"response_format|json_object|structured output|guided|schema|grammar|output_(?:format|config)",
    re.IGNORECASE,
)
_BEGINNING = 1000
"""Characters of a message in which an answer format is named; a repeated request stands behind them."""


class ErrorRule(NamedTuple):
    """A row of `errors.toml`, which says what each field is."""

    statuses: str
    kind: Kind
    scope: Scope | Literal["rate"]
    says: Sequence[str] = ()
    remedy: str = ""

    def applies(
        self,
        status: int,
        text: str,
    ) -> bool:
        """Return whether the rule is for this error; with a good status its words decide, as with 400."""
        statuses = self.statuses.split()
        if status < 300 and self.says and "200" not in statuses:
            status = 400
        listed = str(status) in statuses or f"{status // 100}xx" in statuses
        pattern = "|".join(self.says)
        return listed and re.search(pattern, text, re.IGNORECASE) is not None


_ADDRESS = "is the endpoint's address right? It usually ends in /v1"
_ROWS = tomllib.loads(
    Path(__file__).with_name("errors.toml").read_text("utf-8")
)
TABLE = tuple([ErrorRule(**row) for row in _ROWS["rules"]])
_AGAIN = ErrorRule("", "transport", "call")


class ErrorResponse(NamedTuple):
    """An error as the endpoint sent it.

    `codes` are the short codes of the body in one line.
    """

    status: int
    codes: str
    message: str
    headers: Mapping[str, str]


def classify(
    status: int,
    codes: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    key: Secret = None,
    who: str = "the judge",
) -> CallError:
    """The CallError of an error response; its reason is one sentence about `who`, without the key.

    `codes` are the body's short codes (see `error_of`), `headers` those of the response.
    """
    message = message[:READ]
    low = lowered(headers or {})
    text = f"{codes[:READ]} {message}"
    rule = next((rule for rule in TABLE if rule.applies(status, text)), _AGAIN)
    rate = rule.scope == "rate"
    scope: Scope = "call" if rule.scope == "rate" else rule.scope
    location = low.get("location", "") if status < 400 else ""
    stated = message or codes or location.removesuffix("/chat/completions")
    reason = f"{who} answered {status}: {clean(stated or 'no message', key)}"
    if rule.remedy:
        reason = f"{reason.rstrip('.')}; {rule.remedy}"
    return CallError(
        rule.kind,
        reason,
        scope,
        retry_after=retry_after(low, text) if scope == "call" else None,
        context=context_of(text) if rule.kind == "too_long" else None,
        billed=False,
        rate=rate,
    )


def refuses_format(status: int, message: str) -> bool:
    """Return whether an endpoint refuses the answer format that a request asks for."""
    named = _FORMAT.search(message[:_BEGINNING])
    return status in (400, 404, 415, 422, 500, 501) and named is not None


_CONTEXTS = [
    re.compile(
        pattern.replace("…", r".{0,200}?\b")
        .replace("LIMIT", r"(?P<limit>\d{1,9})")
        .replace("ACTUAL", r"(?P<actual>\d{1,9})"),
        re.IGNORECASE | re.DOTALL,
    )
    for pattern in _ROWS["contexts"]["patterns"]
]


def context_of(text: str) -> tuple[int, int] | None:
    """(limit, actual) in tokens, as the judge's own message states them; None if it does not."""
    for pattern in _CONTEXTS:
        if stated := pattern.search(text[:READ]):
            return int(stated["limit"]), int(stated["actual"])
    return None


_CODES = words_of(
    "code type status error_type __type reason quotaId retryDelay"
)
"""Keys whose short values tell the kind of an error, at any depth."""
_SHORT = 100
_DEEP = 6
_MOST = 30
_TITLE = re.compile(
    r"<title[^>]{0,200}>(.{1,200}?)</title", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(r"<[^>]{0,500}>")
_ASIDE = re.compile(
    r"\s(?:LiteLLM: model group '|LiteLLM Retried: \d|(?:Received Model Group|Passed model)="
    r"|model=\S{1,200} \w{1,30}_fallbacks?=)"
)
"""Beginning of a litellm proxy's text on its own routing, behind the provider's message."""
_LONGEST = 2000


def read_response(
    status: int,
    data: bytes,
    headers: Mapping[str, str] | None = None,
    key: Secret = None,
) -> Reply | CallError | ErrorResponse:
    """Read a response by its status.

    An error body that comes with a good status has the status that it names, else 200.
    """
    data = data.removeprefix(BOM)
    if len(data) > LARGEST:
        return CallError("transport", TOO_LARGE, "call")
    data = without_key(data, key)
    headers = headers or {}
    if status >= 300:
        return ErrorResponse(status, *error_of(data), headers)
    value = None
    with suppress(AttributeError, LookupError, TypeError, ValueError):
        value = parse_foreign(data)
        if error := _error_in(value):
            return _error_response(error, headers)
    reply = reply_in(value, data, key)
    if isinstance(reply, Reply):
        return replace(reply, left=left_of(headers))
    if not data.lstrip().startswith(b"<"):
        return reply
    page = clean(_page(data), key)
    return replace(
        reply, reason=f"{reply.reason} but a web page ({page}); {_ADDRESS}"
    )


_ENDED = re.compile(
    r"(?:\w+_)?error|fail(?:ed|ure)?|abort(?:ed)?|cancell?ed|insufficient_system_resource",
    re.IGNORECASE,
)
"""Reasons to finish that are errors of the endpoint; DeepSeek's is the last."""
_STATUS = re.compile("[45][0-9][0-9]")


def _error_in(body: Any) -> Any:
    """Return the error that a body with a good status tells, at its top or in its choice; None if there is none."""
    with suppress(AttributeError, LookupError, TypeError):
        beside = body.get("error")
        if not body.get("choices"):
            return beside
        choice = body["choices"][0]
        message = choice["message"]
        # litellm moves what it does not know
        choice = {**(choice.get("provider_specific_fields") or {}), **choice}
        if error := choice.get("error") or message.get("error"):
            return error
        for name in ("native_finish_reason", "finish_reason"):
            if _ENDED.fullmatch(str(choice.get(name))):
                return beside or {
                    "message": f"the answer ended with {name} {choice[name]}"
                }
        return (
            None
            if message.get("content") and choice["finish_reason"]
            else beside
        )
    return None


def _error_response(
    error: Any,
    headers: Mapping[str, str],
) -> ErrorResponse:
    """Return the response that an error inside a good one stands for: with the status that it names, else 200."""
    status = 200
    with suppress(AttributeError, LookupError, TypeError):
        codes = [
            str(error.get(name)) for name in ("code", "status", "status_code")
        ]
        status = int(next(filter(_STATUS.fullmatch, codes), status))
        # OpenRouter: those of the provider
        headers = {**headers, **error["metadata"]["headers"]}
    return ErrorResponse(
        status, *error_of(orjson.dumps({"error": error})), headers
    )


def error_of(data: bytes) -> tuple[str, str]:
    """(codes, message) of an error body: its short codes in one line, and its message."""
    data = data.removeprefix(BOM)
    try:
        value = parse_foreign(data)
    except orjson.JSONDecodeError:
        return "", _page(data)
    if isinstance(value, list) and value:  # Gemini's OpenAI endpoint
        value = value[0]
    if not isinstance(value, dict):
        return "", str(value)[:_LONGEST]
    codes = " ".join(list(_codes(value, _DEEP))[:_MOST])
    error = value.get("error") or value
    if not isinstance(error, dict):
        return codes, str(error)[:_LONGEST]
    named = error.get("message") or error.get("detail") or error.get("msg")
    text = _text(named or error)
    message = _ASIDE.split(text[:_LONGEST], maxsplit=1)[0].rstrip()
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and (raw := metadata.get("raw")):
        message += f": {_text(raw)}"  # OpenRouter: the provider's message
    return codes, message[:_LONGEST]


def _codes(
    value: Any,
    deep: int,
) -> Iterator[str]:
    """The short codes of a body, down to `deep` levels."""
    if isinstance(value, list):
        for item in value[:_MOST]:
            yield from _codes(item, deep)
    if not isinstance(value, dict) or not deep:
        return
    for name, item in value.items():
        if (
            name in _CODES
            and isinstance(item, str | int)
            and len(str(item)) <= _SHORT
        ):
            yield f"{name}: {item}" if name == "retryDelay" else str(item)
        elif name not in ("input", "message"):  # FastAPI gives the request back
            yield from _codes(item, deep - 1)


def _text(message: Any) -> str:
    """A message as one text; FastAPI's is a list of places and messages."""
    if isinstance(message, list):
        parts = (
            f"{part.get('loc', '')}: {part.get('msg', '')}"
            for part in message
            if isinstance(part, dict)
        )
        return "; ".join(parts) or str(message)
    if isinstance(message, dict):  # TypeSafe's
        return str(message.get("message") or message)
    return str(message)


def _page(data: bytes) -> str:
    """The title of an HTML page, else its words, else the text as it is."""
    text = data[: 4 * _LONGEST].decode("utf-8", "replace")
    title = _TITLE.search(text)
    return " ".join((title[1] if title else _TAG.sub(" ", text)).split())[
        :_LONGEST
    ]


READ = 4000
"""Characters of a message that are read; a gateway may repeat the whole request."""
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_PART = r"([0-9]+(?:\.[0-9]+)?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)"
_DURATION = re.compile(rf"(?:{_PART}(?![a-z])\s*)+", re.IGNORECASE)
_EACH = re.compile(_PART, re.IGNORECASE)
_UNITS = {
    "ms": 0.001,
    "mil": 0.001,
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
}
"""Seconds of each unit, by the letters that it begins with; the first that fits counts."""
_LEAD = re.compile(
    r"(?:(?:try again|retry|wait)(?: again)? (?:in|after|for)|please wait|retryDelay\W{1,4})\s*(?=[0-9])",
    re.IGNORECASE,
)
_IN_FLIGHT = "max_parallel_requests"
"""A litellm proxy's name of a limit that is no rate; its header `rate_limit_type` names the exceeded one."""
_VALUE = 100


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


def left_of(headers: Mapping[str, Any]) -> RateLimitRemaining | None:
    """Return the requests and tokens that rate limits leave; None if no header names any.

    The names of headers are in lower case, or `headers` ignores case.
    """
    left = RateLimitRemaining(
        _left(headers, _REQUESTS), _left(headers, _TOKENS)
    )
    return None if left == RateLimitRemaining() else left


def _left(
    headers: Mapping[str, Any],
    names: Iterable[str],
) -> int | None:
    for name in names:
        stated = str(headers.get(name))
        if number := _LEFT.fullmatch(stated[:_VALUE]):
            return 0 if number[1] else int(number[2])
    return None


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with names in lower case, without the prefix that litellm puts before some."""
    return {
        name.lower().removeprefix("llm_provider-"): str(value).strip()
        for name, value in headers.items()
    }


def retry_after(
    headers: Mapping[str, str],
    message: str,
    now: datetime | None = None,
) -> float | None:
    """The seconds to wait before another try, as lowered headers or the message of an error name them, else None."""
    seconds = None
    milliseconds = headers.get("retry-after-ms", "")
    stated = headers.get("retry-after", "")
    if headers.get("rate_limit_type") == _IN_FLIGHT or len(stated) > _VALUE:
        pass  # one of the calls may end at once; no number is that long
    elif _NUMBER.fullmatch(milliseconds):
        seconds = _finite(float(milliseconds) / 1000)
    elif _NUMBER.fullmatch(stated):
        seconds = _finite(float(stated))
    else:
        with suppress(ValueError, TypeError, OverflowError, IndexError):
            when = parsedate_to_datetime(stated)
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
            wait = when - (now or datetime.now(UTC))
            seconds = _finite(wait.total_seconds())
    return delay_in(message) if seconds is None else seconds


def delay_in(message: str) -> float | None:
    """The seconds that a message names: `Please try again in 6m0s`, `"retryDelay": "34s"`."""
    message = message[:READ]
    for lead in _LEAD.finditer(message):
        if duration := _DURATION.match(message, lead.end()):
            return _finite(_span(duration[0]))
    return None


def _span(text: str) -> float:
    """The seconds of a span such as `1m30s`."""
    return sum(
        float(number)
        * next(n for start, n in _UNITS.items() if unit.startswith(start))
        for number, unit in _EACH.findall(text.lower())
    )


def _finite(seconds: float) -> float | None:
    return max(0.0, seconds) if math.isfinite(seconds) else None
