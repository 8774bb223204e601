"""Sessions of coding agents as conversations: the turns so far, and the files of Claude Code and Codex.

Claude Code's file is a tree by `parentUuid`, but a fork is no branch by itself: results of parallel calls
hang side by side. A branch is a prompt whose parent stands in front of an earlier prompt. Codex writes each
message twice, as a `response_item` and as an `event_msg`, and puts what it injects (`<environment_context>`,
AGENTS.md) into turns of the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.dialects import NOTHING, OWN, calling, result
from ruler_cli.formats.interface import first_at, lookup, objects
from ruler_cli.types import Rollout

Event = dict[str, Any]


@dataclass(slots=True)
class Session:
    """The turns so far; those that the user took back are histories of their own."""

    turns: Messages = field(default_factory=list)
    taken: list[Messages] = field(default_factory=list)
    identity: Any = None

    @property
    def begun(self) -> bool:
        """Tell if the agent had a turn."""
        return _agents(self.turns)

    def head(self, identity: Any, *, behind: bool = False) -> None:
        """Note a session's id; UnreadableError where it is another one, behind turns."""
        if (self.begun or behind) and identity != self.identity:
            raise UnreadableError(
                "holds several sessions; give each in a file of its own, and their directory"
            )
        self.identity = identity if self.identity is None else self.identity

    def say(self, role: str, content: Any, **more: Any) -> None:
        """Add a turn, unless it is empty."""
        given = {key: value for key, value in more.items() if value not in NOTHING}
        if content not in (None, "", []) or given:
            self.turns.append({"role": role, "content": plain_content(content), **given})

    def call(self, identity: Any, name: Any, arguments: Any) -> None:
        """Add a call of a tool."""
        self.turns.append(calling(identity, name, arguments))

    def answer(self, identity: Any, content: Any, name: Any = None) -> None:
        """Add the result of a tool."""
        self.turns.append(result(identity, content, name))

    def note(self, text: Any) -> None:
        """Add a text of the harness; in front of the agent's first turn it is no part of the task."""
        if self.begun:
            self.say("system", text)

    def back(self, to: int) -> None:
        """Take back all turns from a number on."""
        self.taken.append(self.turns[to:])
        del self.turns[to:]

    def rollout(self, reward: Any, tools: Any = None) -> Rollout:
        """The conversation; UnreadableError if it holds no task, or no turn of the agent."""
        if not self.begun:
            raise UnreadableError("holds no turn of the agent")
        first = next(i for i, turn in enumerate(self.turns) if turn.get("role") in OWN)
        if not any(turn.get("role") == "user" for turn in self.turns[:first]):
            raise UnreadableError(
                "holds no task: what the user asked is not in it; give the session's own file"
            )
        return Rollout(self.turns, (), tuple(filter(_agents, self.taken)), tools, reward)


def _agents(turns: Messages) -> bool:
    return any(turn.get("role") in OWN for turn in turns)


def plain_content(content: Any) -> Any:
    """Content that is nothing but texts as one text: equal prompts are equal however they were written."""
    if not isinstance(content, list):
        return content
    texts = [text_of(part) for part in content]
    return content if None in texts else "\n".join(map(str, texts))


def text_of(part: Any) -> str | None:
    """The text of a part of a message; None where it is something else."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("type") not in (None, "text", "input_text", "output_text"):
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None


def parts_of(content: Any) -> list[Any]:
    """Content as its parts."""
    return content if isinstance(content, list) else [] if content in (None, "") else [content]


_ADDED = ("system-reminder", "ide_opened_file", "ide_diagnostics")
"""Tags of what the harness adds to a prompt."""
_CAVEAT = ("<local-command-caveat>", "Caveat: The messages below")
_LOCAL = ("<local-command-stdout>", "<local-command-stderr>")
_TOLD = ("<task-notification>", "<bash-stdout>", "<bash-stderr>", "<turn_aborted>", "<subagent_notification>")
"""Texts of a harness that stand as the user's, and that the agent reads."""
_CLEAR = "<command-name>/clear</command-name>"
_NOT_ASKED = (*_TOLD, *_LOCAL, *_CAVEAT, "[Request interrupted")
_DROPPED = re.compile(
    r"\s*<(environment_context|permissions[ _]instructions|collaboration_mode|app-context|apps_instructions"
    r"|skills_instructions|plugins_instructions|personality_spec|model_switch|realtime_conversation"
    r"|additional_context|tool_context|reasoning_context|pinned_notes)\b",
    re.IGNORECASE,
)
_AGENTS_MD = re.compile(r"\s*# AGENTS\.md instructions( for [^\n]*)?\n")
_USER_INSTRUCTIONS = "<user_instructions>"
_REQUEST = "## My request for Codex:"
_SILENT = ("ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "token_count")


def claude(events: list[Any], session: Session) -> None:
    """A session of Claude Code, in the order of its file."""
    known = objects(events)
    answers = [event for event in known if event.get("type") == "assistant" and is_main(event)]
    tree = bool(answers) and all(event.get("parentUuid") is not None for event in answers)
    claude_code = _Claude(session, any(_queued(event) is not None for event in known), tree)
    for event in events:
        if not isinstance(event, dict):
            session.say("unreadable", event)
        elif not _is_side(event):
            claude_code.read(event)


def _is_side(event: Event) -> bool:
    return bool(event.get("isSidechain") or event.get("parent_tool_use_id"))


def is_main(event: Event) -> bool:
    """Tell if it is a turn of the session itself, not of a sub-agent."""
    return event.get("type") in ("user", "assistant") and not _is_side(event)


@dataclass(slots=True)
class _Claude:
    """The place in the conversation of each event.

    `attached`: what was typed while the agent worked stands in events of its own. `tree`: events name the
    one that they follow.
    """

    session: Session
    attached: bool
    tree: bool
    cleared: bool = False
    root: int = 0
    message: Any = None
    places: dict[str, int] = field(default_factory=dict)
    prompts: list[int] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def read(self, event: Event) -> None:
        """One event of the main conversation."""
        identity, kind, message = event.get("uuid"), event.get("type"), event.get("message")
        if isinstance(identity, str) and identity in self.places:
            return  # written twice
        if kind == "assistant" and isinstance(message, dict):
            self._answer(message, message.get("content"))
        elif kind == "user" and isinstance(message, dict):
            self._ask(event, message.get("content"))
        elif kind == "queue-operation":
            self._queue(event)
        elif (queued := _queued(event)) is not None:
            content = plain_content(queued)
            if isinstance(content, str) and content.startswith(_TOLD):
                self.session.note(content)
            else:
                self.session.say("user", content)
        if event.get("subtype") == "compact_boundary" or event.get("isCompactSummary"):
            self.root = len(self.session.turns)
        if isinstance(identity, str):
            self.places[identity] = len(self.session.turns)

    def _answer(self, message: Mapping[str, Any], said: Any) -> None:
        if message.get("model") == "<synthetic>":
            self.session.note(plain_content(said))
            return
        last = self.session.turns[-1] if self.session.turns else {}
        same = message.get("id") is not None and message["id"] == self.message
        if same and last.get("role") == "assistant":
            last["content"] = [*_blocks(last["content"]), *_blocks(said)]
        else:
            self.session.say("assistant", said)
        self.message = message.get("id")

    def _ask(self, event: Event, said: Any) -> None:
        self.message = None
        content = plain_content([part for part in map(_unreminded, parts_of(said)) if part is not None])
        text = content if isinstance(content, str) else ""
        turns = self.session.turns
        meta, asked = event.get("isMeta"), not text.startswith(_NOT_ASKED)
        if event.get("isCompactSummary") and self.session.begun:
            self.session.note(content)
        elif text.startswith(_CLEAR):
            self.cleared = True
        elif meta and _is_command(turns):
            self.session.say("user", content)  # what a command of the user's stands for
        elif text.startswith(_LOCAL) and _is_command(turns):
            del turns[-1]  # a command to the harness, e.g. /model, which no agent answers
            self.prompts = [at for at in self.prompts if at < len(turns)]
        elif asked if meta else text.startswith(_TOLD):
            self.session.note(content)
        elif meta or text.startswith((*_LOCAL, *_CAVEAT)):
            return
        elif content and asked and not any(part.get("type") == "tool_result" for part in objects(content)):
            self._prompt(event, content)
        else:
            self.session.say("user", content)

    def _prompt(self, event: Event, content: Any) -> None:
        """Add a prompt; if it follows a turn in front of an earlier prompt, that one is taken back."""
        if self.cleared:  # another conversation begins
            self.session.back(0)
            self.prompts, self.root, self.cleared = [], 0, False
        if event.get("parentUuid") is None:
            self.session.head(event.get("sessionId") or event.get("session_id"))
        if self.tree and "parentUuid" in event:
            parent = event["parentUuid"]
            place = self.root if parent is None else self.places.get(str(parent))
            if place is not None and self.prompts and self.prompts[-1] >= place:
                self.session.back(place)
                self.prompts = [at for at in self.prompts if at < place]
        self.prompts.append(len(self.session.turns))
        self.session.say("user", content)

    def _queue(self, event: Event) -> None:
        """Show what was typed while the agent worked when it reaches the agent."""
        content, operation = event.get("content"), event.get("operation")
        if operation == "enqueue" and isinstance(content, str) and not content.startswith(_NOT_ASKED):
            self.waiting.append(content)
        elif operation in ("remove", "dequeue", "popAll") and self.waiting:
            said = self.waiting.pop()
            if operation == "remove" and not self.attached:
                self.session.say("user", said)


def _is_command(turns: list[Any]) -> bool:
    """Tell if the last turn is a command that the user typed, e.g. `/review`."""
    last = turns[-1].get("content") if turns else None
    return isinstance(last, str) and last.startswith("<command-")


def _queued(event: Event) -> Any:
    queued = lookup(event, "attachment.type") == "queued_command"
    return lookup(event, "attachment.prompt") if queued else None


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else parts_of(content)


def _unreminded(part: Any) -> Any:
    """A part of a user's turn without what the harness added; None where nothing is left."""
    kept = text = text_of(part)
    for tag in _ADDED if kept is not None else ():
        kept = _without(kept or "", f"<{tag}>", f"</{tag}>")
    return part if kept == text else (kept or "").strip() or None


def _without(text: str, opens: str, closes: str) -> str:
    """Text without its parts between two tags; a tag that is not closed stays."""
    kept, at = [], 0
    while (start := text.find(opens, at)) >= 0 and (end := text.find(closes, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closes)
    return "".join([*kept, text[at:]])


def codex(events: list[Any], session: Session) -> None:
    """A rollout file of Codex, of any age."""
    items = [_item(event) for event in events]
    has = {str(item.get("role") or item.get("type")) for item in items if isinstance(item, dict)}
    asked = any(_typed(item) for item in items)
    told = any(_USER_INSTRUCTIONS in str(i.get("content")) for i in items if i and i.get("role") == "user")
    prompts: list[int] = []
    for event, item in zip(events, items, strict=True):
        if not isinstance(event, dict):
            session.say("unreadable", event)
        elif item is not None:
            if _typed(item):
                prompts.append(len(session.turns))
            _respond(item, session)
        elif event.get("type") == "session_meta" and isinstance(event.get("payload"), dict):
            session.head(event["payload"].get("id"))
        elif event.get("type") == "event_msg":
            _happened(event.get("payload"), session, has, prompts, asked=asked)
        elif event.get("type") == "compacted" and isinstance(event.get("payload"), dict):
            session.note(event["payload"].get("message"))
        elif "type" not in event and isinstance(event.get("instructions"), str) and not told:
            session.say("developer", event["instructions"])


def _item(event: Any) -> Event | None:
    """The item of the Responses API that an event is, or holds."""
    if not isinstance(event, dict) or "record_type" in event:
        return None
    if "payload" not in event:
        return event if "type" in event else None
    payload = event["payload"]
    return payload if event.get("type") == "response_item" and isinstance(payload, dict) else None


def _typed(item: Event | None) -> bool:
    """Tell if the user typed it: no part of it was put there by the harness."""
    if item is None or item.get("role") != "user":
        return False
    texts = [text_of(part) for part in parts_of(item.get("content"))]
    added = (_USER_INSTRUCTIONS, *_NOT_ASKED)
    return not all(
        text is not None
        and (_DROPPED.match(text) or _AGENTS_MD.match(text) or text.lstrip().startswith(added))
        for text in texts
    )


def _respond(item: Event, session: Session) -> None:
    """An item of the model's input or output as a turn."""
    kind, identity = item.get("type"), item.get("call_id") or item.get("id")
    if kind in _SILENT:
        return
    if "role" in item:
        _message(str(item["role"]), item, session)
    elif kind == "reasoning":
        thought = plain_content(item.get("content") or item.get("summary"))
        texts = [part.get("text") for part in objects(thought)] if isinstance(thought, list) else [thought]
        session.say("assistant", None, reasoning="\n".join(str(text) for text in texts if text))
    elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
        given = first_at(item, "arguments", "input", "action")
        session.call(identity, item.get("name") or kind, given)
    elif str(kind).endswith("_output"):
        session.answer(identity, item.get("output"))
    elif kind is not None:
        session.turns.append(item)


def _message(role: str, item: Event, session: Session) -> None:
    """A message, each part by itself: what the harness put into it is no part of what was asked."""
    if role == "assistant":
        session.say(role, item.get("content"))
        return
    kept = []
    for part in parts_of(item.get("content")):
        text = text_of(part)
        if text is None:
            kept.append(part)
        elif _DROPPED.match(text) or (role == "developer" and text.lstrip().startswith("<")):
            continue
        elif found := _AGENTS_MD.match(text):
            session.say("developer", text[found.end() :].strip())
        elif text.lstrip().startswith(_USER_INSTRUCTIONS):
            session.say("developer", text)
        elif text.lstrip().startswith(_TOLD):
            session.note(text)
        else:
            kept.append(text.rpartition(_REQUEST)[2].strip() if _REQUEST in text else text)
    session.say(role, plain_content(kept))


def _happened(payload: Any, session: Session, has: set[str], prompts: list[int], *, asked: bool) -> None:
    """An event beside the items: told only where no item says the same."""
    if not isinstance(payload, dict):
        return
    kind = payload.get("type")
    if kind == "user_message" and not asked:
        prompts.append(len(session.turns))
        session.say("user", payload.get("message"))
    elif kind == "agent_message" and "assistant" not in has:
        session.say("assistant", payload.get("message"))
    elif kind == "agent_reasoning" and "reasoning" not in has:
        session.say("assistant", None, reasoning=payload.get("text"))
    elif kind == "thread_rolled_back":
        count = payload.get("num_turns")
        if isinstance(count, int) and 0 < count <= len(prompts):
            session.back(prompts[-count])
            del prompts[-count:]
    elif kind in ("error", "stream_error"):
        session.note(payload.get("message"))
