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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.files.event_kinds import is_claude, is_codex
from ruler_cli.formats import sessions
from ruler_cli.formats.dialects import call_turn, result_turn
from ruler_cli.formats.fields import first_at, lookup, objects
from ruler_cli.formats.interface import refused_shapes

Event = dict[str, Any]
_NOTIFICATIONS = (
    "<task-notification>", "<bash-stdout>", "<bash-stderr>", "<turn_aborted>", "<subagent_notification>",
)  # fmt: skip
"""Beginnings of texts of either harness that stand as the user's and that the agent reads."""
_CAVEAT = ("<local-command-caveat>", "Caveat: The messages below")
_LOCAL = ("<local-command-stdout>", "<local-command-stderr>")
_NOT_TYPED = (*_NOTIFICATIONS, *_LOCAL, *_CAVEAT, "[Request interrupted")
"""Beginnings of texts that stand as the user's, and that no user typed."""
_REMINDERS = ("system-reminder", "ide_opened_file", "ide_diagnostics")
"""Tags of texts that Claude Code adds to a prompt."""


def _read_claude(record: sessions.Record, session: sessions.Session) -> None:
    events = sessions.events_of(record)
    known = objects(events)
    answers = [
        event for event in known if event.get("type") == "assistant" and _is_main(event)
    ]
    tree = bool(answers) and all(
        event.get("parentUuid") is not None for event in answers
    )
    reader = _ClaudeReader(
        session, any(_queued(event) is not None for event in known), tree
    )
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

    session: sessions.Session
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
        identity, kind, message = (
            event.get("uuid"),
            event.get("type"),
            event.get("message"),
        )
        if isinstance(identity, str) and identity in self.turns_after:
            return  # written twice
        if kind == "assistant" and isinstance(message, dict):
            self._answer(message, message.get("content"))
        elif kind == "user" and isinstance(message, dict):
            self._ask(event, message.get("content"))
        elif kind == "queue-operation":
            self._queue(event.get("operation"), event.get("content"))
        elif (queued := _queued(event)) is not None:
            content = sessions.plain_content(queued)
            if isinstance(content, str) and content.startswith(_NOTIFICATIONS):
                self.session.note(content)
            else:
                self.session.add("user", content)
        if event.get("subtype") == "compact_boundary" or event.get("isCompactSummary"):
            self.root = len(self.session.turns)
        if isinstance(identity, str):
            self.turns_after[identity] = len(self.session.turns)

    def _answer(self, message: Mapping[str, Any], content: Any) -> None:
        if message.get("model") == "<synthetic>":
            self.session.note(sessions.plain_content(content))
            return
        last = self.session.turns[-1] if self.session.turns else {}
        same = message.get("id") is not None and message["id"] == self.message_id
        if same and last.get("role") == "assistant":
            last["content"] = [*_blocks(last["content"]), *_blocks(content)]
        else:
            self.session.add("assistant", content)
        self.message_id = message.get("id")

    def _ask(self, event: Event, given: Any) -> None:
        self.message_id = None
        parts = map(_without_reminders, sessions.content_parts(given))
        content = sessions.plain_content([part for part in parts if part is not None])
        text = content if isinstance(content, str) else ""
        session, turns = self.session, self.session.turns
        last = turns[-1].get("content") if turns else None
        after_command = isinstance(last, str) and last.startswith(
            "<command-"
        )  # that the user typed: /review
        meta, typed = event.get("isMeta"), not text.startswith(_NOT_TYPED)
        if event.get("isCompactSummary") and session.begun:
            session.note(content)
        elif text.startswith("<command-name>/clear</command-name>"):
            self.cleared = True
        elif meta and after_command:
            session.add("user", content)  # the text that the user's command stands for
        elif text.startswith(_LOCAL) and after_command:
            del turns[
                -1
            ]  # a command to the harness, e.g. /model, which no agent answers
            self.prompts = [at for at in self.prompts if at < len(turns)]
        elif typed if meta else text.startswith(_NOTIFICATIONS):
            session.note(content)
        elif meta or text.startswith((*_LOCAL, *_CAVEAT)):
            return
        elif (
            content
            and typed
            and not any(part.get("type") == "tool_result" for part in objects(content))
        ):
            self._prompt(event, content)
        else:
            session.add("user", content)

    def _prompt(self, event: Event, content: Any) -> None:
        """Add a prompt; if its parent stands before an earlier prompt, take back all turns since."""
        if self.cleared:  # another conversation begins
            self.session.take_back(0)
            self.prompts, self.root, self.cleared = [], 0, False
        if event.get("parentUuid") is None:
            self.session.identify(event.get("sessionId") or event.get("session_id"))
        if self.tree and "parentUuid" in event:
            parent = event["parentUuid"]
            start = self.root if parent is None else self.turns_after.get(str(parent))
            if start is not None and self.prompts and self.prompts[-1] >= start:
                self.session.take_back(start)
                self.prompts = [at for at in self.prompts if at < start]
        self.prompts.append(len(self.session.turns))
        self.session.add("user", content)

    def _queue(self, operation: Any, content: Any) -> None:
        """Note a text that was typed while the agent worked; show it when it reaches the agent."""
        if (
            operation == "enqueue"
            and isinstance(content, str)
            and not content.startswith(_NOT_TYPED)
        ):
            self.waiting.append(content)
        elif operation in ("remove", "dequeue", "popAll") and self.waiting:
            text = self.waiting.pop()
            if operation == "remove" and not self.attached:
                self.session.add("user", text)


def _blocks(content: Any) -> list[Any]:
    text = [{"type": "text", "text": content}]
    return text if isinstance(content, str) else sessions.content_parts(content)


def _without_reminders(part: Any) -> Any:
    """A part of a user's turn without texts between closed tags of the harness; None if nothing is left."""
    text = sessions.part_text(part)
    if text is None:
        return part
    rest = text
    for tag in _REMINDERS:
        pieces, at = [], 0
        while (start := rest.find(f"<{tag}>", at)) >= 0 and (
            end := rest.find(f"</{tag}>", start)
        ) >= 0:
            pieces.append(rest[at:start])
            at = end + len(f"</{tag}>")
        rest = "".join([*pieces, rest[at:]])
    return part if rest == text else rest.strip() or None


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
_SILENT = (
    "ghost_snapshot",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "token_count",
)


def _read_codex(record: sessions.Record, session: sessions.Session) -> None:
    """Read the items in the order of the file, and the events that no item repeats."""
    events = sessions.events_of(record)
    items = [_item(event) for event in events]
    has = {
        str(item.get("role") or item.get("type"))
        for item in items
        if isinstance(item, dict)
    }
    asked = any(map(_is_typed, items))
    instructed = any(
        _USER_INSTRUCTIONS in str(item.get("content"))
        for item in items
        if item and item.get("role") == "user"
    )
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
        elif (
            "type" not in event
            and isinstance(event.get("instructions"), str)
            and not instructed
        ):
            session.add("developer", event["instructions"])
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
    payload = event["payload"]
    return (
        payload
        if event.get("type") == "response_item" and isinstance(payload, dict)
        else None
    )


def _is_typed(item: Event | None) -> bool:
    """Tell if the user typed any part of an item: the harness writes parts of the user's turns, too."""
    if item is None or item.get("role") != "user":
        return False
    added = (_USER_INSTRUCTIONS, *_NOT_TYPED)
    return any(
        text is None
        or not (
            _DROPPED.match(text)
            or _AGENTS_MD.match(text)
            or text.lstrip().startswith(added)
        )
        for text in map(sessions.part_text, sessions.content_parts(item.get("content")))
    )


def _read_item(item: Event, session: sessions.Session) -> None:
    """Add an item of the model's input or output as a turn."""
    kind, identity = item.get("type"), item.get("call_id") or item.get("id")
    if kind in _SILENT:
        return
    if "role" in item:
        _read_message(str(item["role"]), item.get("content"), session)
    elif kind == "reasoning":
        thought = sessions.plain_content(item.get("content") or item.get("summary"))
        texts = (
            [part.get("text") for part in objects(thought)]
            if isinstance(thought, list)
            else [thought]
        )
        session.add(
            "assistant", None, reasoning="\n".join(str(text) for text in texts if text)
        )
    elif kind in (
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "web_search_call",
    ):
        arguments = first_at(item, "arguments", "input", "action")
        session.turns.append(call_turn(identity, item.get("name") or kind, arguments))
    elif str(kind).endswith("_output"):
        session.turns.append(result_turn(identity, item.get("output")))
    elif kind is not None:
        session.turns.append(item)


def _read_message(role: str, content: Any, session: sessions.Session) -> None:
    """Add a message part by part: texts of the harness are no part of the task."""
    if role == "assistant":
        session.add(role, content)
        return
    parts = []
    for part in sessions.content_parts(content):
        text = sessions.part_text(part)
        if text is None:
            parts.append(part)
        elif _DROPPED.match(text) or (
            role == "developer" and text.lstrip().startswith("<")
        ):
            continue
        elif heading := _AGENTS_MD.match(text):
            session.add("developer", text[heading.end() :].strip())
        elif text.lstrip().startswith(_USER_INSTRUCTIONS):
            session.add("developer", text)
        elif text.lstrip().startswith(_NOTIFICATIONS):
            session.note(text)
        else:
            parts.append(
                text.rpartition(_REQUEST)[2].strip() if _REQUEST in text else text
            )
    session.add(role, sessions.plain_content(parts))


def _read_event(
    payload: Event,
    session: sessions.Session,
    has: set[str],
    prompts: list[int],
    *,
    asked: bool,
) -> None:
    """Add an event that stands beside the items, if no item (`has`: roles and types) says the same."""
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


def _is_codex_sub_agent(record: sessions.Record) -> bool:
    """Tell if the first `session_meta` names a sub-agent."""
    heads = (
        event
        for event in objects(sessions.events_of(record))
        if event.get("type") == "session_meta"
    )
    head = lookup(next(heads, None), "payload")
    source = lookup(head, "source")
    return (isinstance(source, dict) and "subagent" in source) or lookup(
        head, "thread_source"
    ) == "subagent"


_codex_events, _claude_events = (
    sessions.made_of(is_codex, "events"),
    sessions.made_of(is_claude, "events"),
)
_claude_lines = sessions.made_of(
    lambda event: (
        event.get("type") in ("user", "assistant", "system") and "role" not in event
    ),
    "loglines",
)
FORMATS, _SUB_AGENTS = zip(
    sessions.session_format(
        "claude-code", "Claude Code", "`events` with `sessionId` in each",
        lambda record: _claude_events(record) or _claude_lines(record), _read_claude,
        lambda record: not any(map(_is_main, objects(sessions.events_of(record)))),
    ),
    sessions.session_format(
        "codex", "Codex", "`events` with `payload` in each",
        lambda record: _codex_events(record) and not _claude_events(record), _read_codex, _is_codex_sub_agent,
    ),
    strict=True,
)  # fmt: skip
REFUSALS = (*_SUB_AGENTS, *refused_shapes(
    (lambda record: record.get("type") in ("thread.started", "turn.started") and "payload" not in record,
     "is what `codex exec --json` prints, which does not hold the task; give the session's file, "
     "~/.codex/sessions/…/rollout-*.jsonl"),
))  # fmt: skip
