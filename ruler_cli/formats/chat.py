"""Chat messages: who wrote a message and what of it a judge can be shown; texts and API responses → messages.

A text (JSON of messages, or a dialogue with a marker before each turn) is read as several turns only if a
person or a program put the whole conversation into it. An agent's answer beside a prompt is one turn,
whatever its text: an agent can write turns that never took place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, dropwhile, groupby, repeat, takewhile
from operator import contains
from os.path import commonprefix
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump
from ruler_cli.formats.fields import (
    EMPTY,
    JsonObject,
    Names,
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
    value_at,
    words,
)
from ruler_cli.types import Path, Rollout, printable

Messages = list[Any]
Turn = dict[str, Any]
"""A message that is made."""

AGENT_ROLES = (
    None,
    *words(
        "assistant model agent ai gpt chatgpt bot chatbot Assistant ASSISTANT Model MODEL Agent AGENT AI GPT Bot BOT "
        "submission"
    ),
)
"""Roles of the agent's own messages, and of the message with the work that it submitted.

An item of OpenAI's Responses has none. A tuple, because a dump may hold a role that cannot be hashed."""
USER_ROLES = words("user human system developer User Human USER HUMAN")
TRANSCRIPT = "transcript"
"""Role of a message that holds a whole conversation as one text: the task and the agent's turns."""
CALL_KEYS = words(
    "tool_calls toolCalls tool_uses function_calls toolInvocations tool_invocations toolsCalled tools_called"
)
"""Fields that hold a message's tool calls."""
SINGLE_CALLS = words("function_call tool_call functionCall toolCall")
"""Fields that hold one tool call."""
RESULT_KINDS = words("tool_result tool-result toolResult")
"""Kinds of message parts that hold the result of a tool call."""
TOOLS = words("functions tool_definitions info.oai_tools")
"""Fields that hold tools beside `tools`: OpenAI's old name, Azure's evaluation, verifiers."""
THOUGHT_KEYS = words("reasoning_content reasoning thinking")
_CONTENTS = ("content", "refusal", *SINGLE_CALLS, *CALL_KEYS, *THOUGHT_KEYS)
LABELS = frozenset(
    words(
        "role name type kind block_type id uuid parent parent_id index tool_call_id call_id function model model_name "
        "provider usage cost timestamp time date created created_at updated_at started_at ended_at "
        "finish_reason stop_reason stop_sequence end_turn logprobs token_ids tokens mask loss weight status "
        "state object metadata meta extra source annotations signature cache_control phase channel recipient "
        "sender agent agent_type is_demo message_type format mime_type encrypted_content response_metadata "
        "additional_kwargs usage_metadata model_extra provider_specific_fields reasoning_details "
        "system_fingerprint service_tier requestor"
    )
)
"""Fields of a message that are metadata, not content."""
_ABOUT_TURN = LABELS - {
    *words("name function status state source sender agent phase extra")
}
"""Those that are metadata inside another field, too."""
GRADED = frozenset(
    words("""
score scorer grade grader grading judge judgement judgment judged evaluation evaluator eval assert assertion
metric reward feedback rubric critique review annotation annotator verifier verification verdict label target
reference truth gold golden expected solution
""")
)
"""Words, in the singular, of keys with a reference answer or with what graders say."""
_NOT_SHOWN = GRADED.union(
    words(
        "correct correctness gt oracle ideal canonical human expert rating quality preferred chosen rejected critic "
        "opinion moderation advantage ruler"
    )
)
"""These words and more, which mean the same in a turn; of a record they may be the rollouts."""
_KNOWN = LABELS.union(_CONTENTS)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_TEXT_KINDS = (
    None,
    *words("text input_text output_text thinking reasoning message"),
)
"""Kinds of parts and items that are empty if their text is empty."""


def new_turn(role: Any, content: Any, **more: Any) -> Turn:
    """Make a message, without further fields that are empty."""
    stated = {name: value for name, value in more.items() if value}
    return {"role": role, "content": content, **stated}


def tools_of(trajectory: JsonObject) -> Any:
    """Return the trajectory's tools, also if they are JSON text."""
    tools = json_value(trajectory.get("tools"), text=True)
    others = (lookup(trajectory, path) for path in TOOLS)
    return first(filter(is_list, others)) if tools is None else tools


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
    out = []
    for i, item in enumerate(value):
        inner = lookup(item, "message")
        # a Choice is a dict with `message` inside, and no role of its own
        message = inner if is_object(inner) and "role" not in item else item
        if is_object(message) and {"role", "type"} & message.keys():
            out.append(message)
        elif listed := json_messages(item):
            out += listed
        else:
            raise UnreadableError(f"`{where}[{i}]` is no message object with a role")
    return out


def last_states(conversations: Iterable[Messages]) -> list[Messages]:
    """Return conversations without those that a later one continues."""
    out: list[Messages] = []
    for conversation in conversations:
        out = [one for one in out if one != conversation[: len(one)]]
        out.append(conversation)
    return out


def first_agent_turn(messages: Messages) -> int:
    """Return the index of the agent's first message, else the number of messages.

    A Responses item without a role counts as the agent's.
    """
    for i, message in enumerate(messages):
        if message.get("role") in AGENT_ROLES:
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
    rest = [*dropwhile(is_agent, messages[begin:])]
    task = rest[: first_agent_turn(rest)]
    return task if all(one.get("role") in USER_ROLES for one in task) else []


def is_agent(message: JsonObject) -> bool:
    """Tell if the agent wrote a message: by its role, or as a Responses item that is no tool result."""
    role = message.get("role")
    returned = role is None and is_returned(message.get("type"))
    return role == TRANSCRIPT or (role in AGENT_ROLES and not returned)


def is_returned(kind: Any) -> bool:
    """Tell if an item of OpenAI's Responses is the result of a call, or the user's answer to a question."""
    return str(kind).endswith(("_output", "approval_response"))


def has_content(message: JsonObject) -> bool:
    """Tell if a message holds anything to show a judge: text, a call, a thought, a refusal."""
    content = message.get("content")
    if has_text(content):
        return True
    # a call without arguments, a picture; a Responses item that is no text
    parts = objects(content) if "role" in message else [message, *objects(content)]
    if any(part.get("type") not in _TEXT_KINDS for part in parts):
        return True
    if message.get("refusal") or calls_of(message):
        return True
    return has_text([*map(message.get, THOUGHT_KEYS), other_text(message)])


@lru_cache(4096)
def words_of(key: str) -> frozenset[str]:
    """Return the words of a key or of a path in lower case, each also in the singular."""
    named = {word.lower() for word in _WORD.findall(key)}
    return frozenset(named | {word.removesuffix("s") for word in named})


REFERENCES = frozenset(
    words(
        "answer reference truth gt gold golden expected solution target ideal canonical"
    )
)
"""Words of keys with a reference answer."""
JUDGED = frozenset(
    words(
        "hash sha md5 id score reward func generated predicted prediction extracted parsed agent model assistant "
        "response completion output final incorrect wrong rejected"
    )
)
"""Words of keys whose value is a hash, a figure or the answer that is judged, and no reference."""
FIGURES = frozenset(words("metrics scores rewards usage"))
"""Keys of objects with figures."""


RUBRICS = frozenset(words("rubric criteria criterion checklist"))
"""Words of keys with a rubric."""


def paths_named(
    record: JsonObject, named: frozenset[str], deepest: int = 3
) -> Iterator[str]:
    """Yield the paths of fields with one of these words in their names, also inside objects."""
    for key, value in record.items():
        if named & words_of(key) and value not in EMPTY:
            yield key
        elif is_object(value) and deepest and key != "ruler":
            inside = paths_named(value, named, deepest - 1)
            yield from (f"{key}.{inner}" for inner in inside)


_SINGLE = frozenset(SINGLE_CALLS)


def calls_of(message: JsonObject) -> list[Any]:
    """Return the calls of a message in any of its fields, also in its metadata, as they stand."""
    listed = message.get("tool_calls")
    if listed and is_list(listed) and _SINGLE.isdisjoint(message):  # fast
        return listed
    listed = listed or first_of(message, CALL_KEYS)
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
    message: JsonObject, *, numbers: bool = False, known: frozenset[str] | None = None
) -> dict[str, Any]:
    """Return the fields of a message that hold text and are neither its content, nor metadata, nor a grader's.

    With `numbers` also those that hold a number or true. `known` are the fields that are content or metadata.
    """
    known = known or _KNOWN
    if known.issuperset(message):  # fast, as most are
        return {}
    fields = {key: value for key, value in message.items() if key not in known}
    return {
        key: value
        for key, value in ungraded(fields).items()
        if (
            any(one is not False for one in leaves(value))
            if numbers
            else not isinstance(value, int | float) and has_text(value)
        )
    }


def ungraded(value: Any, depth: int = 0) -> Any:
    """Return a JSON value, also one in JSON text, without reference answers and what graders say, at every depth."""
    if depth > _MOST_LEVELS:
        return None
    if is_object(value):
        return {
            key: ungraded(inner, depth + 1)
            for key, inner in value.items()
            if not _NOT_SHOWN & words_of(key)
        }
    if is_list(value):
        return [ungraded(inner, depth + 1) for inner in value]
    inner = json_value(value) if is_text(value) and value[:1] in ("{", "[") else None
    if isinstance(inner, dict | list):
        shown = ungraded(inner, depth + 1)
        return value if shown == inner else shown
    return value


_MOST_LEVELS = 50
"""Levels of a field beside the content of a message that are shown."""


def leaves(value: Any, beside: frozenset[str] = frozenset()) -> Iterator[Any]:
    """Yield what a JSON value holds that is not empty, without metadata and fields with one of these words."""
    stack = [value]
    while stack:
        item = stack.pop()
        if is_object(item):
            stack += [
                inner
                for key, inner in item.items()
                if key not in _ABOUT_TURN and not beside & words_of(key)
            ]
        elif is_list(item):
            stack += item
        elif item not in (None, ""):
            yield item


def has_text(value: Any) -> bool:
    """Tell if a JSON value holds text or a number, other than kinds and ids."""
    if value is None or is_text(value):  # fast
        return bool(value and not value.isspace())
    return any(
        not one.isspace() if is_text(one) else not isinstance(one, bool)
        for one in leaves(value)
    )


def nothing_to_judge(rollout: Rollout) -> str | None:
    """Return the reason why a rollout cannot be judged, as a predicate; None if the agent did something.

    An agent's message in the prompt does not count.
    """
    own = rollout.messages[rollout.prompt_length or 0 :]
    # the last turns are the likeliest to say something
    turns = chain(reversed(own), *rollout.histories)
    if any(is_agent(turn) and has_content(turn) for turn in turns):
        return None
    if any(map(is_agent, own)):
        return "has only empty turns of the agent: there is nothing to judge"
    roles = dict.fromkeys(str(message.get("role")) for message in rollout.messages)
    names = printable(", ".join(roles), 200)
    return f"has no turn of the agent to judge (its roles: {names})"


def text_of(message: JsonObject) -> str:
    """Return the text of a message, white space stripped."""
    return "\n".join(texts(message.get("content"))).strip()


def texts(content: Any) -> list[str]:
    """Return the texts of a message's content: of one, or of parts."""
    parts = items(content) or [content]
    found = (part if is_text(part) else lookup(part, "text") for part in parts)
    return [*filter(is_text, found)]


_SPEAKERS = {
    "user": "human user prompter question customer",
    "assistant": "robot gpt chatgpt bing bard assistant model bot ai claude chatbot agent function_call answer",
    "system": "system developer",
    "tool": "tool observation function function_response tool_response api environment",
}
ROLES = {name: role for role, names in _SPEAKERS.items() for name in names.split()}
"""Names of a speaker in data sets → the role of a chat message."""

_SPEAKERS_IN = words("from speaker role sender author type who agent")
_SAID_IN = words("value text content utterance message response says said")
"""Fields of a turn with its speaker, and with its text."""
_STEP_KEYS = (
    words("thought thoughts reasoning think"),
    words("action actions act tool tool_name api_name command"),
    words(
        "action_input tool_input tool_args args arguments input params parameters param_dict"
    ),
    words("final_answer answer response content text message"),
    words("observation obs result output tool_output tool_result"),
)
"""Fields of a step: what the agent thought, did, did it with, and said, and what it then saw."""


_ACTS = frozenset((*_STEP_KEYS[1], *CALL_KEYS, *SINGLE_CALLS))


_APART = frozenset(_STEP_KEYS[0] + _STEP_KEYS[-1])
"""Fields of steps, of which each list of steps has one of both kinds."""
_TOOL_KEYS = frozenset(words("name function tool tool_name api_name"))
"""Fields with the name of a tool."""
_SPEAKER_KEYS = frozenset(words("role from speaker sender author source message_type"))
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
    """Tell if all texts among these values are JSON of messages; one alone may be an agent's own text."""
    texts = [*filter(is_text, values)]
    return bool(texts) and all(map(json_messages, texts))


def _is_message(value: Any) -> bool:
    """Tell if an object has a known speaker and content: other objects have a `role` too."""
    if not is_object(value) or not _CONTENT_KEYS & value.keys():
        return False
    speaker = first_of(value, ("role", "from", "speaker"))
    return str(speaker).lower() in ROLES


def named_turns(value: list[Any]) -> Messages | None:
    """Convert turns of other names to chat messages: `from` and `value`, steps, parts; None if they are none."""
    plain = not is_message_list(value) or {"role", "content"} <= value[0].keys()
    if plain or not all(map(is_object, value)):
        return None
    if all("role" in turn and "parts" in turn for turn in value):
        return [made for turn in value for made in content_turns(turn)]
    by = first(key for key in _SPEAKERS_IN if key in value[0])
    said = first(key for key in _SAID_IN if key in value[0])
    speakers = [turn.get(by) for turn in value]
    # a part of content has a `type` and a `text` too
    if by == "type" and not all(str(one).lower() in ROLES for one in speakers):
        said = None
    if by is None or said is None:
        return _paired_turns(value) or step_turns(value)
    if not all(map(is_text, speakers)):
        return None
    return [_named_turn(turn, by, said) for turn in value]


def _named_turn(turn: Turn, by: str, said: str) -> Turn:
    speaker = turn.get(by)
    name = speaker if by == "agent" else None
    role = ROLES.get(str(speaker).lower(), "assistant" if name else speaker)
    more = {key: inner for key, inner in turn.items() if key not in (by, said)}
    return {**new_turn(role, turn.get(said), name=name), **more}


def _paired_turns(value: list[Turn]) -> Messages | None:
    """Convert questions and answers under the speakers' names, beside ids and numbers (ms-swift)."""
    turns = [
        new_turn(ROLES[name], text)
        for turn in value
        for name, text in turn.items()
        if name in ROLES
    ]
    if not (_is_exchange(turns) and all(is_text(turn["content"]) for turn in turns)):
        return None
    more = any(other_text(turn).keys() - ROLES for turn in value)
    return None if more else turns


def step_turns(value: list[Any]) -> Messages | None:
    """Convert steps of a thought, an action and an observation; None if they are none."""
    steps = objects(value)
    keys = {key for step in steps for key in step}
    if keys & _SPEAKER_KEYS or not (keys & _ACTS and keys & _APART):
        return None
    return [turn for step in steps for turn in _turns_of_step(step)]


def _turns_of_step(step: JsonObject) -> Messages:
    """Return the agent's turn of a step, and behind it, or before if it stands before, what it saw."""
    found = [
        first(name for name in names if step.get(name) is not None) or ""
        for names in _STEP_KEYS
    ]
    thought, done, given, said, seen = map(step.get, found)
    if is_text(thought) and is_text(said) and thought.strip() in said:
        thought = None  # the model's whole response says it (SWE-agent)
    calls = [
        _call_of_step(one, found[1], given)
        for one in (done if is_list(done) else [done])
        if one is not None
    ]
    turn = {key: value for key, value in step.items() if key not in found}
    turn |= new_turn("assistant", said, reasoning_content=thought, tool_calls=calls)
    turns = [turn] if has_content(turn) else []
    if seen is not None:
        begin = first(name for name in step if name in found)
        turns.insert(0 if begin == found[-1] else 1, new_turn("tool", seen))
    return turns


def _call_of_step(done: Any, key: str, given: Any) -> Turn:
    """Return the call of a step: its action is one, or names the tool beside its input, or is all of it."""
    if is_object(done) and not _TOOL_KEYS.isdisjoint(done):
        return done
    if given is not None or key in _TOOL_KEYS:
        return {"name": done, "arguments": given}
    return {"name": key, "arguments": done}


def content_turns(message: JsonObject) -> Iterator[Turn]:
    """The `parts` of a message, also as JSON text, as messages; each result is a tool's."""
    parts = json_value(message["parts"])
    if not is_list(parts):
        yield dict(message)
        return
    # a marker of a step holds its kind alone
    stated = (part for part in parts if not is_object(part) or part.keys() - {"type"})
    both = (made for part in stated for made in _call_and_result(part))
    for returned, run in groupby(
        both, lambda part: lookup(part, "type") == "tool_result"
    ):
        if not returned:
            yield _message(message["role"], message.get("name"), [*run])
            continue
        for part in run:
            identity, name = part["tool_use_id"], part.get("toolName")
            yield _message("tool", name, part["content"], tool_call_id=identity)


def _call_and_result(part: Any) -> list[Any]:
    """A part as it renders; one of Vercel's that holds a call with its result as two."""
    inner = lookup(part, "toolInvocation") or part
    kind = str(lookup(part, "type"))
    if lookup(inner, "toolCallId") is None or kind in ("tool-call", "tool-result"):
        return [normalize_part(part)]
    inner = {"toolName": kind.removeprefix("tool-"), **inner}
    both = [_use(inner), _result(inner)]
    return both if first_at(inner, *_RETURNED) is not None else both[:1]


def _message(role: Any, name: Any, content: Any, **more: Any) -> Turn:
    """A message; of a single part of text only its text."""
    text = lookup(content, "0.text")
    if is_text(text) and len(content) == 1:
        content = text
    return new_turn(
        "assistant" if role == "model" else role, content, name=name, **more
    )


def normalize_call(call: JsonObject) -> Turn:
    """A tool call of any dialect, with `function` inside it, flat, or below `tool_call`."""
    fields = {
        key.removeprefix("tool_call.").removeprefix("function."): value
        for key, value in call.items()
    }
    for holder in ("tool_call", "function"):
        if is_object(inner := fields.get(holder)):
            fields |= inner
    name = fields.get("name") or fields.get("toolName")
    return {
        "id": first_of(fields, words("id toolCallId toolUseId")) or name,
        "name": name,
        "arguments": first_at(fields, "arguments", "args", "input"),
    }


def normalize_part(part: Any) -> Any:
    """A part of a message as one that renders: text, thought, call, result."""
    part = lookup(part, "message_content") or part
    if not is_object(part):
        return part
    part = {key.removeprefix("message_content."): value for key, value in part.items()}
    for name, read in _UNTYPED.items():
        if is_object(inner := pick(part, name)) and inner:
            return read(inner)
    kind = str(part.get("type")).replace("-", "_")
    if kind in ("tool_call", "tool_use", "function"):
        return _use(part)
    if kind in ("tool_call_response", "tool_result"):
        return _result(part)
    if kind in ("thinking", "reasoning") or part.get("thought") is True:
        thought = first_of(part, words("thinking content text reasoning"))
        return {"type": "thinking", "thinking": thought or ""}
    text = part.get("text", part.get("content") if kind == "text" else None)
    return {"type": "text", "text": text} if is_text(text) else part


def _use(part: JsonObject) -> Turn:
    identity, name, given = normalize_call(part).values()
    return {"type": "tool_use", "id": str(identity), "name": name, "input": given}


def _result(part: JsonObject) -> Turn:
    name = part.get("name") or part.get("toolName")
    named: Turn = {"toolName": name} if name else {}
    if part.get("status") == "error":  # Bedrock
        named["is_error"] = True
    names = words("tool_use_id id toolCallId toolUseId tool_call_id name")
    return {
        "type": "tool_result",
        "tool_use_id": str(first_of(part, names)),
        "content": first_at(part, *_RETURNED),
        **named,
    }


_RETURNED = words("result response output content errorText")
_UNTYPED: dict[str, Callable[..., Turn]] = {
    "function_call": _use,
    "function_response": _result,
    "tool_use": _use,
    "tool_result": _result,
    "reasoning_content": lambda part: {
        "type": "thinking",
        "thinking": first_at(part, "reasoningText.text", "text") or "(not shown)",
    },
    "executable_code": lambda part: _use({"name": "code", "input": part}),
    "code_execution_result": lambda part: _result({"name": "code", "output": part}),
    "inline_data": lambda part: {
        "type": str(pick(part, "mime_type")),
        "inline_data": part,
    },
}
"""Parts of a message of Gemini's and Bedrock's, which have no type."""


def pick(value: Any, name: str) -> Any:
    """A field that is written as `two_words` or as `twoWords`; None if it is absent."""
    first, *rest = name.split("_")
    return first_at(value, name, first + "".join(map(str.capitalize, rest)))


def _is_exchange(turns: Messages) -> bool:
    return {"user", "assistant"} <= {turn["role"] for turn in turns}


def dialogue(value: Any) -> Messages | None:
    """Split a text that has a marker such as `Human:` before each turn into its turns; None for any other value."""
    text = value if is_text(value) else ""
    known = (_split(text, markers) for markers in _MARKERS if markers.match(text))
    return first(filter(_is_exchange, known))


def _split(text: str, markers: re.Pattern[str]) -> Messages:
    _, *turns = markers.split(text)
    return [
        new_turn(ROLES[name.lower()], said.strip())
        for name, said in zip(turns[::2], turns[1::2], strict=True)
    ]


def dialogue_pair(texts: list[Any]) -> list[Messages]:
    """Split two dialogues that begin alike into the turns of each; [] if they are no dialogues.

    The turns up to the last common marker are the prompt. The rest of each dialogue is one turn, because
    markers in it may be the agent's own text.
    """
    shared = commonprefix(texts)  # noqa: RUF071 - of texts, not of paths
    for markers in _MARKERS:
        found = markers.finditer(shared)
        begins = [mark for mark in found if mark[1].lower() == "assistant"]
        if begins and markers.match(shared):
            prompt = _split(shared[: begins[-1].start()], markers)
            rests = (text[begins[-1].end() :].strip() for text in texts)
            return [[*prompt, new_turn("assistant", rest)] for rest in rests]
    return []


ANSWERS = words(
    "completion response generation model_output prediction output actual_output actualOutput assistant_response "
    "agent_response model_answer full_output final_text"
)
"""Fields with an answer beside its prompt, best first. Not `answer`: that is mostly the reference answer."""
ANSWER_LISTS = words("responses completions outputs generations choices rollouts")
"""Fields with several answers to one prompt. Not `candidates`: those are mostly the options of a question."""
_ANSWER_KEYS = frozenset(
    words(
        "role text message choices candidates generated_text completion response final_text"
    )
).union(_CONTENTS)
_HOLDERS = words("message choices output body candidates")
"""Members of an API's response that hold the answer as an object or a list."""
_TEXTS = words(
    "text content generated_text output_text completion response message final_text",
)
"""Members that hold it as a text or parts."""
_PARTS = words("text output_text thinking tool_use image image_url refusal")


def chat_turns(value: Any, where: str) -> Messages:
    """Read a conversation: messages, turns of `from` and `value`, or JSON text of either.

    UnreadableError if the value is none of these; `where` is its path for the error.
    """
    value = json_messages(value) or json_value(value)
    if is_list(value):
        value = named_turns(value) or value
    return check_messages(value, where)


def prompt_turns(value: Any, where: str) -> Messages:
    """Read a prompt: a text is the user's turn unless it is JSON of messages or a dialogue; an empty one is no turn."""
    if value in EMPTY:
        return []
    if is_text(value) and json_messages(value) is None:
        turns = dialogue(value) or [new_turn("user", value)]
        # it may end with a marker for the answer to come
        return turns[:-1] if turns[-1] == new_turn("assistant", "") else turns
    body = json_value(value)
    if not is_object(body):
        return chat_turns(body, where)
    held = first_of(body, _BODIES) or [body]
    return with_system(body, chat_turns(held, where))


def answer_turns(value: Any, where: str, *, as_json: bool = False) -> Messages:
    """Read the agent's answer, also as an API's response; `as_json`: also as JSON text of messages.

    A text, also an empty one, is its turn; UnreadableError for null.
    """
    if value is None:
        raise UnreadableError(
            f"has no answer: `{where}` is null, as after an error in the rollout"
        )
    if as_json and json_messages(value):
        return chat_turns(value, where)
    turns = find_answer(value, where)
    if turns is None:
        return check_messages([value] if is_object(value) else value, where)
    return turns


def find_answer(value: Any, where: str) -> Messages | None:
    """Return the one answer in a text, a message, an API's response, or a list of these; None for no answer.

    UnreadableError if there are several answers.
    """
    if is_text(value):
        return [new_turn("assistant", value)]
    if is_object(value) and is_list(value.get("parts")):
        value = {"role": "assistant", **value}
    if turns := named_turns([value] if is_object(value) else items(value)):
        return turns
    if is_list(value) and value:
        if all(lookup(m, "type") in _PARTS and "role" not in m for m in value):
            return [new_turn("assistant", value)]
        if all(is_object(m) and {"role", "type"} & m.keys() for m in value):
            return check_messages(value, where)
        if len(value) == 1:
            return find_answer(value[0], f"{where}[0]")
        if not all(map(is_answer, value)):
            return None
        raise UnreadableError(
            f"has {len(value)} answers in `{where}` where one conversation should end; write a rollout for each"
        )
    if not is_object(value):
        return None
    if is_text(value.get("role")):
        return check_messages([value], where)
    # a list at `content` is of parts
    held = [*map(value.get, _HOLDERS), *objects([value.get("content")])]
    inner = (find_answer(one, where) for one in held if isinstance(one, dict | list))
    if answer := first(filter(None, inner)):
        return answer
    said = map(value.get, _TEXTS)
    content = first(text for text in said if is_text(text) or items(text))
    more = {key: value[key] for key in _CONTENTS[1:] if value.get(key)}
    if content is None and not more:
        return None
    return [new_turn("assistant", content, **more)]


def with_calls(record: JsonObject, answer: Messages) -> Messages:
    """Put the calls beside an answer before it, unless it has calls of its own."""
    calls = first_of(record, CALL_KEYS)
    if not calls or any(map(calls_of, answer)):
        return answer
    return [new_turn("assistant", None, tool_calls=calls), *answer]


def is_answer(value: Any) -> bool:
    """Tell if a value may be an answer: null, a text, a message, messages, or an API's choice."""
    if is_object(value):
        return bool(_ANSWER_KEYS & value.keys())
    return value is None or is_text(value) or is_message_list(value)


def is_reply(message: Any) -> bool:
    """Tell if a value is a message with a role of the agent, or without a role."""
    return is_object(message) and message.get("role") in AGENT_ROLES


def with_answer(record: JsonObject, messages: Messages) -> Messages:
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


def prompt_size(given: Messages, whole: Messages) -> int | None:
    """Return the number of messages in a prompt with turns of the agent; None for all before its first turn.

    `given` is the conversation, `whole` the same with the answer from beside it. If `given` ends with the
    user's turn, earlier turns of the agent are examples or the history of a chat.
    """
    size = len(given)
    replied = first_agent_turn(given) < size < len(whole)
    return size if replied and given[-1].get("role") in USER_ROLES else None


def read_conversation(
    record: JsonObject, given: Messages, path: Path = (), **fields: Any
) -> Rollout:
    """Read a conversation with what stands beside it: the system prompt, the answer, the submitted work, the tools."""
    given = with_system(record, given)
    messages = with_submission(record, with_answer(record, given))
    fields = {"tools": tools_of(record) or None, **fields}
    length = prompt_size(given, messages)
    return Rollout(messages, path, prompt_length=length, **fields)


def answers_path(record: JsonObject, least: int = 2) -> Path:
    """Return the path of a list of answers to a prompt, or to messages without one; () if there is none.

    `least` is the smallest number of answers.
    """
    names = (*ANSWER_LISTS, *ANSWERS)
    paths = (path for name in names for path in ((name,), (name, "choices")))
    if is_reply(lookup(json_value(record.get("messages")), "-1")):
        return ()
    return first(path for path in paths if _is_answer_list(record, path, least)) or ()


def _is_answer_list(record: JsonObject, path: Path, least: int) -> bool:
    values = items(value_at(record, path))
    inside = objects(values)
    if len(values) < least or not all(map(is_answer, values)):
        return False
    if path[-1] == "choices":
        return inside == values
    # a list of messages under a name for one answer is one conversation
    listed = path[-1] in ANSWER_LISTS
    return listed or not any({"role", "type"} & one.keys() for one in inside)


def read_or_error(
    path: Path,
    read: Callable[..., Rollout],
    *given: Any,
    **fields: Any,
) -> Rollout:
    """Read one rollout of several and give it these fields; if it cannot be read, with the reason."""
    try:
        return replace(read(*given), path=path, **fields)
    except UnreadableError as error:
        return Rollout([], path, error=str(error), **fields)


def make_rollout(prompt: Messages, answer: Messages, **fields: Any) -> Rollout:
    """Join a prompt and an answer; turns of the agent in the prompt stay a part of it."""
    size = len(prompt)
    length = size if first_agent_turn(prompt) < size else None
    return Rollout([*prompt, *answer], prompt_length=length, **fields)


SUBMISSIONS = words(
    "model_patch generated_patch git_patch info.submission test_result.git_patch test_result.model_patch"
)
"""Paths of a patch that an agent submitted. Never `patch`, `test_patch` and `gold_patch`: SWE-bench's data
sets have the reference solution there, which the judge must not see."""


def with_submission(record: JsonObject, messages: Messages) -> Messages:
    """Append the submitted work to a conversation, unless a message contains it already."""
    for text in filter(is_text, (lookup(record, path) for path in SUBMISSIONS)):
        bare = text.strip()
        if bare and not any(bare in text_of(message) for message in messages):
            messages = [*messages, new_turn("submission", text)]
    return messages


PROMPTS = words(
    "prompt instruction question query problem input user_input user_prompt user_query user_message"
)
"""Fields with the prompt, best first."""
_WITH_CONTEXT = words("instruction query question user_input user_query")
"""Prompts that a `context` beside them completes; other prompts mostly hold it themselves."""
SYSTEM = words("system system_prompt systemInstruction system_instruction")


_TASKS = (
    *PROMPTS,
    *words("task goal objective task_description task.instruction task.description"),
)
"""Paths of the task of a record with an agent's steps alone."""


def with_task(record: JsonObject, messages: Messages) -> Messages:
    """Put the record's task before a conversation of the agent's turns and tools' alone."""
    if any(message.get("role") in USER_ROLES for message in messages):
        return messages
    return [*prompt_at(record, _TASKS), *messages]


def prompt_at(record: JsonObject, paths: Names) -> Messages:
    """Return the turns of the first prompt at one of these paths; [] if there is none."""
    for path in paths:
        value = lookup(record, path)
        if value and is_prompt(value):
            return prompt_turns(value, path)
    return []


def prompt_field(record: JsonObject) -> str | None:
    """Return the field with the prompt: the first that holds text or messages, preferably not empty."""
    present = [name for name in PROMPTS if is_prompt(record.get(name))]
    return first([*filter(record.get, present), *present])


def is_prompt(value: Any) -> bool:
    """Tell if a value may be a prompt: a text or messages, also in an object."""
    held = first_of(value, _BODIES) if is_object(value) else value
    return is_text(value) or is_message_list(held)


def task_turns(record: JsonObject, name: str | None) -> Messages:
    """Return the turns before the answer: system, earlier questions and answers, and the prompt itself.

    UnreadableError if the record has no field with a prompt, whose `name` is then None.
    """
    if name is None:
        raise UnreadableError(f"has no prompt (`{'`, `'.join(PROMPTS)}`)")
    value = record.get(name)
    if name in _WITH_CONTEXT and is_text(value):
        # the input of Alpaca's and Dolly's instructions is shown below them, after a blank line
        names = ("input", "context") if name == "instruction" else ("context",)
        texts = filter(is_text, map(record.get, names))
        context = first(filter(str.strip, texts)) or ""
        if context not in value:
            value = "\n\n".join(filter(None, (value, context)))
    history = first_of(record, ("history", "chat_history"))
    if is_text(history):
        history = json_messages(history)
    pairs = [*map(items, items(history))]
    if pairs and all(pairs):
        turns = (
            turn
            for pair in pairs
            for turn in map(new_turn, ("user", "assistant"), pair)
        )
        earlier = [turn for turn in turns if turn["content"] is not None]
    else:
        earlier = prompt_turns(history, "history")
    return with_system(record, [*earlier, *prompt_turns(value, name)])


def with_system(record: JsonObject, messages: Messages) -> Messages:
    """Put the record's system prompt, a text or parts with `text`, before a conversation without one."""
    prompt = first_of(record, SYSTEM)
    turn = new_turn("system", items(lookup(prompt, "parts")) or prompt)
    given = messages and _is_system(messages[0])
    return messages if given or not text_of(turn) else [turn, *messages]


def with_prompt(rollout: Rollout, value: Any, path: str) -> Rollout:
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
    start = 0 if _is_system(turns[0]) else len([*takewhile(_is_system, messages)])
    asked = [*map(text_of, turns)]
    said = [*map(text_of, messages)]
    count = len(asked)
    begin = first_agent_turn(messages)
    held = count == 1 and any(asked[0] in text for text in said[:begin])
    if held or asked == said[start : start + count]:
        return rollout
    size = rollout.prompt_length
    if size is None and first_agent_turn(turns) < count:
        size = max(begin, start)
    size = None if size is None else size + count
    messages = [*messages[:start], *turns, *messages[start:]]
    return replace(rollout, messages=messages, prompt_length=size)


def _is_system(message: JsonObject) -> bool:
    return message.get("role") in ("system", "developer")


_NOT_IN_KEY = {"role", "content", "type", "id"}


def prompt_key(rollout: Rollout, step: Any) -> str:
    """Return a hash of the prompt and of the training step; UnreadableError if the prompt is empty."""
    task = task_messages(rollout)
    if not any(map(has_content, task)):
        raise UnreadableError(
            "has no text before the agent's first turn, so its task is not known; name the group "
            "key with --group-by PATH, or the task's text with --prompt PATH"
        )
    prompt = []
    for message in task:
        part = [*map(message.get, ("role", "content"))]
        excluded = _NOT_IN_KEY | {"name"} if "role" in message else _NOT_IN_KEY
        # without content, or with calls, other fields alone tell two messages apart
        if part[1] is None or message.get("tool_calls"):
            fields = {k: v for k, v in message.items() if k not in excluded and v}
            part += filter(None, [fields])
        prompt.append(part)
    return "prompt-" + blake2b(dump([prompt, step]), digest_size=8).hexdigest()
