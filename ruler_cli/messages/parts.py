"""Calls and parts of messages in the dialects of tracers and APIs → calls and parts that render."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ruler_cli.files.values import (
    JsonObject,
    first_at,
    first_of,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
    words,
)
from ruler_cli.messages.content import Turn, is_returned


def normalize_call(call: JsonObject) -> Turn:
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
        "id": first_of(fields, words("id toolCallId toolUseId")) or name,
        "name": name,
        "arguments": first_at(fields, "arguments", "args", "input"),
    }


def normalize_part(part: Any) -> Any:
    """A part of a message as one that renders: text, thought, call, result."""
    part = lookup(part, "message_content") or part
    if not is_object(part):
        return part
    part = {
        key.removeprefix("message_content."): value
        for key, value in part.items()
    }
    for name, read in _UNTYPED.items():
        inner = pick(part, name)
        if is_object(inner) and inner:
            return read(inner)
    kind = str(part.get("type")).replace("-", "_")
    if kind in ("tool_call", "tool_use", "function"):
        return use_part(part)
    if kind in ("tool_call_response", "tool_result"):
        return result_part(part)
    if kind in ("thinking", "reasoning") or part.get("thought") is True:
        thought = first_of(part, words("thinking content text reasoning"))
        return {"type": "thinking", "thinking": thought or ""}
    text = part.get("text")
    if kind == "text" and "text" not in part:
        text = part.get("content")
    return {"type": "text", "text": text} if is_text(text) else part


def use_part(part: JsonObject) -> Turn:
    """Make the part of a call."""
    call = normalize_call(part)
    return {
        "type": "tool_use",
        "id": str(call["id"]),
        "name": call["name"],
        "input": call["arguments"],
    }


def result_part(part: JsonObject) -> Turn:
    """Make the part of a result."""
    name = part.get("name") or part.get("toolName")
    named: Turn = {"toolName": name} if name else {}
    if part.get("status") == "error":  # Bedrock
        named["is_error"] = True
    names = words("tool_use_id id toolCallId toolUseId tool_call_id name")
    return {
        "type": "tool_result",
        "tool_use_id": str(first_of(part, names)),
        "content": first_at(part, *RETURNED),
        **named,
    }


RETURNED = words("result response output content errorText")
_UNTYPED: dict[str, Callable[..., Turn]] = {
    "function_call": use_part,
    "function_response": result_part,
    "tool_use": use_part,
    "tool_result": result_part,
    "reasoning_content": lambda part: {
        "type": "thinking",
        "thinking": first_at(part, "reasoningText.text", "text")
        or "(not shown)",
    },
    "executable_code": lambda part: use_part({"name": "code", "input": part}),
    "code_execution_result": lambda part: result_part(
        {"name": "code", "output": part}
    ),
    "inline_data": lambda part: {
        "type": str(pick(part, "mime_type")),
        "inline_data": part,
    },
}
"""Parts of a message of Gemini's and Bedrock's, which have no type."""


def pick(value: Any, name: str) -> Any:
    """A field that is written as `two_words` or as `twoWords`; None if it is absent."""
    first_word, *more = name.split("_")
    capitals = map(str.capitalize, more)
    return first_at(value, name, first_word + "".join(capitals))


def typed_part(part: Any) -> Any:
    """Return a part of Gemini's, Bedrock's, LlamaIndex' or goose's as others write it; another one as it is."""
    if not is_object(part) or "text" in part:
        return part
    kind = part.get("type")
    call = lookup(part, "toolCall.value")
    if kind == "toolRequest" and is_object(call):
        return {"type": "tool_use", "id": part.get("id"), **call}  # goose
    if kind == "toolResponse":
        inner = part.get("toolResult")
        return {
            "type": "tool_result",
            "id": part.get("id"),
            "content": lookup(inner, "value") or inner,
        }
    if kind is not None:
        return part
    block = part.get("block_type")
    if block:  # LlamaIndex
        return {"type": block, **part}
    return normalize_part(part)


def as_usual(message: JsonObject, *, is_result: bool) -> JsonObject:
    """Return a message of LlamaIndex' or LangChain's, or one of speech or with files, as others write it."""
    more = message.get("additional_kwargs")
    if more and is_object(more):
        stated = {}
        for name, value in message.items():
            if value is not None:
                stated[name] = value
        message = {**more, **stated}
    if not message.get("content"):
        for name in ("blocks", "parts"):
            if is_list(message.get(name)):
                message = {**message, "content": message[name], name: None}
                break
    beside: list[JsonObject] = []
    audio = message.get("audio")
    if is_object(audio) and ("id" in audio or "data" in audio):
        beside.append({"type": "audio", **audio})  # OpenAI's, of speech
    for name in ("attachments", "files"):
        for file in items(message.get(name)):
            held = file if is_object(file) else {"file_id": file}
            beside.append({"type": "file", "file": held})
    if beside:
        content = message.get("content")
        parts = content if is_list(content) else [content]
        return {
            **message,
            **dict.fromkeys(("audio", "attachments", "files")),
            "content": [*filter(None, parts), *beside],
        }
    if is_result and message.get("status") == "error":
        return {"is_error": True, **message}
    return message


def from_responses(item: JsonObject) -> tuple[str, JsonObject]:
    """Return the role and the message of an item of OpenAI's Responses; one with `content` is a message."""
    kind = item["type"]
    call_id = item.get("call_id")
    rest = {}
    for key, value in item.items():
        if value is not None and key not in ("id", "status"):
            rest[key] = value
    if is_returned(kind):
        role = "tool" if kind.endswith("_output") else "user"
        content = rest.pop("output", None if role == "tool" else rest)
        return role, {**rest, "tool_call_id": call_id, "content": content}
    if kind == "reasoning":
        summary = item.get("summary")
        content = item.get("content")
        thought = summary or content or "(not shown)"
        if is_list(summary) and is_list(content):
            thought = [*summary, *content] or thought
        return "assistant", {"reasoning": thought}
    if "content" in item:
        return "assistant", item
    is_call = call_id is not None and kind.endswith("_call")
    if kind == "function_call" or is_call:
        for key in ("type", "call_id"):
            rest.pop(key, None)
        call = rest if "name" in rest else {"name": kind, "arguments": rest}
        return "assistant", {"tool_calls": [{**call, "id": call_id}]}
    # a call of a server's own tool and its result in one item
    return "assistant", {"content": rest}
