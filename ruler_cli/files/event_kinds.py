"""Kinds of events that files are made of, each known by its keys and never by its texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse

Event = Mapping[str, Any]

_CONTENTS = frozenset(
    ("content", "parts", "tool_calls", "function_call", "thinking", "reasoning_content")
)
_ITEMS = {
    "message": "role", "reasoning": "summary", "function_call": "call_id", "function_call_output": "call_id",
    "custom_tool_call": "call_id", "custom_tool_call_output": "call_id", "local_shell_call": "action",
    "local_shell_call_output": "output", "web_search_call": "status",
}  # fmt: skip
"""Items of OpenAI's Responses, each with a member that it has."""
_CODEX_HEAD = frozenset(("id", "timestamp", "instructions", "git"))
_CODEX = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CLAUDE = frozenset(
    ("user", "assistant", "system", "summary", "progress", "attachment", "queue-operation", "last-prompt",
     "custom-title", "ai-title", "agent-name", "agent-color", "permission-mode", "mode", "pr-link", "tag")
)  # fmt: skip
_CLAUDE_IDS = frozenset(("sessionId", "leafUuid", "parentUuid"))
_STREAMED = frozenset(
    ("system", "assistant", "user", "result", "stream_event", "rate_limit_event")
)
_PI = frozenset(
    ("compaction", "branch_summary", "model_change", "thinking_level_change", "custom",
     "custom_message", "label", "session_info")
)  # fmt: skip
_CONVERSATIONS = (
    "conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "trajectory_id",
    "rollout_id", "episode_id", "run_id", "chat_id", "dialog_id", "dialogue_id",
)  # fmt: skip
"""Members by which the messages of a table belong together."""

_TRACES = ("trace_id", "traceId", "traceID", "context.trace_id")
_IDS = frozenset(("span_id", "spanId", "spanID", "context.span_id", "context.trace_id"))
_OTHER_IDS = frozenset(
    ("parentObservationId", "parent_observation_id", "run_type", "op_name", "span_data")
)
"""Fields of spans whose own id has another name: Langfuse's, LangSmith's, Weave's, OpenAI's agents'."""

_AUTOGEN = frozenset(
    ("TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "ToolCallSummaryMessage",
     "ToolCallRequestEvent", "ToolCallExecutionEvent", "ThoughtEvent", "MemoryQueryEvent",
     "CodeGenerationEvent", "CodeExecutionEvent", "UserMessage", "AssistantMessage", "SystemMessage",
     "FunctionExecutionResultMessage", "ModelClientStreamingChunkEvent", "SelectSpeakerEvent",
     "SelectorEvent", "UserInputRequestedEvent")
)  # fmt: skip
LANGCHAIN = {
    "human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool",
    "developer": "developer", "HumanMessage": "user", "HumanMessageChunk": "user",
    "AIMessage": "assistant", "AIMessageChunk": "assistant", "SystemMessage": "system",
    "SystemMessageChunk": "system", "ToolMessage": "tool", "ToolMessageChunk": "tool",
    "FunctionMessage": "tool",
}  # fmt: skip
"""The types of LangChain's messages → the role of a chat message."""


def conversation_id(event: Event) -> str | None:
    """The id of the conversation that a message names; None if it names none."""
    return _as_id(
        next((event[key] for key in _CONVERSATIONS if event.get(key) is not None), None)
    )


def trace_id(span: Event) -> str | None:
    """The id of the trace that a span names; None if it names none."""
    return _as_id(
        next((at[key] for at in _holders(span) for key in _TRACES if at.get(key)), None)
    )


def _as_id(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) else None


def is_span(event: Event) -> bool:
    """Tell if it is a span, with its trace and its own id, or an object of many (OTLP, Jaeger, APIs)."""
    if spans_in(event):
        return True
    if trace_id(event) is None or event.get("observations") or event.get("child_runs"):
        return False  # it holds its trace
    return any(at.keys() & _IDS for at in _holders(event)) or bool(
        event.keys() & _OTHER_IDS
    )


def spans_in(event: Event) -> list[Event]:
    """The spans in an object of many; [] if it is a span itself."""
    spans: list[Event] = []
    for batch in _listed(event, ("resourceSpans", "resource_spans", "batches")):
        for scope in _listed(
            batch, ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        ):
            spans += _listed(scope, ("spans",))
    for item in _listed(event, ("data", "runs")):
        spans += _listed(item, ("spans",)) or [item]
    holders = {"data", "runs", "resourceSpans"}
    return (
        spans
        if all(not holders & span.keys() and is_span(span) for span in spans)
        else []
    )


def spans_apart(raw: bytes) -> list[bytes]:
    """The JSON of each span in an object; the object itself if it holds none, or cannot be read."""
    try:
        return [dump(span) for span in spans_in(parse(raw))] or [raw]
    except (UnreadableError, RecursionError):
        return [raw]


def _listed(value: Event, keys: tuple[str, ...]) -> list[Event]:
    """The objects of the first of these members, if it is a list; else []."""
    listed = next((value[key] for key in keys if key in value), None)
    return (
        [item for item in listed if isinstance(item, dict)]
        if isinstance(listed, list)
        else []
    )


def _holders(span: Event) -> tuple[Event, ...]:
    context = span.get("context")
    return (span, context) if isinstance(context, dict) else (span,)


def is_message(event: Event) -> bool:
    """Tell if it is a chat message with a role, not wrapped by a session; Kimi CLI's notes have `_` roles."""
    role = event.get("role")
    if not isinstance(role, str) or "message" in event:
        return False
    return role.startswith("_") or bool(_CONTENTS & event.keys())


def is_claude(event: Event) -> bool:
    """Tell if it is a line of a session of Claude Code, or of `claude --output-format stream-json`."""
    kind = event.get("type")
    if not isinstance(kind, str):
        return False
    if kind in ("user", "assistant"):
        message = event.get("message")
        known = (
            _CLAUDE_IDS & event.keys() or "session_id" in event or "timestamp" in event
        )
        return isinstance(message, dict) and "content" in message and bool(known)
    if kind == "file-history-snapshot" or {"uuid", "parentUuid"} <= event.keys():
        return True
    if kind in _CLAUDE and _CLAUDE_IDS & event.keys():
        return "payload" not in event
    return kind in _STREAMED and "session_id" in event


def is_codex(event: Event) -> bool:
    """Tell if it is a line of Codex's rollout file: an event with its payload, or in older ones an item."""
    kind = event.get("type")
    if isinstance(kind, str):
        if kind == "message" and not isinstance(event.get("content"), list):
            return False
        member = _ITEMS.get(kind)
        return (kind in _CODEX and "payload" in event) or (
            member is not None and member in event
        )
    return "record_type" in event or ({"id", "timestamp"} < event.keys() <= _CODEX_HEAD)


def is_gemini(event: Event) -> bool:
    """Tell if it is a line of a chat file of Gemini CLI (its head, a turn, a change), or of `stream-json`."""
    kind = event.get("type")
    if kind in ("tool_use", "tool_result"):
        return "tool_id" in event
    if kind in ("init", "message", "result") and "timestamp" in event:
        return "message" not in event and bool(
            {"session_id", "role", "stats"} & event.keys()
        )
    if {"sessionId", "projectHash"} <= event.keys():
        return "messages" not in event
    if event.keys() & {"$set", "$rewindTo"}:
        return True
    if conversation_id(event) is not None and "sessionId" not in event:
        return False
    return kind in ("user", "gemini", "info", "error", "warning") and (
        {"id", "timestamp", "content"} <= event.keys()
    )


def is_pi(event: Event) -> bool:
    """Tell if it is a line of a session of pi or of its kin: the session's head, or an entry."""
    kind = event.get("type")
    if kind in ("session", "session_start"):
        return "id" in event
    if kind == "message":
        message = event.get("message")
        return isinstance(message, dict) and isinstance(message.get("role"), str)
    return isinstance(kind, str) and kind in _PI and "timestamp" in event


def is_opencode(event: Event) -> bool:
    """Tell if it is a message that OpenCode exported."""
    info = event.get("info")
    return (
        isinstance(info, dict)
        and "role" in info
        and isinstance(event.get("parts"), list)
    )


def is_openhands(event: Event) -> bool:
    """Tell if it is an event of OpenHands: of its SDK, or of a `trajectory.json`."""
    kind = event.get("kind")
    if isinstance(kind, str) and kind.endswith(
        ("Event", "Observation", "Condensation")
    ):
        return {"id", "source", "timestamp"} <= event.keys()
    if not {"id", "source"} <= event.keys() or not {"message", "cause"} & event.keys():
        return False
    return isinstance(event.get("action", event.get("observation")), str)


def is_autogen(event: Event) -> bool:
    """Tell if it is a message of AutoGen: with a type of its own, and no role."""
    kind = event.get("type")
    known = isinstance(kind, str) and (
        kind in _AUTOGEN or kind.startswith("StructuredMessage")
    )
    return known and "role" not in event


def is_langchain(event: Event) -> bool:
    """Tell if it is a message of LangChain, whose type is the speaker; also below `data` or `kwargs`."""
    kind, body = langchain_body(event)
    return kind in LANGCHAIN and "role" not in event and "content" in body


def langchain_body(event: Event) -> tuple[str | None, Event]:
    """The type of a message of LangChain, and the object that holds its content."""
    kind, names, given, data = (
        event.get(name) for name in ("type", "id", "kwargs", "data")
    )
    body = data if isinstance(data, dict) else event
    if kind == "constructor" and isinstance(given, dict):
        named = names[-1] if isinstance(names, list) and names else None
        kind, body = given.get("type") or named, given
    return kind if isinstance(kind, str) else None, body
