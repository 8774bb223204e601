"""A prompt and one answer a line: what many write, and frameworks that have no format of their own here.

TRL's prompt-completion data sets (`label` of the unpaired ones is an outcome), OpenRLHF's
`batch_inference` (`input`, `output`, `reward`; removed in 2026), Agent-Lightning (`prompt`, `response`),
NeMo-Skills (`problem`, `generation`; one file a seed: give them together). Text or messages. Without an
id key equal prompts are a group, wherever they stand: OpenRLHF writes all prompts once, then again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.formats.chat import tools_of
from ruler_cli.formats.interface import ID_KEYS, Format
from ruler_cli.formats.turns import answer_turns, of_messages, prompt_turns
from ruler_cli.records import Rollout

_PAIRS = (("prompt", "completion"), ("prompt", "response"), ("input", "output"), ("problem", "generation"))


def _pair(record: Mapping[str, Any]) -> tuple[str, str]:
    """The names of prompt and answer in a record; those of the first kind where none is there."""
    return next((pair for pair in _PAIRS if pair[0] in record and pair[1] in record), _PAIRS[0])


def _matches(record: Mapping[str, Any]) -> bool:
    asked, answered = _pair(record)
    if "messages" in record or answered not in record:
        return False
    prompt, answer = record.get(asked), record[answered]
    said = answer is None or isinstance(answer, str) or of_messages(answer)
    return said and (isinstance(prompt, str) or of_messages(prompt))


def _read(record: dict[str, Any]) -> list[Rollout]:
    asked, answered = _pair(record)
    answer = answer_turns(record.get(answered), answered)
    messages = [*prompt_turns(record.get(asked), asked), *answer]
    label = record.get("label")
    outcome = label if isinstance(label, bool) else None
    return [Rollout(messages, tools=tools_of(record), reward=record.get("reward"), outcome=outcome)]


TRAJECTORY = Format(
    name="prompts with a completion",
    family="prompt-completion",
    shape="trajectory",
    tells="`prompt`, `completion`",
    matches=_matches,
    rollouts=_read,
    keys=ID_KEYS,
    rank=0,
)
FORMATS = (TRAJECTORY,)
