"""Error responses of providers → kind, scope and remedy of a failed call, in one table.

Headers of a response tell what rate limits leave, and `retry-after-ms`, `Retry-After` or the message of an error
the seconds to wait. No value raises, and no result is negative, infinite or NaN. A litellm proxy with too many
calls in flight names a minute, although one of them may end at once: that is ignored.

It reads the bodies of errors in all providers' spellings, and, from the message of an error, the context and the
request's size in tokens.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
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
    keyless: str = ""

    def applies(self, status: int, text: str) -> bool:
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
    name: str = "the judge",
) -> CallError:
    """The CallError of an error response; its reason is one sentence about `name`, without the key.

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
    reason = f"{name} answered {status}: {clean(stated or 'no message', key)}"
    context = context_of(text) if rule.kind == "too_long" else None
    remedy = rule.remedy
    if rule.keyless and key and not any(key):
        remedy = rule.keyless
    # the group is laid out for a context that is named
    if remedy and not context:
        reason = f"{reason.rstrip('.')}; {remedy}"
    return CallError(
        rule.kind,
        reason,
        scope,
        retry_after=retry_after(low, text) if scope == "call" else None,
        context=context,
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
_MARKUP = re.compile(
    r"<(script|style)\b.{0,9999}?</\1>|<[^>]{0,500}>", re.IGNORECASE | re.DOTALL
)
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
    """Return the error inside a body with a good status, at its top or in its choice; None if there is none."""
    with suppress(AttributeError, LookupError, TypeError):
        beside = body.get("error")
        if not body.get("choices"):
            return beside
        choice = body["choices"][0]
        message = choice["message"]
        # litellm moves what it does not know
        choice = {**(choice.get("provider_specific_fields") or {}), **choice}
        error = choice.get("error") or message.get("error")
        for name in ("native_finish_reason", "finish_reason"):
            if not error and _ENDED.fullmatch(str(choice.get(name))):
                ended = f"the answer ended with {name} {choice[name]}"
                error = beside or {"message": ended}
        whole = message.get("content") and choice["finish_reason"]
        return error or (None if whole else beside)
    return None


def _error_response(error: Any, headers: Mapping[str, str]) -> ErrorResponse:
    """Return the response that an error inside a good one stands for: with the status that it names, else 200."""
    status = 200
    with suppress(AttributeError, LookupError, TypeError):
        for name in ("status_code", "status", "code"):
            if _STATUS.fullmatch(str(error.get(name))):
                status = int(error[name])
        # OpenRouter: those of the provider
        headers = {**headers, **error["metadata"]["headers"]}
    codes = error_of(orjson.dumps({"error": error}))
    return ErrorResponse(status, *codes, headers)


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
    codes = " ".join(islice(_codes(value, _DEEP), _MOST))
    error = value.get("error") or value
    raw = None
    if isinstance(error, dict):
        metadata = error.get("metadata")
        if isinstance(metadata, dict):
            raw = metadata.get("raw")  # OpenRouter: the provider's message
        error = (
            error.get("message")
            or error.get("detail")
            or error.get("msg")
            or error
        )
    if isinstance(error, list):  # FastAPI's, which gives the request back
        parts = [
            f"{part.get('loc')}: {part['msg']}"
            for part in error
            if isinstance(part, dict) and "msg" in part
        ]
        error = "; ".join(parts) or str(error)
    if isinstance(error, dict):  # TypeSafe's
        error = error.get("message") or error
    message = str(error)[:_LONGEST]
    message = _ASIDE.split(message, maxsplit=1)[0].rstrip()
    if raw:
        message += f": {raw}"
    return codes, message[:_LONGEST]


def _codes(value: Any, deep: int) -> Iterator[str]:
    """The short codes of a body, down to `deep` levels."""
    if isinstance(value, list):
        value = dict(enumerate(value[:_MOST]))
    if not isinstance(value, dict) or not deep:
        return
    for name, item in value.items():
        if name in _CODES and isinstance(item, str | int):
            if len(str(item)) <= _SHORT:
                yield f"{name}: {item}" if name == "retryDelay" else str(item)
        elif name not in ("input", "message"):  # FastAPI gives the request back
            yield from _codes(item, deep - 1)


def _page(data: bytes) -> str:
    """Return the text of an HTML page; any other text unchanged."""
    text = data[: 4 * _LONGEST].decode("utf-8", "replace")
    words = " ".join(_MARKUP.sub(" ", text).split())
    # the title of a page is often its heading, too
    return re.sub(r"^(.{4,99}) \1\b", r"\1", words)[:_LONGEST]


READ = 4000
"""Characters of a message that are read; a gateway may repeat the whole request."""
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_DELAY = re.compile(
    r"(?:(?:try again|retry|wait)(?: again)? (?:in|after|for)|please wait|retryDelay\W{1,4})\s*"
    r"((?:[0-9]+(?:\.[0-9]+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
    r"(?![a-z])\s*)+)",
    re.IGNORECASE,
)
_EACH = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|milli|s|m|h|d)")
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_IN_FLIGHT = "max_parallel_requests"
"""A litellm proxy's name of a limit that is not a rate; its header `rate_limit_type` names the exceeded one."""
_VALUE = 100


_REQUESTS = words_of("""
x-ratelimit-remaining-requests anthropic-ratelimit-requests-remaining x-ratelimit-remaining ratelimit-remaining
""")
_TOKENS = words_of("""
x-ratelimit-remaining-tokens anthropic-ratelimit-tokens-remaining anthropic-ratelimit-input-tokens-remaining
""")
"""Names of headers with what is left, the first that a response has counts."""
_LEFT = re.compile(r"\s*(-?)([0-9]{1,15})(?:\.[0-9]{1,15})?\s*")


def left_of(headers: Mapping[str, Any]) -> RateLimitRemaining | None:
    """Return the remaining requests and tokens of rate limits; None if no header names any.

    The names of headers are in lower case, or `headers` ignores case.
    """
    left = []
    for names in (_REQUESTS, _TOKENS):
        numbers = []
        for name in names:
            stated = str(headers.get(name))[:_VALUE]
            if number := _LEFT.fullmatch(stated):
                numbers.append(0 if number[1] else int(number[2]))
        left.append(next(iter(numbers), None))
    return None if left == [None, None] else RateLimitRemaining(*left)


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with names in lower case, without the prefix that litellm puts before some."""
    return {
        name.lower().removeprefix("llm_provider-"): str(value).strip()
        for name, value in headers.items()
    }


def retry_after(
    headers: Mapping[str, str], message: str, now: datetime | None = None
) -> float | None:
    """The seconds to wait before another try, as lowered headers or the message of an error name them, else None."""
    milliseconds = headers.get("retry-after-ms", "")
    stated = headers.get("retry-after", "")
    seconds = None
    if headers.get("rate_limit_type") == _IN_FLIGHT:
        pass  # one of the calls may end at once
    elif _NUMBER.fullmatch(milliseconds):
        seconds = _finite(float(milliseconds) / 1000)
    elif _NUMBER.fullmatch(stated):
        seconds = _finite(float(stated))
    else:  # an HTTP date
        with suppress(ValueError, TypeError, OverflowError, IndexError):
            when = parsedate_to_datetime(stated)
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
            wait = when - (now or datetime.now(UTC))
            seconds = max(0.0, wait.total_seconds())
    return delay_in(message) if seconds is None else seconds


def delay_in(message: str) -> float | None:
    """The seconds that a message names: `Please try again in 6m0s`, `"retryDelay": "34s"`."""
    stated = _DELAY.search(message[:READ])
    if stated is None:
        return None
    seconds = 0.0
    for number, unit in _EACH.findall(stated[1].lower()):
        seconds += float(number) * _SECONDS[unit]
    return _finite(seconds)


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
