"""Records of agent frameworks: AutoGen, LangChain, ADK, SWE-agent, OpenHands, SWE-bench, ATIF, Harbor.

The work that a coding agent handed in may stand beside its messages, and the judge must see it.
Several records may be one rollout: the episodes of a trial, the files of a session that was continued.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    first,
    first_at,
    is_list,
    is_message_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    objects,
)
from ruler_cli.formats.chat import with_submission
from ruler_cli.formats.events import KINDS
from ruler_cli.formats.sessions import Session, atif, autogen, openhands
from ruler_cli.messages.content import new_turn
from ruler_cli.messages.conversations import (
    check_messages,
)
from ruler_cli.messages.dialects import (
    each_at,
    normalize_message,
    result_turn,
)
from ruler_cli.types import Rollout

_PATHS = (
    "messages message_thread llm_messages llm_context.messages values.messages channel_values.messages "
    "checkpoint.channel_values.messages user_input"
)
"""Paths of the messages of AutoGen (of a result, or of the input of a model), LangChain and LangGraph."""


def _listed(record: JsonObject) -> list[Any]:
    """The first list of messages, or of the state of one of AutoGen's agents; [] if there is none."""
    states = record.get("agent_states") or {}
    values = each_at(record, _PATHS)
    for state in states.values():
        values.append(lookup(state, "message_thread"))
    return first(filter(is_message_list, values)) or []


def is_autogen_history(record: JsonObject) -> bool:
    """Return whether a record holds messages of AutoGen."""
    return KINDS["autogen"].is_made_of(_listed(record)[:1])


def is_langchain_history(record: JsonObject) -> bool:
    """Return whether a record holds messages of LangChain."""
    is_made = KINDS["langchain"].is_made_of(_listed(record)[:1])
    return is_made and not is_autogen_history(record)


def _messages(record: JsonObject) -> list[JsonObject]:
    messages = _listed(record)
    if not messages or objects(messages) != messages:
        raise UnreadableError("has no messages where its framework writes them")
    return messages


def read_autogen(record: JsonObject) -> Rollout:
    """Read messages of AutoGen."""
    return autogen.whole({"messages": _messages(record)})


def read_langchain(record: JsonObject) -> Rollout:
    """Read messages of LangChain."""
    turns = map(normalize_message, _messages(record))
    return Rollout([*chain.from_iterable(turns)])


class ADK(Session):
    """A session of ADK, where a tool's result has the role of the user."""

    kind = KINDS["adk"]

    def read_event(
        self,
        event: JsonObject,
        kind: str,
    ) -> None:
        """Read one event; a data base has contents as JSON text, trpc-agent-go's are texts."""
        content = json_value(event.get("content"), text=True)
        super().read_event({**event, "content": content}, kind)


_REPEATED = ("thought", "action")
"""Members of a message that its calls say once more."""


def read_swe_agent(record: JsonObject) -> Rollout:
    """Read a trajectory of SWE-agent, without its demonstrations."""
    messages = []
    for message in check_messages(record["history"], "history"):
        turn = {**message}
        if message.get("role") == "tool":
            turn.setdefault("tool_call_id", lookup(message, "tool_call_ids.0"))
        if message.get("tool_calls"):
            for name in _REPEATED:
                turn.pop(name, None)
        if not message.get("is_demo"):
            messages.append(turn)
    seen = lookup(record, "trajectory.-1.observation")
    role, call = each_at(messages, "-1.role -1.tool_calls.0.id")
    if role == "assistant" and is_text(seen) and seen.strip():
        messages.append(result_turn(call, seen))
    return Rollout(messages)


def read_openhands(record: JsonObject) -> Rollout:
    """Read an output of OpenHands, or the events of a conversation."""
    events: list[Any] = []
    for event in items(first_at(record, "events", "history")):
        # older files hold pairs of an action and what was seen
        events += event if is_list(event) else [event]
    rollout = openhands.whole({"events": events})
    messages = rollout.messages
    is_one = "events" in record and len(events) < 2
    if is_one or not messages:
        raise UnreadableError(
            "has no events of a whole conversation, as after a crash; join files of one event each: "
            "jq -cs '{events: .}' events/*.json"
        )
    task = record.get("instruction")
    roles = {message["role"] for message in messages}
    if is_text(task) and roles.isdisjoint(("user", "system")):
        messages.insert(0, new_turn("user", task))
    return rollout


def with_work(
    record: JsonObject,
    rollout: Rollout,
) -> Rollout:
    """Put what an agent submitted behind its messages."""
    return replace(rollout, messages=with_submission(record, rollout.messages))


def is_atif(record: JsonObject) -> bool:
    """Return whether a record is an ATIF trajectory, of any version."""
    return str(record.get("schema_version")).startswith("ATIF-v")


def read_atif(record: JsonObject) -> Rollout:
    """Read an ATIF trajectory, with those of its sub-agents."""
    further = map(atif.whole, objects(record.get("subagent_trajectories")))
    steps = objects(record.get("steps"))
    copied = any(step.get("is_copied_context") for step in steps)
    # names the rollout of a record that is only a part of it
    session = record.get("session_id")
    part = copied or record.get("continued_trajectory_ref")
    return replace(
        atif.whole(record),
        histories=tuple([trajectory.messages for trajectory in further]),
        member=session if part and is_text(session) else None,
    )


def read_trial(record: JsonObject) -> Rollout:
    """Read a trial of Harbor, which is made of the files of its folder; its steps are parts of one rollout."""
    stated = record.get("trajectory")
    steps = items(stated) or [stated]
    if not all(is_object(step) and is_atif(step) for step in steps):
        raise UnreadableError(
            "has no ATIF trajectory in `agent/trajectory.json`"
        )
    first_step, *further = map(read_atif, steps)
    histories = [*first_step.histories]
    for step in further:
        histories += [step.messages, *step.histories]
    return replace(
        first_step,
        histories=tuple(histories),
        member=None,
    )
