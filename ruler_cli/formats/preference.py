"""Preference pairs: TRL and Hugging Face (`chosen`, `rejected`), OpenAI's DPO (`preferred_output`).

A line is a group of two, the preferred one first: which is which is the outcome, true or false, and not
shown to the judge. Text or messages, with `prompt` or (TRL's implicit prompt) without. Traps: some sets hold
`prompt` and the whole conversation as well (UltraFeedback binarized), which then says the prompt itself.
There is no room for a score: it stands in `ruler.rollouts` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.interface import Format, Layout, has, lookup
from ruler_cli.formats.parallel import refused
from ruler_cli.formats.turns import answer_turns, of_messages, prompt_turns
from ruler_cli.records import Rollout

_NAMES = ("chosen", "rejected")
_OPENAI = ("preferred_output", "non_preferred_output")


def _read(record: dict[str, Any]) -> list[Rollout]:
    asked, names, tools = record.get("prompt"), _NAMES, record.get("tools")
    if _OPENAI[0] in record:
        asked, names, tools = lookup(record, "input.messages"), _OPENAI, lookup(record, "input.tools")
    if not any(name in record for name in names):
        raise UnreadableError(f"has neither `{names[0]}` nor `{names[1]}`")
    prompt = prompt_turns(asked, "prompt")
    out = []
    for i, name in enumerate(names):
        try:
            answer = answer_turns(record.get(name), name)
            messages = answer if _is_whole(answer) else [*prompt, *answer]
            out.append(Rollout(messages, (i,), tools=tools, outcome=i == 0))
        except UnreadableError as error:
            out.append(Rollout([], (i,), outcome=i == 0, fault=str(error)))
    return out


def _is_whole(answer: Messages) -> bool:
    """Whether a conversation says its own prompt."""
    return bool(answer) and answer[0].get("role") in ("system", "developer", "user")


def _is_pair(record: Mapping[str, Any]) -> bool:
    values = [record.get(name) for name in _NAMES]
    return any(values) and all(v is None or isinstance(v, str | dict) or of_messages(v) for v in values)


PAIR = Format(
    name="preference pairs",
    family="preference",
    shape="group",
    tells="`chosen`, `rejected`",
    matches=lambda record: _is_pair(record) or has("input", *_OPENAI)(record),
    rollouts=_read,
    keys=("prompt_id", "id"),
    layout=Layout(
        reward=None,
        listed=True,
        lists=refused("is a pair, and without one of its two answers it would be none"),
    ),
)
FORMATS = (PAIR,)
