"""Sessions of coding agents, a file each: a session's turns so far, and Gemini CLI, OpenCode, pi and its kin.

Claude Code and Codex share another module. A record is the session's document, or the events of its file;
docs/formats.md says what the judge is shown of it. A session that is printed (`stream-json`) may not hold the
prompt. Gemini CLI's file changes what stands above: a line replaces the turn of its id, `$rewindTo` takes turns
back. pi's file is a tree by `parentId`; its last entry tells the branch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.events import is_gemini, is_opencode, is_pi
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.dialects import OWN_ROLES, call_turn, result_turn
from ruler_cli.formats.fields import (
    EMPTY,
    JsonObject,
    Rollouts,
    first,
    first_at,
    items,
    lookup,
    objects,
)
from ruler_cli.types import Rollout

Record = JsonObject
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
    if not isinstance(content, list):
        return content
    texts = [part_text(part) for part in content]
    return content if None in texts else "\n".join(map(str, texts))


def part_text(part: Any) -> str | None:
    """The text of a part of a message; None if it is something else."""
    kinds = (None, "text", "input_text", "output_text")
    if isinstance(part, dict) and part.get("type") in kinds:
        part = part.get("text")
    return part if isinstance(part, str) else None


def content_parts(content: Any) -> list[Any]:
    """Content as a list of its parts."""
    if isinstance(content, list):
        return content
    return [] if content in (None, "") else [content]


def events_of(record: Record) -> list[Any]:
    """The events of a session, in the order of its file."""
    listed = map(record.get, ("events", "loglines", "messages"))
    return first(events for events in listed if isinstance(events, list)) or []


def made_of(matches: Callable[[Record], bool], name: str) -> Callable[[Record], bool]:
    """A test for records in which at least half of the first items of the list `name` match."""

    def made(record: Record) -> bool:
        first = objects(items(record.get(name))[:_SAMPLE])
        return bool(first) and 2 * sum(map(matches, first)) >= len(first)

    return made


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

    def is_aside(self, record: Record) -> bool:
        """Tell if a record is a session of a sub-agent."""
        return self.matches(record) and self.is_sub_agent(record)

    def rollouts(self, record: JsonObject) -> Rollouts:
        """Read a session as the rollout that it is."""
        if not self.matches(record):
            raise UnreadableError(f"is no session of {self.name}")
        if self.is_sub_agent(record):
            raise UnreadableError("is no session of the agent itself")
        session = Session()
        self.read(record, session)
        roles = [turn.get("role") for turn in session.turns]
        if not session.begun:
            raise UnreadableError("holds no turn of the agent")
        if (
            "user"
            not in roles[: min(map(roles.index, {*roles}.intersection(OWN_ROLES)))]
        ):
            raise UnreadableError(
                "holds no task: what the user asked is not in it; give the session's own file"
            )
        further = tuple(filter(_has_agent, session.taken_back))
        return [Rollout(session.turns, (), further, record.get("tools"))]


_CONTEXT = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
)


def read_gemini(record: Record, session: Session) -> None:
    """Read one document, or lines that add turns, change them and take them back."""
    turns: dict[str, Any] = {}
    for number, event in enumerate(events_of(record)):
        if not isinstance(event, dict) or "tool_id" in event or "role" in event:
            turns[f"line {number}"] = event
        elif isinstance(event.get("$rewindTo"), str):
            rewound: list[tuple[str, Any]] = []
            while turns and not (rewound and rewound[-1][0] == event["$rewindTo"]):
                rewound.append(turns.popitem())
            aside = Session()
            for _, turn in reversed(rewound):
                _gemini_turn(turn, aside)
            session.taken_back.append(aside.turns)
        elif isinstance(event.get("$set"), dict):
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
    if not isinstance(turn, dict):
        session.add("unreadable", turn)
        return
    content, turns = turn.get("content"), session.turns
    match turn.get("type"):
        case "message":
            last, delta = turns[-1] if turns else {}, turn.get("delta")
            said = last.get("content")
            if delta and last.get("role") == "assistant" and isinstance(said, str):
                # the agent's messages are printed in pieces
                last["content"] = said + str(content)
            else:
                session.add("assistant" if delta else str(turn.get("role")), content)
        case "tool_use":
            given = (turn.get("tool_name"), turn.get("parameters"))
            turns.append(call_turn(turn.get("tool_id"), *given))
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
        if isinstance(response, dict):
            out.append(response.get("output", response.get("error", response)))
        else:
            out.append(part_text(part) or part)
    out = out or [call.get("resultDisplay") or call.get("status")]
    return out[0] if len(out) == 1 else out


def _is_gemini(record: Record) -> bool:
    if isinstance(record.get("messages"), list):
        return {"sessionId", "projectHash"} <= record.keys()
    return made_of(is_gemini, "events")(record)


def _is_gemini_sub_agent(record: Record) -> bool:
    heads = (record, *objects(events_of(record)[:_SAMPLE]))
    kinds = (head.get("kind") for head in heads)
    return first(k for k in kinds if isinstance(k, str)) == "subagent"


def _read_opencode(record: Record, session: Session) -> None:
    """Read messages with `info` and `parts`; reverted ones may stand at the end, and are taken back."""
    cut = lookup(record, "info.revert.messageID")
    reverted: int | None = None
    for message in record.get("messages") or ():
        info, parts = lookup(message, "info"), objects(lookup(message, "parts"))
        if not isinstance(info, dict):
            session.add("unreadable", message)
            continue
        if cut is not None and info.get("id") == cut:
            reverted = len(session.turns)
        if info.get("role") == "user":
            session.add("user", [*filter(None, map(_opencode_prompt, parts))])
            continue
        for part in parts:
            _opencode_part(part, session)
        if isinstance(info.get("error"), dict):
            session.note(str(info["error"].get("name")))
    if reverted is not None:
        session.take_back(reverted)


def _opencode_prompt(part: JsonObject) -> Any:
    """The text of a part of the user's turn; None for a part of the harness."""
    text = part.get("text")
    match part.get("type"):
        case "text":
            added = str(text).startswith("<system-reminder>") and part.get("synthetic")
            return None if part.get("ignored") or added else text
        case "subtask":
            return f"/{part.get('command') or part.get('agent')} {part.get('prompt')}"
        case "file":
            return f"[file {part.get('filename') or part.get('mime')}]"
    return None


def _opencode_part(part: JsonObject, session: Session) -> None:
    kind, identity, text = part.get("type"), part.get("callID"), part.get("text")
    if kind == "text" and not part.get("ignored"):
        session.add("assistant", text)
    elif kind == "reasoning":
        session.add("assistant", None, reasoning=text)
    elif kind == "tool":
        given = lookup(part, "state.input")
        session.turns.append(call_turn(identity, part.get("tool"), given))
        if (content := first_at(part, "state.output", "state.error")) is not None:
            session.turns.append(result_turn(identity, content))


def _read_pi(record: Record, session: Session) -> None:
    """Read the entries from the last one back to the root of their tree; old sessions are a list."""
    events, aside = events_of(record), Session()
    path = _pi_path(events)
    for event in events:
        if not isinstance(event, dict):
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
        if isinstance(e.get("id"), str) and e.get("type") != "session"
    }
    if not any("parentId" in entry for entry in entries.values()):
        return None
    path, order = set[Any](), list(entries)
    before = dict(zip(order[1:], order, strict=False))
    at: Any = order[-1]
    while at is not None and at not in path:
        path.add(at)
        parent = entries[at].get("parentId")
        # a child of an entry that cannot be read follows the entry before that one
        at = parent if parent is None or parent in entries else before.get(at)
    return path


def _pi_entry(event: JsonObject, session: Session) -> None:
    kind, message = event.get("type"), event.get("message")
    if kind in ("compaction", "branch_summary", "custom_message"):
        session.note(event.get("summary") or event.get("content"))
    if not isinstance(message, dict) or kind == "custom_message":
        return
    role, content = message.get("role"), message.get("content")
    match role:
        case "toolResult":
            identity, name = message.get("toolCallId"), str(message.get("toolName"))
            session.turns.append(result_turn(identity, content, name))
        case "bashExecution":
            ran = f"Ran `{message.get('command')}`\n{message.get('output')}"
            session.add("user", ran)
        case "compactionSummary" | "branchSummary" | "custom" | "hookMessage":
            session.note(message.get("summary") or content)
        case _:
            session.add(str(role), content_parts(content))
            session.note(message.get("errorMessage"))


def _is_opencode_sub_agent(record: Record) -> bool:
    return bool(lookup(record, "info.parentID"))


GEMINI = Agent("Gemini CLI", _is_gemini, read_gemini, _is_gemini_sub_agent)
OPENCODE = Agent(
    "OpenCode", made_of(is_opencode, "messages"), _read_opencode, _is_opencode_sub_agent
)
PI = Agent("pi", made_of(is_pi, "events"), _read_pi)
