"""Episodes and traces of verifiers, prime-rl and rLLM: agents at work on one task, each with its rewards.

verifiers 0.1 and the legacy part of 0.2 and 0.3: `results.jsonl` of `vf-eval`, one rollout a line
(`verifiers/legacy/utils/save_utils.py` `state_to_output`, before 0.1.9 `Dataset.to_json`); prime-rl's
`train_rollouts.jsonl` and `eval_rollouts*.jsonl` (2026-04 to 07) have the same shape. Traps:
- `tool_calls` are JSON strings, flat or nested; `prompt` and `completion` may be text; `completion` is null
  where the rollout ended in an error.
- Metrics are repeated flat beside `reward` and may be called anything, `score` too.
- `example_id` begins anew in each environment and comes again in each step: `task` (text), `env_name`, `step`
  and an `EnvGroup`'s route (`info.env_id`) belong to the key where they are there.
- With `--independent-scoring`, and in prime-rl, the rollouts of a group lie apart.

verifiers 0.2 and later: `traces.jsonl` (`verifiers/v1/cli/output.py` `write_episode`), an episode a line, in
0.2 a bare trace. prime-rl's `rollouts/step_N/…/traces.jsonl` (`src/prime_rl/monitors/file.py`) are such
episodes (2026-08) or traces (2026-07) with a group, `group.id`, in July `group_id`. Traps:
- `None` is left out: the first node has no `parent`, a message with tool calls no `content`.
- The conversation is the way from the last leaf to its root; other leaves (a compacted context, a sub-agent)
  are further parts of the same rollout.
- There is no `reward`: `rewards` holds `{name: {score, weight}}`, in 0.2 `{name: number}`, and the reward is
  their sum. ruler's replaces them all; `null` (0.3) and `{}` (0.2) say that nothing was scored.
- Readers of 0.2 refuse fields that they do not know: ruler's own stands in `info`, which is free.
- `traces` is empty where an environment failed before any agent began.
- Agents of several roles in an episode are one rollout with one score, as the task is one; agents of one role
  (best of n) are rollouts of their own. What is not `trainable` is not scored.
- No group id: the task's key, its hash, or what it holds. Lines stand in the order of completion.
- In prime-rl's `effective/` groups may be smaller than they were; tasks come again in later steps.

rLLM: one episode a file (`rllm/utils/episode_logger.py` in training, `rllm/eval/episode_store.py`). Traps:
- The last step's `chat_completions` is the whole conversation; steps before it that it does not continue are
  further parts of the rollout. - Trajectories of several names (solver and judge) are parts of one rollout
  with one score; several of one name are rollouts of their own, as rLLM itself compares by (task, name).
- `task_hash` comes again in each epoch: `training_step` belongs to the key. The eval store has no hash.
- Its models drop fields that they do not know: ruler's own stands in a trajectory's `metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, tools_of
from ruler_cli.formats.interface import Format, RecordLayout, first_at, has_keys, items, lookup, objects
from ruler_cli.formats.named_fields import pair
from ruler_cli.formats.reader import hashed_key, key_text
from ruler_cli.formats.turns import read_or_error
from ruler_cli.types import Path, Rollout

_KEY_PARTS = ("env_name", "task", "step")
_KEYS = ("task.key", "task.hash", "traces.0.task.key", "traces.0.task.hash")


def _verdict(metrics: Any) -> Any:
    """What says whether the task was solved: the metric `correct`, or the first whose name has that word."""
    if not isinstance(metrics, Mapping):
        return None
    return metrics.get("correct", next((value for name, value in metrics.items() if "correct" in name), None))


def _result_key(record: Mapping[str, Any]) -> str | None:
    more = [record[name] for name in _KEY_PARTS if isinstance(record.get(name), str | int)]
    route = lookup(record, "info.env_id")
    more += [route] if isinstance(route, str | list) and route else []
    if not more or record.get("example_id") is None:
        return None
    return key_text([record["example_id"], *more])


def _result(record: dict[str, Any]) -> list[Rollout]:
    tools, outcome = tools_of({"tools": record.get("tool_defs")}), _verdict(record.get("metrics"))
    return [pair(record, "prompt", "completion", tools=tools, outcome=outcome)]


def _branches(nodes: Any) -> list[Messages]:
    """The messages from the root to each leaf, in the order of the leaves; UnreadableError says why not."""
    if not isinstance(nodes, list) or not nodes:
        raise UnreadableError("has no messages in `nodes` (the rollout ended before the first turn)")
    parents: list[int | None] = []
    for i, node in enumerate(nodes):
        if not isinstance(node, dict) or "message" not in node:
            raise UnreadableError(f"`nodes[{i}]` holds no `message`")
        parent = node.get("parent")
        if parent is not None and (not isinstance(parent, int) or not 0 <= parent < i):
            raise UnreadableError(f"`nodes[{i}]` has no earlier node as its `parent`")
        parents.append(parent)
    found = []
    for leaf in (i for i in range(len(nodes)) if i not in set(parents)):
        way: list[Any] = []
        at: int | None = leaf
        while at is not None:
            way.append(nodes[at]["message"])
            at = parents[at]
        found.append(check_messages(way[::-1], "nodes"))
    return found


def _trace(trace: Mapping[str, Any], path: Path, member: str | None) -> Rollout:
    *parts, last = _branches(trace.get("nodes"))
    outcome = _verdict(trace.get("metrics"))
    if outcome is None:
        outcome = _verdict(trace.get("rewards"))
    outcome = outcome.get("score") if isinstance(outcome, dict) else outcome
    return Rollout(last, path, tuple(parts), tools_of(trace), trace.get("rewards"), None, outcome, member)


def _episode(record: dict[str, Any]) -> list[Rollout]:
    """The traces of an episode that train the model."""
    traces = record.get("traces")
    if not isinstance(traces, list) or not all(isinstance(t, dict) for t in traces):
        raise UnreadableError("has no list `traces` of objects")
    if not traces:
        raise UnreadableError("has no `traces`: the environment failed before any agent began")
    trained = [i for i, t in enumerate(traces) if lookup(t, "agent.trainable") is not False]
    if not trained:
        raise UnreadableError("has no trace of a `trainable` agent in `traces`: nothing here is to be scored")
    roles = {key_text(lookup(traces[i], "agent.name")) for i in trained}
    member = str(record.get("id") or hashed_key("episode", traces)) if len(roles) > 1 else None
    found = []
    for i in trained:
        path, reward = ("traces", i), traces[i].get("rewards")
        found.append(
            read_or_error(partial(_trace, traces[i], path, member), path, reward=reward, member=member)
        )
    return _any("traces", found)


def _any(name: str, found: list[Rollout]) -> list[Rollout]:
    """Rollouts; UnreadableError if none of them can be judged."""
    if all(rollout.error is not None for rollout in found):
        raise UnreadableError(f"`{name}[{found[0].path[1]}]` {found[0].error}")
    return found


def _task_key(record: Mapping[str, Any]) -> str | None:
    """A hash of the task, where it has neither key nor hash of its own."""
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
_PLAIN = RecordLayout(reward=("rewards",), ruler=("info", "ruler"), form=b'{"ruler": %s}', lost=b"{}")


def _trace_layout(record: Mapping[str, Any]) -> RecordLayout | None:
    """The kind of a bare trace's rewards, which tells its age; None for other records."""
    rewards = record.get("rewards", {})
    if not has_keys("nodes", "task")(record) or not isinstance(rewards, dict):
        return None
    first = lookup(record, "info.ruler.independent_reward")  # what ruler left of a failure tells no age
    values = (first if isinstance(first, dict) else rewards).values()
    if any(isinstance(value, dict) for value in values):
        return _WEIGHTED
    figures = any(isinstance(value, int | float) for value in values)
    return _WEIGHTED if record.get("version") == 1 and not figures else _PLAIN


def _is_episode(record: Mapping[str, Any], *, grouped: bool) -> bool:
    found = isinstance(record.get("traces"), list) and bool({"task", "env"} & record.keys())
    return found and (lookup(record, "group.id") is not None) == grouped


def _rllm_key(record: Mapping[str, Any]) -> str | None:
    task = first_at(record, "task_hash", "task.id")
    if task is None and record.get("task") is not None:
        task = hashed_key("task", record["task"])
    step = record.get("training_step")
    if task is None or step is None:
        return None if task is None else key_text(task)
    return f"{key_text(task)} in step {key_text(step)}"


def _trajectory(value: Any, path: Path, reward: Any, outcome: Any, member: str | None) -> Rollout:
    """Each conversation of a trajectory's steps that no later step continues."""
    found: list[Messages] = []
    for step in objects(lookup(value, "steps")):
        if said := items(step.get("chat_completions")):
            found = [f for f in found if f != said[: len(f)]]
            found.append(check_messages(said, "chat_completions"))
    if not found:
        raise UnreadableError("has no `chat_completions` in its steps: the workflow did not record them")
    return Rollout(found[-1], path, tuple(found[:-1]), None, reward, None, outcome, member)


def _rllm(record: dict[str, Any]) -> list[Rollout]:
    trajectories = items(record.get("trajectories"))
    if not trajectories:
        raise UnreadableError("has no `trajectories`: the workflow failed before the first of them")
    names = {key_text(lookup(t, "name")) for t in trajectories}
    own = record.get("episode_id") or record.get("id") or hashed_key("episode", trajectories)
    known = {"outcome": record.get("is_correct"), "member": key_text(own) if len(names) > 1 else None}
    found = []
    for i, value in enumerate(trajectories):
        path, reward = ("trajectories", i), lookup(value, "reward")
        read = partial(_trajectory, value, path, reward, **known)
        found.append(read_or_error(read, path, reward=reward, **known))
    return _any("trajectories", found)


def _of_task(
    name: str,
    signature: str,
    matches: Any,
    rollouts: Any,
    keys: tuple[str, ...],
    layout: RecordLayout = _WEIGHTED,
) -> Format:
    """Agents at work on a task, which is the group of verifiers; groups of prime-rl have their own keys."""
    family = name.split(maxsplit=1)[0]
    key_of, key_description = (_task_key, "hash of task.data") if family == "verifiers" else (None, "")
    return Format(
        name,
        family,
        signature,
        matches,
        rollouts,
        keys=keys,
        layout=layout,
        key_of=key_of,
        key_description=key_description,
    )


def _bare(name: str, layout: RecordLayout, *, grouped: bool) -> Format:
    """A bare trace; with a `group_id` it is prime-rl's."""
    return _of_task(
        name,
        "`nodes`, `task`, `rewards`" + ", `group_id`" * grouped,
        lambda record: _trace_layout(record) is layout and ("group_id" in record) == grouped,
        lambda record: [_trace(record, (), None)],
        ("group_id",) if grouped else _KEYS[:2],
        layout,
    )


FORMATS = (
    Format(
        name="verifiers results",
        family="verifiers",
        signature="`example_id`, `prompt`, `completion`",
        matches=has_keys("example_id", "prompt", "completion"),
        rollouts=_result,
        keys=("example_id",),
        key_of=_result_key,
        key_description="example_id with " + ", ".join((*_KEY_PARTS, "info.env_id")),
    ),
    _of_task("verifiers episodes", "`traces`, `task`", partial(_is_episode, grouped=False), _episode, _KEYS),
    _bare("verifiers traces", _WEIGHTED, grouped=False),
    _bare("verifiers 0.2 traces", _PLAIN, grouped=False),
    _of_task(
        "prime-rl episodes",
        "`traces`, `task`, `group.id`",
        partial(_is_episode, grouped=True),
        _episode,
        ("group.id",),
    ),
    _bare("prime-rl weighted traces", _WEIGHTED, grouped=True),
    _bare("prime-rl traces", _PLAIN, grouped=True),
    Format(
        name="rLLM episodes",
        family="rllm",
        signature="`trajectories`, `task_hash` or `episode_id`",
        matches=lambda record: (
            isinstance(record.get("trajectories"), list)
            and bool({"task_hash", "episode_id", "eval_idx", "is_correct"} & record.keys())
        ),
        rollouts=_rllm,
        key_of=_rllm_key,
        key_description="task_hash with training_step",
        layout=RecordLayout(ruler=("metadata", "ruler")),
    ),
)
