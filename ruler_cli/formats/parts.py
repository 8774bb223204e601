"""Parts of a message, and calls of tools, in the dialects of providers and frameworks → those that render.

Gemini's and ADK's parts, Vercel's, Anthropic's and OpenTelemetry's. A part of text is never read as anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from ruler_cli.formats.fields import (
    JsonObject,
    first_at,
    first_of,
    is_list,
    is_object,
    is_text,
    json_value,
    lookup,
    words,
)

Part = dict[str, Any]
"""A message, or a part of one, that is made."""


def content_turns(message: JsonObject) -> Iterator[Part]:
    """The `parts` of a message, also as JSON text, as messages; each result is a tool's."""
    parts = json_value(message["parts"])
    if not is_list(parts):
        yield dict(message)
        return
    # a marker of a step holds its kind alone
    stated = (part for part in parts if not is_object(part) or part.keys() - {"type"})
    both = (made for part in stated for made in _call_and_result(part))
    for returned, run in groupby(
        both, lambda part: lookup(part, "type") == "tool_result"
    ):
        if not returned:
            yield _message(message["role"], message.get("name"), [*run])
            continue
        for part in run:
            turn = _message("tool", part.get("toolName"), part["content"])
            yield {**turn, "tool_call_id": part["tool_use_id"]}


def _call_and_result(part: Any) -> list[Any]:
    """A part as it renders; one of Vercel's that holds a call with its result as two."""
    inner = lookup(part, "toolInvocation") or part
    kind = str(lookup(part, "type"))
    if lookup(inner, "toolCallId") is None or kind in ("tool-call", "tool-result"):
        return [normalize_part(part)]
    inner = {"toolName": kind.removeprefix("tool-"), **inner}
    both = [_use(inner), _result(inner)]
    return both if first_at(inner, *_RETURNED) is not None else both[:1]


def _message(role: Any, name: Any, content: Any) -> Part:
    """A message; of a single part of text only its text."""
    text = lookup(content, "0.text")
    if is_text(text) and len(content) == 1:
        content = text
    named = {"name": name} if name else {}
    return {
        "role": "assistant" if role == "model" else role,
        "content": content,
        **named,
    }


def normalize_call(call: JsonObject) -> Part:
    """A tool call of any dialect, with `function` inside it, flat, or below `tool_call`."""
    fields = {
        key.removeprefix("tool_call.").removeprefix("function."): value
        for key, value in call.items()
    }
    for holder in ("tool_call", "function"):
        if is_object(inner := fields.get(holder)):
            fields |= inner
    name = fields.get("name") or fields.get("toolName")
    return {
        "id": fields.get("id") or fields.get("toolCallId") or name,
        "name": name,
        "arguments": first_at(fields, "arguments", "args", "input"),
    }


def normalize_part(part: Any) -> Any:
    """A part of a message as one that renders: text, thought, call, result."""
    part = lookup(part, "message_content") or part
    if not is_object(part):
        return part
    part = {key.removeprefix("message_content."): value for key, value in part.items()}
    for name, read in _GEMINI.items():
        if is_object(inner := pick(part, name)) and inner:
            return read(inner)
    kind = str(part.get("type")).replace("-", "_")
    if kind in ("tool_call", "tool_use", "function"):
        return _use(part)
    if kind in ("tool_call_response", "tool_result"):
        return _result(part)
    if kind in ("thinking", "reasoning") or part.get("thought") is True:
        thought = first_of(part, words("thinking content text reasoning"))
        return {"type": "thinking", "thinking": thought or ""}
    text = part.get("text", part.get("content") if kind == "text" else None)
    return {"type": "text", "text": text} if is_text(text) else part


def _use(part: JsonObject) -> Part:
    identity, name, given = normalize_call(part).values()
    return {"type": "tool_use", "id": str(identity), "name": name, "input": given}


def _result(part: JsonObject) -> Part:
    name = part.get("name") or part.get("toolName")
    named = {"toolName": name} if name else {}
    return {
        "type": "tool_result",
        "tool_use_id": str(
            first_of(part, words("tool_use_id id toolCallId tool_call_id name"))
        ),
        "content": first_at(part, *_RETURNED),
        **named,
    }


_RETURNED = words("result response output content errorText")
_GEMINI: dict[str, Callable[..., Part]] = {
    "function_call": _use,
    "function_response": _result,
    "executable_code": lambda part: _use({"name": "code", "input": part}),
    "code_execution_result": lambda part: _result({"name": "code", "output": part}),
    "inline_data": lambda part: {"type": str(pick(part, "mime_type"))},
}
"""Gemini's parts of a message."""


def pick(value: Any, name: str) -> Any:
    """A field that is written as `two_words` or as `twoWords`; None if it is absent."""
    first, *rest = name.split("_")
    return first_at(value, name, first + "".join(map(str.capitalize, rest)))
