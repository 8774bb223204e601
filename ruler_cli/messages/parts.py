"""Calls and parts of messages in the dialects of tracers and APIs → calls and parts that render."""

from __future__ import annotations

from itertools import chain
from typing import Any

from ruler_cli.files.values import (
    JsonObject,
    first,
    first_at,
    first_of,
    first_stated,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
    words,
)
from ruler_cli.messages.content import Turn, calls_of, json_inside, new_turn
from ruler_cli.messages.names import (
    AGENT_ROLES,
    KIND_KEYS,
    OTHERS,
    RESULT_ROLES,
    TYPED,
    kind_of,
    snake_case,
)

NAMES = words("name toolName tool_name tool function_name api_name function")
IDS = words("tool_use_id tool_call_id toolCallId toolUseId call_id id")
ARGUMENTS = words(
    "arguments input args parameters tool_input params inputParameters tool_kwargs tool_args"
)
HOLDERS = words("request toolCall tool_call function")
RESULTS = words(
    "result output response observation outputs results error errorText"
)
RETURNED = words(
    "content output result tool_result tool_return response outcome errorText toolResult.value.content "
    "toolResult.value toolResult"
)
THOUGHTS = words(
    "thinking reasoning think text value summary content reasoningText.text"
)
"""Members of calls, of what stands around them and of results inside, of results, of thoughts, the best first."""


def flat_call(call: JsonObject) -> Turn:
    """Return a call with the members of the objects inside it, which have its name and its arguments."""
    flat = dict(call)
    for name in HOLDERS:
        held = json_inside(flat.get(name)) or flat.get(name)
        if is_object(held):
            inner = held.get("value")
            flat |= inner if is_object(inner) else held
    return flat


def normalize_call(call: JsonObject) -> Turn:
    """A tool call of any dialect, with `function` inside it, flat, or below `tool_call`."""
    fields = flat_call(call)
    name = first(filter(is_text, map(fields.get, NAMES)))
    return {
        "id": first_of(fields, IDS) or name,
        "name": name,
        "arguments": first_at(fields, *ARGUMENTS),
    }


def normalize_part(part: Any) -> Any:
    """Return a part of a message with its type, whatever its dialect calls that; a text as it is."""
    part = lookup(part, "message_content") or part
    if not is_object(part):
        return part
    if part.get("thought") is True:
        return {"type": "thinking", "thinking": part.get("text") or ""}
    if part.get("text") is not None:
        return part
    kind = first_stated(part, KIND_KEYS)
    if kind == "text" and is_text(part.get("content")):
        return {"type": kind, "text": part["content"]}
    if kind is not None:
        return {"type": kind, **part}
    for key, inner in part.items():
        name = snake_case(key)
        if name not in _UNTYPED or not is_object(inner) or not inner:
            continue
        if "code" in name:  # Gemini's own
            inner = {"name": "code", "arguments": inner, "content": inner}  # noqa: PLW2901
        # the name of a tool stands for an id
        return {"type": name, "id": inner.get("name"), **inner}
    return part


_UNTYPED = words(
    "function_call function_response tool_use tool_call tool_result tool_call_result reasoning_content executable_code "
    "code_execution_result"
)
"""Parts of a message of Gemini's and Bedrock's, which have no type but this name."""


def as_usual(message: JsonObject) -> JsonObject:
    """Return a typed item, and a message of LlamaIndex', LangChain's, of speech or with files, as others write it."""
    role = message.get("role")
    kind = kind_of(message)
    is_item = role is None and (kind or is_text(message.get("type")))
    # only what a tool returned is so whoever's turn it is; a `phone_call` that is spoken is none
    is_spoken = is_text(message.get("content")) and not message.get("name")
    is_act = role in AGENT_ROLES and not (kind == "call" and is_spoken)
    if is_item or kind == "tool" or (kind in TYPED and is_act):
        message = typed_turn(message)
    more = message.get("additional_kwargs")
    if more and is_object(more):
        stated = {}
        for name, value in message.items():
            if value is not None:
                stated[name] = value
        message = {**more, **stated}
    content = message.get("content")
    if not content:
        for name in ("blocks", "parts", "contents"):
            if is_list(message.get(name)):
                content = message[name]
                message = {**message, "content": content, name: None}
                break
    beside: list[JsonObject] = []
    audio = message.get("audio")
    if is_object(audio) and ("id" in audio or "data" in audio):
        beside.append({"type": "audio", **audio})  # OpenAI's, of speech
    files = map(items, map(message.get, ("attachments", "files")))
    for file in chain.from_iterable(files):
        held = file if is_object(file) else {"file_id": file}
        beside.append({"type": "file", "file": held})
    if beside:
        parts = content if is_list(content) else [content]
        return {
            **message,
            **dict.fromkeys(("audio", "attachments", "files")),
            "content": [*filter(None, parts), *beside],
        }
    if message.get("role") in RESULT_ROLES and message.get("status") == "error":
        return {"is_error": True, **message}
    return message


def typed_turn(item: JsonObject) -> Turn:
    """Return a turn that has a type, such as an item of OpenAI's Responses, as a message with a role."""
    kind = kind_of(item)
    role = kind if kind in OTHERS else "assistant"
    called = calls_of(item)
    if kind in TYPED and not called:
        name = first_of(item, NAMES)
        call_id = first_of(item, IDS)
        return new_turn(
            role,
            [item],
            name=name,
            tool_call_id=call_id,
        )
    if called or "content" in item:
        return {**item, "role": role}
    rest = {}
    for key, value in item.items():
        if value is not None and key not in ("id", "status"):
            rest[key] = value
    return {"role": role, "content": rest}


def thought_of(part: JsonObject) -> Any:
    """Return what a part says of a thought: a text, parts, or nothing."""
    both = [*items(part.get("summary")), *items(part.get("content"))]
    return both or first_at(part, *THOUGHTS)
