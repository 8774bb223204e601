"""eval-protocol: rows of an evaluation, and what it records of environments for playback.

A row is an `eval_protocol.models.EvaluationRow`. Traps: the group is the input's row, and each run of it a
rollout; the score stands in `evaluation_result`, which is null before the evaluation; its reader keeps
unknown keys and takes no null as a score, so it reads no file in which a group failed: `--on-failure drop`
leaves those out.

A recording (`mcp/execution/base_policy.py`, `log_conversation_state_for_playback`) has a line for each step
of each environment, with all messages so far. Traps: threads write in no order; the file is appended to, so
an index of a run may come again in the next one: a rollout is known by its first answer too, whose calls have
ids of their own; there is no reward in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.asked import prompt_key
from ruler_cli.formats.chat import Messages, first_turn, tools_of
from ruler_cli.formats.interface import Format, Layout, has, lookup
from ruler_cli.formats.reader import hashed
from ruler_cli.formats.turns import chat_turns, with_answer
from ruler_cli.records import Rollout


def _read(record: dict[str, Any]) -> list[Rollout]:
    if not record.get("messages"):
        raise UnreadableError("has no messages in `messages` (written when a rollout failed)")
    messages = with_answer(record, chat_turns(record["messages"], "messages"))
    reward = lookup(record, "evaluation_result.score")
    return [Rollout(messages, tools=tools_of(record), reward=reward)]


ROW = Format(
    name="eval-protocol rows",
    family="eval-protocol",
    shape="trajectory",
    tells="`messages`, `input_metadata`",
    matches=has("messages", "input_metadata"),
    rollouts=_read,
    keys=("input_metadata.row_id",),
    layout=Layout(reward=("evaluation_result", "score"), refuses_null="eval-protocol"),
)


_APART = ("epoch", "iteration", "episode", "episode_id", "rollout_id", "run_id", "trial", "group_id", "seed")
"""Fields that may tell two rollouts of one environment from each other."""


def _environment(record: Mapping[str, Any]) -> Any:
    return record.get("env_index", record.get("env_idx"))


def _is_step(record: Mapping[str, Any]) -> bool:
    numbers = (_environment(record), record.get("step"))
    return "messages" in record and "input_metadata" not in record and all(type(n) is int for n in numbers)


def _opening(messages: Messages) -> int:
    """The number of first messages that are the task; the agent's turns may be missing."""
    roles = [message.get("role") in ("tool", "function") for message in messages]
    return min(first_turn(messages), roles.index(True) if True in roles else len(messages))


def _step_key(record: Mapping[str, Any]) -> str:
    messages = _read_step(dict(record))[0].messages
    return prompt_key(Rollout(messages[: _opening(messages)]), None)


def _read_step(record: dict[str, Any]) -> list[Rollout]:
    if not record.get("messages"):
        raise UnreadableError("has no messages in `messages`: nothing was said up to this step")
    messages = with_answer(record, chat_turns(record["messages"], "messages"))
    known = [_environment(record), *(record.get(name) for name in _APART)]
    member = hashed("env", [*known, messages[: _opening(messages) + 1]])
    return [Rollout(messages, tools=tools_of(record), reward=record.get("reward"), member=member)]


STEP = Format(
    name="eval-protocol recordings",
    family="eval-protocol",
    shape="trajectory",
    tells="`env_index`, `step`, `messages`",
    matches=_is_step,
    rollouts=_read_step,
    key_of=_step_key,
    key_told="hash of the prompt, whatever the step",
)
FORMATS = (ROW, STEP)
