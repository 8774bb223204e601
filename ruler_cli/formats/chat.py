"""Chat messages: lists of them, who wrote a message, and what of it a judge can be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import contains
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.fields import (
    JsonObject,
    first,
    is_list,
    is_object,
    is_text,
    json_value,
    lookup,
    objects,
    printable,
    words,
)
from ruler_cli.types import Rollout

Messages = list[Any]
Turn = dict[str, Any]
"""A message that is made."""

AGENT_ROLES = words(
    "assistant model agent ai gpt chatgpt bot chatbot Assistant ASSISTANT Model MODEL Agent AGENT AI GPT Bot BOT "
    "submission"
)
"""Roles of the agent's own messages, and of the message with the work that it submitted.

A tuple, because a dump may hold a role that cannot be hashed."""
USER_ROLES = words("user human system developer User Human USER HUMAN")
TRANSCRIPT = "transcript"
"""Role of a message that holds a whole conversation as one text: the task and the agent's turns."""
TEXT_KEYS = words("content text value parts message body output result")
"""Fields that hold the text of a message, best first."""
CALL_KEYS = words(
    "tool_calls toolCalls tool_uses function_calls toolInvocations tool_invocations"
)
"""Fields that hold a message's tool calls."""
RESULT_KINDS = words("tool_result tool-result toolResult")
"""Kinds of message parts that hold the result of a tool call."""
TOOLS = words("functions tool_definitions info.oai_tools")
"""Fields that hold tools beside `tools`: OpenAI's old name, Azure's evaluation, verifiers."""
THOUGHT_KEYS = words("reasoning_content reasoning thinking")
_CONTENTS = ("content", "refusal", "function_call", *CALL_KEYS, *THOUGHT_KEYS)
_LABELS = frozenset(
    words(
        "role name type kind id uuid parent parent_id index tool_call_id call_id function model model_name "
        "provider usage cost timestamp time date created created_at updated_at started_at ended_at "
        "finish_reason stop_reason stop_sequence end_turn logprobs token_ids tokens mask loss weight status "
        "state object metadata meta extra source annotations signature cache_control phase channel recipient "
        "sender agent agent_type is_demo message_type format mime_type encrypted_content response_metadata "
        "additional_kwargs usage_metadata model_extra provider_specific_fields"
    )
)
"""Fields of a message that are metadata, not content."""
_TEXT_KINDS = (
    None,
    *words("text input_text output_text thinking reasoning message"),
)
"""Kinds of parts and items that are empty if their text is empty."""
_OUTPUTS = words(
    "function_call_output computer_call_output local_shell_call_output custom_tool_call_output"
)


def new_turn(role: Any, content: Any, **more: Any) -> Turn:
    """Make a message."""
    return {"role": role, "content": content, **more}


def tools_of(trajectory: JsonObject) -> Any:
    """Return the trajectory's tools, also if they are JSON text."""
    tools = json_value(trajectory.get("tools"), text=True)
    if tools is None:
        values = (lookup(trajectory, path) for path in TOOLS)
        tools = first(value for value in values if is_list(value))
    return tools


def check_messages(value: Any, where: str) -> Messages:
    """Return a list of plain message objects, each Choice replaced by its message.

    UnreadableError if the value is no such list or an empty one; `where` is its path for the error.
    """
    if not is_list(value):
        raise UnreadableError(f"`{where}` is no list of messages")
    if not value:
        raise UnreadableError(f"`{where}` is empty: there are no messages to judge")
    # fast, because most of a dump is read twice: no Python statement for each message
    if {*map(type, value)} == {dict} and all(map(contains, value, repeat("role"))):
        return value
    out: Messages = []
    for i, item in enumerate(value):
        if not is_object(item):
            raise UnreadableError(f"`{where}[{i}]` is no message object")
        inner = item.get("message")
        # a Choice is a dict with `message` inside, and no role of its own
        message = inner if is_object(inner) and "role" not in item else item
        if "role" not in message and "type" not in message:
            raise UnreadableError(f"`{where}[{i}]` has no role")
        out.append(message)
    return out


def messages_in(record: JsonObject, name: str, cause: str = "") -> Messages:
    """Return the messages in a field; UnreadableError with the cause if there are none."""
    if not record.get(name):
        raise UnreadableError(f"has no messages in `{name}`{cause}")
    return check_messages(record[name], name)


def last_states(
    conversations: Iterable[Messages], plain: Callable[[Any], Any] = list
) -> list[Messages]:
    """Return conversations without those that a later one continues, as they are `plain`."""
    out: list[Messages] = []
    for conversation in conversations:
        whole = plain(conversation)
        out = [one for one in out if plain(one) != whole[: len(one)]]
        out.append(conversation)
    return out


def first_agent_turn(messages: Messages) -> int:
    """Return the index of the agent's first message, else the number of messages.

    A Responses item without a role counts as the agent's.
    """
    for i, message in enumerate(messages):
        role = message.get("role")
        if role is None or role in AGENT_ROLES:
            return i
    return len(messages)


def task_messages(rollout: Rollout) -> Messages:
    """Return the messages that state the task: the prompt, or all messages before the agent's first turn.

    If the agent greets first, the user's next messages are the task.
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
    task = messages[begin:end]
    return task if all(message.get("role") in USER_ROLES for message in task) else []


def is_agent(message: JsonObject) -> bool:
    """Tell if the agent wrote a message: by its role, or as a Responses item that is no tool result."""
    role = message.get("role")
    if role is None:
        return message.get("type") not in _OUTPUTS
    return role in AGENT_ROLES or role == TRANSCRIPT


def has_content(message: JsonObject) -> bool:
    """Tell if a message holds anything to show a judge: text, a call, a thought, a refusal."""
    content = message.get("content")
    if is_text(content) and content and not content.isspace():
        return True
    # a call without arguments, a picture; a Responses item that is no text
    parts = objects(content) if "role" in message else [message, *objects(content)]
    if any(part.get("type") not in _TEXT_KINDS for part in parts):
        return True
    if any(message.get(key) for key in (*CALL_KEYS, "function_call", "refusal")):
        return True
    stated = [content, *map(message.get, THOUGHT_KEYS), other_text(message)]
    return any(map(has_text, stated))


def other_fields(message: JsonObject) -> dict[str, Any]:
    """Return the fields of a message that are neither its content nor metadata."""
    return {
        key: value
        for key, value in message.items()
        if key not in _CONTENTS and key not in _LABELS
    }


def other_text(message: JsonObject) -> dict[str, Any]:
    """Return the fields of a message that hold text and are neither its content nor metadata."""
    return {
        key: value
        for key, value in other_fields(message).items()
        if not isinstance(value, int | float) and has_text(value)
    }


def has_text(value: Any) -> bool:
    """Tell if a JSON value holds text or a number, other than kinds and ids."""
    stack = [value]
    while stack:
        item = stack.pop()
        if is_text(item):
            if item and not item.isspace():
                return True
        elif is_object(item):
            stack += [inner for key, inner in item.items() if key not in _LABELS]
        elif is_list(item):
            stack += item
        elif item is not None and not isinstance(item, bool):
            return True
    return False


def nothing_to_judge(
    messages: Messages,
    further: Sequence[Messages] = (),
    prompt_length: int | None = None,
) -> str | None:
    """Return the reason why a rollout cannot be judged, as a predicate; None if the agent did something.

    The first `prompt_length` messages are the prompt; an agent's message there does not count.
    """
    own = messages[prompt_length or 0 :]
    if any(
        is_agent(message) and has_content(message)
        for part in (own[::-1], *further)
        for message in part
    ):
        return None
    if any(map(is_agent, own)):
        return "has only empty turns of the agent: there is nothing to judge"
    roles = dict.fromkeys(
        printable(str(message.get("role")), 40) for message in messages
    )
    return f"has no turn of the agent to judge (its roles: {', '.join([*roles][:8])})"


def text_of(message: JsonObject) -> str:
    """Return the text of a message, white space stripped."""
    return "\n".join(texts(message.get("content"))).strip()


def texts(content: Any, depth: int = 0) -> list[str]:
    """Return the texts of a message's content, also of parts inside parts."""
    if is_text(content):
        return [content]
    if is_list(content) and depth < _DEEP:
        return [text for part in content for text in texts(part, depth + 1)]
    text = lookup(content, "text")
    return [text] if is_text(text) else []


_DEEP = 6
"""Levels of parts inside parts that are read."""
