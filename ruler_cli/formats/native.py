"""ruler's own shapes, `{"trajectories": [{"messages": …}, …]}` and `{"messages": …}`, and OpenPipe ART's.

ART: groups and trajectories with `messages_and_choices` or `exchanges`, and table rows. Every key is
optional: the newest `model_dump` leaves out what equals its default (a reward of 0.0 too). The rows of ART's
Parquet files, exported as JSON lines, hold metrics, tools and payloads as JSON text; `trajectory_json` wins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    first,
    is_list,
    is_object,
    items,
    json_value,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.chat import (
    read_conversation,
    read_or_error,
    tools_of,
    with_task,
)
from ruler_cli.formats.format import holds
from ruler_cli.formats.names import ANSWER_LISTS, ANSWERS, SUBMISSIONS, TOOLS
from ruler_cli.formats.paths import Rollouts
from ruler_cli.messages.content import Messages
from ruler_cli.messages.conversations import (
    SYSTEM,
    chat_turns,
    check_messages,
    last_states,
)
from ruler_cli.messages.names import AGENT_ROLES
from ruler_cli.types import Path, Rollout

ART = ("messages_and_choices", "exchanges")
BESIDE = frozenset(
    path.partition(".")[0]
    for path in (
        *SYSTEM,
        *ANSWERS,
        *ANSWER_LISTS,
        *SUBMISSIONS,
        *TOOLS,
        *ART,
        "additional_histories",
    )
)
"""Fields beside `messages` and `tools` that belong to the conversation, or hold what does."""
_REQUEST = frozenset(
    words(
        "model messages tools tool_choice functions parallel_tool_calls temperature top_p top_k max_tokens seed stop n "
        "max_completion_tokens stream stream_options response_format reasoning reasoning_effort extra_body thinking "
        "presence_penalty frequency_penalty logprobs top_logprobs logit_bias user service_tier store system"
    )
)
"""Members of a request to a model."""
_SENT = "model max_tokens|max_completion_tokens|stream"


def read_trajectory(
    value: Any,
    path: Path = (),
) -> Rollout:
    """Read one trajectory object, native or ART; if it cannot be judged, the rollout has an `error`."""
    return read_or_error(
        path,
        _read,
        value,
        reward=lookup(value, "reward"),
    )


def _read(value: Any) -> Rollout:
    if not is_object(value):
        raise UnreadableError("is not an object")
    recorded = _recorded(value) if "exchanges" in value else []
    messages = _main(value, recorded)
    if BESIDE.isdisjoint(value):  # fast, as most dumps have none of these
        return Rollout(messages, tools=value.get("tools") and tools_of(value))
    further = []
    for history in items(value.get("additional_histories")):
        if is_object(history):
            further.append(_main(history, _recorded(history)))
        elif is_list(history):
            further.append(check_messages(history, "additional_histories"))
    offered = (lookup(request, "tools") for request, _ in _exchanges(value))
    return read_conversation(
        value,
        messages,
        histories=(*further, *recorded[:-1]),
        tools=tools_of(value) or first(offered),
    )


def _main(
    value: JsonObject,
    recorded: list[Messages],
) -> Messages:
    """Return the main conversation of a trajectory; UnreadableError if there is none."""
    for key in ("messages", "messages_and_choices"):
        if value.get(key) is not None:
            turns = chat_turns(value[key], key)
            return turns if turns is value[key] else with_task(value, turns)
    if not recorded:
        raise UnreadableError("has no messages")
    return recorded[-1]


def _exchanges(trajectory: JsonObject) -> list[tuple[JsonObject, JsonObject]]:
    """Return the requests that ART recorded, each with its response."""
    kinds = words("chat_completions responses messages completions")
    both = [
        (exchange.get("request"), exchange.get("response"))
        for kind in kinds
        for exchange in objects(lookup(trajectory, f"exchanges.{kind}"))
    ]
    return [(a, b) for a, b in both if is_object(a) and is_object(b)]


def _recorded(trajectory: JsonObject) -> list[Messages]:
    """Return the recorded conversations without those that a later one continues."""
    from ruler_cli.messages.dialects import agent_turns, question_turns

    return last_states(
        [*question_turns(request), *agent_turns(response)]
        for request, response in _exchanges(trajectory)
    )


def read_group(record: JsonObject) -> Rollouts:
    """Read all trajectories of a group line; one that cannot be read does not stop the others."""
    trajectories = record.get("trajectories")
    if not is_list(trajectories):
        raise UnreadableError("has no list `trajectories`")
    return [
        read_trajectory(t, ("trajectories", i))
        for i, t in enumerate(trajectories)
    ]


def read_single(record: JsonObject) -> Rollout:
    """Read the one trajectory of a trajectory line; UnreadableError if it cannot be judged."""
    rollout = read_trajectory(record)
    if rollout.error is not None:
        raise UnreadableError(rollout.error)
    is_asked = lookup(rollout.messages, "-1.role") not in AGENT_ROLES
    if is_asked and record.keys() <= _REQUEST and holds(record, _SENT):
        raise UnreadableError(
            "is a request to a model without its response; give both, as `request` and `response`"
        )
    label = record.get(
        "label"
    )  # of TRL's and LLaMA-Factory's unpaired preferences
    if isinstance(label, bool):
        return replace(rollout, outcome=label)
    return rollout


def read_row(record: JsonObject) -> Rollout:
    """Read a row of ART's tables."""
    return read_single(json_value(record.get("trajectory_json")) or record)
