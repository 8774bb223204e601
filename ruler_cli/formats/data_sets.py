"""A conversation a line, as data sets and hand-made dumps write it: a prompt and one answer, or turns.

A prompt and one answer: TRL's prompt-completion data sets (`label` of the unpaired ones is an outcome),
OpenRLHF's `batch_inference` (`input`, `output`, `reward`; removed in 2026), Agent-Lightning (`prompt`,
`response`), NeMo-Skills (`problem`, `generation`; one file a seed: give them together), Alpaca and Dolly
(`instruction` with what it is about below it), ms-swift and LLaMA-Factory (`query`, `response`, with `system`
and `history`). Text or messages. Without an id key equal prompts are a group, wherever they stand: OpenRLHF
writes all prompts once, then again. Traps:
- `answer` is mostly the right answer of a data set; it is an agent's only beside a `question`, and where
  nothing else may be one.
- A `context` beside a question is a part of what was asked, if it is a text; a list was retrieved.
- A data set's own `output` may stand beside what a model said: names for the latter come first.

ShareGPT and its kin: a list of turns that is not called `messages`, `conversations` of `from` and `value`
(ShareGPT, Vicuna, LLaMA-Factory, Axolotl, LLaVA), or of `role` and `content`; other names are rows of the
tables here and in `transcript`. With `system` and `tools` (JSON text) beside it. A `text` that is a whole
dialogue (OpenAssistant Guanaco) is read as its turns. Traps: `id` mostly numbers the records, and is a key
only where `--group-by id` says so; Harbor's export has `conversations` too, and `task`; a preference pair has
them, and `chosen`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.asked import PROMPTS, asked_turns, prompt_name, retrieved, with_system
from ruler_cli.formats.chat import Messages, tools_of
from ruler_cli.formats.interface import ID_KEYS, Format
from ruler_cli.formats.transcript import dialogue, json_messages, named_turns
from ruler_cli.formats.turns import (
    ANSWERS,
    chat_turns,
    is_answer,
    rollout,
    several,
    told_turns,
    with_answer,
)
from ruler_cli.records import Rollout

_WHOLE = ("messages", "conversations", "conversation", "trajectories")
"""Fields of other shapes, which hold the conversation themselves."""
_LISTS = ("conversations", "conversation", "dialog", "dialogue", "turns", "items")
"""Fields that hold turns."""


def _pair(record: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The names of prompt and answer in a record; None for one that is not there."""
    asked = prompt_name(record)
    there = [name for name in ANSWERS if name in record and is_answer(record[name])]
    said = next((name for name in there if record[name] is not None), there[0] if there else None)
    if said is None and asked == "question" and isinstance(record.get("answer"), str):
        said = "answer"
    return asked, said


def _is_pair(record: Mapping[str, Any]) -> bool:
    return None not in _pair(record) and not any(name in record for name in _WHOLE) and not several(record)


def _read_pair(record: dict[str, Any], *, as_json: bool = False) -> list[Rollout]:
    asked, said = _pair(record)
    if asked is None:
        raise UnreadableError(f"has no prompt (`{'`, `'.join(PROMPTS)}`)")
    if said is None:
        raise UnreadableError(f"has no answer (`{'`, `'.join(ANSWERS)}`)")
    answer = told_turns(record.get(said), said, as_json=as_json)
    label = record.get("label")
    outcome = label if isinstance(label, bool) else None
    prompt, found = asked_turns(record, asked), retrieved(record)
    one = rollout(
        prompt, [*found, *answer], tools=tools_of(record), reward=record.get("reward"), outcome=outcome
    )
    return [replace(one, asked=len(prompt)) if found else one]


def _fit(records: Sequence[Mapping[str, Any]]) -> Format:
    """With answers that are JSON text of messages where all of them are: one alone may be an agent's text."""
    found = [record.get(said) for record in records if (said := _pair(record)[1]) is not None]
    texts = [text for text in found if isinstance(text, str)]
    whole = bool(texts) and all(map(json_messages, texts))
    return replace(PAIR, rollouts=partial(_read_pair, as_json=True)) if whole else PAIR


PAIR = Format(
    "prompts with a completion", "prompt-completion", "`prompt`, `completion` or other names of both",
    _is_pair, _read_pair, ID_KEYS, rank=0, fit=_fit,
)  # fmt: skip


def _name(record: Mapping[str, Any]) -> str | None:
    """The field that holds the turns, else one that is a dialogue in one text."""
    turns = (name for name in _LISTS if _are_turns(record.get(name)))
    texts = (name for name in ("text", *_LISTS) if _dialogue(record.get(name)) is not None)
    return next(turns, None) or next(texts, None)


def _are_turns(value: Any) -> bool:
    if isinstance(value, str):
        return json_messages(value) is not None
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return False
    return {"role", "content"} <= value[0].keys() or named_turns(value) is not None


def _dialogue(value: Any) -> Messages | None:
    return dialogue(value) if isinstance(value, str) and json_messages(value) is None else None


def _read(record: dict[str, Any]) -> list[Rollout]:
    name = _name(record)
    if name is None:
        raise UnreadableError(f"has no turns in `{'`, `'.join(_LISTS)}`")
    messages = with_answer(record, _dialogue(record[name]) or chat_turns(record[name], name))
    messages = with_system(record, messages)
    return [Rollout(messages, tools=tools_of(record) or None, reward=record.get("reward"))]


FORMATS = (
    PAIR,
    Format(
        "ShareGPT conversations", "sharegpt", "`conversations`",
        lambda record: not {"messages", "trajectories"} & record.keys() and _name(record) is not None,
        _read, ID_KEYS, rank=0,
    ),
)  # fmt: skip
