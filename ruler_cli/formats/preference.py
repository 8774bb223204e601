"""Answers to one prompt side by side in a line: preference pairs, arena battles, judges' data sets.

A line is a group of two (or of all that are numbered); the winner's outcome is true, the others' false, and
the judge does not see it. A number is a label only if a data set says what it means, and a draw is no
outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, takewhile
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, new_turn
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    Rollouts,
    first,
    is_message_list,
    items,
    json_value,
    lookup,
    words,
)
from ruler_cli.formats.prompts import is_prompt, prompt_field, task_turns
from ruler_cli.formats.turns import (
    chat_turns,
    dialogue_pair,
    json_messages,
    make_rollout,
    prompt_turns,
    response_turns,
)
from ruler_cli.types import Rollout

_PREFERRED = (
    ("chosen", "rejected"),
    ("preferred_output", "non_preferred_output"),
    ("chosen_response", "rejected_response"),
    ("response_chosen", "response_rejected"),
    ("chosen_messages", "rejected_messages"),
)
"""Names of the preferred answer and of the other one."""
_STEMS = words("response output answer completion generation conversation human_ref")
_LETTERS = ("_a", "_b", "_c"), ("_A", "_B", "_C")
_NUMBERS = (("_", 0), ("_", 1), ("", 1), (" ", 1))
"""Ends of the names of two answers, with a third that makes them a choice, and of two or more."""
_WHOLE = words("messages conversations conversation")
_FURTHER_PROMPTS = words(
    "input.messages question.full_text inputs context history",
)
"""Further paths of a pair's prompt: in sets of OpenAI, WebGPT, HelpSteer 3 and SHP."""
_WINNERS = words(
    "winner preference preferred label chosen human_preference better verdict",
)
"""Fields whose text may name the better answer."""
_NOUNS = words(
    "model assistant response answer output completion generation conversation"
)


def _is_bit(value: Any) -> bool:
    return type(value) is int and value in (0, 1)


_Label = tuple[str, str, str, Callable[[Any], bool], Callable[[Any], int]]
_LABELS: tuple[_Label, ...] = (
    ("preference", "output_1", "output_2", lambda v: 1 <= v <= 2 and v != 1.5, lambda v: v > 1.5),
    ("better_response_id", "response_0", "response_1", _is_bit, int),
    ("safer_response_id", "response_0", "response_1", _is_bit, int),
    ("preference_strength", "response_1", "response_2", bool, lambda v: v > 0),
    ("overall_preference", "response1", "response2", bool, lambda v: v > 0),
    ("labels", "human_ref_A", "human_ref_B", _is_bit, lambda v: 1 - v),
    ("winner_model_a", "response_a", "response_b", lambda v: v == 1, lambda _: 0),
    ("winner_model_b", "response_a", "response_b", lambda v: v == 1, lambda _: 1),
)  # fmt: skip
"""Labels that are numbers: the field, the answers beside it, a test for a preference, and the winner's index.

AlpacaEval, PKU-SafeRLHF (twice), HelpSteer 2 and 3, SHP, and Chatbot Arena's table of 55,000 battles.
"""


def read(record: JsonObject) -> Rollouts:
    """Read the answers side by side."""
    names = _names(record)
    if not names:
        raise UnreadableError(
            "has neither `chosen` nor `rejected`, nor other names of answers to one prompt"
        )
    prompt = _prompt(record)
    tools = record.get("tools") or lookup(record, "input.tools")
    if dialogues := _dialogues(record, names):
        # whole dialogues (HH-RLHF), which may hold the prompt
        asked = [str(turn.get("content")).strip() for turn in prompt]
        said = [turn["content"] for turn in dialogues[0]]
        held = all(any(text in content for content in said) for text in asked)
        shared = [] if held else prompt
        return [
            make_rollout([*shared, *before], [last], (i,), tools=tools, outcome=not i)
            for i, (*before, last) in enumerate(dialogues)
        ]
    best = 0 if names in _PREFERRED else _best(record, names)
    rollouts = []
    for i, name in enumerate(names):
        outcome = None if best is None else i == best
        try:
            answer = _answer(record, names, name)
        except UnreadableError as error:
            rollouts.append(Rollout([], (i,), outcome=outcome, error=str(error)))
            continue
        whole = _is_whole(answer)
        if whole and _goes_on(answer, record.get("turn")):
            outcome = None
        shown = [] if whole else prompt
        rollouts.append(make_rollout(shown, answer, (i,), tools=tools, outcome=outcome))
    return rollouts


def _dialogues(record: JsonObject, names: Names) -> Any:
    """The two dialogues of a pair, split into turns; None if they are none."""
    texts = [record.get(name) for name in names]
    both = names in _PREFERRED and all(isinstance(text, str) for text in texts)
    return dialogue_pair(*map(str, texts)) if both else None


def _goes_on(answer: Messages, judged: Any) -> bool:
    """Tell if a conversation goes on after the turn that was judged (MT-bench)."""
    asked = sum(message.get("role") == "user" for message in answer)
    return type(judged) is int and asked > judged


def _names(record: JsonObject) -> Names:
    """The fields that hold the answers of a record; () if there are not two."""
    pair = first(pair for pair in _PREFERRED if any(map(record.get, pair))) or ()
    several = numbered(record)
    return pair if pair and (pair[1] in record or not several) else several


def numbered(record: JsonObject) -> Names:
    """The fields of answers whose names end with letters or numbers; () if there are not two."""
    for stem in _STEMS:
        for ends in _LETTERS:
            a, b, c = (stem + end for end in ends)
            if a in record and b in record and c not in record:
                return a, b
        for end, begin in _NUMBERS:
            names = (f"{stem}{end}{i}" for i in count(begin))
            found = tuple(takewhile(record.__contains__, names))
            if len(found) > 1:
                return found
    return ()


def _prompt(record: JsonObject) -> Messages:
    """The prompt of all answers, under any of its names, or a conversation that they end."""
    for name in (prompt_field(record), *_WHOLE):
        if name and record.get(name):
            return task_turns(record, name)
    for path in _FURTHER_PROMPTS:
        value = lookup(record, path)
        if value and is_prompt(value):
            return prompt_turns(value, path)
    return []


def _answer(record: JsonObject, names: Names, name: str) -> Messages:
    if "winner_model_a" in record:
        return _battle(record, name)
    value, prompt = record.get(name), record.get(prompt_field(record) or "")
    # beside a prompt in plain text JSON is an agent's own text; alone it would be no pair
    plain = isinstance(prompt, str) and bool(prompt) and json_messages(prompt) is None
    texts = [value, *map(record.get, names)]
    if not plain and all(isinstance(t, str) and json_messages(t) for t in texts):
        return chat_turns(value, name)
    return response_turns(value, name)


def _battle(record: JsonObject, name: str) -> Messages:
    """A conversation of the Arena's table, in which prompt and answers are lists of texts, as JSON text."""
    asked, answered = (items(json_value(record.get(n))) for n in ("prompt", name))
    if not asked or len(asked) != len(answered):
        raise UnreadableError(
            f"has {len(asked)} turns in `prompt` and {len(answered)} in `{name}`"
        )
    return [
        new_turn(role, text)
        for pair in zip(asked, answered, strict=True)
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]


def _is_whole(answer: Any) -> bool:
    """Tell if an answer is a conversation that begins with its own prompt."""
    first = answer[0].get("role") if is_message_list(answer) else None
    return first in ("system", "developer", "user")


def _best(record: JsonObject, names: Names) -> int | None:
    """The index of the answer that won; None for a draw, and for a label whose meaning is not known."""
    for field, one, other, prefers, winner in _LABELS:
        value = record.get(field)
        known = names == (one, other) and isinstance(value, int | float)
        if known and prefers(value):
            return int(winner(value))
    for field in _WINNERS:
        value = record.get(field)
        if isinstance(value, str) and len(value) < 200:
            named = [i for i, n in enumerate(names) if _is_named(value, n, record)]
            if len(named) == 1:
                return named[0]
    return None


def _is_named(label: str, name: str, record: JsonObject) -> bool:
    """Tell if a text is the name of an answer (`response_A`, `model_a`, `A`, `A>B`), or of its model."""
    end = name[-1].casefold()
    if label == record.get(f"model_{end}"):
        return True
    text = "".join(c for c in label.casefold() if c.isalnum() or c == ">")
    first, _, other = text.partition(">")
    if other and end.isalpha():
        return first == end and other.strip(">") in {"a", "b"} - {end}
    return text in [noun + end for noun in _NOUNS] or (text == end and end.isalpha())


def matches(record: JsonObject) -> bool:
    """Tell if a record holds answers side by side, and a prompt."""
    names = _names(record)
    values = [record.get(name) for name in names]
    known = all(
        v is None or isinstance(v, str | dict) or is_message_list(v) for v in values
    )
    if not any(values) or not known:
        return False
    both = names in _PREFERRED and all(name in record for name in names)
    return both or has_prompt(record) or all(map(_is_whole, values))


def has_prompt(record: JsonObject) -> bool:
    """Tell if there is a prompt; one that cannot be read is an error of its record."""
    try:
        return bool(_prompt(record))
    except UnreadableError:
        return True
