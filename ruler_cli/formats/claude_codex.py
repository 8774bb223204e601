"""Sessions of Claude Code and of Codex CLI, whose harnesses write texts of their own into the user's turns.

Claude Code: the file of a session, and the events that `stream-json` prints. The file is a tree by
`parentUuid`, but a fork is no branch by itself: results of parallel calls hang side by side. A branch is a
prompt whose parent stands before an earlier prompt. The turns of the user hold reminders, notifications and
the output of local commands as well.

Codex: its rollout files, of any age. It writes each message twice, as a `response_item` and as an
`event_msg`, and puts `<environment_context>` and AGENTS.md into turns of the user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.files.events import is_claude, is_codex
from ruler_cli.formats.dialects import call_turn, result_turn
from ruler_cli.formats.fields import JsonObject, first_at, lookup, objects, words
from ruler_cli.formats.sessions import (
    Agent,
    Record,
    Session,
    content_parts,
    events_of,
    made_of,
    part_text,
    plain_content,
)

Event = dict[str, Any]
_NOTIFICATIONS = words(
    "<task-notification> <bash-stdout> <bash-stderr> <turn_aborted> <subagent_notification>"
)
"""Beginnings of texts of either harness that stand as the user's and that the agent reads."""
_CAVEAT = ("<local-command-caveat>", "Caveat: The messages below")
_LOCAL = ("<local-command-stdout>", "<local-command-stderr>")
_NOT_TYPED = (*_NOTIFICATIONS, *_LOCAL, *_CAVEAT, "[Request interrupted")
"""Beginnings of texts that stand as the user's, and that no user typed."""
_REMINDERS = re.compile(
    r"<(system-reminder|ide_opened_file|ide_diagnostics)>.*?</\1>", re.DOTALL
)
"""Texts that Claude Code adds to a prompt."""


def _read_claude(record: Record, session: Session) -> None:
    events = events_of(record)
    known = objects(events)
    mine = [e for e in known if e.get("type") == "assistant" and _is_main(e)]
    tree = bool(mine) and all(e.get("parentUuid") is not None for e in mine)
    attached = any(_queued(event) is not None for event in known)
    reader = _ClaudeReader(session, attached, tree)
    for event in events:
        if not isinstance(event, dict):
            session.add("unreadable", event)
        elif not _is_side(event):
            reader.read(event)


def _is_side(event: Event) -> bool:
    return bool(event.get("isSidechain") or event.get("parent_tool_use_id"))


def _is_main(event: Event) -> bool:
    """Tell if an event is a turn of the session itself, not of a sub-agent."""
    return event.get("type") in ("user", "assistant") and not _is_side(event)


def _queued(event: Event) -> Any:
    queued = lookup(event, "attachment.type") == "queued_command"
    return lookup(event, "attachment.prompt") if queued else None


@dataclass(slots=True)
class _ClaudeReader:
    """The session so far, and the number of turns after each event.

    `attached`: what the user typed while the agent worked stands in events of its own. `tree`: each event
    names its parent. `root` is the number of turns before the conversation or its last summary, `prompts`
    are the indices of the user's prompts, `waiting` are texts that were typed and not yet read.
    """

    session: Session
    attached: bool
    tree: bool
    cleared: bool = False
    root: int = 0
    message_id: Any = None
    turns_after: dict[str, int] = field(default_factory=dict)
    prompts: list[int] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def read(self, event: Event) -> None:
        """Read one event of the main conversation."""
        identity, kind, message = map(event.get, ("uuid", "type", "message"))
        if isinstance(identity, str) and identity in self.turns_after:
            return  # written twice
        if kind == "assistant" and isinstance(message, dict):
            self._answer(message)
        elif kind == "user" and isinstance(message, dict):
            self._ask(event, message.get("content"))
        elif kind == "queue-operation":
            self._queue(event.get("operation"), event.get("content"))
        elif (queued := plain_content(_queued(event))) is not None:
            text = str(queued)
            note = text.startswith(_NOTIFICATIONS)
            self.session.note(text) if note else self.session.add("user", queued)
        if event.get("subtype") == "compact_boundary" or event.get("isCompactSummary"):
            self.root = len(self.session.turns)
        if isinstance(identity, str):
            self.turns_after[identity] = len(self.session.turns)

    def _answer(self, message: JsonObject) -> None:
        content, identity = message.get("content"), message.get("id")
        if message.get("model") == "<synthetic>":
            self.session.note(content)
            return
        last = self.session.turns[-1] if self.session.turns else {}
        same = identity is not None and identity == self.message_id
        if same and last.get("role") == "assistant":
            last["content"] = [*_blocks(last["content"]), *_blocks(content)]
        else:
            self.session.add("assistant", content)
        self.message_id = identity

    def _ask(self, event: Event, given: Any) -> None:
        self.message_id = None
        parts = map(_without_reminders, content_parts(given))
        content = plain_content([part for part in parts if part is not None])
        text = content if isinstance(content, str) else ""
        session, turns = self.session, self.session.turns
        last = turns[-1].get("content") if turns else None
        # a command that the user typed: /review
        after_command = isinstance(last, str) and last.startswith("<command-")
        meta, typed = event.get("isMeta"), not text.startswith(_NOT_TYPED)
        results = any(part.get("type") == "tool_result" for part in objects(content))
        if event.get("isCompactSummary") and session.begun:
            session.note(content)
        elif text.startswith("<command-name>/clear</command-name>"):
            self.cleared = True
        elif meta and after_command:
            session.add("user", content)  # the text that the user's command stands for
        elif text.startswith(_LOCAL) and after_command:
            # a command to the harness, e.g. /model, which no agent answers
            del turns[-1]
            self.prompts = [at for at in self.prompts if at < len(turns)]
        elif typed if meta else text.startswith(_NOTIFICATIONS):
            session.note(content)
        elif meta or text.startswith((*_LOCAL, *_CAVEAT)):
            return
        elif content and typed and not results:
            self._prompt(event, content)
        else:
            session.add("user", content)

    def _prompt(self, event: Event, content: Any) -> None:
        """Add a prompt; if its parent stands before an earlier prompt, take back all turns since."""
        if self.cleared:  # another conversation begins
            self.session.take_back(0)
            self.prompts, self.root, self.cleared = [], 0, False
        parent = event.get("parentUuid")
        if parent is None:
            self.session.identify(event.get("sessionId") or event.get("session_id"))
        if self.tree and "parentUuid" in event:
            start = self.root if parent is None else self.turns_after.get(str(parent))
            if start is not None and self.prompts and self.prompts[-1] >= start:
                self.session.take_back(start)
                self.prompts = [at for at in self.prompts if at < start]
        self.prompts.append(len(self.session.turns))
        self.session.add("user", content)

    def _queue(self, operation: Any, content: Any) -> None:
        """Note a text that was typed while the agent worked; show it when it reaches the agent."""
        if operation == "enqueue" and isinstance(content, str):
            self.waiting += [] if content.startswith(_NOT_TYPED) else [content]
        elif operation in ("remove", "dequeue", "popAll") and self.waiting:
            text = self.waiting.pop()
            if operation == "remove" and not self.attached:
                self.session.add("user", text)


def _blocks(content: Any) -> list[Any]:
    text = [{"type": "text", "text": content}]
    return text if isinstance(content, str) else content_parts(content)


def _without_reminders(part: Any) -> Any:
    """A part of a user's turn without texts between closed tags of the harness; None if nothing is left."""
    text = part_text(part)
    rest = text if text is None else _REMINDERS.sub("", text)
    return part if text is None or rest == text else str(rest).strip() or None


_DROPPED = re.compile(
    r"\s*<(environment_context|permissions[ _]instructions|collaboration_mode|app-context|apps_instructions"
    r"|skills_instructions|plugins_instructions|personality_spec|model_switch|realtime_conversation"
    r"|additional_context|tool_context|reasoning_context|pinned_notes)\b",
    re.IGNORECASE,
)
"""Beginnings of texts of Codex that hold the directory, the date, the settings of a run: not shown."""
_AGENTS_MD = re.compile(r"\s*# AGENTS\.md instructions( for [^\n]*)?\n")
_USER_INSTRUCTIONS = "<user_instructions>"
_REQUEST = "## My request for Codex:"
_SILENT = words(
    "ghost_snapshot compaction compaction_summary context_compaction token_count"
)
_CALLS = words("function_call custom_tool_call local_shell_call web_search_call")


def _read_codex(record: Record, session: Session) -> None:
    """Read the items in the order of the file, and the events that no item repeats."""
    events = events_of(record)
    items = [_item(event) for event in events]
    known = [item for item in items if item is not None]
    has = {str(item.get("role") or item.get("type")) for item in known}
    asked = any(map(_is_typed, known))
    users = [str(i.get("content")) for i in known if i.get("role") == "user"]
    instructed = any(_USER_INSTRUCTIONS in text for text in users)
    prompts: list[int] = []
    for event, item in zip(events, items, strict=True):
        if not isinstance(event, dict):
            session.add("unreadable", event)
            continue
        kind, payload = event.get("type"), event.get("payload")
        if item is not None:
            if _is_typed(item):
                prompts.append(len(session.turns))
            _read_item(item, session)
        elif "type" not in event and isinstance(event.get("instructions"), str):
            session.add("developer", None if instructed else event["instructions"])
        elif not isinstance(payload, dict):
            continue
        elif kind == "session_meta":
            session.identify(payload.get("id"))
        elif kind == "event_msg":
            _read_event(payload, session, has, prompts, asked=asked)
        elif kind == "compacted":
            session.note(payload.get("message"))


def _item(event: Any) -> Event | None:
    """The item of the Responses API that an event is, or holds."""
    if not isinstance(event, dict) or "record_type" in event:
        return None
    if "payload" not in event:
        return event if "type" in event else None
    payload, held = event["payload"], event.get("type") == "response_item"
    return payload if held and isinstance(payload, dict) else None


def _is_typed(item: Event) -> bool:
    """Tell if the user typed any part of an item: the harness writes parts of the user's turns, too."""
    if item.get("role") != "user":
        return False
    texts = map(part_text, content_parts(item.get("content")))
    return not all(text is not None and _is_added(text) for text in texts)


def _is_added(text: str) -> bool:
    added = text.lstrip().startswith((_USER_INSTRUCTIONS, *_NOT_TYPED))
    return added or bool(_DROPPED.match(text) or _AGENTS_MD.match(text))


def _read_item(item: Event, session: Session) -> None:
    """Add an item of the model's input or output as a turn."""
    kind, identity = item.get("type"), item.get("call_id") or item.get("id")
    if kind in _SILENT:
        return
    if "role" in item:
        _read_message(str(item["role"]), item.get("content"), session)
    elif kind == "reasoning":
        thought = plain_content(item.get("content") or item.get("summary"))
        if isinstance(thought, list):
            texts = [part.get("text") for part in objects(thought)]
            thought = "\n".join(str(text) for text in texts if text)
        session.add("assistant", None, reasoning=str(thought or ""))
    elif kind in _CALLS:
        arguments = first_at(item, "arguments", "input", "action")
        session.turns.append(call_turn(identity, item.get("name") or kind, arguments))
    elif str(kind).endswith("_output"):
        session.turns.append(result_turn(identity, item.get("output")))
    elif kind is not None:
        session.turns.append(item)


def _read_message(role: str, content: Any, session: Session) -> None:
    """Add a message part by part: texts of the harness are no part of the task."""
    if role == "assistant":
        session.add(role, content)
        return
    parts = []
    for part in content_parts(content):
        text = part_text(part)
        bare = str(text).lstrip()
        if text is None:
            parts.append(part)
        elif _DROPPED.match(text) or (role == "developer" and bare.startswith("<")):
            continue
        elif heading := _AGENTS_MD.match(text):
            session.add("developer", text[heading.end() :].strip())
        elif bare.startswith(_USER_INSTRUCTIONS):
            session.add("developer", text)
        elif bare.startswith(_NOTIFICATIONS):
            session.note(text)
        else:
            asked = text.rpartition(_REQUEST)[2].strip()
            parts.append(asked if _REQUEST in text else text)
    session.add(role, parts)


def _read_event(
    payload: Event, session: Session, has: set[str], prompts: list[int], *, asked: bool
) -> None:
    """Add an event that stands beside the items, if no item (`has`: roles and types) says the same."""
    message, count = payload.get("message"), payload.get("num_turns")
    match payload.get("type"):
        case "user_message" if not asked:
            prompts.append(len(session.turns))
            session.add("user", message)
        case "agent_message" if "assistant" not in has:
            session.add("assistant", message)
        case "agent_reasoning" if "reasoning" not in has:
            session.add("assistant", None, reasoning=payload.get("text"))
        case "thread_rolled_back" if isinstance(count, int):
            if 0 < count <= len(prompts):
                session.take_back(prompts[-count])
                del prompts[-count:]
        case "error" | "stream_error":
            session.note(message)


def _is_codex_sub_agent(record: Record) -> bool:
    """Tell if the first `session_meta` names a sub-agent."""
    events = objects(events_of(record))
    heads = [event for event in events if event.get("type") == "session_meta"]
    head = lookup(heads[:1], "0.payload")
    source = lookup(head, "source")
    named = isinstance(source, dict) and "subagent" in source
    return named or lookup(head, "thread_source") == "subagent"


def _is_claude_line(event: Record) -> bool:
    return event.get("type") in ("user", "assistant", "system") and "role" not in event


_codex_events, _claude_events = (
    made_of(is_codex, "events"),
    made_of(is_claude, "events"),
)
_claude_lines = made_of(_is_claude_line, "loglines")


def _is_claude(record: Record) -> bool:
    return _claude_events(record) or _claude_lines(record)


def _is_codex(record: Record) -> bool:
    return _codex_events(record) and not _claude_events(record)


def _is_claude_sub_agent(record: Record) -> bool:
    return not any(map(_is_main, objects(events_of(record))))


CLAUDE = Agent("Claude Code", _is_claude, _read_claude, _is_claude_sub_agent)
CODEX = Agent("Codex", _is_codex, _read_codex, _is_codex_sub_agent)
