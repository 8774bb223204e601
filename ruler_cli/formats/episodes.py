"""Episodes and traces of verifiers, prime-rl and rLLM: agents at work on one task, each with its rewards.

A trace is a tree of messages: the path to its last leaf is the conversation, other leaves are further parts.
Agents of several roles in an episode are one rollout with one score, as the task is one; agents of one role
(best of n) are rollouts of their own. Ids of tasks come again in other environments, steps and epochs, which
therefore belong to the key. Readers refuse or drop fields that they do not know: `ruler` stands in an object
that is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, last_states, tools_of
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    Rollouts,
    first,
    first_at,
    items,
    lookup,
    objects,
)
from ruler_cli.formats.reader import hashed_key, key_text
from ruler_cli.formats.table import Fields
from ruler_cli.formats.turns import read_or_error
from ruler_cli.types import Rollout

_RESULT = Fields("prompt", "completion", tools="tool_defs")


def _correct(metrics: Any) -> Any:
    """The metric `correct`, else the first whose name has that word; None if there is none."""
    if not isinstance(metrics, Mapping):
        return None
    named = (value for name, value in metrics.items() if "correct" in name)
    return metrics.get("correct", first(named))


def result_key(record: JsonObject) -> str | None:
    """Return the example with its environment, task and step."""
    parts = (record.get(name) for name in ("env_name", "task", "step"))
    more: list[Any] = [part for part in parts if isinstance(part, str | int)]
    route = lookup(record, "info.env_id")
    more += [route] if isinstance(route, str | list) and route else []
    known = more and record.get("example_id") is not None
    return key_text([record["example_id"], *more]) if known else None


def read_result(record: JsonObject) -> Rollouts:
    """Read a result of verifiers."""
    outcome = _correct(record.get("metrics"))
    return [replace(rollout, outcome=outcome) for rollout in _RESULT(record)]


def _branches(nodes: Any) -> list[Messages]:
    """The messages from the root to each leaf, in the order of the leaves."""
    if not items(nodes):
        raise UnreadableError(
            "has no messages in `nodes` (the rollout ended before the first turn)"
        )
    parents = set()
    for i, node in enumerate(nodes):
        if not isinstance(node, dict) or "message" not in node:
            raise UnreadableError(f"`nodes[{i}]` holds no `message`")
        parent = node.get("parent")
        if parent is not None and (not isinstance(parent, int) or not 0 <= parent < i):
            raise UnreadableError(f"`nodes[{i}]` has no earlier node as its `parent`")
        parents.add(parent)
    branches = []
    for leaf in (i for i in range(len(nodes)) if i not in parents):
        messages: list[Any] = []
        at: int | None = leaf
        while at is not None:
            messages.append(nodes[at]["message"])
            at = nodes[at].get("parent")
        branches.append(check_messages(messages[::-1], "nodes"))
    return branches


def read_trace(trace: JsonObject) -> Rollouts:
    """Read a bare trace."""
    return [_trace(trace)]


def _trace(trace: JsonObject) -> Rollout:
    *parts, last = _branches(trace.get("nodes"))
    found = (_correct(trace.get(name)) for name in ("metrics", "rewards"))
    outcome = first(value for value in found if value is not None)
    outcome = outcome.get("score") if isinstance(outcome, dict) else outcome
    return Rollout(last, (), tuple(parts), tools_of(trace), outcome=outcome)


def read_episode(record: JsonObject) -> Rollouts:
    """Read the traces of an episode that train the model, one rollout each."""
    traces = items(record.get("traces"))
    if not traces or not all(isinstance(t, dict) for t in traces):
        raise UnreadableError(
            "has no objects in `traces`: the environment failed before any agent began"
        )
    trained = {
        i: trace
        for i, trace in enumerate(traces)
        if lookup(trace, "agent.trainable") is not False
    }
    if not trained:
        raise UnreadableError(
            "has no trace of a `trainable` agent in `traces`: nothing here is to be scored"
        )
    return _rollouts(record, "traces", trained, "agent.name", _trace, ("id",))


def _rollouts(
    record: JsonObject,
    name: str,
    members: Mapping[int, Any],
    role: str,
    read: Callable[[Any], Rollout],
    ids: Names,
    **shared: Any,
) -> Rollouts:
    """Read members of the list `name` by their indices; UnreadableError if none of them can be judged.

    Members of several roles, at the path `role`, are parts of one rollout.
    """
    roles = {key_text(lookup(value, role)) for value in members.values()}
    known = first(record[i] for i in ids if record.get(i))
    episode = known or hashed_key("episode", record[name])
    member = key_text(episode) if len(roles) > 1 else None
    rollouts = [
        read_or_error(partial(read, value), (name, i), member=member, **shared)
        for i, value in members.items()
    ]
    if all(rollout.error is not None for rollout in rollouts):
        raise UnreadableError(f"`{name}[{rollouts[0].path[1]}]` {rollouts[0].error}")
    return rollouts


def task_key(record: JsonObject) -> str | None:
    """Return a hash of the task's data; None if the task has a key or hash of its own, or no data."""
    tasks = ("task", "traces.0.task")
    if (
        first_at(record, *(f"{t}.{n}" for t in tasks for n in ("key", "hash")))
        is not None
    ):
        return None
    data = lookup(record, "task.data") or lookup(record, "traces.0.task.data")
    return None if data is None else hashed_key("task", data)


def is_weighted(record: JsonObject) -> bool:
    """Tell if the rewards of a bare trace have weights, as since verifiers 0.3."""
    return _weighted(record) is True


def is_plain(record: JsonObject) -> bool:
    """Tell if the rewards of a bare trace are numbers, as in verifiers 0.2."""
    return _weighted(record) is False


def _weighted(record: JsonObject) -> bool | None:
    """Tell the kind of a bare trace's rewards, which tells its age; None for other records."""
    rewards = record.get("rewards", {})
    if not isinstance(rewards, dict):
        return None
    # a failed trace's own fields tell no age
    first = lookup(record, "info.ruler.independent_reward")
    values = (first if isinstance(first, dict) else rewards).values()
    if any(isinstance(value, dict) for value in values):
        return True
    figures = any(isinstance(value, int | float) for value in values)
    return record.get("version") == 1 and not figures


def rllm_key(record: JsonObject) -> str | None:
    """Return the task of an rLLM episode, with its training step."""
    task, step = first_at(record, "task_hash", "task.id"), record.get("training_step")
    if task is None and record.get("task") is not None:
        task = hashed_key("task", record["task"])
    if task is None:
        return None
    return key_text(task) + ("" if step is None else f" in step {key_text(step)}")


def _rllm_trajectory(value: Any) -> Rollout:
    """The conversations of a trajectory's steps that no later step continues, as one rollout."""
    steps = objects(lookup(value, "steps"))
    listed = filter(None, (items(step.get("chat_completions")) for step in steps))
    conversations = last_states(check_messages(m, "chat_completions") for m in listed)
    if not conversations:
        raise UnreadableError(
            "has no `chat_completions` in its steps: the workflow did not record them"
        )
    *earlier, last = conversations
    return Rollout(last, histories=tuple(earlier))


def read_rllm(record: JsonObject) -> Rollouts:
    """Read the trajectories of an rLLM episode."""
    trajectories = dict(enumerate(items(record.get("trajectories"))))
    if not trajectories:
        raise UnreadableError(
            "has no `trajectories`: the workflow failed before the first of them"
        )
    return _rollouts(
        record,
        "trajectories",
        trajectories,
        "name",
        _rllm_trajectory,
        ("episode_id", "id"),
        outcome=record.get("is_correct"),
    )
