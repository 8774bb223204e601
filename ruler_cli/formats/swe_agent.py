"""SWE-agent: one trajectory, `{instance}.traj` (`sweagent/agent/agents.py`, `save_trajectory`).

Traps: a demonstration stands in `history` as messages of another run (`is_demo`), which is not the
agent's work; results name their calls in a list (`tool_call_ids`); the instance is the file's name alone, so
the group is the prompt; there is no reward.
"""

from __future__ import annotations

from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import check_messages
from ruler_cli.formats.interface import Format, has
from ruler_cli.records import Rollout


def _read(record: dict[str, Any]) -> list[Rollout]:
    if not record.get("history"):
        raise UnreadableError("has no messages in `history` (the run was stopped before its first step)")
    history = check_messages(record["history"], "history")
    messages = [_turn(message) for message in history if not message.get("is_demo")]
    if not messages:
        raise UnreadableError("holds a demonstration only in `history`")
    return [Rollout(messages, reward=record.get("reward"))]


def _turn(message: dict[str, Any]) -> dict[str, Any]:
    """A message; a result with the one call that it names."""
    calls = message.get("tool_call_ids")
    if isinstance(calls, list) and len(calls) == 1 and message.get("role") == "tool":
        return {**message, "tool_call_id": calls[0]}
    return message


TRAJECTORY = Format(
    name="SWE-agent",
    family="swe-agent",
    shape="trajectory",
    tells="`trajectory`, `history`, `info`",
    matches=has("trajectory", "history", "info"),
    rollouts=_read,
    keys=("instance_id",),
)
FORMATS = (TRAJECTORY,)
