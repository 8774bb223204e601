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

from collections.abc import Callable
from typing import Any

from ruler_cli.files.events import LANGCHAIN, langchain_body
from ruler_cli.files.parse import dump
from ruler_cli.formats.chat import (
    RESULT_KINDS,
    THOUGHT_KEYS,
    Messages,
    Turn,
    new_turn,
    other_text,
    texts,
)
from ruler_cli.formats.fields import (
    EMPTY,
    JsonObject,
    Names,
    first,
    first_at,
    first_of,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
    objects,
    words,
)

_ROLES = {name.lower(): role for name, role in LANGCHAIN.items()} | {
    "model": "assistant"
}
_ITEMS = words(
    "function_call function_call_output reasoning message web_search_call computer_call"
)
"""Items of OpenAI's Responses, which render as they are."""
_CONTENTS = frozenset(words("content contents parts tool_calls function_call text"))
_PROMPTS = words(
    "messages contents new_message input inputs prompt prompts kwargs args"
)
"""Members of a request's body that hold the prompt."""
_SYSTEM = words(
    "system instructions system_instruction config.system_instruction system_prompt"
)
_CHOICES = words(
    "choices.0.message candidates.0.content generations.0.0.message choices.0.text generations.0.0.text"
)
_ANSWERS = words("messages message content output outputs text response answer result")
OWN_ROLES = ("assistant", None)
"""Roles of the agent's turns; an item of OpenAI's Responses has none."""
_DEEP = 6
"""Levels of objects inside objects that are read."""


def messages_of(value: Any, role: str, depth: int = 0) -> Messages | None:
    """Messages in the input (of the role `user`) or output (`assistant`) of a model.

    None if the value holds neither messages of a known shape nor a text.
    """
    if is_text(value):
        if value.strip():
            return [new_turn(role, value)]
        return None
    if depth > _DEEP or not value:
        return None
    asked = role == "user"
    if is_list(value):
        if asked and all(map(is_text, value)):
            return [new_turn(role, item) for item in value]
        gemini = all(is_object(m) and "parts" in m for m in value)
        if asked and gemini and not all(map(is_message, value)):
            value = [{"role": role, **item} for item in value]  # without a role
        if all(map(is_message, value)):
            messages = [turn for item in value for turn in normalize_message(item)]
            if messages:
                return messages
        if not asked and all(is_text(lookup(item, "type")) for item in value):
            return [new_turn(role, [*map(normalize_part, value)])]
        if len(value) == 1:
            return messages_of(value[0], role, depth + 1)
        return None
    if not is_object(value):
        return None
    if is_message(value):
        return normalize_message(value)
    for path in () if asked else _CHOICES:
        choice = lookup(value, path)
        if is_object(choice):
            own = choice if "kwargs" in choice else {"role": role, **choice}
            return normalize_message(own)
        if is_text(choice):
            return messages_of(choice, role)
    for key in _PROMPTS if asked else _ANSWERS:
        inner = value.get(key)
        if not asked and is_text(inner) and other_text(value).keys() - {key}:
            continue  # the answer is the whole object: one member would show a part of it
        found = messages_of(inner, role, depth + 1)
        if found is None or (asked and not found):
            continue
        given = any(m.get("role") in ("system", "developer") for m in found)
        systems = () if given or not asked else _SYSTEM
        system = first(filter(None, (_plain(lookup(value, path)) for path in systems)))
        if system is None:
            return found
        return [new_turn("system", system), *found]
    # the text of an object that holds nothing else
    only = [inner for inner in value.values() if inner not in EMPTY]
    if len(only) == 1 and is_text(only[0]):
        return messages_of(only[0], role)
    return None


def agent_turns(value: Any) -> Messages:
    """The output of a model as its own turns, whatever roles it claims; an unknown value as JSON."""
    if value in EMPTY:
        return []
    messages = messages_of(value, "assistant")
    if messages is not None and all(map(is_own, messages)):
        return messages
    return as_turn("assistant", value)


def question_turns(value: Any) -> Messages:
    """The messages of an input; an input without any as one user's message."""
    messages = messages_of(value, "user")
    if messages is None:
        return as_turn("user", value)
    return messages


def as_turn(role: str, value: Any) -> Messages:
    """A value of no known shape as a turn of text, so that a part that looks like a tool's result is none."""
    text = value if is_text(value) else dump(value).decode()
    if value in EMPTY:
        return []
    return [new_turn(role, text)]


def is_own(message: JsonObject) -> bool:
    """Tell if a message is the agent's, and holds no result of a tool."""
    parts = objects(message.get("content"))
    held = any(part.get("type") in RESULT_KINDS for part in parts)
    return message.get("role") in OWN_ROLES and not held and not is_result(message)


def is_result(message: JsonObject) -> bool:
    """Tell if a message is the result of tools, and nothing else."""
    parts = items(message.get("content"))
    if parts and all(lookup(part, "type") == "tool_result" for part in parts):
        return True
    kind = message.get("type")
    return message.get("role") == "tool" or kind == "function_call_output"


def is_message(value: Any) -> bool:
    """Tell if a value is one message, in any of the dialects."""
    if not is_object(value):
        return False
    if "message.role" in value or is_text(lookup(value, "message.role")):
        return True
    if is_text(value.get("role")):
        return bool(_CONTENTS & value.keys())
    kind, body = langchain_body(value)
    if kind is not None and kind.lower() in _ROLES and kind != "model":
        return body is not value or "content" in value
    return kind in _ITEMS and not is_list(value.get("parts"))


def normalize_message(value: JsonObject) -> Messages:
    """One message of any dialect as a list of one that renders; [] for a tool that was offered."""
    if any(key.startswith("message.") for key in value):
        # OpenInference as Phoenix writes it in tables
        value = {key.removeprefix("message."): inner for key, inner in value.items()}
    elif is_object(value.get("message")):
        value = value["message"]  # OpenInference; a choice of OpenAI's
    role = value.get("role")
    body = value
    if not is_text(role):
        kind, body = langchain_body(value)
        if kind in _ITEMS:
            return [dict(value)]
        role = kind if str(kind).lower() in _ROLES else body.get("role") or kind
    role = _ROLES.get(str(role).lower(), str(role))
    contents = (body.get(key) for key in ("content", "parts", "contents", "text"))
    stated = (content for content in contents if content not in (None, ""))
    content = next(stated, body.get("text"))
    if is_object(content) and is_list(content.get("parts")):
        content = content["parts"]
    if role == "tool" and lookup(content, "type") == "function":
        return []
    calls = _calls(body)
    if is_list(content):
        parts = [normalize_part(part) for part in content]
        kinds = [part.get("type") for part in objects(parts)]
        if role == "tool" and "tool_use" in kinds:
            role = "assistant"
        elif role == "tool" and "tool_result" in kinds:
            role = "user"
        if len(calls) >= kinds.count("tool_use"):
            parts = [part for part in parts if lookup(part, "type") != "tool_use"]
        else:
            calls = []
        single = len(parts) == 1 and kinds == ["text"]
        content = parts[0]["text"] if single else parts
    more = {name: body.get(name) for name in ("name", "tool_call_id", "refusal")}
    thought = first_of(body, THOUGHT_KEYS)
    more["tool_calls"] = calls
    more["reasoning_content"] = thought or lookup(body, _MORE + "reasoning_content")
    stated_more = {name: inner for name, inner in more.items() if inner}
    return [new_turn(role, content, **stated_more)]


_MORE = "additional_kwargs."
"""The member of LangChain's messages that holds fields of a single provider."""


def offered_tools(value: Any) -> list[Any]:
    """The tools of an input, from the request or from among its messages."""
    listed = items(lookup(value, "tools") or lookup(value, "config.tools"))
    if listed:
        return [
            declared
            for tool in listed
            for declared in (lookup(tool, "function_declarations") or [tool])
        ]
    messages = lookup(value, "messages") if is_object(value) else value
    contents = objects([message.get("content") for message in objects(messages)])
    return [tool for tool in contents if tool.get("type") == "function"]


def called_names(message: JsonObject) -> Names:
    """The names of the tools that a message calls."""
    names = [
        lookup(call, "function.name") or call.get("name")
        for call in objects(message.get("tool_calls"))
    ]
    uses = objects(message.get("content"))
    names += [part.get("name") for part in uses if part.get("type") == "tool_use"]
    names += [message.get("name")] if message.get("type") == "function_call" else []
    return tuple(map(str, names))


def _plain(value: Any) -> str | None:
    """The text of a system prompt; None if it has none."""
    parts = lookup(value, "parts")
    value = parts if is_list(parts) else value
    if is_list(value):
        value = "\n".join(texts([normalize_part(part) for part in value]))
    if is_text(value) and value:
        return value
    return None


def _calls(body: JsonObject) -> list[Any]:
    """The tool calls that stand beside the content of a message."""
    listed = items(body.get("tool_calls") or lookup(body, _MORE + "tool_calls"))
    single = body.get("function_call") or lookup(body, _MORE + "function_call")
    calls = [*listed, *items(body.get("invalid_tool_calls")), *objects([single])]
    return [normalize_call(c) if is_object(c) else c for c in calls]


def normalize_call(call: JsonObject) -> Turn:
    """A tool call of any dialect, with `function` inside it, flat, or below `tool_call`."""
    if is_object(call.get("tool_call")):
        call = call["tool_call"]
    flat = {
        key.removeprefix("tool_call.").removeprefix("function."): value
        for key, value in call.items()
    }
    function = call.get("function")
    fields = {**flat, **function} if is_object(function) else flat
    stated = (fields[key] for key in ("arguments", "args", "input") if key in fields)
    identity = flat.get("id") or fields.get("toolCallId") or fields.get("name")
    name = fields.get("name") or fields.get("toolName")
    return {"id": identity, "name": name, "arguments": first(stated)}


def call_turn(identity: Any, name: Any, arguments: Any) -> Turn:
    """A turn of the agent that is one call of a tool."""
    call = {"id": identity, "name": name, "arguments": arguments}
    return new_turn("assistant", None, tool_calls=[call])


def result_turn(identity: Any, content: Any, name: Any = None) -> Turn:
    """The result of a call as a message."""
    named = {} if name is None else {"name": name}
    return new_turn("tool", content, tool_call_id=identity, **named)


def call_at(event: Any, places: str) -> Turn:
    """A turn that is one call, whose id, name and arguments stand at these places (see `_at`)."""
    return call_turn(*_at(event, places))


def result_at(event: Any, places: str) -> Turn:
    """The result of a call, whose id, content and perhaps name stand at these places (see `_at`)."""
    return result_turn(*_at(event, places))


def _at(event: Any, places: str) -> list[Any]:
    """The value at each of several places: a path, or paths with `|` between them, of which the first counts."""
    return [first_at(event, *place.split("|")) for place in words(places)]


def normalize_part(part: Any) -> Any:
    """A part of a message as one that renders: text, thought, call, result."""
    if is_object(lookup(part, "message_content")):
        part = part["message_content"]
    if not is_object(part):
        return part
    part = {key.removeprefix("message_content."): value for key, value in part.items()}
    for name, other, read in _GEMINI:
        if is_object(inner := part.get(name) or part.get(other)):
            return read(inner)
    kind = str(part.get("type")).replace("-", "_")
    function = kind == "function" and is_object(part.get("function"))
    if kind in ("tool_call", "tool_use") or function:
        return _use(part)
    if kind in ("tool_call_response", "tool_result"):
        return _result(part)
    if kind in ("thinking", "reasoning") or part.get("thought") is True:
        thought = first_of(part, ("thinking", "content", "text", "reasoning"))
        return {"type": "thinking", "thinking": thought or ""}
    text = part.get("text", part.get("content") if kind == "text" else None)
    if is_text(text):
        return {"type": "text", "text": text}
    return part


def _use(part: JsonObject) -> Turn:
    call = normalize_call(part)
    identity = str(call["id"])
    name = call["name"]
    given = call["arguments"]
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


def _result(part: JsonObject) -> Turn:
    content = first_at(
        part,
        "result",
        "response",
        "output",
        "content",
    )
    names = ("tool_use_id", "id", "toolCallId", "tool_call_id", "name")
    identity = str(first_of(part, names))
    named = {"toolName": part["name"]} if part.get("name") else {}
    return {
        "type": "tool_result",
        "tool_use_id": identity,
        "content": content,
        **named,
    }


_GEMINI: tuple[tuple[str, str, Callable[[JsonObject], Turn]], ...] = (
    ("function_call", "functionCall", _use),
    ("function_response", "functionResponse", _result),
    ("executable_code", "executableCode", lambda part: _use({"name": "code", "input": part})),
    ("code_execution_result", "codeExecutionResult",
     lambda part: _result({"name": "code", "output": part})),
    ("inline_data", "inlineData",
     lambda part: {"type": str(first_at(part, "mime_type", "mimeType"))}),
)  # fmt: skip
"""Gemini's parts of a message, in both spellings."""
