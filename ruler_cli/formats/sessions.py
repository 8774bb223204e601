"""Sessions of coding agents, a file each: Claude Code, Codex, Copilot, Cursor, Gemini CLI, OpenCode, pi, Qwen Code.

A record is the session's document, or the events of its file; docs/formats.md says what the judge is shown of
it. `events.toml` says which event is which turn, and which texts the harness wrote in the user's place; a class
holds what no row can say of its agent. A session that is printed (`stream-json`) may not hold the prompt. Traps:
- Claude Code's file is a tree by `parentUuid`, but a fork is no branch by itself: results of parallel calls
  hang side by side. A branch is a prompt whose parent stands before an earlier prompt.
- Codex writes each message twice, as a `response_item`, which is read, and as an `event_msg`.
- Gemini CLI's file changes what stands above: a line replaces the turn of its id, `$rewindTo` takes turns back.
  A result stands in the turn of its call, and again in a turn of the user, where alone it is in a resumed session.
- pi's file is a tree by `parentId`, Qwen Code's by `parentUuid`; its last entry tells the branch.
- Copilot CLI's `parentId` is the event before. Its results come as they are ready, a thought may stand in two
  events, sub-agents write into the session's own file, and the harness into messages of the user (`source`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, dropwhile
from typing import Any, ClassVar

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    first,
    first_at,
    first_of,
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
    leaves,
    new_turn,
    texts,
)
from ruler_cli.messages.dialects import call_turn, each_at, result_turn
from ruler_cli.messages.names import CONTENTS
from ruler_cli.messages.parts import normalize_call, normalize_part
from ruler_cli.messages.read import has_content
from ruler_cli.types import Rollout, printable, shorten

_SAMPLE = 20
"""First events by which a record's kind is known."""
_SOURCES = "kind payload.source payload.thread_source"
"""Places in the head of a session that name a sub-agent."""
_VERSIONS = words("version payload.cli_version data.copilotVersion")
_CARRIERS = frozenset(CONTENTS).union(
    words("text message parts input arguments args output result response")
)
"""Members that hold a text, a call or a result."""


@dataclass
class Session:
    """A session of an agent: the turns of each event by its id, and the runs of turns that the user took back.

    `new` are the turns of the event that is read, `last` is the last one of all, `shown` are the thoughts, the
    instructions and the ids of calls that are turns already, `unknown` are the types of events that no row knows. A
    subclass is an agent, whose sessions have events of a `kind` of `events.toml`, which is the name of their format;
    one with a value at one of `sides` is a sub-agent's.
    `replaces`: a later event replaces that of the same id, which else it repeats.
    """

    kind: ClassVar[str]
    event_id: ClassVar = "id"
    sides: ClassVar = ""
    replaces: ClassVar = False
    turns: dict[str, Messages] = field(default_factory=dict)
    taken_back: list[Messages] = field(default_factory=list)
    new: Messages = field(default_factory=list)
    last: Turn = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    identity: Any = None
    version: Any = None

    @classmethod
    def matches(cls, record: JsonObject) -> bool:
        """Return whether at least half of a record's first events are those of the agent, or of its sub-agents."""
        events = objects(events_of(record)[:_SAMPLE])
        return KINDS[cls.kind].is_made_of(events)

    @classmethod
    def is_sub_agent(cls, record: JsonObject) -> bool:
        """Return whether a session is a sub-agent's."""
        heads = [record, *events_of(record)[:_SAMPLE]]
        sources = [each_at(head, _SOURCES) for head in heads]
        return "subagent" in str(sources)

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
        if cls.is_sub_agent(record):
            raise UnreadableError(
                "is a session of a sub-agent; give the main session"
            )
        session = cls(version=lookup(record, "info.version"))
        session.read(record)
        session.refuse_unknown()
        turns = _joined(session.turns.values())
        begin = first_agent_turn(turns)
        # notes of the harness before it are no part of the task
        task = [turn for turn in turns[:begin] if turn["role"] != "system"]
        if all(turn["role"] != "user" for turn in task):
            raise UnreadableError(
                "holds no task: what the user asked is not in it; give the session's own file"
            )
        if begin == len(turns):
            raise UnreadableError("holds no turn of the agent")
        return Rollout(
            [*task, *turns[begin:]],
            histories=tuple(filter(_has_agent, session.taken_back)),
            tools=record.get("tools"),
            unknown=tuple(session.unknown),
        )

    def refuse_unknown(self) -> None:
        """Raise UnreadableError if more than one in ten events with turns is of an unknown type."""
        count = len(self.unknown)
        whole = sum(map(bool, self.turns.values()))
        if 10 * count > whole:
            version = printable(str(self.version or "unknown"))
            names = printable("`, `".join(dict.fromkeys(self.unknown)))
            names = shorten(names, 200)
            raise UnreadableError(
                f"is a session of version {version} with {count} of {whole} turns of types that ruler does not know "
                f"(`{names}`); it reads {KINDS[self.kind].tried}: write the turns as chat messages"
            )

    def read(self, record: JsonObject) -> None:
        """Read the events of a record one by one."""
        for event in events_of(record):
            identity = lookup(event, self.event_id)
            is_known = str(identity) in self.turns and not self.replaces
            if is_known or self.is_side(event):
                continue
            self.version = first_at(event, *_VERSIONS) or self.version
            made: Messages = []
            self.new = made
            if is_object(event):
                self.read_event(event)
            else:
                self.add("unreadable", event)
            self.turns[str(identity or f"event {len(self.turns)}")] = made

    @classmethod
    def is_side(cls, event: Any) -> bool:
        """Return whether an event is a sub-agent's."""
        return any(each_at(event, cls.sides))

    def read_event(self, event: JsonObject) -> None:
        """Read one event by the row of its type; show one of an unknown type as JSON if it holds anything."""
        kind = KINDS[self.kind].type_of(event)
        if self.act(event, kind):
            return
        held = {}
        for name, value in event.items():
            members = {name: value, **(value if is_object(value) else {})}
            # counts of tokens may have the same names
            if any(map(is_text, leaves([*map(members.get, _CARRIERS)]))):
                held[name] = value
        if held:
            self.append(new_turn(kind, held))
            self.unknown.append(kind)

    @property
    def begun(self) -> bool:
        """Return whether the agent had a turn."""
        turns = [*self.turns.values(), *self.taken_back]
        return any(map(_has_agent, turns))

    def identify(self, identity: Any) -> None:
        """Note the session's id; UnreadableError for another id after the session has begun."""
        if self.begun and identity != self.identity:
            raise UnreadableError(
                "holds several sessions; give each in a file of its own, and their directory"
            )
        self.identity = identity if self.identity is None else self.identity

    def act(self, event: JsonObject, kind: Any) -> bool:
        """Take the steps of the row of a kind, with the values at their places; False if no row is of the kind."""
        row = KINDS[self.kind].row_of(kind)
        for step in filter(None, (row or "").split("; ")):
            role, _, places = step.partition(" ")
            values = each_at(event, places)
            name = str(values[0])
            match role:
                case "call":
                    if name not in self.shown:
                        self.append(call_turn(*values))
                case "result":
                    self.append(result_turn(*values))
                case "result?":
                    if values[1] is not None:
                        self.append(result_turn(*values))
                case "repeated" if f"result {name}" in self.shown:
                    pass
                case "returned" | "repeated":
                    content = returned(first(filter(None, values[2:])))
                    self.append(result_turn(values[0], content, values[1]))
                    self.shown.add(f"result {name}")
                case "thought" | "once" if name in self.shown:
                    pass
                case "thought":
                    self.add("assistant", None, name)
                case "piece":
                    self.add_piece(*values)
                case "user" | "once":
                    self.ask(*values)
                    if role == "once":
                        self.shown.add(name)
                case "session":
                    if values[0] is not None:
                        self.identify(*values)
                case "rewind":
                    self.take_back(self.since(*values))
                case "ran":
                    ran = f"Ran `{values[1]}`\n{values[2] or ''}"
                    self.add("user", ran.strip())
                    self.shown.add(name)
                case _:
                    self.add(role, *values)
        return row is not None

    def append(self, turn: Turn) -> None:
        """Append a turn to those of the event that is read."""
        self.new.append(turn)
        self.last = turn

    def add(
        self,
        role: str,
        content: Any,
        thought: Any = None,
        calls: Any = None,
    ) -> None:
        """Add a turn, unless it is empty."""
        if is_list(thought):
            thought = "\n".join(filter(None, texts(thought)))
        content = plain_content(content)
        made = [*map(normalize_call, objects(calls))]
        turn = new_turn(role, content, reasoning=thought, tool_calls=made)
        if has_content(turn):
            self.append(turn)
        shown = [thought]
        for call in made:
            shown.append(call["id"])
        self.shown.update(filter(is_text, shown))

    def add_piece(self, content: Any, thought: Any = None) -> None:
        """Add a piece of a text or of a thought to the agent's last turn, or begin a turn with it."""
        name = "content" if content else "reasoning"
        earlier = self.last.get(name)
        if is_text(earlier) and self.last["role"] == "assistant":
            self.last[name] = f"{earlier}{content or thought or ''}"
        else:
            self.add("assistant", content, thought)

    def ask(self, content: Any, role: str = "user") -> None:
        """Add what the user wrote, in a turn of its own what the harness wrote and the agent read."""
        kinds = KINDS[self.kind].texts
        parts = []
        for part in content_parts(content):
            text = part_text(part)
            if text is None:
                if not self.act(part, f"part {lookup(part, 'type')}"):
                    parts.append(part)
                continue
            rest = kinds["removed"].sub("", text)
            bare = rest.strip()
            if not bare or kinds["dropped"].match(f"{role} {bare}"):
                continue
            if rules := kinds["rules"].match(bare):
                self.instruct(bare[rules.end() :])
            elif kinds["noted"].match(bare):
                self.add("system", text)
            else:
                parts.append(part if rest == text else bare)
        self.add(role, parts)

    def instruct(self, text: str) -> None:
        """Add the instructions of a file of the user's, once."""
        text = text.strip()
        if text not in self.shown:
            self.add("developer", text)
            self.shown.add(text)

    def since(self, identity: Any) -> list[str]:
        """Return the ids of an event and of those after it; [] if it is not known."""
        return [*dropwhile(str(identity).__ne__, self.turns)]

    def take_back(self, names: Iterable[str]) -> None:
        """Take back the turns of these events."""
        self.taken_back.append(_joined(map(self.turns.pop, names)))


def _joined(turns: Iterable[Messages]) -> Messages:
    return [*chain.from_iterable(turns)]


def _has_agent(turns: Messages) -> bool:
    return first_agent_turn(turns) < len(turns)


def _asks(turns: Messages) -> bool:
    """Return whether one of these turns is the user's, and no result of a tool."""
    asked = [each_at(turn, "role content.0.type") for turn in turns]
    return any(role == "user" and kind != "tool_result" for role, kind in asked)


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
    return items(content) or [*filter(None, [content])]


def events_of(record: JsonObject) -> list[Any]:
    """The events of a session, in the order of its file."""
    return items(first_at(record, "events", "messages"))


def returned(content: Any) -> Any:
    """The result of a call of Gemini's API as the model read it."""
    results = []
    for part in content_parts(content):
        response = first_at(part, *_RESPONSES)
        results.append(part if response is None else response)
    return results[0] if len(results) == 1 else results


_RESPONSES = words(
    "functionResponse.response.output functionResponse.response.error functionResponse.response output error"
)


def api_content(content: Any) -> Any:
    """The content of a message of Gemini's API, with parts as others write them."""
    return [*map(normalize_part, content)] if is_list(content) else content


class Gemini(Session):
    """A session of Gemini CLI: one document, or lines that add turns, change them and take them back."""

    kind = "gemini-cli"
    replaces = True

    def read_event(self, event: JsonObject) -> None:
        """Read a turn of the file, a change of it, or a line that was printed."""
        places = "content toolCalls $rewindTo $set.messages"
        content, calls, begin, changed = each_at(event, places)
        if is_text(begin):
            rewound = self.since(begin) or [*self.turns]
            self.take_back(rewound)
        elif changed:
            self.turns.clear()
            self.shown.clear()
            self.read({"events": changed})
        else:
            thoughts = []
            for thought in objects(event.get("thoughts")):
                stated = each_at(thought, "subject description")
                thoughts.append(": ".join(filter(None, stated)))
            content = api_content(content)
            changes = {"content": content, "thoughts": thoughts}
            super().read_event({**event, **changes})
            for call in objects(calls):
                self.act(call, "toolCall")


class OpenCode(Session):
    """A session of OpenCode: messages with `info` and `parts`, of which reverted ones may stand at the end."""

    kind = "opencode"
    event_id = "info.id"

    @classmethod
    def is_sub_agent(cls, record: JsonObject) -> bool:
        """Return whether the session has a parent."""
        return lookup(record, "info.parentID") is not None

    def read(self, record: JsonObject) -> None:
        """Read the messages, and take back reverted ones."""
        super().read(record)
        reverted = lookup(record, "info.revert.messageID")
        self.take_back(self.since(reverted))

    def read_event(self, event: JsonObject) -> None:
        """Read a message."""
        by_user = lookup(event, "info.role") == "user"
        requests = []
        for part in objects(event.get("parts")):
            request = _opencode_request(part) if by_user else None
            if request is not None:
                requests.append(request)
            elif not part.get("ignored"):
                super().read_event(part)
        self.ask(requests)
        self.add("system", lookup(event, "info.error.name"))


def _opencode_request(part: JsonObject) -> Any:
    """A part of a user's message; None for one that the user did not write."""
    kind = None if part.get("ignored") else part.get("type")
    match kind:
        case "text":
            return part.get("text")
        case "subtask":
            command = part.get("command") or part.get("agent")
            return f"/{command} {part.get('prompt')}"
        case "file" if str(part.get("mime")).startswith("image/"):
            return part
        case "file":
            return f"[file {part.get('filename') or part.get('mime')}]"
    return None


class Copilot(Session):
    """A session of Copilot CLI."""

    kind = "copilot-cli"
    sides = "agentId data.parentToolCallId"

    def read_event(self, event: JsonObject) -> None:
        """Read an event of the session itself."""
        if event.get("type") == "user.message":
            self._ask(event["data"])
        else:
            super().read_event(event)

    def _ask(self, data: JsonObject) -> None:
        """Add what the user wrote and attached, or note what the harness wrote as the user."""
        parts = [data.get("content")]
        for file in objects(data.get("attachments")):
            stated = each_at(file, "displayName|title|path text")
            shown = map(str, filter(None, stated))
            parts.append("[file {}]".format("\n".join(shown)))
        source = data.get("source") or "user"
        is_note = source != "user" or data.get("isAutopilotContinuation")
        self.add("system" if is_note else "user", parts)


class Pi(Session):
    """A session of pi or of its kin: the entries from the last one back to the root; old ones are a list."""

    kind = "pi"
    parent_id: ClassVar = "parentId"

    def read(self, record: JsonObject) -> None:
        """Read the entries, and set those of other branches aside."""
        super().read(record)
        entries = {}
        for event in objects(events_of(record)):
            identity = event.get(self.event_id)
            if is_text(identity):
                entries[identity] = event
        aside = []
        parent = ""
        for name in reversed(entries):
            # a child of an entry that cannot be read follows the entry before it
            if parent is None or (parent != name and parent in entries):
                aside.append(name)
            else:
                parent = entries[name].get(self.parent_id, "")
        self.take_back(reversed(aside))


class Qwen(Pi):
    """A session of Qwen Code: a tree as pi's, with messages of Gemini's API."""

    kind = "qwen-code"
    event_id = "uuid"
    parent_id = "parentUuid"

    def read_event(self, event: JsonObject) -> None:
        """Read one event."""
        parts = lookup(event, "message.parts")
        message = {"content": api_content(parts)}
        super().read_event({**event, "message": message})


class Claude(Session):
    """A session of Claude Code; `is_tree`: each turn of the agent names its parent."""

    kind = "claude-code"
    event_id = "uuid"
    sides = "isSidechain parent_tool_use_id"
    is_tree = True

    @classmethod
    def is_sub_agent(cls, record: JsonObject) -> bool:
        """Return whether all turns are of sub-agents."""
        events = objects(events_of(record))
        return all(cls.is_side(event) for event in events if "message" in event)

    def read_event(self, event: JsonObject) -> None:
        """Read one event; if a prompt's parent stands before an earlier prompt, take back all turns since."""
        kind, parent = each_at(event, "type parentUuid")
        if kind != "user":
            super().read_event(event)
            self.is_tree &= kind != "assistant" or parent is not None
            return
        self._ask(event)
        if "parentUuid" not in event or not _asks(self.new):
            return
        after = self.since(parent)[1:]
        if parent is None:
            self.identify(event.get("sessionId"))
            after = [*self.turns]
        if self.is_tree and any(_asks(self.turns[name]) for name in after):
            self.take_back(after)

    def _ask(self, event: JsonObject) -> None:
        """Add what the user wrote, or the harness (`isMeta`)."""
        content = lookup(event, "message.content")
        role, earlier = each_at(self.last, "role content")
        # a command that the user typed: /review, and behind it what it stands for
        is_typed = role == "user" and str(earlier).startswith("<command-")
        is_note = event.get("isMeta") and not is_typed
        if event.get("isCompactSummary"):
            is_note = self.begun
        if is_typed and str(content).startswith("<local-command-std"):
            # a command to the harness, e.g. /model, which no agent answers
            self.last["role"] = "system"
        self.ask(content, "system" if is_note else "user")


class Cursor(Session):
    """A session that Cursor's command printed."""

    kind = "cursor"

    def read_event(self, event: JsonObject) -> None:
        """Read one event; the name of a tool is a key."""
        for name, called in (event.get("tool_call") or {}).items():
            event = {**event, "name": name, "called": called}
        super().read_event(event)


class Codex(Session):
    """A session of Codex CLI: the items in the order of the file."""

    kind = "codex"

    def read_event(self, event: JsonObject) -> None:
        """Read an item, or what an event holds beside it."""
        kind, payload, rules = each_at(event, "type payload instructions")
        if not is_object(payload) and kind is not None:
            # older files are of bare items, and their head has the user's instructions
            self._read_item(event)
        elif not is_object(payload):
            self.instruct(str(rules or ""))
        elif kind == "response_item":
            self._read_item(payload)
        elif count := payload.get("num_turns"):
            asked = self.turns.items()
            prompts = [name for name, turns in asked if _asks(turns)]
            if 0 < count <= len(prompts):
                self.take_back(self.since(prompts[-count]))
        else:
            super().read_event(event)

    def _read_item(self, item: JsonObject) -> None:
        """Read an item of the Responses API."""
        kind, role, content = each_at(item, "type role content")
        if role == "assistant":
            self.add(role, content)
        elif role is not None:
            self.ask(content, str(role))
        elif kind == "reasoning":
            thought = first_of(item, ("content", "summary"))
            self.add("assistant", None, thought)
        elif not self.act(item, kind) and kind is not None:
            self.append({**item})
