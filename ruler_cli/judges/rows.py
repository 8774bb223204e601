"""One line of a reply file → which request it answers, and the reply or what went wrong.

Files of the OpenAI batch API and what copies it (`vllm run-batch`), Anthropic's batch results, and what
an engine of one's own writes: a chat completion, or a text, beside a `custom_id`. Never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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


_Found = tuple[Reply | Fault, str, str]
"""The answer, the model and the label of a row."""

_ENDED = {"expired": "expired", "cancelled": "canceled", "canceled": "canceled"}
"""Words with which a batch says, also as `batch_expired`, that it ended before a request was answered."""
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


def read_row(line: bytes) -> Row | str:
    """Read one line, without its LF; of what is no row half a sentence that says why."""
    line = line.removeprefix(b"\xef\xbb\xbf")
    if len(line) > BIGGEST:
        return "is longer than 32 MiB"
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "is cut off or no JSON"
    if isinstance(value, list):
        return "is a JSON array, where a row on each line is wanted (jq -c '.[]' makes that of it)"
    if not isinstance(value, Mapping):
        return "is no JSON object"
    name = value.get("custom_id")
    if not isinstance(name, str):
        return "has no custom_id"
    try:
        found = next((found for form in _FORMS if (found := form(value)) is not None), None)
    except RecursionError:
        return "is nested too deep"
    if found is None:
        return "holds no reply of a known form"
    return found if isinstance(found, str) else Row(name, *found)


def _result(row: Mapping[str, Any]) -> _Found | str | None:
    """Anthropic's batch results."""
    result = row.get("result")
    if not isinstance(result, Mapping) or "type" not in result:
        return None
    kind, message, error = result["type"], result.get("message"), result.get("error")
    if kind == "succeeded" and isinstance(message, Mapping):
        return _of_message(message)
    if kind in ("canceled", "expired"):
        return _again(f"the request {'was ' if kind == 'canceled' else ''}{kind} with its batch", kind)
    if kind != "errored" or not isinstance(error, Mapping):
        return "has a result of an unknown type"
    inner = error.get("error")
    inner = inner if isinstance(inner, Mapping) else error
    status = _STATUSES.get(inner["type"]) if isinstance(inner.get("type"), str) else None
    return _of_error(inner, None) if status is None else _of_status(status, dumped({"error": inner}))


def _response(row: Mapping[str, Any]) -> _Found | None:
    """OpenAI's output and error files: a `response`, and an `error` beside it."""
    response, error = row.get("response"), row.get("error")
    if not isinstance(response, Mapping) or not ("status_code" in response or "body" in response):
        return None
    status, body = _status(response.get("status_code")), response.get("body")
    if body is None:
        return _of_error(error, status) if error else _again("the row holds no answer", "no answer")
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else dumped(body)
    if status is None or status < 300:
        found = _of_body(data, None if isinstance(body, str) else body)
        within = status_within(data) if isinstance(found[0], Fault) else None
        if within is None:
            return found
        status = within
    return _of_status(status, data)


def _completion(row: Mapping[str, Any]) -> _Found | None:
    """A chat completion, or a message of Anthropic's, wherever an engine puts it."""
    own = {name: row[name] for name in _OWN if name in row}
    for body in (own, row.get("body"), row.get("response"), row.get("http_response")):
        if isinstance(body, Mapping) and "choices" in body:
            return _of_body(dumped(body), body)
        if isinstance(body, Mapping) and body.get("type") == "message":
            return _of_message(body)
    return None


def _error(row: Mapping[str, Any]) -> _Found | None:
    """An error alone: OpenAI's, Ray's, or SGLang's word for a request that it broke off."""
    if error := row.get("error") or row.get("__inference_error__"):
        return _of_error(error, None)
    return _again("the engine stopped before its end", "aborted") if finish_of(row) == "abort" else None


def _text(row: Mapping[str, Any]) -> _Found | None:
    """The text of an answer, as an engine of one's own writes it."""
    body = completion_of_text(row)
    return None if body is None else _of_body(body, row)


def _request(row: Mapping[str, Any]) -> str | None:
    """A request of ours."""
    asked = "params" in row or "method" in row
    return "is a request; the file of its replies is wanted" if asked else None


_FORMS: tuple[Callable[[Mapping[str, Any]], _Found | str | None], ...] = (
    _result,
    _response,
    _completion,
    _error,
    _text,
    _request,
)
"""The forms of a row: the first one that it has decides."""


def _of_message(message: Mapping[str, Any]) -> _Found:
    body = completion_of_message(message)
    return _of_body(dumped(message) if body is None else body, message)


def _of_body(data: bytes, told: Any = None) -> _Found:
    """A body that came with a good status, `told` is what it holds; no chat completion is a Fault with it."""
    answer = reply_of(data)
    told = orjson.loads(data) if told is None and isinstance(answer, Reply) else told
    model = told.get("model") if isinstance(told, Mapping) else None
    name = clean(model[:300]) if isinstance(model, str) else ""
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
    if isinstance(code, str) and (label := _ENDED.get(code.removeprefix("batch_"))):
        return _again(clean(message or code), label)
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
