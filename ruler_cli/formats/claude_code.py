"""Sessions of Claude Code: the file of a session, and the events that `stream-json` prints.

The file is a tree by `parentUuid`, but a fork is no branch by itself: results of parallel calls hang side by
side. A branch is a prompt whose parent stands before an earlier prompt. The turns of the user hold texts of
the harness as well: reminders, notifications, output of local commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.formats.interface import lookup, objects
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
from ruler_cli.reading.event_kinds import is_claude

Event = dict[str, Any]
_REMINDERS = ("system-reminder", "ide_opened_file", "ide_diagnostics")
"""Tags of texts that the harness adds to a prompt."""
_CAVEAT = ("<local-command-caveat>", "Caveat: The messages below")
_LOCAL = ("<local-command-stdout>", "<local-command-stderr>")
NOTIFICATIONS = (
    "<task-notification>", "<bash-stdout>", "<bash-stderr>", "<turn_aborted>", "<subagent_notification>",
)  # fmt: skip
"""Beginnings of texts of a harness, Codex's too, that stand as the user's and that the agent reads."""
NOT_TYPED = (*NOTIFICATIONS, *_LOCAL, *_CAVEAT, "[Request interrupted")
"""Beginnings of texts that stand as the user's, and that no user typed."""
_CLEAR = "<command-name>/clear</command-name>"


def _read(record: Record, session: Session) -> None:
    """Read the events in the order of the file."""
    events = events_of(record)
    known = objects(events)
    answers = [event for event in known if event.get("type") == "assistant" and _is_main(event)]
    tree = bool(answers) and all(event.get("parentUuid") is not None for event in answers)
    reader = _ClaudeReader(session, any(_queued(event) is not None for event in known), tree)
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
        identity, kind, message = event.get("uuid"), event.get("type"), event.get("message")
        if isinstance(identity, str) and identity in self.turns_after:
            return  # written twice
        if kind == "assistant" and isinstance(message, dict):
            self._answer(message, message.get("content"))
        elif kind == "user" and isinstance(message, dict):
            self._ask(event, message.get("content"))
        elif kind == "queue-operation":
            self._queue(event)
        elif (queued := _queued(event)) is not None:
            content = plain_content(queued)
            if isinstance(content, str) and content.startswith(NOTIFICATIONS):
                self.session.note(content)
            else:
                self.session.add("user", content)
        if event.get("subtype") == "compact_boundary" or event.get("isCompactSummary"):
            self.root = len(self.session.turns)
        if isinstance(identity, str):
            self.turns_after[identity] = len(self.session.turns)

    def _answer(self, message: Mapping[str, Any], content: Any) -> None:
        if message.get("model") == "<synthetic>":
            self.session.note(plain_content(content))
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
        parts = map(_without_reminders, content_parts(given))
        content = plain_content([part for part in parts if part is not None])
        text = content if isinstance(content, str) else ""
        turns = self.session.turns
        meta, typed = event.get("isMeta"), not text.startswith(NOT_TYPED)
        if event.get("isCompactSummary") and self.session.begun:
            self.session.note(content)
        elif text.startswith(_CLEAR):
            self.cleared = True
        elif meta and _is_command(turns):
            self.session.add("user", content)  # the text that the user's command stands for
        elif text.startswith(_LOCAL) and _is_command(turns):
            del turns[-1]  # a command to the harness, e.g. /model, which no agent answers
            self.prompts = [at for at in self.prompts if at < len(turns)]
        elif typed if meta else text.startswith(NOTIFICATIONS):
            self.session.note(content)
        elif meta or text.startswith((*_LOCAL, *_CAVEAT)):
            return
        elif content and typed and not any(part.get("type") == "tool_result" for part in objects(content)):
            self._prompt(event, content)
        else:
            self.session.add("user", content)

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

    def _queue(self, event: Event) -> None:
        """Note a text that was typed while the agent worked; show it when it reaches the agent."""
        content, operation = event.get("content"), event.get("operation")
        if operation == "enqueue" and isinstance(content, str) and not content.startswith(NOT_TYPED):
            self.waiting.append(content)
        elif operation in ("remove", "dequeue", "popAll") and self.waiting:
            text = self.waiting.pop()
            if operation == "remove" and not self.attached:
                self.session.add("user", text)


def _is_command(turns: list[Any]) -> bool:
    """Tell if the last turn is a command that the user typed, e.g. `/review`."""
    last = turns[-1].get("content") if turns else None
    return isinstance(last, str) and last.startswith("<command-")


def _queued(event: Event) -> Any:
    queued = lookup(event, "attachment.type") == "queued_command"
    return lookup(event, "attachment.prompt") if queued else None


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content_parts(content)


def _without_reminders(part: Any) -> Any:
    """A part of a user's turn without the texts that the harness added; None if nothing is left."""
    text = rest = part_text(part)
    for tag in _REMINDERS if rest is not None else ():
        rest = _without(rest or "", f"<{tag}>", f"</{tag}>")
    return part if rest == text else (rest or "").strip() or None


def _without(text: str, opens: str, closes: str) -> str:
    """A text without all that stands between two tags; a tag that is not closed stays."""
    pieces, at = [], 0
    while (start := text.find(opens, at)) >= 0 and (end := text.find(closes, start)) >= 0:
        pieces.append(text[at:start])
        at = end + len(closes)
    return "".join([*pieces, text[at:]])


_events = made_of(is_claude, "events")
_lines = made_of(
    lambda event: event.get("type") in ("user", "assistant", "system") and "role" not in event, "loglines"
)
_FORMAT, _REFUSAL = session_format(
    "claude-code", "Claude Code", "`events` with `sessionId` in each",
    lambda record: _events(record) or _lines(record), _read,
    lambda record: not any(map(_is_main, objects(events_of(record)))),
)  # fmt: skip
FORMATS = (_FORMAT,)
REFUSALS = (_REFUSAL,)
