"""A model call as a tracer recorded it → messages: the dialects of its input and its output.

Read from the writers: OpenTelemetry's GenAI conventions (`parts`), OpenInference (`message`, flattened or
nested), LangChain (`lc` constructors, `type: human`), the bodies of OpenAI, Anthropic and Gemini, Vercel's
AI SDK (`tool-call`). Traps:
- A model's text may look like messages. So text is never read as JSON here, roles come from `role`, `type`
  and LangChain's class names only, and what a model said is its own turn, whatever role it claims.
- LangChain's Langfuse handler writes the tools that a model was offered as messages of the role `tool`.
- Koog writes calls as messages of the role `tool`.

The parts of a message that a tracer recorded → parts that render: text, thought, call, result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.files.parse import dump
from ruler_cli.formats.chat import RESULT_KINDS, Messages, unread
from ruler_cli.formats.interface import items, lookup, objects

_ROLES = {
    "human": "user", "humanmessage": "user", "humanmessagechunk": "user", "ai": "assistant",
    "aimessage": "assistant", "aimessagechunk": "assistant", "model": "assistant", "systemmessage": "system",
    "toolmessage": "tool", "functionmessage": "function",
}  # fmt: skip
_TYPES = {*_ROLES, "system", "tool", "function"} - {"model"}
"""LangChain's kinds of messages, if they say no role."""
_ITEMS = ("function_call", "function_call_output", "reasoning", "message", "web_search_call", "computer_call")
"""Items of OpenAI's Responses, which render as they are."""
_BEHIND = ("messages", "contents", "new_message", "input", "inputs", "prompt", "prompts", "kwargs", "args")
"""Members of a request's body that hold what was asked."""
_RULES = ("system", "instructions", "system_instruction", "config.system_instruction", "system_prompt")
_ANSWERS = ("messages", "message", "content", "output", "outputs", "text", "response", "answer", "result")
_AGENT = ("assistant", None)
_DEEP = 6
"""Objects inside objects that are looked into."""


def asked(value: Any, depth: int = 0) -> Messages | None:
    """The input of a model; None if the value holds neither messages nor a text."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}] if value.strip() else None
    if isinstance(value, list):
        return _asked_list(value, depth)
    if not isinstance(value, Mapping) or depth > _DEEP:
        return None
    if is_message(value):
        return turns(value)
    for key in _BEHIND:
        found = asked(value[key], depth + 1) if value.get(key) else None
        if found:
            rules = next((rule for path in _RULES if (rule := _plain(lookup(value, path)))), None)
            told = rules is not None and not any(m.get("role") in ("system", "developer") for m in found)
            return [{"role": "system", "content": rules}, *found] if told else found
    only = [v for v in value.values() if v not in (None, "", [], {})]
    return asked(only[0], depth + 1) if len(only) == 1 and isinstance(only[0], str) else None


def said(value: Any, depth: int = 0) -> Messages | None:
    """Messages that came out of a call; None where the value holds none that is known."""
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}] if value.strip() else None
    if isinstance(value, list):
        return _said_list(value, depth)
    if not isinstance(value, Mapping) or depth > _DEEP:
        return None
    if is_message(value):
        return turns(value)
    for path in ("choices.0.message", "candidates.0.content", "generations.0.0.message"):
        found = lookup(value, path)
        if isinstance(found, Mapping):
            return turns({"role": "assistant", **found})
    for path in ("choices.0.text", "generations.0.0.text"):
        if isinstance(found := lookup(value, path), str):
            return said(found)
    for key in _ANSWERS:
        if isinstance(value.get(key), str) and unread(value).keys() - {key}:
            continue  # the answer is the object, of which a part would be shown
        if value.get(key) and (out := said(value[key], depth + 1)) is not None:
            return out
    only = [v for v in value.values() if v not in (None, "", [], {})]
    return said(only[0]) if len(only) == 1 and isinstance(only[0], str) else None


def own_turns(value: Any) -> Messages:
    """The output of a model: its own turns, whatever the value claims; an unknown value as JSON."""
    if value in (None, "", [], {}):
        return []
    found = said(value)
    if found is None or any(m.get("role") not in _AGENT or holds_result(m) for m in found):
        return [{"role": "assistant", "content": as_json(value)}]
    return found


def as_json(value: Any) -> str:
    """A value of no known shape, as text: a part of it that looks like a tool's result is none."""
    return value if isinstance(value, str) else dump(value).decode()


def holds_result(message: Mapping[str, Any]) -> bool:
    """Tell if a message is, or holds, what came back from a tool."""
    parts = objects(message.get("content"))
    return any(part.get("type") in RESULT_KINDS for part in parts) or is_result(message)


def is_message(value: Any) -> bool:
    """Tell if a value is one message, in any of the dialects."""
    if not isinstance(value, Mapping):
        return False
    if "message.role" in value or isinstance(lookup(value, "message.role"), str):
        return True
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), Mapping):
        return _class(value) in _ROLES
    kind = value.get("type")
    if isinstance(value.get("role"), str):
        return bool(_BODY & value.keys())
    if isinstance(kind, str) and isinstance(value.get("data"), Mapping):
        return kind.lower() in _TYPES
    if isinstance(kind, str) and kind.lower() in _TYPES:
        return "content" in value
    return kind in _ITEMS and not isinstance(value.get("parts"), list)


_BODY = {"content", "contents", "parts", "tool_calls", "function_call", "text"}


def turns(value: Mapping[str, Any]) -> Messages:
    """One message of any dialect as a message that renders."""
    value = _expanded(value)
    if isinstance(value.get("message"), Mapping):  # OpenInference; a choice of OpenAI's
        value = value["message"]
    role, body = value.get("role"), value
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), Mapping):
        role, body = _class(value), value["kwargs"]
    elif isinstance(value.get("data"), Mapping) and "role" not in value:
        role, body = value.get("type"), value["data"]
    elif not isinstance(role, str):
        if value.get("type") in _ITEMS and str(value.get("type")).lower() not in _TYPES:
            return [dict(value)]
        role = value.get("type")
    role = _ROLES.get(str(role).lower(), str(role))
    content = body.get("content")
    for key in ("parts", "contents", "text"):
        content = body.get(key) if content in (None, "") else content
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list):
        content = content["parts"]
    if role == "tool" and isinstance(content, Mapping) and content.get("type") == "function":
        return []  # a tool that was offered
    out: dict[str, Any] = {"role": role, "content": content}
    if isinstance(content, list):
        out["content"] = [part_of(part) for part in content]
        kinds = {part.get("type") for part in out["content"] if isinstance(part, Mapping)}
        if "tool_use" in kinds and role == "tool":
            out["role"] = "assistant"
        elif "tool_result" in kinds and role in ("tool", "function", "model"):
            out["role"] = "user"
        elif len(content) == 1 and kinds == {"text"}:
            out["content"] = out["content"][0]["text"]
    calls = calls_of(body, out["content"])
    if calls:
        out["tool_calls"] = calls
    for key in ("name", "tool_call_id", "reasoning_content", "reasoning", "thinking", "refusal"):
        if body.get(key):
            out[key] = body[key]
    return [out]


def is_result(message: Mapping[str, Any]) -> bool:
    """Tell if a message is what came back from tools, and nothing else."""
    parts = items(message.get("content"))
    only = bool(parts) and all(lookup(part, "type") == "tool_result" for part in parts)
    called = message.get("role") in ("tool", "function")
    return only or called or message.get("type") == "function_call_output"


def offered(value: Any) -> list[Any]:
    """The tools of an input: those of the request, or that stand among its messages."""
    if isinstance(value, Mapping):
        found = lookup(value, "tools") or lookup(value, "config.tools")
        if isinstance(found, list) and found:
            return [d for tool in found for d in (lookup(tool, "function_declarations") or [tool])]
        value = value.get("messages")
    return [
        tool for tool in objects([m.get("content") for m in objects(value)]) if tool.get("type") == "function"
    ]


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, white space stripped."""
    return "\n".join(_texts(message.get("content"), 0)).strip()


def names_of(message: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the tools that a message calls."""
    found = [_name(call) for call in objects(message.get("tool_calls"))]
    uses = [part for part in objects(message.get("content")) if part.get("type") == "tool_use"]
    found += [str(part.get("name")) for part in uses]
    if message.get("type") == "function_call":
        found.append(str(message.get("name")))
    return tuple(found)


def _name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    return str(function.get("name") if isinstance(function, Mapping) else call.get("name"))


def _texts(content: Any, depth: int) -> list[str]:
    if isinstance(content, str):
        return [content]
    if isinstance(content, list) and depth < _DEEP:
        return [text for part in content for text in _texts(part, depth + 1)]
    if isinstance(content, Mapping):
        return [content["text"]] if isinstance(content.get("text"), str) else []
    return []


def _plain(value: Any) -> str | None:
    """The rules of a system prompt as text."""
    if isinstance(value, Mapping) and isinstance(value.get("parts"), list):
        value = value["parts"]
    if isinstance(value, list):
        value = "\n".join(_texts([part_of(part) for part in value], 0))
    return value if isinstance(value, str) and value else None


def _asked_list(value: list[Any], depth: int) -> Messages | None:
    if not value or depth > _DEEP:
        return None
    if all(map(is_message, value)):
        return [turn for item in value for turn in turns(item)]
    if all(isinstance(item, str) for item in value):
        return [{"role": "user", "content": item} for item in value]
    if all(isinstance(item, Mapping) and "parts" in item for item in value):  # Gemini's, without a role
        return [turn for item in value for turn in turns({"role": "user", **item})]
    return asked(value[0], depth + 1) if len(value) == 1 else None


def _said_list(value: list[Any], depth: int) -> Messages | None:
    if not value or depth > _DEEP:
        return None
    if all(map(is_message, value)):
        return [turn for item in value for turn in turns(item)]
    if all(isinstance(item, Mapping) and isinstance(item.get("type"), str) for item in value):
        return [{"role": "assistant", "content": [part_of(part) for part in value]}]
    return said(value[0], depth + 1) if len(value) == 1 else None


def _class(value: Mapping[str, Any]) -> str:
    """The class of a LangChain constructor."""
    path = value.get("id")
    return str(path[-1]).lower() if isinstance(path, list) and path else ""


def _expanded(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenInference as Phoenix writes it in tables: `message.role` as `message: {role}`."""
    if not any(key.startswith("message.") for key in value):
        return value
    return {"message": {key.removeprefix("message."): v for key, v in value.items()}}


def calls_of(body: Mapping[str, Any], content: Any) -> list[Any]:
    """The tool calls of a message; none where its content holds them."""
    if any(part.get("type") == "tool_use" for part in objects(content)):
        return []
    listed = items(body.get("tool_calls") or lookup(body, "additional_kwargs.tool_calls"))
    single = body.get("function_call") or lookup(body, "additional_kwargs.function_call")
    return [_call(call) for call in [*listed, *([single] if isinstance(single, Mapping) else [])]]


def _call(call: Any) -> Any:
    if not isinstance(call, Mapping):
        return call
    if isinstance(call.get("tool_call"), Mapping):
        call = call["tool_call"]
    inner = call.get("function")
    flat = {k.removeprefix("tool_call.").removeprefix("function."): v for k, v in call.items()}
    found = {**flat, **inner} if isinstance(inner, Mapping) else flat
    arguments = next((found[key] for key in ("arguments", "args", "input") if key in found), None)
    identity = flat.get("id") or found.get("toolCallId") or found.get("name")
    return {"id": identity, "name": found.get("name") or found.get("toolName"), "arguments": arguments}


def part_of(part: Any) -> Any:
    """A part of a message as one that renders: text, thought, call, result."""
    if isinstance(part, Mapping) and isinstance(part.get("message_content"), Mapping):
        part = part["message_content"]
    if not isinstance(part, Mapping):
        return part
    part = {key.removeprefix("message_content."): value for key, value in part.items()}
    kind = str(part.get("type")).replace("-", "_")
    for name, read in _GEMINI.items():
        if isinstance(part.get(name), Mapping):
            return read(part[name])
    if kind in ("tool_call", "tool_use") or (
        kind == "function" and isinstance(part.get("function"), Mapping)
    ):
        return _use(part)
    if kind in ("tool_call_response", "tool_result"):
        return _result(part)
    if kind in ("thinking", "reasoning") or part.get("thought") is True:
        told = next((part[k] for k in ("thinking", "content", "text", "reasoning") if part.get(k)), "")
        return {"type": "thinking", "thinking": told}
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "text" and isinstance(part.get("content"), str):
        return {"type": "text", "text": part["content"]}
    return part


def _use(part: Mapping[str, Any]) -> dict[str, Any]:
    call = _call(part)
    return {"type": "tool_use", "id": str(call["id"]), "name": call["name"], "input": call["arguments"]}


def _result(part: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("result", "response", "output", "content")
    told = next((part[key] for key in keys if part.get(key) is not None), None)
    names = ("tool_use_id", "id", "toolCallId", "tool_call_id", "name")
    identity = next((part[key] for key in names if part.get(key)), None)
    return {"type": "tool_result", "tool_use_id": str(identity), "content": told}


_GEMINI = {
    "function_call": _use, "functionCall": _use, "function_response": _result, "functionResponse": _result,
}  # fmt: skip
"""Gemini's parts of a message."""
