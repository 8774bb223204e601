"""Coding agents: SWE-agent, mini-swe-agent, OpenHands, SWE-bench's predictions, Harbor's trials and ATIF.

The work that an agent handed in may stand beside its messages, and the judge must see it. Several records may
be one rollout: the episodes of a trial, the files of a session that was continued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from ruler_cli.errors import UnreadableError
from ruler_cli.files.events import is_openhands
from ruler_cli.formats.chat import Messages, Turn, messages_in, new_turn
from ruler_cli.formats.dialects import call_turn, result_turn
from ruler_cli.formats.fields import (
    JsonObject,
    Rollouts,
    first,
    first_at,
    holds,
    items,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.interface import printable
from ruler_cli.formats.turns import prompt_turns, with_submission
from ruler_cli.types import Rollout

_STOPPED = " (the run was stopped before its first step)"


def read_swe_agent(record: JsonObject) -> Rollouts:
    """Read a trajectory of SWE-agent, without its demonstrations."""
    messages = []
    for message in messages_in(record, "history", _STOPPED):
        calls = items(message.get("tool_call_ids"))
        single = len(calls) == 1 and message.get("role") == "tool"
        named = {"tool_call_id": calls[0]} if single else {}
        if not message.get("is_demo"):
            messages.append({**message, **named})
    if not messages:
        raise UnreadableError("holds a demonstration only in `history`")
    last, observation = messages[-1], lookup(record, "trajectory.-1.observation")
    seen = isinstance(observation, str) and bool(observation.strip())
    if last.get("role") == "assistant" and seen:
        calls = items(last.get("tool_calls"))
        identity = calls[0].get("id") if len(calls) == 1 else None
        messages.append(result_turn(identity, observation))
    return [Rollout(with_submission(record, messages))]


_SILENT = words("agent_state_changed change_agent_state null recall")
_METADATA = words(
    "thought content hidden blocking confirmation_state security_risk is_input"
)
"""Members of an action's `args` that are no arguments of the call."""


def read_openhands(record: JsonObject) -> Rollouts:
    """Read an output of OpenHands."""
    events = [
        event
        for item in items(record.get("history"))
        for event in objects(item if isinstance(item, list) else [item])
    ]
    messages = [turn for event in events for turn in _openhands_turns(event)]
    if not messages:
        raise UnreadableError(
            "has no events in `history` (OpenHands writes this when a run crashed)"
        )
    task = record.get("instruction")
    asked = any(message["role"] in ("user", "system") for message in messages)
    if isinstance(task, str) and not asked:
        messages.insert(0, new_turn("user", task))
    outcome = first_at(
        record, "report.resolved", "test_result.report.resolved", "test_result.resolved"
    )
    return [Rollout(with_submission(record, messages), outcome=outcome)]


def _openhands_turns(event: JsonObject) -> Iterator[Turn]:
    """An event as a message; nothing for a change of state."""
    action, by_user = event.get("action"), event.get("source") == "user"
    if "kind" in event:
        yield from _sdk_turns(event)
    elif "observation" in event:
        if event["observation"] not in _SILENT:
            yield result_turn(str(event.get("cause")), event.get("content"))
    elif "action" in event and action not in _SILENT:
        args = event["args"] if isinstance(event.get("args"), dict) else {}
        content = args.get("content")
        if action in ("message", "system"):
            speaker = "user" if by_user else "assistant"
            role = "system" if action == "system" else speaker
            yield new_turn(role, content or event.get("message"))
            return
        given = {
            name: value
            for name, value in args.items()
            if name not in _METADATA and value not in (None, "", False)
        }
        if content:  # the text of a `write`
            given["content"] = content
        turn = call_turn(str(event.get("id")), action, given)
        yield {**turn, "content": args.get("thought") or None}


def _sdk_turns(event: JsonObject) -> Iterator[Turn]:
    message, identity = event.get("llm_message"), event.get("tool_call_id")
    match event["kind"]:
        case "SystemPromptEvent":
            paths = ("system_prompt.text", "dynamic_context.text")
            texts = [lookup(event, path) for path in paths]
            system = "\n\n".join(str(text) for text in texts if text)
            yield new_turn("system", system)
        case "MessageEvent" if isinstance(message, dict):
            speaker = "assistant" if event.get("source") == "agent" else "user"
            content = _with_extension(message.get("content"), event)
            role = message.get("role") or speaker
            yield {**message, "role": role, "content": content}
        case "ActionEvent":
            given = event.get("action")
            if isinstance(given, dict):
                given = {
                    name: value
                    for name, value in given.items()
                    if name != "kind" and value is not None
                }
            else:  # no tool took it
                given = lookup(event, "tool_call.arguments")
            thought, reasoning = event.get("thought"), event.get("reasoning_content")
            parts = [*items(event.get("thinking_blocks")), *items(thought)]
            content = thought if reasoning or not parts else parts
            turn = call_turn(identity, event.get("tool_name"), given)
            yield turn | {"content": content, "reasoning_content": reasoning}
        case "ACPToolCallEvent":
            yield call_turn(identity, event.get("title"), event.get("raw_input"))
            yield result_turn(identity, event.get("raw_output"))
        case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation":
            names = words("error rejection_reason observation.content observation")
            known = (lookup(event, name) for name in names)
            content = first(filter(None, known))
            yield result_turn(identity, _with_extension(content, event))
        case "ConversationErrorEvent":
            yield new_turn("error", event.get("detail") or event.get("code"))


def _with_extension(content: Any, event: JsonObject) -> Any:
    """Content with the parts that the SDK adds to it for the model, e.g. the text of a skill."""
    more, text = items(event.get("extended_content")), {"type": "text", "text": content}
    parts = content if isinstance(content, list) else [text]
    return [*parts, *more] if more else content


def is_conversation(record: JsonObject) -> bool:
    """Tell if a record holds the events of an OpenHands conversation."""
    return any(map(is_openhands, objects(record["events"][:1])))


def read_conversation(record: JsonObject) -> Rollouts:
    """Read the events of an OpenHands conversation."""
    if len(record["events"]) < 2:
        raise UnreadableError(
            "holds one event, where a whole conversation should be: jq -cs '{events: .}' events/*.json"
        )
    return read_openhands({**record, "history": record["events"]})


def read_prediction(record: JsonObject) -> Rollouts:
    """Read a prediction of SWE-bench."""
    patch, output, text = (
        value if isinstance(value := record.get(name), str) else ""
        for name in ("model_patch", "full_output", "text")
    )
    answer = [new_turn("assistant", output if output.strip() else patch)]
    if output.strip():
        answer = with_submission(record, answer)
    elif not patch.strip():
        raise UnreadableError("has no patch in `model_patch`: nothing was handed in")
    return [Rollout([*prompt_turns(text, "text"), *answer])]


def is_atif(record: Any) -> TypeGuard[JsonObject]:
    """Tell if a value is an ATIF trajectory."""
    return isinstance(record, Mapping) and holds(record, "schema_version^ATIF-v")


def read_atif(record: JsonObject) -> Rollouts:
    """Read an ATIF trajectory, with those of its sub-agents."""
    messages = _atif_turns(record)
    agents = objects(record.get("subagent_trajectories"))
    further = tuple(map(_atif_turns, agents))
    tools = lookup(record, "agent.tool_definitions")
    copied = any(step.get("is_copied_context") for step in objects(record.get("steps")))
    # names the rollout of a record that is only a part of it
    session = record.get("session_id")
    part = copied or record.get("continued_trajectory_ref")
    member = session if part and isinstance(session, str) else None
    return [Rollout(messages, (), further, tools, member=member)]


def _atif_turns(record: JsonObject) -> Messages:
    out: Messages = []
    for i, step in enumerate(items(record.get("steps"))):
        if not isinstance(step, dict):
            raise UnreadableError(f"`steps[{i}]` is no object")
        out += _atif_step(step)
    if not out:
        raise UnreadableError(
            "has no steps in `steps` (the agent was stopped before its first)"
        )
    return out


_ATIF_ROLES = {"agent": "assistant", "system": "system"}


def _atif_step(step: JsonObject) -> Iterator[Turn]:
    """A step's message with its calls, and their results."""
    role = _ATIF_ROLES.get(str(step.get("source")), "user")
    turn: Turn = new_turn(role, step.get("message"))
    if step.get("reasoning_content"):
        turn["reasoning_content"] = step["reasoning_content"]
    calls = [
        {
            "id": call.get("tool_call_id"),
            "name": call.get("function_name"),
            "arguments": call.get("arguments"),
        }
        if isinstance(call, dict)
        else call
        for call in items(step.get("tool_calls"))
    ]
    yield turn | ({"tool_calls": calls} if calls else {})
    for result in objects(lookup(step, "observation.results")):
        content = result.get("content")
        if content is None and result.get("subagent_trajectory_ref"):
            content = "(a sub-agent's work)"
        yield result_turn(result.get("source_call_id"), content)


def read_trial(record: JsonObject) -> Rollouts:
    """Read a trial of Harbor, which is made of the files of its folder."""
    trajectory = record.get("trajectory")
    if not is_atif(trajectory):
        kind = lookup(record, "result.exception_info.exception_type")
        ended = isinstance(kind, str)
        why = f" (the trial ended with {printable(kind)})" if ended else ""
        raise UnreadableError(f"has no ATIF trajectory in `agent/trajectory.json`{why}")
    outcome = record.get("reward_file")
    outcome = outcome.get("reward") if isinstance(outcome, dict) else outcome
    stated = lookup(record, "result.verifier_result.rewards.reward")
    reward = outcome if stated is None else stated
    return [
        replace(rollout, reward=reward, outcome=outcome, member=None)
        for rollout in read_atif(trajectory)
    ]
