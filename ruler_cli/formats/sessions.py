"""Sessions of coding agents, a file each: Claude Code, Codex CLI, Gemini CLI, OpenCode, pi and its kin.

A record is the session's document, or the events of its file (`files/gathered.py`). Shown is what the user
asked and what the agent said, thought, called and was answered; what the harness keeps for itself (hooks,
snapshots, counts of tokens, the environment with its directory and date) is not, so that two sessions of one
task have one prompt. Traps: a turn that the user took back is no part of the conversation; a sub-agent's own
session is none of the agent's; a session that is printed (`stream-json`) may not hold what was asked. Gemini
CLI's file changes what stands above: a line replaces the turn of its id, `$rewindTo` takes turns back. pi's
file is a tree by `parentId`, and the entry that is last tells the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.interface import ID_KEYS, Format, RefusedFormat, first_at, items, lookup, objects
from ruler_cli.formats.session_files import (
    Session,
    claude,
    codex,
    is_main,
    parts_of,
    plain_content,
    text_of,
)
from ruler_cli.reading.event_kinds import is_claude, is_codex, is_exported, is_gemini, is_pi
from ruler_cli.types import Rollout

Record = Mapping[str, Any]
Fits = Callable[[Record], bool]
Read = Callable[[Record, Session], None]
_HELD = ("events", "loglines", "messages")
_CONTEXT = ("<session_context>", "This is the Gemini CLI. We are setting up the context for our chat.")


def events_of(record: Record) -> list[Any]:
    """The turns of a session, in its order."""
    return next((record[name] for name in _HELD if isinstance(record.get(name), list)), [])


def gemini(record: Record, session: Session) -> None:
    """Gemini CLI: one document, or lines that add to it, change it and take back."""
    turns: dict[str, Any] = {}
    for number, event in enumerate(events_of(record)):
        if not isinstance(event, dict) or "tool_id" in event or "role" in event:
            turns[f"line {number}"] = event
        elif isinstance(event.get("$rewindTo"), str):
            taken: list[tuple[str, Any]] = []
            while turns and not (taken and taken[-1][0] == event["$rewindTo"]):
                taken.append(turns.popitem())
            gone = Session()
            for _, turn in reversed(taken):
                _gemini_turn(turn, gone)
            session.taken.append(gone.turns)
        elif isinstance(event.get("$set"), dict):
            told = event["$set"].get("messages")
            if isinstance(told, list) and told:
                turns = {str(turn.get("id") or f"item {n}"): turn for n, turn in enumerate(objects(told))}
        elif "projectHash" in event:
            session.head(event.get("sessionId"), behind=bool(turns))
        elif "type" in event:
            turns[str(event.get("id") or f"line {number}")] = event
    for turn in turns.values():
        _gemini_turn(turn, session)


def _gemini_turn(turn: Any, session: Session) -> None:
    if not isinstance(turn, dict):
        session.say("unreadable", turn)
        return
    kind, content = turn.get("type"), turn.get("content")
    if kind == "message":
        last = session.turns[-1] if session.turns else {}
        if turn.get("delta") and last.get("role") == "assistant" and isinstance(last["content"], str):
            last["content"] += str(content)  # the agent's messages are printed in pieces
        else:
            session.say("assistant" if turn.get("delta") else str(turn.get("role")), content)
    elif kind == "tool_use":
        session.call(turn.get("tool_id"), turn.get("tool_name"), turn.get("parameters"))
    elif kind == "tool_result":
        session.answer(turn.get("tool_id"), turn.get("output") or turn.get("error") or turn.get("status"))
    elif kind == "user":
        kept = [part for part in parts_of(content) if not str(text_of(part)).startswith(_CONTEXT)]
        session.say("user", plain_content(kept))
    elif kind in ("gemini", "model", "assistant"):
        calls = objects(turn.get("toolCalls"))
        told = [
            ": ".join(str(t[k]) for k in ("subject", "description") if t.get(k))
            for t in objects(turn.get("thoughts"))
        ]
        session.say("assistant", content, reasoning="\n".join(told), tool_calls=calls)
        for one in calls:
            session.answer(one.get("id"), _gemini_result(one), one.get("name"))
    elif kind in ("error", "warning"):
        session.note(plain_content(content))


def _gemini_result(one: Mapping[str, Any]) -> Any:
    """The answer of a tool as the model read it, else as the user saw it."""
    out = []
    for part in parts_of(one.get("result")):
        response = lookup(part, "functionResponse.response")
        if isinstance(response, dict):
            out.append(next((response[k] for k in ("output", "error") if k in response), response))
        else:
            out.append(text_of(part) or part)
    shown = out or [one.get("resultDisplay") or one.get("status")]
    return shown[0] if len(shown) == 1 else shown


def opencode(record: Record, session: Session) -> None:
    """OpenCode: messages with `info` and `parts`; what was reverted stays behind the rest for a while."""
    cut = lookup(record, "info.revert.messageID")
    gone: int | None = None
    for message in record.get("messages") or ():
        if not isinstance(message, dict) or not isinstance(message.get("info"), dict):
            session.say("unreadable", message)
            continue
        told = message["info"]
        if cut is not None and told.get("id") == cut:
            gone = len(session.turns)
        if told.get("role") == "user":
            session.say(
                "user", plain_content([p for p in map(_asked_part, objects(message.get("parts"))) if p])
            )
        else:
            for part in objects(message.get("parts")):
                _opencode_part(part, session)
            error = told.get("error")
            if isinstance(error, dict):
                session.note(str(error.get("name")))
    if gone is not None:
        session.back(gone)


def _asked_part(part: Mapping[str, Any]) -> Any:
    """A part of the user's turn; None for what the harness keeps there."""
    kind, text = part.get("type"), part.get("text")
    if kind == "text":
        injected = part.get("ignored") or (
            part.get("synthetic") and str(text).startswith("<system-reminder>")
        )
        return None if injected else text
    if kind == "subtask":
        return f"/{part.get('command') or part.get('agent')} {part.get('prompt')}"
    if kind == "file":
        return f"[file {part.get('filename') or part.get('mime')}]"
    return None


def _opencode_part(part: Mapping[str, Any], session: Session) -> None:
    kind = part.get("type")
    if kind == "text" and not part.get("ignored"):
        session.say("assistant", part.get("text"))
    elif kind == "reasoning":
        session.say("assistant", None, reasoning=part.get("text"))
    elif kind == "tool":
        session.call(part.get("callID"), part.get("tool"), lookup(part, "state.input"))
        answer = first_at(part, "state.output", "state.error")
        if answer is not None:
            session.answer(part.get("callID"), answer)


def pi(record: Record, session: Session) -> None:
    """Sessions of pi: entries of a tree, of which the last leads back to the first; old ones are a list."""
    events = events_of(record)
    entries = {
        e["id"]: e for e in objects(events) if isinstance(e.get("id"), str) and e.get("type") != "session"
    }
    path: set[Any] | None = None
    if any("parentId" in entry for entry in entries.values()):
        path, order = set(), list(entries)
        before = dict(zip(order[1:], order, strict=False))
        at: Any = order[-1]
        while at is not None and at not in path:
            path.add(at)
            parent = entries[at].get("parentId")
            # what follows an entry that cannot be read follows the one in front of that
            at = parent if parent is None or parent in entries else before.get(at)
    aside = Session()
    for event in events:
        if not isinstance(event, dict):
            session.say("unreadable", event)
        elif event.get("type") in ("session", "session_start"):
            session.head(event.get("id"), behind=aside.begun)
        elif path is None or event.get("id") in path:
            _pi_entry(event, session)
        else:
            _pi_entry(event, aside)
    session.taken.append(aside.turns)


def _pi_entry(event: Mapping[str, Any], session: Session) -> None:
    kind, message = event.get("type"), event.get("message")
    if kind in ("compaction", "branch_summary"):
        session.note(event.get("summary"))
    elif kind == "custom_message":
        session.note(plain_content(event.get("content")))
    elif not isinstance(message, dict):
        return
    elif message.get("role") == "toolResult":
        session.answer(message.get("toolCallId"), message.get("content"), str(message.get("toolName")))
    elif message.get("role") == "bashExecution":
        session.say("user", f"Ran `{message.get('command')}`\n{message.get('output')}")
    elif message.get("role") in ("compactionSummary", "branchSummary", "custom", "hookMessage"):
        session.note(plain_content(message.get("summary") or message.get("content")))
    else:
        session.say(str(message.get("role")), plain_content(parts_of(message.get("content"))))
        session.note(message.get("errorMessage"))


_SAMPLE = 20


def _made_of(fits: Fits, name: str) -> Fits:
    """A test for records with a list of such events under a name."""

    def made(record: Record) -> bool:
        first = objects(items(record.get(name))[:_SAMPLE])
        return bool(first) and 2 * sum(map(fits, first)) >= len(first)

    return made


_claude_events = _made_of(is_claude, "events")
_codex_events = _made_of(is_codex, "events")
_gemini_events = _made_of(is_gemini, "events")
_claude_lines = _made_of(
    lambda event: event.get("type") in ("user", "assistant", "system") and "role" not in event, "loglines"
)


def _is_gemini_record(record: Record) -> bool:
    if isinstance(record.get("messages"), list):
        return {"sessionId", "projectHash"} <= record.keys()
    return _gemini_events(record)


def _is_gemini_sub_agent(record: Record) -> bool:
    kinds = [head.get("kind") for head in (record, *objects(events_of(record)[:_SAMPLE]))]
    return next((kind for kind in kinds if isinstance(kind, str)), None) == "subagent"


def _is_codex_sub_agent(record: Record) -> bool:
    """Tell if the head of a rollout file says that it is a sub-agent's."""
    heads = (
        event.get("payload") for event in objects(events_of(record)) if event.get("type") == "session_meta"
    )
    head = next(heads, None)
    source = lookup(head, "source")
    return (isinstance(source, dict) and "subagent" in source) or lookup(head, "thread_source") == "subagent"


def _format(family: str, agent: str, signature: str, fits: Fits, read: Read, aside: Fits) -> Format:
    """The sessions of one agent, without those that are `aside`."""

    def rollouts(record: dict[str, Any]) -> list[Rollout]:
        if not fits(record):
            raise UnreadableError(f"is none of {agent} sessions")
        if aside(record):
            raise UnreadableError("is no session of the agent itself")
        session = Session()
        read(record, session)
        return [session.rollout(record.get("reward"), record.get("tools"))]

    return Format(
        name=f"{agent} sessions",
        family=family,
        signature=signature,
        # a document of messages would be taken for one of another kind
        matches=lambda record: fits(record) and ("messages" in record or not aside(record)),
        rollouts=rollouts,
        keys=ID_KEYS,
    )


_AGENTS: tuple[tuple[str, str, str, Fits, Read, Fits], ...] = (
    (
        "claude-code",
        "Claude Code",
        "`events` with `sessionId` in each",
        lambda record: _claude_events(record) or _claude_lines(record),
        lambda record, session: claude(events_of(record), session),
        lambda record: not any(map(is_main, objects(events_of(record)))),
    ),
    (
        "codex",
        "Codex",
        "`events` with `payload` in each",
        lambda record: _codex_events(record) and not _claude_events(record),
        lambda record, session: codex(events_of(record), session),
        _is_codex_sub_agent,
    ),
    (
        "gemini-cli",
        "Gemini CLI",
        "`sessionId`, `projectHash`, `messages`",
        _is_gemini_record,
        gemini,
        _is_gemini_sub_agent,
    ),
    (
        "opencode",
        "OpenCode",
        "`messages` with `info` and `parts` in each",
        _made_of(is_exported, "messages"),
        opencode,
        lambda record: bool(lookup(record, "info.parentID")),
    ),
    ("pi", "pi", "`events` with `message` in each", _made_of(is_pi, "events"), pi, lambda _: False),
)
FORMATS = tuple(_format(*agent) for agent in _AGENTS)
REFUSALS = (
    RefusedFormat(
        lambda record: any(fits(record) and aside(record) for *_, fits, _, aside in _AGENTS),
        "is no session of the agent itself, but a sub-agent's, or holds none of its turns; give the main one",
    ),
    RefusedFormat(
        lambda record: record.get("type") in ("thread.started", "turn.started") and "payload" not in record,
        "is what `codex exec --json` prints, which does not hold the task; give the session's file, "
        "~/.codex/sessions/…/rollout-*.jsonl",
    ),
    RefusedFormat(
        lambda record: record.get("type") == "step_start" and "sessionID" in record,
        "is what `opencode run --format json` prints, which does not hold the task; give `opencode export`",
    ),
)
