"""Dumps of trainers that names of fields do not describe: NeMo-Gym, NeMo-RL, verl, ROLL, ms-swift, Atropos.

Texts may hold lines like `user` and the special tokens of a chat template. A model can write these too, so an
answer is one turn whatever its text. Lists of unequal length cannot be read, because nothing tells which
items belong together. Without a group id rollouts with an equal prompt are a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats import turns
from ruler_cli.formats.chat import (
    TRANSCRIPT,
    Messages,
    check_messages,
    first_agent_turn,
    last_states,
    new_turn,
    tools_of,
)
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    Rollouts,
    column,
    first,
    first_at,
    is_list,
    is_message_list,
    is_object,
    is_text,
    is_text_list,
    items,
    json_value,
    list_field,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.reader import hashed_key, key_text
from ruler_cli.formats.table import Fields
from ruler_cli.formats.turns import read_or_error
from ruler_cli.types import Rollout

_VERL = Fields("input", "output", outcome="acc")


def read_verl_v1(record: JsonObject) -> Rollouts:
    """Read one output of a rollout of verl's V1: the outputs of one session are one rollout."""
    session, _, _ = record["uid"].rpartition("_")
    return [replace(rollout, member=session) for rollout in _VERL(record)]


def verl_group(record: JsonObject) -> str | None:
    """Return the group of a `uid`, which ends with the numbers of the session and of the output."""
    uid, *numbers = str(record.get("uid")).rsplit("_", 2)
    return uid if len(numbers) == 2 else None


_TASKS = words("problem_statement question prompt instruction problem task")
_INPUT = "responses_create_params.input"
_RULES = "responses_create_params.instructions"


def gym_key(record: JsonObject) -> str | None:
    """Return the task's index with its agent, or a hash of the input."""
    index = first_at(record, "_ng_task_index", "task_idx")
    agent = lookup(record, "agent_ref.name")
    if index is not None:
        return key_text(index if agent is None else [agent, index])
    task = lookup(record, _INPUT) or _gym_task(record)
    if not task:  # the part of the output before the agent's first turn
        output = _gym_conversations(lookup(record, "response.output"))[-1]
        task = output[: first_agent_turn(output)]
    return hashed_key("input", [lookup(record, _RULES), task]) if task else None


def _gym_task(record: JsonObject) -> str | None:
    """Return the task of a record with an empty input; never `instance_dict`, which holds the solution."""
    known = (
        lookup(record, f"responses_create_params.metadata.{name}") for name in _TASKS
    )
    return first(t for t in known if is_text(t) and t.strip())


def _gym_conversations(output: Any) -> list[Messages]:
    """Return the items of an output, or the lists of a list of lists: each is the conversation up to a step.

    A list that no other one continues stays: a context that was compacted, another attempt.
    """
    if not items(output) or not all(is_list(item) for item in output):
        return [check_messages(output, "response.output")]
    parts = last_states(check_messages(item, "response.output") for item in output)
    return last_states(parts[::-1])[::-1]


def read_gym(record: JsonObject) -> Rollouts:
    """Read a rollout of NeMo-Gym."""
    output, task, rules = (
        lookup(record, path) for path in ("response.output", _INPUT, _RULES)
    )
    if not output:
        raise UnreadableError(
            "has no items in `response.output`: the agent failed before it answered"
        )
    *earlier, last = _gym_conversations(output)
    system = [new_turn("system", rules)]
    task = task if task or first_agent_turn(last) else _gym_task(record)
    failed = record.get("_ng_failure_class")
    rollout = turns.make_rollout(
        [
            *(system if is_text(rules) and rules else []),
            *turns.prompt_turns(task, "input"),
        ],
        turns.with_submission(record, last),
        histories=tuple(earlier),
        tools=tools_of({"tools": lookup(record, "responses_create_params.tools")}),
        # of a verifier that failed the number says nothing
        reward=record.get("reward") if failed is None else None,
    )
    return [rollout]


def read_nemo_rl(record: JsonObject) -> Rollouts:
    """Read a rollout of NeMo-RL, whose values stand in lists of one."""
    content, reward = (
        values[0] if len(values := items(record.get(name))) == 1 else None
        for name in ("content", "rewards")
    )
    if is_message_list(content):
        return [Rollout(check_messages(content, "content[0]"), reward=reward)]
    if not is_text_list(content):
        raise UnreadableError("has neither texts nor messages in `content[0]`")
    prompt, *rest = items(content)
    if not rest:
        raise UnreadableError("has a prompt and no answer in `content[0]`")
    asked = [new_turn("user", prompt)] if prompt else []
    answer = new_turn("assistant", "".join(rest))
    return [Rollout([*asked, answer], reward=reward)]


def read_swift(record: JsonObject) -> Rollouts:
    """Read a step of ms-swift: columns of prompts and completions."""
    return _read_step(record, "prompt", "completion")


def read_roll(record: JsonObject) -> Rollouts:
    """Read a step of ROLL: columns of prompts or conversations, and of responses."""
    return _read_step(record, "responses", "responses", ("messages", "id"))


def _read_step(
    record: JsonObject, listed: str, answer: str, more: Names = ()
) -> Rollouts:
    """Read columns of prompts and answers; `more` are ROLL's conversations and ids."""
    size = len(list_field(record, listed, " (the file is a step a line)"))
    columns = (column(record, name, size) for name in ("prompt", answer, *more))
    prompts, answers, *others = columns
    out = []
    for i in range(size):
        asked = turns.prompt_turns(prompts[i], f"prompt[{i}]")
        if others and others[0][i] is not None:
            asked = turns.chat_turns(others[0][i], f"messages[{i}]")
        out.append(turns.answer_rollout(asked, answers[i], (i,)))
    return out


def read_roll_agentic(record: JsonObject) -> Rollouts:
    """Read a step of ROLL's agents: columns of conversations."""
    where = " (ROLL dumps it where its environment declares it)"
    texts = list_field(record, "messages", where)
    data, tools, scores = (
        column(record, n, len(texts)) for n in ("trajectory_data", "tools", "scores")
    )
    out = []
    for i, text in enumerate(texts):
        about, reward = json_value(data[i]), scores[i]
        env = lookup(about, "env_info")
        parts = [
            str(env.get(name)) for name in ("tag", "group_id", "episode_id", "seed")
        ] if is_object(env) else []  # fmt: skip
        key = "_".join(parts) or None
        if reward is None:
            reward = lookup(about, "reward_info.episode_reward")
        read = partial(_episode, text, f"messages[{i}]", json_value(tools[i]))
        out.append(turns.read_or_error(read, (i,), reward=reward, key=key))
    return out


def _episode(text: Any, where: str, tools: Any) -> Rollout:
    """Read one conversation, or several that a context was cut into."""
    value = json_value(text)
    if items(value) and all(is_list(part) for part in value):
        parts = [part for part in value if part] or [[]]
    else:
        parts = [value]
    *earlier, last = (turns.chat_turns(part, where) for part in parts)
    return Rollout(last, histories=tuple(earlier), tools=tools)


def read_atropos(record: JsonObject) -> Rollouts:
    """Read a group of Atropos."""
    conversations = record.get("messages")
    if not is_list(conversations):
        raise UnreadableError(
            "has token ids only: `messages` is null; run the environment with include_messages"
        )
    column(record, "tokens", len(conversations))
    return [
        turns.read_or_error(partial(_conversation, value, f"messages[{i}]"), (i,))
        for i, value in enumerate(conversations)
    ]


def _conversation(value: Any, where: str) -> Rollout:
    messages = check_messages(value, where)
    if len(messages) == 1 and messages[0].get("role") == "user":
        messages = [{**messages[0], "role": TRANSCRIPT}]
    return Rollout(messages)


_RESULT = Fields("prompt", "completion", tools="tool_defs")


def _correct(metrics: Any) -> Any:
    """The metric `correct`, else the first whose name has that word; None if there is none."""
    if not is_object(metrics):
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
        if not is_object(node) or "message" not in node:
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
    outcome = outcome.get("score") if is_object(outcome) else outcome
    return Rollout(last, (), tuple(parts), tools_of(trace), outcome=outcome)


def read_episode(record: JsonObject) -> Rollouts:
    """Read the traces of an episode that train the model, one rollout each."""
    traces = items(record.get("traces"))
    if not traces or not all(is_object(t) for t in traces):
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
    if not is_object(rewards):
        return None
    # a failed trace's own fields tell no age
    first = lookup(record, "info.ruler.independent_reward")
    values = (first if is_object(first) else rewards).values()
    if any(is_object(value) for value in values):
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
