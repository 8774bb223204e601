"""One line of a reply file → the id of its request, and the reply or an error.

Read are output files of the OpenAI batch API and of tools that copy it (`vllm run-batch`), Anthropic's batch
results, and rows of other engines: a chat completion, or a text, beside a `custom_id`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ruler_cli.judges.provider_errors import (
    ErrorResponse,
    classify,
    error_of,
    read_response,
    refuses_format,
)
from ruler_cli.types import CallError, Reply, clean, parse_foreign, reply_of

MAX_LINE_BYTES, TOO_LONG = 32 << 20, "is longer than 32 MiB"
"""Bytes of the longest line that is read."""


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """A row of a reply file: the id of its request, and the reply or an error.

    A CallError of scope "group" is a failure for good. After any other error the request is to be sent again;
    `label` is the reason in a few words, from a small set. `model` is the name in the reply, "" without any.
    """

    custom_id: str
    answer: Reply | CallError
    model: str = ""
    label: str = ""

    @property
    def lasts(self) -> bool:
        """Tell if the ledger stores the answer; an error that a further request may avoid is not stored."""
        if isinstance(self.answer, Reply) or self.answer.scope == "group":
            return True
        return self.answer.scope == "call" and bool(self.answer.body)


_Parsed = tuple[Reply | CallError, str, str]
"""Answer, model and label of a row."""

_ENDED = {"expired": "expired", "cancelled": "canceled", "canceled": "canceled"}
"""Error codes, also with the prefix `batch_`, of requests that were not processed when the batch ended."""
_COMPLETION_FIELDS = (
    *(
        "id",
        "object",
        "type",
        "created",
        "model",
        "choices",
        "content",
        "stop_reason",
        "usage",
    ),
    *("service_tier", "system_fingerprint"),
)
"""Fields of a chat completion or a message; other fields of the row are columns of its input."""
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
"""HTTP statuses of Anthropic's error types; its batch results hold the type alone."""

_TEXT_FIELDS = ("generated_text", "output", "text", "response")
"""Fields with the answer in an engine's row, the most reliable first: `text` may be a column of the input."""
_PROMPT_TOKENS = ("prompt_tokens", "num_input_tokens", "input_tokens")
_COMPLETION_TOKENS = ("completion_tokens", "num_generated_tokens", "output_tokens")
_JSON_TOOL = "json_tool_call"
"""Tool through which litellm requests JSON from a model without schema support."""
_FINISHES = {
    "max_tokens": "length",
    "length": "length",
    "compaction": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}
"""Finish reason → finish reason of a chat completion; any other reason is `stop`."""


def read_row(line: bytes) -> ReplyRow | str:
    """Parse one line, without its LF; never raises. If it is no row, return why in half a sentence."""
    line = line.removeprefix(b"\xef\xbb\xbf")
    if len(line) > MAX_LINE_BYTES:
        return TOO_LONG
    try:
        value = parse_foreign(line)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(line)  # NaN, as Python writes it
        except (ValueError, RecursionError):
            return "is cut off or no JSON"
    if isinstance(value, list):
        return "is a JSON array, where a row on each line is wanted (jq -c '.[]' makes that of it)"
    if not isinstance(value, Mapping):
        return "is no JSON object"
    name = value.get("custom_id")
    if not isinstance(name, str):
        return "has no custom_id"
    try:
        parsed = _parse(value)
    except (RecursionError, TypeError):  # orjson reads deeper nesting than it writes
        return "is nested too deep, or holds what is no text"
    return parsed if isinstance(parsed, str) else ReplyRow(name, *parsed)


def _parse(row: Mapping[str, Any]) -> _Parsed | str:
    """Parse a row of any known form, else return why not; the first form that fits decides."""
    result, response = row.get("result"), row.get("response")
    if isinstance(result, Mapping) and "type" in result:
        return _of_result(result)
    if isinstance(response, Mapping) and (
        "status_code" in response or "body" in response
    ):
        return _of_response(response, row.get("error"))
    own = {name: row[name] for name in _COMPLETION_FIELDS if name in row}
    for body in (own, row.get("body"), response, row.get("http_response")):
        if isinstance(body, Mapping) and "choices" in body:
            return _with_model(reply_of(orjson.dumps(body)), body)
        if isinstance(body, Mapping) and body.get("type") == "message":
            return _of_message(body)
    if error := row.get("error") or row.get("__inference_error__"):  # of OpenAI, of Ray
        return _of_error(error, None)
    if _finish_of(row) == "abort":  # of SGLang
        return _again("the engine stopped before its end", "aborted")
    text = next(
        (row[name] for name in _TEXT_FIELDS if isinstance(row.get(name), str)), None
    )
    if text is not None:
        return _of_text(row, text)
    if "params" in row or "method" in row:
        return "is a request; the file of its replies is wanted"
    return "holds no reply of a known form"


def _of_result(result: Mapping[str, Any]) -> _Parsed | str:
    """Parse a row of Anthropic's batch results."""
    kind, message, error = result["type"], result.get("message"), result.get("error")
    if kind == "succeeded" and isinstance(message, Mapping):
        return _of_message(message)
    if kind in ("canceled", "expired"):
        return _again(
            f"the request {'was ' if kind == 'canceled' else ''}{kind} with its batch",
            kind,
        )
    if kind != "errored" or not isinstance(error, Mapping):
        return "has a result of an unknown type"
    inner = error.get("error")
    inner = inner if isinstance(inner, Mapping) else error
    status = (
        _STATUSES.get(inner["type"]) if isinstance(inner.get("type"), str) else None
    )
    return _of_error(inner, status)


def _of_response(response: Mapping[str, Any], error: Any) -> _Parsed:
    """Parse a row of OpenAI's output and error files: a `response`, and an `error` beside it."""
    status, body = _status(response.get("status_code")), response.get("body")
    if body is None:
        return (
            _of_error(error, status)
            if error
            else _again("the row holds no answer", "no answer")
        )
    data = body.encode() if isinstance(body, str) else orjson.dumps(body)
    answer = read_response(200 if status is None else status, data)
    return (
        _of_error_response(answer)
        if isinstance(answer, ErrorResponse)
        else _with_model(answer, body)
    )


def _of_message(message: Mapping[str, Any]) -> _Parsed:
    """Convert a message of Anthropic's API to a chat completion.

    Its texts are joined, its thinking is left out. If it uses a tool, the tool's input is the answer.
    """
    blocks = message.get("content")
    if not isinstance(blocks, list):
        return _with_model(reply_of(orjson.dumps(message)), message)
    blocks = [block for block in blocks if isinstance(block, Mapping)]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    content = "".join(text for text in texts if isinstance(text, str))
    tools = [block for block in blocks if block.get("type") == "tool_use"]
    tool = next((tool for tool in tools if tool.get("name") == _JSON_TOOL), None)
    if tool is None and not content:
        tool = next(iter(tools), None)
    if tool is not None:
        answer = tool.get("input")
        if isinstance(answer, Mapping) and answer.get("values") is not None:
            answer = answer["values"]  # litellm wraps a schema that is not an object
        content = json.dumps(answer)  # as litellm writes it
    usage = [message.get("usage")]
    cached = _tokens(usage, "cache_read_input_tokens")
    prompt = (
        _tokens(usage, "input_tokens")
        + cached
        + _tokens(usage, "cache_creation_input_tokens")
    )
    tokens = prompt, _tokens(usage, "output_tokens"), cached
    return _completion(message, content, message.get("stop_reason"), *tokens)


def _of_text(row: Mapping[str, Any], text: str) -> _Parsed:
    """Convert an engine's row to a chat completion.

    Known are the rows of Ray Data LLM (`generated_text`, `num_input_tokens`, `num_generated_tokens`),
    SGLang (`text`, `meta_info`), and plain ones (`text` or `output`, and the names of a usage object).
    """
    names = (_PROMPT_TOKENS, _COMPLETION_TOKENS, ("cached_tokens",))
    return _completion(
        row, text, _finish_of(row), *(_tokens(_places(row), *each) for each in names)
    )


def _completion(
    row: Mapping[str, Any],
    content: str,
    finish: Any,
    prompt: int,
    completion: int,
    cached: int,
) -> _Parsed:
    body: dict[str, Any] = {"object": "chat.completion"}
    body |= {
        name: row[name] for name in ("id", "model") if isinstance(row.get(name), str)
    }
    reason = (
        _FINISHES.get(finish, "stop")
        if isinstance(finish, str)
        else None
        if finish is None
        else "stop"
    )
    message = {"role": "assistant", "content": content}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": reason}]
    if prompt or completion:
        body["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
    return _with_model(reply_of(orjson.dumps(body)), row)


def _with_model(answer: Reply | CallError, body: Any) -> _Parsed:
    """Add the model that its body names to an answer with a good status."""
    if isinstance(answer, Reply):
        return answer, answer.model, ""
    model = body.get("model") if isinstance(body, Mapping) else None
    return (
        answer,
        clean(model[:300]) if isinstance(model, str) else "",
        "no chat completion",
    )


def _of_error_response(response: ErrorResponse) -> _Parsed:
    status, signs, message, *_ = response
    error = classify(status, signs, message)
    if error.kind != "too_long" and refuses_format(status, message):
        # not specific to this request; `ruler score` falls back to a simpler format by itself
        return _again(
            f"{error.reason}; {_ASK_FOR_LESS}", "the answer format was refused"
        )
    if error.scope == "group":
        return error, "", ""
    label = f"status {status}" if 100 <= status < 600 else "an unknown status"
    label = (
        "rate limit"
        if error.rate
        else f"refused, {label}"
        if error.scope == "run"
        else label
    )
    return error, "", label


def _of_error(error: Any, status: int | None) -> _Parsed:
    """Classify the field `error` of a row without a body; a failure for good only if that is certain.

    `vllm run-batch` gives status 400 to every exception of its engine, with a sentence as `error`.
    """
    if isinstance(error, Mapping) and isinstance(error.get("error"), Mapping):
        error = error["error"]
    code = error.get("code") if isinstance(error, Mapping) else None
    signs, message = error_of(orjson.dumps({"error": error}))
    if isinstance(code, str) and (label := _ENDED.get(code.removeprefix("batch_"))):
        return _again(clean(message or code), label)
    if isinstance(error, Mapping):
        status = status or _status(code)
        if status is not None and status >= 400:
            return _of_error_response(ErrorResponse(status, signs, message, {}))
    reason = f"the judge's engine failed: {clean(message or signs or 'no message')}"
    too_long = classify(500, signs, message)
    if too_long.kind == "too_long":
        return replace(too_long, reason=reason), "", ""
    return _again(reason, "engine error")


def _again(reason: str, label: str) -> _Parsed:
    return CallError("transport", reason, "call"), "", label


def _status(value: Any) -> int | None:
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isdecimal()
        and len(value) < 4
    ):
        value = int(value)
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600
        else None
    )


def _finish_of(row: Mapping[str, Any]) -> Any:
    """Return the finish reason of an engine's row, or None; of SGLang's `{"type": …}` the type."""
    for name in ("finish_reason", "stop_reason"):
        for place in _places(row):
            if isinstance(place, Mapping) and (reason := place.get(name)) is not None:
                return reason.get("type") if isinstance(reason, Mapping) else reason
    return None


def _places(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the row, and what in it may hold token counts or the finish reason."""
    return row, row.get("meta_info"), row.get("usage")


def _tokens(places: Sequence[Any], *names: str) -> int:
    """Return the first positive count under one of these names."""
    values = (
        place.get(name)
        for place in places
        if isinstance(place, Mapping)
        for name in names
    )
    counts = (
        value
        for value in values
        if isinstance(value, int) and not isinstance(value, bool)
    )
    return next((count for count in counts if count > 0), 0)
