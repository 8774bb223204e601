"""Histories of agent frameworks that have messages of their own: AutoGen, LangChain, LangGraph, CrewAI, ADK.

AutoGen 0.2 writes the roles that the asking agent sees: the task is its `assistant`, the answers are `user`;
so the first speaker asks, and all others answer. An evaluation set of ADK holds the expected answers, and is
refused.

docs/formats.md says who writes each file, and what its keys do not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.event_kinds import is_autogen, is_langchain
from ruler_cli.formats.chat import check_messages
from ruler_cli.formats.dialects import (
    normalize_call,
    normalize_message,
    normalize_part,
    result_turn,
)
from ruler_cli.formats.fields import is_message_list, items, lookup, objects
from ruler_cli.formats.interface import ID_KEYS, Format, refused_shapes
from ruler_cli.types import Rollout

_USERS = (
    "user",
    "human",
    "user_proxy",
    "userproxy",
    "userproxyagent",
    "user_proxy_agent",
)
_SILENT = (
    "ModelClientStreamingChunkEvent",
    "SelectSpeakerEvent",
    "SelectorEvent",
    "UserInputRequestedEvent",
)
_RESULTS = ("ToolCallExecutionEvent", "FunctionExecutionResultMessage")
_THREADS = ("messages", "message_thread", "llm_messages", "llm_context.messages")
"""Paths of AutoGen's messages: of a result, or of the input of a model. A team has a state an agent."""
_STATES = ("messages", "values.messages", "channel_values.messages")
"""Paths of LangChain's and LangGraph's messages."""


def _listed(record: Mapping[str, Any], paths: tuple[str, ...]) -> list[Any]:
    """The first list of messages at these paths, or of an agent's state; [] if there is none."""
    states = record.get("agent_states") if paths is _THREADS else None
    values = [lookup(record, path) for path in paths]
    values += (
        [lookup(s, "message_thread") for s in states.values()]
        if isinstance(states, dict)
        else []
    )
    return next(filter(is_message_list, values), [])


def _read(
    paths: tuple[str, ...],
    turns_of: Callable[[dict[str, Any]], Iterable[Any]],
    record: dict[str, Any],
) -> Iterator[Any]:
    if not (messages := _listed(record, paths)):
        raise UnreadableError("has no messages where its framework writes them")
    for message in messages:
        if not isinstance(message, dict):
            raise UnreadableError("has a message that is no object")
        yield from turns_of(message)


def _autogen_turns(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind, source, content = (
        message.get("type"),
        message.get("source"),
        message.get("content"),
    )
    if "role" in message:  # a line that could not be read
        yield message
    elif kind in _RESULTS:
        for one in content if isinstance(content, list) else [content]:
            yield result_turn(
                lookup(one, "call_id"),
                one.get("content") if isinstance(one, dict) else one,
            )
    elif kind == "CodeExecutionEvent":
        yield {"role": "tool", "content": lookup(message, "result.output")}
    elif kind == "SystemMessage":
        yield {"role": "system", "content": content}
    elif kind == "UserMessage" or str(source).casefold() in _USERS:
        yield {"role": "user", "content": content}
    elif kind not in _SILENT:
        calls = items(content)
        calls = (
            calls
            if all(
                isinstance(c, dict) and {"name", "arguments"} <= c.keys() for c in calls
            )
            else []
        )
        thought = content if kind == "ThoughtEvent" else message.get("thought")
        turn = {
            "role": "assistant",
            "content": None if calls or kind == "ThoughtEvent" else content,
        }
        more = {"name": source, "tool_calls": calls, "reasoning_content": thought}
        yield turn | {key: value for key, value in more.items() if value}


def _read_chat_history(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    history = check_messages(record["chat_history"], "chat_history")
    first = _speaker(history[0])
    for message in history:
        role = message.get("role")
        if role not in ("tool", "function", "system"):
            role = (
                "user"
                if _speaker(message) == first and not message.get("tool_calls")
                else "assistant"
            )
        results = message.get("tool_responses")
        yield from results if is_message_list(results) else [{**message, "role": role}]


def _speaker(message: Mapping[str, Any]) -> Any:
    return message.get("name") or message.get("role")


def _is_chat_history(record: Mapping[str, Any]) -> bool:
    known = {
        "summary",
        "cost",
        "human_input",
    } & record.keys() and "messages" not in record
    return bool(known) and is_message_list(record.get("chat_history"))


def _read_crew(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for task in record["tasks_output"]:
        texts = [
            task.get(name)
            for name in ("description", "expected_output")
            if task.get(name)
        ]
        yield {"role": "user", "content": "\n\n".join(map(str, texts))}
        yield {
            "role": "assistant",
            "name": task.get("agent"),
            "content": task.get("raw"),
        }


def _is_crew(record: Mapping[str, Any]) -> bool:
    tasks = items(record.get("tasks_output"))
    return bool(tasks) and all({"description", "raw"} <= task.keys() for task in tasks)


_STATUS = {1: True, 2: False, "passed": True, "failed": False}


def _pick(value: Any, name: str) -> Any:
    """A field that is written as `two_words` or as `twoWords`; None if it is absent."""
    if not isinstance(value, Mapping):
        return None
    first, *rest = name.split("_")
    field = value.get(name)
    return (
        field
        if field is not None
        else value.get(first + "".join(map(str.capitalize, rest)))
    )


def _content(content: Any, role: str, name: Any = None) -> Iterator[dict[str, Any]]:
    """Gemini's content as messages: its text and calls, then the result of each call."""
    text = content if isinstance(content, str | None) else content.get("content")
    if isinstance(text, str):  # trpc-agent-go
        yield {"role": role, "content": text}
        return
    parts, results = list[Any](), list[Any]()
    for part in lookup(content, "parts") or ():
        if not isinstance(part, Mapping) or any(
            value is not None for value in part.values()
        ):
            one = normalize_part(part)
            (results if lookup(one, "type") == "tool_result" else parts).append(one)
    if parts:
        yield from normalize_message({"role": role, "name": name, "content": parts})
    for one in results:
        yield result_turn(one["tool_use_id"], one["content"], one.get("toolName"))


def _events(events: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for event in events:
        if not isinstance(event, dict) or event.get("partial"):
            continue
        if isinstance(event.get("content"), dict):
            by_user = event.get("author") == "user"
            name = None if by_user else event.get("author")
            yield from _content(
                event["content"], "user" if by_user else "assistant", name
            )
        error = _pick(event, "error_message") or _pick(event, "error_code")
        if error:
            yield {"role": "error", "content": error}


def _invocation(invocation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A turn of an evaluation: the user's message, the calls and results, the final answer."""
    yield from _content(_pick(invocation, "user_content"), "user")
    between = _pick(invocation, "intermediate_data") or {}
    results = {one.get("id"): one for one in _pick(between, "tool_responses") or ()}
    calls = (
        _pick(between, "tool_uses")
        or _pick(between, "tool_calls")
        or invocation.get("tools")
    )
    for call in calls or ():
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [normalize_call(call)],
        }
        response = results.get(call.get("id"))
        content = call.get("result") if response is None else response.get("response")
        if content is not None:
            yield result_turn(call.get("id"), content, call.get("name"))
    for answer in _pick(between, "intermediate_responses") or ():
        if isinstance(answer, list) and len(answer) == 2:
            yield from _content({"parts": answer[1]}, "assistant", answer[0])
    yield from _events(_pick(between, "invocation_events") or ())
    final = _pick(invocation, "final_response")
    if final is not None:
        yield from _content(final, "assistant")


def _read_case(record: dict[str, Any]) -> list[Rollout]:
    events = _pick(_pick(record, "session_details"), "events")
    metrics = _pick(record, "eval_metric_result_per_invocation") or ()
    actual = filter(
        None, objects([_pick(metric, "actual_invocation") for metric in metrics])
    )
    messages = (
        [*_events(events)]
        if events
        else [turn for one in actual for turn in _invocation(one)]
    )
    if not messages:
        raise UnreadableError(
            "has no session in `sessionDetails`, and no `actualInvocation`"
        )
    status = _pick(record, "final_eval_status")
    outcome = _STATUS.get(status) if isinstance(status, int | str) else None
    return [Rollout(messages, reward=record.get("reward"), outcome=outcome)]


def _is_session(record: Mapping[str, Any]) -> bool:
    events = items(record.get("events"))[:5]
    known = bool(events) and all(
        isinstance(event, dict) and "author" in event for event in events
    )
    return known and "messages" not in record


def _is_case(record: Mapping[str, Any]) -> bool:
    names = ("overall_eval_metric_results", "final_eval_status", "session_details")
    return _pick(record, "eval_id") is not None and any(
        _pick(record, name) is not None for name in names
    )


def _case_key(record: Mapping[str, Any]) -> str | None:
    identity, eval_set = _pick(record, "eval_id"), _pick(record, "eval_set_id")
    return (
        f"{eval_set}: {identity}" if eval_set else str(identity) if identity else None
    )


def _history(
    name: str,
    tells: str,
    matches: Any,
    read: Callable[[Any], Iterable[Any]],
    keys: tuple[str, ...] = ID_KEYS,
) -> Format:
    """The format of a framework's histories; the first word of its name is the family."""
    return Format(
        name, name.split(maxsplit=1)[0].lower(), tells, matches,
        lambda record: [Rollout([*read(record)], reward=record.get("reward"))], keys,
    )  # fmt: skip


FORMATS = (
    _history(
        "ADK sessions", "`events` with `author` in each", _is_session, lambda r: _events(r["events"]), ()
    ),
    Format(
        "ADK evaluations", "adk", "`evalId`, `finalEvalStatus`", _is_case, _read_case,
        key_of=_case_key, key_description="evalSetId and evalId",
    ),
    _history(
        "AutoGen messages", "`messages` with `source`, `type` in each",
        lambda record: any(map(is_autogen, _listed(record, _THREADS)[:1])),
        partial(_read, _THREADS, _autogen_turns),
    ),
    _history("AutoGen 0.2 histories", "`chat_history`, `summary`", _is_chat_history, _read_chat_history),
    _history(
        "LangChain messages", "`messages` with `type` (human, ai) in each",
        lambda record: any(is_langchain(m) and not is_autogen(m) for m in _listed(record, _STATES)[:1]),
        partial(_read, _STATES, normalize_message),
    ),
    _history("CrewAI outputs", "`tasks_output` with `description`, `raw` in each", _is_crew, _read_crew),
)  # fmt: skip
REFUSALS = refused_shapes(
    (lambda r: _pick(r, "eval_id") is not None and "conversation" in r and not _is_case(r),
     "is of an ADK evaluation set, whose answers are the expected ones; give the results that `adk eval` "
     "wrote (.evalset_result.json), or sessions"),
)  # fmt: skip
