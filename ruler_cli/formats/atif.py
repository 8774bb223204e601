"""ATIF, the trajectory interchange format of Harbor and NVIDIA's NAT: one object a rollout.

Written by `harbor.models.trajectories.Trajectory.to_json_dict`, `schema_version` ATIF-v1.0 to v1.8.
Traps: there is no task id and no reward in it, and `session_id` is the run's, so the group is what
stands before the first agent step (or `--group-by extra.task_id`); the model forbids unknown keys, so
score and mark go into `extra`; tool results stand inside the step that called; sub-agents are embedded
and shown as further parts; a run that is continued in another file (`is_copied_context`,
`continued_trajectory_ref`) is one rollout with what has the same session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.interface import Format, Layout, lookup
from ruler_cli.records import Rollout

_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


def read_atif(record: Mapping[str, Any]) -> Rollout:
    """One ATIF object; UnreadableError where it has no steps."""
    reward = lookup(record, "extra.reward")
    messages = _messages(record)
    more = record.get("subagent_trajectories")
    further = tuple(_messages(sub) for sub in more if isinstance(sub, dict)) if isinstance(more, list) else ()
    tools = lookup(record, "agent.tool_definitions")
    return Rollout(messages, (), further, tools, reward, member=_session(record))


def _messages(record: Mapping[str, Any]) -> Messages:
    steps = record.get("steps")
    if not isinstance(steps, list) or not steps:
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
    calls = step.get("tool_calls")
    if isinstance(calls, list) and calls:
        said["tool_calls"] = [_call(call) for call in calls]
    yield said
    results = lookup(step, "observation.results")
    for result in results if isinstance(results, list) else ():
        if isinstance(result, dict):
            content = result.get("content")
            if content is None and result.get("subagent_trajectory_ref"):
                content = "(a sub-agent's work)"
            yield {"role": "tool", "tool_call_id": result.get("source_call_id"), "content": content}


def _call(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    return {
        "id": call.get("tool_call_id"),
        "name": call.get("function_name"),
        "arguments": call.get("arguments"),
    }


def _session(record: Mapping[str, Any]) -> str | None:
    """The run, where the record says that it is only a part of one."""
    steps = record.get("steps")
    copied = isinstance(steps, list) and any(
        isinstance(s, dict) and s.get("is_copied_context") for s in steps
    )
    session = record.get("session_id")
    part = copied or record.get("continued_trajectory_ref")
    return session if part and isinstance(session, str) else None


def is_atif(record: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether it is an ATIF object."""
    return isinstance(record, Mapping) and str(record.get("schema_version", "")).startswith("ATIF-v")


TRAJECTORY = Format(
    name="ATIF trajectories",
    family="atif",
    shape="trajectory",
    tells="`schema_version` (ATIF-v…)",
    matches=is_atif,
    rollouts=lambda record: [read_atif(record)],
    layout=Layout(reward=("extra", "reward"), ruler=("extra", "ruler")),
)
FORMATS = (TRAJECTORY,)
