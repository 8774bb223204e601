"""The places where chat messages stand: `messages`, ART's Choices, and ART's recorded exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from operator import contains
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.interface import lookup, printable
from ruler_cli.reading.parse import parse_text
from ruler_cli.types import Rollout

Messages = list[Any]

AGENT_ROLES = (
    "assistant", "model", "agent", "ai", "gpt", "chatgpt", "bot", "chatbot", "Assistant", "ASSISTANT",
    "Model", "MODEL", "Agent", "AGENT", "AI", "GPT", "Bot", "BOT", "submission",
)  # fmt: skip
"""Roles of the agent's own messages, and of the line with what it handed in.

A tuple, since a dump may hold a role that cannot be hashed."""
USER_ROLES = ("user", "human", "system", "developer", "User", "Human", "USER", "HUMAN")
TRANSCRIPT = "transcript"
"""The role of a message that holds a whole conversation as one text: the task and the agent's turns."""
TEXT_KEYS = ("content", "text", "value", "parts", "message", "body", "output", "result")
"""Fields that hold the text of a message, the first that holds any wins."""
CALL_KEYS = ("tool_calls", "toolCalls", "tool_uses", "function_calls", "toolInvocations", "tool_invocations")
"""Fields that hold a message's tool calls."""
RESULT_KINDS = ("tool_result", "tool-result", "toolResult")
"""Kinds of parts of a message that hold what came back from a tool."""
TOOLS = ("functions", "tool_definitions", "info.oai_tools")
"""Fields with tools that are not in `tools`: OpenAI's old name, Azure's evaluation, verifiers."""
THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking")
_LABELS = frozenset((
    "role", "name", "type", "kind", "id", "uuid", "parent", "parent_id", "index", "tool_call_id", "call_id",
    "function", "model", "model_name", "provider", "usage", "cost", "timestamp", "time", "date", "created",
    "created_at", "updated_at", "started_at", "ended_at", "finish_reason", "stop_reason", "stop_sequence",
    "end_turn", "logprobs", "token_ids", "tokens", "mask", "loss", "weight", "status", "state", "object",
    "metadata", "meta", "extra", "source", "annotations", "signature", "cache_control", "phase", "channel",
    "recipient", "sender", "agent", "agent_type", "is_demo", "message_type", "format", "mime_type",
    "encrypted_content", "response_metadata", "additional_kwargs", "usage_metadata", "model_extra",
    "provider_specific_fields",
))  # fmt: skip
"""Fields of a message that are about it, and not what it says."""
_WORDS = (None, "text", "input_text", "output_text", "thinking", "reasoning", "message")
"""Kinds of parts and items that say nothing if their text is empty."""
_OUTPUTS = (
    "function_call_output", "computer_call_output", "local_shell_call_output", "custom_tool_call_output",
)  # fmt: skip


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
    if tools is None:
        tools = next((found for path in TOOLS if isinstance(found := lookup(trajectory, path), list)), None)
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


def first_agent_turn(messages: Messages) -> int:
    """Index of the first message that the agent wrote; a Responses item without a role is its own."""
    for i, message in enumerate(messages):
        role = message.get("role")
        if role is None or role in AGENT_ROLES:
            return i
    return len(messages)


def task_messages(rollout: Rollout) -> Messages:
    """The messages that put the task: the prompt if the format knows it, else all before the agent's turn.

    If the agent greets first, what the user says next is the task.
    """
    messages = rollout.messages
    if rollout.prompt_length is not None:
        return messages[: rollout.prompt_length]
    begin = first_agent_turn(messages)
    if any(map(has_content, messages[:begin])):
        return messages[:begin]
    while begin < len(messages) and is_agent(messages[begin]):
        begin += 1
    end = begin + first_agent_turn(messages[begin:])
    asked = messages[begin:end]
    return asked if all(message.get("role") in USER_ROLES for message in asked) else []


def is_agent(message: Mapping[str, Any]) -> bool:
    """Tell if the agent wrote a message; a Responses item without a role is its own, but for results."""
    role = message.get("role")
    if role is None:
        return message.get("type") not in _OUTPUTS
    return role in AGENT_ROLES or role == TRANSCRIPT


def has_content(message: Mapping[str, Any]) -> bool:
    """Tell if a message holds anything that a judge can be shown: text, a call, a thought, a refusal."""
    content = message.get("content")
    if isinstance(content, str) and content and not content.isspace():
        return True
    parts = content if isinstance(content, list) else ()
    if any(isinstance(part, dict) and part.get("type") not in _WORDS for part in parts):
        return True  # a call without arguments, a picture
    if "role" not in message and message.get("type") not in _WORDS:
        return True  # a Responses item that is no text
    if has_text(content) or any(message.get(key) for key in (*CALL_KEYS, "function_call", "refusal")):
        return True
    return any(has_text(message.get(key)) for key in THOUGHT_KEYS) or bool(other_text(message))


def other_text(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message that hold text and that are neither its content nor about the message."""
    known = ("content", "refusal", "function_call", *CALL_KEYS, *THOUGHT_KEYS)
    return {
        key: value
        for key, value in message.items()
        if key not in known and key not in _LABELS and not isinstance(value, int | float) and has_text(value)
    }


def has_text(value: Any) -> bool:
    """Tell if a JSON value holds text or a number, other than kinds and ids."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if item and not item.isspace():
                return True
        elif isinstance(item, dict):
            stack += [inner for key, inner in item.items() if key not in _LABELS]
        elif isinstance(item, list):
            stack += item
        elif item is not None and not isinstance(item, bool):
            return True
    return False


def nothing_to_judge(
    messages: Messages, further: Sequence[Messages] = (), asked: int | None = None
) -> str | None:
    """The reason why a rollout shows no agent at work, as a predicate; None if the agent says something.

    `asked` is how many first messages are the prompt, of which none is this rollout's own.
    """
    own = messages if asked is None else messages[asked:]
    for message in reversed(own):
        if is_agent(message) and has_content(message):
            return None
    if any(is_agent(message) and has_content(message) for part in further for message in part):
        return None
    if any(map(is_agent, own)):
        return "has only empty turns of the agent: there is nothing to judge"
    roles = list(dict.fromkeys(printable(str(message.get("role")), 40) for message in messages))
    return f"has no turn of the agent to judge (its roles: {', '.join(roles[:8])})"


def _conversations(exchanges: Any) -> list[Messages]:
    """The recorded conversations, without those that a later one continues."""
    found: list[Messages] = []
    for request, response in _exchanges(exchanges):
        conversation = _request_messages(request) + _response_messages(response)
        said = _without_nulls(conversation)
        found = [f for f in found if _without_nulls(f) != said[: len(f)]]
        found.append(conversation)
    return found


def _without_nulls(value: Any) -> Any:
    """A value without its nulls: a client that sends a message again leaves them out."""
    if isinstance(value, dict):
        return {key: _without_nulls(v) for key, v in value.items() if v is not None and v != []}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def _exchanges(value: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    if isinstance(value, dict):
        for kind in ("chat_completions", "responses", "messages", "completions"):
            listed = value.get(kind)
            for exchange in listed if isinstance(listed, list) else ():
                if isinstance(exchange, dict):
                    request, response = exchange.get("request"), exchange.get("response")
                    if isinstance(request, dict) and isinstance(response, dict):
                        yield request, response


def _request_messages(request: Mapping[str, Any]) -> Messages:
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


def _response_messages(response: Mapping[str, Any]) -> Messages:
    choices, output = response.get("choices"), response.get("output")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        text = choices[0].get("text")
        return [message] if message is not None else [{"role": "assistant", "content": text}]
    if isinstance(output, list):
        return list(output)
    return [{"role": response.get("role", "assistant"), "content": response.get("content")}]
