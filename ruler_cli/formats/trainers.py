"""Dumps of trainers and environments: NeMo-Gym, NeMo-RL, verl, ROLL, ms-swift, Atropos, verifiers, prime-rl, rLLM.

Texts may hold lines like `user` and the special tokens of a chat template. A model can write these too, so an
answer is one turn whatever its text. Lists of unequal length cannot be read, because nothing tells which
items belong together. Without a group id rollouts with an equal prompt are a group.

A trace is a tree of messages: the path to each leaf is a part of the rollout, in the order in which they begin.
Agents of several roles in an episode are one rollout with one score, as the task is one; agents of one role
(best of n) are rollouts of their own. Ids of tasks come again in other environments, steps and epochs, which
therefore belong to the key. Readers refuse or drop fields that they do not know: `ruler` stands in an object
that is free.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    first_of,
    is_list,
    is_message_list,
    is_text,
    items,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.chat import (
    make_rollout,
    prompt_at,
    read_or_error,
)
from ruler_cli.formats.keys import hashed_key, key_text
from ruler_cli.formats.paths import Rollouts
from ruler_cli.messages.content import first_agent_turn, new_turn
from ruler_cli.messages.conversations import (
    check_messages,
    last_states,
    prompt_turns,
)
from ruler_cli.messages.endings import ending
from ruler_cli.messages.names import TRANSCRIPT
from ruler_cli.types import Rollout

_UID = re.compile(r"(.+)_\d+_\d+", re.DOTALL)


def verl_group(record: JsonObject) -> str | None:
    """Return the group of a `uid` of verl, which ends with the numbers of session and output; None for another."""
    match = _UID.fullmatch(str(record.get("uid")))
    return match and match[1]


def with_session(
    record: JsonObject,
    rollout: Rollout,
) -> Rollout:
    """Name the session of verl's V1, whose outputs are one rollout."""
    return replace(rollout, member=record["uid"].rpartition("_")[0])


_GYM_TASKS = words(
    "input metadata.problem_statement metadata.question metadata.prompt metadata.instruction metadata.problem "
    "metadata.task"
)
"""Paths of the task of a request; never `metadata.instance_dict`, which holds the solution."""


def read_gym(record: JsonObject) -> Rollout:
    """Read a rollout of NeMo-Gym."""
    asked = record["responses_create_params"]
    output = lookup(record, "response.output")
    # its items, or lists of them: each is the conversation up to a step
    listed = [output]
    if items(output) and all(map(is_list, output)):
        listed = output
    parts = [check_messages(part, "response.output") for part in listed]
    # one that no other continues stays: a context that was compacted, another attempt
    backwards = last_states(reversed(last_states(parts)))
    last, *earlier = backwards
    # an output may begin with the task
    places = _GYM_TASKS if first_agent_turn(last) == 0 else _GYM_TASKS[:1]
    prompt = prompt_at(asked, places)
    rules = asked.get("instructions")
    if is_text(rules) and rules:
        prompt = [new_turn("system", rules), *prompt]
    failed = record.get("_ng_failure_class")
    return make_rollout(
        prompt,
        last,
        histories=tuple(earlier[::-1]),
        # of a verifier that failed the number says nothing
        reward=record.get("reward") if failed is None else None,
    )


def read_nemo_rl(record: JsonObject) -> Rollout:
    """Read a rollout of NeMo-RL, whose values stand in lists of one: messages, or texts of the model and the tools."""
    (content,) = record["content"]
    reward = lookup(record, "rewards.0")
    if is_message_list(content):
        return Rollout(check_messages(content, "content[0]"), reward=reward)
    prompt, *rest = items(content)
    answer = new_turn("assistant", "".join(rest))
    return make_rollout(
        prompt_turns(prompt, "content"), [answer], reward=reward
    )


def with_transcript(
    _: JsonObject,
    rollout: Rollout,
) -> Rollout:
    """Mark the only message of an Atropos rollout as a whole conversation if it is the user's."""
    message, *more = rollout.messages
    if more or message.get("role") != "user":
        return rollout
    whole = {**message, "role": TRANSCRIPT}
    return replace(rollout, messages=[whole])


def read_trace(trace: JsonObject) -> Rollout:
    """Read a bare trace: the messages from a root to each leaf are a part, in the order in which they begin."""
    nodes = items(trace.get("nodes"))
    if not nodes:
        raise UnreadableError(
            "has no messages in `nodes` (the rollout ended before the first turn)"
        )
    parents = [node.get("parent") for node in nodes]
    for number, parent in enumerate(parents):
        if parent is not None and parent not in range(number):
            raise UnreadableError(
                f"`nodes[{number}]` has no earlier node as its `parent`"
            )
    branches = []
    for leaf in {*range(len(nodes))}.difference(parents):
        branch = [leaf]
        while (above := parents[branch[-1]]) is not None:
            branch.append(above)
        branches.append(branch[::-1])
    # as they begin: an agent before those that it calls, a context before its summary
    parts = []
    for branch in sorted(branches):
        messages = [nodes[number]["message"] for number in branch]
        parts.append(check_messages(messages, "nodes"))
    main, *further = parts
    ended = ""
    if not trace.get("ok"):  # else the errors are of earlier attempts
        ended = ending("errors", trace.get("errors"))
    return Rollout(
        main,
        histories=tuple(further),
        ended=ended,
    )


def read_episode(record: JsonObject) -> Rollouts:
    """Read the traces of an episode that train the model, one rollout each."""
    return _rollouts(
        record,
        "traces",
        "agent.name",
        read_trace,
    )


def _rollouts(
    record: JsonObject,
    name: str,
    role: str,
    read: Callable[[Any], Rollout],
) -> Rollouts:
    """Read the trained members of the list `name`; UnreadableError if none of them can be judged.

    Members of several roles, at the path `role`, are parts of one rollout, in the order in which they began.
    """
    members = []
    for number, value in enumerate(items(record.get(name))):
        if lookup(value, "agent.trainable") is not False:
            members.append((value, (name, number)))
    if not members:
        raise UnreadableError(
            f"has no `{name}` of a `trainable` agent: there is nothing to score"
        )
    roles = {key_text(lookup(value, role)) for value, _ in members}
    member = None
    if len(roles) > 1:
        episode = first_of(record, ("episode_id", "id"))
        member = key_text(episode or hashed_key("episode", record[name]))
        # they stand in the order in which they ended
        members.sort(key=lambda pair: lookup(pair[0], "timing.start") or 0.0)
    rollouts = [
        read_or_error(
            path,
            read,
            value,
            member=member,
        )
        for value, path in members
    ]
    errors = [rollout.error for rollout in rollouts]
    if None not in errors:
        raise UnreadableError(f"`{name}[{rollouts[0].path[1]}]` {errors[0]}")
    return rollouts


def read_rllm(record: JsonObject) -> Rollouts:
    """Read the trajectories of an rLLM episode."""

    def read(value: Any) -> Rollout:
        """Read the conversations of a trajectory's steps that no later step continues."""
        listed = []
        for step in objects(lookup(value, "steps")):
            if conversation := items(step.get("chat_completions")):
                listed.append(check_messages(conversation, "chat_completions"))
        if not listed:
            raise UnreadableError(
                "has no `chat_completions` in its steps: the workflow did not record them"
            )
        *earlier, last = last_states(listed)
        return Rollout(last, histories=tuple(earlier))

    return _rollouts(
        record,
        "trajectories",
        "name",
        read,
    )
