"""Harbor (Terminal-Bench 2): a trial of a job, and the rows of `harbor traces export`.

A trial is a directory; its record holds `result` (`result.json`, `harbor.models.trial.result`),
`trajectory` (`agent/trajectory.json`, ATIF) and `reward_file` (`verifier/reward.txt` or `.json`). Its
reader takes only numbers as rewards, so a reward is taken out where there is no score.
An export (`harbor/utils/traces_utils.py`) has a row for each episode: one trial may be many rows, all
one rollout; `result` is text, the reward or the name of an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.atif import is_atif, read_atif
from ruler_cli.formats.chat import check_messages
from ruler_cli.formats.interface import Format, Layout, has, lookup, plain
from ruler_cli.records import Rollout


def _trial(record: dict[str, Any]) -> list[Rollout]:
    trajectory = record.get("trajectory")
    if not is_atif(trajectory):
        kind = lookup(record, "result.exception_info.exception_type")
        why = f" (the trial ended with {plain(kind)})" if isinstance(kind, str) else ""
        raise UnreadableError(f"has no ATIF trajectory in `agent/trajectory.json`{why}")
    found = read_atif(trajectory)
    filed = record.get("reward_file")
    if isinstance(filed, dict):
        filed = filed.get("reward")
    reward = lookup(record, "result.verifier_result.rewards.reward")
    reward = filed if reward is None else reward
    return [Rollout(found.messages, (), found.histories, found.tools, reward, outcome=filed)]


def _row(record: dict[str, Any]) -> list[Rollout]:
    messages = check_messages(record.get("conversations") or None, "conversations")
    trial = record.get("trial_name")
    tools = record.get("tool_definitions")
    return [
        Rollout(
            messages,
            tools=tools,
            reward=record.get("result"),
            member=trial if isinstance(trial, str) else None,
        )
    ]


def _is_trial(record: Mapping[str, Any]) -> bool:
    return lookup(record, "result.task_name") is not None and "trajectory" in record


TRIAL = Format(
    name="Harbor trials",
    family="harbor",
    shape="trajectory",
    tells="`result.task_name`, `trajectory`",
    matches=_is_trial,
    rollouts=_trial,
    keys=("result.task_name",),
    layout=Layout(
        reward=("result", "verifier_result", "rewards", "reward"), ruler=("result", "ruler"), lost=b""
    ),
)
EXPORT = Format(
    name="Harbor's exported traces",
    family="harbor",
    shape="trajectory",
    tells="`conversations`, `task`",
    matches=has("conversations", "task"),
    rollouts=_row,
    keys=("task",),
    layout=Layout(reward=("result",), form=b'"%s"'),
)
FORMATS = (TRIAL, EXPORT)
