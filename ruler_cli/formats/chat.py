"""Answers and prompts of a record → conversations, and the key of their prompt."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, cycle, dropwhile, takewhile
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    Names,
    first,
    first_of,
    is_list,
    is_message_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.names import (
    ANSWER_LISTS,
    ANSWERS,
    PROMPTS,
    SUBMISSIONS,
    TASKS,
    TOOLS,
    WITH_CONTEXT,
)
from ruler_cli.formats.paths import is_text_list
from ruler_cli.messages.content import (
    Messages,
    calls_of,
    first_agent_turn,
    is_agent,
    new_turn,
    text_of,
)
from ruler_cli.messages.conversations import (
    check_messages,
    is_prompt,
    is_system,
    json_messages,
    named_turns,
    prompt_turns,
    with_system,
)
from ruler_cli.messages.dialects import messages_of
from ruler_cli.messages.names import (
    AGENT_ROLES,
    CALL_KEYS,
    CONTENTS,
    USER_ROLES,
    kind_of,
)
from ruler_cli.messages.read import has_content
from ruler_cli.types import Path, Rollout, printable


def tools_of(trajectory: JsonObject) -> Any:
    """Return the trajectory's tools, also if they are JSON text."""
    tools = json_value(trajectory.get("tools"), text=True)
    if tools is not None:
        # agno's are calls that were made
        return None if lookup(tools, "0.tool_call_id") else tools
    others = [lookup(trajectory, path) for path in TOOLS]
    return first(filter(is_list, others))


def task_messages(rollout: Rollout) -> Messages:
    """Return the messages that state the task: the prompt, or all messages before the agent's first turn.

    If the agent greets first, or only agrees to the rules, the user's next messages are the task.
    """
    messages = rollout.messages
    if rollout.prompt_length is not None:
        return messages[: rollout.prompt_length]
    begin = first_agent_turn(messages)
    before = messages[:begin]
    if not any(map(has_content, before)):
        before = []
    elif not any(map(_AGREES, map(text_of, messages[begin : begin + 1]))):
        return before
    rest = [*dropwhile(is_agent, messages[begin:])]
    task = rest[: first_agent_turn(rest)]
    for turn in task:
        parts = objects(turn.get("content"))
        if turn.get("role") not in USER_ROLES or "tool" in map(kind_of, parts):
            return before
    return [*before, *task]


_AGREES = re.compile(
    r"(?i)(ok|okay|sure|understood)\b.{0,80}\b(follow|instructions|ready)\b"
).match


def nothing_to_judge(rollout: Rollout) -> str | None:
    """Return the reason why a rollout cannot be judged, as a predicate; None if the agent did something.

    An agent's message in the prompt does not count.
    """
    behind = rollout.messages[rollout.prompt_length or 0 :]
    # the last turns are the likeliest to say something
    turns = chain(reversed(behind), *rollout.histories)
    for turn in turns:
        if is_agent(turn) and has_content(turn):
            return None
    if any(map(is_agent, behind)):
        return "has only empty turns of the agent: there is nothing to judge"
    roles = dict.fromkeys(str(turn.get("role")) for turn in rollout.messages)
    names = printable(", ".join(roles), 200)
    return f"has no turn of the agent to judge (its roles: {names or 'none'})"


_TEXTS = words(
    "text content generated_text output_text completion response message final_text"
)
"""Members that hold an answer, whatever stands beside them."""
_ANSWER_KEYS = frozenset(
    (*_TEXTS, *CONTENTS, *words("role choices candidates"))
)
_PARTS = words("text output_text thinking tool_use image image_url refusal")


def answer_turns(
    value: Any,
    where: str,
) -> Messages:
    """Read the agent's answer, also as an API's response.

    A text, also an empty one, is its turn, and so is JSON text; UnreadableError for null.
    """
    if value is None:
        raise UnreadableError(
            f"has no answer: `{where}` is null, as after an error in the rollout"
        )
    turns = find_answer(value, where)
    return turns or check_messages(
        [value] if is_object(value) else value, where
    )


def find_answer(
    value: Any,
    where: str,
) -> Messages | None:
    """Return the one answer in a text, a message, an API's response, or a list of these; None for no answer.

    UnreadableError if there are several answers.
    """
    if is_text(value):
        return [new_turn("assistant", value)]
    listed = [value] if is_object(value) else items(value)
    if turns := named_turns(listed, calls=True):
        return turns
    parts = [v for v in objects(listed) if v.get("type") in _PARTS]
    if listed and parts == listed and "role" not in listed[0]:
        return [new_turn("assistant", listed)]
    if listed and all(map(_is_turn, listed)):
        return check_messages(listed, where)
    choices = listed
    if is_object(value):
        choices = items(first_of(value, ("choices", "candidates")))
    if len(choices) > 1 and all(map(is_answer, choices)):
        raise UnreadableError(
            f"has {len(choices)} answers in `{where}`, where one conversation should end; write a rollout for each"
        )
    turns = messages_of(value, "assistant")
    if turns is None and is_object(value):
        text = first(filter(is_text, map(value.get, _TEXTS)))
        turns = None if text is None else [new_turn("assistant", text)]
    return turns


def _is_turn(value: Any) -> bool:
    return is_object(value) and bool({"role", "type"} & value.keys())


def with_calls(
    record: JsonObject,
    answer: Messages,
) -> Messages:
    """Put the calls beside an answer before it, unless it has calls of its own."""
    calls = first_of(record, CALL_KEYS)
    if not isinstance(calls, list | dict | str) or any(map(calls_of, answer)):
        return answer
    return [new_turn("assistant", None, tool_calls=calls), *answer]


def is_answer(value: Any) -> bool:
    """Return whether a value may be an answer: null, a text, a message, messages, or an API's choice."""
    if is_object(value):
        return bool(_ANSWER_KEYS & value.keys())
    return value is None or is_text(value) or is_message_list(value)


def is_reply(message: Any) -> bool:
    """Return whether a value is a message with a role of the agent, or without a role."""
    return is_object(message) and message.get("role") in AGENT_ROLES


def with_answer(
    record: JsonObject,
    messages: Messages,
) -> Messages:
    """Append the answer beside a conversation, unless its last message is the agent's."""
    if messages and is_reply(messages[-1]):
        return messages
    for name in (*ANSWERS, *ANSWER_LISTS):
        value = record.get(name)
        # an API's choices are objects, the options of a question are not
        if name == "choices" and not all(map(is_object, items(value))):
            continue
        if (answer := find_answer(value, name)) is not None:
            return [*messages, *answer]
    return messages


def read_conversation(
    record: JsonObject,
    conversation: Messages,
    path: Path = (),
    **fields: Any,
) -> Rollout:
    """Read a conversation with what stands beside it: the system prompt, the answer, the submitted work, the tools."""
    conversation = with_system(record, conversation)
    messages = with_submission(record, with_answer(record, conversation))
    fields = {"tools": tools_of(record) or None, **fields}
    size = len(conversation)
    length = None
    if first_agent_turn(conversation) < size < len(messages):
        # before the user's last turn the agent's are examples, or the history of a chat
        asks_last = conversation[-1].get("role") in USER_ROLES
        length = size if asks_last else None
    return Rollout(
        messages,
        path,
        prompt_length=length,
        **fields,
    )


def answer_list(
    record: JsonObject,
    least: int = 2,
) -> list[Any]:
    """Return the answers to a prompt, or to messages without one; [] if there are fewer than `least`."""
    if is_reply(lookup(json_value(record.get("messages")), "-1")):
        return []
    for name in (*ANSWER_LISTS, *ANSWERS):
        for path in (name, f"{name}.choices"):
            values = items(lookup(record, path))
            if len(values) < least or not all(map(is_answer, values)):
                continue
            inside = objects(values)
            if path.endswith("choices"):
                is_whole = inside == values
            else:
                # a list of messages under a name for one answer is one conversation
                is_whole = name in ANSWER_LISTS or not any(
                    map(_is_turn, inside)
                )
            if is_whole:
                return values
    return []


def read_or_error(
    path: Path,
    read: Callable[..., Rollout],
    *values: Any,
    **fields: Any,
) -> Rollout:
    """Read one rollout of several and give it these fields; if it cannot be read, with the reason."""
    try:
        return replace(read(*values), path=path, **fields)
    except UnreadableError as error:
        return Rollout(
            [],
            path,
            error=str(error),
            **fields,
        )


def make_rollout(
    prompt: Messages,
    answer: Messages,
    **fields: Any,
) -> Rollout:
    """Join a prompt and an answer; turns of the agent in the prompt stay a part of it."""
    size = len(prompt)
    length = size if first_agent_turn(prompt) < size else None
    return Rollout([*prompt, *answer], prompt_length=length, **fields)


def with_submission(
    record: JsonObject,
    messages: Messages,
) -> Messages:
    """Append the submitted work to a conversation, unless a message contains it already."""
    for path in SUBMISSIONS:
        text = lookup(record, path)
        bare = text.strip() if is_text(text) else ""
        if bare and not any(bare in text_of(turn) for turn in messages):
            messages = [*messages, new_turn("submission", text)]
    return messages


def with_task(
    record: JsonObject,
    messages: Messages,
) -> Messages:
    """Put the record's task before a conversation of the agent's turns and tools' alone."""
    if any(message.get("role") in USER_ROLES for message in messages):
        return messages
    return [*prompt_at(record, TASKS), *messages]


def prompt_at(
    record: JsonObject,
    paths: Names,
) -> Messages:
    """Return the turns of the first prompt at one of these paths; [] if there is none."""
    for path in paths:
        value = lookup(record, path)
        if value and is_prompt(value):
            return prompt_turns(value, path)
    return []


def prompt_field(record: JsonObject) -> str | None:
    """Return the field with the prompt: the first that holds text or messages, preferably not empty."""
    present = [name for name in PROMPTS if is_prompt(record.get(name))]
    stated = filter(record.get, present)
    return first([*stated, *present])


def task_turns(
    record: JsonObject,
    name: str,
) -> Messages:
    """Return the turns before the answer: system, earlier questions and answers, and the prompt itself at `name`."""
    value = record[name]
    if name in WITH_CONTEXT and is_text(value):
        # the input of Alpaca's and Dolly's instructions is shown below them, after a blank line
        names = ("input", "context") if name == "instruction" else ("context",)
        texts = filter(is_text, map(record.get, names))
        context = first(filter(str.strip, texts))
        if context and context not in value:
            value = f"{value}\n\n{context}" if value else context
        options = items(record.get("options"))
        if is_text_list(options) and options[0] not in value:
            value = "\n".join([value, *options])
    history = first_of(record, ("history", "chat_history"))
    if is_text(history):
        history = json_messages(history)
    # pairs of question and answer, or texts in turn, which may end with the prompt
    pairs = [pair if is_list(pair) else [pair] for pair in items(history)]
    spoken = [*chain(*pairs)]
    turns = []
    asks_last = False
    if spoken and all(map(is_text, filter(None, spoken))):
        for role, text in zip(cycle(("user", "assistant")), spoken):
            if text is not None:
                turns.append(new_turn(role, text))
        # pairs never end with it
        paired = any(map(is_list, items(history)))
        asks_last = not paired and len(spoken) % 2 > 0
    else:
        turns = prompt_turns(history, "history")
    if not asks_last:
        turns = [*turns, *prompt_turns(value, name)]
    return with_system(record, turns)


def with_prompt(
    rollout: Rollout,
    value: Any,
    path: str,
) -> Rollout:
    """Put the task, the value at `path`, before a rollout's conversation and behind its system prompt.

    A conversation that begins with the task stays as it is. The rollout gets an error if the task is empty.
    """
    if rollout.error is not None:
        return rollout
    try:
        turns = prompt_turns(value, path)
    except UnreadableError as error:
        return replace(rollout, error=str(error))
    if not any(map(has_content, turns)):
        return replace(rollout, error=f"has no prompt at `{path}`")
    messages = rollout.messages
    start = 0
    if not is_system(turns[0]):
        start = len([*takewhile(is_system, messages)])
    asked = [*map(text_of, turns)]
    spoken = [*map(text_of, messages)]
    count = len(asked)
    begin = first_agent_turn(messages)
    held = [text for text in spoken[:begin] if asked[0] in text]
    if (held and count == 1) or asked == spoken[start : start + count]:
        return rollout
    size = rollout.prompt_length
    if size is None and first_agent_turn(turns) < count:
        size = max(begin, start)
    return replace(
        rollout,
        messages=[*messages[:start], *turns, *messages[start:]],
        prompt_length=None if size is None else size + count,
    )
