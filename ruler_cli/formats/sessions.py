"""Sessions of coding agents, a file each: Claude Code, Codex CLI, Gemini CLI, OpenCode, pi and its kin.

A record is the session's document, or the events of its file; docs/formats.md says what the judge is shown of
it. A session that is printed (`stream-json`) may not hold the prompt. Traps:
- Claude Code's file is a tree by `parentUuid`, but a fork is no branch by itself: results of parallel calls
  hang side by side. A branch is a prompt whose parent stands before an earlier prompt. The turns of the user
  hold reminders, notifications and the output of local commands as well.
- Codex writes each message twice, as a `response_item` and as an `event_msg`, and puts `<environment_context>`
  and AGENTS.md into turns of the user.
- Gemini CLI's file changes what stands above: a line replaces the turn of its id, `$rewindTo` takes turns back.
- pi's file is a tree by `parentId`; its last entry tells the branch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.events import (
    is_claude,
    is_codex,
    is_gemini,
    is_opencode,
    is_pi,
)
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.dialects import OWN_ROLES, call_turn, result_turn
from ruler_cli.formats.fields import (
    EMPTY,
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
from ruler_cli.types import Rollout

Record = JsonObject
Event = dict[str, Any]
_SAMPLE = 20
"""First events by which a record's kind is known."""


@dataclass(slots=True)
class Session:
    """The turns so far, and the runs of turns that the user took back."""

    turns: Messages = field(default_factory=list)
    taken_back: list[Messages] = field(default_factory=list)
    identity: Any = None

    @property
    def begun(self) -> bool:
        """Tell if the agent had a turn."""
        return _has_agent(self.turns)

    def identify(self, identity: Any, *, after_turns: bool = False) -> None:
        """Note the session's id; UnreadableError for another id after turns."""
        if (self.begun or after_turns) and identity != self.identity:
            raise UnreadableError(
                "holds several sessions; give each in a file of its own, and their directory"
            )
        self.identity = identity if self.identity is None else self.identity

    def add(self, role: str, content: Any, **more: Any) -> None:
        """Add a turn, unless it is empty."""
        more = {key: value for key, value in more.items() if value not in EMPTY}
        if content not in (None, "", []) or more:
            self.turns.append({"role": role, "content": plain_content(content), **more})

    def note(self, text: Any) -> None:
        """Add a text of the harness; before the agent's first turn it is no part of the task."""
        if self.begun:
            self.add("system", text)

    def take_back(self, start: int) -> None:
        """Take back all turns from index `start` on."""
        self.taken_back.append(self.turns[start:])
        del self.turns[start:]


def _has_agent(turns: Messages) -> bool:
    return any(turn.get("role") in OWN_ROLES for turn in turns)


def plain_content(content: Any) -> Any:
    """Content of texts alone as one text: equal prompts are equal however they were written."""
    if not is_list(content):
        return content
    texts = [part_text(part) for part in content]
    if None in texts:
        return content
    return "\n".join(map(str, texts))


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
    if content in (None, ""):
        return []
    return [content]


def events_of(record: Record) -> list[Any]:
    """The events of a session, in the order of its file."""
    listed = map(record.get, ("events", "loglines", "messages"))
    return first(filter(is_list, listed)) or []


def _made_of(record: Record, name: str, matches: Callable[[Record], bool]) -> bool:
    """Tell if at least half of the first items of the list `name` match."""
    first = objects(items(record.get(name))[:_SAMPLE])
    return bool(first) and 2 * sum(map(matches, first)) >= len(first)


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent: a test for its sessions, one for those of its sub-agents, and the reader of its events."""

    name: str
    matches: Callable[[Record], bool]
    read: Callable[[Record, Session], None]
    is_sub_agent: Callable[[Record], bool] = lambda _: False

    def is_session(self, record: Record) -> bool:
        """Tell if a record is a session of the agent itself."""
        # a document of messages would be taken for one of another kind
        document = "messages" in record
        return self.matches(record) and (document or not self.is_sub_agent(record))

    def rollout(self, record: JsonObject) -> Rollout:
        """Read a session as the rollout that it is."""
        if not self.matches(record) or self.is_sub_agent(record):
            raise UnreadableError(f"is no session of {self.name}, or a sub-agent's")
        session = Session()
        self.read(record, session)
        if not session.begun:
            raise UnreadableError("holds no turn of the agent")
        roles = [turn.get("role") for turn in session.turns]
        begin = min(map(roles.index, {*roles}.intersection(OWN_ROLES)))
        if "user" not in roles[:begin]:
            raise UnreadableError(
                "holds no task: what the user asked is not in it; give the session's own file"
            )
        further = tuple(filter(_has_agent, session.taken_back))
        return Rollout(session.turns, (), further, record.get("tools"))


_CONTEXT = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
)


def read_gemini(record: Record, session: Session) -> None:
    """Read one document, or lines that add turns, change them and take them back."""
    turns: dict[str, Any] = {}
    for number, event in enumerate(events_of(record)):
        if not is_object(event) or "tool_id" in event or "role" in event:
            turns[f"line {number}"] = event
        elif is_text(event.get("$rewindTo")):
            rewound: list[tuple[str, Any]] = []
            while turns and not (rewound and rewound[-1][0] == event["$rewindTo"]):
                rewound.append(turns.popitem())
            aside = Session()
            for _, turn in reversed(rewound):
                _gemini_turn(turn, aside)
            session.taken_back.append(aside.turns)
        elif is_object(event.get("$set")):
            if messages := items(event["$set"].get("messages")):
                numbered = enumerate(objects(messages))
                turns = {str(t.get("id") or f"item {n}"): t for n, t in numbered}
        elif "projectHash" in event:
            session.identify(event.get("sessionId"), after_turns=bool(turns))
        elif "type" in event:
            turns[str(event.get("id") or f"line {number}")] = event
    for turn in turns.values():
        _gemini_turn(turn, session)


def _gemini_turn(turn: Any, session: Session) -> None:
    if not is_object(turn):
        session.add("unreadable", turn)
        return
    content = turn.get("content")
    turns = session.turns
    match turn.get("type"):
        case "message":
            last = turns[-1] if turns else {}
            delta = turn.get("delta")
            said = last.get("content")
            if delta and last.get("role") == "assistant" and is_text(said):
                # the agent's messages are printed in pieces
                last["content"] = said + str(content)
            else:
                session.add("assistant" if delta else str(turn.get("role")), content)
        case "tool_use":
            name = turn.get("tool_name")
            turns.append(call_turn(turn.get("tool_id"), name, turn.get("parameters")))
        case "tool_result":
            output = turn.get("output") or turn.get("error") or turn.get("status")
            turns.append(result_turn(turn.get("tool_id"), output))
        case "user":
            parts = content_parts(content)
            own = [p for p in parts if not str(part_text(p)).startswith(_CONTEXT)]
            session.add("user", own)
        case "gemini" | "model" | "assistant":
            calls = objects(turn.get("toolCalls"))
            thoughts = [
                ": ".join(str(t[k]) for k in ("subject", "description") if t.get(k))
                for t in objects(turn.get("thoughts"))
            ]
            thought = "\n".join(thoughts)
            session.add("assistant", content, reasoning=thought, tool_calls=calls)
            turns += [
                result_turn(call.get("id"), _gemini_result(call), call.get("name"))
                for call in calls
            ]
        case "error" | "warning":
            session.note(content)


def _gemini_result(call: JsonObject) -> Any:
    """The result of a call as the model read it, else as the user saw it."""
    out = []
    for part in content_parts(call.get("result")):
        response = lookup(part, "functionResponse.response")
        if is_object(response):
            out.append(response.get("output", response.get("error", response)))
        else:
            out.append(part_text(part) or part)
    out = out or [call.get("resultDisplay") or call.get("status")]
    return out[0] if len(out) == 1 else out


def _read_opencode(record: Record, session: Session) -> None:
    """Read messages with `info` and `parts`; reverted ones may stand at the end, and are taken back."""
    cut = lookup(record, "info.revert.messageID")
    reverted: int | None = None
    for message in record.get("messages") or ():
        info = lookup(message, "info")
        parts = objects(lookup(message, "parts"))
        if not is_object(info):
            session.add("unreadable", message)
            continue
        if cut is not None and info.get("id") == cut:
            reverted = len(session.turns)
        if info.get("role") == "user":
            asked = map(_opencode_request, parts)
            session.add("user", [*filter(None, asked)])
        else:
            for part in parts:
                _opencode_part(part, session)
        if is_object(info.get("error")):
            session.note(str(info["error"].get("name")))
    if reverted is not None:
        session.take_back(reverted)


def _opencode_request(part: JsonObject) -> Any:
    """A part of a user's message as text; None if the user did not write it."""
    text = part.get("text")
    match part.get("type"):
        case "text" if not part.get("ignored"):
            reminder = str(text).startswith("<system-reminder>")
            return None if reminder and part.get("synthetic") else text
        case "subtask":
            command = part.get("command") or part.get("agent")
            return f"/{command} {part.get('prompt')}"
        case "file":
            return f"[file {part.get('filename') or part.get('mime')}]"
    return None


def _opencode_part(part: JsonObject, session: Session) -> None:
    text = part.get("text")
    match part.get("type"):
        case "text" if not part.get("ignored"):
            session.add("assistant", text)
        case "reasoning":
            session.add("assistant", None, reasoning=text)
        case "tool":
            identity = part.get("callID")
            given = lookup(part, "state.input")
            session.turns.append(call_turn(identity, part.get("tool"), given))
            content = first_at(part, "state.output", "state.error")
            if content is not None:
                session.turns.append(result_turn(identity, content))


def _read_pi(record: Record, session: Session) -> None:
    """Read the entries from the last one back to the root of their tree; old sessions are a list."""
    events = events_of(record)
    aside = Session()
    path = _pi_path(events)
    for event in events:
        if not is_object(event):
            session.add("unreadable", event)
        elif event.get("type") in ("session", "session_start"):
            session.identify(event.get("id"), after_turns=aside.begun)
        else:
            on_path = path is None or event.get("id") in path
            _pi_entry(event, session if on_path else aside)
    session.taken_back.append(aside.turns)


def _pi_path(events: list[Any]) -> set[Any] | None:
    """The ids of the entries on the way to the last one; None if they are a list."""
    entries = {
        e["id"]: e
        for e in objects(events)
        if is_text(e.get("id")) and e.get("type") != "session"
    }
    if not any("parentId" in entry for entry in entries.values()):
        return None
    path = set[Any]()
    order = list(entries)
    before = dict(zip(order[1:], order, strict=False))
    at: Any = order[-1]
    while at is not None and at not in path:
        path.add(at)
        parent = entries[at].get("parentId")
        # a child of an entry that cannot be read follows the entry before that one
        at = parent if parent is None or parent in entries else before.get(at)
    return path


def _pi_entry(event: JsonObject, session: Session) -> None:
    kind = event.get("type")
    message = event.get("message")
    if kind in ("compaction", "branch_summary", "custom_message"):
        session.note(event.get("summary") or event.get("content"))
    if not is_object(message) or kind == "custom_message":
        return
    role = message.get("role")
    content = message.get("content")
    match role:
        case "toolResult":
            identity = message.get("toolCallId")
            name = str(message.get("toolName"))
            session.turns.append(result_turn(identity, content, name))
        case "bashExecution":
            ran = f"Ran `{message.get('command')}`\n{message.get('output')}"
            session.add("user", ran)
        case "compactionSummary" | "branchSummary" | "custom" | "hookMessage":
            session.note(message.get("summary") or content)
        case _:
            session.add(str(role), content_parts(content))
            session.note(message.get("errorMessage"))


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


def _read_claude(record: Record, session: Session) -> None:
    events = events_of(record)
    known = objects(events)
    mine = [e for e in known if e.get("type") == "assistant" and _is_main(e)]
    tree = bool(mine) and all(e.get("parentUuid") is not None for e in mine)
    attached = any(_queued(event) is not None for event in known)
    reader = _ClaudeReader(session, attached, tree)
    for event in events:
        if not is_object(event):
            session.add("unreadable", event)
        elif not _is_side(event):
            reader.read(event)


def _is_side(event: Event) -> bool:
    return bool(event.get("isSidechain") or event.get("parent_tool_use_id"))


def _is_main(event: Event) -> bool:
    """Tell if an event is a turn of the session itself, not of a sub-agent."""
    return event.get("type") in ("user", "assistant") and not _is_side(event)


def _queued(event: Event) -> Any:
    if lookup(event, "attachment.type") == "queued_command":
        return lookup(event, "attachment.prompt")
    return None


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
        if is_text(identity) and identity in self.turns_after:
            return  # written twice
        session = self.session
        content = lookup(message, "content")
        if kind == "assistant" and is_object(message):
            last = session.turns[-1] if session.turns else {}
            spoken = message.get("id")
            same = spoken is not None and spoken == self.message_id
            if message.get("model") == "<synthetic>":
                session.note(content)
                spoken = self.message_id
            elif same and last.get("role") == "assistant":
                last["content"] = [*_blocks(last["content"]), *_blocks(content)]
            else:
                session.add("assistant", content)
            self.message_id = spoken
        elif kind == "user" and is_object(message):
            self._ask(event, content)
        elif kind == "queue-operation":
            # a text that was typed while the agent worked is shown when it reaches the agent
            operation = event.get("operation")
            typed = event.get("content")
            if operation == "enqueue" and is_text(typed):
                self.waiting += [] if typed.startswith(_NOT_TYPED) else [typed]
            elif operation in ("remove", "dequeue", "popAll") and self.waiting:
                text = self.waiting.pop()
                if operation == "remove" and not self.attached:
                    session.add("user", text)
        elif (queued := plain_content(_queued(event))) is not None:
            note = str(queued).startswith(_NOTIFICATIONS)
            session.note(str(queued)) if note else session.add("user", queued)
        if event.get("subtype") == "compact_boundary" or event.get("isCompactSummary"):
            self.root = len(session.turns)
        if is_text(identity):
            self.turns_after[identity] = len(session.turns)

    def _ask(self, event: Event, given: Any) -> None:
        self.message_id = None
        parts = map(_without_reminders, content_parts(given))
        content = plain_content([part for part in parts if part is not None])
        text = content if is_text(content) else ""
        session = self.session
        turns = self.session.turns
        last = turns[-1].get("content") if turns else None
        # a command that the user typed: /review
        after_command = is_text(last) and last.startswith("<command-")
        meta = event.get("isMeta")
        typed = not text.startswith(_NOT_TYPED)
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
            self.prompts = []
            self.root = 0
            self.cleared = False
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


def _blocks(content: Any) -> list[Any]:
    text = [{"type": "text", "text": content}]
    if is_text(content):
        return text
    return content_parts(content)


def _without_reminders(part: Any) -> Any:
    """A part of a user's turn without texts between closed tags of the harness; None if nothing is left."""
    text = part_text(part)
    rest = text if text is None else _REMINDERS.sub("", text)
    if text is None or rest == text:
        return part
    return str(rest).strip() or None


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
        payload = lookup(event, "payload")
        kind = lookup(event, "type")
        if not is_object(event):
            session.add("unreadable", event)
        elif item is not None:
            if _is_typed(item):
                prompts.append(len(session.turns))
            _read_item(item, session)
        elif "type" not in event and is_text(event.get("instructions")):
            session.add("developer", None if instructed else event["instructions"])
        elif not is_object(payload):
            continue
        elif kind == "session_meta":
            session.identify(payload.get("id"))
        elif kind == "compacted":
            session.note(payload.get("message"))
        elif kind == "event_msg":
            message = payload.get("message")
            count = payload.get("num_turns")
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


def _item(event: Any) -> Event | None:
    """The item of the Responses API that an event is, or holds."""
    if not is_object(event) or "record_type" in event:
        return None
    if "payload" not in event:
        return event if "type" in event else None
    payload = event["payload"]
    held = event.get("type") == "response_item"
    if held and is_object(payload):
        return payload
    return None


def _is_typed(item: Event) -> bool:
    """Tell if the user typed any part of an item: the harness writes parts of the user's turns, too."""
    if item.get("role") != "user":
        return False
    for part in content_parts(item.get("content")):
        text = part_text(part)
        if text is None:
            return True
        added = text.lstrip().startswith((_USER_INSTRUCTIONS, *_NOT_TYPED))
        if not (added or _DROPPED.match(text) or _AGENTS_MD.match(text)):
            return True
    return False


def _read_item(item: Event, session: Session) -> None:
    """Add an item of the model's input or output as a turn."""
    kind = item.get("type")
    identity = item.get("call_id") or item.get("id")
    if kind in _SILENT:
        return
    if "role" in item:
        _read_message(str(item["role"]), item.get("content"), session)
    elif kind == "reasoning":
        thought = plain_content(item.get("content") or item.get("summary"))
        if is_list(thought):
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


def _is_claude(record: Record) -> bool:
    def is_line(event: Record) -> bool:
        kinds = ("user", "assistant", "system")
        return event.get("type") in kinds and "role" not in event

    lines = _made_of(record, "loglines", is_line)
    return lines or _made_of(record, "events", is_claude)


def _is_codex(record: Record) -> bool:
    claude = _made_of(record, "events", is_claude)
    return not claude and _made_of(record, "events", is_codex)


def _is_codex_sub_agent(record: Record) -> bool:
    """Tell if the first `session_meta` names a sub-agent."""
    events = objects(events_of(record))
    head = first(e.get("payload") for e in events if e.get("type") == "session_meta")
    named = lookup(head, "source.subagent") is not None
    return named or lookup(head, "thread_source") == "subagent"


def _is_gemini(record: Record) -> bool:
    if is_list(record.get("messages")):
        return {"sessionId", "projectHash"} <= record.keys()
    return _made_of(record, "events", is_gemini)


def _is_gemini_sub_agent(record: Record) -> bool:
    heads = (record, *objects(events_of(record)[:_SAMPLE]))
    kinds = (head.get("kind") for head in heads)
    return first(filter(is_text, kinds)) == "subagent"


CLAUDE = Agent(
    "Claude Code",
    _is_claude,
    _read_claude,
    lambda record: not any(map(_is_main, objects(events_of(record)))),
)
CODEX = Agent("Codex", _is_codex, _read_codex, _is_codex_sub_agent)
GEMINI = Agent("Gemini CLI", _is_gemini, read_gemini, _is_gemini_sub_agent)
OPENCODE = Agent(
    "OpenCode",
    lambda record: _made_of(record, "messages", is_opencode),
    _read_opencode,
    lambda record: bool(lookup(record, "info.parentID")),
)
PI = Agent("pi", lambda record: _made_of(record, "events", is_pi), _read_pi)
