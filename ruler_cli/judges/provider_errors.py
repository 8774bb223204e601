"""Meaning of a failed call: status, body code and message → kind, scope and way out, in one table.

The judge's context and a request's size, as the judge's own message states them.

How long a server asks to wait: every spelling of it, in headers and in messages.

What names this call's own wait wins over what names a limit's reset: `retry-after-ms` and
`Retry-After`, then a delay in the message, then `…ratelimit…reset…`.  No value, however odd,
raises; none is negative, infinite or no number.  A litellm proxy that has too many calls in flight
names a minute, though there is room as soon as one of them ends: that is not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple

from ruler_cli.answer import clean
from ruler_cli.types import CallError, Kind

Reach = Literal["run", "group", "call", "rate"]
"""A fault's scope; "rate" is a call whose limit was passed, with nothing broken."""

_LOOKED_AT = 4000
_FORMAT = re.compile(
    r"response_format|json_object|structured output|guided|schema|grammar|output_(?:format|config)",
    re.IGNORECASE,
)
_BEGINNING = 1000
"""Characters of a message in which a form is named; a gateway may repeat the request behind them."""


class ErrorRule(NamedTuple):
    """A rule for the statuses that it lists (`5xx`: all of them), if its pattern is found."""

    statuses: str
    pattern: str
    kind: Kind
    reach: Reach
    way_out: str = ""

    def holds(self, status: int, text: str) -> bool:
        """Tell if this row speaks of the failure."""
        listed = self.statuses.split()
        known = str(status) in listed or f"{status // 100}xx" in listed
        return known and re.search(self.pattern, text, re.IGNORECASE) is not None


_CREDIT = "add credit or raise the limit, or use another key with --api-key-env"
_SET_KEY = "set the right key, in the provider's variable or the one that --api-key-env names"
_ALLOW = "this key may not do that: use another key with --api-key-env, or another model with -m"
_DAY = "the day's quota is used up: run again when it is renewed, or use another key with --api-key-env"
_NAME = "check the model's name (-m) and the endpoint (--api-base, which usually ends in /v1)"
_MEMORY = "the server's memory does not hold this model: choose a smaller one with -m"
_TIER = "this account's tier takes no request of that size: raise it, or use another model with -m"
_GATEWAY = "the gateway has no key for this model: set it there, or use another model with -m"
_MOVED = "the endpoint sends elsewhere, where a key must not follow; give its real address as --api-base"

_ANY = ""
_SPENT = (
    r"insufficient_quota|exceeded_current_quota|insufficient.{0,9}(?:credit|balance|funds)|credit balance"
    r"|billing_(?:hard_limit|not_active|error)|billing hard limit|account is not active"
    r"|reached your specified \w+ usage limits"
    r"|budget_exceeded|Budget has been exceeded!|ExceededBudget|crossed budget"
)
_CONTENT = (
    r"content.{0,3}(?:policy|filter|management|exists risk|moderation)|ResponsibleAIPolicy|violates? usage"
    r"|SAFETY_CHECK|requires moderation|(?:input|prompt) was flagged|usage policy|data_inspection_failed"
    r"|inappropriate content"
)
_BAD_KEY = (
    r"api.?key (?:not valid|expired|is invalid)|API_KEY_INVALID|invalid.api.key|incorrect api key"
    r"|access was terminated|account.{0,40}(?:deactivated|suspended)|location is not supported"
    r"|no_db_connection"
)
_NO_MODEL = (
    r"model.{0,60}(?:not found|not exist|decommissioned)|model_not_found|unknown model|invalid model"
    r"|model identifier is invalid|on-demand throughput isn.t supported|not a valid model"
)
_LONG = (
    r"context.?(?:length|window|size|limit)|prompt is too long|too long for requested model|string too long"
    r"|too many (?:input )?tokens|max\w* (?:prompt|input|model|allowed) length|longer than the m"
    r"|token count.{0,40}exceed|input.{0,9}(?:length|tokens) exceed|exceed_context|max_new_tokens. must be"
    r"|must have less than \d+ tokens|reduce the length|too large for model|request_too_large"
)
_OF_A_DAY = r"per.?day|daily|limit: 0, model"
_BUSY = r"overloaded|server (?:is )?busy|pending requests|slow down|too many requests|throttl|queue is full"

TABLE: tuple[ErrorRule, ...] = (
    #         status                  code or message says                   kind         reach    way out
    # money and keys
    ErrorRule("4xx",                  _SPENT,                                 "refused",   "run",   _CREDIT),
    ErrorRule("402",                  _ANY,                                   "refused",   "run",   _CREDIT),
    ErrorRule("400 403 406 422 451",  _CONTENT,                               "refused",   "group"),
    ErrorRule("401",                  _ANY,                                   "refused",   "run",   _SET_KEY),
    ErrorRule("403",                  _ANY,                                   "refused",   "run",   _ALLOW),
    ErrorRule("400 429",              _BAD_KEY,                               "refused",   "run",   _SET_KEY),
    ErrorRule("500",                  r"exception - missing credentials",     "refused",   "run",   _GATEWAY),
    # the model and the address
    ErrorRule("404 405 410",          _ANY,                                   "refused",   "run",   _NAME),
    ErrorRule("400 422 503",          _NO_MODEL,                              "refused",   "run",   _NAME),
    ErrorRule("200",                  r"unexpected endpoint",                 "refused",   "run",   _NAME),
    ErrorRule("500",                  r"requires more system memory",         "refused",   "run",   _MEMORY),
    ErrorRule("301 302 303 307 308",  _ANY,                                   "refused",   "run",   _MOVED),
    # too long
    ErrorRule("413 429",              r"request too large|required for long", "too_long",  "group", _TIER),
    ErrorRule("413",                  _ANY,                                   "too_long",  "group"),
    ErrorRule("400 422 500",          _LONG,                                  "too_long",  "group"),
    # limits: a day's that slides, a day's that no wait of ours outlasts, a minute's
    ErrorRule("429",                  r"try again in [0-9]",                  "transport", "rate"),
    ErrorRule("429",                  _OF_A_DAY,                              "refused",   "run",   _DAY),
    ErrorRule("429",                  r"resource.?exhausted",                 "transport", "rate"),
    ErrorRule("429",                  r"exceeded your current quota",         "refused",   "run",   _CREDIT),
    ErrorRule("429 529",              _ANY,                                   "transport", "rate"),
    ErrorRule("400 500 503",          _BUSY,                                  "transport", "rate"),
    # the rest
    ErrorRule("408 409 424 425 499 5xx",_ANY,                                   "transport", "call"),
    ErrorRule("4xx",                  _ANY,                                   "refused",   "group"),
)  # fmt: skip
"""The first row that holds decides; what no row knows may be tried again.

Gemini and Bedrock say 400 of a bad key, a litellm proxy without a database of any but its own, xAI
and OpenRouter 403 of content, so such rows stand before their status's own.  Gemini says of a minute's
limit what OpenAI says of an empty account.
"""


class Refusal(NamedTuple):
    """An error answer, as it came; `form` is its word on the form of the answer, if the message has none."""

    status: int
    signs: str
    message: str
    headers: Mapping[str, str]
    form: str = ""


def classify(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, key: str | None = None
) -> CallError:
    """The CallError of an error answer; its reason is one sentence without the key.

    `code` is whatever short signs the body has (see `error_of`), `headers` are the answer's.
    """
    message = message[:_LOOKED_AT]  # a gateway may echo the whole request
    text = f"{code[:_LOOKED_AT]} {message}"
    row = next((row for row in TABLE if row.holds(status, text)), ErrorRule("", "", "transport", "call"))
    rate = row.reach == "rate"
    scope = _after_server("call" if row.reach == "rate" else row.reach, status, headers or {})
    said = clean(message or code or "no message", key)
    return CallError(
        row.kind,
        f"the judge answered {status}: " + (f"{said.rstrip('.')}; {row.way_out}" if row.way_out else said),
        scope,
        retry_after=wait_of(headers or {}, text, rate) if scope == "call" else None,
        context=context_of(text) if row.kind == "too_long" else None,
        billed=False,
        rate=rate,
    )


def _after_server(
    scope: Literal["run", "group", "call"], status: int, headers: Mapping[str, str]
) -> Literal["run", "group", "call"]:
    """The scope, after what the server itself says of another try."""
    word = next((v.strip().lower() for n, v in headers.items() if n.lower() == "x-should-retry"), "")
    if word == "false" and scope == "call":
        return "group"
    if word == "true" and scope == "group" and status >= 400:
        return "call"
    return scope


def refuses_format(status: int, message: str) -> bool:
    """Tell if an endpoint says that it does not take the answer format asked for."""
    return status in (400, 404, 415, 422, 500, 501) and _FORMAT.search(message[:_BEGINNING]) is not None


_N = r"{0,200}?\b"
_LIMIT, _ACTUAL = r"(?P<limit>\d{1,9})", r"(?P<actual>\d{1,9})"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE | re.DOTALL)
    for form in (
        # SGLang, of prompt and answer together
        rf"maximum context length (?:is|of) {_LIMIT}\b.{_N}{_ACTUAL} tokens from the input",
        # OpenAI, OpenRouter, DeepSeek, vLLM: the messages alone where they are told apart
        rf"maximum context length (?:is|of) {_LIMIT}\b.{_N}{_ACTUAL} (?:in the messages|of text input)",
        rf"maximum context length (?:is|of) {_LIMIT}\b.{_N}{_ACTUAL} (?:input )?tokens",
        rf"passed {_ACTUAL} input tokens.{_N}context length is only {_LIMIT}",
        rf"prompt \(length {_ACTUAL}\) is longer than the maximum model length of {_LIMIT}",
        # SGLang
        rf"input \({_ACTUAL} tokens\) is longer than the model's context length \({_LIMIT}",
        rf"input length \({_ACTUAL} tokens\) exceeds the maximum allowed length \({_LIMIT}",
        # Anthropic
        rf"prompt is too long: {_ACTUAL} tokens > {_LIMIT}",
        rf"exceed context limit: {_ACTUAL} \+ \d{{1,9}} > {_LIMIT}",
        # Gemini
        rf"input token count \({_ACTUAL}\) exceeds the maximum number of tokens allowed \({_LIMIT}",
        # llama.cpp
        rf"request \({_ACTUAL} tokens\) exceeds the available context size \({_LIMIT}",
        # xAI
        rf"maximum prompt length is {_LIMIT}\b.{_N}{_ACTUAL} tokens",
        # Mistral
        rf"prompt contains {_ACTUAL} tokens.{_N}model with {_LIMIT} maximum context",
        # Fireworks
        rf"prompt is too long: {_ACTUAL}, model maximum context length: {_LIMIT}",
        # Cerebras
        rf"current length is {_ACTUAL} while limit is {_LIMIT}",
        # a litellm proxy's own check, before it asks anyone
        rf"Max Input Tokens={_LIMIT}, Got={_ACTUAL}",
        # TGI, Together
        rf"must (?:be <=|have less than) {_LIMIT}\b.{_N}given: {_ACTUAL}\b",
        # OpenAI and Groq, of a tier's tokens per minute
        rf"request too large.{_N}limit {_LIMIT}, requested {_ACTUAL}",
    )
)


def context_of(text: str) -> tuple[int, int] | None:
    """(limit, actual) tokens as the judge's own message states them."""
    for form in _FORMS:
        found = form.search(text[:_LOOKED_AT])
        if found:
            return int(found["limit"]), int(found["actual"])
    return None


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
_VALUE = 100
_EPOCH, _EPOCH_MS = 1e9, 1e11
"""A number from here on is no span but a time: seconds since 1970, or milliseconds."""


def wait_of(
    headers: Mapping[str, str], message: str, rate: bool, now: datetime | None = None
) -> float | None:
    """Seconds that a failed call is asked to wait, from its headers and its message.

    The resets of limits are on every answer of some providers, so they count only where a limit
    was passed (`rate`).
    """
    # litellm puts a word of its own before the names
    low = {str(k).lower().removeprefix("llm_provider-"): str(v).strip() for k, v in headers.items()}
    told, now = _IN_FLIGHT_NOW.search(message[:_LOOKED_AT]), now or datetime.now(UTC)
    if told and int(told[1]) >= int(told[2]):
        return None
    asked = None
    if low.get("rate_limit_type") != _IN_FLIGHT:
        fine = low.get("retry-after-ms", "")
        coarse = _seconds(low.get("retry-after", ""), now)
        asked = _finite(float(fine) / 1000) if _NUMBER.fullmatch(fine) else coarse
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


def _reset(low: Mapping[str, str], now: datetime) -> float | None:
    """The latest reset of what is used up; where nothing tells what is, the earliest to come."""
    waits, told = list[float](), list[tuple[float, float]]()
    for name, value in low.items():
        if "ratelimit" in name and "reset" in name and (wait := _seconds(value, now)) is not None:
            waits.append(wait)
            left = low.get(name.replace("reset", "remaining"), "")
            if _NUMBER.fullmatch(left):
                told.append((wait, float(left)))
    if told:
        return max((wait for wait, left in told if left <= 0), default=None)
    return min((wait for wait in waits if wait > 0), default=None)


def _seconds(value: str, now: datetime) -> float | None:
    """Seconds until what a header value names: a span, or a time in any of its forms."""
    if not value or len(value) > _VALUE:
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
    """Return the seconds of a span such as `1m30s`."""
    parts = ((float(part[1]), part[2].lower()) for part in _EACH.finditer(text))
    return sum(number * next(n for start, n in _UNITS if unit.startswith(start)) for number, unit in parts)


def _finite(seconds: float) -> float | None:
    return max(0.0, seconds) if math.isfinite(seconds) else None
