"""Sessions of coding agents, a file each: Claude Code, Codex, Copilot, Gemini CLI, OpenCode, pi and its kin.

A record is the session's document, or the events of its file; docs/formats.md says what the judge is shown of
it. A session that is printed (`stream-json`) may not hold the prompt. Traps:
- Claude Code's file is a tree by `parentUuid`, but a fork is no branch by itself: results of parallel calls
  hang side by side. A branch is a prompt whose parent stands before an earlier prompt. The turns of the user
  hold reminders, notifications and the output of local commands as well.
- Codex writes each message twice, as a `response_item`, which is read, and as an `event_msg`, and puts
  `<environment_context>` and AGENTS.md into turns of the user.
- Gemini CLI's file changes what stands above: a line replaces the turn of its id, `$rewindTo` takes turns back.
- pi's file is a tree by `parentId`; its last entry tells the branch.
- Copilot CLI's `parentId` is the event before. Its results come as they are ready, a thought may stand in two
  events, sub-agents write into the session's own file, and the harness into messages of the user (`source`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    first,
    first_at,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.events import KINDS
from ruler_cli.messages.content import (
    Messages,
    Turn,
    first_agent_turn,
    new_turn,
    texts,
)
from ruler_cli.messages.dialects import call_turn, each_at, result_turn
from ruler_cli.messages.parts import normalize_call
from ruler_cli.types import Rollout

_SAMPLE = 20
"""First events by which a record's kind is known."""


@dataclass
class Session:
    """A session of an agent: the turns so far, and the runs of turns that the user took back.

    `prompts` are the indices of the user's prompts among the turns, `turns_before` is the number of turns before
    each event. A subclass is an agent, whose sessions have lists `member` of events of a `kind` of `events.toml`.
    `marks_sub_agent` tells by its record, or by one of its first events, that a session is a sub-agent's.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    member: ClassVar = "events"
    event_id: ClassVar = "id"
    turns: Messages = field(default_factory=list)
    taken_back: list[Messages] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)
    turns_before: dict[str, int] = field(default_factory=dict)
    identity: Any = None

    @classmethod
    def matches(cls, record: JsonObject) -> bool:
        """Return whether a record holds a session of the agent, or of one of its sub-agents."""
        return _made_of(record, cls.member, cls.kind)

    @classmethod
    def is_sub_agent(cls, record: JsonObject) -> bool:
        """Return whether a session is a sub-agent's."""
        heads = (record, *objects(events_of(record)[:_SAMPLE]))
        return any(map(cls.marks_sub_agent, heads))

    @classmethod
    def marks_sub_agent(cls, _: JsonObject) -> bool:
        """Return whether a record or an event is a sub-agent's."""
        return False

    @classmethod
    def is_session(cls, record: JsonObject) -> bool:
        """Return whether a record is a session of the agent itself."""
        # a document of messages would be taken for one of another kind
        document = "messages" in record
        return cls.matches(record) and (
            document or not cls.is_sub_agent(record)
        )

    @classmethod
    def rollout(cls, record: JsonObject) -> Rollout:
        """Read a session as the rollout that it is."""
        if not cls.matches(record) or cls.is_sub_agent(record):
            raise UnreadableError(
                f"is not a session of {cls.name}, or a sub-agent's"
            )
        session = cls()
        session.read(record)
        if not session.begun:
            raise UnreadableError("holds no turn of the agent")
        task = session.turns[: first_agent_turn(session.turns)]
        if all(turn["role"] != "user" for turn in task):
            raise UnreadableError(
                "holds no task: what the user asked is not in it; give the session's own file"
            )
        further = tuple(filter(_has_agent, session.taken_back))
        return Rollout(session.turns, (), further, record.get("tools"))

    def read(self, record: JsonObject) -> None:
        """Read a record."""
        self.read_all(events_of(record))

    def read_all(self, events: Iterable[Any]) -> None:
        """Read events one by one."""
        for event in events:
            self.turns_before[str(lookup(event, self.event_id))] = len(
                self.turns
            )
            if is_object(event):
                self.read_event(event)
            else:
                self.add("unreadable", event)

    def read_event(self, event: JsonObject) -> None:
        """Read one event."""
        self.act(event, event.get("type"))

    @property
    def begun(self) -> bool:
        """Return whether the agent had a turn."""
        return _has_agent(self.turns)

    @property
    def last(self) -> Turn:
        """The last turn; an empty one before the first."""
        return self.turns[-1] if self.turns else {}

    def identify(self, identity: Any, *, begun: bool = False) -> None:
        """Note the session's id; UnreadableError for another id after the session has begun."""
        if (begun or self.begun) and identity != self.identity:
            raise UnreadableError(
                "holds several sessions; give each in a file of its own, and their directory"
            )
        self.identity = identity if self.identity is None else self.identity

    def add(
        self, role: str, content: Any, thought: Any = None, calls: Any = None
    ) -> None:
        """Add a turn, unless it is empty."""
        if is_list(thought):
            thought = "\n".join(filter(None, texts(thought)))
        plain = plain_content(content)
        made = [*map(normalize_call, objects(calls))]
        turn = new_turn(role, plain, reasoning=thought, tool_calls=made)
        if content not in (None, "", []) or len(turn) > 2:
            self.turns.append(turn)

    def act(self, event: JsonObject, kind: Any) -> bool:
        """Add what the row of a kind tells of an event; False if no row is of the kind."""
        rows = KINDS[self.kind].turns.items()
        row = first(
            row for pattern, row in rows if re.fullmatch(pattern, str(kind))
        )
        role, _, places = (row or "").partition(" ")
        values = each_at(event, places)
        match role:
            case "call":
                self.turns.append(call_turn(*values))
            case "result":
                self.turns.append(result_turn(*values))
            case "note":
                self.note(*values)
            case _ if values:
                self.add(role, *values)
        return row is not None

    def note(self, text: Any) -> None:
        """Add a text of the harness; before the agent's first turn it is no part of the task."""
        if self.begun:
            self.add("system", text)

    def take_back(self, start: int) -> None:
        """Take back all turns from index `start` on."""
        self.taken_back.append(self.turns[start:])
        del self.turns[start:]
        self.prompts = [at for at in self.prompts if at < start]

    def rewind(self, identity: Any) -> None:
        """Take back all turns since an event."""
        self.take_back(self.turns_before.get(str(identity), len(self.turns)))


def _has_agent(turns: Messages) -> bool:
    return first_agent_turn(turns) < len(turns)


def plain_content(content: Any) -> Any:
    """Content of texts alone as one text: equal prompts are equal however they were written."""
    plain = [*map(part_text, items(content))]
    if None in plain or not is_list(content):
        return content
    return "\n".join(map(str, plain))


def part_text(part: Any) -> str | None:
    """The text of a part of a message; None if it is something else."""
    kinds = (None, "text", "input_text", "output_text")
    if is_object(part) and part.get("type") in kinds:
        part = part.get("text")
    return part if is_text(part) else None


def content_parts(content: Any) -> list[Any]:
    """Content as a list of its parts."""
    if is_list(content):
        return content
    return [] if content in (None, "") else [content]


def events_of(record: JsonObject) -> list[Any]:
    """The events of a session, in the order of its file."""
    return items(first_at(record, "events", "loglines", "messages"))


def _made_of(record: JsonObject, name: str, kind: str) -> bool:
    """Return whether at least half of the first items of the list `name` are of a kind."""
    events = objects(items(record.get(name))[:_SAMPLE])
    return KINDS[kind].is_made_of(events)


_CONTEXT = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
)


class Gemini(Session):
    """A session of Gemini CLI: one document, or lines that add turns, change them and take them back."""

    name = "Gemini CLI"
    kind = "gemini-cli"

    @classmethod
    def marks_sub_agent(cls, record: JsonObject) -> bool:
        """Return whether the head of a session is a sub-agent's."""
        return record.get("kind") == "subagent"

    @classmethod
    def matches(cls, record: JsonObject) -> bool:
        """Return whether it is a document with its head, or made of lines."""
        if is_list(record.get("messages")):
            return {"sessionId", "projectHash"} <= record.keys()
        return super().matches(record)

    def read(self, record: JsonObject) -> None:
        """Read the turns that are left in the end."""
        turns: dict[str, Any] = {}
        for number, event in enumerate(events_of(record)):
            places = "$rewindTo $set.messages projectHash type role id"
            begin, changed, head, kind, role, identity = each_at(event, places)
            if is_text(begin):
                names = [*turns]
                start = names.index(begin) if begin in names else 0
                self.read_all(map(turns.pop, names[start:]))
                self.take_back(0)
            elif messages := objects(changed):
                numbered = enumerate(messages)
                turns = {
                    str(t.get("id") or f"item {n}"): t for n, t in numbered
                }
            elif head:
                self.identify(event.get("sessionId"), begun=bool(turns))
            elif kind or not is_object(event):
                line = f"line {number}"
                turns[line if role else str(identity or line)] = event
        self.read_all(turns.values())

    def read_event(self, event: JsonObject) -> None:
        """Add a turn of the file, or a line that was printed."""
        kind, content = map(event.get, ("type", "content"))
        spoken = self.last.get("content")
        agent = self.last.get("role") == "assistant"
        if (
            kind == "message"
            and event.get("delta")
            and agent
            and is_text(spoken)
        ):
            # the agent's messages are printed in pieces
            self.last["content"] = spoken + str(content)
        elif kind == "message":
            self.add(str(event.get("role")), content)
        elif kind == "user":
            parts = content_parts(content)
            typed = [
                p for p in parts if not str(part_text(p)).startswith(_CONTEXT)
            ]
            self.add("user", typed)
        elif kind in ("gemini", "model", "assistant"):
            calls = objects(event.get("toolCalls"))
            thoughts = [
                ": ".join(filter(None, map(t.get, ("subject", "description"))))
                for t in objects(event.get("thoughts"))
            ]
            self.add("assistant", content, thoughts, calls)
            self.turns += [
                result_turn(
                    call.get("id"), _gemini_result(call), call.get("name")
                )
                for call in calls
            ]
        else:
            self.act(event, kind)


_RESPONSES = words(
    "functionResponse.response.output functionResponse.response.error functionResponse.response text"
)


def _gemini_result(call: JsonObject) -> Any:
    """The result of a call as the model read it, else as the user saw it."""
    out = []
    for part in content_parts(call.get("result")):
        response = first_at(part, *_RESPONSES)
        out.append(part if response is None else response)
    out = out or [call.get("resultDisplay") or call.get("status")]
    return out[0] if len(out) == 1 else out


class OpenCode(Session):
    """A session of OpenCode: messages with `info` and `parts`, of which reverted ones may stand at the end."""

    name = "OpenCode"
    kind = "opencode"
    member = "messages"
    event_id = "info.id"

    @classmethod
    def marks_sub_agent(cls, record: JsonObject) -> bool:
        """Return whether the session has a parent."""
        return lookup(record, "info.parentID") is not None

    def read(self, record: JsonObject) -> None:
        """Read the messages, and take back reverted ones."""
        super().read(record)
        if reverted := lookup(record, "info.revert.messageID"):
            self.rewind(reverted)

    def read_event(self, event: JsonObject) -> None:
        """Read a message."""
        info = event.get("info")
        parts = [p for p in objects(event.get("parts")) if not p.get("ignored")]
        if not is_object(info):
            self.add("unreadable", event)
        elif info.get("role") == "user":
            self.add("user", [*filter(None, map(_opencode_request, parts))])
        else:
            for part in parts:
                self.act(part, part.get("type"))
                if first_at(part, "state.output", "state.error") is not None:
                    self.act(part, "tool result")
        if error := lookup(info, "error.name"):
            self.note(error)


def _opencode_request(part: JsonObject) -> Any:
    """A part of a user's message as text; None if the user did not write it."""
    text = part.get("text")
    match part.get("type"):
        case "text":
            reminder = str(text).startswith("<system-reminder>")
            return None if reminder and part.get("synthetic") else text
        case "subtask":
            command = part.get("command") or part.get("agent")
            return f"/{command} {part.get('prompt')}"
        case "file" if str(part.get("mime")).startswith("image/"):
            return part
        case "file":
            return f"[file {part.get('filename') or part.get('mime')}]"
    return None


@dataclass
class Copilot(Session):
    """A session of Copilot CLI; `shown` are the thoughts and the ids of the calls that are turns already."""

    name = "Copilot CLI"
    kind = "copilot-cli"
    shown: set[str] = field(default_factory=set)

    def read_event(self, event: JsonObject) -> None:
        """Read an event of the session itself."""
        kind, data = map(event.get, ("type", "data"))
        if (
            not is_object(data)
            or event.get("agentId")
            or data.get("parentToolCallId")
        ):
            return
        call = str(data.get("toolCallId"))
        match kind:
            case "session.start":
                self.identify(data.get("sessionId"))
            case "session.snapshot_rewind":
                self.rewind(data.get("upToEventId"))
            case "user.message":
                self._ask(data)
            case "assistant.reasoning" if (
                str(data.get("content")) in self.shown
            ):
                pass
            case "tool.user_requested":
                self.shown.add(call)
                ran = first_at(data, "arguments.command", "toolName")
                self.add("user", f"Ran `{ran}`")
            case "tool.execution_start" if call in self.shown:
                pass
            case _:
                self.act(data, kind)
        if kind == "assistant.message":
            calls = items(self.last.get("tool_calls"))
            self.shown.update(str(call["id"]) for call in calls)
            self.shown.add(str(data.get("reasoningText")))

    def _ask(self, data: JsonObject) -> None:
        """Add what the user wrote and attached, or note what the harness wrote as the user."""
        parts = [data.get("content")]
        for file in objects(data.get("attachments")):
            texts_of_file = filter(
                None, each_at(file, "displayName|title|path text")
            )
            shown = "\n".join(map(str, texts_of_file))
            parts.append(f"[file {shown}]")
        source = data.get("source") or "user"
        if source != "user" or data.get("isAutopilotContinuation"):
            self.note(parts)
        else:
            self.add("user", parts)


class Pi(Session):
    """A session of pi or of its kin: the entries from the last one back to the root; old ones are a list."""

    name = "pi"
    kind = "pi"

    def read(self, record: JsonObject) -> None:
        """Read the entries, those of other branches aside."""
        path = _pi_path(objects(events_of(record)))
        aside = Pi()
        for event in events_of(record):
            identity = lookup(event, "id")
            if lookup(event, "type") in ("session", "session_start"):
                self.identify(identity, begun=aside.begun)
            elif path is None or not is_object(event) or identity in path:
                self.read_all([event])
            else:
                aside.read_event(event)
        self.taken_back.append(aside.turns)

    def read_event(self, event: JsonObject) -> None:
        """Read an entry of the tree."""
        message = event.get("message")
        if self.act(event, event.get("type")) or not is_object(message):
            return
        role = message.get("role")
        if role == "bashExecution":
            ran = f"Ran `{message.get('command')}`\n{message.get('output')}"
            self.add("user", ran)
        elif not self.act(message, f"role {role}"):
            self.add(str(role), content_parts(message.get("content")))
            self.note(message.get("errorMessage"))


def _pi_path(events: list[dict[str, Any]]) -> set[str] | None:
    """The ids of the entries on the way to the last one; None if they are a list."""
    named = [event for event in events if is_text(event.get("id"))]
    entries = {e["id"]: e for e in named if e.get("type") != "session"}
    if not any("parentId" in entry for entry in entries.values()):
        return None
    path = set[str]()
    parent = [*entries][-1]
    for name in reversed(entries):
        # a child of an entry that cannot be read follows the entry before it
        if parent is not None and (parent == name or parent not in entries):
            path.add(name)
            parent = entries[name].get("parentId")
    return path


_NOTIFICATIONS = words(
    "<task-notification> <bash-stdout> <bash-stderr> <turn_aborted> <subagent_notification>"
)
"""Beginnings of texts of either harness that stand as the user's and that the agent reads."""
_CAVEAT = ("<local-command-caveat>", "Caveat: The messages below")
_LOCAL = ("<local-command-stdout>", "<local-command-stderr>")
_NOT_TYPED = (*_NOTIFICATIONS, *_LOCAL, *_CAVEAT, "[Request interrupted")
"""Beginnings of texts that stand as the user's, and that no user typed."""
_REMINDERS = re.compile(
    r"<(system-reminder|ide_opened_file|ide_diagnostics)>.*?</\1>",
    re.DOTALL,
)
"""Texts that Claude Code adds to a prompt."""


@dataclass
class Claude(Session):
    """A session of Claude Code.

    `attached`: what the user typed while the agent worked stands in events of its own. `tree`: each event
    names its parent. `root` is the number of turns before the conversation or its last summary, `turns_after`
    the number of turns after each event, `waiting` are texts that were typed and not yet read.
    """

    name = "Claude Code"
    kind = "claude-code"
    attached: bool = False
    tree: bool = False
    cleared: bool = False
    root: int = 0
    message_id: Any = None
    turns_after: dict[str, int] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    @classmethod
    def matches(cls, record: JsonObject) -> bool:
        """Return whether it is made of lines, of the file or of a log."""
        lines = _made_of(record, "loglines", "claude-log")
        return lines or super().matches(record)

    @classmethod
    def is_sub_agent(cls, record: JsonObject) -> bool:
        """Return whether all turns are of sub-agents."""
        events = objects(events_of(record))
        spoken = [e for e in events if e.get("type") in ("user", "assistant")]
        return all(map(_is_side, spoken))

    def read(self, record: JsonObject) -> None:
        """Read the events of the main conversation."""
        events = objects(events_of(record))
        self.attached = any(_queued(event) is not None for event in events)
        replies = [e for e in events if e.get("type") == "assistant"]
        main = [e for e in replies if not _is_side(e)]
        self.tree = all(e.get("parentUuid") is not None for e in main)
        super().read(record)

    def read_event(self, event: JsonObject) -> None:
        """Read one event."""
        kind, message = map(event.get, ("type", "message"))
        identity = str(event.get("uuid") or f"event {len(self.turns_after)}")
        if identity in self.turns_after or _is_side(event):
            return
        if kind == "assistant" and is_object(message):
            self._reply(message)
        elif kind == "user" and is_object(message):
            self._ask(event, message.get("content"))
        elif kind == "queue-operation":
            self._queue(event.get("operation"), event.get("content"))
        elif str(queued := plain_content(_queued(event))).startswith(
            _NOTIFICATIONS
        ):
            self.note(queued)
        else:
            self.add("user", queued)
        if event.get("subtype") == "compact_boundary" or event.get(
            "isCompactSummary"
        ):
            self.root = len(self.turns)
        self.turns_after[identity] = len(self.turns)

    def _reply(self, message: JsonObject) -> None:
        """Add a turn of the agent, or to its last one: each of its parts is a line."""
        spoken, content = map(message.get, ("id", "content"))
        same = spoken is not None and spoken == self.message_id
        if message.get("model") == "<synthetic>":
            self.note(content)
            return
        if same and self.last.get("role") == "assistant":
            earlier = content_parts(self.last["content"])
            self.last["content"] = [*earlier, *content_parts(content)]
        else:
            self.add("assistant", content)
        self.message_id = spoken

    def _queue(self, operation: Any, typed: Any) -> None:
        """Keep a text that was typed while the agent worked, and show it when it reaches the agent."""
        if operation == "enqueue" and is_text(typed):
            self.waiting += [] if typed.startswith(_NOT_TYPED) else [typed]
        elif operation in ("remove", "dequeue", "popAll") and self.waiting:
            text = self.waiting.pop()
            if operation == "remove" and not self.attached:
                self.add("user", text)

    def _ask(self, event: JsonObject, written: Any) -> None:
        parts = map(_without_reminders, content_parts(written))
        content = plain_content([part for part in parts if part is not None])
        text = content if is_text(content) else ""
        # a command that the user typed: /review
        after_command = str(self.last.get("content")).startswith("<command-")
        meta = event.get("isMeta")
        typed = not text.startswith(_NOT_TYPED)
        results = any(
            part.get("type") == "tool_result" for part in objects(content)
        )
        noted = typed if meta else text.startswith(_NOTIFICATIONS)
        if text.startswith("<command-name>/clear</command-name>"):
            self.cleared = True
        elif meta and after_command:
            self.add(
                "user", content
            )  # the text that the user's command stands for
        elif text.startswith(_LOCAL) and after_command:
            # a command to the harness, e.g. /model, which no agent answers
            self.take_back(len(self.turns) - 1)
        elif noted or (event.get("isCompactSummary") and self.begun):
            self.note(content)
        elif meta or text.startswith((*_LOCAL, *_CAVEAT)):
            return
        else:
            if content and typed and not results:
                self._prompt(event)
            self.add("user", content)

    def _prompt(self, event: JsonObject) -> None:
        """Note a prompt; if its parent stands before an earlier prompt, take back all turns since."""
        if self.cleared:  # another conversation begins
            self.take_back(0)
            self.root = 0
            self.cleared = False
        parent = event.get("parentUuid")
        start = self.turns_after.get(str(parent), len(self.turns))
        if parent is None:
            identity = first_at(event, "sessionId", "session_id")
            self.identify(identity)
            start = self.root
        named = self.tree and "parentUuid" in event
        if named and any(at >= start for at in self.prompts):
            self.take_back(start)
        self.prompts.append(len(self.turns))


def _is_side(event: JsonObject) -> bool:
    return bool(event.get("isSidechain") or event.get("parent_tool_use_id"))


def _queued(event: JsonObject) -> Any:
    if lookup(event, "attachment.type") == "queued_command":
        return lookup(event, "attachment.prompt")
    return None


def _without_reminders(part: Any) -> Any:
    """A part of a user's turn without texts between closed tags of the harness; None if nothing is left."""
    text = part_text(part) or ""
    rest = _REMINDERS.sub("", text)
    return part if rest == text else rest.strip() or None


_DROPPED = re.compile(
    r"<(environment_context|permissions[ _]instructions|collaboration_mode|app-context|apps_instructions"
    r"|skills_instructions|plugins_instructions|personality_spec|model_switch|realtime_conversation"
    r"|additional_context|tool_context|reasoning_context|pinned_notes)\b",
    re.IGNORECASE,
)
"""Beginnings of texts of Codex that hold the directory, the date, the settings of a run: not shown."""
_AGENTS_MD = re.compile(r"# AGENTS\.md instructions( for [^\n]*)?\n")
_USER_INSTRUCTIONS = "<user_instructions>"
_REQUEST = "## My request for Codex:"


@dataclass
class Codex(Session):
    """A session of Codex CLI: the items in the order of the file.

    `instructed`: an item holds the instructions that older files have in their head.
    """

    name = "Codex"
    kind = "codex"
    instructed: bool = False

    @classmethod
    def marks_sub_agent(cls, event: JsonObject) -> bool:
        """Return whether the head of a file names a sub-agent as its source."""
        source = lookup(event, "payload.source.subagent")
        is_thread = lookup(event, "payload.thread_source") == "subagent"
        return event.get("type") == "session_meta" and (
            source is not None or is_thread
        )

    def read(self, record: JsonObject) -> None:
        """Read the items and events."""
        items = filter(None, map(_item, objects(events_of(record))))
        asked = [
            str(i.get("content")) for i in items if i.get("role") == "user"
        ]
        self.instructed = any(_USER_INSTRUCTIONS in text for text in asked)
        super().read(record)

    def read_event(self, event: JsonObject) -> None:
        """Read an item, or what an event holds beside it."""
        kind, instructions = map(event.get, ("type", "instructions"))
        payload = event.get("payload")
        start = len(self.turns)
        if item := _item(event):
            kind = item.get("type")
            if "role" in item:
                self._read_message(str(item["role"]), item.get("content"))
            elif kind == "reasoning":
                thought = item.get("content") or item.get("summary")
                self.add("assistant", None, thought)
            elif not self.act(item, kind) and kind is not None:
                self.turns.append(item)
            # the harness writes parts of the user's turns, too
            if any(turn.get("role") == "user" for turn in self.turns[start:]):
                self.prompts.append(start)
        elif kind is None and is_text(instructions) and not self.instructed:
            self.add("developer", instructions)
        elif is_object(payload):
            kind = payload.get("type") if kind == "event_msg" else kind
            count = payload.get("num_turns")
            if kind == "session_meta":
                self.identify(payload.get("id"))
            elif kind == "thread_rolled_back" and isinstance(count, int):
                if 0 < count <= len(self.prompts):
                    self.take_back(self.prompts[-count])
            else:
                self.act(payload, f"event {kind}")

    def _read_message(self, role: str, content: Any) -> None:
        """Add a message part by part: texts of the harness are no part of the task."""
        if role == "assistant":
            self.add(role, content)
            return
        parts = []
        for part in content_parts(content):
            text = part_text(part)
            bare = str(text).lstrip()
            heading = _AGENTS_MD.match(bare)
            if text is None:
                parts.append(part)
            elif _DROPPED.match(bare) or (
                role == "developer" and bare[:1] == "<"
            ):
                continue
            elif heading:
                self.add("developer", bare[heading.end() :].strip())
            elif bare.startswith(_USER_INSTRUCTIONS):
                self.add("developer", text)
            elif bare.startswith(_NOTIFICATIONS):
                self.note(text)
            else:
                _, request, asked = text.rpartition(_REQUEST)
                parts.append(asked.strip() if request else text)
        self.add(role, parts)


def _item(event: JsonObject) -> JsonObject | None:
    """The item of the Responses API that an event is, or holds."""
    payload = event.get("payload")
    if event.get("type") == "response_item" and is_object(payload):
        return payload
    bare = "type" in event and not event.keys() & {"payload", "record_type"}
    return event if bare else None
