"""Kinds of events that files are made of, each known by its keys and never by its texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse

Event = Mapping[str, Any]
Matches = Callable[[Event], bool]

_INNER = ("message", "info", "context")
"""Members whose own keys count too, as `message.role`."""
_CONVERSATIONS = (
    "conversation_id conversationId session_id thread_id trajectory_id rollout_id "
    "episode_id run_id chat_id dialog_id dialogue_id"
)
"""Members by which the messages of a table belong together, beside `sessionId`."""
_CODEX_HEAD = {"id", "timestamp", "instructions", "git"}
_TRACES = ("trace_id", "traceId", "traceID", "context.trace_id")
LANGCHAIN = {
    "human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool",
    "developer": "developer", "HumanMessage": "user", "HumanMessageChunk": "user",
    "AIMessage": "assistant", "AIMessageChunk": "assistant", "SystemMessage": "system",
    "SystemMessageChunk": "system", "ToolMessage": "tool", "ToolMessageChunk": "tool",
    "FunctionMessage": "tool",
}  # fmt: skip
"""The types of LangChain's messages → the role of a chat message."""


def clue(
    kinds: str = "",
    *,
    field: str = "type",
    has: str = "",
    some: str = "",
    lacks: str = "",
    lists: str = "",
) -> Matches:
    """Return a test for events by their keys; each argument holds words.

    `kinds` are the texts that `field` may have, in which `*` stands for any; without them it may have any
    value. An event has each key of `has` and of `lists`, which are lists, one or more of `some`, and none of
    `lacks`.
    """
    exact, wild = set(kinds.split()), [word for word in kinds.split() if "*" in word]
    required, any_of, none_of = set(f"{has} {lists}".split()), set(some.split()), set(lacks.split())  # fmt: skip

    def is_kind(kind: Any) -> bool:
        if not isinstance(kind, str):
            return not kinds
        return not kinds or kind in exact or any(fnmatchcase(kind, w) for w in wild)

    def matches(event: Event) -> bool:
        keys = _keys(event)
        return (
            required <= keys
            and not none_of & keys
            and (not any_of or not any_of.isdisjoint(keys))
            and is_kind(event.get(field))
            and all(isinstance(event[name], list) for name in lists.split())
        )

    return matches


def _keys(event: Event) -> set[str]:
    keys = set(event)
    for name in _INNER:
        inner = event.get(name)
        if isinstance(inner, dict):
            keys.update(f"{name}.{key}" for key in inner)
    return keys


def one_of(*tests: Matches) -> Matches:
    """Return a test for events that fit one of several."""
    return lambda event: any(test(event) for test in tests)


is_message = one_of(  # `_` begins the roles of Kimi CLI's notes
    clue("_*", field="role", lacks="message"),
    clue(
        "*",
        field="role",
        some="content parts tool_calls function_call thinking reasoning_content",
        lacks="message",
    ),
)
"""Tells if it is a chat message with a role, not wrapped by a session."""

is_sharegpt = clue("*", field="from", has="value")
"""Tells if it is a message of ShareGPT."""

is_claude = one_of(
    clue(
        "user assistant",
        has="message.content",
        some="sessionId leafUuid parentUuid session_id timestamp",
    ),
    clue("file-history-snapshot"),
    clue(has="type uuid parentUuid"),
    clue(
        "system summary progress attachment queue-operation last-prompt custom-title ai-title "
        "agent-name agent-color permission-mode mode pr-link tag",
        some="sessionId leafUuid parentUuid",
        lacks="payload",
    ),
    clue("system result stream_event rate_limit_event", has="session_id"),
)
"""Tells if it is a line of a session of Claude Code, or of `claude --output-format stream-json`."""

is_codex = one_of(
    clue(
        "session_meta response_item event_msg turn_context compacted",
        has="payload",
    ),
    clue("message", has="role", lists="content"),
    clue("reasoning", has="summary"),
    clue(
        "function_call function_call_output custom_tool_call custom_tool_call_output",
        has="call_id",
    ),
    clue("local_shell_call", has="action"),
    clue("local_shell_call_output", has="output"),
    clue("web_search_call", has="status"),
    clue(has="record_type", lacks="type"),
    lambda event: {"id", "timestamp"} < event.keys() <= _CODEX_HEAD,
)
"""Tells if it is a line of Codex's rollout file: an event with its payload, or in older ones an item."""

is_gemini = one_of(
    clue("tool_use tool_result", has="tool_id"),
    clue(
        "init message result",
        has="timestamp",
        some="session_id role stats",
        lacks="message",
    ),
    clue(has="sessionId projectHash", lacks="messages"),
    clue(some="$set $rewindTo"),
    clue(
        "user gemini info error warning",
        has="id timestamp content",
        lacks=_CONVERSATIONS,
    ),
)
"""Tells if it is a line of a chat file of Gemini CLI (its head, a turn, a change), or of `stream-json`."""

is_pi = one_of(
    clue("session session_start", has="id"),
    clue("message", has="message.role"),
    clue(
        "compaction branch_summary model_change thinking_level_change custom custom_message label "
        "session_info",
        has="timestamp",
    ),
)
"""Tells if it is a line of a session of pi or of its kin: the session's head, or an entry."""

is_opencode = clue(has="info.role", lists="parts")
"""Tells if it is a message that OpenCode exported."""

is_openhands = one_of(
    clue(
        "*Event *Observation *Condensation",
        field="kind",
        has="id source timestamp",
    ),
    clue("*", field="action", has="id source", some="message cause"),
    clue("*", field="observation", has="id source", some="message cause"),
)
"""Tells if it is an event of OpenHands: of its SDK, or of a `trajectory.json`."""

is_autogen = clue(
    "TextMessage MultiModalMessage StopMessage HandoffMessage ToolCallSummaryMessage "
    "ToolCallRequestEvent ToolCallExecutionEvent ThoughtEvent MemoryQueryEvent CodeGenerationEvent "
    "CodeExecutionEvent UserMessage AssistantMessage SystemMessage FunctionExecutionResultMessage "
    "ModelClientStreamingChunkEvent SelectSpeakerEvent SelectorEvent UserInputRequestedEvent "
    "StructuredMessage*",
    lacks="role",
)
"""Tells if it is a message of AutoGen: with a type of its own, and no role."""

# the fields of Langfuse, LangSmith, Weave and OpenAI's agents, whose own id has another name
_has_span_id = clue(
    some="span_id spanId spanID context.span_id context.trace_id parentObservationId "
    "parent_observation_id run_type op_name span_data"
)


def conversation_id(event: Event) -> str | None:
    """Return the id of the conversation that a message names; None if it names none."""
    return _first_id(event, (*_CONVERSATIONS.split(), "sessionId"))


def trace_id(span: Event) -> str | None:
    """Return the id of the trace that a span names; None if it names none."""
    context = span.get("context")
    inner = context if isinstance(context, dict) else {}
    return _first_id(span, _TRACES) or _first_id(inner, _TRACES) or None


def _first_id(event: Event, names: tuple[str, ...]) -> str | None:
    value = next((event[name] for name in names if event.get(name) is not None), None)
    return str(value) if isinstance(value, str | int) else None


def is_span(event: Event) -> bool:
    """Tell if it is a span, with its trace and its own id, or an object of many (OTLP, Jaeger, APIs)."""
    if spans_in(event):
        return True
    if trace_id(event) is None or event.get("observations") or event.get("child_runs"):
        return False  # it holds its trace
    return _has_span_id(event)


def spans_in(event: Event) -> list[Event]:
    """Return the spans in an object of many; [] if it is a span itself."""
    spans: list[Event] = []
    for batch in _listed(event, "resourceSpans", "resource_spans", "batches"):
        for scope in _listed(
            batch, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"
        ):
            spans += _listed(scope, "spans")
    for item in _listed(event, "data", "runs"):
        spans += _listed(item, "spans") or [item]
    holders = {"data", "runs", "resourceSpans"}
    single = all(not holders & span.keys() and is_span(span) for span in spans)
    return spans if single else []


def spans_apart(raw: bytes) -> list[bytes]:
    """Return the JSON of each span in an object; the object itself if it holds none, or cannot be read."""
    try:
        return [dump(span) for span in spans_in(parse(raw))] or [raw]
    except (UnreadableError, RecursionError):
        return [raw]


def _listed(value: Event, *keys: str) -> list[Event]:
    """Return the objects of the first of these members, if it is a list; else []."""
    listed = next((value[key] for key in keys if key in value), None)
    items = listed if isinstance(listed, list) else []
    return [item for item in items if isinstance(item, dict)]


def is_langchain(event: Event) -> bool:
    """Tell if it is a message of LangChain, whose type is the speaker; also below `data` or `kwargs`."""
    kind, body = langchain_body(event)
    return kind in LANGCHAIN and "role" not in event and "content" in body


def langchain_body(event: Event) -> tuple[str | None, Event]:
    """Return the type of a message of LangChain, and the object that holds its content."""
    kind, body = event.get("type"), event
    data, given, names = event.get("data"), event.get("kwargs"), event.get("id")
    if kind == "constructor" and isinstance(given, dict):
        named = names[-1] if isinstance(names, list) and names else None
        kind, body = given.get("type") or named, given
    elif isinstance(data, dict):
        body = data
    return kind if isinstance(kind, str) else None, body
