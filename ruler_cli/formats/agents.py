"""Records of agent frameworks: AutoGen, LangChain, ADK, SWE-agent, OpenHands, SWE-bench, ATIF, Harbor.

The work that a coding agent handed in may stand beside its messages, and the judge must see it.
Several records may be one rollout: the episodes of a trial, the files of a session that was continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
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
    words,
)
from ruler_cli.formats.chat import with_submission
from ruler_cli.formats.events import KINDS
from ruler_cli.formats.format import holds
from ruler_cli.formats.paths import list_field
from ruler_cli.messages.content import Messages, Turn, new_turn
from ruler_cli.messages.conversations import (
    check_messages,
    content_turns,
    prompt_turns,
)
from ruler_cli.messages.dialects import (
    call_turn,
    each_at,
    normalize_message,
    result_turn,
)
from ruler_cli.messages.parts import pick
from ruler_cli.types import Rollout

_USERS = words(
    "user human user_proxy userproxy userproxyagent user_proxy_agent"
)
_SILENT = words(
    "ModelClientStreamingChunkEvent SelectSpeakerEvent SelectorEvent UserInputRequestedEvent"
)
_RESULTS = words("ToolCallExecutionEvent FunctionExecutionResultMessage")
_AUTOGEN_ROLES = {
    "SystemMessage": "system",
    "UserMessage": "user",
    "CodeExecutionEvent": "tool",
    **dict.fromkeys(_RESULTS, "tool"),
}
_PATHS = (
    "messages message_thread llm_messages llm_context.messages values.messages channel_values.messages "
    "checkpoint.channel_values.messages"
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


def _read(turns_of: Callable[[Turn], Messages], record: JsonObject) -> Rollout:
    """Read messages, each of which is turns."""
    messages = _listed(record)
    if not messages or not all(map(is_object, messages)):
        raise UnreadableError("has no messages where its framework writes them")
    turns = []
    for message in messages:
        turns += turns_of(message)
    return Rollout(turns)


def _autogen_turns(message: Turn) -> Messages:
    kind, source, content, thought = each_at(
        message, "type source content|result.output thought"
    )
    if "role" in message:  # a line that could not be read
        return [message]
    if kind in _SILENT:
        return []
    if kind in _RESULTS and objects(content) == content:
        results = [each_at(result, "call_id content") for result in content]
        return [result_turn(*result) for result in results]
    role = _AUTOGEN_ROLES.get(str(kind))
    if role is None and str(source).casefold() in _USERS:
        role = "user"
    if role is not None:
        return [new_turn(role, content)]
    calls = []
    for call in objects(content):
        if holds(call, "name arguments"):
            calls.append(call)
    if kind == "ThoughtEvent":
        thought = content
    if calls == content or kind == "ThoughtEvent":
        content = None
    more = {"tool_calls": calls, "reasoning_content": thought}
    return [new_turn("assistant", content, name=source, **more)]


read_autogen = partial(_read, _autogen_turns)
read_langchain = partial(_read, normalize_message)


def read_session(record: JsonObject) -> Rollout:
    """Read a session of ADK, where a tool's result has the role of the user."""
    turns: Messages = []
    for event in objects(record["events"]):
        author = event.get("author")
        by_user = author == "user"
        turn = new_turn("user" if by_user else "assistant", None)
        if not by_user:
            turn["name"] = author
        # a data base has contents as JSON text; trpc-agent-go's are texts
        content = json_value(event.get("content"), text=True)
        parts, text = each_at(content, "parts content")
        # a partial event is a piece of a later one
        if event.get("partial"):
            continue
        if parts:
            turns += content_turns({**turn, "parts": parts})
        else:
            shown = content if is_text(content) else text
            turns += [turn | {"content": shown}] if shown else []
        error = pick(event, "error_message") or pick(event, "error_code")
        if error:
            turns.append(new_turn("error", error))
    return Rollout(turns)


_REPEATED = ("thought", "action")
"""Members of a message that its calls say once more."""


def read_swe_agent(record: JsonObject) -> Rollout:
    """Read a trajectory of SWE-agent, without its demonstrations."""
    if not record["history"]:
        raise UnreadableError(
            "has no messages in `history` (the run was stopped before its first step)"
        )
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
    return Rollout(with_submission(record, messages))


_RESOLVED = words(
    "report.resolved test_result.report.resolved test_result.resolved"
)
_NO_TURNS = words("agent_state_changed change_agent_state null recall")
_METADATA = words(
    "thought hidden blocking confirmation_state security_risk is_input"
)
"""Members of an action's `args` that are no arguments of the call."""


def read_openhands(record: JsonObject) -> Rollout:
    """Read an output of OpenHands, or the events of a conversation."""
    listed = items(first_at(record, "events", "history"))
    messages: Messages = []
    for item in listed:
        # older files hold pairs of an action and what was seen
        events = item if is_list(item) else [item]
        for event in objects(events):
            messages += _openhands_turns(event)
    is_one = "events" in record and len(listed) < 2
    if is_one or not messages:
        raise UnreadableError(
            "has no events of a whole conversation, as after a crash; join files of one event each: "
            "jq -cs '{events: .}' events/*.json"
        )
    task = record.get("instruction")
    roles = {message["role"] for message in messages}
    if is_text(task) and roles.isdisjoint(("user", "system")):
        messages.insert(0, new_turn("user", task))
    outcome = first_at(record, *_RESOLVED)
    return Rollout(with_submission(record, messages), outcome=outcome)


def _openhands_turns(event: JsonObject) -> Messages:
    """Return an event as messages; none for a change of state."""
    if "kind" in event:
        return [*_sdk_turns(event)]
    action, source, args, thought = each_at(
        event, "action source args args.thought"
    )
    content, seen = each_at(event, "args.content|message content")
    if event.get("observation", action) in (*_NO_TURNS, None):
        return []
    if "observation" in event:
        identity = str(event.get("cause"))
        return [result_turn(identity, seen)]
    if action == "system":
        return [new_turn("system", content)]
    if action == "message":
        by_user = source == "user"
        return [new_turn("user" if by_user else "assistant", content)]
    arguments = {}
    for name, value in args.items() if is_object(args) else ():
        if name not in _METADATA and value not in (None, "", False):
            arguments[name] = value
    identity = str(event.get("id"))
    turn = call_turn(identity, action, arguments)
    return [turn | {"content": thought or None}]


def _sdk_turns(event: JsonObject) -> Iterator[Turn]:
    message = event.get("llm_message")
    match event["kind"]:
        case "SystemPromptEvent":
            texts = each_at(event, "system_prompt.text dynamic_context.text")
            text = "\n\n".join(filter(None, texts))
            yield new_turn("system", text)
        case "MessageEvent" if is_object(message):
            speaker = "assistant" if event.get("source") == "agent" else "user"
            content = _with_extension(message.get("content"), event)
            yield {"role": speaker, **message, "content": content}
        case "ActionEvent":
            yield _sdk_action(event)
        case "ACPToolCallEvent":
            yield call_turn(*each_at(event, "tool_call_id title raw_input"))
            yield result_turn(*each_at(event, "tool_call_id raw_output"))
        case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation":
            identity, seen = each_at(event, _OBSERVATION)
            yield result_turn(identity, _with_extension(seen, event))
        case "ConversationErrorEvent":
            yield new_turn("error", first_at(event, "detail", "code"))


def _sdk_action(event: JsonObject) -> Turn:
    """Return an action: what the agent thought, said and called."""
    *call, done, thought, reasoning, blocks = each_at(event, _ACTION)
    if is_object(done):
        arguments = {}
        for name, value in done.items():
            if name != "kind" and value is not None:
                arguments[name] = value
        call[-1] = arguments
    parts = [*items(blocks), *items(thought)]
    content = thought if reasoning or not parts else parts
    spoken = {"content": content, "reasoning_content": reasoning}
    return call_turn(*call) | spoken


_ACTION = "tool_call_id tool_name tool_call.arguments action thought reasoning_content thinking_blocks"
_OBSERVATION = (
    "tool_call_id error|rejection_reason|observation.content|observation"
)


def _with_extension(content: Any, event: JsonObject) -> Any:
    """Content with the parts that the SDK adds to it for the model, e.g. the text of a skill."""
    more = items(event.get("extended_content"))
    text = {"type": "text", "text": content}
    parts = content if is_list(content) else [text]
    return [*parts, *more] if more else content


def read_prediction(record: JsonObject) -> Rollout:
    """Read a prediction of SWE-bench."""
    prompt = prompt_turns(record.get("text"), "text")
    for text in each_at(record, "full_output model_patch"):
        if is_text(text) and text.strip():
            answer = [new_turn("assistant", text)]
            answer = with_submission(record, answer)
            return Rollout([*prompt, *answer])
    nothing = "has no patch in `model_patch`: nothing was handed in"
    return Rollout(prompt, error=nothing)


def is_atif(record: JsonObject) -> bool:
    """Return whether a record is an ATIF trajectory, of any version."""
    return str(record.get("schema_version")).startswith("ATIF-v")


def read_atif(record: JsonObject) -> Rollout:
    """Read an ATIF trajectory, with those of its sub-agents."""
    further = tuple(
        map(_atif_turns, objects(record.get("subagent_trajectories")))
    )
    tools = lookup(record, "agent.tool_definitions")
    steps = objects(record.get("steps"))
    copied = any(step.get("is_copied_context") for step in steps)
    # names the rollout of a record that is only a part of it
    session = record.get("session_id")
    part = copied or record.get("continued_trajectory_ref")
    member = session if part and is_text(session) else None
    turns = _atif_turns(record)
    return Rollout(turns, histories=further, tools=tools, member=member)


_ATIF_ROLES = {"agent": "assistant", "system": "system"}
_ATIF_STEP = "message reasoning_content tool_calls"


def _atif_turns(record: JsonObject) -> Messages:
    """Return each step's message with its calls, and their results."""
    turns = []
    for step in list_field(record, "steps"):
        role = _ATIF_ROLES.get(str(step.get("source")), "user")
        text, thought, calls = each_at(step, _ATIF_STEP)
        more = {"reasoning_content": thought, "tool_calls": calls}
        turns.append(new_turn(role, text, **more))
        for result in objects(lookup(step, "observation.results")):
            identity, content = each_at(result, "source_call_id content")
            if content is None and result.get("subagent_trajectory_ref"):
                content = "(a sub-agent's work)"
            turns.append(result_turn(identity, content))
    return turns


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
    outcome = first_at(record, "reward_file.reward", "reward_file")
    reward = lookup(record, "result.verifier_result.rewards.reward")
    return replace(
        first_step,
        histories=tuple(histories),
        reward=outcome if reward is None else reward,
        outcome=outcome,
        member=None,
    )
