"""The session files of Claude Code and Codex: what stands in their events → the turns of a `Talk`.

Claude Code's file is a tree by `parentUuid`, but a fork is no branch by itself: results of parallel calls
hang side by side. A branch is a prompt whose parent stands in front of an earlier prompt. Codex writes each
message twice, as a `response_item` and as an `event_msg`, and puts what it injects (`<environment_context>`,
AGENTS.md) into turns of the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ruler_cli.formats.interface import first_at, lookup, objects
from ruler_cli.formats.talk import Talk, call, parts_of, plain_content, text_of, without

Event = dict[str, Any]


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


def claude(events: list[Any], talk: Talk) -> None:
    """A session of Claude Code, in the order of its file."""
    answers = [event for event in objects(events) if event.get("type") == "assistant" and is_main(event)]
    session = _Claude(
        talk,
        attached=any(_queued(event) is not None for event in objects(events)),
        tree=bool(answers) and all(event.get("parentUuid") is not None for event in answers),
    )
    for event in events:
        if not isinstance(event, dict):
            talk.say("unreadable", event)
        elif not event.get("isSidechain") and not event.get("parent_tool_use_id"):
            session.read(event)


def is_main(event: Event) -> bool:
    """Tell if it is a turn of the session itself, not of a sub-agent."""
    side = event.get("isSidechain") or event.get("parent_tool_use_id")
    return event.get("type") in ("user", "assistant") and not side


class _Claude:
    """The place in the conversation of each event."""

    def __init__(self, talk: Talk, *, attached: bool, tree: bool) -> None:
        """`attached`: what was typed while the agent worked is told by events of its own.

        `tree`: events say what they follow.
        """
        self._talk, self._attached, self._tree, self._cleared = talk, attached, tree, False
        self._places: dict[str, int] = {}
        self._prompts: list[int] = []
        self._root = 0
        self._message: Any = None
        self._parts: list[Any] = []
        self._waiting: list[str] = []

    def read(self, event: Event) -> None:
        """One event of the main conversation."""
        identity, kind = event.get("uuid"), event.get("type")
        if isinstance(identity, str) and identity in self._places:
            return  # written twice
        message = event.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            said = message.get("content")
            if kind == "assistant":
                self._answer(message, said)
            else:
                self._ask(event, said)
        elif kind == "queue-operation":
            self._queue(event)
        elif (queued := _queued(event)) is not None:
            self._typed(plain_content(queued))
        if event.get("subtype") == "compact_boundary" or event.get("isCompactSummary"):
            self._root = len(self._talk.turns)
        if isinstance(identity, str):
            self._places[identity] = len(self._talk.turns)

    def _typed(self, content: Any) -> None:
        """Add a text that was typed, or told to the agent, while it worked."""
        if isinstance(content, str) and content.startswith(_TOLD):
            self._talk.note(content)
        else:
            self._talk.say("user", content)

    def _answer(self, message: Mapping[str, Any], said: Any) -> None:
        if message.get("model") == "<synthetic>":
            self._talk.note(plain_content(said))
            return
        turns, identity = self._talk.turns, message.get("id")
        last = turns[-1] if turns else {}
        if identity is not None and identity == self._message and last.get("role") == "assistant":
            if not self._parts:  # the event's own list is left as it is
                last["content"] = self._parts = [*_blocks(last["content"])]
            self._parts += _blocks(said)
        elif parts_of(said):
            self._talk.say("assistant", said)
            self._parts = []
        self._message = identity

    def _ask(self, event: Event, said: Any) -> None:
        self._message = None
        content = plain_content([part for part in map(_unreminded, parts_of(said)) if part is not None])
        text = content if isinstance(content, str) else ""
        turns = self._talk.turns
        if event.get("isCompactSummary") and self._talk.begun:
            self._talk.note(content)
        elif text.startswith(_CLEAR):
            self._cleared = True
        elif event.get("isMeta"):
            if _is_command(turns):
                self._talk.say("user", content)  # what a command of the user's stands for
            elif not text.startswith(_NOT_ASKED):
                self._talk.note(content)
        elif text.startswith(_LOCAL):
            if _is_command(turns):
                del turns[-1]  # a command to the harness, e.g. /model, which no agent answers
                self._prompts = [at for at in self._prompts if at < len(turns)]
        elif text.startswith(_TOLD):
            self._talk.note(content)
        elif text.startswith(_CAVEAT):
            return
        elif content and not text.startswith(_NOT_ASKED) and not _results(content):
            self._prompt(event, content)
        else:
            self._talk.say("user", content)

    def _prompt(self, event: Event, content: Any) -> None:
        """Add a prompt; if it follows a turn in front of an earlier prompt, that one is taken back."""
        if self._cleared:  # another conversation begins
            self._talk.back(0)
            self._prompts, self._root, self._cleared = [], 0, False
        if event.get("parentUuid") is None:
            self._talk.head(event.get("sessionId") or event.get("session_id"))
        if self._tree and "parentUuid" in event:
            parent = event["parentUuid"]
            place = self._root if parent is None else self._places.get(str(parent))
            if place is not None and self._prompts and self._prompts[-1] >= place:
                self._talk.back(place)
                self._prompts = [at for at in self._prompts if at < place]
        self._prompts.append(len(self._talk.turns))
        self._talk.say("user", content)

    def _queue(self, event: Event) -> None:
        """Show what was typed while the agent worked when it reaches the agent."""
        content, operation = event.get("content"), event.get("operation")
        if operation == "enqueue" and isinstance(content, str) and not content.startswith(_NOT_ASKED):
            self._waiting.append(content)
        elif operation in ("remove", "dequeue", "popAll") and self._waiting:
            said = self._waiting.pop()
            if operation == "remove" and not self._attached:
                self._talk.say("user", said)


def _is_command(turns: list[Any]) -> bool:
    """Tell if the last turn is a command that the user typed, e.g. `/review`."""
    last = turns[-1].get("content") if turns else None
    return isinstance(last, str) and last.startswith("<command-")


def _queued(event: Event) -> Any:
    queued = lookup(event, "attachment.type") == "queued_command"
    return lookup(event, "attachment.prompt") if queued else None


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else parts_of(content)


def _results(content: Any) -> bool:
    return any(part.get("type") == "tool_result" for part in objects(content))


def _unreminded(part: Any) -> Any:
    """A part of a user's turn without what the harness added; None where nothing is left."""
    text = text_of(part)
    if text is None:
        return part
    kept = text
    for tag in _ADDED:
        kept = without(kept, f"<{tag}>", f"</{tag}>")
    return part if kept == text else kept.strip() or None


def codex(events: list[Any], talk: Talk) -> None:
    """A rollout file of Codex, of any age."""
    items = [_item(event) for event in events]
    has = {str(item.get("role") or item.get("type")) for item in items if isinstance(item, dict)}
    asked = any(_typed(item) for item in items)
    told = any(_USER_INSTRUCTIONS in str(i.get("content")) for i in items if i and i.get("role") == "user")
    prompts: list[int] = []
    for event, item in zip(events, items, strict=True):
        if not isinstance(event, dict):
            talk.say("unreadable", event)
        elif item is not None:
            if _typed(item):
                prompts.append(len(talk.turns))
            _respond(item, talk)
        elif event.get("type") == "session_meta" and isinstance(event.get("payload"), dict):
            talk.head(event["payload"].get("id"))
        elif event.get("type") == "event_msg":
            _happened(event.get("payload"), talk, has, prompts, asked=asked)
        elif event.get("type") == "compacted" and isinstance(event.get("payload"), dict):
            talk.note(event["payload"].get("message"))
        elif "type" not in event and isinstance(event.get("instructions"), str) and not told:
            talk.say("developer", event["instructions"])


def is_sub_agent(events: list[Any]) -> bool:
    """Tell if the head of a rollout file says that it is a sub-agent's."""
    head = next((e.get("payload") for e in objects(events) if e.get("type") == "session_meta"), None)
    source = lookup(head, "source")
    return (isinstance(source, dict) and "subagent" in source) or lookup(head, "thread_source") == "subagent"


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
    return any(text is None or _is_asked(text) for text in texts)


def _is_asked(text: str) -> bool:
    inner = text.lstrip()
    return not (
        _DROPPED.match(text) or _AGENTS_MD.match(text) or inner.startswith((_USER_INSTRUCTIONS, *_NOT_ASKED))
    )


def _respond(item: Event, talk: Talk) -> None:
    """An item of the model's input or output as a turn."""
    kind, identity = item.get("type"), item.get("call_id") or item.get("id")
    if kind in _SILENT:
        return
    if "role" in item:
        _message(str(item["role"]), item, talk)
    elif kind == "reasoning":
        thought = plain_content(item.get("content") or item.get("summary"))
        texts = [part.get("text") for part in objects(thought)] if isinstance(thought, list) else [thought]
        talk.say("assistant", None, reasoning="\n".join(str(text) for text in texts if text))
    elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
        given = first_at(item, "arguments", "input", "action")
        talk.say("assistant", None, tool_calls=[call(identity, item.get("name") or kind, given)])
    elif str(kind).endswith("_output"):
        talk.answer(identity, item.get("output"))
    elif kind is not None:
        talk.add({"type": kind, **{key: value for key, value in item.items() if key != "role"}})


def _message(role: str, item: Event, talk: Talk) -> None:
    """A message, each part by itself: what the harness put into it is no part of what was asked."""
    if role == "assistant":
        talk.say(role, item.get("content"))
        return
    kept = []
    for part in parts_of(item.get("content")):
        text = text_of(part)
        if text is None:
            kept.append(part)
        elif _DROPPED.match(text) or (role == "developer" and text.lstrip().startswith("<")):
            continue
        elif found := _AGENTS_MD.match(text):
            talk.say("developer", text[found.end() :].strip())
        elif text.lstrip().startswith(_USER_INSTRUCTIONS):
            talk.say("developer", text)
        elif text.lstrip().startswith(_TOLD):
            talk.note(text)
        else:
            kept.append(text.rpartition(_REQUEST)[2].strip() if _REQUEST in text else text)
    talk.say(role, plain_content(kept))


def _happened(payload: Any, talk: Talk, has: set[str], prompts: list[int], *, asked: bool) -> None:
    """An event beside the items: told only where no item says the same."""
    if not isinstance(payload, dict):
        return
    kind = payload.get("type")
    if kind == "user_message" and not asked:
        prompts.append(len(talk.turns))
        talk.say("user", payload.get("message"))
    elif kind == "agent_message" and "assistant" not in has:
        talk.say("assistant", payload.get("message"))
    elif kind == "agent_reasoning" and "reasoning" not in has:
        talk.say("assistant", None, reasoning=payload.get("text"))
    elif kind == "thread_rolled_back":
        count = payload.get("num_turns")
        if isinstance(count, int) and 0 < count <= len(prompts):
            talk.back(prompts[-count])
            del prompts[-count:]
    elif kind in ("error", "stream_error"):
        talk.note(payload.get("message"))
