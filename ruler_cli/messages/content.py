"""Parts of a chat message as its record wrote it: its author, its text, its calls, and its further fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruler_cli.files.values import (
    JsonObject,
    first_of,
    is_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
)
from ruler_cli.messages.names import (
    ABOUT_TURN,
    AGENT_ROLES,
    CALL_KEYS,
    KNOWN,
    NOT_SHOWN,
    OTHERS,
    SINGLE_CALLS,
    TRANSCRIPT,
    kind_of,
    words_of,
)

Messages = list[Any]
Turn = dict[str, Any]
"""A message that is made."""


def new_turn(
    role: Any,
    content: Any,
    **more: Any,
) -> Turn:
    """Make a message, without further fields that are empty."""
    stated = {name: value for name, value in more.items() if value}
    return {"role": role, "content": content, **stated}


def first_agent_turn(messages: Messages) -> int:
    """Return the index of the agent's first message, else the number of messages.

    A Responses item without a role counts as the agent's.
    """
    for i, message in enumerate(messages):
        if message.get("role") in AGENT_ROLES:
            return i
    return len(messages)


def is_agent(message: JsonObject) -> bool:
    """Return whether the agent wrote a message: by its role, or as a typed item without one."""
    role = message.get("role")
    kind = kind_of(message)
    by_other = kind == "tool" or (role is None and kind in OTHERS)
    return role == TRANSCRIPT or (role in AGENT_ROLES and not by_other)


def calls_of(message: JsonObject) -> list[Any]:
    """Return the calls of a message in any of its fields, also in its metadata, as they stand."""
    listed = first_of(message, CALL_KEYS)
    if not listed and "metadata" in message:
        listed = lookup(message, "metadata.tool_calls")
    value = json_value(listed, text=True)
    # a number only counts them
    single = [value] if value and isinstance(value, str | dict) else []
    calls = items(value) or single
    calls = [*calls, *filter(None, map(message.get, SINGLE_CALLS))]
    more = message.get("additional_kwargs")  # LlamaIndex, LangChain
    return calls or (calls_of(more) if more and is_object(more) else [])


def other_text(
    message: JsonObject,
    *,
    numbers: bool = False,
    besides: frozenset[str] = KNOWN,
) -> dict[str, Any]:
    """Return the fields of a message that hold text and are neither its content, nor metadata, nor a grader's.

    With `numbers` also those that hold a number or true. `besides` are the fields that are content or metadata.
    """
    if besides.issuperset(message):  # fast, as most are
        return {}
    rest = {key: message[key] for key in message if key not in besides}
    shown = {}
    for key, value in ungraded(rest).items():
        if numbers:
            counts = any(leaf is not False for leaf in leaves(value))
        else:
            counts = not isinstance(value, int | float) and has_text(value)
        if counts:
            shown[key] = value
    return shown


def ungraded(
    value: Any,
    depth: int = 0,
) -> Any:
    """Return a JSON value, also one in JSON text, without reference answers and what graders say, at every depth."""
    if depth > _MOST_LEVELS:
        return None
    if is_object(value):
        return {
            key: ungraded(inner, depth + 1)
            for key, inner in value.items()
            if not NOT_SHOWN & words_of(key)
        }
    if is_list(value):
        return [ungraded(inner, depth + 1) for inner in value]
    inner = json_inside(value)
    if inner is None:
        return value
    shown = ungraded(inner, depth + 1)
    return value if shown == inner else shown


def json_inside(value: Any) -> Any:
    """Return the object or the list that JSON text holds; None for any other value."""
    is_json = is_text(value) and value.startswith(("{", "["))
    return json_value(value) if is_json else None


_MOST_LEVELS = 50
"""Levels of a field beside the content of a message that are shown."""


def leaves(
    value: Any,
    beside: frozenset[str] = frozenset(),
) -> Iterator[Any]:
    """Yield what a JSON value holds that is not empty, without metadata and fields with one of these words."""
    stack = [value]
    while stack:
        item = stack.pop()
        if is_object(item):
            for key, inner in item.items():
                if key not in ABOUT_TURN and not beside & words_of(key):
                    stack.append(inner)
        elif is_list(item):
            stack += item
        elif item not in (None, ""):
            yield item


def has_text(value: Any) -> bool:
    """Return whether a JSON value holds text or a number, other than kinds and ids."""
    for leaf in leaves(value):
        if is_text(leaf):
            if not leaf.isspace():
                return True
        elif not isinstance(leaf, bool):
            return True
    return False


def text_of(message: JsonObject) -> str:
    """Return the text of a message, white space stripped."""
    return "\n".join(texts(message.get("content"))).strip()


def texts(content: Any) -> list[str]:
    """Return the texts of a message's content: of one, or of parts."""
    parts = items(content) or [content]
    stated = [part if is_text(part) else lookup(part, "text") for part in parts]
    return [*filter(is_text, stated)]
