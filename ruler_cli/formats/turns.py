"""Prompt and answer, as text or as messages, or a whole conversation as one text → turns; columns → items.

A text (JSON of messages, or a dialogue with a marker before each turn) is read as turns only where a person
or a program put the whole conversation into it. What an agent wrote beside a prompt is one turn, whatever it
holds: it could hold turns that never were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import USER_ROLES, Messages, check_messages, first_agent_turn
from ruler_cli.formats.dialects import text_of
from ruler_cli.formats.interface import lookup
from ruler_cli.reading.parse import parse_text
from ruler_cli.types import Path, Rollout

ROLES = {
    **dict.fromkeys(("human", "user", "prompter", "question"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "bing", "bard", "assistant", "model", "bot", "ai"), "assistant"),
    **dict.fromkeys(("claude", "chatbot", "agent", "function_call", "answer"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "observation", "function", "function_response", "tool_response"), "tool"),
}
"""The names that data sets have for who speaks → the role of a chat message."""

_KEYS = (("from", "value"), ("speaker", "text"), ("from", "content"), ("role", "value"), ("role", "text"))
_CONTENT_KEYS = {"content", "tool_calls", "value", "text", "parts"}

_MARKERS = (
    re.compile(r"(?:\A\s*|\n\n)(Human|Assistant|System):[ \t]*"),
    re.compile(r"(?:\A\s*|\n)(User|Assistant|System):[ \t]*"),
    re.compile(r"(?:\A\s*|\s)(USER|ASSISTANT|SYSTEM):[ \t]*"),
    # sets of this kind have no line break before a marker
    re.compile(r"###[ \t]*(Human|User|Assistant|System):[ \t]*"),
)


def json_messages(text: str) -> list[Any] | None:
    """The messages that a text holds as JSON; None where it holds anything else."""
    start = text[:64].lstrip()[:1]
    if start not in ("[", "{") or not start:
        return None
    try:
        found = parse_text(text)
    except UnreadableError:
        return None
    found = [found] if isinstance(found, dict) else found
    if isinstance(found, list) and found and all(_is_message(item) for item in found):
        return found
    return None


def _is_message(value: Any) -> bool:
    """Tell if it says who speaks, by a name that people use, and what: other objects have a `role` too."""
    if not isinstance(value, dict) or not _CONTENT_KEYS & value.keys():
        return False
    who = next((value[key] for key in ("role", "from", "speaker") if key in value), None)
    return isinstance(who, str) and who.lower() in ROLES


def named_turns(value: list[Any]) -> Messages | None:
    """Turns of `from` and `value`, or of other such names, as chat messages; None where they are none."""
    if not value or not isinstance(value[0], dict) or {"role", "content"} <= value[0].keys():
        return None
    if (pairs := _rounds(value)) is not None:
        return pairs
    who, said = next((keys for keys in _KEYS if set(keys) <= value[0].keys()), ("", ""))
    out: Messages = []
    for turn in value if who else ():
        if not isinstance(turn, dict) or not isinstance(turn.get(who), str):
            return None
        # numbers are weights of a training, and no part of what was said
        rest = {k: v for k, v in turn.items() if k not in (who, said) and not isinstance(v, int | float)}
        out.append({"role": ROLES.get(turn[who].lower(), turn[who]), "content": turn.get(said), **rest})
    return out or None


def _rounds(value: list[Any]) -> Messages | None:
    """Turns of objects that hold a question and its answer, each under the name of who speaks (ms-swift)."""
    out: Messages = []
    for turn in value:
        if not isinstance(turn, dict) or not all(isinstance(v, str) and k in ROLES for k, v in turn.items()):
            return None
        if not {"user", "assistant"} <= {ROLES[name] for name in turn}:
            return None
        out += [{"role": ROLES[name], "content": said} for name, said in turn.items()]
    return out


def dialogue(text: str) -> Messages | None:
    """The turns of a text that begins with a marker such as `Human:` and has one for each turn; else None."""
    for markers in _MARKERS:
        first = markers.match(text.lstrip()) if "#" in markers.pattern else markers.match(text)
        if first is None:
            continue
        turns = _split(text, markers)
        if {"user", "assistant"} <= {turn["role"] for turn in turns}:
            return turns
    return None


def _split(text: str, markers: re.Pattern[str]) -> Messages:
    found = list(markers.finditer(text))
    ends = [*(one.start() for one in found[1:]), len(text)]
    return [
        {"role": ROLES[one[1].lower()], "content": text[one.end() : end].strip()}
        for one, end in zip(found, ends, strict=True)
    ]


def dialogue_prompt(text: str) -> Messages | None:
    """The turns of a prompt that is a dialogue, without the marker at its end that asks for the answer."""
    turns = dialogue(text)
    if turns and turns[-1] == {"role": "assistant", "content": ""}:
        return turns[:-1]
    return turns


def dialogue_pair(one: str, other: str) -> tuple[Messages, Messages] | None:
    """Two dialogues that begin alike → the turns of each; None where they are no dialogues.

    Turns up to the last marker that both have are what was asked. The rest of each is one turn: markers in
    it may be the agent's own text.
    """
    for markers in _MARKERS:
        if not (markers.match(one.lstrip("\n")) and markers.match(other.lstrip("\n"))):
            continue
        shared = 0
        for a, b in zip(markers.finditer(one), markers.finditer(other), strict=False):
            if one[: a.end()].rstrip() != other[: b.end()].rstrip():
                break
            if ROLES[a[1].lower()] == "assistant":
                shared, ends = 1, (a.start(), a.end(), b.end())
        if shared:
            asked = _split(one[: ends[0]], markers)
            return (
                [*asked, {"role": "assistant", "content": one[ends[1] :].strip()}],
                [*asked, {"role": "assistant", "content": other[ends[2] :].strip()}],
            )
    return None


ANSWERS = (
    *("completion", "response", "generation", "model_output", "prediction", "output"),
    *("actual_output", "actualOutput", "assistant_response", "agent_response", "model_answer", "full_output"),
)
"""Fields with an answer beside its prompt, best first. Not `answer`: that is mostly the right one."""
ANSWER_LISTS = ("responses", "completions", "outputs", "generations", "choices", "rollouts")
"""Fields with several answers to one prompt. Not `candidates`: those are mostly the options of a question."""
_ANSWER_KEYS = {"role", "text", "content", "message", "choices", "generated_text", "completion", "response"}
_PARTS = ("text", "output_text", "thinking", "tool_use", "image", "image_url", "refusal")


def chat_turns(value: Any, where: str) -> Messages:
    """A conversation: messages, turns of `from` and `value`, or JSON text of either."""
    if isinstance(value, str):
        value = json_messages(value) or value
    if isinstance(value, list):
        value = named_turns(value) or value
    return check_messages(value, where)


def prompt_turns(value: Any, where: str) -> Messages:
    """The turns of a prompt: a text is the user's, unless it is JSON of messages; nothing is no turn."""
    if value is None or value in ("", []):
        return []
    if isinstance(value, str):
        found = json_messages(value)
        return [{"role": "user", "content": value}] if found is None else chat_turns(found, where)
    return chat_turns([value] if isinstance(value, dict) and "role" in value else value, where)


def answer_turns(value: Any, where: str) -> Messages:
    """What the agent answered: a text is its turn, an empty one too."""
    if value is None:
        raise UnreadableError(f"has no answer in `{where}`: it is null, as after an error in the rollout")
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    return check_messages([value] if isinstance(value, dict) else value, where)


def response_turns(value: Any, where: str, *, as_json: bool = False) -> Messages:
    """The agent's answer, also as an API's response; `as_json`: also as JSON text of messages."""
    if as_json and isinstance(value, str) and (found := json_messages(value)) is not None:
        return chat_turns(found, where)
    found = find_answer(value, where)
    return answer_turns(value, where) if found is None else found


def find_answer(value: Any, where: str) -> Messages | None:
    """The one answer in a text, a message, an API's response, or a list of one of these; None for no answer.

    UnreadableError where there are several, of which nobody knows the right one.
    """
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    if isinstance(value, list):
        return _find_in_list(value, where)
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("role"), str):
        return check_messages([value], where)
    if (named := named_turns([value])) is not None:
        return named
    for name in ("message", "choices", "output", "body"):
        inner = value.get(name)
        if isinstance(inner, dict | list) and (found := find_answer(inner, f"{where}.{name}")) is not None:
            return found
    for name in ("text", "content", "generated_text", "output_text", "completion", "response", "message"):
        said = value.get(name)
        if isinstance(said, str) or (isinstance(said, list) and said):
            return [{"role": "assistant", "content": said}]
    return None


def _find_in_list(value: list[Any], where: str) -> Messages | None:
    if not value or (named := named_turns(value)) is not None:
        return named if value else None
    kinds = [item.get("type") if isinstance(item, dict) else None for item in value]
    roles = [isinstance(item, dict) and "role" in item for item in value]
    if all(kind in _PARTS for kind in kinds) and not any(roles):
        return [{"role": "assistant", "content": value}]
    if all(kind is not None or role for kind, role in zip(kinds, roles, strict=True)):
        return check_messages(value, where)
    if len(value) == 1:
        return find_answer(value[0], f"{where}[0]")
    if not all(is_answer(item) for item in value):
        return None
    raise UnreadableError(
        f"has {len(value)} answers in `{where}` where one conversation should end; write a rollout for each"
    )


def is_answer(value: Any) -> bool:
    """Tell if it may be an answer: nothing, a text, a message, messages, or an API's choice."""
    if isinstance(value, dict):
        return bool(_ANSWER_KEYS & value.keys())
    return value is None or isinstance(value, str) or is_message_list(value)


def is_reply(message: Any) -> bool:
    """Tell if the agent wrote a message."""
    return isinstance(message, dict) and first_agent_turn([message]) == 0


def with_answer(record: Mapping[str, Any], messages: Messages) -> Messages:
    """A conversation with the answer that stands beside it, where its last message is not the agent's."""
    if messages and is_reply(messages[-1]):
        return messages
    for name in (*ANSWERS, *ANSWER_LISTS):
        value = record.get(name)
        if value is None or (name == "choices" and _options(value)):
            continue
        found = find_answer(value, name)
        if found is not None:
            return [*messages, *found]
    return messages


def prompt_size(given: Messages, whole: Messages) -> int | None:
    """The number of messages that are the prompt, if it was given without the answer, which stood beside it.

    If the user's turn was the last one, earlier turns of the agent are examples, or the history of a chat.
    None: what stands before the agent's first turn.
    """
    replies = len(whole) > len(given) and given[-1].get("role") in USER_ROLES
    return len(given) if replies and first_agent_turn(given) < len(given) else None


def answers_path(record: Mapping[str, Any], least: int = 2) -> Path:
    """The place of several answers to a prompt, or to messages without one; () if there are none."""
    for name in (*ANSWER_LISTS, *ANSWERS):
        value = record.get(name)
        inner = value.get("choices") if isinstance(value, dict) else None
        found = _is_answer_list(value, name, least) or _is_answer_list(inner, "choices", least)
        if found and not _ends_with_answer(record.get("messages")):
            return (name, "choices") if isinstance(value, dict) else (name,)
    return ()


def _is_answer_list(value: Any, name: str, least: int) -> bool:
    if not isinstance(value, list) or len(value) < least or not all(map(is_answer, value)):
        return False
    if name in ANSWER_LISTS:
        return name != "choices" or not _options(value)
    # a list of messages under a name for one answer is one conversation
    return not any(isinstance(item, dict) and ("role" in item or "type" in item) for item in value)


def _ends_with_answer(messages: Any) -> bool:
    messages = json_messages(messages) if isinstance(messages, str) else messages
    return isinstance(messages, list) and bool(messages) and is_reply(messages[-1])


def _options(value: Any) -> bool:
    """Tell if `choices` are those of a question: an API's choices are objects."""
    return isinstance(value, list) and any(not isinstance(item, dict) for item in value)


def list_field(record: Mapping[str, Any], name: str, more: str = "") -> list[Any]:
    """A list of the record; UnreadableError where there is none."""
    found = record.get(name)
    if not isinstance(found, list):
        raise UnreadableError(f"has no list `{name}`{more}")
    return found


def read_or_error(read: Callable[[], Rollout], path: Path = (), **fields: Any) -> Rollout:
    """One rollout of several; one that cannot be read has these fields and says why."""
    try:
        return read()
    except UnreadableError as error:
        return Rollout([], path, error=str(error), **fields)


def make_rollout(prompt: Messages, answer: Messages, path: Path = (), **fields: Any) -> Rollout:
    """A prompt and what followed; turns of the agent in the prompt are part of what was asked."""
    asked = len(prompt) if first_agent_turn(prompt) < len(prompt) else None
    return Rollout([*prompt, *answer], path, prompt_length=asked, **fields)


def json_turns(value: Any, where: str) -> Messages:
    """Messages that stand as JSON text."""
    if isinstance(value, str):
        try:
            value = parse_text(value)
        except UnreadableError:
            raise UnreadableError(f"`{where}` is no JSON text of messages") from None
    return check_messages(value, where)


def is_message_list(value: Any) -> bool:
    """Whether it is a list of messages."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def is_text_list(value: Any) -> bool:
    """Whether it is a list of texts."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def column(record: Mapping[str, Any], name: str, size: int) -> list[Any]:
    """A list that runs parallel to others, None for each item where it is absent.

    UnreadableError where it is of another length: nobody knows which items belong together.
    """
    found = record.get(name)
    if found is None:
        return [None] * size
    if not isinstance(found, list):
        raise UnreadableError(f"`{name}` is no list, though it should hold one item for each rollout")
    if len(found) != size:
        raise UnreadableError(f"`{name}` has {len(found)} items for {size} rollouts")
    return found


def answer_rollout(prompt: Messages, value: Any, where: str, i: int, **fields: Any) -> Rollout:
    """The i-th item of parallel lists as a rollout; one that cannot be read keeps its prompt and says why."""
    try:
        return make_rollout(prompt, answer_turns(value, f"{where}[{i}]"), (i,), **fields)
    except UnreadableError as error:
        return Rollout(prompt, (i,), error=str(error), **fields)


_HANDED_IN = (
    *("model_patch", "generated_patch", "git_patch"),
    *("info.submission", "test_result.git_patch", "test_result.model_patch"),
)
"""Places of the work that an agent handed in, a patch. Never `patch`, `test_patch` and `gold_patch`: the data
sets of SWE-bench have the reference solution there, which tells the judge what it is to find out."""
SUBMISSION_FIELDS = frozenset(path.split(".", 1)[0] for path in _HANDED_IN)
"""Fields of which one is there if anything was handed in."""


def with_submission(record: Mapping[str, Any], messages: Messages) -> Messages:
    """A conversation with what was handed in as its last line, unless a message says it already."""
    for path in _HANDED_IN:
        text = lookup(record, path)
        if isinstance(text, str) and text.strip() and not any(text.strip() in text_of(m) for m in messages):
            messages = [*messages, {"role": "submission", "content": text}]
    return messages
