"""Sessions of coding agents, a file each: a session's turns so far, and Gemini CLI, OpenCode, pi and its kin.

Claude Code and Codex share another module. A record is the session's document, or the events of its file
(`reading/events.py`); docs/formats.md says what the judge is shown of it. A session that is printed
(`stream-json`) may not hold the prompt. Gemini CLI's file changes what stands above: a line replaces the turn
of its id, `$rewindTo` takes turns back. pi's file is a tree by `parentId`; its last entry tells the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.event_kinds import is_gemini, is_opencode, is_pi
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.dialects import EMPTY, OWN_ROLES, call_turn, result_turn
from ruler_cli.formats.fields import first_at, items, lookup, objects
from ruler_cli.formats.interface import ID_KEYS, Format, RefusedFormat, refused_shapes
from ruler_cli.types import Rollout

Record = Mapping[str, Any]
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
    if isinstance(part, dict) and part.get("type") in (
        None,
        "text",
        "input_text",
        "output_text",
    ):
        part = part.get("text")
    return part if isinstance(part, str) else None


def content_parts(content: Any) -> list[Any]:
    """Content as a list of its parts."""
    return (
        content
        if isinstance(content, list)
        else []
        if content in (None, "")
        else [content]
    )


def events_of(record: Record) -> list[Any]:
    """The events of a session, in the order of its file."""
    names = ("events", "loglines", "messages")
    return next(
        (record[name] for name in names if isinstance(record.get(name), list)), []
    )


def made_of(matches: Callable[[Record], bool], name: str) -> Callable[[Record], bool]:
    """A test for records in which at least half of the first items of the list `name` match."""

    def made(record: Record) -> bool:
        first = objects(items(record.get(name))[:_SAMPLE])
        return bool(first) and 2 * sum(map(matches, first)) >= len(first)

    return made


def session_format(
    family: str,
    agent: str,
    tells: str,
    matches: Callable[[Record], bool],
    read: Callable[[Record, Session], None],
    is_sub_agent: Callable[[Record], bool],
) -> tuple[Format, RefusedFormat]:
    """The format of one agent's sessions, and the refusal of its sub-agents' sessions."""

    def rollouts(record: dict[str, Any]) -> list[Rollout]:
        if not matches(record):
            raise UnreadableError(f"is no session of {agent}")
        if is_sub_agent(record):
            raise UnreadableError("is no session of the agent itself")
        session = Session()
        read(record, session)
        first = next(
            (
                i
                for i, turn in enumerate(session.turns)
                if turn.get("role") in OWN_ROLES
            ),
            None,
        )
        if first is None:
            raise UnreadableError("holds no turn of the agent")
        if not any(turn.get("role") == "user" for turn in session.turns[:first]):
            raise UnreadableError(
                "holds no task: what the user asked is not in it; give the session's own file"
            )
        further = tuple(filter(_has_agent, session.taken_back))
        return [
            Rollout(
                session.turns, (), further, record.get("tools"), record.get("reward")
            )
        ]

    def is_own(
        record: Record,
    ) -> bool:  # a document of messages would be taken for one of another kind
        return matches(record) and ("messages" in record or not is_sub_agent(record))

    return Format(
        f"{agent} sessions", family, tells, is_own, rollouts, ID_KEYS
    ), RefusedFormat(
        lambda record: matches(record) and is_sub_agent(record),
        "is no session of the agent itself, but a sub-agent's, or holds none of its turns; give the main one",
    )


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
                turns = {
                    str(turn.get("id") or f"item {n}"): turn
                    for n, turn in enumerate(objects(messages))
                }
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
    kind, content, turns = turn.get("type"), turn.get("content"), session.turns
    if kind == "message":
        last = turns[-1] if turns else {}
        if (
            turn.get("delta")
            and last.get("role") == "assistant"
            and isinstance(last["content"], str)
        ):
            last["content"] += str(
                content
            )  # the agent's messages are printed in pieces
        else:
            session.add(
                "assistant" if turn.get("delta") else str(turn.get("role")), content
            )
    elif kind == "tool_use":
        turns.append(
            call_turn(
                turn.get("tool_id"), turn.get("tool_name"), turn.get("parameters")
            )
        )
    elif kind == "tool_result":
        output = turn.get("output") or turn.get("error") or turn.get("status")
        turns.append(result_turn(turn.get("tool_id"), output))
    elif kind == "user":
        parts = [
            part
            for part in content_parts(content)
            if not str(part_text(part)).startswith(_CONTEXT)
        ]
        session.add("user", plain_content(parts))
    elif kind in ("gemini", "model", "assistant"):
        calls = objects(turn.get("toolCalls"))
        thoughts = [
            ": ".join(str(t[k]) for k in ("subject", "description") if t.get(k))
            for t in objects(turn.get("thoughts"))
        ]
        session.add(
            "assistant", content, reasoning="\n".join(thoughts), tool_calls=calls
        )
        for call in calls:
            turns.append(
                result_turn(call.get("id"), _gemini_result(call), call.get("name"))
            )
    elif kind in ("error", "warning"):
        session.note(plain_content(content))


def _gemini_result(call: Mapping[str, Any]) -> Any:
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
    kinds = [
        head.get("kind") for head in (record, *objects(events_of(record)[:_SAMPLE]))
    ]
    return next((kind for kind in kinds if isinstance(kind, str)), None) == "subagent"


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
            session.add(
                "user", plain_content([*filter(None, map(_opencode_prompt, parts))])
            )
            continue
        for part in parts:
            _opencode_part(part, session)
        if isinstance(info.get("error"), dict):
            session.note(str(info["error"].get("name")))
    if reverted is not None:
        session.take_back(reverted)


def _opencode_prompt(part: Mapping[str, Any]) -> Any:
    """The text of a part of the user's turn; None for a part of the harness."""
    kind, text = part.get("type"), part.get("text")
    if kind == "text":
        reminder = part.get("synthetic") and str(text).startswith("<system-reminder>")
        return None if part.get("ignored") or reminder else text
    if kind == "subtask":
        return f"/{part.get('command') or part.get('agent')} {part.get('prompt')}"
    if kind == "file":
        return f"[file {part.get('filename') or part.get('mime')}]"
    return None


def _opencode_part(part: Mapping[str, Any], session: Session) -> None:
    kind, identity = part.get("type"), part.get("callID")
    if kind == "text" and not part.get("ignored"):
        session.add("assistant", part.get("text"))
    elif kind == "reasoning":
        session.add("assistant", None, reasoning=part.get("text"))
    elif kind == "tool":
        session.turns.append(
            call_turn(identity, part.get("tool"), lookup(part, "state.input"))
        )
        if (content := first_at(part, "state.output", "state.error")) is not None:
            session.turns.append(result_turn(identity, content))


def _read_pi(record: Record, session: Session) -> None:
    """Read the entries from the last one back to the root of their tree; old sessions are a list."""
    events = events_of(record)
    entries = {
        e["id"]: e
        for e in objects(events)
        if isinstance(e.get("id"), str) and e.get("type") != "session"
    }
    path: set[Any] | None = None
    if any("parentId" in entry for entry in entries.values()):
        path, order = set(), list(entries)
        before = dict(zip(order[1:], order, strict=False))
        at: Any = order[-1]
        while at is not None and at not in path:
            path.add(at)
            parent = entries[at].get("parentId")
            # a child of an entry that cannot be read follows the entry before that one
            at = parent if parent is None or parent in entries else before.get(at)
    aside = Session()
    for event in events:
        if not isinstance(event, dict):
            session.add("unreadable", event)
        elif event.get("type") in ("session", "session_start"):
            session.identify(event.get("id"), after_turns=aside.begun)
        elif path is None or event.get("id") in path:
            _pi_entry(event, session)
        else:
            _pi_entry(event, aside)
    session.taken_back.append(aside.turns)


def _pi_entry(event: Mapping[str, Any], session: Session) -> None:
    kind, message = event.get("type"), event.get("message")
    if kind in ("compaction", "branch_summary"):
        session.note(event.get("summary"))
    elif kind == "custom_message":
        session.note(plain_content(event.get("content")))
    elif not isinstance(message, dict):
        return
    elif (role := message.get("role")) == "toolResult":
        name = str(message.get("toolName"))
        session.turns.append(
            result_turn(message.get("toolCallId"), message.get("content"), name)
        )
    elif role == "bashExecution":
        session.add("user", f"Ran `{message.get('command')}`\n{message.get('output')}")
    elif role in ("compactionSummary", "branchSummary", "custom", "hookMessage"):
        session.note(plain_content(message.get("summary") or message.get("content")))
    else:
        session.add(str(role), plain_content(content_parts(message.get("content"))))
        session.note(message.get("errorMessage"))


FORMATS, _SUB_AGENTS = zip(
    session_format(
        "gemini-cli", "Gemini CLI", "`sessionId`, `projectHash`, `messages`",
        _is_gemini, read_gemini, _is_gemini_sub_agent,
    ),
    session_format(
        "opencode", "OpenCode", "`messages` with `info` and `parts` in each",
        made_of(is_opencode, "messages"), _read_opencode,
        lambda record: bool(lookup(record, "info.parentID")),
    ),
    session_format(
        "pi", "pi", "`events` with `message` in each", made_of(is_pi, "events"), _read_pi, lambda _: False
    ),
    strict=True,
)  # fmt: skip
REFUSALS = (*_SUB_AGENTS, *refused_shapes(
    (lambda record: record.get("type") == "step_start" and "sessionID" in record,
     "is what `opencode run --format json` prints, which does not hold the task; give `opencode export`"),
))  # fmt: skip
