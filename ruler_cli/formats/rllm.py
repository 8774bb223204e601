"""rLLM: one episode a file, `episodes/{mode}_step_{s}_epoch_{e}/episode_hash….json` or of the eval store.

Written by `rllm/utils/episode_logger.py` in training, `rllm/eval/episode_store.py` in evaluation. Traps:
- The last step's `chat_completions` is the whole conversation; steps before it that it does not continue are
  further parts of the rollout.
- Trajectories of several names (solver and judge) are parts of one rollout with one score; several of one
  name are rollouts of their own, as rLLM itself compares by (task, name).
- `task_hash` comes again in each epoch: `training_step` belongs to the key. The eval store has no hash.
- `trajectories` is empty where the workflow failed.
- Its models drop fields that they do not know: ruler's own stands in a trajectory's `metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages
from ruler_cli.formats.interface import Format, Layout, lookup
from ruler_cli.formats.reader import as_text, hashed
from ruler_cli.records import Path, Rollout

_TELLING = {"task_hash", "episode_id", "eval_idx", "is_correct"}


def _is_episode(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("trajectories"), list) and bool(_TELLING & record.keys())


def _key(record: Mapping[str, Any]) -> str | None:
    task = record.get("task_hash")
    if task is None and (task := lookup(record, "task.id")) is None:
        task = hashed("task", record["task"]) if record.get("task") is not None else None
    step = record.get("training_step")
    return (
        None
        if task is None
        else as_text(task)
        if step is None
        else f"{as_text(task)} in step {as_text(step)}"
    )


def _conversations(trajectory: Any) -> list[Messages]:
    """Each conversation of a trajectory's steps that no later step continues."""
    steps = trajectory.get("steps") if isinstance(trajectory, dict) else None
    found: list[Messages] = []
    for step in steps if isinstance(steps, list) else ():
        said = step.get("chat_completions") if isinstance(step, dict) else None
        if isinstance(said, list) and said:
            found = [f for f in found if f != said[: len(f)]]
            found.append(check_messages(said, "chat_completions"))
    if not found:
        raise UnreadableError("has no `chat_completions` in its steps: the workflow did not record them")
    return found


def _trajectory(value: Any, path: Path, member: str | None, outcome: Any) -> Rollout:
    reward = value.get("reward") if isinstance(value, dict) else None
    try:
        *parts, last = _conversations(value)
    except UnreadableError as error:
        return Rollout([], path, reward=reward, fault=str(error), outcome=outcome, member=member)
    return Rollout(last, path, tuple(parts), None, reward, None, outcome, member)


def _read(record: dict[str, Any]) -> list[Rollout]:
    trajectories = record.get("trajectories")
    if not isinstance(trajectories, list) or not trajectories:
        raise UnreadableError("has no `trajectories`: the workflow failed before the first of them")
    names = {as_text(lookup(t, "name")) for t in trajectories}
    own = record.get("episode_id") or record.get("id") or hashed("episode", trajectories)
    member = as_text(own) if len(names) > 1 else None
    outcome = record.get("is_correct")
    found = [_trajectory(t, ("trajectories", i), member, outcome) for i, t in enumerate(trajectories)]
    if all(r.fault is not None for r in found):
        raise UnreadableError(f"`trajectories[0]` {found[0].fault}")
    return found


EPISODE = Format(
    name="rLLM episodes",
    family="rllm",
    shape="trajectory",
    tells="`trajectories`, `task_hash` or `episode_id`",
    matches=_is_episode,
    rollouts=_read,
    key_of=_key,
    key_told="task_hash with training_step",
    layout=Layout(ruler=("metadata", "ruler")),
)
FORMATS = (EPISODE,)
