"""SWE-agent: one trajectory, `{instance}.traj` (`sweagent/agent/agents.py`, `save_trajectory`).

Traps: a demonstration stands in `history` as messages of another run (`is_demo`), which is not the
agent's work; results name their calls in a list (`tool_call_ids`); what the last action did stands in
`trajectory` alone, and what was handed in, in `info.submission`; the instance is the file's name alone, so
the group is the prompt; there is no reward.

mini-swe-agent: one trajectory, `{instance}/{instance}.traj.json` (`minisweagent`, `DefaultAgent.save`).

Traps: the last message has the role `exit` and holds what was submitted, which the judge must see, and where
it does not, `info.submission` does; there is no reward in it; the oldest files have no `instance_id`, so
their group is the prompt.

SWE-bench: predictions, a line an instance (`swebench.inference`; agents' `all_preds.jsonl`).

Traps: a prediction is a patch and the name of its instance, the task is not in the file; only SWE-bench's own
inference writes the prompt (`text`) and the whole answer (`full_output`) along with it. The runs of several
models must be given together to have something to compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages
from ruler_cli.formats.interface import Format, Refusal, has
from ruler_cli.formats.submission import with_submission
from ruler_cli.formats.turns import prompt_turns
from ruler_cli.records import Rollout


def _read_history(record: dict[str, Any]) -> list[Rollout]:
    if not record.get("history"):
        raise UnreadableError("has no messages in `history` (the run was stopped before its first step)")
    history = check_messages(record["history"], "history")
    messages = [_turn(message) for message in history if not message.get("is_demo")]
    if not messages:
        raise UnreadableError("holds a demonstration only in `history`")
    messages += _last_observation(record, messages)
    return [Rollout(with_submission(record, messages), reward=record.get("reward"))]


def _last_observation(record: dict[str, Any], messages: Messages) -> Messages:
    """The result of the last action, if the history ends with the action."""
    steps = record.get("trajectory")
    last = steps[-1] if isinstance(steps, list) and steps else None
    seen = last.get("observation") if isinstance(last, dict) else None
    if messages[-1].get("role") != "assistant" or not isinstance(seen, str) or not seen.strip():
        return []
    calls = messages[-1].get("tool_calls")
    named = calls[0].get("id") if isinstance(calls, list) and len(calls) == 1 else None
    return [{"role": "tool", "content": seen, "tool_call_id": named}]


def _turn(message: dict[str, Any]) -> dict[str, Any]:
    """A message; a result with the one call that it names."""
    calls = message.get("tool_call_ids")
    if isinstance(calls, list) and len(calls) == 1 and message.get("role") == "tool":
        return {**message, "tool_call_id": calls[0]}
    return message


SWE_AGENT = Format(
    name="SWE-agent",
    family="swe-agent",
    shape="trajectory",
    tells="`trajectory`, `history`, `info`",
    matches=has("trajectory", "history", "info"),
    rollouts=_read_history,
    keys=("instance_id",),
)


def _read_mini(record: dict[str, Any]) -> list[Rollout]:
    if not record.get("messages"):
        raise UnreadableError("has no messages in `messages` (the run was stopped before its first step)")
    messages = check_messages(record["messages"], "messages")
    return [Rollout(with_submission(record, messages), reward=record.get("reward"))]


MINI = Format(
    name="mini-swe-agent",
    family="mini-swe-agent",
    shape="trajectory",
    tells="`trajectory_format` (mini-swe-agent-…)",
    matches=lambda record: str(record.get("trajectory_format", "")).startswith("mini-swe-agent"),
    rollouts=_read_mini,
    keys=("instance_id",),
)


_NAMES = ("instance_id", "model_name_or_path", "model_patch")
_CONVERSATIONS = ("messages", "history", "trajectory", "trajectories", "prompt", "conversations")


def _is_prediction(record: Mapping[str, Any]) -> bool:
    return all(name in record for name in _NAMES) and not any(name in record for name in _CONVERSATIONS)


def _read_prediction(record: dict[str, Any]) -> list[Rollout]:
    patch, answer = record["model_patch"], record.get("full_output")
    said: Messages = []
    if isinstance(answer, str) and answer.strip():
        said = with_submission(record, [{"role": "assistant", "content": answer}])
    elif isinstance(patch, str) and patch.strip():
        said = [{"role": "assistant", "content": patch}]
    if not said:
        raise UnreadableError("has no patch in `model_patch`: nothing was handed in")
    asked = record.get("text")
    return [
        Rollout(
            [*prompt_turns(asked if isinstance(asked, str) else None, "text"), *said],
            reward=record.get("reward"),
        )
    ]


PREDICTION = Format(
    name="SWE-bench predictions",
    family="swe-bench",
    shape="trajectory",
    tells="`instance_id`, `model_name_or_path`, `model_patch`",
    matches=_is_prediction,
    rollouts=_read_prediction,
    keys=("instance_id",),
)


def _by_instance(record: Mapping[str, Any]) -> bool:
    return bool(record) and all(isinstance(v, dict) and "model_patch" in v for v in record.values())


REFUSALS = (
    Refusal(
        _by_instance,
        "holds SWE-bench predictions by their instances (mini-swe-agent's preds.json); write one a line: "
        "jq -c '.[]'",
    ),
)
FORMATS = (SWE_AGENT, MINI, PREDICTION)
