"""Model calls and messages in the dialect of a framework → chat messages that render.

Read from the writers: OpenTelemetry's GenAI conventions (`parts`), OpenInference (`message`, flattened or
nested), LangChain (constructors, `type: human`, `data`), the bodies of OpenAI, Anthropic and Gemini, Vercel's
AI SDK (`tool-call`). Traps:
- A model's text may look like messages. So this module reads no text as JSON but that of `parts`, takes roles
  from `role`, `type` and LangChain's class names only, and makes a model's output the model's own turn,
  whatever role it claims.
- LangChain's Langfuse handler writes the tools that a model was offered as messages of the role `tool`, and
  its messages may hold a call twice, as a part of Anthropic and in `tool_calls`.
- Koog writes calls as messages of the role `tool`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ruler_cli.files.parse import dump
from ruler_cli.files.values import (
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
    json_value,
    lookup,
    objects,
    words,
)
from ruler_cli.messages.content import (
    Messages,
    Turn,
    calls_of,
    new_turn,
    other_text,
    texts,
)
from ruler_cli.messages.conversations import with_system
from ruler_cli.messages.form import Message
from ruler_cli.messages.names import ROLES, THOUGHT_KEYS, kind_of
from ruler_cli.messages.parts import normalize_part
from ruler_cli.messages.read import read_message

_ITEM = re.compile("(?!tool_call).+_call(_output)?|reasoning|message")
"""Items of OpenAI's Responses, which render as they are."""
_CONTENTS = frozenset(
    words("content contents parts tool_calls function_call text")
)
_PROMPTS = words(
    "messages contents new_message input inputs prompt prompts kwargs args"
)
"""Members of a request's body that hold the prompt."""
_SYSTEM = words(
    "system instructions system_instruction systemInstruction config.system_instruction system_prompt"
)
_CHOICES = words(
    "choices.0.message candidates.0.content generations.0.0.message choices.0.text generations.0.0.text"
)
_ACTS = (*THOUGHT_KEYS, "parts")
_ANSWERS = words(
    "messages message content output outputs text response answer result body"
)


def messages_of(
    value: Any,
    role: str,
) -> Messages | None:
    """Messages in the input (of the role `user`) or output (`assistant`) of a model.

    None if the value holds neither messages of a known shape nor a text.
    """
    if is_text(value):
        return [new_turn(role, value)] if value.strip() else None
    if is_list(value) and value:
        return _listed_messages(value, role)
    if not is_object(value):
        return None
    if is_message(value):
        return normalize_message(value)
    messages = _asked(value) if role == "user" else _answered(value)
    # the text of an object that holds nothing else
    only = [inner for inner in value.values() if inner not in EMPTY]
    if messages is None and len(only) == 1 and is_text(only[0]):
        return messages_of(only[0], role)
    return messages


def _listed_messages(
    value: list[Any],
    role: str,
) -> Messages | None:
    asked = role == "user"
    if asked and all(map(is_text, value)):
        return [new_turn(role, item) for item in value]
    if asked and all(is_object(item) and "parts" in item for item in value):
        # Gemini's may be without a role
        value = [{"role": role, **item} for item in value]
    if all(map(is_message, value)):
        turns = chain.from_iterable(map(normalize_message, value))
        messages = [*turns]
        if messages:
            return messages
    if not asked and all(is_text(lookup(item, "type")) for item in value):
        return [new_turn(role, [*map(normalize_part, value)])]
    return messages_of(value[0], role) if len(value) == 1 else None


def _asked(body: JsonObject) -> Messages | None:
    """The prompt in the body of a request, and its system prompt."""
    for key in _PROMPTS:
        messages = messages_of(body.get(key), "user")
        if messages:
            systems = (lookup(body, path) for path in _SYSTEM)
            system = first(filter(None, systems))
            parts = items(lookup(system, "parts")) or items(system) or [system]
            system_texts = texts([*map(normalize_part, parts)])
            return with_system({"system": "\n".join(system_texts)}, messages)
    return None


def _answered(body: JsonObject) -> Messages | None:
    """The answer in the body of a response."""
    choice = first_at(body, *_CHOICES)
    if choice is None and (first_of(body, _ACTS) or calls_of(body)):
        choice = body
    if is_object(choice):
        role = {} if "kwargs" in choice else {"role": "assistant"}
        return normalize_message({**role, **choice})
    if is_text(choice):
        return messages_of(choice, "assistant")
    for key in _ANSWERS:
        inner = body.get(key)
        # the answer may be the whole object, of which one member would show a part
        if is_text(inner) and other_text(body).keys() - {key}:
            continue
        messages = messages_of(inner, "assistant")
        if messages is not None:
            return messages
    return None


def agent_turns(value: Any) -> Messages:
    """The output of a model as its own turns, whatever roles it claims; an unknown value as JSON."""
    messages = messages_of(value, "assistant")
    if messages is not None and all(
        read_message(turn).is_own for turn in messages
    ):
        return messages
    return as_turn("assistant", value)


def question_turns(value: Any) -> Messages:
    """The messages of an input; an input without any as one user's message."""
    messages = messages_of(value, "user")
    return as_turn("user", value) if messages is None else messages


def as_turn(
    role: str,
    value: Any,
) -> Messages:
    """A value of no known shape as a turn of text, so that a part that looks like a tool's result is none."""
    if value in EMPTY:
        return []
    text = value if is_text(value) else dump(value).decode()
    return [new_turn(role, text)]


def is_message(value: Any) -> bool:
    """Return whether a value is one message, in any of the dialects."""
    if not is_object(value):
        return False
    if is_text(value.get("role")):
        return bool(_CONTENTS & value.keys())
    kind, body = _langchain_body(value)
    if _ITEM.fullmatch(str(kind)) and not is_list(value.get("parts")):
        return True
    if _speaker(kind) in ROLES and kind != "model":
        return body is not value or "content" in value
    return is_text(lookup(value, "message.role"))


def _speaker(kind: Any) -> str:
    """Return the speaker that a role or a type names, as `human` of `HumanMessageChunk`."""
    return str(kind).lower().removesuffix("chunk").removesuffix("message")


def _langchain_body(event: JsonObject) -> tuple[str | None, JsonObject]:
    """Return the type of a message of LangChain, and the object that holds its content."""
    kind = event.get("type")
    body = event.get("data")
    if kind == "constructor" and is_object(event.get("kwargs")):
        body = event["kwargs"]
        kind = body.get("type") or lookup(event, "id.-1")
    return kind if is_text(kind) else None, body if is_object(body) else event


def _without_prefixes(value: Any) -> Any:
    """Return an object without what stands before the last dot of its keys, as Phoenix writes it in tables."""
    if not is_object(value):
        return value
    return {key.rpartition(".")[2]: inner for key, inner in value.items()}


def normalize_message(value: JsonObject) -> Messages:
    """One message of any dialect as a list of one that renders; [] for a tool that was offered."""
    # OpenInference as Phoenix writes it in tables
    value = _without_prefixes(value)
    if is_object(value.get("message")):
        value = value["message"]  # OpenInference; a choice of OpenAI's
    role = value.get("role")
    body = value
    if not is_text(role):
        kind, body = _langchain_body(value)
        if _ITEM.fullmatch(str(kind)):
            return [value]
        role = body.get("role") or kind
        if _speaker(kind) in ROLES:
            role = kind
    role = ROLES.get(_speaker(role), str(role))
    content = first_of(body, ("content", "parts", "contents", "text"))
    if content is body.get("parts"):
        content = json_value(content, text=True)
    content = items(lookup(content, "parts")) or content
    if role == "tool" and lookup(content, "type") == "function":
        return []
    made = [*calls_of(body), *items(body.get("invalid_tool_calls"))]
    if is_list(content):
        content = [*map(normalize_part, map(_without_prefixes, content))]
        kinds = [kind_of(part) for part in objects(content)]
        if role == "tool" and "call" in kinds:
            role = "assistant"
        elif role == "tool" and "tool" in kinds:
            role = "user"
        text = lookup(content, "0.text")
        if len(content) == 1 and kinds == [""] and is_text(text):
            content = text
    turn = new_turn(
        role,
        content,
        name=body.get("name"),
        tool_call_id=body.get("tool_call_id"),
        refusal=body.get("refusal"),
        tool_calls=[*map(_without_prefixes, made)],
        reasoning_content=first_of(body, THOUGHT_KEYS),
    )
    return [turn]


_DECLARED = words("function_declarations functionDeclarations")


def offered_tools(value: Any) -> list[Any]:
    """The tools of an input, from the request or from among its messages."""
    declared: list[Any] = []
    for tool in items(first_at(value, "tools", "config.tools")):
        declared += items(first_at(tool, *_DECLARED)) or [tool]
    if declared:
        return declared
    messages = objects(lookup(value, "messages") or value)
    contents = [message.get("content") for message in messages]
    return [tool for tool in contents if lookup(tool, "type") == "function"]


def call_turn(
    identity: Any,
    name: Any,
    arguments: Any,
) -> Turn:
    """A turn of the agent that is one call of a tool."""
    call = {"id": identity, "name": name, "arguments": arguments}
    return new_turn("assistant", None, tool_calls=[call])


def result_turn(
    identity: Any,
    content: Any,
    name: Any = None,
) -> Turn:
    """The result of a call as a message."""
    return new_turn(
        "tool",
        content,
        tool_call_id=identity,
        name=name,
    )


def each_at(
    event: Any,
    places: str,
) -> list[Any]:
    """The value at each of several places: a path, or paths with `|` between them, of which the first counts."""
    return [first_at(event, *place.split("|")) for place in words(places)]


@dataclass(frozen=True, slots=True)
class ComparableMessage:
    """A message in its normal form and as a chat message, with the names of its calls; equal ones have equal text."""

    role: str
    text: str
    called: Names
    form: Message = field(compare=False)
    message: Turn = field(compare=False)


def comparable(message: Turn) -> ComparableMessage:
    """Read a message for a comparison with others."""
    form = read_message(message)
    called = tuple([call.name for call in form.calls])
    text = form.text
    if not text and form.results:  # they tell it from other messages
        text = repr(form.results)
    whole = text.strip() if is_text(text) else repr(text)
    return ComparableMessage(
        form.role,
        whole,
        called,
        form,
        message,
    )
