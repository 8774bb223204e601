"""Coding agents: SWE-agent, mini-swe-agent, OpenHands, SWE-bench's predictions, Harbor's trials and ATIF.

The work that an agent handed in may stand beside its messages, and the judge must see it. Several records may
be one rollout: the episodes of a trial, the files of a session that was continued.

docs/formats.md says who writes each file, and what its keys do not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, TypeGuard

from ruler_cli.errors import UnreadableError
from ruler_cli.files.event_kinds import is_openhands
from ruler_cli.formats.chat import Messages, check_messages, messages_in
from ruler_cli.formats.dialects import call_turn, result_turn
from ruler_cli.formats.fields import first_at, has_keys, items, lookup, objects
from ruler_cli.formats.interface import (
    Format,
    RecordLayout,
    keyed_format,
    printable,
    refused_shapes,
)
from ruler_cli.formats.turns import prompt_turns, with_submission
from ruler_cli.types import Rollout

_STOPPED = "the run was stopped before its first step"


def _read_swe_agent(record: dict[str, Any]) -> list[Rollout]:
    history = messages_in(record, "history", _STOPPED)
    messages = []
    for message in history:
        calls = items(message.get("tool_call_ids"))
        single = len(calls) == 1 and message.get("role") == "tool"
        if not message.get("is_demo"):
            messages.append(
                {**message, "tool_call_id": calls[0]} if single else message
            )
    if not messages:
        raise UnreadableError("holds a demonstration only in `history`")
    observation = lookup(record, "trajectory.-1.observation")
    if (
        messages[-1].get("role") == "assistant"
        and isinstance(observation, str)
        and observation.strip()
    ):
        calls = items(messages[-1].get("tool_calls"))
        messages.append(
            result_turn(calls[0].get("id") if len(calls) == 1 else None, observation)
        )
    return [Rollout(with_submission(record, messages), reward=record.get("reward"))]


def _read_mini(record: dict[str, Any]) -> list[Rollout]:
    messages = messages_in(record, "messages", _STOPPED)
    return [Rollout(with_submission(record, messages), reward=record.get("reward"))]


_SILENT = ("agent_state_changed", "change_agent_state", "null", "recall")
_METADATA = (
    "thought",
    "content",
    "hidden",
    "blocking",
    "confirmation_state",
    "security_risk",
    "is_input",
)
"""Members of an action's `args` that are no arguments of the call."""


def _read_openhands(record: dict[str, Any]) -> list[Rollout]:
    listed = [
        item if isinstance(item, list) else [item]
        for item in items(record.get("history"))
    ]
    messages = [
        turn
        for event in objects(list(chain(*listed)))
        for turn in _openhands_turns(event)
    ]
    if not messages:
        raise UnreadableError(
            "has no events in `history` (OpenHands writes this when a run crashed)"
        )
    task = record.get("instruction")
    if isinstance(task, str) and all(
        m["role"] not in ("user", "system") for m in messages
    ):
        messages.insert(0, {"role": "user", "content": task})
    outcome = first_at(
        record, "report.resolved", "test_result.report.resolved", "test_result.resolved"
    )
    return [
        Rollout(
            with_submission(record, messages),
            reward=record.get("reward"),
            outcome=outcome,
        )
    ]


def _openhands_turns(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """An event as a message; nothing for a change of state."""
    action = event.get("action")
    if "kind" in event:
        yield from _sdk_turns(event)
    elif "observation" in event:
        if event["observation"] not in _SILENT:
            yield result_turn(str(event.get("cause")), event.get("content"))
    elif "action" in event and action not in _SILENT:
        args = event["args"] if isinstance(event.get("args"), dict) else {}
        if action in ("message", "system"):
            speaker = "user" if event.get("source") == "user" else "assistant"
            content = args.get("content") or event.get("message")
            yield {
                "role": "system" if action == "system" else speaker,
                "content": content,
            }
        else:
            given = {
                k: v
                for k, v in args.items()
                if k not in _METADATA and v not in (None, "", False)
            }
            if args.get("content"):  # the text of a `write`
                given["content"] = args["content"]
            yield {
                **call_turn(str(event.get("id")), action, given),
                "content": args.get("thought") or None,
            }


def _sdk_turns(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind, message, identity = (
        event["kind"],
        event.get("llm_message"),
        event.get("tool_call_id"),
    )
    if kind == "SystemPromptEvent":
        texts = [
            lookup(event, path)
            for path in ("system_prompt.text", "dynamic_context.text")
        ]
        yield {
            "role": "system",
            "content": "\n\n".join(str(text) for text in texts if text),
        }
    elif kind == "MessageEvent" and isinstance(message, dict):
        role = message.get("role") or (
            "assistant" if event.get("source") == "agent" else "user"
        )
        yield {
            **message,
            "role": role,
            "content": _with_extension(message.get("content"), event),
        }
    elif kind == "ActionEvent":
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
    elif kind == "ACPToolCallEvent":
        yield call_turn(identity, event.get("title"), event.get("raw_input"))
        yield result_turn(identity, event.get("raw_output"))
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        names = ("error", "rejection_reason", "observation.content", "observation")
        content = next(
            (value for name in names if (value := lookup(event, name))), None
        )
        yield result_turn(identity, _with_extension(content, event))
    elif kind == "ConversationErrorEvent":
        yield {"role": "error", "content": event.get("detail") or event.get("code")}


def _with_extension(content: Any, event: Mapping[str, Any]) -> Any:
    """Content with the parts that the SDK adds to it for the model, e.g. the text of a skill."""
    more = items(event.get("extended_content"))
    parts = (
        content if isinstance(content, list) else [{"type": "text", "text": content}]
    )
    return [*parts, *more] if more else content


_JOIN = "jq -cs '{events: .}' events/*.json > conversation.jsonl"


def _read_conversation(record: dict[str, Any]) -> list[Rollout]:
    if len(record["events"]) < 2:
        raise UnreadableError(
            f"holds one event, where a whole conversation should be: {_JOIN}"
        )
    return _read_openhands({**record, "history": record["events"]})


_CONVERSATIONS = (
    "messages",
    "history",
    "trajectory",
    "trajectories",
    "prompt",
    "conversations",
)


def _read_prediction(record: dict[str, Any]) -> list[Rollout]:
    patch, output, text = (
        record.get(name) for name in ("model_patch", "full_output", "text")
    )
    if isinstance(output, str) and output.strip():
        answer = with_submission(record, [{"role": "assistant", "content": output}])
    elif isinstance(patch, str) and patch.strip():
        answer = [{"role": "assistant", "content": patch}]
    else:
        raise UnreadableError("has no patch in `model_patch`: nothing was handed in")
    prompt = prompt_turns(text if isinstance(text, str) else None, "text")
    return [Rollout([*prompt, *answer], reward=record.get("reward"))]


def _is_prediction(record: Mapping[str, Any]) -> bool:
    named = has_keys("instance_id", "model_name_or_path", "model_patch")(record)
    return named and not any(name in record for name in _CONVERSATIONS)


def _is_atif(record: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(record, Mapping) and str(
        record.get("schema_version", "")
    ).startswith("ATIF-v")


def _atif(record: Mapping[str, Any]) -> Rollout:
    messages = _atif_turns(record)
    further = tuple(
        _atif_turns(sub) for sub in objects(record.get("subagent_trajectories"))
    )
    tools, reward = (
        lookup(record, "agent.tool_definitions"),
        lookup(record, "extra.reward"),
    )
    copied = any(step.get("is_copied_context") for step in objects(record.get("steps")))
    session = record.get(
        "session_id"
    )  # names the rollout of a record that is only a part of it
    member = session if copied or record.get("continued_trajectory_ref") else None
    return Rollout(
        messages,
        (),
        further,
        tools,
        reward,
        member=member if isinstance(member, str) else None,
    )


def _atif_turns(record: Mapping[str, Any]) -> Messages:
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


def _atif_step(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A step's message with its calls, and their results."""
    source, calls = step.get("source"), items(step.get("tool_calls"))
    role = (
        "assistant" if source == "agent" else "system" if source == "system" else "user"
    )
    turn: dict[str, Any] = {"role": role, "content": step.get("message")}
    if step.get("reasoning_content"):
        turn["reasoning_content"] = step["reasoning_content"]
    if calls:
        named = {
            "id": "tool_call_id",
            "name": "function_name",
            "arguments": "arguments",
        }
        turn["tool_calls"] = [
            {ours: call.get(name) for ours, name in named.items()}
            if isinstance(call, dict)
            else call
            for call in calls
        ]
    yield turn
    for result in objects(lookup(step, "observation.results")):
        elsewhere = (
            "(a sub-agent's work)" if result.get("subagent_trajectory_ref") else None
        )
        content = result.get("content")
        yield result_turn(
            result.get("source_call_id"), elsewhere if content is None else content
        )


def _read_trial(record: dict[str, Any]) -> list[Rollout]:
    trajectory = record.get("trajectory")
    if not _is_atif(trajectory):
        kind = lookup(record, "result.exception_info.exception_type")
        why = (
            f" (the trial ended with {printable(kind)})"
            if isinstance(kind, str)
            else ""
        )
        raise UnreadableError(f"has no ATIF trajectory in `agent/trajectory.json`{why}")
    outcome = record.get("reward_file")
    outcome = outcome.get("reward") if isinstance(outcome, dict) else outcome
    reward = lookup(record, "result.verifier_result.rewards.reward")
    reward = outcome if reward is None else reward
    return [replace(_atif(trajectory), reward=reward, outcome=outcome, member=None)]


def _read_row(record: dict[str, Any]) -> list[Rollout]:
    messages = check_messages(record.get("conversations") or None, "conversations")
    trial = record.get("trial_name")
    member, tools = (
        trial if isinstance(trial, str) else None,
        record.get("tool_definitions"),
    )
    return [Rollout(messages, tools=tools, reward=record.get("result"), member=member)]


_INSTANCE = ("instance_id",)
FORMATS = (
    Format(
        "OpenHands outputs", "openhands", "`instance_id`, `history`",
        lambda record: "instance_id" in record and isinstance(record.get("history"), list),
        _read_openhands, _INSTANCE,
    ),
    Format(
        "OpenHands conversations", "openhands", "`events` with `action`, `observation` or `kind` in each",
        lambda record: any(map(is_openhands, objects(items(record.get("events"))[:1]))),
        _read_conversation, _INSTANCE,
    ),
    keyed_format("trajectory history info", "SWE-agent", "swe-agent", _read_swe_agent, _INSTANCE),
    Format(
        "mini-swe-agent", "mini-swe-agent", "`trajectory_format` (mini-swe-agent-…)",
        lambda record: str(record.get("trajectory_format", "")).startswith("mini-swe-agent"),
        _read_mini, _INSTANCE,
    ),
    Format(
        "SWE-bench predictions", "swe-bench", "`instance_id`, `model_name_or_path`, `model_patch`",
        _is_prediction, _read_prediction, _INSTANCE,
    ),
    Format(
        "ATIF trajectories", "atif", "`schema_version` (ATIF-v…)", _is_atif, lambda record: [_atif(record)],
        layout=RecordLayout(reward=("extra", "reward"), ruler=("extra", "ruler")),
    ),
    Format(
        "Harbor trials", "harbor", "`result.task_name`, `trajectory`",
        lambda record: lookup(record, "result.task_name") is not None and "trajectory" in record,
        _read_trial, ("result.task_name",),
        RecordLayout(
            reward=("result", "verifier_result", "rewards", "reward"), ruler=("result", "ruler"), lost=b""
        ),
    ),
    keyed_format(
        "conversations task", "Harbor's exported traces", "harbor", _read_row, ("task",),
        RecordLayout(reward=("result",), form=b'"%s"'),
    ),
)  # fmt: skip
REFUSALS = refused_shapes(
    (lambda record: (
        bool(record) and all(isinstance(v, dict) and "model_patch" in v for v in record.values())
    ),
     "holds SWE-bench predictions by their instances (mini-swe-agent's preds.json); write one a line: "
     "jq -c '.[]'"),
    (is_openhands,
     f"is one event of an OpenHands conversation, not a rollout; write a conversation a line: {_JOIN}"),
)  # fmt: skip
