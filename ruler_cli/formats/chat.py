"""The places where chat messages stand: `messages`, ART's Choices, and ART's recorded exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import contains
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_text

Messages = list[Any]


def messages_of(trajectory: Mapping[str, Any]) -> Messages:
    """The main conversation of a trajectory; UnreadableError where there is none."""
    for key in ("messages", "messages_and_choices"):
        if trajectory.get(key) is not None:
            return check_messages(trajectory[key], key)
    conversations = _conversations(trajectory.get("exchanges"))
    if conversations:
        return check_messages(conversations[-1], "exchanges")
    raise UnreadableError("has no messages")


def histories(trajectory: Mapping[str, Any]) -> tuple[Messages, ...]:
    """Further conversations of the same rollout: additional histories, or exchanges that forked."""
    if "additional_histories" not in trajectory and "exchanges" not in trajectory:
        return ()
    found: list[Messages] = []
    more = trajectory.get("additional_histories")
    if isinstance(more, list):
        for i, history in enumerate(more):
            if isinstance(history, dict):
                found.append(messages_of(history))
            elif isinstance(history, list):
                found.append(check_messages(history, f"additional_histories[{i}]"))
    conversations = _conversations(trajectory.get("exchanges"))
    found += [check_messages(c, "exchanges") for c in conversations[:-1]]
    return tuple(found)


def tools_of(trajectory: Mapping[str, Any]) -> Any:
    """The trajectory's tools, also where they are JSON text or stand in the first exchange."""
    tools = trajectory.get("tools")
    if isinstance(tools, str):
        try:
            return parse_text(tools)
        except UnreadableError:
            return tools
    if tools is None and "exchanges" in trajectory:
        for request, _ in _exchanges(trajectory.get("exchanges")):
            return request.get("tools")
    return tools


def check_messages(value: Any, where: str) -> Messages:
    """Messages as a list of plain message objects; a Choice is replaced by its message."""
    if not isinstance(value, list):
        raise UnreadableError(f"`{where}` is no list of messages")
    if not value:
        raise UnreadableError(f"`{where}` is empty: there are no messages to judge")
    # without a step of Python for each message: most of a dump is read twice
    if {*map(type, value)} == {dict} and all(map(contains, value, repeat("role"))):
        return value
    out: Messages = []
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            raise UnreadableError(f"`{where}[{i}]` is no message object")
        inner = item.get("message")
        # a Choice is a dict with `message` inside, and no role of its own
        message = inner if isinstance(inner, dict) and "role" not in item else item
        if "role" not in message and "type" not in message:
            raise UnreadableError(f"`{where}[{i}]` has no role")
        out.append(message)
    return out


def first_turn(messages: Messages) -> int:
    """Index of the first message that the agent wrote; a Responses item without a role is its own."""
    for i, message in enumerate(messages):
        if message.get("role") in ("assistant", "model", None):
            return i
    return len(messages)


def _conversations(exchanges: Any) -> list[Messages]:
    """The recorded conversations, without those that a later one continues."""
    found: list[Messages] = []
    for request, response in _exchanges(exchanges):
        conversation = _asked(request) + _answered(response)
        said = _said(conversation)
        found = [f for f in found if _said(f) != said[: len(f)]]
        found.append(conversation)
    return found


def _said(value: Any) -> Any:
    """A value without its nulls: a client that sends a message again leaves them out."""
    if isinstance(value, dict):
        return {key: _said(v) for key, v in value.items() if v is not None and v != []}
    return [_said(v) for v in value] if isinstance(value, list) else value


def _exchanges(value: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    if isinstance(value, dict):
        for kind in ("chat_completions", "responses", "messages", "completions"):
            listed = value.get(kind)
            for exchange in listed if isinstance(listed, list) else ():
                if isinstance(exchange, dict):
                    request, response = exchange.get("request"), exchange.get("response")
                    if isinstance(request, dict) and isinstance(response, dict):
                        yield request, response


def _asked(request: Mapping[str, Any]) -> Messages:
    out: Messages = []
    for key in ("system", "instructions"):
        if request.get(key):
            out.append({"role": "system", "content": request[key]})
    for key in ("messages", "input", "prompt"):
        asked = request.get(key)
        if isinstance(asked, str):
            out.append({"role": "user", "content": asked})
        elif isinstance(asked, list):
            out += asked
    return out


def _answered(response: Mapping[str, Any]) -> Messages:
    choices, output = response.get("choices"), response.get("output")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        text = choices[0].get("text")
        return [message] if message is not None else [{"role": "assistant", "content": text}]
    if isinstance(output, list):
        return list(output)
    return [{"role": response.get("role", "assistant"), "content": response.get("content")}]
