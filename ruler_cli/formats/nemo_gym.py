"""NeMo-Gym: `rollouts.jsonl` of `gym eval run`, one rollout a line, as OpenAI Responses items.

Written by `nemo_gym/rollout_collection.py` `RolloutCollectionHelper.run_from_config` in the order in which
rollouts finish: the rollouts of a task lie apart. Traps:
- `response.output` holds the whole rollout, results of tools too; `input` is a list of items or a text.
- `_ng_task_index` begins anew in each environment, so the group is it and `agent_ref.name`; older files have
  neither: there an equal `responses_create_params.input` is a group.
- `input` may be empty: then the task stands in `metadata` beside it (`anyswe_agent`), or the output begins
  with it (`gdpval`; `aviary`, whose output is a list of lists, each all that was said up to a step).
- What a coding agent handed in stands beside the response (`model_patch`).
- Rows of the failures file (`_ng_failure_class`) were answered; their reward is none, as the verifier failed.
- The materialized inputs, without a `response`, are refused.

Recordings of a conversation as it grows: each begins with the one before, and the longest says it all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, first_turn, tools_of
from ruler_cli.formats.interface import Format, lookup
from ruler_cli.formats.reader import as_text, hashed
from ruler_cli.formats.submission import with_submission
from ruler_cli.formats.turns import prompt_turns, rollout
from ruler_cli.records import Rollout

_INDEXES = ("_ng_task_index", "task_idx")
_TASKS = ("problem_statement", "question", "prompt", "instruction", "problem", "task")


def _is_rollout(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("responses_create_params"), dict) and "response" in record


def _key(record: Mapping[str, Any]) -> str | None:
    index = next((record[name] for name in _INDEXES if record.get(name) is not None), None)
    agent = lookup(record, "agent_ref.name")
    if index is not None:
        return as_text(index if agent is None else [agent, index])
    asked = lookup(record, "responses_create_params.input") or _task(record) or _opening(record)
    return hashed("input", [_instructions(record), asked]) if asked else None


def _task(record: Mapping[str, Any]) -> str | None:
    """The task where the input is empty; never `instance_dict` beside it, which holds the solution too."""
    told = lookup(record, "responses_create_params.metadata")
    found = (told.get(name) for name in _TASKS) if isinstance(told, dict) else ()
    return next((text for text in found if isinstance(text, str) and text.strip()), None)


def _opening(record: Mapping[str, Any]) -> Messages:
    """The part of the output before the agent's first turn."""
    said = _parts(lookup(record, "response.output"))[-1]
    return said[: first_turn(said)]


def _parts(output: Any) -> list[Messages]:
    """The items of an output; of a list of lists, each is what the agent was shown at a step and answered."""
    if isinstance(output, list) and output and all(isinstance(item, list) for item in output):
        return without_earlier([check_messages(item, "response.output") for item in output])
    return [check_messages(output, "response.output")]


def _instructions(record: Mapping[str, Any]) -> Any:
    return lookup(record, "responses_create_params.instructions")


def _asked(record: Mapping[str, Any]) -> Messages:
    told = _instructions(record)
    system = [{"role": "system", "content": told}] if isinstance(told, str) and told else []
    asked = lookup(record, "responses_create_params.input")
    if not asked and not _opening(record):
        asked = _task(record)
    return [*system, *prompt_turns(asked, "input")]


def _read(record: dict[str, Any]) -> list[Rollout]:
    output = lookup(record, "response.output")
    if not output:
        raise UnreadableError("has no items in `response.output`: the agent failed before it answered")
    *earlier, last = _parts(output)
    said = with_submission(record, last)
    tools = tools_of({"tools": lookup(record, "responses_create_params.tools")})
    reward = None if record.get("_ng_failure_class") is not None else record.get("reward")
    return [rollout(_asked(record), said, histories=tuple(earlier), tools=tools, reward=reward)]


ROLLOUT = Format(
    name="NeMo-Gym rollouts",
    family="nemo-gym",
    shape="trajectory",
    tells="`responses_create_params`, `response`",
    matches=_is_rollout,
    rollouts=_read,
    keys=("_ng_task_index",),
    key_of=_key,
    key_told="agent_ref.name + _ng_task_index, or hash of responses_create_params.input",
)
FORMATS = (ROLLOUT,)


def without_earlier(conversations: Sequence[Messages]) -> list[Messages]:
    """The conversations, in their order, without those with which another begins; of equal ones the last.

    What a later one does not continue stays: a context that was compacted, another attempt.
    """
    return [
        one
        for i, one in enumerate(conversations)
        if not any(
            other[: len(one)] == one and (len(other) > len(one) or j > i)
            for j, other in enumerate(conversations)
            if j != i
        )
    ]
