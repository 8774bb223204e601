"""Episodes and traces of verifiers, prime-rl and rLLM: agents at work on one task, each with its rewards.

A trace is a tree of messages: the path to its last leaf is the conversation, other leaves are further parts.
Agents of several roles in an episode are one rollout with one score, as the task is one; agents of one role
(best of n) are rollouts of their own. Ids of tasks come again in other environments, steps and epochs, which
therefore belong to the key. Readers refuse or drop fields that they do not know: `ruler` stands in an object
that is free.

docs/formats.md says who writes each file, and what its keys do not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, tools_of
from ruler_cli.formats.fields import first_at, has_keys, items, lookup, objects
from ruler_cli.formats.interface import Format, RecordLayout, keyed_format
from ruler_cli.formats.reader import hashed_key, key_text
from ruler_cli.formats.trainers import read_pair
from ruler_cli.formats.turns import read_or_error
from ruler_cli.types import Rollout

_KEY_PARTS = ("env_name", "task", "step")
_KEYS = ("task.key", "task.hash", "traces.0.task.key", "traces.0.task.hash")


def _correct(metrics: Any) -> Any:
    """The metric `correct`, else the first whose name has that word; None if there is none."""
    if not isinstance(metrics, Mapping):
        return None
    return metrics.get(
        "correct",
        next((value for name, value in metrics.items() if "correct" in name), None),
    )


def _result_key(record: Mapping[str, Any]) -> str | None:
    more = [
        record[name] for name in _KEY_PARTS if isinstance(record.get(name), str | int)
    ]
    route = lookup(record, "info.env_id")
    more += [route] if isinstance(route, str | list) and route else []
    if not more or record.get("example_id") is None:
        return None
    return key_text([record["example_id"], *more])


def _read_result(record: dict[str, Any]) -> list[Rollout]:
    tools, outcome = (
        tools_of({"tools": record.get("tool_defs")}),
        _correct(record.get("metrics")),
    )
    return read_pair(record, tools=tools, outcome=outcome)


def _branches(nodes: Any) -> list[Messages]:
    """The messages from the root to each leaf, in the order of the leaves."""
    if not isinstance(nodes, list) or not nodes:
        raise UnreadableError(
            "has no messages in `nodes` (the rollout ended before the first turn)"
        )
    for i, node in enumerate(nodes):
        if not isinstance(node, dict) or "message" not in node:
            raise UnreadableError(f"`nodes[{i}]` holds no `message`")
        parent = node.get("parent")
        if parent is not None and (not isinstance(parent, int) or not 0 <= parent < i):
            raise UnreadableError(f"`nodes[{i}]` has no earlier node as its `parent`")
    branches, parents = [], {node.get("parent") for node in nodes}
    for leaf in (i for i in range(len(nodes)) if i not in parents):
        messages: list[Any] = []
        at: int | None = leaf
        while at is not None:
            messages.append(nodes[at]["message"])
            at = nodes[at].get("parent")
        branches.append(check_messages(messages[::-1], "nodes"))
    return branches


def _read_trace(trace: Mapping[str, Any]) -> Rollout:
    *parts, last = _branches(trace.get("nodes"))
    found = (_correct(trace.get(name)) for name in ("metrics", "rewards"))
    outcome = next((value for value in found if value is not None), None)
    outcome = outcome.get("score") if isinstance(outcome, dict) else outcome
    return Rollout(
        last, (), tuple(parts), tools_of(trace), trace.get("rewards"), outcome=outcome
    )


def _read_episode(record: dict[str, Any]) -> list[Rollout]:
    """The traces of an episode that train the model, one rollout each."""
    traces = record.get("traces")
    if not isinstance(traces, list) or not all(isinstance(t, dict) for t in traces):
        raise UnreadableError("has no list `traces` of objects")
    if not traces:
        raise UnreadableError(
            "has no `traces`: the environment failed before any agent began"
        )
    trained = [
        i for i, t in enumerate(traces) if lookup(t, "agent.trainable") is not False
    ]
    if not trained:
        raise UnreadableError(
            "has no trace of a `trainable` agent in `traces`: nothing here is to be scored"
        )
    roles = {key_text(lookup(traces[i], "agent.name")) for i in trained}
    member = (
        str(record.get("id") or hashed_key("episode", traces))
        if len(roles) > 1
        else None
    )
    return _rollouts(
        "traces", {i: traces[i] for i in trained}, "rewards", _read_trace, member=member
    )


def _rollouts(
    name: str,
    members: Mapping[int, Any],
    reward_name: str,
    read: Callable[..., Rollout],
    **shared: Any,
) -> list[Rollout]:
    """Read members of the list `name` by their indices; UnreadableError if none of them can be judged."""
    rollouts = []
    for i, value in members.items():
        reward = lookup(value, reward_name)
        rollouts.append(
            read_or_error(partial(read, value), (name, i), reward=reward, **shared)
        )
    if all(rollout.error is not None for rollout in rollouts):
        raise UnreadableError(f"`{name}[{rollouts[0].path[1]}]` {rollouts[0].error}")
    return rollouts


def _task_key(record: Mapping[str, Any]) -> str | None:
    """A hash of the task's data; None if the task has a key or hash of its own, or no data."""
    if first_at(record, *_KEYS) is not None:
        return None
    data = lookup(record, "task.data") or lookup(record, "traces.0.task.data")
    return None if data is None else hashed_key("task", data)


_WEIGHTED = RecordLayout(
    reward=("rewards",),
    ruler=("info", "ruler"),
    form=b'{"ruler": {"score": %s, "weight": 1.0}}',
    lost=b'{"ruler": null}',
)
_PLAIN = RecordLayout(
    reward=("rewards",), ruler=("info", "ruler"), form=b'{"ruler": %s}', lost=b"{}"
)


def _trace_layout(record: Mapping[str, Any]) -> RecordLayout | None:
    """The layout of a bare trace by the kind of its rewards, which tells its age; None for other records."""
    rewards = record.get("rewards", {})
    if not has_keys("nodes", "task")(record) or not isinstance(rewards, dict):
        return None
    first = lookup(
        record, "info.ruler.independent_reward"
    )  # a failed trace's own fields tell no age
    values = (first if isinstance(first, dict) else rewards).values()
    if any(isinstance(value, dict) for value in values):
        return _WEIGHTED
    figures = any(isinstance(value, int | float) for value in values)
    return _WEIGHTED if record.get("version") == 1 and not figures else _PLAIN


def _is_trace(record: Mapping[str, Any], layout: RecordLayout, group: str) -> bool:
    return _trace_layout(record) is layout and ("group_id" in record) == bool(group)


def _is_episode(record: Mapping[str, Any], group: str) -> bool:
    if (
        not isinstance(record.get("traces"), list)
        or not {"task", "env"} & record.keys()
    ):
        return False
    return (lookup(record, "group.id") is not None) == bool(group)


def _rllm_key(record: Mapping[str, Any]) -> str | None:
    task, step = first_at(record, "task_hash", "task.id"), record.get("training_step")
    if task is None and record.get("task") is not None:
        task = hashed_key("task", record["task"])
    if task is None:
        return None
    return key_text(task) + ("" if step is None else f" in step {key_text(step)}")


def _read_trajectory(value: Any) -> Rollout:
    """The conversations of a trajectory's steps that no later step continues, as one rollout."""
    conversations: list[Messages] = []
    for step in objects(lookup(value, "steps")):
        if messages := items(step.get("chat_completions")):
            conversations = [c for c in conversations if c != messages[: len(c)]]
            conversations.append(check_messages(messages, "chat_completions"))
    if not conversations:
        raise UnreadableError(
            "has no `chat_completions` in its steps: the workflow did not record them"
        )
    *earlier, last = conversations
    return Rollout(last, histories=tuple(earlier))


def _read_rllm(record: dict[str, Any]) -> list[Rollout]:
    trajectories = items(record.get("trajectories"))
    if not trajectories:
        raise UnreadableError(
            "has no `trajectories`: the workflow failed before the first of them"
        )
    names = {key_text(lookup(t, "name")) for t in trajectories}
    episode = (
        record.get("episode_id")
        or record.get("id")
        or hashed_key("episode", trajectories)
    )
    known = {
        "outcome": record.get("is_correct"),
        "member": key_text(episode) if len(names) > 1 else None,
    }
    return _rollouts(
        "trajectories",
        dict(enumerate(trajectories)),
        "reward",
        _read_trajectory,
        **known,
    )


def _of_task(name: str, bare: RecordLayout | None = None, *, group: str = "") -> Format:
    """A format of episodes, or of bare traces with a layout; `group` is the path of prime-rl's own key."""
    tells = "`nodes`, `task`, `rewards`" if bare else "`traces`, `task`"
    return Format(
        name,
        "prime-rl" if group else "verifiers",
        f"{tells}, `{group}`" if group else tells,
        partial(_is_trace, layout=bare, group=group)
        if bare
        else partial(_is_episode, group=group),
        (lambda record: [_read_trace(record)]) if bare else _read_episode,
        (group,) if group else _KEYS[:2] if bare else _KEYS,
        bare or _WEIGHTED,
        key_of=None if group else _task_key,
        key_description="" if group else "hash of task.data",
    )


FORMATS = (
    keyed_format(
        "example_id prompt completion", "verifiers results", "verifiers", _read_result, ("example_id",),
        key_of=_result_key, key_description="example_id with " + ", ".join((*_KEY_PARTS, "info.env_id")),
    ),
    _of_task("verifiers episodes"),
    _of_task("verifiers traces", _WEIGHTED),
    _of_task("verifiers 0.2 traces", _PLAIN),
    _of_task("prime-rl episodes", group="group.id"),
    _of_task("prime-rl weighted traces", _WEIGHTED, group="group_id"),
    _of_task("prime-rl traces", _PLAIN, group="group_id"),
    Format(
        "rLLM episodes", "rllm", "`trajectories`, `task_hash` or `episode_id`",
        lambda record: (
            isinstance(record.get("trajectories"), list)
            and bool({"task_hash", "episode_id", "eval_idx", "is_correct"} & record.keys())
        ),
        _read_rllm, key_of=_rllm_key, key_description="task_hash with training_step",
        layout=RecordLayout(ruler=("metadata", "ruler")),
    ),
)  # fmt: skip
