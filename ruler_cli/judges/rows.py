"""One line of a reply file → which request it answers, and the reply or what went wrong.

Files of the OpenAI batch API and what copies it (`vllm run-batch`), Anthropic's batch results, and what
an engine of one's own writes: a chat completion, or a text, beside a `custom_id`. Never raises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import orjson

from ruler_cli.judges.answer_form import reply_of
from ruler_cli.judges.error_body import error_of, status_within
from ruler_cli.judges.faults import classify, clean, refuses_format
from ruler_cli.judges.messages import completion_of_message, completion_of_text, dumped, finish_of
from ruler_cli.records import Fault, Reply

BIGGEST = 32 << 20
"""Bytes of a line that are read; a longer one holds no verdict."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a reply file: whose it is, as it says, and what came of the request.

    A Fault of scope "group" is a failure for good; any other is to be asked again, and `label` says why
    in few words, of which there are few. `model` is the name that the reply itself gives, if any.
    """

    custom_id: str
    answer: Reply | Fault
    model: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Odd:
    """A line that is no row of a reply file; `reason` is half a sentence behind the line's place."""

    reason: str


_Found = tuple[Reply | Fault, str, str]

_ENDED = {
    "batch_expired": "expired",
    "expired": "expired",
    "batch_cancelled": "canceled",
    "batch_canceled": "canceled",
    "canceled": "canceled",
    "cancelled": "canceled",
}
"""Words with which a batch says that it ended before a request was answered."""
_OWN = (
    *("id", "object", "type", "created", "model", "choices", "content", "stop_reason", "usage"),
    *("service_tier", "system_fingerprint"),
)
"""What a chat completion, or a message, has for fields; beside it stand the columns of its input."""
_ASK_FOR_LESS = (
    "so would the same request be again: ask for JSON without a schema, by giving this and `ruler score` "
    """-p 'response_format={"type":"json_object"}', or for any text, with -p response_format=null"""
)
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Anthropic's errors, which come without the status that they have."""


def read_row(line: bytes) -> Row | Odd:
    """Read one line, without its LF."""
    line = line.removeprefix(b"\xef\xbb\xbf")
    if len(line) > BIGGEST:
        return Odd("is longer than 32 MiB")
    try:
        value = _loaded(line)
        if not isinstance(value, Mapping):
            return Odd(_no_row(line, value))
        name = value.get("custom_id")
        if not isinstance(name, str):
            return Odd("has no custom_id")
        found = _found(value)
    except RecursionError:
        return Odd("is nested too deep")
    return found if isinstance(found, Odd) else Row(name, *found)


def _no_row(line: bytes, value: Any) -> str:
    if isinstance(value, list):
        return "is a JSON array, where a row on each line is wanted (jq -c '.[]' makes that of it)"
    return "is cut off or no JSON" if value is None and line.strip() != b"null" else "is no JSON object"


def _loaded(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        try:  # what holds no text may still say whose it is
            return json.loads(line.decode("utf-8", "surrogateescape"))
        except ValueError:
            return None


def _found(row: Mapping[str, Any]) -> _Found | Odd:
    result, response = row.get("result"), row.get("response")
    if isinstance(result, Mapping) and "type" in result:
        return _of_result(result)
    if isinstance(response, Mapping) and ("status_code" in response or "body" in response):
        return _of_response(response, row.get("error"))
    own = {name: row[name] for name in _OWN if name in row}
    for body in (own, row.get("body"), response, row.get("http_response")):
        if isinstance(body, Mapping) and "choices" in body:
            return _of_body(dumped(body), body)
        if isinstance(body, Mapping) and body.get("type") == "message":
            return _of_message(body)
    if error := row.get("error") or row.get("__inference_error__"):
        return _of_error(error, None)
    if finish_of(row) == "abort":
        return _again("the engine stopped before its end", "aborted")
    if (body := completion_of_text(row)) is not None:
        return _of_body(body, row)
    if "params" in row or "method" in row:
        return Odd("is a request; the file of its replies is wanted")
    return Odd("holds no reply of a known form")


def _of_result(result: Mapping[str, Any]) -> _Found | Odd:
    """Anthropic's `result`."""
    kind, message, error = result["type"], result.get("message"), result.get("error")
    if kind == "succeeded" and isinstance(message, Mapping):
        return _of_message(message)
    if kind in ("canceled", "expired"):
        return _again(f"the request {'was ' if kind == 'canceled' else ''}{kind} with its batch", kind)
    if kind != "errored" or not isinstance(error, Mapping):
        return Odd("has a result of an unknown type")
    inner = error.get("error")
    inner = inner if isinstance(inner, Mapping) else error
    status = _STATUSES.get(inner["type"]) if isinstance(inner.get("type"), str) else None
    return _of_error(inner, None) if status is None else _of_status(status, dumped({"error": inner}))


def _of_message(message: Mapping[str, Any]) -> _Found:
    body = completion_of_message(message)
    return _of_body(dumped(message) if body is None else body, message)


def _of_response(response: Mapping[str, Any], error: Any) -> _Found:
    """The `response` of OpenAI's form, and the `error` beside it."""
    status, body = _status(response.get("status_code")), response.get("body")
    if body is None:
        return _of_error(error, status) if error else _again("the row holds no answer", "no answer")
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else dumped(body)
    body = _loaded(data) if isinstance(body, str) else body
    if status is None or status < 300:
        found = _of_body(data, body)
        within = status_within(data) if isinstance(found[0], Fault) else None
        if within is None:
            return found
        status = within
    return _of_status(status, data)


def _of_body(data: bytes, told: Any) -> _Found:
    """A body that came with a good status; what is no chat completion is a Fault that carries it."""
    answer = reply_of(data)
    model = told.get("model") if isinstance(told, Mapping) else None
    name = _named(model[:300]) if isinstance(model, str) else ""
    return answer, name, "" if isinstance(answer, Reply) else "no chat completion"


def _of_status(status: int, data: bytes) -> _Found:
    """The body of an answer that says what went wrong."""
    signs, message = error_of(data)
    fault = classify(status, signs, message)
    if fault.kind != "too_long" and refuses_format(status, message):
        # no failure of this one request; a live run would ask for less by itself
        return _again(f"{fault.reason}; {_ASK_FOR_LESS}", "the answer format was refused")
    if fault.scope == "group":
        return fault, "", ""
    told = f"status {status}" if 100 <= status < 600 else "an unknown status"
    label = "rate limit" if fault.rate else f"refused, {told}" if fault.scope == "run" else told
    return fault, "", label


def _of_error(error: Any, status: int | None) -> _Found:
    """What stands in `error` where no body came: only of what is sure the last word is said.

    `vllm run-batch` gives status 400 to every exception of its engine, with the sentence for `error`.
    """
    if isinstance(error, Mapping) and isinstance(error.get("error"), Mapping):
        error = error["error"]
    code = error.get("code") if isinstance(error, Mapping) else None
    data = dumped({"error": error})
    signs, message = error_of(data)
    if isinstance(code, str) and code in _ENDED:
        return _again(clean(message or code), _ENDED[code])
    if isinstance(error, Mapping):
        status = status or _status(code)
        if status is not None and status >= 400:
            return _of_status(status, data)
    reason = f"the judge's engine failed: {clean(message or signs or 'no message')}"
    fault = classify(500, signs, message)
    if fault.kind == "too_long":
        return replace(fault, reason=reason), "", ""
    return _again(reason, "engine error")


def _again(reason: str, label: str) -> _Found:
    return Fault("transport", reason, "call"), "", label


def _status(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 4:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600 else None


@lru_cache(maxsize=64)
def _named(model: str) -> str:
    return clean(model)
