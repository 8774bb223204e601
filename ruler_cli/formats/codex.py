"""Sessions of Codex CLI: its rollout files, of any age.

Codex writes each message twice, as a `response_item` and as an `event_msg`, and puts texts of the harness
(`<environment_context>`, AGENTS.md) into turns of the user.
"""

from __future__ import annotations

import re
from typing import Any

from ruler_cli.formats.claude_code import NOT_TYPED, NOTIFICATIONS
from ruler_cli.formats.interface import RefusedFormat, first_at, lookup, objects
from ruler_cli.formats.sessions import (
    Record,
    Session,
    content_parts,
    events_of,
    made_of,
    part_text,
    plain_content,
    session_format,
)
from ruler_cli.reading.event_kinds import is_claude, is_codex

Event = dict[str, Any]
_DROPPED = re.compile(
    r"\s*<(environment_context|permissions[ _]instructions|collaboration_mode|app-context|apps_instructions"
    r"|skills_instructions|plugins_instructions|personality_spec|model_switch|realtime_conversation"
    r"|additional_context|tool_context|reasoning_context|pinned_notes)\b",
    re.IGNORECASE,
)
"""Beginnings of texts that are not shown: they hold the directory, the date, the settings of a run."""
_AGENTS_MD = re.compile(r"\s*# AGENTS\.md instructions( for [^\n]*)?\n")
_USER_INSTRUCTIONS = "<user_instructions>"
_REQUEST = "## My request for Codex:"
_SILENT = ("ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "token_count")


def _read(record: Record, session: Session) -> None:
    """Read the items in the order of the file, and the events that no item repeats."""
    events = events_of(record)
    items = [_item(event) for event in events]
    has = {str(item.get("role") or item.get("type")) for item in items if isinstance(item, dict)}
    asked = any(_is_typed(item) for item in items)
    users = [item for item in items if item and item.get("role") == "user"]
    instructed = any(_USER_INSTRUCTIONS in str(item.get("content")) for item in users)
    prompts: list[int] = []
    for event, item in zip(events, items, strict=True):
        if not isinstance(event, dict):
            session.add("unreadable", event)
        elif item is not None:
            if _is_typed(item):
                prompts.append(len(session.turns))
            _read_item(item, session)
        elif event.get("type") == "session_meta" and isinstance(event.get("payload"), dict):
            session.identify(event["payload"].get("id"))
        elif event.get("type") == "event_msg":
            _read_event(event.get("payload"), session, has, prompts, asked=asked)
        elif event.get("type") == "compacted" and isinstance(event.get("payload"), dict):
            session.note(event["payload"].get("message"))
        elif "type" not in event and isinstance(event.get("instructions"), str) and not instructed:
            session.add("developer", event["instructions"])


def _item(event: Any) -> Event | None:
    """The item of the Responses API that an event is, or holds."""
    if not isinstance(event, dict) or "record_type" in event:
        return None
    if "payload" not in event:
        return event if "type" in event else None
    payload = event["payload"]
    return payload if event.get("type") == "response_item" and isinstance(payload, dict) else None


def _is_typed(item: Event | None) -> bool:
    """Tell if the user typed any part of an item: the harness writes parts of the user's turns, too."""
    if item is None or item.get("role") != "user":
        return False
    texts = [part_text(part) for part in content_parts(item.get("content"))]
    added = (_USER_INSTRUCTIONS, *NOT_TYPED)
    return not all(
        text is not None
        and (_DROPPED.match(text) or _AGENTS_MD.match(text) or text.lstrip().startswith(added))
        for text in texts
    )


def _read_item(item: Event, session: Session) -> None:
    """Add an item of the model's input or output as a turn."""
    kind, identity = item.get("type"), item.get("call_id") or item.get("id")
    if kind in _SILENT:
        return
    if "role" in item:
        _read_message(str(item["role"]), item, session)
    elif kind == "reasoning":
        thought = plain_content(item.get("content") or item.get("summary"))
        texts = [part.get("text") for part in objects(thought)] if isinstance(thought, list) else [thought]
        session.add("assistant", None, reasoning="\n".join(str(text) for text in texts if text))
    elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
        arguments = first_at(item, "arguments", "input", "action")
        session.call(identity, item.get("name") or kind, arguments)
    elif str(kind).endswith("_output"):
        session.result(identity, item.get("output"))
    elif kind is not None:
        session.turns.append(item)


def _read_message(role: str, item: Event, session: Session) -> None:
    """Add a message part by part: texts of the harness are no part of the task."""
    if role == "assistant":
        session.add(role, item.get("content"))
        return
    parts = []
    for part in content_parts(item.get("content")):
        text = part_text(part)
        if text is None:
            parts.append(part)
        elif _DROPPED.match(text) or (role == "developer" and text.lstrip().startswith("<")):
            continue
        elif heading := _AGENTS_MD.match(text):
            session.add("developer", text[heading.end() :].strip())
        elif text.lstrip().startswith(_USER_INSTRUCTIONS):
            session.add("developer", text)
        elif text.lstrip().startswith(NOTIFICATIONS):
            session.note(text)
        else:
            parts.append(text.rpartition(_REQUEST)[2].strip() if _REQUEST in text else text)
    session.add(role, plain_content(parts))


def _read_event(payload: Any, session: Session, has: set[str], prompts: list[int], *, asked: bool) -> None:
    """Add an event that stands beside the items, if no item (`has`: roles and types) says the same."""
    if not isinstance(payload, dict):
        return
    kind = payload.get("type")
    if kind == "user_message" and not asked:
        prompts.append(len(session.turns))
        session.add("user", payload.get("message"))
    elif kind == "agent_message" and "assistant" not in has:
        session.add("assistant", payload.get("message"))
    elif kind == "agent_reasoning" and "reasoning" not in has:
        session.add("assistant", None, reasoning=payload.get("text"))
    elif kind == "thread_rolled_back":
        count = payload.get("num_turns")
        if isinstance(count, int) and 0 < count <= len(prompts):
            session.take_back(prompts[-count])
            del prompts[-count:]
    elif kind in ("error", "stream_error"):
        session.note(payload.get("message"))


def _is_sub_agent(record: Record) -> bool:
    """Tell if the first `session_meta` names a sub-agent."""
    heads = (event for event in objects(events_of(record)) if event.get("type") == "session_meta")
    head = lookup(next(heads, None), "payload")
    source = lookup(head, "source")
    return (isinstance(source, dict) and "subagent" in source) or lookup(head, "thread_source") == "subagent"


_codex_events, _claude_events = made_of(is_codex, "events"), made_of(is_claude, "events")
_FORMAT, _REFUSAL = session_format(
    "codex", "Codex", "`events` with `payload` in each",
    lambda record: _codex_events(record) and not _claude_events(record), _read, _is_sub_agent,
)  # fmt: skip
FORMATS = (_FORMAT,)
REFUSALS = (
    _REFUSAL,
    RefusedFormat(
        lambda record: record.get("type") in ("thread.started", "turn.started") and "payload" not in record,
        "is what `codex exec --json` prints, which does not hold the task; give the session's file, "
        "~/.codex/sessions/…/rollout-*.jsonl",
    ),
)
