"""Model calls and messages in the dialect of a framework → chat messages that render.

Read from the writers: OpenTelemetry's GenAI conventions (`parts`), OpenInference (`message`, flattened or
nested), LangChain (constructors, `type: human`, `data`), the bodies of OpenAI, Anthropic and Gemini, Vercel's
AI SDK (`tool-call`). Traps:
- A model's text may look like messages. So this module never reads text as JSON, takes roles from `role`,
  `type` and LangChain's class names only, and makes a model's output the model's own turn, whatever role it
  claims.
- LangChain's Langfuse handler writes the tools that a model was offered as messages of the role `tool`, and
  its messages may hold a call twice, as a part of Anthropic and in `tool_calls`.
- Koog writes calls as messages of the role `tool`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ruler_cli.files.event_kinds import LANGCHAIN, langchain_body
from ruler_cli.files.parse import dump
from ruler_cli.formats.chat import RESULT_KINDS, THOUGHT_KEYS, Messages, other_text
from ruler_cli.formats.fields import first_at, items, lookup, objects

_ROLES = {name.lower(): role for name, role in LANGCHAIN.items()} | {
    "model": "assistant"
}
_ITEMS = (
    "function_call",
    "function_call_output",
    "reasoning",
    "message",
    "web_search_call",
    "computer_call",
)
"""Items of OpenAI's Responses, which render as they are."""
_CONTENTS = {"content", "contents", "parts", "tool_calls", "function_call", "text"}
_PROMPTS = (
    "messages",
    "contents",
    "new_message",
    "input",
    "inputs",
    "prompt",
    "prompts",
    "kwargs",
    "args",
)
"""Members of a request's body that hold the prompt."""
_SYSTEM = (
    "system",
    "instructions",
    "system_instruction",
    "config.system_instruction",
    "system_prompt",
)
_CHOICES = (
    "choices.0.message", "candidates.0.content", "generations.0.0.message", "choices.0.text",
    "generations.0.0.text",
)  # fmt: skip
_ANSWERS = (
    "messages",
    "message",
    "content",
    "output",
    "outputs",
    "text",
    "response",
    "answer",
    "result",
)
OWN_ROLES = ("assistant", None)
"""Roles of the agent's turns; an item of OpenAI's Responses has none."""
EMPTY: tuple[Any, ...] = (None, "", [], {})
_DEEP = 6
"""Levels of objects inside objects that are read."""


def input_messages(value: Any, depth: int = 0) -> Messages | None:
    """Messages in the input of a model; None if the value holds neither messages nor a text."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}] if value.strip() else None
    if depth > _DEEP or not value:
        return None
    if isinstance(value, list):
        if all(isinstance(item, str) for item in value):
            return [{"role": "user", "content": item} for item in value]
        if not all(map(is_message, value)) and all(
            isinstance(m, Mapping) and "parts" in m for m in value
        ):
            value = [
                {"role": "user", **item} for item in value
            ]  # Gemini's, without a role
        return _listed(value) or (
            input_messages(value[0], depth + 1) if len(value) == 1 else None
        )
    if not isinstance(value, Mapping):
        return None
    if is_message(value):
        return normalize_message(value)
    for key in _PROMPTS:
        messages = input_messages(value[key], depth + 1) if value.get(key) else None
        if messages:
            system = next(
                (text for path in _SYSTEM if (text := _plain(lookup(value, path)))),
                None,
            )
            if system is None or any(
                m.get("role") in ("system", "developer") for m in messages
            ):
                return messages
            return [{"role": "system", "content": system}, *messages]
    return input_messages(_only_text(value))


def output_messages(value: Any, depth: int = 0) -> Messages | None:
    """Messages in the output of a model; None if the value holds none of a known shape."""
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}] if value.strip() else None
    if depth > _DEEP or not value:
        return None
    if isinstance(value, list):
        messages = _listed(value)
        if not messages and all(
            isinstance(lookup(item, "type"), str) for item in value
        ):
            return [
                {
                    "role": "assistant",
                    "content": [normalize_part(part) for part in value],
                }
            ]
        return messages or (
            output_messages(value[0], depth + 1) if len(value) == 1 else None
        )
    if not isinstance(value, Mapping):
        return None
    if is_message(value):
        return normalize_message(value)
    for path in _CHOICES:
        choice = lookup(value, path)
        if isinstance(choice, Mapping):
            return normalize_message(
                choice if "kwargs" in choice else {"role": "assistant", **choice}
            )
        if isinstance(choice, str):
            return output_messages(choice)
    for key in _ANSWERS:
        if isinstance(value.get(key), str) and other_text(value).keys() - {key}:
            continue  # the answer is the whole object: one member would show a part of it
        if (
            value.get(key)
            and (messages := output_messages(value[key], depth + 1)) is not None
        ):
            return messages
    return output_messages(_only_text(value))


def _listed(value: list[Any]) -> Messages | None:
    """The turns of a list that holds messages alone."""
    return (
        [t for item in value for t in normalize_message(item)]
        if all(map(is_message, value))
        else None
    )


def _only_text(value: Mapping[str, Any]) -> str | None:
    """The text of an object that holds nothing else."""
    only = [inner for inner in value.values() if inner not in EMPTY]
    return only[0] if len(only) == 1 and isinstance(only[0], str) else None


def agent_turns(value: Any) -> Messages:
    """The output of a model as its own turns, whatever roles it claims; an unknown value as JSON."""
    messages = [] if value in EMPTY else output_messages(value)
    if messages is None or any(
        m.get("role") not in OWN_ROLES or holds_result(m) for m in messages
    ):
        return as_turn("assistant", value)
    return messages


def question_turns(value: Any) -> Messages:
    """The messages of an input; an input without any as one user's message."""
    messages = input_messages(value)
    return as_turn("user", value) if messages is None else messages


def as_turn(role: str, value: Any) -> Messages:
    """A value of no known shape as a turn of text, so that a part that looks like a tool's result is none."""
    text = value if isinstance(value, str) else dump(value).decode()
    return [] if value in EMPTY else [{"role": role, "content": text}]


def holds_result(message: Mapping[str, Any]) -> bool:
    """Tell if a message is, or holds, the result of a tool."""
    parts = objects(message.get("content"))
    return any(part.get("type") in RESULT_KINDS for part in parts) or is_result(message)


def is_result(message: Mapping[str, Any]) -> bool:
    """Tell if a message is the result of tools, and nothing else."""
    parts = items(message.get("content"))
    only = bool(parts) and all(lookup(part, "type") == "tool_result" for part in parts)
    return (
        only
        or message.get("role") == "tool"
        or message.get("type") == "function_call_output"
    )


def is_message(value: Any) -> bool:
    """Tell if a value is one message, in any of the dialects."""
    if not isinstance(value, Mapping):
        return False
    if "message.role" in value or isinstance(lookup(value, "message.role"), str):
        return True
    if isinstance(value.get("role"), str):
        return bool(_CONTENTS & value.keys())
    kind, body = langchain_body(value)
    if kind is not None and kind.lower() in _ROLES and kind != "model":
        return body is not value or "content" in value
    return kind in _ITEMS and not isinstance(value.get("parts"), list)


def normalize_message(value: Mapping[str, Any]) -> Messages:
    """One message of any dialect as a list of one that renders; [] for a tool that was offered."""
    if any(
        key.startswith("message.") for key in value
    ):  # OpenInference as Phoenix writes it in tables
        value = {key.removeprefix("message."): inner for key, inner in value.items()}
    elif isinstance(
        value.get("message"), Mapping
    ):  # OpenInference; a choice of OpenAI's
        value = value["message"]
    role, body = value.get("role"), value
    if not isinstance(role, str):
        kind, body = langchain_body(value)
        if kind in _ITEMS:
            return [dict(value)]
        role = kind if str(kind).lower() in _ROLES else body.get("role") or kind
    role = _ROLES.get(str(role).lower(), str(role))
    contents = (body.get(key) for key in ("content", "parts", "contents", "text"))
    content = next(
        (inner for inner in contents if inner not in (None, "")), body.get("text")
    )
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list):
        content = content["parts"]
    if (
        role == "tool"
        and isinstance(content, Mapping)
        and content.get("type") == "function"
    ):
        return []
    out: dict[str, Any] = {"role": role, "content": content}
    calls = _calls(body)
    if isinstance(content, list):
        parts = [normalize_part(part) for part in content]
        kinds = [part.get("type") for part in objects(parts)]
        if role == "tool":
            out["role"] = (
                "assistant"
                if "tool_use" in kinds
                else "user"
                if "tool_result" in kinds
                else role
            )
        if len(calls) >= kinds.count("tool_use"):
            parts = [part for part in parts if lookup(part, "type") != "tool_use"]
        else:
            calls = []
        out["content"] = (
            parts[0]["text"] if len(parts) == 1 and kinds == ["text"] else parts
        )
    more = {name: body.get(name) for name in ("name", "tool_call_id", "refusal")}
    thought = next((body[name] for name in THOUGHT_KEYS if body.get(name)), None)
    more |= {
        "tool_calls": calls,
        "reasoning_content": thought or lookup(body, _MORE + "reasoning_content"),
    }
    return [out | {name: inner for name, inner in more.items() if inner}]


_MORE = "additional_kwargs."
"""The member of LangChain's messages that holds fields of a single provider."""


def offered_tools(value: Any) -> list[Any]:
    """The tools of an input, from the request or from among its messages."""
    if isinstance(value, Mapping):
        if tools := items(lookup(value, "tools") or lookup(value, "config.tools")):
            return [
                d
                for tool in tools
                for d in (lookup(tool, "function_declarations") or [tool])
            ]
        value = value.get("messages")
    contents = objects([message.get("content") for message in objects(value)])
    return [tool for tool in contents if tool.get("type") == "function"]


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, white space stripped."""
    return "\n".join(_texts(message.get("content"), 0)).strip()


def called_names(message: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the tools that a message calls."""
    uses = [
        part
        for part in objects(message.get("content"))
        if part.get("type") == "tool_use"
    ]
    item = [message] if message.get("type") == "function_call" else []
    names = [
        lookup(call, "function.name") or call.get("name")
        for call in objects(message.get("tool_calls"))
    ]
    return tuple(map(str, [*names, *(part.get("name") for part in [*uses, *item])]))


def _texts(content: Any, depth: int) -> list[str]:
    if isinstance(content, str):
        return [content]
    if isinstance(content, list) and depth < _DEEP:
        return [text for part in content for text in _texts(part, depth + 1)]
    text = lookup(content, "text")
    return [text] if isinstance(text, str) else []


def _plain(value: Any) -> str | None:
    """The text of a system prompt; None if it has none."""
    parts = lookup(value, "parts")
    value = parts if isinstance(parts, list) else value
    if isinstance(value, list):
        value = "\n".join(_texts([normalize_part(part) for part in value], 0))
    return value if isinstance(value, str) and value else None


def _calls(body: Mapping[str, Any]) -> list[Any]:
    """The tool calls that stand beside the content of a message."""
    listed = items(body.get("tool_calls") or lookup(body, _MORE + "tool_calls"))
    single = body.get("function_call") or lookup(body, _MORE + "function_call")
    calls = [*listed, *items(body.get("invalid_tool_calls")), *objects([single])]
    return [
        normalize_call(call) if isinstance(call, Mapping) else call for call in calls
    ]


def normalize_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call of any dialect, with `function` inside it, flat, or below `tool_call`."""
    if isinstance(call.get("tool_call"), Mapping):
        call = call["tool_call"]
    function = call.get("function")
    flat = {
        k.removeprefix("tool_call.").removeprefix("function."): v
        for k, v in call.items()
    }
    fields = {**flat, **function} if isinstance(function, Mapping) else flat
    arguments = next(
        (fields[key] for key in ("arguments", "args", "input") if key in fields), None
    )
    identity = flat.get("id") or fields.get("toolCallId") or fields.get("name")
    return {
        "id": identity,
        "name": fields.get("name") or fields.get("toolName"),
        "arguments": arguments,
    }


def call_turn(identity: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A turn of the agent that is one call of a tool."""
    call = {"id": identity, "name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result_turn(identity: Any, content: Any, name: Any = None) -> dict[str, Any]:
    """The result of a call as a message."""
    named = {} if name is None else {"name": name}
    return {"role": "tool", "tool_call_id": identity, "content": content, **named}


def normalize_part(part: Any) -> Any:
    """A part of a message as one that renders: text, thought, call, result."""
    if isinstance(part, Mapping) and isinstance(part.get("message_content"), Mapping):
        part = part["message_content"]
    if not isinstance(part, Mapping):
        return part
    part = {key.removeprefix("message_content."): value for key, value in part.items()}
    kind = str(part.get("type")).replace("-", "_")
    for name, other, read in _GEMINI:
        if isinstance(inner := part.get(name) or part.get(other), Mapping):
            return read(inner)
    function = kind == "function" and isinstance(part.get("function"), Mapping)
    if kind in ("tool_call", "tool_use") or function:
        return _use(part)
    if kind in ("tool_call_response", "tool_result"):
        return _result(part)
    if kind in ("thinking", "reasoning") or part.get("thought") is True:
        thought = next(
            (
                part[k]
                for k in ("thinking", "content", "text", "reasoning")
                if part.get(k)
            ),
            "",
        )
        return {"type": "thinking", "thinking": thought}
    text = part.get("text", part.get("content") if kind == "text" else None)
    return {"type": "text", "text": text} if isinstance(text, str) else part


def _use(part: Mapping[str, Any]) -> dict[str, Any]:
    call = normalize_call(part)
    return {
        "type": "tool_use",
        "id": str(call["id"]),
        "name": call["name"],
        "input": call["arguments"],
    }


def _result(part: Mapping[str, Any]) -> dict[str, Any]:
    content = first_at(part, "result", "response", "output", "content")
    names = ("tool_use_id", "id", "toolCallId", "tool_call_id", "name")
    identity = next((part[key] for key in names if part.get(key)), None)
    named = {"toolName": part["name"]} if part.get("name") else {}
    return {
        "type": "tool_result",
        "tool_use_id": str(identity),
        "content": content,
        **named,
    }


_GEMINI: tuple[tuple[str, str, Callable[[Mapping[str, Any]], dict[str, Any]]], ...] = (
    ("function_call", "functionCall", _use),
    ("function_response", "functionResponse", _result),
    (
        "executable_code",
        "executableCode",
        lambda code: _use({"name": "code", "input": code}),
    ),
    (
        "code_execution_result",
        "codeExecutionResult",
        lambda ran: _result({"name": "code", "output": ran}),
    ),
    (
        "inline_data",
        "inlineData",
        lambda data: {"type": str(first_at(data, "mime_type", "mimeType"))},
    ),
)
"""Gemini's parts of a message, in both spellings."""
