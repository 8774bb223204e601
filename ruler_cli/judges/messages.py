"""What an engine wrote in its own form → the bytes of a chat completion, which is what a ledger keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

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


def dumped(value: Any) -> bytes:
    """A JSON value as bytes, also where it holds what a stricter reader will refuse.

    RecursionError where it is nested too deep for any.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates, integers beyond 64 bits, many levels
        return json.dumps(value).encode()


def completion_of_message(message: Mapping[str, Any]) -> bytes | None:
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
    return _completion(
        message, content, message.get("stop_reason"), prompt, _tokens(usage, "output_tokens"), cached
    )


def completion_of_text(row: Mapping[str, Any]) -> bytes | None:
    """A row that an engine wrote beside its input as a chat completion; None where it holds no answer.

    Known are the rows of Ray Data LLM (`generated_text`, `num_input_tokens`, `num_generated_tokens`),
    SGLang (`text`, `meta_info`), and plain ones (`text` or `output`, and the names of a usage object).
    """
    text = next((row[name] for name in _TEXTS if isinstance(row.get(name), str)), None)
    if text is None:
        return None
    prompt, completion = _first(row, _PROMPT), _first(row, _COMPLETION)
    return _completion(row, text, finish_of(row), prompt, completion, _first(row, ("cached_tokens",)))


def finish_of(row: Mapping[str, Any]) -> Any:
    """Why an engine's own row says that it ended: a word or None; SGLang's `{"type": …}` is its word."""
    for name in ("finish_reason", "stop_reason"):
        for place in _places(row):
            if place.get(name) is not None:
                said = place[name]
                return said.get("type") if isinstance(said, Mapping) else said
    return None


def _completion(
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
    return dumped(body)


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
