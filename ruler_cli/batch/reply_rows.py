"""One line of a reply file → which request it answers, and the reply or what went wrong.

Files of the OpenAI batch API and what copies it (`vllm run-batch`), Anthropic's batch results, and what
an engine of one's own writes: a chat completion, or a text, beside a `custom_id`. Never raises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ruler_cli.answer import clean, reply_of
from ruler_cli.judges.provider_errors import ErrorResponse, classify, error_of, read_response, refuses_format
from ruler_cli.types import CallError, Reply

BIGGEST = 32 << 20
"""Bytes of a line that are read; a longer one holds no verdict."""


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """A row of a reply file: whose it is, as it says, and what came of the request.

    A CallError of scope "group" is a failure for good; any other is to be asked again, and `label` says why
    in few words, of which there are few. `model` is the name that the reply itself gives, if any.
    """

    custom_id: str
    answer: Reply | CallError
    model: str = ""
    label: str = ""

    @property
    def lasts(self) -> bool:
        """Tell if the answer is kept; what only says that the request is to be asked again is not."""
        if isinstance(self.answer, Reply) or self.answer.scope == "group":
            return True
        return self.answer.scope == "call" and bool(self.answer.body)


_Found = tuple[Reply | CallError, str, str]
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

_TEXTS = ("generated_text", "output", "text", "response")
"""Where an engine's own row has the answer, the surest first: `text` may be a column of the input."""
_PROMPT = ("prompt_tokens", "num_input_tokens", "input_tokens")
_COMPLETION = ("completion_tokens", "num_generated_tokens", "output_tokens")
_JSON_TOOL = "json_tool_call"
"""The tool through which litellm asks for JSON where a model takes no schema."""
_FINISHES = {
    "max_tokens": "length",
    "length": "length",
    "compaction": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}
"""Why an answer ended, in the words of a chat completion; everything else is `stop`."""


def read_row(line: bytes) -> ReplyRow | str:
    """Read one line, without its LF; of what is no row half a sentence that says why."""
    line = line.removeprefix(b"\xef\xbb\xbf")
    if len(line) > BIGGEST:
        return "is longer than 32 MiB"
    try:
        value = _loaded(line)
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
        found = next((found for form in _FORMS if (found := form(value)) is not None), None)
    except (RecursionError, TypeError):  # more is read than can be written
        return "is nested too deep, or holds what is no text"
    if found is None:
        return "holds no reply of a known form"
    return found if isinstance(found, str) else ReplyRow(name, *found)


def _loaded(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)  # NaN, as Python writes it


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
    return _of_error(inner, status)


def _response(row: Mapping[str, Any]) -> _Found | None:
    """OpenAI's output and error files: a `response`, and an `error` beside it."""
    response, error = row.get("response"), row.get("error")
    if not isinstance(response, Mapping) or not ("status_code" in response or "body" in response):
        return None
    status, body = _status(response.get("status_code")), response.get("body")
    if body is None:
        return _of_error(error, status) if error else _again("the row holds no answer", "no answer")
    data = body.encode() if isinstance(body, str) else orjson.dumps(body)
    answer = read_response(200 if status is None else status, data)
    return _of_refusal(answer) if isinstance(answer, ErrorResponse) else _named(answer, body)


def _completion(row: Mapping[str, Any]) -> _Found | None:
    """A chat completion, or a message of Anthropic's, wherever an engine puts it."""
    own = {name: row[name] for name in _OWN if name in row}
    for body in (own, row.get("body"), row.get("response"), row.get("http_response")):
        if isinstance(body, Mapping) and "choices" in body:
            return _named(reply_of(orjson.dumps(body)), body)
        if isinstance(body, Mapping) and body.get("type") == "message":
            return _of_message(body)
    return None


def _error(row: Mapping[str, Any]) -> _Found | None:
    """An error alone: OpenAI's, Ray's, or SGLang's word for a request that it broke off."""
    if error := row.get("error") or row.get("__inference_error__"):
        return _of_error(error, None)
    return _again("the engine stopped before its end", "aborted") if _finish_of(row) == "abort" else None


def _text(row: Mapping[str, Any]) -> _Found | None:
    """The text of an answer, as an engine of one's own writes it."""
    body = _from_text(row)
    return None if body is None else _named(reply_of(body), row)


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
    body = _from_message(message)
    return _named(reply_of(orjson.dumps(message) if body is None else body), message)


def _named(answer: Reply | CallError, body: Any) -> _Found:
    """An answer that came with a good status, and the model that its body names."""
    told = orjson.loads(body) if isinstance(body, str) and isinstance(answer, Reply) else body
    model = told.get("model") if isinstance(told, Mapping) else None
    name = clean(model[:300]) if isinstance(model, str) else ""
    return answer, name, "" if isinstance(answer, Reply) else "no chat completion"


def _of_refusal(refusal: ErrorResponse) -> _Found:
    """An answer that says what went wrong."""
    status, signs, message, *_ = refusal
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
    data = orjson.dumps({"error": error})
    signs, message = error_of(data)
    if isinstance(code, str) and (label := _ENDED.get(code.removeprefix("batch_"))):
        return _again(clean(message or code), label)
    if isinstance(error, Mapping):
        status = status or _status(code)
        if status is not None and status >= 400:
            return _of_refusal(ErrorResponse(status, signs, message, {}))
    reason = f"the judge's engine failed: {clean(message or signs or 'no message')}"
    fault = classify(500, signs, message)
    if fault.kind == "too_long":
        return replace(fault, reason=reason), "", ""
    return _again(reason, "engine error")


def _again(reason: str, label: str) -> _Found:
    return CallError("transport", reason, "call"), "", label


def _status(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 4:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600 else None


def _from_message(message: Mapping[str, Any]) -> bytes | None:
    """An answer of Anthropic's Messages API as a chat completion; None where it is no such message.

    Its texts are joined and its thoughts left out. Where it used a tool, the tool's input is the answer.
    """
    blocks = message.get("content")
    if not isinstance(blocks, list):
        return None
    blocks = [block for block in blocks if isinstance(block, Mapping)]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    content = "".join(text for text in texts if isinstance(text, str))
    tools = [block for block in blocks if block.get("type") == "tool_use"]
    ours = next((tool for tool in tools if tool.get("name") == _JSON_TOOL), None)
    if ours is None and not content:
        ours = next(iter(tools), None)
    if ours is not None:
        content = json.dumps(_unwrapped(ours.get("input")))  # as litellm writes it
    usage = message.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    cached = _tokens(usage, "cache_read_input_tokens")
    prompt = _tokens(usage, "input_tokens") + cached + _tokens(usage, "cache_creation_input_tokens")
    return _as_completion(
        message, content, message.get("stop_reason"), prompt, _tokens(usage, "output_tokens"), cached
    )


def _from_text(row: Mapping[str, Any]) -> bytes | None:
    """A row that an engine wrote beside its input as a chat completion; None where it holds no answer.

    Known are the rows of Ray Data LLM (`generated_text`, `num_input_tokens`, `num_generated_tokens`),
    SGLang (`text`, `meta_info`), and plain ones (`text` or `output`, and the names of a usage object).
    """
    text = next((row[name] for name in _TEXTS if isinstance(row.get(name), str)), None)
    if text is None:
        return None
    prompt, completion = _first(row, _PROMPT), _first(row, _COMPLETION)
    return _as_completion(row, text, _finish_of(row), prompt, completion, _first(row, ("cached_tokens",)))


def _finish_of(row: Mapping[str, Any]) -> Any:
    """Why an engine's own row says that it ended: a word or None; SGLang's `{"type": …}` is its word."""
    for name in ("finish_reason", "stop_reason"):
        for place in _places(row):
            if place.get(name) is not None:
                said = place[name]
                return said.get("type") if isinstance(said, Mapping) else said
    return None


def _as_completion(
    told: Mapping[str, Any], content: str, finish: Any, prompt: int, completion: int, cached: int
) -> bytes:
    body: dict[str, Any] = {"object": "chat.completion"}
    body |= {name: told[name] for name in ("id", "model") if isinstance(told.get(name), str)}
    reason = _FINISHES.get(finish, "stop") if isinstance(finish, str) else None if finish is None else "stop"
    message = {"role": "assistant", "content": content}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": reason}]
    if prompt or completion:
        body["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
    return orjson.dumps(body)


def _unwrapped(answer: Any) -> Any:
    """A tool's input; litellm wraps a schema that is no object into `values`."""
    if isinstance(answer, Mapping) and answer.get("values") is not None:
        return answer["values"]
    return answer


def _places(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    places = (row, row.get("meta_info"), row.get("usage"))
    return [place for place in places if isinstance(place, Mapping)]


def _first(row: Mapping[str, Any], names: Sequence[str]) -> int:
    found = (_tokens(place, name) for place in _places(row) for name in names)
    return next((number for number in found if number), 0)


def _tokens(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
