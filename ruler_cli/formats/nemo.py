"""NVIDIA's NeMo-Gym and NeMo-RL, one rollout a line.

NeMo-Gym: `rollouts.jsonl` of `gym eval run`, as OpenAI Responses items (`nemo_gym/rollout_collection.py`
`RolloutCollectionHelper.run_from_config`), in the order in which rollouts finish. Traps:
- `response.output` holds the whole rollout, results of tools too; `input` is a list of items or a text.
- `_ng_task_index` begins anew in each environment, so the group is it and `agent_ref.name`; older files have
  neither: there an equal `responses_create_params.input` is a group.
- `input` may be empty: then the task stands in `metadata` beside it (`anyswe_agent`), or the output begins
  with it (`gdpval`; `aviary`, whose output is a list of lists, each all that was said up to a step).
- What a coding agent handed in stands beside the response (`model_patch`).
- Rows of the failures file (`_ng_failure_class`) were answered; their reward is none, as the verifier failed.
- The materialized inputs, without a `response`, are refused.

NeMo-RL: `train_data_step{N}.jsonl` and `val_data_step{N}.jsonl` of GRPO (`nemo_rl/utils/logger.py`
`log_batched_dict_as_jsonl`). Traps:
- Every value is wrapped in a list of one: `{"content": [[…]], "rewards": [1.0]}`, and so is ruler's score.
- In training `content[0]` holds texts without roles: the first is the prompt, what follows is one turn, as
  nobody can say who wrote which. In validation it holds messages.
- No group id: rollouts with an equal prompt are a group, of messages all up to the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, first_turn, tools_of
from ruler_cli.formats.interface import Format, Layout, first_at, has, items, lookup
from ruler_cli.formats.reader import as_text, hashed
from ruler_cli.formats.turns import (
    answer_turns,
    of_messages,
    of_texts,
    prompt_turns,
    rollout,
    with_submission,
)
from ruler_cli.records import Rollout

_TASKS = ("problem_statement", "question", "prompt", "instruction", "problem", "task")
_INPUT = "responses_create_params.input"
_RULES = "responses_create_params.instructions"


def _key(record: Mapping[str, Any]) -> str | None:
    index, agent = first_at(record, "_ng_task_index", "task_idx"), lookup(record, "agent_ref.name")
    if index is not None:
        return as_text(index if agent is None else [agent, index])
    asked = lookup(record, _INPUT) or _task(record) or _opening(record)
    return hashed("input", [lookup(record, _RULES), asked]) if asked else None


def _task(record: Mapping[str, Any]) -> str | None:
    """The task where the input is empty; never `instance_dict` beside it, which holds the solution too."""
    found = (lookup(record, f"responses_create_params.metadata.{name}") for name in _TASKS)
    return next((text for text in found if isinstance(text, str) and text.strip()), None)


def _opening(record: Mapping[str, Any]) -> Messages:
    """The part of the output before the agent's first turn."""
    said = _parts(lookup(record, "response.output"))[-1]
    return said[: first_turn(said)]


def _parts(output: Any) -> list[Messages]:
    """The items of an output; of a list of lists, each is what the agent was shown at a step and answered.

    Those with which another begins are left out, of equal ones all but the last. What a later one does not
    continue stays: a context that was compacted, another attempt.
    """
    if not (isinstance(output, list) and output and all(isinstance(item, list) for item in output)):
        return [check_messages(output, "response.output")]
    parts = [check_messages(item, "response.output") for item in output]
    return [
        one
        for i, one in enumerate(parts)
        if not any(o[: len(one)] == one and (len(o) > len(one) or j > i) for j, o in enumerate(parts))
    ]


def _asked(record: Mapping[str, Any]) -> Messages:
    told = lookup(record, _RULES)
    system = [{"role": "system", "content": told}] if isinstance(told, str) and told else []
    asked = lookup(record, _INPUT)
    if not asked and not _opening(record):
        asked = _task(record)
    return [*system, *prompt_turns(asked, "input")]


def _gym(record: dict[str, Any]) -> list[Rollout]:
    output = lookup(record, "response.output")
    if not output:
        raise UnreadableError("has no items in `response.output`: the agent failed before it answered")
    *earlier, last = _parts(output)
    said = with_submission(record, last)
    tools = tools_of({"tools": lookup(record, "responses_create_params.tools")})
    reward = None if record.get("_ng_failure_class") is not None else record.get("reward")
    return [rollout(_asked(record), said, histories=tuple(earlier), tools=tools, reward=reward)]


def _rl(record: dict[str, Any]) -> list[Rollout]:
    return [Rollout(_messages(_one(record.get("content"))), reward=_one(record.get("rewards")))]


def _one(value: Any) -> Any:
    """What a list of one wraps."""
    return value[0] if len(items(value)) == 1 else None


def _messages(content: Any) -> Messages:
    if of_messages(content):
        return check_messages(content, "content[0]")
    if not of_texts(content):
        raise UnreadableError("has neither texts nor messages in `content[0]`")
    if len(content) < 2:
        raise UnreadableError("has a prompt and no answer in `content[0]`")
    asked = [{"role": "user", "content": content[0]}] if content[0] else []
    return [*asked, *answer_turns("".join(content[1:]), "content[0]")]


FORMATS = (
    Format(
        "NeMo-Gym rollouts", "nemo-gym", "`responses_create_params`, `response`",
        lambda record: isinstance(record.get("responses_create_params"), dict) and "response" in record,
        _gym, ("_ng_task_index",), key_of=_key,
        key_told=f"agent_ref.name + _ng_task_index, or hash of {_INPUT}",
    ),
    Format(
        "NeMo-RL rollouts", "nemo-rl", "`content`, `rewards`, `idx`",
        lambda record: has("rewards", "idx")(record) and isinstance(record.get("content"), list), _rl,
        layout=Layout(reward=("rewards",), form=b"[%s]", lost=b"[null]"),
    ),
)  # fmt: skip
