"""Error responses of providers → kind, scope and remedy of a failed call, in one table.

Headers of a response tell what rate limits leave; with the message of an error they tell the seconds to wait.
A header or message about this call goes before one about a limit: `retry-after-ms` and `Retry-After`, then a
delay in the message, then `…ratelimit…reset…`. No value raises, and no result is negative, infinite or NaN. A
litellm proxy with too many calls in flight names a minute, although one of them may end at once: that is
ignored.

Reads the bodies of errors in all providers' spellings, and the context and the request's size in tokens
that the message of an error states.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple

import orjson

from ruler_cli.errors import Sentence
from ruler_cli.judges.responses import completion_of
from ruler_cli.judges.streams import chunks_of, is_stream, joined
from ruler_cli.types import (
    BOM,
    LARGEST,
    TOO_LARGE,
    CallError,
    Kind,
    Left,
    Reply,
    Secret,
    clean,
    parse_foreign,
    reply_in,
    without_key,
)

Scope = Literal["run", "group", "call"]

_FORMAT = re.compile(
    r"response_format|json_object|structured output|guided|schema|grammar|output_(?:format|config)",
    re.IGNORECASE,
)
_BEGINNING = 1000
"""Characters of a message in which an answer format is named; a repeated request stands behind them."""


class ErrorRule(NamedTuple):
    """A rule for the statuses that it lists (`5xx`: all of them), if its pattern matches.

    The scope "rate" is that of a call beyond a rate limit, with nothing broken.
    """

    statuses: str
    pattern: str
    kind: Kind
    scope: Scope | Literal["rate"]
    remedy: str = ""

    def applies(self, status: int, text: str) -> bool:
        """Tell if the rule is for this error; with a good status its words decide, as with 400."""
        statuses = self.statuses.split()
        if status < 300 and self.pattern and "200" not in statuses:
            status = 400
        listed = str(status) in statuses or f"{status // 100}xx" in statuses
        return listed and re.search(self.pattern, text, re.IGNORECASE) is not None


_CREDIT = Sentence(
    "add credit or raise the limit, or use another key with {api_key_env}"
)
_SET_KEY = Sentence(
    "set the right key, in the provider's variable or the one that {api_key_env} names"
)
_ALLOW = Sentence(
    "this key may not do that: use another key with {api_key_env}, or another model with {model}"
)
_DAY = Sentence(
    "the day's quota is used up: run again when it is renewed, or use another key with {api_key_env}"
)
_NAME = Sentence(
    "check the model's name ({model}) and the endpoint ({api_base}, which usually ends in /v1)"
)
_ADDRESS = "is the endpoint's address right? It usually ends in /v1"
_MEMORY = Sentence(
    "the server's memory does not hold this model: choose a smaller one with {model}"
)
_TIER = (
    "this account's tier takes no request of that size: raise it, or use another model"
)
_GATEWAY = Sentence(
    "the gateway has no key for this model: set it there, or use another model with {model}"
)
_MOVED = Sentence(
    "the endpoint redirects elsewhere, and no key is sent there; give the address it names as {api_base}"
)

_LEAVE = Sentence("this model reads no pictures: give {pictures:leave}")
_FEWER = Sentence("show fewer with {most_pictures}, or none with {pictures:leave}")
_SMALLER = (
    "with Pillow, `pip install 'ruler-cli[pictures]'`, large pictures are made smaller"
)
_LOGIN = "the proxy asks for a name and a password: http://NAME:PASSWORD@HOST:PORT in HTTPS_PROXY"
_RESPONSES = Sentence(
    "it is answered at /v1/responses only: name it openai/NAME, with {api_base} if it is not OpenAI's own "
    "(Azure's ends in /openai/v1)"
)

_ANY = ""
RESPONSES_ONLY = r"v1/responses|not a chat model|chatCompletion operation does not work"
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
_PICTURES = (
    r"too (?:many|much) (?:image|picture|media)|many-image|(?:number|count) of image|image (?:count|limit)"
    r"|max\w* images|limit.mm.(?:per|data)"
    r"|(?:at most|up to|max\w*(?: of| is)?|only \w+|fewer than|more than|limit(?: of| is)?) \d+ image"
    r"|\d+ images?\b.{0,40}(?:exceed|max|limit| > )"
)
_PIXELS = (
    r"image.{0,60}(?:dimension|pixel|resolution|too large)|image.{0,20}exceeds .{0,9}MB"
)
_MANY = "many-image"
"""Word of Anthropic's error for a request of more than _MANY_FROM pictures, some larger than others may be."""
_MANY_FROM = 20
_OF_A_DAY = r"per.?day|daily|limit: 0, model"
_BUSY = r"rate.?limit|overloaded|server (?:is )?busy|pending requests|slow down|too many requests|throttl|queue is full"

TABLE: tuple[ErrorRule, ...] = (
    #         status                  code or message says                   kind         scope    remedy
    # money and keys
    ErrorRule("4xx",                  _SPENT,                                 "refused",   "run",   _CREDIT),
    ErrorRule("402",                  _ANY,                                   "refused",   "run",   _CREDIT),
    ErrorRule("400 403 406 422 451",  _CONTENT,                               "refused",   "group"),
    ErrorRule("401",                  _ANY,                                   "refused",   "run",   _SET_KEY),
    ErrorRule("403",                  _ANY,                                   "refused",   "run",   _ALLOW),
    ErrorRule("400 429",              _BAD_KEY,                               "refused",   "run",   _SET_KEY),
    ErrorRule("500",                  r"exception - missing credentials",     "refused",   "run",   _GATEWAY),
    ErrorRule("407",                  _ANY,                                   "refused",   "run",   _LOGIN),
    # the model and the address
    ErrorRule("400 404",              RESPONSES_ONLY,                         "refused",   "run",   _RESPONSES),
    ErrorRule("404 405 410",          _ANY,                                   "refused",   "run",   _NAME),
    ErrorRule("400 422 503",          _NO_MODEL,                              "refused",   "run",   _NAME),
    ErrorRule("200",                  r"unexpected endpoint",                 "refused",   "run",   _NAME),
    ErrorRule("500",                  r"requires more system memory",         "refused",   "run",   _MEMORY),
    ErrorRule("301 302 303 307 308",  _ANY,                                   "refused",   "run",   _MOVED),
    # too long
    ErrorRule("400 422",              r"at most 0 image",                     "refused",   "group", _LEAVE),
    ErrorRule("400 413 422 500",      _MANY,                                  "too_long",  "group", _SMALLER),
    ErrorRule("400 413 422 500",      _PICTURES,                              "too_long",  "group", _FEWER),
    ErrorRule("400 413 422",          _PIXELS,                                "refused",   "group", _SMALLER),
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
"""The first rule that applies decides; an error without a rule may be tried again.

Gemini and Bedrock have 400 for a bad key, a litellm proxy without a database for any key but its own, xAI
and OpenRouter 403 for content, so such rules stand before their status's own. Gemini's message for a limit
per minute is OpenAI's for an empty account.
"""

_AGAIN = ErrorRule("", _ANY, "transport", "call")


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
    # the server's own header on another try
    retry = low.get("x-should-retry", "").lower()
    if scope == "call" and retry == "false":
        scope = "group"
    elif scope == "group" and retry == "true" and status >= 400:
        scope = "call"
    location = low.get("location", "") if status < 400 else ""
    said = message or codes or location.removesuffix("/chat/completions")
    reason = f"{who} answered {status}: {clean(said or 'no message', key)}"
    if rule.remedy:
        begun = reason.rstrip(".")
        reason = Sentence("{reason}; {remedy}", reason=begun, remedy=rule.remedy)
    return CallError(
        rule.kind,
        reason,
        scope,
        retry_after=retry_after(low, text, rate) if scope == "call" else None,
        context=context_of(text) if rule.kind == "too_long" else None,
        billed=False,
        rate=rate,
    )


def refuses_format(status: int, message: str) -> bool:
    """Tell if an endpoint refuses the answer format that a request asks for."""
    named = _FORMAT.search(message[:_BEGINNING])
    return status in (400, 404, 415, 422, 500, 501) and named is not None


_N = r"{0,200}?\b"
_LIMIT = r"(?P<limit>\d{1,9})"
_ACTUAL = r"(?P<actual>\d{1,9})"
_CONTEXTS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # SGLang, prompt and answer together
        rf"maximum context length (?:is|of) {_LIMIT}\b.{_N}{_ACTUAL} tokens from the input",
        # OpenAI, OpenRouter, DeepSeek, vLLM: the messages alone if they are named
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
        # a litellm proxy's own check, before any provider is called
        rf"Max Input Tokens={_LIMIT}, Got={_ACTUAL}",
        # TGI, Together
        rf"must (?:be <=|have less than) {_LIMIT}\b.{_N}given: {_ACTUAL}\b",
        # OpenAI and Groq, for a tier's tokens per minute
        rf"request too large.{_N}limit {_LIMIT}, requested {_ACTUAL}",
    )
)


def context_of(text: str) -> tuple[int, int] | None:
    """(limit, actual) in tokens, as the judge's own message states them; None if it does not."""
    for pattern in _CONTEXTS:
        if stated := pattern.search(text[:READ]):
            return int(stated["limit"]), int(stated["actual"])
    return None


_COUNT = re.compile(r"(?<![\w./-])\d{1,5}(?![\w/-]|\.\w)")


def most_pictures(error: CallError, sent: int) -> int:
    """Return the most pictures of a request that an error allows, less than were sent; 0 if they are not its cause.

    Of the numbers in the message the limit is the greatest below those sent. Without any half are tried.
    """
    _, _, message = error.reason.partition(": ")
    if error.kind != "too_long" or not re.search(_PICTURES, message, re.IGNORECASE):
        return 0
    stated = [_MANY_FROM] if _MANY in message else map(int, _COUNT.findall(message))
    limit = max((each for each in stated if 0 < each < sent), default=sent // 2)
    return limit - ("fewer than" in message)


_CODES = (
    "code",
    "type",
    "status",
    "error_type",
    "__type",
    "reason",
    "quotaId",
    "retryDelay",
)
"""Keys whose short values tell the kind of an error, at any depth."""
_SHORT = 100
_DEEP = 6
_MOST = 30
_TITLE = re.compile(r"<title[^>]{0,200}>(.{1,200}?)</title", re.IGNORECASE | re.DOTALL)
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
    if is_stream(data):
        completion = joined(chunks_of(data))
        if completion is not None:
            data = orjson.dumps(completion)
        elif status < 300:
            broke = "the stream of the judge's answer broke before its end"
            return CallError("transport", broke, "call")
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
        if value.get("object") == "response":
            value = completion_of(value)
            data = orjson.dumps(value)
    reply = reply_in(value, data, key)
    if isinstance(reply, Reply):
        return replace(reply, left=left_of(headers))
    if not data.lstrip().startswith(b"<"):
        return reply
    page = clean(_page(data), key)
    return replace(reply, reason=f"{reply.reason} but a web page ({page}); {_ADDRESS}")


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
        return None if message.get("content") and choice["finish_reason"] else beside
    return None


def _error_response(error: Any, headers: Mapping[str, str]) -> ErrorResponse:
    """Return the response that an error inside a good one stands for: with the status that it names, else 200."""
    status = 200
    with suppress(AttributeError, LookupError, TypeError):
        codes = [str(error.get(name)) for name in ("code", "status", "status_code")]
        status = int(next(filter(_STATUS.fullmatch, codes), status))
        # OpenRouter: those of the provider
        headers = {**headers, **error["metadata"]["headers"]}
    return ErrorResponse(status, *error_of(orjson.dumps({"error": error})), headers)


def error_of(data: bytes) -> tuple[str, str]:
    """(codes, message) of an error body: its short codes in one line, and its message."""
    data = data.removeprefix(BOM)
    try:
        value = parse_foreign(data)
    except orjson.JSONDecodeError:
        return "", _page(data)
    if isinstance(value, list) and value:  # Gemini's OpenAI endpoint
        value = value[0]
    if not isinstance(value, Mapping):
        return "", str(value)[:_LONGEST]
    codes = " ".join(list(_codes(value, _DEEP))[:_MOST])
    error = value.get("error") or value
    if not isinstance(error, Mapping):
        return codes, str(error)[:_LONGEST]
    named = error.get("message") or error.get("detail") or error.get("msg")
    text = _text(named or error)
    message = _ASIDE.split(text[:_LONGEST], maxsplit=1)[0].rstrip()
    metadata = error.get("metadata")
    if isinstance(metadata, Mapping) and (raw := metadata.get("raw")):
        message += f": {_text(raw)}"  # OpenRouter: the provider's message
    return codes, message[:_LONGEST]


def _codes(value: Any, deep: int) -> Iterator[str]:
    """The short codes of a body, down to `deep` levels."""
    if isinstance(value, list):
        for one in value[:_MOST]:
            yield from _codes(one, deep)
    if not isinstance(value, Mapping) or not deep:
        return
    for name, one in value.items():
        if name in _CODES and isinstance(one, str | int) and len(str(one)) <= _SHORT:
            yield f"{name}: {one}" if name == "retryDelay" else str(one)
        elif name not in ("input", "message"):  # FastAPI gives the request back
            yield from _codes(one, deep - 1)


def _text(message: Any) -> str:
    """A message as one text; FastAPI's is a list of places and messages."""
    if isinstance(message, list):
        parts = (
            f"{one.get('loc', '')}: {one.get('msg', '')}"
            for one in message
            if isinstance(one, Mapping)
        )
        return "; ".join(parts) or str(message)
    return str(message)


def _page(data: bytes) -> str:
    """The title of an HTML page, else its words, else the text as it is."""
    text = data[: 4 * _LONGEST].decode("utf-8", "replace")
    title = _TITLE.search(text)
    return " ".join((title[1] if title else _TAG.sub(" ", text)).split())[:_LONGEST]


READ = 4000
"""Characters of a message that are read; a gateway may repeat the whole request."""
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_PART = r"([0-9]+(?:\.[0-9]+)?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)"
_DURATION = re.compile(rf"(?:{_PART}(?![a-z])\s*)+", re.IGNORECASE)
_EACH = re.compile(_PART, re.IGNORECASE)
_UNITS = {"ms": 0.001, "mil": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds of each unit, by the letters that it begins with; the first that fits counts."""
_LEAD = re.compile(
    r"(?:(?:try again|retry|wait)(?: again)? (?:in|after|for)|please wait|retryDelay\W{1,4})\s*(?=[0-9])",
    re.IGNORECASE,
)
_IN_FLIGHT = "max_parallel_requests"
"""A litellm proxy's name of a limit that is no rate; its header `rate_limit_type` names the exceeded one."""
_VALUE = 100
_EPOCH = 1e9
_EPOCH_MS = 1e11
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
    left = Left(_left(headers, _REQUESTS), _left(headers, _TOKENS))
    return None if left == Left() else left


def _left(headers: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        if number := _LEFT.fullmatch(str(headers.get(name))[:_VALUE]):
            return 0 if number[1] else int(number[2])
    return None


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with names in lower case, without the prefix that litellm puts before some."""
    return {
        name.lower().removeprefix("llm_provider-"): str(value).strip()
        for name, value in headers.items()
    }


def retry_after(
    headers: Mapping[str, str], message: str, rate: bool, now: datetime | None = None
) -> float | None:
    """The seconds that a failed call is asked to wait; None if its headers and message name none.

    `headers` are lowered. Some providers send the resets of limits with every response, so they count only
    if a limit was exceeded (`rate`).
    """
    now = now or datetime.now(UTC)
    seconds = None
    if headers.get("rate_limit_type") != _IN_FLIGHT:
        fine = headers.get("retry-after-ms", "")
        coarse = _seconds(headers.get("retry-after", ""), now)
        seconds = _finite(float(fine) / 1000) if _NUMBER.fullmatch(fine) else coarse
    if seconds is None:
        seconds = delay_in(message)
    if seconds is not None or not rate:
        return seconds
    # the latest reset of an exhausted limit; the next reset if no remainder is named
    resets = [
        (headers.get(name.replace("reset", "remaining"), ""), _seconds(value, now))
        for name, value in headers.items()
        if "ratelimit" in name and "reset" in name
    ]
    waits = [(left, wait) for left, wait in resets if wait is not None]
    named = [(float(left), wait) for left, wait in waits if _NUMBER.fullmatch(left)]
    if named:
        return max((wait for left, wait in named if left <= 0), default=None)
    return min((wait for _, wait in waits if wait), default=None)


def delay_in(message: str) -> float | None:
    """The seconds that a message names: `Please try again in 6m0s`, `"retryDelay": "34s"`."""
    message = message[:READ]
    for lead in _LEAD.finditer(message):
        if duration := _DURATION.match(message, lead.end()):
            return _finite(_span(duration[0]))
    return None


def _seconds(value: str, now: datetime) -> float | None:
    """The seconds of a header's value: a span, or a time in any of its forms, from `now` on."""
    if not value or len(value) > _VALUE:
        return None
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number < _EPOCH:
            return _finite(number)
        return _finite(number / (1 if number < _EPOCH_MS else 1000) - now.timestamp())
    if _DURATION.fullmatch(value):
        return _finite(_span(value))
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError, OverflowError, IndexError):
            when = read(value)
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
            return _finite((when - now).total_seconds())
    return None


def _span(text: str) -> float:
    """The seconds of a span such as `1m30s`."""
    return sum(
        float(number) * next(n for start, n in _UNITS.items() if unit.startswith(start))
        for number, unit in _EACH.findall(text.lower())
    )


def _finite(seconds: float) -> float | None:
    return max(0.0, seconds) if math.isfinite(seconds) else None
