"""verifiers 0.2 and later: episodes and bare traces, whose messages are nodes of a graph.

Written by `verifiers/v1/cli/output.py` `write_episode` (`traces.jsonl`, 0.3) and, one trace a line, by 0.2.
Traps:
- `None` is left out: the first node has no `parent`, a message with tool calls no `content`.
- The conversation is the way from the last leaf to its root; other leaves (a compacted context, a sub-agent)
  are further parts of the same rollout.
- There is no `reward`: `rewards` holds `{name: {score, weight}}`, in 0.2 `{name: number}`, and the reward
  is their sum. ruler's replaces them all; `null` (0.3) and `{}` (0.2) say that nothing was scored.
- Readers of 0.2 refuse fields that they do not know: ruler's own stands in `info`, which is free.
- `traces` is empty where an environment failed before any agent began.
- Agents of several roles in an episode are one rollout with one score, as the task is one; agents of one
  role (best of n) are rollouts of their own. What is not `trainable` is not scored.
- No group id: the task's key, its hash, or what it holds. Lines stand in the order of completion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import check_messages, tools_of
from ruler_cli.formats.graph import branches
from ruler_cli.formats.interface import Format, Layout, lookup
from ruler_cli.formats.reader import as_text, hashed
from ruler_cli.formats.verifiers import verdict
from ruler_cli.records import Path, Rollout

WEIGHTED = Layout(
    reward=("rewards",),
    ruler=("info", "ruler"),
    form=b'{"ruler": {"score": %s, "weight": 1.0}}',
    lost=b'{"ruler": null}',
)
PLAIN = Layout(reward=("rewards",), ruler=("info", "ruler"), form=b'{"ruler": %s}', lost=b"{}")
KEYS = ("task.key", "task.hash", "traces.0.task.key", "traces.0.task.hash")


def read_trace(trace: Mapping[str, Any], path: Path = (), member: str | None = None) -> Rollout:
    """One trace; what cannot be judged says so in `fault`."""
    try:
        found = [check_messages(branch, "nodes") for branch in branches(trace.get("nodes"))]
    except UnreadableError as error:
        return Rollout([], path, reward=trace.get("rewards"), fault=str(error), member=member)
    outcome = verdict(trace.get("metrics"))
    if outcome is None:
        outcome = verdict(trace.get("rewards"))
    outcome = outcome.get("score") if isinstance(outcome, dict) else outcome
    return Rollout(
        found[-1], path, tuple(found[:-1]), tools_of(trace), trace.get("rewards"), None, outcome, member
    )


def read_bare(record: dict[str, Any]) -> list[Rollout]:
    """The one trace of a line."""
    rollout = read_trace(record)
    if rollout.fault is not None:
        raise UnreadableError(rollout.fault)
    return [rollout]


def read_episode(record: dict[str, Any]) -> list[Rollout]:
    """The traces of an episode that train the model."""
    traces = record.get("traces")
    if not isinstance(traces, list) or not all(isinstance(t, dict) for t in traces):
        raise UnreadableError("has no list `traces` of objects")
    if not traces:
        raise UnreadableError("has no `traces`: the environment failed before any agent began")
    trained = [i for i, t in enumerate(traces) if lookup(t, "agent.trainable") is not False]
    if not trained:
        raise UnreadableError("has no trace of a `trainable` agent in `traces`: nothing here is to be scored")
    roles = {as_text(lookup(traces[i], "agent.name")) for i in trained}
    member = str(record.get("id") or hashed("episode", traces)) if len(roles) > 1 else None
    rollouts = [read_trace(traces[i], ("traces", i), member) for i in trained]
    if all(r.fault is not None for r in rollouts):
        raise UnreadableError(f"`traces[{trained[0]}]` {rollouts[0].fault}")
    return rollouts


def task_key(record: Mapping[str, Any]) -> str | None:
    """A hash of the task, where it has neither key nor hash of its own."""
    if any(lookup(record, path) is not None for path in KEYS):
        return None
    data = lookup(record, "task.data") or lookup(record, "traces.0.task.data")
    return None if data is None else hashed("task", data)


def is_trace(record: Mapping[str, Any]) -> Literal["weighted", "plain"] | None:
    """Whether a record is a bare trace, and of which age its rewards are."""
    rewards = record.get("rewards", {})
    if not {"nodes", "task"} <= record.keys() or not isinstance(rewards, dict):
        return None
    first = lookup(record, "info.ruler.independent_reward")  # what ruler left of a failure tells no age
    rewards = first if isinstance(first, dict) else rewards
    if any(isinstance(value, dict) for value in rewards.values()):
        return "weighted"
    figures = any(isinstance(value, int | float) for value in rewards.values())
    return "weighted" if record.get("version") == 1 and not figures else "plain"


def is_episode(record: Mapping[str, Any]) -> bool:
    """Whether a record is an episode, of verifiers or of prime-rl."""
    return isinstance(record.get("traces"), list) and bool({"task", "env"} & record.keys())


def _bare(name: str, kind: str, layout: Layout) -> Format:
    return Format(
        name=name,
        family="verifiers",
        shape="trajectory",
        tells="`nodes`, `task`, `rewards`",
        matches=lambda record: is_trace(record) == kind and "group_id" not in record,
        rollouts=read_bare,
        keys=KEYS[:2],
        key_of=task_key,
        key_told="hash of task.data",
        layout=layout,
    )


EPISODE = Format(
    name="verifiers episodes",
    family="verifiers",
    shape="trajectory",
    tells="`traces`, `task`",
    matches=lambda record: is_episode(record) and lookup(record, "group.id") is None,
    rollouts=read_episode,
    keys=KEYS,
    key_of=task_key,
    key_told="hash of task.data",
    layout=WEIGHTED,
)
FORMATS = (
    EPISODE,
    _bare("verifiers traces", "weighted", WEIGHTED),
    _bare("verifiers 0.2 traces", "plain", PLAIN),
)
