"""Histories of agent frameworks that have messages of their own: AutoGen, LangChain, LangGraph, CrewAI, ADK.

AutoGen 0.2 writes the roles that the asking agent sees: the task is its `assistant`, the answers are `user`;
so the first speaker asks, and all others answer. An evaluation set of ADK holds the expected answers, and is
no rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.events import is_autogen, is_langchain
from ruler_cli.formats.chat import Messages, Turn, check_messages, new_turn
from ruler_cli.formats.dialects import (
    normalize_call,
    normalize_message,
    normalize_part,
    result_turn,
)
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    Rollouts,
    first,
    is_message_list,
    items,
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
    if isinstance(states, dict):
        values += [lookup(state, "message_thread") for state in states.values()]
    return first(filter(is_message_list, values)) or []


def _rollout(turns: Iterable[Any]) -> Rollouts:
    return [Rollout([*turns])]


def _read(record: JsonObject, paths: Names, turns_of: Callable[[Any], Any]) -> Rollouts:
    messages = _listed(record, paths)
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise UnreadableError("has no messages where its framework writes them")
    return _rollout(turn for message in messages for turn in turns_of(message))


def is_autogen_history(record: JsonObject) -> bool:
    """Tell if a record holds messages of AutoGen."""
    return any(map(is_autogen, _listed(record, _THREADS)[:1]))


def read_autogen(record: JsonObject) -> Rollouts:
    """Read messages of AutoGen."""
    return _read(record, _THREADS, _autogen_turns)


def is_langchain_history(record: JsonObject) -> bool:
    """Tell if a record holds messages of LangChain."""
    first = _listed(record, _STATES)[:1]
    return any(is_langchain(one) and not is_autogen(one) for one in first)


def read_langchain(record: JsonObject) -> Rollouts:
    """Read messages of LangChain."""
    return _read(record, _STATES, normalize_message)


def _autogen_turns(message: Turn) -> Iterator[Turn]:
    kind, source, content = map(message.get, ("type", "source", "content"))
    if "role" in message:  # a line that could not be read
        yield message
    elif kind in _RESULTS:
        for one in content if isinstance(content, list) else [content]:
            result = one.get("content") if isinstance(one, dict) else one
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
        yield {"role": "assistant", "content": said, **stated}


def read_chat_history(record: JsonObject) -> Rollouts:
    """Read a history of AutoGen 0.2."""
    history = check_messages(record["chat_history"], "chat_history")
    first, turns = _speaker(history[0]), list[Any]()
    for message in history:
        role = message.get("role")
        if role not in ("tool", "function", "system"):
            asks = _speaker(message) == first and not message.get("tool_calls")
            role = "user" if asks else "assistant"
        results = message.get("tool_responses")
        turns += results if is_message_list(results) else [{**message, "role": role}]
    return _rollout(turns)


def _speaker(message: JsonObject) -> Any:
    return message.get("name") or message.get("role")


def read_crew(record: JsonObject) -> Rollouts:
    """Read the tasks of a crew, each with its output."""
    turns: Messages = []
    for task in record["tasks_output"]:
        texts = [task.get(name) for name in ("description", "expected_output")]
        asked = "\n\n".join(str(text) for text in texts if text)
        said = {"name": task.get("agent"), "content": task.get("raw")}
        turns += [new_turn("user", asked), {"role": "assistant", **said}]
    return _rollout(turns)


_STATUS = {1: True, 2: False, "passed": True, "failed": False}


def _pick(value: Any, name: str) -> Any:
    """A field that is written as `two_words` or as `twoWords`; None if it is absent."""
    first, *rest = name.split("_")
    field = lookup(value, name)
    other = first + "".join(map(str.capitalize, rest))
    return lookup(value, other) if field is None else field


def _content(content: Any, role: str, name: Any = None) -> Iterator[Turn]:
    """Gemini's content as messages: its text and calls, then the result of each call."""
    text = content if isinstance(content, str | None) else content.get("content")
    if isinstance(text, str):  # trpc-agent-go
        yield new_turn(role, text)
        return
    parts, results = list[Any](), list[Any]()
    for part in lookup(content, "parts") or ():
        if isinstance(part, Mapping) and all(v is None for v in part.values()):
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
        if isinstance(event.get("content"), dict):
            by_user = author == "user"
            speaker = ("user", None) if by_user else ("assistant", author)
            yield from _content(event["content"], *speaker)
        if error := _pick(event, "error_message") or _pick(event, "error_code"):
            yield new_turn("error", error)


def _invocation(invocation: JsonObject) -> Iterator[Turn]:
    """A turn of an evaluation: the user's message, the calls and results, the final answer."""
    yield from _content(_pick(invocation, "user_content"), "user")
    between = _pick(invocation, "intermediate_data") or {}
    results = {one.get("id"): one for one in _pick(between, "tool_responses") or ()}
    listed = _pick(between, "tool_uses") or _pick(between, "tool_calls")
    for call in listed or invocation.get("tools") or ():
        called = [normalize_call(call)]
        yield {"role": "assistant", "content": None, "tool_calls": called}
        response = results.get(call.get("id"))
        content = call.get("result") if response is None else response.get("response")
        if content is not None:
            yield result_turn(call.get("id"), content, call.get("name"))
    for answer in _pick(between, "intermediate_responses") or ():
        if len(items(answer)) == 2:
            yield from _content({"parts": answer[1]}, "assistant", answer[0])
    yield from _events(_pick(between, "invocation_events") or ())
    final = _pick(invocation, "final_response")
    if final is not None:
        yield from _content(final, "assistant")


def read_session(record: JsonObject) -> Rollouts:
    """Read a session of ADK."""
    return _rollout(_events(record["events"]))


def read_case(record: JsonObject) -> Rollouts:
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
    return [Rollout(messages, outcome=outcome)]


def case_key(record: JsonObject) -> str | None:
    """Return the case of an evaluation set."""
    identity, eval_set = _pick(record, "eval_id"), _pick(record, "eval_set_id")
    if eval_set:
        return f"{eval_set}: {identity}"
    return str(identity) if identity else None
