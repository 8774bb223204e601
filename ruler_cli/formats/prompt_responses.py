"""A prompt and a list of its answers a line: verl's `main_generation_server`, best-of-n sets, hand-made ones.

The line is the group. An answer is a text, a message, a list of messages, or an object with `text`.
Scores go into a list `rewards`, item by item. Traps: with `labels` beside them the completions are steps
of one answer (TRL's stepwise supervision), not rollouts; a list of prompts is a columnar line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.interface import Format, Layout
from ruler_cli.formats.parallel import known
from ruler_cli.formats.turns import answered, column, of_messages, prompt_turns
from ruler_cli.records import Path, Rollout

_PROMPTS = ("prompt", "input", "question", "instruction", "problem")
_ANSWERS = ("responses", "completions", "outputs", "generations")


def _name(record: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((name for name in names if name in record), names[0])


def _matches(record: Mapping[str, Any]) -> bool:
    prompt, answers = record.get(_name(record, _PROMPTS)), record.get(_name(record, _ANSWERS))
    if not isinstance(answers, list) or {"labels", "messages"} & record.keys():
        return False
    return (isinstance(prompt, str) or of_messages(prompt)) and all(_is_answer(a) for a in answers)


def _is_answer(value: Any) -> bool:
    if isinstance(value, dict):
        return "role" in value or "text" in value
    return value is None or isinstance(value, str) or of_messages(value)


def _read(record: dict[str, Any]) -> list[Rollout]:
    asked, name = _name(record, _PROMPTS), _name(record, _ANSWERS)
    answers = record.get(name)
    if not isinstance(answers, list):
        raise UnreadableError(f"has no list `{name}`")
    prompt = prompt_turns(record.get(asked), asked)
    rewards = column(record, "rewards", len(answers))
    texts = [a.get("text") if isinstance(a, dict) and "role" not in a else a for a in answers]
    return [answered(prompt, text, name, i, reward=rewards[i]) for i, text in enumerate(texts)]


def _lists(record: Mapping[str, Any], size: int) -> list[Path]:
    return known(record, size, ((_name(record, _ANSWERS),), ("rewards",)), (_name(record, _PROMPTS), "tools"))


GROUP = Format(
    name="prompts with a list of responses",
    family="prompt-responses",
    shape="group",
    tells="`prompt`, `responses`",
    matches=_matches,
    rollouts=_read,
    keys=("group_id", "prompt_id", "example_id", "problem_id", "task_id", "instance_id", "id"),
    layout=Layout(reward=("rewards",), listed=True, lists=_lists),
    rank=0,
)
FORMATS = (GROUP,)
