"""Harbor (Terminal-Bench 2) and ATIF, its trajectory interchange format, which NVIDIA's NAT writes too.

ATIF (`harbor.models.trajectories.Trajectory.to_json_dict`, `schema_version` ATIF-v1.0 to v1.8). Traps: there
is no task id and no reward in it, and `session_id` is the run's, so the group is what stands before the first
agent step (or `--group-by extra.task_id`); the model forbids unknown keys, so score and mark go into `extra`;
tool results stand inside the step that called; sub-agents are embedded and shown as further parts; a run that
is continued in another file (`is_copied_context`, `continued_trajectory_ref`) is one rollout with what has
the same session.

A trial of a job is a directory; its record holds `result` (`result.json`, `harbor.models.trial.result`),
`trajectory` (`agent/trajectory.json`, ATIF) and `reward_file` (`verifier/reward.txt` or `.json`). Its reader
takes only numbers as rewards, so a reward is taken out where there is no score. `harbor traces export`
(`harbor/utils/traces_utils.py`) writes a row for each episode: one trial may be many rows, all one rollout;
`result` is text, the reward or the name of an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages
from ruler_cli.formats.interface import Format, Layout, first_at, has, items, lookup, objects, plain
from ruler_cli.records import Rollout

_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


def _is_atif(record: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(record, Mapping) and str(record.get("schema_version", "")).startswith("ATIF-v")


def _atif(record: Mapping[str, Any]) -> Rollout:
    messages = _messages(record)
    further = tuple(_messages(sub) for sub in objects(record.get("subagent_trajectories")))
    tools, reward = lookup(record, "agent.tool_definitions"), lookup(record, "extra.reward")
    return Rollout(messages, (), further, tools, reward, member=_session(record))


def _messages(record: Mapping[str, Any]) -> Messages:
    steps = items(record.get("steps"))
    if not steps:
        raise UnreadableError("has no steps in `steps` (the agent was stopped before its first)")
    out: Messages = []
    for i, step in enumerate(steps):
        if not isinstance(step, dict):
            raise UnreadableError(f"`steps[{i}]` is no object")
        out += _turns(step)
    return out


def _turns(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A step's message with its calls, and what came back."""
    said = {"role": _ROLES.get(str(step.get("source")), "user"), "content": step.get("message")}
    if step.get("reasoning_content"):
        said["reasoning_content"] = step["reasoning_content"]
    if items(step.get("tool_calls")):
        said["tool_calls"] = [_call(call) for call in step["tool_calls"]]
    yield said
    for result in objects(lookup(step, "observation.results")):
        content = result.get("content")
        if content is None and result.get("subagent_trajectory_ref"):
            content = "(a sub-agent's work)"
        yield {"role": "tool", "tool_call_id": result.get("source_call_id"), "content": content}


def _call(call: Any) -> Any:
    names = {"id": "tool_call_id", "name": "function_name", "arguments": "arguments"}
    return {ours: call.get(name) for ours, name in names.items()} if isinstance(call, dict) else call


def _session(record: Mapping[str, Any]) -> str | None:
    """The run, where the record says that it is only a part of one."""
    copied = any(step.get("is_copied_context") for step in objects(record.get("steps")))
    session = record.get("session_id")
    part = copied or record.get("continued_trajectory_ref")
    return session if part and isinstance(session, str) else None


def _trial(record: dict[str, Any]) -> list[Rollout]:
    trajectory = record.get("trajectory")
    if not _is_atif(trajectory):
        kind = lookup(record, "result.exception_info.exception_type")
        why = f" (the trial ended with {plain(kind)})" if isinstance(kind, str) else ""
        raise UnreadableError(f"has no ATIF trajectory in `agent/trajectory.json`{why}")
    filed = record.get("reward_file")
    filed = filed.get("reward") if isinstance(filed, dict) else filed
    reward = first_at(record, "result.verifier_result.rewards.reward")
    reward = filed if reward is None else reward
    return [replace(_atif(trajectory), reward=reward, outcome=filed, member=None)]


def _row(record: dict[str, Any]) -> list[Rollout]:
    messages = check_messages(record.get("conversations") or None, "conversations")
    trial, tools = record.get("trial_name"), record.get("tool_definitions")
    member = trial if isinstance(trial, str) else None
    return [Rollout(messages, tools=tools, reward=record.get("result"), member=member)]


FORMATS = (
    Format(
        name="ATIF trajectories",
        family="atif",
        tells="`schema_version` (ATIF-v…)",
        matches=_is_atif,
        rollouts=lambda record: [_atif(record)],
        layout=Layout(reward=("extra", "reward"), ruler=("extra", "ruler")),
    ),
    Format(
        name="Harbor trials",
        family="harbor",
        tells="`result.task_name`, `trajectory`",
        matches=lambda record: lookup(record, "result.task_name") is not None and "trajectory" in record,
        rollouts=_trial,
        keys=("result.task_name",),
        layout=Layout(
            reward=("result", "verifier_result", "rewards", "reward"), ruler=("result", "ruler"), lost=b""
        ),
    ),
    Format(
        name="Harbor's exported traces",
        family="harbor",
        tells="`conversations`, `task`",
        matches=has("conversations", "task"),
        rollouts=_row,
        keys=("task",),
        layout=Layout(reward=("result",), form=b'"%s"'),
    ),
)
