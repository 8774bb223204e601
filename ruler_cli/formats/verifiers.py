"""verifiers: `results.jsonl` of `vf-eval` (0.1 and the legacy part of 0.2 and 0.3), one rollout a line.

Written by `verifiers/legacy/utils/save_utils.py` `state_to_output`, before 0.1.9 by `Dataset.to_json`;
prime-rl's `train_rollouts.jsonl` and `eval_rollouts*.jsonl` (2026-04 to 07) have the same shape. Traps:
- `tool_calls` are JSON strings, flat or nested; `prompt` and `completion` may be text.
- `completion` is null where the rollout ended in an error.
- Metrics are repeated flat beside `reward` and may be called anything, `score` too.
- `example_id` begins anew in each environment and comes again in each step: `task` (text), `env_name`,
  `step` and an `EnvGroup`'s route (`info.env_id`) belong to the key where they are there.
- With `--independent-scoring`, and in prime-rl, the rollouts of a group lie apart.

Messages as nodes that name their parent → conversations, one for each leaf.

verifiers 0.2 and later: episodes and bare traces, whose messages are nodes of a graph.

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

prime-rl: `rollouts/step_N/…/traces.jsonl`, verifiers' episodes (2026-08) or traces (2026-07) with a group.

Written by `src/prime_rl/monitors/file.py` `FileMonitor.log_episodes`. Traps beside those of verifiers:
- The group is `group.id`, in July `group_id`; the task comes again in later steps with another group.
- `all/` is in the order of arrival; in `effective/` groups may be smaller than they were.
- Token ids, masks and log probabilities on the nodes are most of the bytes.
`train_rollouts.jsonl` (2026-04) has the shape of verifiers' results and is read as that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import check_messages, tools_of
from ruler_cli.formats.interface import Format, Layout, lookup
from ruler_cli.formats.named_fields import pair
from ruler_cli.formats.reader import as_text, hashed
from ruler_cli.records import Path, Rollout

_KEY_PARTS = ("env_name", "task", "step")


def verdict(metrics: Any) -> Any:
    """What says whether the task was solved: the metric `correct`, or the first whose name has that word."""
    if not isinstance(metrics, Mapping):
        return None
    name = next((name for name in metrics if "correct" in name), None)
    return metrics.get("correct", metrics[name]) if name is not None else None


def _result_key(record: Mapping[str, Any]) -> str | None:
    more = [record[name] for name in _KEY_PARTS if isinstance(record.get(name), str | int)]
    route = lookup(record, "info.env_id")
    more += [route] if isinstance(route, str | list) and route else []
    if not more or record.get("example_id") is None:
        return None
    return as_text([record["example_id"], *more])


def _read_result(record: dict[str, Any]) -> list[Rollout]:
    tools = tools_of({"tools": record.get("tool_defs")})
    outcome = verdict(record.get("metrics"))
    return [pair(record, "prompt", "completion", tools=tools, outcome=outcome)]


RESULTS = Format(
    name="verifiers results",
    family="verifiers",
    shape="trajectory",
    tells="`example_id`, `prompt`, `completion`",
    matches=lambda record: {"example_id", "prompt", "completion"} <= record.keys(),
    rollouts=_read_result,
    keys=("example_id",),
    key_of=_result_key,
    key_told="example_id with " + ", ".join((*_KEY_PARTS, "info.env_id")),
)


def branches(nodes: Any) -> list[list[Any]]:
    """The messages from the root to each leaf, in the order of the leaves; UnreadableError says why not."""
    if not isinstance(nodes, list) or not nodes:
        raise UnreadableError("has no messages in `nodes` (the rollout ended before the first turn)")
    parents: list[int | None] = []
    for i, node in enumerate(nodes):
        parent = node.get("parent") if isinstance(node, dict) else None
        if not isinstance(node, dict) or "message" not in node:
            raise UnreadableError(f"`nodes[{i}]` holds no `message`")
        if parent is not None and (not isinstance(parent, int) or not 0 <= parent < i):
            raise UnreadableError(f"`nodes[{i}]` has no earlier node as its `parent`")
        parents.append(parent)
    inner = set(parents)
    found = []
    for leaf in range(len(nodes)):
        if leaf in inner:
            continue
        way: list[Any] = []
        at: int | None = leaf
        while at is not None:
            way.append(nodes[at]["message"])
            at = parents[at]
        found.append(way[::-1])
    return found


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


def _bare(name: str, kind: str, *, grouped: bool) -> Format:
    """A bare trace; with a `group_id` it is prime-rl's."""
    return Format(
        name=name,
        family="prime-rl" if grouped else "verifiers",
        shape="trajectory",
        tells="`nodes`, `task`, `rewards`" + ", `group_id`" * grouped,
        matches=lambda record: is_trace(record) == kind and ("group_id" in record) == grouped,
        rollouts=read_bare,
        keys=("group_id",) if grouped else KEYS[:2],
        key_of=None if grouped else task_key,
        key_told="" if grouped else "hash of task.data",
        layout=WEIGHTED if kind == "weighted" else PLAIN,
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


PRIME_RL = Format(
    name="prime-rl episodes",
    family="prime-rl",
    shape="trajectory",
    tells="`traces`, `task`, `group.id`",
    matches=lambda record: is_episode(record) and lookup(record, "group.id") is not None,
    rollouts=read_episode,
    keys=("group.id",),
    layout=WEIGHTED,
)


FORMATS = (
    RESULTS,
    EPISODE,
    _bare("verifiers traces", "weighted", grouped=False),
    _bare("verifiers 0.2 traces", "plain", grouped=False),
    PRIME_RL,
    _bare("prime-rl weighted traces", "weighted", grouped=True),
    _bare("prime-rl traces", "plain", grouped=True),
)
