"""The prompt of a record with fields for prompt and answer, and the prompt's hash as a group key."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

from ruler_cli.errors import Sentence, UnreadableError
from ruler_cli.files.parse import dump
from ruler_cli.formats.chat import (
    Messages,
    first_agent_turn,
    has_content,
    new_turn,
    task_messages,
    text_of,
)
from ruler_cli.formats.fields import (
    JsonObject,
    first,
    first_of,
    is_message_list,
    items,
    objects,
    words,
)
from ruler_cli.formats.turns import dialogue, json_messages, prompt_turns
from ruler_cli.types import Rollout

PROMPTS = words(
    "prompt instruction query question problem input user_input user_prompt user_query user_message"
)
"""Fields with the prompt, best first."""
INSTRUCTION_INPUTS = ("input", "context")
"""Fields with the input of an Alpaca `instruction`, shown below it after a blank line (`context`: Dolly)."""
_WITH_CONTEXT = words("instruction query question user_input user_query")
"""Prompts that a `context` beside them completes; other prompts mostly hold it themselves."""
RETRIEVED = words("context contexts retrieved_contexts retrieval_context documents")
"""Fields with a list of texts retrieved to answer a question: of promptflow, Ragas, DeepEval.

They are shown, but are no part of the key: another system retrieves other texts for the same question.
"""
SYSTEM = ("system", "system_prompt")
HISTORIES = ("history", "chat_history")
_SYSTEM_ROLES = ("system", "developer")


def prompt_field(record: JsonObject) -> str | None:
    """Return the field with the prompt: the first that holds text or messages, preferably not empty."""
    present = [name for name in PROMPTS if is_prompt(record.get(name))]
    return first(name for name in present if record[name]) or first(present)


def is_prompt(value: Any) -> bool:
    """Tell if a value may be a prompt: a text or messages."""
    return isinstance(value, str) or is_message_list(value)


def task_turns(record: JsonObject, name: str | None) -> Messages:
    """Return the turns before the answer: system, earlier questions and answers, and the prompt itself.

    UnreadableError if the record has no field with a prompt, whose `name` is then None.
    """
    if name is None:
        raise UnreadableError(f"has no prompt (`{'`, `'.join(PROMPTS)}`)")
    value = record.get(name)
    if name in _WITH_CONTEXT and isinstance(value, str):
        names = INSTRUCTION_INPUTS if name == "instruction" else ("context",)
        beside = [text for text in map(record.get, names) if isinstance(text, str)]
        context = first(text for text in beside if text.strip()) or ""
        added = "" if context in value else context
        value = "\n\n".join(filter(None, (value, added)))
    return with_system(record, [*_earlier(record), *_prompt_turns(value, name)])


def with_system(record: JsonObject, messages: Messages) -> Messages:
    """Put the record's system prompt, a text or parts with `text`, before a conversation without one."""
    prompt = first_of(record, SYSTEM)
    parts = objects(prompt)
    known = parts == prompt and all("text" in part for part in parts)
    system = new_turn("system", prompt)
    given = any(message.get("role") in _SYSTEM_ROLES for message in messages[:1])
    if given or not (known or isinstance(prompt, str)) or not has_content(system):
        return messages
    return [system, *messages]


def retrieved_turn(record: JsonObject) -> Messages:
    """Return the texts retrieved to answer the question, as a list of one turn or of none."""
    lists = (record[name] for name in RETRIEVED if isinstance(record.get(name), list))
    texts = first(lists)
    return [new_turn("context", texts)] if texts else []


def _prompt_turns(value: Any, where: str) -> Messages:
    """Return the turns of a prompt, also of one that is a dialogue in one text."""
    turns = dialogue(value) if isinstance(value, str) else None
    if turns is None:
        return prompt_turns(value, where)
    # it may end with a marker for the answer to come
    return turns[:-1] if turns[-1] == new_turn("assistant", "") else turns


def with_prompt(rollout: Rollout, value: Any, path: str) -> Rollout:
    """Put the task, the value at `path`, before a rollout's conversation and behind its system prompt.

    A conversation that begins with the task stays as it is. The rollout gets an error if the task is empty.
    """
    if rollout.error is not None:
        return rollout
    try:
        turns = _prompt_turns(value, path)
    except UnreadableError as error:
        return replace(rollout, error=str(error))
    if not any(map(has_content, turns)):
        return replace(rollout, error=f"has no prompt at `{path}`")
    messages, size, start = rollout.messages, rollout.prompt_length, 0
    if turns[0].get("role") not in _SYSTEM_ROLES:
        roles = [message.get("role") not in _SYSTEM_ROLES for message in messages]
        start = roles.index(True) if any(roles) else len(messages)
    if _begins(messages[start:], turns) or _begins(messages, turns):
        return rollout
    if size is not None:
        size += len(turns)
    elif first_agent_turn(turns) < len(turns):
        size = start + len(turns) + first_agent_turn(messages[start:])
    messages = [*messages[:start], *turns, *messages[start:]]
    return replace(rollout, messages=messages, prompt_length=size)


def _begins(messages: Messages, turns: Messages) -> bool:
    """Tell if a conversation begins with these turns, or has their one text before the agent's first turn."""
    said, asked = map(text_of, messages), [text_of(turn) for turn in turns]
    if len(turns) == 1:
        before = [*said][: first_agent_turn(messages)]
        return any(asked[0] in text for text in before)
    return [*said][: len(asked)] == asked


def _earlier(record: JsonObject) -> Messages:
    """Return the turns before the prompt, from messages or pairs of a question and its answer."""
    value = first_of(record, HISTORIES)
    if isinstance(value, str):
        return prompt_turns(value, "history") if json_messages(value) else []
    pairs = [_pair(item) for item in items(value)]
    if not pairs or not all(pairs):
        return prompt_turns(value, "history")
    return [
        new_turn(role, content)
        for pair in pairs
        for role, content in zip(("user", "assistant"), pair or (), strict=False)
        if content is not None
    ]


def _pair(value: Any) -> list[Any] | None:
    """Return a question and its answer, from a list or promptflow's `inputs` and `outputs`; else None."""
    if isinstance(value, dict) and value.keys() == {"inputs", "outputs"}:
        sides = [
            list(side.values()) if isinstance(side, dict) else []
            for side in value.values()
        ]
        single = all(len(side) == 1 for side in sides)
        return [side[0] for side in sides] if single else None
    return items(value)


_NOT_IN_KEY = {"role", "content", "type", "id"}


def prompt_key(rollout: Rollout, step: Any) -> str:
    """Return a hash of the prompt and of the training step; UnreadableError if the prompt is empty."""
    task = task_messages(rollout)
    if not any(map(has_content, task)):
        raise UnreadableError(
            Sentence(
                "has no text before the agent's first turn, so its task is not known; name the group key with "
                "{group_by:PATH}, or the task's text with {prompt:PATH}"
            )
        )
    prompt = [
        [message.get("role"), message.get("content"), *_other_fields(message)]
        for message in task
    ]
    return "prompt-" + blake2b(dump([prompt, step]), digest_size=8).hexdigest()


def _other_fields(message: JsonObject) -> list[Any]:
    """Return the other fields of a message without content, or with calls, which alone tell two apart."""
    if message.get("content") is not None and not message.get("tool_calls"):
        return []
    excluded = _NOT_IN_KEY | {"name"} if "role" in message else _NOT_IN_KEY
    fields = {
        name: value for name, value in message.items() if name not in excluded and value
    }
    return [fields] if fields else []
