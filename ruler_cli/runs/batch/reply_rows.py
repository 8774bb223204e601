"""One line of a reply file → the id of its request, and the reply or an error.

Read are output files of the OpenAI batch API and of tools that copy it (`vllm run-batch`), Anthropic's batch
results, and rows of other engines: a chat completion, or a text, beside a `custom_id`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from ruler_cli.errors import Sentence
from ruler_cli.judges.provider_errors import (
    ErrorResponse,
    classify,
    error_of,
    read_response,
    refuses_format,
)
from ruler_cli.types import BOM, CallError, Reply, clean, parse_foreign

MAX_LINE_BYTES, TOO_LONG = 32 << 20, "is longer than 32 MiB"
"""Bytes of the longest line that is read."""
_UNKNOWN = "holds no reply of a known form"


class ReplyRow(NamedTuple):
    """A row of a reply file: the id of its request, and the reply or an error.

    A CallError of scope "group" is a failure for good. After any other error the request is to be sent again;
    `label` is the reason in a few words, from a small set.
    """

    custom_id: str
    answer: Reply | CallError
    label: str = ""

    @property
    def lasts(self) -> bool:
        """Tell if the ledger stores the answer; an error that a further request may avoid is not stored."""
        if isinstance(self.answer, Reply) or self.answer.scope == "group":
            return True
        return self.answer.scope == "call" and bool(self.answer.body)


_Parsed = tuple[Reply | CallError, str]
"""Answer and label of a row."""

_ENDED = {"expired": "expired", "cancelled": "canceled", "canceled": "canceled"}
"""Error codes, also with the prefix `batch_`, of requests that were not processed when the batch ended."""
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
_FIELDS = (
    "id",
    "object",
    "type",
    "created",
    "model",
    "choices",
    "content",
    "stop_reason",
    "usage",
    "service_tier",
    "system_fingerprint",
)
"""Fields of a chat completion or a message; other fields of the row are columns of its input."""
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
    if len(line) > MAX_LINE_BYTES:
        return TOO_LONG
    try:
        row = _loads(line.removeprefix(BOM))
    except (ValueError, RecursionError):
        return "is cut off or no JSON"
    if not isinstance(row, Mapping):
        return "is no JSON object"
    name = row.get("custom_id")
    if not isinstance(name, str):
        return "has no custom_id"
    try:
        parsed = _parse(row)
    except (RecursionError, TypeError):  # orjson reads deeper nesting than it writes
        return _UNKNOWN
    return parsed if isinstance(parsed, str) else ReplyRow(name, *parsed)


def _loads(line: bytes) -> Any:
    try:
        return parse_foreign(line)
    except orjson.JSONDecodeError:
        return json.loads(line)  # NaN, as Python writes it


def _parse(row: Mapping[str, Any]) -> _Parsed | str:
    """Parse a row of any known form, else return why not; the first form that fits decides."""
    result, response = _mapping(row.get("result")), _mapping(row.get("response"))
    if "type" in result:  # Anthropic's
        error = result.get("error")
        if result["type"] in _ENDED:
            error = {"code": result["type"], "message": "its batch ended before"}
        return _of_parts(None, result.get("message"), error) or _UNKNOWN
    if "status_code" in response or "body" in response:  # OpenAI's
        status = _status(response.get("status_code"))
        parts = _of_parts(status, response.get("body"), row.get("error"))
        return parts or _again("the row holds no answer", "no answer")
    own = {name: row[name] for name in _FIELDS if name in row}
    for body in map(
        _mapping, (own, row.get("body"), response, row.get("http_response"))
    ):
        if "choices" in body or body.get("type") == "message":
            return _of_body(None, body)
    if error := row.get("error") or row.get("__inference_error__"):  # of OpenAI, of Ray
        return _of_error(None, error)
    if _finish_of(row) == "abort":  # of SGLang
        return _again("the engine stopped before its end", "aborted")
    for name in _TEXT_FIELDS:
        if isinstance(row.get(name), str):
            return _of_body(None, _of_text(row, row[name]))
    if "params" in row or "method" in row:
        return "is a request; the file of its replies is wanted"
    return _UNKNOWN


def _of_parts(status: int | None, body: Any, error: Any) -> _Parsed | None:
    if body is not None:
        return _of_body(status, body)
    return _of_error(status, error) if error else None


def _of_body(status: int | None, body: Any) -> _Parsed:
    """Read the body of a response as in a live call."""
    if isinstance(body, Mapping) and isinstance(body.get("content"), list):
        body = _of_message(body)
    data = body.encode() if isinstance(body, str) else orjson.dumps(body)
    answer = read_response(status or 200, data)
    if isinstance(answer, ErrorResponse):
        return _of_error_response(answer)
    return answer, "" if isinstance(answer, Reply) else "no chat completion"


def _of_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a message of Anthropic's API to a chat completion.

    Its texts are joined, its thinking is left out. If it uses a tool, the tool's input is the answer.
    """
    blocks = list(map(_mapping, message["content"]))
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    content = "".join(text for text in texts if isinstance(text, str))
    tools = [block for block in blocks if block.get("type") == "tool_use"]
    ours = [tool for tool in tools if tool.get("name") == _JSON_TOOL]
    if ours or (tools and not content):
        answer = (ours or tools)[0].get("input")
        if isinstance(answer, Mapping) and answer.get("values") is not None:
            answer = answer["values"]  # litellm wraps a schema that is not an object
        content = json.dumps(answer)  # as litellm writes it
    usage = _mapping(message.get("usage"))
    cached = _tokens(usage, "cache_read_input_tokens")
    written = _tokens(usage, "cache_creation_input_tokens")
    prompt = _tokens(usage, "input_tokens") + cached + written
    completion = _tokens(usage, "output_tokens")
    finish = message.get("stop_reason")
    return _completion(message, content, finish, prompt, completion, cached)


def _of_text(row: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Convert an engine's row to a chat completion.

    Known are the rows of Ray Data LLM (`generated_text`, `num_input_tokens`, `num_generated_tokens`),
    SGLang (`text`, `meta_info`), and plain ones (`text` or `output`, and the names of a usage object).
    """
    flat = _flat(row)
    return _completion(
        row,
        text,
        _finish_of(row),
        _tokens(flat, *_PROMPT_TOKENS),
        _tokens(flat, *_COMPLETION_TOKENS),
        _tokens(flat, "cached_tokens"),
    )


def _completion(
    row: Mapping[str, Any],
    content: str,
    finish: Any,
    prompt: int,
    completion: int,
    cached: int,
) -> dict[str, Any]:
    reason = None if finish is None else _FINISHES.get(str(finish), "stop")
    message = {"role": "assistant", "content": content}
    return {
        "model": row.get("model"),
        "choices": [{"message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _of_error_response(response: ErrorResponse) -> _Parsed:
    status, codes, message, *_ = response
    error = classify(status, codes, message)
    if error.kind != "too_long" and refuses_format(status, message):
        # not specific to this request; `ruler score` falls back to a simpler format by itself
        reason = Sentence(
            "{reason}; ask for any text with {param:response_format=null}",
            reason=error.reason,
        )
        return _again(reason, "the answer format was refused")
    if error.scope == "group":
        return error, ""
    return error, "rate limit" if error.rate else f"status {status}"


def _of_error(status: int | None, error: Any) -> _Parsed:
    """Classify the error of a row without a body; a failure for good only if that is certain.

    `vllm run-batch` gives status 400 to every exception of its engine, with a sentence as `error`.
    """
    codes, message = error_of(orjson.dumps({"error": error}))
    if isinstance(error, Mapping):
        inner = _mapping(error.get("error")) or error
        code = inner.get("code")
        if label := _ENDED.get(str(code).removeprefix("batch_")):
            return _again(clean(message), label)
        status = status or _status(code) or _STATUSES.get(str(inner.get("type")))
        if status is not None and status >= 400:
            return _of_error_response(ErrorResponse(status, codes, message, {}))
    reason = f"the judge's engine failed: {clean(message or codes)}"
    too_long = classify(500, codes, message)
    if too_long.kind == "too_long":
        return replace(too_long, reason=reason), ""
    return _again(reason, "engine error")


def _again(reason: str, label: str) -> _Parsed:
    return CallError("transport", reason, "call"), label


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _status(value: Any) -> int | None:
    try:
        status = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return status if 100 <= status < 600 else None


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's row with its parts that may hold token counts or the finish reason."""
    return {**row, **_mapping(row.get("usage")), **_mapping(row.get("meta_info"))}


def _finish_of(row: Mapping[str, Any]) -> Any:
    """Return the finish reason of an engine's row, or None; of SGLang's `{"type": …}` the type."""
    flat = _flat(row)
    reason = flat.get("finish_reason") or flat.get("stop_reason")
    return reason.get("type") if isinstance(reason, Mapping) else reason


def _tokens(counts: Mapping[str, Any], *names: str) -> int:
    """Return the first positive count under one of these names."""
    values = map(counts.get, names)
    return next((n for n in values if type(n) is int and n > 0), 0)
