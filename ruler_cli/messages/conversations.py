"""Texts, turns of other names, steps and parts → chat messages.

A text (JSON of messages, or a dialogue with a marker before each turn) is read as several turns only if a
person or a program put the whole conversation into it. An agent's answer beside a prompt is one turn,
whatever its text: an agent can write turns that never took place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, groupby, repeat
from operator import contains
from os.path import commonprefix
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    EMPTY,
    JsonObject,
    first,
    first_at,
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
from ruler_cli.messages.content import (
    Messages,
    Turn,
    new_turn,
    text_of,
)
from ruler_cli.messages.names import (
    AGENT_ROLES,
    CALL_KEYS,
    GRADER,
    KIND_KEYS,
    OTHERS,
    ROLES,
    SINGLE_CALLS,
    TYPED,
    kind_of,
)
from ruler_cli.messages.parts import (
    NAMES,
    normalize_part,
    typed_turn,
)
from ruler_cli.messages.read import has_content


def check_messages(
    value: Any,
    where: str,
) -> Messages:
    """Return a list of plain message objects, each Choice replaced by its message.

    UnreadableError if the value is no such list or an empty one; `where` is its path for the error.
    """
    if not is_list(value):
        raise UnreadableError(f"`{where}` is not a list of messages")
    if not value:
        raise UnreadableError(
            f"`{where}` is empty: there are no messages to judge"
        )
    messages = value
    # fast, because most of a dump is read twice: no Python statement for each message
    is_plain = {*map(type, value)} == {dict}
    if not (is_plain and all(map(contains, value, repeat("role")))):
        messages = []
        for i, item in enumerate(value):
            stated = _stated_messages(item)
            if stated is None:
                problem = "is not a message object with a role"
                raise UnreadableError(f"`{where}[{i}]` {problem}")
            messages += stated
    if GRADER in map(dict.get, messages, repeat("role")):
        return [turn for turn in messages if turn.get("role") != GRADER]
    return messages


def _stated_messages(item: Any) -> Messages | None:
    """Return the messages that an item of a list states; None if it is none."""
    inner = first_at(
        item,
        "message",
        "rawItem",
        "raw_item",
    )
    # a Choice is a dict with `message` inside, and no role of its own
    message = inner if is_object(inner) and "role" not in item else item
    if is_object(message) and (
        "role" in message or "type" in message or kind_of(message)
    ):
        return [message]
    if lookup(item, "object") == "response":
        return objects(item["output"])  # OpenAI's, of items
    return json_messages(item)


def last_states(conversations: Iterable[Messages]) -> list[Messages]:
    """Return conversations without those that a later one continues."""
    last: list[Messages] = []
    for conversation in conversations:
        last = [part for part in last if part != conversation[: len(part)]]
        last.append(conversation)
    return last


_SPEAKERS_IN = words(
    "from speaker role sender author actor type who agent message_type"
)
_PARTS = words("parts items")
_TEXT_FIELDS = words("value text content utterance message response says said")
"""Fields of a turn with its speaker, and with its text."""
_STEP_PARTS = {
    "speaker": "role|from|speaker|sender|author|source|message_type|raw_item",
    "calls": "|".join(CALL_KEYS + SINGLE_CALLS),
    "thought": "thoughts?|think(ing)?|reasoning(_text|_summary)?",
    "action": "actions?|act|action_taken|tool|tool_name|api_name|function|command",
    "arguments": "((action|tool)_)?(input|args|arguments|params|parameters)|param_dict",
    "answer": "(final_)?answer|((answer|response)_)?text|response|content|message"
    "|((raw_)?(model|llm|agent)|action)_(raw_)?(output|response|answer)",
    "seen": "(next_)?(obs|observations?)|((tool|action)_)?(result|output|response)"
    "|(browser|page|env|environment)_state",
}
"""Patterns of the fields of a step: thought, action, arguments, answer, and observation."""
_AGENTS_PARTS = words("thought action arguments answer")
_ANSWER_RANKS = words("content final_answer answer response text message")
"""Fields of the answer, the best first: no other one may replace `content`."""
_STEP_COPIES = words("model_input_messages model_output_message")
_CONTENT_KEYS = {"content", "tool_calls", "value", "text", "parts"}
_MARKERS = (
    re.compile(r"(?:\A\s*|\n\n)(Human|Assistant|System):[ \t]*"),
    re.compile(r"(?:\A\s*|\n)(User|Assistant|System):[ \t]*"),
    re.compile(r"(?:\A\s*|\s)(USER|ASSISTANT|SYSTEM):[ \t]*"),
    # sets of this kind have no line break before a marker
    re.compile(r"(?:\A\s*)?###[ \t]*(Human|User|Assistant|System):[ \t]*"),
)
_BODIES = ("messages", "contents")
"""Members of an API's request that hold its messages."""


def json_messages(value: Any) -> list[Any] | None:
    """Return the messages that a text holds as JSON; None if it holds anything else, and for no text."""
    if not is_text(value) or value[:64].lstrip()[:1] not in ("[", "{"):
        return None
    value = json_value(value)
    if is_object(value):
        held = first_at(value, *_BODIES, "choices.0.message")
        value = items(held) or [held or value]
    listed = items(value)
    return listed if listed and all(map(_is_message, listed)) else None


def all_conversations(values: Iterable[Any]) -> bool:
    """Return whether all texts among these values are JSON of messages; one alone may be an agent's own text."""
    texts = [*filter(is_text, values)]
    return bool(texts) and all(map(json_messages, texts))


def _is_message(value: Any) -> bool:
    """Return whether an object has a known speaker and content: other objects have a `role` too."""
    if not is_object(value) or not _CONTENT_KEYS & value.keys():
        return False
    speaker = first_of(value, ("role", "from", "speaker"))
    return str(speaker).lower() in ROLES


def named_turns(
    value: list[Any],
    *,
    calls: bool = False,
) -> Messages | None:
    """Convert turns of other names to chat messages: `from` and `value`, steps, parts; None if they are none.

    With `calls` also calls alone, which may be those that an agent should make.
    """
    first_turn = first(value)
    if not is_object(first_turn):
        return None
    if {"role", "content"} <= first_turn.keys():
        return _agents_by_name(value)
    if not all(map(is_object, value)):
        return None
    if all(map(_has_parts, value)):
        turns = chain.from_iterable(map(content_turns, value))
        rules = first_turn.get("instructions")
        return with_system({"system": rules}, [*turns])
    by = first(key for key in _SPEAKERS_IN if key in first_turn)
    text_key = first(key for key in _TEXT_FIELDS if key in first_turn)
    if by is None or text_key is None:
        return step_turns(value, calls=calls)
    speakers = [turn.get(by) for turn in value]
    if by in KIND_KEYS:
        # a part of content has a `type` and a `text` too
        for turn, speaker in zip(value, speakers, strict=True):
            if not kind_of(turn) and str(speaker).lower() not in ROLES:
                return step_turns(value, calls=calls)
    if not all(map(is_text, speakers)):
        return None
    return [_named_turn(turn, by, text_key) for turn in value]


def _has_parts(turn: Turn) -> bool:
    """Return whether parts are all of a turn: of Gemini's, Vercel's, pydantic-ai's or Semantic Kernel's."""
    has_speaker = "role" in turn or kind_of(turn) in ROLES
    return has_speaker and first_of(turn, _PARTS) is not None


def _agents_by_name(value: list[Turn]) -> Messages | None:
    """Return turns of agents whose roles are their names; None if there are none, or a role is an agent's."""
    turns = []
    for turn in value:
        role = lookup(turn, "role")
        if role in AGENT_ROLES:  # fast, for it mostly stands near the beginning
            return None
        # a name is written large
        is_name = is_text(role) and role.lower() not in (role, *ROLES)
        agent = {"role": "assistant", "name": role} if is_name else {}
        turns.append({**turn, **agent})
    return None if turns == value else turns


def _named_turn(
    turn: Turn,
    by: str,
    text_key: str,
) -> Turn:
    speaker = turn.get(by)
    kind = kind_of(turn) if by in KIND_KEYS else ""
    if kind in TYPED:
        return turn
    is_name = by == "agent" and bool(speaker)
    unknown = "assistant" if is_name else kind or speaker
    role = ROLES.get(str(speaker).lower(), unknown)
    made = new_turn(role, turn.get(text_key), name=is_name and speaker)
    rest = {key: turn[key] for key in turn if key not in (by, text_key)}
    return made | rest


def step_turns(
    value: list[Any],
    *,
    calls: bool = False,
) -> Messages | None:
    """Convert steps of a thought, an action and an observation; None if they are none."""
    steps = objects(value)
    keys = {key for step in steps for key in step}
    if {"content", "finishReason"} <= keys:  # of Vercel's and Mastra's agents
        return [new_turn("assistant", step.get("content")) for step in steps]
    parts = {*map(_part_of, keys)}
    is_step = parts & {"thought", "seen"} or (calls and "arguments" in parts)
    if "speaker" in parts or not (is_step and parts & {"action", "calls"}):
        return None
    turns: Messages = []
    for turn in chain.from_iterable(map(_turns_of_step, steps)):
        # what was seen may stand again before the next action
        if turn["role"] != "tool" or turn not in turns[-1:]:
            turns.append(turn)
    return turns


@lru_cache(4096)
def _part_of(key: str) -> str:
    """Return which part of a step a field is, by its name; empty for any other field."""
    for part, pattern in _STEP_PARTS.items():
        if re.fullmatch(pattern, key):
            return part
    return ""


def _turns_of_step(step: JsonObject) -> Messages:
    """Return the agent's turn of a step, and what it saw before and behind it."""
    turn = dict(step)
    names: dict[str, str] = {}
    turns: Messages = []
    at = 0
    parts = {key: _part_of(key) for key in step if step[key] is not None}
    seen = [key for key in parts if parts[key] == "seen"]
    # beside what was seen an output or a result is the agent's own
    sure = [key for key in seen if key not in ("output", "result")]
    seen = sure or seen[-1:]
    for key, part in parts.items():
        if key in seen:
            turns.append(new_turn("tool", turn.pop(key)))
            at += not names
        elif part and part != "seen":
            names.setdefault(part, key)
    for key in reversed(_ANSWER_RANKS):
        if parts.get(key) == "answer":
            names["answer"] = key
    if is_text(step.get("task")) and not (names or turns):
        return [new_turn("user", step["task"])]
    keys = [names.get(part, "") for part in _AGENTS_PARTS]
    thought, action, arguments, answer = map(step.get, keys)
    if is_text(thought) and is_text(answer) and thought.strip() in answer:
        thought = None  # the model's whole response says it (SWE-agent)
    calls = []
    for done in action if is_list(action) else [action]:
        if is_object(done) and first_of(done, NAMES):
            calls.append(done)
        elif done is not None:
            calls.append(_call_of_step(done, keys[1], arguments))
    for key in (*keys, *_STEP_COPIES):
        turn.pop(key, None)
    turn |= new_turn(
        "assistant",
        answer,
        reasoning_content=thought,
        tool_calls=calls,
    )
    if has_content(turn):
        turns.insert(at, turn)
    return turns


def _call_of_step(
    done: Any,
    key: str,
    arguments: Any,
) -> Turn:
    """Return the call of a step: its action names the tool beside its input, or is all of it."""
    if arguments is not None or key in NAMES:
        return {"name": done, "arguments": arguments}
    if is_object(done) and len(done) == 1:
        ((key, done),) = done.items()
    return {"name": key, "arguments": done}


def content_turns(message: JsonObject) -> Iterator[Turn]:
    """Yield the parts of a message, also as JSON text, as messages; each result is a tool's."""
    parts = json_value(first_of(message, _PARTS))
    if not is_list(parts):
        yield dict(message)
        return
    role = message.get("role") or kind_of(message)
    if role == "model":
        role = "assistant"

    def is_others(part: Any) -> bool:
        return is_object(part) and kind_of(part) in OTHERS

    for by_others, listed in groupby(map(_one_part, parts), is_others):
        if by_others:
            yield from map(typed_turn, listed)
            continue
        # a part with a type alone only marks a step
        shown: list[Any] = []
        for part in listed:
            if not (is_object(part) and part.keys() <= {"type"}):
                shown.append(part)
        text = lookup(shown, "0.text")
        content = text if is_text(text) and len(shown) == 1 else shown
        if shown:
            yield new_turn(role, content, name=message.get("name"))


def _one_part(part: Any) -> Any:
    """Return a part with a type; one of Vercel's that holds a call, also with its result, as a call."""
    inner = lookup(part, "toolInvocation") or part
    if lookup(inner, "toolCallId") is None or kind_of(part):
        return normalize_part(part)
    name = inner.get("toolName") or str(part.get("type")).removeprefix("tool-")
    return {**inner, "type": "tool_use", "name": name}


def dialogue(value: Any) -> Messages | None:
    """Split a text that has a marker such as `Human:` before each turn into its turns; None for any other value."""
    text = value if is_text(value) else ""
    for markers in _MARKERS:
        if markers.match(text):
            turns = _split(text, markers)
            if {"user", "assistant"} <= {turn["role"] for turn in turns}:
                return turns
    return None


def _split(
    text: str,
    markers: re.Pattern[str],
) -> Messages:
    _, *turns = markers.split(text)
    speakers = [ROLES[name.lower()] for name in turns[::2]]
    return [*map(new_turn, speakers, map(str.strip, turns[1::2]))]


def dialogue_pair(texts: list[Any]) -> list[Messages]:
    """Split two dialogues that begin alike into the turns of each; [] if they are not dialogues.

    The turns up to the last common marker are the prompt. The rest of each dialogue is one turn, because
    markers in it may be the agent's own text.
    """
    shared = commonprefix(texts)  # noqa: RUF071 - of texts, not of paths
    for markers in _MARKERS:
        marks = [*markers.finditer(shared)]
        agents = [mark for mark in marks if mark[1].lower() == "assistant"]
        if agents and markers.match(shared):
            last = agents[-1]
            prompt = _split(shared[: last.start()], markers)
            answers = [text[last.end() :].strip() for text in texts]
            return [
                [*prompt, new_turn("assistant", answer)] for answer in answers
            ]
    return []


def chat_turns(
    value: Any,
    where: str,
) -> Messages:
    """Read a conversation: messages, turns of `from` and `value`, or JSON text of either.

    UnreadableError if the value is none of these; `where` is its path for the error.
    """
    value = json_messages(value) or json_value(value)
    if is_list(value):
        value = named_turns(value, calls=True) or value
    return check_messages(value, where)


def prompt_turns(
    value: Any,
    where: str,
) -> Messages:
    """Read a prompt: a text is the user's turn unless it is JSON of messages or a dialogue; no turn if it is empty."""
    if value in EMPTY:
        return []
    if is_text(value) and json_messages(value) is None:
        turns = dialogue(value) or [new_turn("user", value)]
        # it may end with a marker for the answer to come
        if turns[-1] == new_turn("assistant", ""):
            turns.pop()
        return turns
    body = json_value(value)
    if not is_object(body):
        return chat_turns(body, where)
    held = first_of(body, _BODIES) or [body]
    return with_system(body, chat_turns(held, where))


def is_prompt(value: Any) -> bool:
    """Return whether a value may be a prompt: a text or messages, also in an object."""
    held = first_of(value, _BODIES) if is_object(value) else value
    return is_text(value) or is_message_list(held)


def is_system(message: JsonObject) -> bool:
    """Return whether a message states rules."""
    return message.get("role") in ("system", "developer")


def with_system(
    record: JsonObject,
    messages: Messages,
) -> Messages:
    """Put the record's system prompt, a text or parts with `text`, before a conversation without one."""
    if messages and is_system(messages[0]):
        return messages
    prompt = first_of(record, SYSTEM)
    turn = new_turn("system", items(lookup(prompt, "parts")) or prompt)
    return [turn, *messages] if text_of(turn) else messages


SYSTEM = words("system system_prompt systemInstruction system_instruction")
