"""The prompt of a record that has fields for prompt and answer: where it stands, and what belongs to it.

The group key of a rollout that has none: a hash of what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, first_agent_turn, has_content, task_messages
from ruler_cli.formats.turns import dialogue_prompt, is_message_list, json_messages, prompt_turns
from ruler_cli.reading.parse import dump
from ruler_cli.types import Rollout

PROMPTS = (
    *("prompt", "instruction", "query", "question", "problem", "input"),
    *("user_input", "user_prompt", "user_query", "user_message"),
)
"""Fields with the prompt, best first."""
INSTRUCTION_INPUTS = ("input", "context")
"""Fields with what an Alpaca `instruction` is about, shown below it after a blank line (`context`: Dolly)."""
_WITH_CONTEXT = ("instruction", "query", "question", "user_input", "user_query")
"""Prompts of which a `context` beside them is a part; other prompts mostly hold it themselves."""
RETRIEVED = ("context", "contexts", "retrieved_contexts", "retrieval_context", "documents")
"""Fields with what was retrieved to answer a question, if it is a list: of promptflow, Ragas, DeepEval.

It is shown, but it is no part of the key: another system has retrieved something else for the same question.
"""
SYSTEM = ("system", "system_prompt")
HISTORIES = ("history", "chat_history")
_SETTING = ("system", "developer")


def prompt_field(record: Mapping[str, Any]) -> str | None:
    """The field with the prompt: the first that holds text or messages, else the first that is there."""
    there = [name for name in PROMPTS if is_prompt(record.get(name))]
    return next((name for name in there if record[name]), there[0] if there else None)


def is_prompt(value: Any) -> bool:
    """Tell if it may be a prompt: a text or messages."""
    return isinstance(value, str) or is_message_list(value)


def task_turns(record: Mapping[str, Any], name: str) -> Messages:
    """The turns before the answer: system, earlier questions and answers, and the prompt itself."""
    value = record.get(name)
    if name in _WITH_CONTEXT and isinstance(value, str):
        names = INSTRUCTION_INPUTS if name == "instruction" else INSTRUCTION_INPUTS[1:]
        below = next((record[b] for b in names if isinstance(record.get(b), str) and record[b].strip()), "")
        value = "\n\n".join(part for part in (value, "" if below in value else below) if part)
    asked = [*_earlier(record), *_prompt_turns(value, name)]
    return with_system(record, asked)


def with_system(record: Mapping[str, Any], messages: Messages) -> Messages:
    """A conversation behind the system prompt that stands beside it, a text or parts with `text`."""
    found = next((record[name] for name in SYSTEM if record.get(name)), None)
    parts = [{"text": found}] if isinstance(found, str) else found
    if not isinstance(parts, list) or not all(isinstance(part, dict) and "text" in part for part in parts):
        return messages
    told = {"role": "system", "content": found}
    if not has_content(told) or any(message.get("role") in _SETTING for message in messages[:1]):
        return messages
    return [told, *messages]


def retrieved_turn(record: Mapping[str, Any]) -> Messages:
    """The texts retrieved to answer the question, as one turn."""
    found = next((record[name] for name in RETRIEVED if isinstance(record.get(name), list)), None)
    return [{"role": "context", "content": found}] if found else []


def _prompt_turns(value: Any, where: str) -> Messages:
    """The turns of a prompt, also of one that is a dialogue in one text."""
    found = dialogue_prompt(value) if isinstance(value, str) else None
    return prompt_turns(value, where) if found is None else found


def with_prompt(rollout: Rollout, value: Any, path: str) -> Rollout:
    """A rollout whose conversation begins with the task that the user named, behind its system prompt."""
    if rollout.error is not None:
        return rollout
    try:
        turns = _prompt_turns(value, path)
    except UnreadableError as error:
        return replace(rollout, error=str(error))
    if not any(map(has_content, turns)):
        return replace(rollout, error=f"has no prompt at `{path}`")
    messages = rollout.messages
    after = next((i for i, m in enumerate(messages) if m.get("role") not in _SETTING), len(messages))
    if turns[0].get("role") in _SETTING:
        after = 0
    if _begins(messages[after:], turns) or _begins(messages, turns):
        return rollout
    asked = after + len(turns)
    if rollout.prompt_length is not None:
        asked = rollout.prompt_length + len(turns)
    elif first_agent_turn(turns) == len(turns):
        return replace(rollout, messages=[*messages[:after], *turns, *messages[after:]])
    else:
        asked += first_agent_turn(messages[after:])
    return replace(rollout, messages=[*messages[:after], *turns, *messages[after:]], prompt_length=asked)


def _begins(messages: Messages, turns: Messages) -> bool:
    """Tell if a conversation says these turns at its beginning, or their one text in its first turns."""
    if len(turns) == 1:
        text = turns[0].get("content")
        before = messages[: first_agent_turn(messages)]
        return any(text == m.get("content") or _contains(m.get("content"), text) for m in before)
    told = [(m.get("role"), m.get("content")) for m in messages[: len(turns)]]
    return told == [(turn.get("role"), turn.get("content")) for turn in turns]


def _contains(content: Any, text: Any) -> bool:
    """Tell if a content, or a part of it, is a text or holds it."""
    if isinstance(content, list):
        return any(_contains(part.get("text"), text) for part in content if isinstance(part, dict))
    return isinstance(content, str) and isinstance(text, str) and text.strip() in content


def _earlier(record: Mapping[str, Any]) -> Messages:
    """Turns before the prompt: messages, or pairs of a question and its answer."""
    name = next((name for name in HISTORIES if record.get(name)), None)
    value = None if name is None else record[name]
    if isinstance(value, str):
        return prompt_turns(value, "history") if json_messages(value) else []
    if name is None or not isinstance(value, list) or not all(map(_round, value)):
        return prompt_turns(value, name or "")
    return [
        {"role": role, "content": said}
        for pair in value
        for role, said in zip(("user", "assistant"), _round(pair) or (), strict=False)
        if said is not None
    ]


def _round(value: Any) -> list[Any] | None:
    """A question and its answer: a list of two, or promptflow's `inputs` and `outputs` of one text each."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and value.keys() == {"inputs", "outputs"}:
        sides = [list(side.values()) if isinstance(side, dict) else [] for side in value.values()]
        return [side[0] for side in sides] if all(len(side) == 1 for side in sides) else None
    return None


_APART = {"role", "content", "type", "id"}


def prompt_key(rollout: Rollout, step: Any) -> str:
    """A hash of the prompt and of the training step; UnreadableError if nothing was asked."""
    asked = task_messages(rollout)
    if not any(map(has_content, asked)):
        raise UnreadableError(
            "has no text before the agent's first turn, so that nothing tells which task it is of; name the "
            "group key with --group-by PATH, or the task's text with --prompt PATH"
        )
    prompt = [[message.get("role"), message.get("content"), *_more(message)] for message in asked]
    return "prompt-" + blake2b(dump([prompt, step]), digest_size=8).hexdigest()


def _more(message: Mapping[str, Any]) -> list[Any]:
    """All else of a message without content, or with calls: two of them need not be the same."""
    if message.get("content") is not None and not message.get("tool_calls"):
        return []
    apart = _APART | {"name"} if "role" in message else _APART
    more = {name: value for name, value in message.items() if name not in apart and value}
    return [more] if more else []
