"""Records of agent frameworks: AutoGen, LangChain, CrewAI, ADK, SWE-agent, OpenHands, SWE-bench, ATIF, Harbor.

AutoGen 0.2 writes the roles that the asking agent sees: the task is its `assistant`, the answers are `user`;
so the first speaker asks, and all others answer. An evaluation set of ADK holds the expected answers, and is
no rollout. The work that a coding agent handed in may stand beside its messages, and the judge must see it.
Several records may be one rollout: the episodes of a trial, the files of a session that was continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.events import is_autogen, is_langchain, is_openhands
from ruler_cli.formats.chat import (
    Messages,
    Turn,
    check_messages,
    messages_in,
    new_turn,
    prompt_turns,
    with_submission,
)
from ruler_cli.formats.dialects import (
    call_turn,
    normalize_call,
    normalize_message,
    normalize_part,
    result_turn,
)
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    first,
    first_at,
    holds,
    is_list,
    is_message_list,
    is_object,
    is_text,
    items,
    list_field,
    lookup,
    objects,
    words,
)
from ruler_cli.types import Rollout

_USERS = words("user human user_proxy userproxy userproxyagent user_proxy_agent")
_SILENT = words(
    "ModelClientStreamingChunkEvent SelectSpeakerEvent SelectorEvent UserInputRequestedEvent"
)
_RESULTS = words("ToolCallExecutionEvent FunctionExecutionResultMessage")
_THREADS = words("messages message_thread llm_messages llm_context.messages")
"""Paths of AutoGen's messages: of a result, or of the input of a model. A team has a state an agent."""
_STATES = words("messages values.messages channel_values.messages")
"""Paths of LangChain's and LangGraph's messages."""


def _listed(record: JsonObject, paths: Names) -> list[Any]:
    """The first list of messages at these paths, or of an agent's state; [] if there is none."""
    values = [lookup(record, path) for path in paths]
    states = record.get("agent_states") if paths is _THREADS else None
    if is_object(states):
        values += [lookup(state, "message_thread") for state in states.values()]
    return first(filter(is_message_list, values)) or []


def _read(record: JsonObject, paths: Names, turns_of: Callable[[Any], Any]) -> Rollout:
    messages = _listed(record, paths)
    if not messages or not all(map(is_object, messages)):
        raise UnreadableError("has no messages where its framework writes them")
    return Rollout([turn for message in messages for turn in turns_of(message)])


def is_autogen_history(record: JsonObject) -> bool:
    """Tell if a record holds messages of AutoGen."""
    return any(map(is_autogen, _listed(record, _THREADS)[:1]))


def read_autogen(record: JsonObject) -> Rollout:
    """Read messages of AutoGen."""
    return _read(record, _THREADS, _autogen_turns)


def is_langchain_history(record: JsonObject) -> bool:
    """Tell if a record holds messages of LangChain."""
    first = _listed(record, _STATES)[:1]
    return any(is_langchain(one) and not is_autogen(one) for one in first)


def read_langchain(record: JsonObject) -> Rollout:
    """Read messages of LangChain."""
    return _read(record, _STATES, normalize_message)


def _autogen_turns(message: Turn) -> Iterator[Turn]:
    kind, source, content = map(message.get, ("type", "source", "content"))
    if "role" in message:  # a line that could not be read
        yield message
    elif kind in _RESULTS:
        for one in content if is_list(content) else [content]:
            result = one.get("content") if is_object(one) else one
            yield result_turn(lookup(one, "call_id"), result)
    elif kind == "CodeExecutionEvent":
        yield new_turn("tool", lookup(message, "result.output"))
    elif kind == "SystemMessage":
        yield new_turn("system", content)
    elif kind == "UserMessage" or str(source).casefold() in _USERS:
        yield new_turn("user", content)
    elif kind not in _SILENT:
        calls = [c for c in objects(content) if {"name", "arguments"} <= c.keys()]
        calls = calls if len(calls) == len(items(content)) else []
        thought = content if kind == "ThoughtEvent" else message.get("thought")
        said = None if calls or kind == "ThoughtEvent" else content
        more = {"name": source, "tool_calls": calls, "reasoning_content": thought}
        stated = {key: value for key, value in more.items() if value}
        yield new_turn("assistant", said, **stated)


def read_chat_history(record: JsonObject) -> Rollout:
    """Read a history of AutoGen 0.2."""
    turns = list[Any]()
    first = None
    for message in check_messages(record["chat_history"], "chat_history"):
        role = message.get("role")
        speaker = message.get("name") or role
        first = first or speaker
        if role not in ("tool", "function", "system"):
            asks = speaker == first and not message.get("tool_calls")
            role = "user" if asks else "assistant"
        results = message.get("tool_responses")
        turns += results if is_message_list(results) else [{**message, "role": role}]
    return Rollout(turns)


def read_crew(record: JsonObject) -> Rollout:
    """Read the tasks of a crew, each with its output."""
    turns: Messages = []
    for task in record["tasks_output"]:
        texts = [task.get(name) for name in ("description", "expected_output")]
        asked = "\n\n".join(str(text) for text in texts if text)
        said = new_turn("assistant", task.get("raw"), name=task.get("agent"))
        turns += [new_turn("user", asked), said]
    return Rollout(turns)


_STATUS = {1: True, 2: False, "passed": True, "failed": False}


def _pick(value: Any, name: str) -> Any:
    """A field that is written as `two_words` or as `twoWords`; None if it is absent."""
    field = lookup(value, name)
    if field is None:
        first, *rest = name.split("_")
        field = lookup(value, first + "".join(map(str.capitalize, rest)))
    return field


def _content(content: Any, role: str, name: Any = None) -> Iterator[Turn]:
    """Gemini's content as messages: its text and calls, then the result of each call."""
    text = content if isinstance(content, str | None) else content.get("content")
    if is_text(text):  # trpc-agent-go
        yield new_turn(role, text)
        return
    parts = list[Any]()
    results = list[Any]()
    for part in lookup(content, "parts") or ():
        if is_object(part) and all(v is None for v in part.values()):
            continue
        one = normalize_part(part)
        (results if lookup(one, "type") == "tool_result" else parts).append(one)
    if parts:
        yield from normalize_message({"role": role, "name": name, "content": parts})
    for one in results:
        yield result_turn(one["tool_use_id"], one["content"], one.get("toolName"))


def _events(events: Iterable[Any]) -> Iterator[Turn]:
    for event in objects(events):
        if event.get("partial"):
            continue
        author = event.get("author")
        if is_object(event.get("content")):
            if author == "user":
                yield from _content(event["content"], "user")
            else:
                yield from _content(event["content"], "assistant", author)
        if error := _pick(event, "error_message") or _pick(event, "error_code"):
            yield new_turn("error", error)


def _invocation(invocation: JsonObject) -> Iterator[Turn]:
    """A turn of an evaluation: the user's message, the calls and results, the final answer."""
    yield from _content(_pick(invocation, "user_content"), "user")
    between = _pick(invocation, "intermediate_data") or {}
    results = {one.get("id"): one for one in _pick(between, "tool_responses") or ()}
    listed = _pick(between, "tool_uses") or _pick(between, "tool_calls")
    for call in listed or invocation.get("tools") or ():
        yield new_turn("assistant", None, tool_calls=[normalize_call(call)])
        response = results.get(call.get("id"))
        content = call.get("result") if response is None else response.get("response")
        if content is not None:
            yield result_turn(call.get("id"), content, call.get("name"))
    for answer in _pick(between, "intermediate_responses") or ():
        if len(items(answer)) == 2:
            yield from _content({"parts": answer[1]}, "assistant", answer[0])
    yield from _events(_pick(between, "invocation_events") or ())
    yield from _content(_pick(invocation, "final_response"), "assistant")


def read_session(record: JsonObject) -> Rollout:
    """Read a session of ADK."""
    return Rollout([*_events(record["events"])])


def read_case(record: JsonObject) -> Rollout:
    """Read a result of an ADK evaluation: its session, or what was invoked."""
    events = _pick(_pick(record, "session_details"), "events")
    metrics = _pick(record, "eval_metric_result_per_invocation") or ()
    actual = objects([_pick(metric, "actual_invocation") for metric in metrics])
    turns = [turn for one in actual if one for turn in _invocation(one)]
    messages = [*_events(events)] if events else turns
    if not messages:
        raise UnreadableError(
            "has no session in `sessionDetails`, and no `actualInvocation`"
        )
    status = _pick(record, "final_eval_status")
    outcome = _STATUS.get(status) if isinstance(status, int | str) else None
    return Rollout(messages, outcome=outcome)


def case_key(record: JsonObject) -> str | None:
    """Return the case of an evaluation set."""
    identity = _pick(record, "eval_id")
    eval_set = _pick(record, "eval_set_id")
    if eval_set:
        return f"{eval_set}: {identity}"
    return str(identity) if identity else None


_STOPPED = " (the run was stopped before its first step)"


def read_swe_agent(record: JsonObject) -> Rollout:
    """Read a trajectory of SWE-agent, without its demonstrations."""
    messages = []
    for message in messages_in(record, "history", _STOPPED):
        calls = items(message.get("tool_call_ids"))
        single = len(calls) == 1 and message.get("role") == "tool"
        named = {"tool_call_id": calls[0]} if single else {}
        if not message.get("is_demo"):
            messages.append({**message, **named})
    last = messages[-1] if messages else {}
    seen = lookup(record, "trajectory.-1.observation")
    if last.get("role") == "assistant" and is_text(seen) and seen.strip():
        calls = items(last.get("tool_calls"))
        identity = calls[0].get("id") if len(calls) == 1 else None
        messages.append(result_turn(identity, seen))
    return Rollout(with_submission(record, messages))


_NO_TURNS = words("agent_state_changed change_agent_state null recall")
_METADATA = words(
    "thought content hidden blocking confirmation_state security_risk is_input"
)
"""Members of an action's `args` that are no arguments of the call."""


def read_openhands(record: JsonObject) -> Rollout:
    """Read an output of OpenHands, or the events of a conversation."""
    listed = record["events"] if "events" in record else items(record.get("history"))
    messages = [
        turn
        for item in listed
        for event in objects(item if is_list(item) else [item])
        for turn in _openhands_turns(event)
    ]
    if not messages or ("events" in record and len(listed) < 2):
        raise UnreadableError(
            "has no events of a whole conversation, as after a crash; join files of one event each: "
            "jq -cs '{events: .}' events/*.json"
        )
    task = record.get("instruction")
    asked = any(message["role"] in ("user", "system") for message in messages)
    if is_text(task) and not asked:
        messages.insert(0, new_turn("user", task))
    outcome = first_at(
        record,
        "report.resolved",
        "test_result.report.resolved",
        "test_result.resolved",
    )
    return Rollout(with_submission(record, messages), outcome=outcome)


def _openhands_turns(event: JsonObject) -> Iterator[Turn]:
    """An event as a message; nothing for a change of state."""
    action = event.get("action")
    if "kind" in event:
        yield from _sdk_turns(event)
    elif "observation" in event:
        if event["observation"] not in _NO_TURNS:
            yield result_turn(str(event.get("cause")), event.get("content"))
    elif "action" in event and action not in _NO_TURNS:
        args = event["args"] if is_object(event.get("args")) else {}
        content = args.get("content")
        if action in ("message", "system"):
            speaker = "user" if event.get("source") == "user" else "assistant"
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
    message = event.get("llm_message")
    identity = event.get("tool_call_id")
    match event["kind"]:
        case "SystemPromptEvent":
            paths = ("system_prompt.text", "dynamic_context.text")
            texts = [lookup(event, path) for path in paths]
            system = "\n\n".join(str(text) for text in texts if text)
            yield new_turn("system", system)
        case "MessageEvent" if is_object(message):
            speaker = "assistant" if event.get("source") == "agent" else "user"
            content = _with_extension(message.get("content"), event)
            role = message.get("role") or speaker
            yield {**message, "role": role, "content": content}
        case "ActionEvent":
            given = event.get("action")
            if is_object(given):
                given = {
                    name: value
                    for name, value in given.items()
                    if name != "kind" and value is not None
                }
            else:  # no tool took it
                given = lookup(event, "tool_call.arguments")
            thought = event.get("thought")
            reasoning = event.get("reasoning_content")
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
    more = items(event.get("extended_content"))
    text = {"type": "text", "text": content}
    parts = content if is_list(content) else [text]
    return [*parts, *more] if more else content


def is_conversation(record: JsonObject) -> bool:
    """Tell if a record holds the events of an OpenHands conversation."""
    return any(map(is_openhands, objects(record["events"][:1])))


def read_prediction(record: JsonObject) -> Rollout:
    """Read a prediction of SWE-bench."""
    names = ("model_patch", "full_output", "text")
    texts = (value if is_text(value) else "" for value in map(record.get, names))
    patch, output, text = texts
    answer = [new_turn("assistant", output if output.strip() else patch)]
    if output.strip():
        answer = with_submission(record, answer)
    elif not patch.strip():
        raise UnreadableError("has no patch in `model_patch`: nothing was handed in")
    return Rollout([*prompt_turns(text, "text"), *answer])


def read_atif(record: JsonObject) -> Rollout:
    """Read an ATIF trajectory, with those of its sub-agents."""
    messages = _atif_turns(record)
    agents = objects(record.get("subagent_trajectories"))
    further = tuple(map(_atif_turns, agents))
    tools = lookup(record, "agent.tool_definitions")
    copied = any(step.get("is_copied_context") for step in objects(record.get("steps")))
    # names the rollout of a record that is only a part of it
    session = record.get("session_id")
    part = copied or record.get("continued_trajectory_ref")
    member = session if part and is_text(session) else None
    return Rollout(
        messages,
        (),
        further,
        tools,
        member=member,
    )


_ATIF_ROLES = {"agent": "assistant", "system": "system"}


def _atif_turns(record: JsonObject) -> Messages:
    """Return each step's message with its calls, and their results."""
    out: Messages = []
    for step in list_field(record, "steps"):
        role = _ATIF_ROLES.get(str(step.get("source")), "user")
        turn: Turn = new_turn(role, step.get("message"))
        if step.get("reasoning_content"):
            turn["reasoning_content"] = step["reasoning_content"]
        names = {"id": "tool_call_id", "name": "function_name", "arguments": "arguments"}  # fmt: skip
        calls = [
            {name: call.get(theirs) for name, theirs in names.items()}
            if is_object(call)
            else call
            for call in items(step.get("tool_calls"))
        ]
        out.append(turn | ({"tool_calls": calls} if calls else {}))
        for result in objects(lookup(step, "observation.results")):
            content = result.get("content")
            if content is None and result.get("subagent_trajectory_ref"):
                content = "(a sub-agent's work)"
            out.append(result_turn(result.get("source_call_id"), content))
    return out


def read_trial(record: JsonObject) -> Rollout:
    """Read a trial of Harbor, which is made of the files of its folder."""
    trajectory = record.get("trajectory")
    if not is_object(trajectory) or not holds(trajectory, "schema_version~ATIF-v.*"):
        raise UnreadableError("has no ATIF trajectory in `agent/trajectory.json`")
    outcome = record.get("reward_file")
    outcome = outcome.get("reward") if is_object(outcome) else outcome
    stated = lookup(record, "result.verifier_result.rewards.reward")
    reward = outcome if stated is None else stated
    return replace(
        read_atif(trajectory),
        reward=reward,
        outcome=outcome,
        member=None,
    )
