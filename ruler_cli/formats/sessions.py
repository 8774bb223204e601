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
from dataclasses import dataclass
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.event_kinds import is_claude, is_codex, is_exported, is_gemini, is_pi
from ruler_cli.formats.interface import ID_KEYS, Format, Refusal, first_at, lookup, objects
from ruler_cli.formats.session_files import claude, codex, is_main, is_sub_agent
from ruler_cli.formats.talk import Talk, call, parts_of, plain_content, text_of
from ruler_cli.records import Rollout

Record = Mapping[str, Any]
_HELD = ("events", "loglines", "messages")
_CONTEXT = ("<session_context>", "This is the Gemini CLI. We are setting up the context for our chat.")


def events_of(record: Record) -> list[Any]:
    """The turns of a session, in its order."""
    return next((record[name] for name in _HELD if isinstance(record.get(name), list)), [])


def gemini(record: Record, talk: Talk) -> None:
    """Gemini CLI: one document, or lines that add to it, change it and take back."""
    turns: dict[str, Any] = {}
    for number, event in enumerate(events_of(record)):
        if not isinstance(event, dict) or "tool_id" in event or "role" in event:
            turns[f"line {number}"] = event
        elif isinstance(event.get("$rewindTo"), str):
            taken: list[tuple[str, Any]] = []
            while turns and not (taken and taken[-1][0] == event["$rewindTo"]):
                taken.append(turns.popitem())
            gone = Talk()
            for _, turn in reversed(taken):
                _gemini_turn(turn, gone)
            talk.aside(gone)
        elif isinstance(event.get("$set"), dict):
            told = event["$set"].get("messages")
            if isinstance(told, list) and told:
                turns = {str(turn.get("id") or f"item {n}"): turn for n, turn in enumerate(objects(told))}
        elif "projectHash" in event:
            talk.head(event.get("sessionId"), behind=bool(turns))
        elif "type" in event:
            turns[str(event.get("id") or f"line {number}")] = event
    for turn in turns.values():
        _gemini_turn(turn, talk)
    for turn in talk.turns:
        if isinstance(turn["content"], _Pieces):
            turn["content"] = "".join(turn["content"])


def _gemini_turn(turn: Any, talk: Talk) -> None:
    if not isinstance(turn, dict):
        talk.say("unreadable", turn)
        return
    kind, content = turn.get("type"), turn.get("content")
    if kind == "message":
        _streamed(turn, talk)
    elif kind == "tool_use":
        asked = call(turn.get("tool_id"), turn.get("tool_name"), turn.get("parameters"))
        talk.say("assistant", None, tool_calls=[asked])
    elif kind == "tool_result":
        talk.answer(turn.get("tool_id"), turn.get("output") or turn.get("error") or turn.get("status"))
    elif kind == "user":
        kept = [part for part in parts_of(content) if not str(text_of(part)).startswith(_CONTEXT)]
        talk.say("user", plain_content(kept))
    elif kind in ("gemini", "model", "assistant"):
        calls = objects(turn.get("toolCalls"))
        told = [
            ": ".join(str(t[k]) for k in ("subject", "description") if t.get(k))
            for t in objects(turn.get("thoughts"))
        ]
        both = [call(c.get("id"), c.get("name"), c.get("args")) for c in calls]
        talk.say("assistant", content, reasoning="\n".join(told), tool_calls=both)
        for one in calls:
            talk.answer(one.get("id"), _gemini_result(one), one.get("name"))
    elif kind in ("error", "warning"):
        talk.note(plain_content(content))


class _Pieces(list[str]):
    """A text that is not whole yet."""


def _streamed(turn: Mapping[str, Any], talk: Talk) -> None:
    """A message that is printed: the agent's come in pieces."""
    last = talk.turns[-1]["content"] if talk.turns else None
    if not turn.get("delta"):
        talk.say(str(turn.get("role")), turn.get("content"))
    elif isinstance(last, _Pieces):
        last.append(str(turn.get("content")))
    else:
        talk.add({"role": "assistant", "content": _Pieces((str(turn.get("content")),))})


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


def opencode(record: Record, talk: Talk) -> None:
    """OpenCode: messages with `info` and `parts`; what was reverted stays behind the rest for a while."""
    cut = lookup(record, "info.revert.messageID")
    gone: int | None = None
    for message in record.get("messages") or ():
        if not isinstance(message, dict) or not isinstance(message.get("info"), dict):
            talk.say("unreadable", message)
            continue
        told = message["info"]
        if cut is not None and told.get("id") == cut:
            gone = len(talk.turns)
        if told.get("role") == "user":
            talk.say("user", plain_content([p for p in map(_asked_part, objects(message.get("parts"))) if p]))
        else:
            for part in objects(message.get("parts")):
                _opencode_part(part, talk)
            error = told.get("error")
            if isinstance(error, dict):
                talk.note(str(error.get("name")))
    if gone is not None:
        talk.back(gone)


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


def _opencode_part(part: Mapping[str, Any], talk: Talk) -> None:
    kind = part.get("type")
    if kind == "text" and not part.get("ignored"):
        talk.say("assistant", part.get("text"))
    elif kind == "reasoning":
        talk.say("assistant", None, reasoning=part.get("text"))
    elif kind == "tool":
        asked = call(part.get("callID"), part.get("tool"), lookup(part, "state.input"))
        talk.say("assistant", None, tool_calls=[asked])
        answer = first_at(part, "state.output", "state.error")
        if answer is not None:
            talk.answer(part.get("callID"), answer)


def pi(record: Record, talk: Talk) -> None:
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
    aside = Talk()
    for event in events:
        if not isinstance(event, dict):
            talk.say("unreadable", event)
        elif event.get("type") in ("session", "session_start"):
            talk.head(event.get("id"), behind=aside.begun)
        elif path is None or event.get("id") in path:
            _pi_entry(event, talk)
        else:
            _pi_entry(event, aside)
    talk.aside(aside)


def _pi_entry(event: Mapping[str, Any], talk: Talk) -> None:
    kind, message = event.get("type"), event.get("message")
    if kind in ("compaction", "branch_summary"):
        talk.note(event.get("summary"))
    elif kind == "custom_message":
        talk.note(plain_content(event.get("content")))
    elif not isinstance(message, dict):
        return
    elif message.get("role") == "toolResult":
        talk.answer(message.get("toolCallId"), message.get("content"), str(message.get("toolName")))
    elif message.get("role") == "bashExecution":
        talk.say("user", f"Ran `{message.get('command')}`\n{message.get('output')}")
    elif message.get("role") in ("compactionSummary", "branchSummary", "custom", "hookMessage"):
        talk.note(plain_content(message.get("summary") or message.get("content")))
    else:
        _pi_turn(message, talk)


def _pi_turn(message: Mapping[str, Any], talk: Talk) -> None:
    kept, calls = [], []
    for part in parts_of(message.get("content")):
        if isinstance(part, dict) and part.get("type") == "toolCall":
            calls.append(call(part.get("id"), part.get("name"), part.get("arguments")))
        else:
            kept.append(part)
    talk.say(str(message.get("role")), plain_content(kept), tool_calls=calls)
    talk.note(message.get("errorMessage"))


_SAMPLE = 20


@dataclass(frozen=True, slots=True)
class _Dialect:
    """One agent's sessions: how they are known and read; those `aside` are a sub-agent's, or hold nothing."""

    family: str
    name: str
    tells: str
    fits: Callable[[Record], bool]
    read: Callable[[Record, Talk], None]
    aside: Callable[[Record], bool] = lambda _: False


def _made_of(fits: Callable[[Mapping[str, Any]], bool], *names: str) -> Callable[[Record], bool]:
    """A test for records with a list of such events under one of the names."""

    def made(record: Record) -> bool:
        listed: list[Any] = next((record[name] for name in names if isinstance(record.get(name), list)), [])
        first = [event for event in listed[:_SAMPLE] if isinstance(event, dict)]
        return bool(first) and 2 * sum(map(fits, first)) >= len(first)

    return made


def _is_turn(event: Mapping[str, Any]) -> bool:
    return event.get("type") in ("user", "assistant", "system") and "role" not in event


def _is_gemini_record(record: Record) -> bool:
    if isinstance(record.get("messages"), list):
        return {"sessionId", "projectHash"} <= record.keys()
    return _made_of(is_gemini, "events")(record)


def _gemini_kind(record: Record) -> Any:
    heads = [record, *(e for e in events_of(record)[:_SAMPLE] if isinstance(e, dict))]
    return next((head["kind"] for head in heads if isinstance(head.get("kind"), str)), None)


_claude_events = _made_of(is_claude, "events")
_claude_lines = _made_of(_is_turn, "loglines")
_codex_events = _made_of(is_codex, "events")


DIALECTS = (
    _Dialect(
        "claude-code",
        "Claude Code sessions",
        "`events` with `sessionId` in each",
        lambda record: _claude_events(record) or _claude_lines(record),
        lambda record, talk: claude(events_of(record), talk),
        lambda record: not any(map(is_main, objects(events_of(record)))),
    ),
    _Dialect(
        "codex",
        "Codex sessions",
        "`events` with `payload` in each",
        lambda record: _codex_events(record) and not _claude_events(record),
        lambda record, talk: codex(events_of(record), talk),
        lambda record: is_sub_agent(events_of(record)),
    ),
    _Dialect(
        "gemini-cli",
        "Gemini CLI sessions",
        "`sessionId`, `projectHash`, `messages`",
        _is_gemini_record,
        gemini,
        lambda record: _gemini_kind(record) == "subagent",
    ),
    _Dialect(
        "opencode",
        "OpenCode sessions",
        "`messages` with `info` and `parts` in each",
        _made_of(is_exported, "messages"),
        opencode,
        lambda record: bool(lookup(record, "info.parentID")),
    ),
    _Dialect("pi", "pi sessions", "`events` with `message` in each", _made_of(is_pi, "events"), pi),
)
"""Every agent whose sessions are read."""


def _format(dialect: _Dialect) -> Format:
    def rollouts(record: dict[str, Any]) -> list[Rollout]:
        if not dialect.fits(record):
            raise UnreadableError(f"is none of {dialect.name}")
        if dialect.aside(record):
            raise UnreadableError("is no session of the agent itself")
        talk = Talk()
        dialect.read(record, talk)
        return [talk.rollout(record.get("reward"), record.get("tools"))]

    return Format(
        name=dialect.name,
        family=dialect.family,
        tells=dialect.tells,
        # a document of messages would be taken for one of another kind
        matches=lambda record: dialect.fits(record) and ("messages" in record or not dialect.aside(record)),
        rollouts=rollouts,
        keys=ID_KEYS,
    )


FORMATS = tuple(map(_format, DIALECTS))
REFUSALS = (
    Refusal(
        lambda record: any(dialect.fits(record) and dialect.aside(record) for dialect in DIALECTS),
        "is no session of the agent itself, but a sub-agent's, or holds none of its turns; give the main one",
    ),
    Refusal(
        lambda record: record.get("type") in ("thread.started", "turn.started") and "payload" not in record,
        "is what `codex exec --json` prints, which does not hold the task; give the session's file, "
        "~/.codex/sessions/…/rollout-*.jsonl",
    ),
    Refusal(
        lambda record: record.get("type") == "step_start" and "sessionID" in record,
        "is what `opencode run --format json` prints, which does not hold the task; give `opencode export`",
    ),
)
