"""Answers to one prompt side by side in a line: preference pairs, arena battles, judges' data sets.

A line is a group of two (or of all that are numbered); the winner's outcome is true, the others' false, and
the judge does not see it. A number is a label only if a data set says what it means, and a draw is no
outcome. docs/formats.md names the data sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count, takewhile
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_text
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.fields import is_message_list, lookup
from ruler_cli.formats.interface import Format, ListLayout, refused_shapes
from ruler_cli.formats.parallel import no_removal
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
_STEMS = (
    "response",
    "output",
    "answer",
    "completion",
    "generation",
    "conversation",
    "human_ref",
)
_LETTERS = (("_a", "_b", "_c"), ("_A", "_B", "_C"))
_NUMBERS = (("_", 0), ("_", 1), ("", 1), (" ", 1))
"""Ends of the names of two answers, with a third that makes them a choice, and of two or more."""
_WHOLE = ("messages", "conversations", "conversation")
_FURTHER_PROMPTS = (
    "input.messages",
    "question.full_text",
    "inputs",
    "context",
    "history",
)
"""Further paths of a pair's prompt: in sets of OpenAI, WebGPT, HelpSteer 3 and SHP."""
_WINNERS = (
    "winner",
    "preference",
    "preferred",
    "label",
    "chosen",
    "human_preference",
    "better",
    "verdict",
)
"""Fields whose text may name the better answer."""
_NOUNS = (
    "model",
    "assistant",
    "response",
    "answer",
    "output",
    "completion",
    "generation",
    "conversation",
)


def _is_bit(value: Any) -> bool:
    return type(value) is int and value in (0, 1)


_LABELS: tuple[
    tuple[str, tuple[str, str], Callable[[Any], bool], Callable[[Any], int | bool]], ...
] = (
    (
        "preference",
        ("output_1", "output_2"),
        lambda v: 1 <= v <= 2 and v != 1.5,
        lambda v: v > 1.5,
    ),
    ("better_response_id", ("response_0", "response_1"), _is_bit, lambda v: v),
    ("safer_response_id", ("response_0", "response_1"), _is_bit, lambda v: v),
    ("preference_strength", ("response_1", "response_2"), bool, lambda v: v > 0),
    ("overall_preference", ("response1", "response2"), bool, lambda v: v > 0),
    ("labels", ("human_ref_A", "human_ref_B"), _is_bit, lambda v: 1 - v),
    ("winner_model_a", ("response_a", "response_b"), lambda v: v == 1, lambda _: 0),
    ("winner_model_b", ("response_a", "response_b"), lambda v: v == 1, lambda _: 1),
)
"""Labels that are numbers: the field, the answers beside it, a test for a preference, and the winner's index.

AlpacaEval, PKU-SafeRLHF (twice), HelpSteer 2 and 3, SHP, and Chatbot Arena's table of 55,000 battles.
"""


def _read(record: dict[str, Any]) -> list[Rollout]:
    names = _names(record)
    if not names:
        raise UnreadableError(
            "has neither `chosen` nor `rejected`, nor other names of answers to one prompt"
        )
    prompt, tools = (
        _prompt(record),
        record.get("tools") or lookup(record, "input.tools"),
    )
    texts = [record[name] for name in names if isinstance(record.get(name), str)]
    dialogues = (
        dialogue_pair(*texts) if names in _PREFERRED and len(texts) == 2 else None
    )
    if dialogues is not None:  # whole dialogues (HH-RLHF), which may hold the prompt
        asked = [str(turn.get("content")).strip() for turn in prompt]
        held = all(
            any(text in turn["content"] for turn in dialogues[0]) for text in asked
        )
        shared = [] if held else prompt
        return [
            make_rollout(
                [*shared, *turns[:-1]], turns[-1:], (i,), tools=tools, outcome=i == 0
            )
            for i, turns in enumerate(dialogues)
        ]
    best, judged = (
        0 if names in _PREFERRED else _best(record, names),
        record.get("turn"),
    )
    rollouts = []
    for i, name in enumerate(names):
        outcome = None if best is None else i == best
        try:
            answer = _answer(record, names, name)
            whole = _is_whole(answer)
            if (
                whole
                and type(judged) is int
                and sum(m.get("role") == "user" for m in answer) > judged
            ):
                outcome = None  # the conversation goes on after the turn that was judged (MT-bench)
            rollouts.append(
                make_rollout(
                    [] if whole else prompt, answer, (i,), tools=tools, outcome=outcome
                )
            )
        except UnreadableError as error:
            rollouts.append(Rollout([], (i,), outcome=outcome, error=str(error)))
    return rollouts


def _names(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that hold the answers of a record; () if there are not two."""
    pair = next(
        (pair for pair in _PREFERRED if any(record.get(name) for name in pair)), ()
    )
    numbered = _numbered(record)
    return pair if pair and (pair[1] in record or not numbered) else numbered


def _numbered(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of answers whose names end with letters or numbers; () if there are not two."""
    for stem in _STEMS:
        for a, b, c in _LETTERS:
            if stem + a in record and stem + b in record and stem + c not in record:
                return (stem + a, stem + b)
        for end, first in _NUMBERS:
            if f"{stem}{end}{first}" in record and f"{stem}{end}{first + 1}" in record:
                return tuple(
                    takewhile(
                        record.__contains__, (f"{stem}{end}{i}" for i in count(first))
                    )
                )
    return ()


def _prompt(record: Mapping[str, Any]) -> Messages:
    """The prompt of all answers, under any of its names, or a conversation that they end."""
    name = next(
        (name for name in (prompt_field(record), *_WHOLE) if name and record.get(name)),
        None,
    )
    if name is not None:
        return task_turns(record, name)
    values = ((path, lookup(record, path)) for path in _FURTHER_PROMPTS)
    return next(
        (
            prompt_turns(value, path)
            for path, value in values
            if value and is_prompt(value)
        ),
        [],
    )


def _answer(record: Mapping[str, Any], names: tuple[str, ...], name: str) -> Messages:
    if "winner_model_a" in record:
        return _battle(record, name)
    value, prompt = record.get(name), record.get(prompt_field(record) or "")
    # beside a prompt in plain text JSON is an agent's own text; alone it would be no pair
    plain = isinstance(prompt, str) and bool(prompt) and json_messages(prompt) is None
    if (
        isinstance(value, str)
        and not plain
        and all(json_messages(str(record.get(n))) for n in names)
    ):
        return chat_turns(value, name)
    return response_turns(value, name)


def _battle(record: Mapping[str, Any], name: str) -> Messages:
    """A conversation of the Arena's table, in which prompt and answers are lists of texts, as JSON text."""
    lists: list[list[Any]] = []
    for field in ("prompt", name):
        value = record.get(field)
        value = parse_text(value) if isinstance(value, str) else value
        if not isinstance(value, list):
            raise UnreadableError(f"`{field}` is no list of texts")
        lists.append(
            [
                {"role": "user" if field == "prompt" else "assistant", "content": v}
                for v in value
            ]
        )
    if len(lists[0]) != len(lists[1]):
        raise UnreadableError(
            f"has {len(lists[0])} turns in `prompt` and {len(lists[1])} in `{name}`"
        )
    return [turn for turns in zip(*lists, strict=True) for turn in turns]


def _is_whole(answer: Any) -> bool:
    """Tell if an answer is a conversation that begins with its own prompt."""
    return is_message_list(answer) and answer[0].get("role") in (
        "system",
        "developer",
        "user",
    )


def _best(record: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The index of the answer that won; None for a draw, and for a label whose meaning is not known."""
    for field, beside, prefers, winner in _LABELS:
        value = record.get(field)
        if names == beside and isinstance(value, int | float) and prefers(value):
            return int(winner(value))
    for field in _WINNERS:
        value = record.get(field)
        if isinstance(value, str) and len(value) < 200:
            named = [
                i for i, name in enumerate(names) if _is_named(value, name, record)
            ]
            if len(named) == 1:
                return named[0]
    return None


def _is_named(label: str, name: str, record: Mapping[str, Any]) -> bool:
    """Tell if a text is the name of an answer (`response_A`, `model_a`, `A`, `A>B`), or of its model."""
    end = name[-1].casefold()
    if label == record.get(f"model_{end}"):
        return True
    text = "".join(c for c in label.casefold() if c.isalnum() or c == ">")
    first, _, other = text.partition(">")
    if other and end.isalpha():
        return first == end and other.strip(">") in {"a", "b"} - {end}
    letter = {end} if end.isalpha() else set()
    return text in {noun + end for noun in _NOUNS} | letter


def _matches(record: Mapping[str, Any]) -> bool:
    names = _names(record)
    values = [record.get(name) for name in names]
    known = all(
        v is None or isinstance(v, str | dict) or is_message_list(v) for v in values
    )
    if not any(values) or not known:
        return False
    both = names in _PREFERRED and all(name in record for name in names)
    return both or _has_prompt(record) or all(map(_is_whole, values))


def _has_prompt(record: Mapping[str, Any]) -> bool:
    """Tell if there is a prompt; one that cannot be read is an error of its record."""
    try:
        return bool(_prompt(record))
    except UnreadableError:
        return True


FORMATS = (
    Format(
        "preference pairs", "preference",
        "`chosen`, `rejected`; or two answers beside a prompt: `response_a`, `response_b`", _matches, _read,
        ("prompt_id", "question_id", "id"),
        ListLayout(
            reward=None,
            lists=no_removal("is a pair, and without one of its two answers it would be none"),
        ),
        shape="group",
    ),
)  # fmt: skip
REFUSALS = refused_shapes(
    (lambda record: bool(_numbered(record)) and not _has_prompt(record),
     "holds answers side by side and no prompt, without which they cannot be judged; write the prompt "
     "beside them as `prompt`"),
)  # fmt: skip
