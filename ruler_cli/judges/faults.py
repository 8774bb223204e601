"""What a failed call means: status, body code and message → kind, scope and way out, in one table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ruler_cli.judges.context import context_of
from ruler_cli.judges.waits import wait_of
from ruler_cli.records import Fault, Kind

Reach = Literal["run", "group", "call", "rate"]
"""A fault's scope; "rate" is a call whose limit was passed, with nothing broken."""

_KEY = re.compile(r"\b(?:sk|pk|gsk|xai|AIza)[-_]?[A-Za-z0-9_\-*.]{8,}|\bBearer\s+\S+")
_LOGIN = re.compile(r"(?<=://)[^/@\s]{1,200}@")
_OBJECT = re.compile(r"\s?(?:ssl:)?<[\w.]+ object at 0x[0-9a-f]+>")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+")
_LONGEST = 300
_LOOKED_AT = 4000
_FORMAT = re.compile(
    r"response_format|json_object|structured output|guided|schema|grammar|output_(?:format|config)",
    re.IGNORECASE,
)
_BEGINNING = 1000
"""Characters of a message in which a form is named; a gateway may repeat the request behind them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One rule: it holds where the status is listed and the pattern, if any, is found."""

    statuses: frozenset[int]
    pattern: re.Pattern[str] | None
    kind: Kind
    reach: Reach
    way_out: str = ""

    def holds(self, status: int, text: str) -> bool:
        """Whether this row speaks of the failure."""
        return status in self.statuses and (self.pattern is None or self.pattern.search(text) is not None)


def _row(statuses: str, pattern: str, kind: Kind, reach: Reach, way: str = "") -> Row:
    listed: set[int] = set()
    for word in statuses.split():
        listed |= set(range(int(word[0]) * 100, int(word[0]) * 100 + 100)) if "xx" in word else {int(word)}
    return Row(frozenset(listed), re.compile(pattern, re.IGNORECASE) if pattern else None, kind, reach, way)


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

TABLE: tuple[Row, ...] = (
    #    status                     code or message says                    kind         reach    way out
    # money and keys
    _row("4xx",                     _SPENT,                                 "refused",   "run",   _CREDIT),
    _row("402",                     _ANY,                                   "refused",   "run",   _CREDIT),
    _row("400 403 406 422 451",     _CONTENT,                               "refused",   "group"),
    _row("401",                     _ANY,                                   "refused",   "run",   _SET_KEY),
    _row("403",                     _ANY,                                   "refused",   "run",   _ALLOW),
    _row("400 429",                 _BAD_KEY,                               "refused",   "run",   _SET_KEY),
    _row("500",                     r"exception - missing credentials",     "refused",   "run",   _GATEWAY),
    # the model and the address
    _row("404 405 410",             _ANY,                                   "refused",   "run",   _NAME),
    _row("400 422 503",             _NO_MODEL,                              "refused",   "run",   _NAME),
    _row("200",                     r"unexpected endpoint",                 "refused",   "run",   _NAME),
    _row("500",                     r"requires more system memory",         "refused",   "run",   _MEMORY),
    _row("301 302 303 307 308",     _ANY,                                   "refused",   "run",   _MOVED),
    # too long
    _row("413 429",                 r"request too large|required for long", "too_long",  "group", _TIER),
    _row("413",                     _ANY,                                   "too_long",  "group"),
    _row("400 422 500",             _LONG,                                  "too_long",  "group"),
    # limits: a day's that slides, a day's that no wait of ours outlasts, a minute's
    _row("429",                     r"try again in [0-9]",                  "transport", "rate"),
    _row("429",                     _OF_A_DAY,                              "refused",   "run",   _DAY),
    _row("429",                     r"resource.?exhausted",                 "transport", "rate"),
    _row("429",                     r"exceeded your current quota",         "refused",   "run",   _CREDIT),
    _row("429 529",                 _ANY,                                   "transport", "rate"),
    _row("400 500 503",             _BUSY,                                  "transport", "rate"),
    # the rest
    _row("408 409 424 425 499 5xx", _ANY,                                   "transport", "call"),
    _row("4xx",                     _ANY,                                   "refused",   "group"),
)  # fmt: skip
"""The first row that holds decides; what no row knows may be tried again.

Gemini and Bedrock say 400 of a bad key, a litellm proxy without a database of any but its own, xAI
and OpenRouter 403 of content, so such rows stand before their status's own.  Gemini says of a minute's
limit what OpenAI says of an empty account.
"""


def classify(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, key: str | None = None
) -> Fault:
    """The Fault of an error answer; its reason is one sentence without the key.

    `code` is whatever short signs the body has (see `error_of`), `headers` are the answer's.
    """
    message = message[:_LOOKED_AT]  # a gateway may echo the whole request
    text = f"{code[:_LOOKED_AT]} {message}"
    row = next((row for row in TABLE if row.holds(status, text)), None) or _UNKNOWN
    rate = row.reach == "rate"
    scope = _after_server("call" if row.reach == "rate" else row.reach, status, headers or {})
    said = clean(message or code or "no message", key)
    return Fault(
        row.kind,
        f"the judge answered {status}: " + (f"{said.rstrip('.')}; {row.way_out}" if row.way_out else said),
        scope,
        retry_after=wait_of(headers or {}, text, rate) if scope == "call" else None,
        context=context_of(text) if row.kind == "too_long" else None,
        billed=False,
        rate=rate,
    )


_UNKNOWN = Row(frozenset(), None, "transport", "call")


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
    """Whether an endpoint says that it does not take the answer format asked for."""
    return status in (400, 404, 415, 422, 500, 501) and _FORMAT.search(message[:_BEGINNING]) is not None


def clean(text: str, key: str | None = None) -> str:
    """Foreign text, fit for one line of a terminal, a log or a report: no key, no control, not long."""
    if key:
        text = text.replace(key, "[key]")
    text = _LOGIN.sub("[key]@", _OBJECT.sub("", _CONTROL.sub(" ", text)))
    text = _KEY.sub("[key]", text).strip()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
