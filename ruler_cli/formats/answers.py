"""Lines with a prompt and its answers, or a conversation: data sets, best-of-n sets, preference pairs.

Other records have the same few fields. With `labels` beside them completions are steps of one answer (TRL's stepwise
supervision); a list of prompts is a columnar line; `choices` that are not objects are those of a question; Harbor's
export has `conversations` too, and `task`; a preference pair has them, and `chosen`. `answer` is mostly the reference
answer of a data set: it is an agent's only beside a `question` and what was retrieved for it, if no other field may be
an answer. A data set's own `output` may stand beside a model's answer, whose names therefore come first.

Answers side by side (preference pairs, arena battles) are a group of two, or of all that are numbered; the winner's
outcome is true, the others' false, and the judge does not see it. A number is a label only if a data set says what it
means, and a draw is not an outcome.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product, takewhile
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
    lookup,
    words,
)
from ruler_cli.formats.chat import (
    answer_list,
    answer_turns,
    is_answer,
    make_rollout,
    prompt_at,
    prompt_field,
    read_conversation,
    read_or_error,
    task_turns,
    tools_of,
    with_calls,
)
from ruler_cli.formats.names import (
    ANSWER_LISTS,
    ANSWERS,
    FURTHER_PROMPTS,
    PROMPTS,
)
from ruler_cli.formats.paths import Rollouts, is_text_list
from ruler_cli.messages.content import (
    Messages,
    is_agent,
    new_turn,
    text_of,
)
from ruler_cli.messages.conversations import (
    chat_turns,
    dialogue,
    dialogue_pair,
    json_messages,
    named_turns,
)
from ruler_cli.types import Rollout


def _answers(record: JsonObject) -> Any:
    """Return the list of the answers to a prompt; None if there is none."""
    if answers := answer_list(record):
        return answers
    for name in ANSWER_LISTS:
        if name != "choices" and is_list(record.get(name)):
            return record[name]
    lists = map(record.get, ANSWERS)
    return first(filter(is_text_list, lists))


def is_group(record: JsonObject) -> bool:
    """Return whether a list of answers stands beside a prompt, or messages."""
    if "messages" in record:
        return bool(answer_list(record))
    answers = _answers(record)
    if prompt_field(record) is None or answers is None:
        return False
    return all(map(is_answer, answers))


def read_group(record: JsonObject) -> Rollouts:
    """Read the answers to one prompt; of a record that is known to be a group it may be only one."""
    answers = _answers(record)
    if answers is None:
        answers = answer_list(record, 1)
        if not answers:
            raise UnreadableError(
                f"has no list of answers (`{'`, `'.join(ANSWER_LISTS)}`)"
            )
    stated = record.get("messages")
    if stated is None:
        prompt = task_turns(record, _prompt_name(record))
    else:
        prompt = chat_turns(stated, "messages")

    def read(answer: Any) -> Rollout:
        return make_rollout(prompt, answer_turns(answer, "answer"))

    return [
        read_or_error((i,), read, answer) for i, answer in enumerate(answers)
    ]


def _prompt_name(record: JsonObject) -> str:
    """Return the field with the prompt; UnreadableError if there is none."""
    name = prompt_field(record)
    if name is None:
        raise UnreadableError(f"has no prompt (`{'`, `'.join(PROMPTS)}`)")
    return name


def _answer_field(record: JsonObject) -> str | None:
    """Return the field with the answer to a prompt; None if there is none."""
    present = filter(record.__contains__, ANSWERS)
    names = [name for name in present if is_answer(record[name])]
    asked = not names and prompt_field(record) == "question"
    retrieved = is_list(first_of(record, _RETRIEVED))
    if asked and retrieved and is_text(record.get("answer")):
        return "answer"
    stated = [name for name in names if record[name] is not None]
    return first([*stated, *names])


def is_pair(record: JsonObject) -> bool:
    """Return whether a record has a prompt and one answer, and is not a whole conversation."""
    if prompt_field(record) is None or _answer_field(record) is None:
        return False
    return not answer_list(record)


def is_finished(record: JsonObject) -> bool:
    """Return whether an input without an answer is a conversation that ends with a turn of the agent."""
    return not is_pair(record) and is_agent(record["input"][-1])


_RETRIEVED = words(
    "context contexts retrieved_contexts retrieval_context documents"
)
"""Fields with a list of texts retrieved to answer a question: of promptflow, Ragas, DeepEval.

They are shown, but are not part of the key: another system retrieves other texts for the same question.
"""


def read_pair(record: JsonObject) -> Rollout:
    """Read a prompt and its answer."""
    prompt = task_turns(record, _prompt_name(record))
    name = _answer_field(record)
    if name is None:
        raise UnreadableError(f"has no answer (`{'`, `'.join(ANSWERS)}`)")
    answer = with_calls(record, answer_turns(record[name], name))
    label = record.get("label")
    rollout = make_rollout(
        prompt,
        answer,
        tools=tools_of(record),
        outcome=label if isinstance(label, bool) else None,
    )
    retrieved = first(filter(is_list, map(record.get, _RETRIEVED)))
    if not retrieved:
        return rollout
    turns = [*prompt, new_turn("context", retrieved), *answer]
    return replace(rollout, messages=turns, prompt_length=len(prompt))


_TURN_LISTS = words("conversations conversation dialog dialogue turns items")
"""Fields with a list of turns."""


def turns_field(record: JsonObject) -> str | None:
    """Return the field that holds the turns, else a field that is a dialogue in one text; None without either."""
    for name in _TURN_LISTS:
        if _are_turns(record.get(name)):
            return name
    names = ("text", *_TURN_LISTS)
    return first(name for name in names if dialogue(record.get(name)))


def _are_turns(value: Any) -> bool:
    first_turn = first(items(value))
    if is_object(first_turn) and {"role", "content"} <= first_turn.keys():
        return True
    return bool(json_messages(value) or named_turns(items(value)))


def read_turns(record: JsonObject) -> Rollout:
    """Read a conversation, and the answer beside it."""
    name = turns_field(record)
    if name is None:
        raise UnreadableError(f"has no turns in `{'`, `'.join(_TURN_LISTS)}`")
    turns = dialogue(record[name]) or chat_turns(record[name], name)
    return read_conversation(record, turns)


_PREFERRED = [
    words(pair)
    for pair in (
        "chosen rejected",
        "preferred_output non_preferred_output",
        "chosen_response rejected_response",
        "response_chosen response_rejected",
        "chosen_messages rejected_messages",
    )
]
"""Names of the preferred answer and of the other one."""
_STEMS = words(
    "response output answer completion generation conversation human_ref"
)
_MARKS = ("_", "", " ")
_ENDS = ("abc", "ABC", range(1000), range(1, 1000))
"""Stems, marks behind them and ends of the names of answers; with all letters they are the options of a question."""
_WHOLE = words("messages conversations conversation")
_WINNERS = words(
    "winner preference preferred label chosen human_preference better verdict",
)
"""Fields whose text may name the better answer."""
_NOUNS = words(
    "model assistant response answer output completion generation conversation"
)
_LABELS = """
preference output_1 output_2 1.5 0.5
better_response_id response_0 response_1 0.5 0.5
safer_response_id response_0 response_1 0.5 0.5
preference_strength response_1 response_2 0 3
overall_preference response1 response2 0 3
labels human_ref_B human_ref_A 0.5 0.5
winner_model_a response_b response_a 0 1
winner_model_b response_a response_b 0 1
""".strip().splitlines()
"""Labels that are numbers: the field, the answers beside it, the number of a draw, and the greatest distance from it.

A smaller number means that the first answer won. AlpacaEval, PKU-SafeRLHF (twice), HelpSteer 2 and 3, SHP, and
Chatbot Arena's table of 55,000 battles.
"""


def read_preference(record: JsonObject) -> Rollouts:
    """Read the answers side by side."""
    names = _names(record)
    if not names:
        raise UnreadableError(
            "has neither `chosen` and `rejected` nor another pair of answers to one prompt"
        )
    sides: list[Any] = [*map(record.get, names)]
    prompt = _prompt(record)
    dialogues = []
    # two whole dialogues (HH-RLHF) hold the prompt
    whole = names in _PREFERRED and all(map(is_text, sides))
    if whole and all(text_of(turn) in sides[0] for turn in prompt):
        dialogues = dialogue_pair(sides)
    best = names[0] if names in _PREFERRED else _best(record, names)

    def read(i: int, name: str) -> Rollout:
        outcome = None if best is None else name == best
        if dialogues:
            *shown, last = dialogues[i]
            return make_rollout(shown, [last], outcome=outcome)
        answer = answer_turns(sides[i], name)
        shown = [] if _is_whole(answer) else prompt
        return make_rollout(shown, answer, outcome=outcome)

    return [
        read_or_error(
            (i,),
            read,
            i,
            name,
        )
        for i, name in enumerate(names)
    ]


def _names(record: JsonObject) -> Names:
    """The fields that hold the answers of a record; () if there are not two."""
    for pair in _PREFERRED:
        if record.keys() >= {*pair} and any(map(record.get, pair)):
            return pair
    for stem, mark, ends in product(_STEMS, _MARKS, _ENDS):
        names = (f"{stem}{mark}{end}" for end in ends)
        present = tuple(takewhile(record.__contains__, names))
        if 1 < len(present) < len(ends):
            return present
    return ()


def _prompt(record: JsonObject) -> Messages:
    """The prompt of all answers, under any of its names, or a conversation that they end."""
    names = (prompt_field(record) or "", *_WHOLE)
    name = first(filter(record.get, names))
    return (
        task_turns(record, name) if name else prompt_at(record, FURTHER_PROMPTS)
    )


def _is_whole(answer: Any) -> bool:
    """Return whether an answer is a conversation that begins with its own prompt."""
    return lookup(answer, "0.role") in ("system", "developer", "user")


def _best(
    record: JsonObject,
    names: Names,
) -> str | None:
    """The name of the answer that won; None for a draw, and for a label whose meaning is not known."""
    for label in _LABELS:
        field, left, right, *figures = label.split()
        draw, most = map(float, figures)
        value: Any = record.get(field)
        if {left, right} != {*names} or not isinstance(value, int | float):
            continue
        if 0 < abs(value - draw) <= most:
            return right if value > draw else left
    for text in filter(is_text, map(record.get, _WINNERS)):
        named = [name for name in names if _is_named(text, name, record)]
        if len(named) == 1:
            return named[0]
    return None


def _is_named(
    label: str,
    name: str,
    record: JsonObject,
) -> bool:
    """Return whether a text is the name of an answer (`response_A`, `model_a`, `A`, `A>B`), or of its model."""
    end = name[-1].casefold()
    if label == record.get(f"model_{end}"):
        return True
    winner, *_ = label.casefold().split(">")
    text = "".join(filter(str.isalnum, winner))
    if text == end:
        return end.isalpha()
    return text in [noun + end for noun in _NOUNS]


def is_preference(record: JsonObject) -> bool:
    """Return whether a record holds answers side by side, and a prompt."""
    names = _names(record)
    values = [*map(record.get, names)]
    if not any(values):
        return False
    for value in values:
        is_known = isinstance(value, str | dict | None)
        if not is_known and not is_message_list(value):
            return False
    whole = names in _PREFERRED or all(map(_is_whole, values))
    return whole or bool(_prompt(record))
