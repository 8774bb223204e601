"""Dumps whose rows differ in names only: a prompt and an answer in two fields, or messages in one field.

One rollout a line. Texts may hold lines like `user` and the special tokens of a chat template; a model can
write these too, so that an answer is one turn whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, tools_of
from ruler_cli.formats.interface import Format, Layout, Refusal, has
from ruler_cli.formats.turns import answer_turns, prompt_turns, rollout
from ruler_cli.records import Rollout

_VERL_UID = re.compile(r"(?P<session>(?P<group>.+)_\d+)_\d+", re.DOTALL)


def pair(record: Mapping[str, Any], asked: str, said: str, reward: str = "reward", **more: Any) -> Rollout:
    """Read a prompt, its answer and the reward from the fields of these names."""
    turns = prompt_turns(record.get(asked), asked), answer_turns(record.get(said), said)
    return rollout(*turns, reward=record.get(reward), **more)


def _pair(asked: str, said: str, reward: str = "reward") -> Callable[[dict[str, Any]], list[Rollout]]:
    return lambda record: [pair(record, asked, said, reward)]


def _messages(record: dict[str, Any], name: str, otherwise: str) -> list[Rollout]:
    if not record.get(name):
        raise UnreadableError(f"has no messages in `{name}` ({otherwise})")
    return [Rollout(check_messages(record[name], name), reward=record.get("reward"))]


def _is_trl(record: Mapping[str, Any]) -> bool:
    listed = any(isinstance(record.get(name), list) for name in ("step", "advantage"))
    return {"prompt", "completion", "step", "advantage"} <= record.keys() and not listed


def _verl_uid(record: Mapping[str, Any]) -> re.Match[str] | None:
    uid = record.get("uid")
    return _VERL_UID.fullmatch(uid) if isinstance(uid, str) else None


def _is_verl(record: Mapping[str, Any], *, uid: bool) -> bool:
    named = {"input", "output", "score", "step"} <= record.keys() and isinstance(record["input"], str)
    return named and (_verl_uid(record) is not None) == uid


def _verl(record: dict[str, Any]) -> list[Rollout]:
    """A `uid` is `{uuid}_{session}_{output}`: an agent loop may return several outputs of one session.

    They carry one score and are parts of one rollout. `acc` is a verdict of the reward function.
    """
    uid = _verl_uid(record)
    member = uid["session"] if uid else None
    return [pair(record, "input", "output", "score", outcome=record.get("acc"), member=member)]


def _slime(record: dict[str, Any]) -> list[Rollout]:
    """Recorded `messages` are the conversation; `response` is empty where a sample was aborted.

    `reward` may be a dict of which the trainer picks a key (`--reward-key`). ruler's is a number in its
    place, or at that key with `--reward reward.KEY`.
    """
    asked: Messages = []
    if record.get("messages"):
        said = check_messages(record["messages"], "messages")
    elif record.get("response") is not None:
        asked = prompt_turns(record.get("prompt"), "prompt")
        said = answer_turns(record["response"], "response")
    else:
        raise UnreadableError("has neither `messages` nor `response`: the sample was never generated")
    reward = record.get("reward")
    outcome = reward.get("acc") if isinstance(reward, dict) else None
    return [rollout(asked, said, tools=tools_of(record), reward=reward, outcome=outcome)]


def _is_miles(record: Mapping[str, Any]) -> bool:
    table = "trajectory_json" in record or "group_metadata" in record
    return {"group_index", "sample_index"} <= record.keys() and not table


def _verl_group(record: Mapping[str, Any]) -> str | None:
    uid = _verl_uid(record)
    return uid["group"] if uid else None


FORMATS = (
    # `{rollout,eval-rollout}/{version}/{task_id}.jsonl` of `areal/infra/workflow_executor.py`
    # `_dump_trajectory`: each file is one group, so files are given together.
    Format(
        name="AReaL rollouts",
        family="areal",
        tells="`task_id`, `sample_idx`, `prompt`, `completion`",
        matches=has("task_id", "sample_idx", "prompt", "completion"),
        rollouts=_pair("prompt", "completion"),
        keys=("task_id",),
    ),
    # `dumped_evals/{step}/{data_source}.jsonl` of `skyrl/train/utils/trainer_utils.py`
    # `dump_per_dataset_eval_results`, in step-wise mode a step a line. Equal prompts are a group:
    # `env_extras.extra_info.index` comes again in another data source and on each step. `score` may be a
    # list with the reward of each token. `aggregated_results.jsonl` beside it holds figures and is refused.
    Format(
        name="SkyRL evaluations",
        family="skyrl",
        tells="`input_prompt`, `output_response`, `score`",
        matches=has("input_prompt", "output_response", "score"),
        rollouts=_pair("input_prompt", "output_response", "score"),
        layout=Layout(reward=("score",)),
    ),
    # `save_debug_trajectory_data` of `miles/ray/rollout/debug_data.py`.
    Format(
        name="miles samples",
        family="miles",
        tells="`group_index`, `sample_index`",
        matches=_is_miles,
        rollouts=_slime,
        keys=("group_index",),
    ),
    # `save_debug_rollout_data` of `slime/observability/rollout_data_utils.py` saves a torch pickle, which is
    # never unpickled here; its samples, exported as JSON lines, are read. Older slime refuses fields that it
    # does not know: ruler's own stands in `metadata`, which is free.
    Format(
        name="slime samples",
        family="slime",
        tells="`group_index`, `prompt`, `response`",
        matches=lambda record: has("group_index", "prompt", "response")(record) and not _is_miles(record),
        rollouts=_slime,
        keys=("group_index",),
        layout=Layout(ruler=("metadata", "ruler")),
    ),
    # An item of slime's buffer has a `uid` of its own; its group is `instance_id`, and items lie apart.
    Format(
        name="slime buffer items",
        family="slime",
        tells="`uid`, `instance_id`, `messages`",
        matches=has("uid", "instance_id", "messages"),
        rollouts=_slime,
        keys=("instance_id",),
    ),
    # tau-bench results.
    Format(
        name="tau-bench",
        family="tau-bench",
        tells="`task_id`, `traj`",
        matches=has("task_id", "traj"),
        rollouts=partial(_messages, name="traj", otherwise="tau-bench writes this when a run crashed"),
        keys=("task_id",),
        simulated_user=True,
        layout=Layout(refuses_null="tau-bench"),
    ),
    # `{benchmark}/trajectories.jsonl` of `tinker_cookbook/eval/benchmarks/_types.py`. `metrics` and `logs`
    # are objects of the benchmark's own and are left alone.
    Format(
        name="tinker evaluations",
        family="tinker",
        tells="`example_id`, `turns`",
        matches=has("example_id", "turns"),
        rollouts=partial(_messages, name="turns", otherwise="written when an example ended in an error"),
        keys=("example_id",),
    ),
    # Rows of `completions/completions_{step}.parquet` of `trl/trainer/grpo_trainer.py` `GRPOTrainer.log`.
    # There is a column for each reward function and no total (its weights are not in the file): ruler writes
    # a column `reward`, or with `--reward NAME` one of theirs. Equal (`prompt`, `step`) are a group.
    Format(
        name="TRL completions",
        family="trl",
        tells="`prompt`, `completion`, `step`, `advantage`",
        matches=_is_trl,
        rollouts=_pair("prompt", "completion"),
    ),
    # `{rollout_data_dir}/{step}.jsonl` and `{validation_data_dir}/{step}.jsonl` of `_log_rollout_data` and
    # `_write_generations` in `verl/trainer/ppo/v1/trainer_base.py` (2026, with a `uid`) and `ray_trainer.py`
    # (2025, without; `_balance_batch` shuffles the lines, and equal (`input`, `step`) are a group).
    Format(
        name="verl (V1)",
        family="verl",
        tells="`input`, `output`, `score`, `step`, `uid`",
        matches=partial(_is_verl, uid=True),
        rollouts=_verl,
        key_of=_verl_group,
        key_told="uid without its two numbers",
        layout=Layout(reward=("score",)),
    ),
    Format(
        name="verl",
        family="verl",
        tells="`input`, `output`, `score`, `step`",
        matches=partial(_is_verl, uid=False),
        rollouts=_verl,
        layout=Layout(reward=("score",)),
    ),
)
REFUSALS = (
    Refusal(
        has("group_idx", "total_reward"),
        "holds lengths and rewards and no text (tinker's rollout summaries); give the file with the turns",
    ),
)
