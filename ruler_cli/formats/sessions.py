"""Sessions of coding agents, a file each: Claude Code, Codex, Copilot, Cursor, Gemini CLI, OpenCode, pi, Qwen Code.

A record is the session's document, or the events of its file; docs/formats.md says what the judge is shown of
it. `events.toml` says which event is which turn, and which texts the harness wrote in the user's place; a class
holds what no row can say of its agent. A session that is printed (`stream-json`) may not hold the prompt. Traps:
- Claude Code's file is a tree by `parentUuid`, but a fork is not a branch by itself: results of parallel calls
  hang side by side. A branch is a prompt whose parent stands before an earlier prompt.
- Codex writes each message twice, as a `response_item`, which is read, and as an `event_msg`.
- Gemini CLI's file changes what stands above: a line replaces the turn of its id, `$rewindTo` takes turns back.
  A result stands in the turn of its call, and again in a turn of the user, where alone it is in a resumed session.
- pi's file is a tree by `parentId`, Qwen Code's by `parentUuid`; its last entry tells the branch.
- Copilot CLI's `parentId` is the event before. Its results come as they are ready, a thought may stand in two
  events, sub-agents write into the session's own file, and the harness into messages of the user (`source`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, dropwhile
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
    json_value,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.events import KINDS, EventKind
from ruler_cli.messages.content import (
    Messages,
    Turn,
    first_agent_turn,
    leaves,
    new_turn,
)
from ruler_cli.messages.dialects import call_turn, each_at, result_turn
from ruler_cli.messages.names import CONTENTS
from ruler_cli.messages.parts import normalize_call, normalize_part
from ruler_cli.messages.read import has_content
from ruler_cli.types import Rollout, printable, shorten

_SAMPLE = 20
"""First events by which a record's kind is known."""
_HEADS = (
    "kind events.0.kind events.0.payload.source events.0.payload.thread_source"
)
"""Places in the head of a session that name a sub-agent."""
_VERSIONS = words("version payload.cli_version data.copilotVersion")
_CARRIERS = frozenset(CONTENTS).union(
    words("text message parts input arguments args output result response")
)
"""Members that hold a text, a call or a result."""
_REPEATED = words("call result thought once system")
"""Steps whose first value tells if they were taken before."""
_RESPONSES = words("response.output response.error response content")
"""Places of what a tool returned, in a part of Gemini's API or of Continue."""
_THOUGHTS = "subject description|text|thinking"


@dataclass
class Session:
    """The turns of each event by its id, and the runs of turns that the user took back, whose ids are `left`.

    `new` are the turns of the event that is read, `last` is the last one of all, `shown` are the thoughts, requests,
    calls and results that are turns already, `unknown` are the types of events that no row knows, `parent` is that of
    the last event. A subclass is an agent or a framework, with its row of `events.toml`.
    """

    kind: ClassVar[EventKind]
    turns: dict[str, Messages] = field(default_factory=dict)
    taken_back: list[Messages] = field(default_factory=list)
    left: set[str] = field(default_factory=set)
    new: Messages = field(default_factory=list)
    last: Turn = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    identity: Any = None
    version: Any = None
    parent: Any = None

    @classmethod
    def is_session(
        cls,
        record: JsonObject,
    ) -> bool:
        """Return whether at least half of a record's first events are the agent's: a sub-agent's file is left out."""
        is_made = cls.kind.is_made_of(objects(events_of(record)[:_SAMPLE]))
        # a document of messages would be taken for one of another kind
        return is_made and (
            "messages" in record or not cls.is_sub_agent(record)
        )

    @classmethod
    def is_sub_agent(
        cls,
        record: JsonObject,
    ) -> bool:
        """Return whether a session is a sub-agent's."""
        sources = str(each_at(record, _HEADS))
        return "subagent" in sources or bool(lookup(record, "info.parentID"))

    @classmethod
    def rollout(
        cls,
        record: JsonObject,
    ) -> Rollout:
        """Read a session as a rollout."""
        if cls.is_sub_agent(record):
            raise UnreadableError(
                "is a session of a sub-agent; give the main session"
            )
        session = cls(version=lookup(record, "info.version"))
        session.read(events_of(record))
        session.take_back(
            session.since(lookup(record, "info.revert.messageID"))
        )
        count = len(session.unknown)
        whole = sum(map(bool, session.turns.values()))
        if 10 * count > whole:
            version = printable(str(session.version or "unknown"))
            names = printable("`, `".join(dict.fromkeys(session.unknown)))
            names = shorten(names, 200)
            raise UnreadableError(
                f"is a session of version {version} with {count} of {whole} turns of types that ruler does not know "
                f"(`{names}`); it reads {cls.kind.tried}: write the turns as chat messages"
            )
        turns = session.messages
        begin = first_agent_turn(turns)
        if begin == len(turns):
            raise UnreadableError("holds no turn of the agent")
        # notes of the harness before it are not part of the task
        task = [turn for turn in turns[:begin] if turn["role"] != "system"]
        return Rollout(
            [*task, *turns[begin:]],
            histories=tuple(filter(_has_agent, session.taken_back)),
            unknown=tuple(session.unknown),
        )

    @classmethod
    def whole(
        cls,
        record: JsonObject,
    ) -> Rollout:
        """Read all events of a record as its rollout."""
        session = cls()
        session.read(events_of(record))
        return Rollout(session.messages, unknown=tuple(session.unknown))

    def read(
        self,
        events: Iterable[Any],
    ) -> None:
        """Read events one by one."""
        for event in events:
            identity = lookup(event, self.kind.id)
            is_known = str(identity) in self.turns and not self.kind.replaces
            if is_known or self.is_side(event):
                continue
            self.version = first_at(event, *_VERSIONS) or self.version
            made: Messages = []
            self.new = made
            if is_object(event):
                self.read_event(event, self.kind.type_of(event))
                self.follow(event)
            else:
                self.say("unreadable", event)
            self.turns[str(identity or f"event {len(self.turns)}")] = made

    @classmethod
    def is_side(cls, event: Any) -> bool:
        """Return whether an event is a sub-agent's, or a part is not shown to the agent."""
        return any(each_at(event, cls.kind.sides))

    def follow(self, event: JsonObject) -> None:
        """Take back the turns behind an event's parent, if the event begins another branch."""
        name = self.kind.parent
        if name not in event:
            return
        before = self.parent
        parent = event[name]
        self.parent = parent
        if parent in self.left and self.new:
            raise UnreadableError(
                "returns to turns that were taken back: write the branch as chat messages"
            )
        after = self.since(parent)[1:]
        if parent is None and before is not None:
            after = [*self.turns]
        begins = self.kind.linear
        if not begins and _asks(self.new):
            if parent is None:
                self.identify(event.get("sessionId"))
            begins = any(_asks(self.turns[name]) for name in after)
        if begins:
            self.take_back(after)

    @property
    def messages(self) -> Messages:
        """The turns that were not taken back."""
        return _joined(self.turns.values())

    @property
    def begun(self) -> bool:
        """Return whether the agent had a turn."""
        return any(map(_has_agent, [self.messages, *self.taken_back]))

    def identify(self, identity: Any) -> None:
        """Note the session's id; UnreadableError for another id after the session has begun."""
        if self.begun and identity != self.identity:
            raise UnreadableError(
                "holds several sessions; give each in a file of its own, and their directory"
            )
        self.identity = identity if self.identity is None else self.identity

    def read_event(
        self,
        event: JsonObject,
        kind: str,
    ) -> None:
        """Take the steps of the row of a type, with the values at their places.

        An event of an unknown type is shown as JSON if it holds anything.
        """
        steps = self.kind.steps_of(kind)
        if steps is None:
            self.show(event, kind)
            return
        for word, places in steps:
            values = each_at(event, places)
            if values.count(None) == len(values):
                continue
            role = word.removesuffix("?")
            if role in _REPEATED:
                key = f"{role} {values[0]}"
                if word != role and key in self.shown:
                    continue
                self.shown.add(key)
            self.take_step(role, places, values)

    def take_step(
        self,
        role: str,
        places: str,
        values: list[Any],
    ) -> None:
        """Take one step."""
        match role:
            case "call" | "act":
                # with what the agent said and thought of it
                begun = self.new.pop() if role == "act" and self.new else {}
                identity, name, arguments, *_ = values
                arguments = _without(arguments, words(places)[3:])
                turn = begun | call_turn(identity, name, arguments)
                self.append(turn | {"content": begun.get("content")})
            case "result":
                identity, content, *rest = values
                if is_list(content):
                    content = _returned(content)
                if content is not None:
                    self.append(result_turn(identity, content, *rest))
            case "message":
                self.append({**values[0]})
            case "each":
                for item in objects(values[0]):
                    self.read_event(item, f"{places} {item.get('type')}")
            case "thought":
                self.say("assistant", None, *values)
            case "piece":
                self.add_piece(*values)
            case "session":
                self.identify(*values)
            case "rewind":
                # Gemini CLI goes back to the beginning if it does not know the turn
                begin = [*self.turns] if self.kind.replaces else []
                self.take_back(self.since(*values) or begin)
            case "undo":
                asked = [name for name in self.turns if _asks(self.turns[name])]
                begin = asked[-values[0] :] if values[0] > 0 else []
                self.take_back(self.since(first(begin)))
            case "replace":
                self.turns.clear()
                self.shown.clear()
                self.read(*values)
            case "ran":
                identity, command, output = values
                self.say("user", f"Ran `{command}`\n{output or ''}".strip())
                self.shown.add(f"call {identity}")
            case "file":
                shown = "\n".join(map(str, filter(None, values)))
                self.say("user", f"[file {shown}]")
            case "assistant":
                self.say(role, *values)
            case _:
                parts = [*chain.from_iterable(map(content_parts, values))]
                self.say("user" if role == "once" else role, parts)

    def show(
        self,
        event: JsonObject,
        kind: str,
    ) -> None:
        """Show an event of an unknown type as JSON if it holds anything."""
        held = {}
        for name, value in event.items():
            members = {name: value}
            if is_object(value):
                members |= value
            # counts of tokens may have the same names
            if any(map(is_text, leaves([*map(members.get, _CARRIERS)]))):
                held[name] = value
        if held:
            self.append(new_turn(kind, held))
            self.unknown.append(kind)

    def append(self, turn: Turn) -> None:
        """Append a turn to those of the event that is read."""
        self.new.append(turn)
        self.last = turn

    def say(
        self,
        role: str,
        content: Any,
        thought: Any = None,
        calls: Any = None,
        name: Any = None,
    ) -> None:
        """Add a message of a speaker; the parts that the row names become turns of their own."""
        if is_list(thought):
            stated = [each_at(item, _THOUGHTS) for item in thought]
            lines = [": ".join(filter(None, values)) for values in stated]
            thought = "\n".join(filter(None, lines))
        made = []
        for call in items(json_value(calls)):
            normal = normalize_call(call) if is_object(call) else {}
            made.append(normal if normal.get("name") else call)
        parts: list[Any] = []
        for part in content_parts(content):
            text = part_text(part)
            kinds = filter(None, each_at(part, "type mime"))
            label = f"part {' '.join(kinds)}"
            if self.is_side(part):
                continue
            if text is not None and role != "assistant":
                parts += self.user_text(role, text)
            elif text is not None or self.kind.steps_of(label) is None:
                parts.append(part)
            else:
                self.speak(role, plain(parts))
                parts = []
                self.read_event(part, label)
        content = content if is_object(content) else plain(parts)
        more = {"reasoning": thought, "tool_calls": made, "name": name}
        self.speak(role, content, **more)
        self.shown.add(f"thought {thought}")
        for call in objects(made):
            self.shown.add(f"call {call.get('id')}")

    def speak(
        self,
        role: str,
        content: Any,
        **more: Any,
    ) -> None:
        """Add a turn, unless it is empty."""
        turn = new_turn(role, content, **more)
        if has_content(turn):
            self.append(turn)

    def user_text(
        self,
        role: str,
        text: str,
    ) -> list[str]:
        """Return the text that the user wrote; text that the harness wrote for the agent becomes a turn of its own."""
        texts = self.kind.texts
        rest = texts["removed"].sub("", text)
        bare = rest.strip()
        if not bare or texts["dropped"].match(f"{role} {bare}"):
            return []
        if rules := texts["rules"].match(bare):
            bare = bare[rules.end() :].strip()
            # the instructions of a file of the user's
            if bare not in self.shown:
                self.append(new_turn("developer", bare))
                self.shown.add(bare)
            return []
        if texts["noted"].match(bare):
            self.append(new_turn("system", text))
            return []
        return [text if rest == text else bare]

    def add_piece(
        self,
        content: Any,
        thought: Any = None,
    ) -> None:
        """Add a piece of a text or of a thought to the agent's last turn, or begin a turn with it."""
        name = "content" if content else "reasoning"
        earlier = self.last.get(name)
        if is_text(earlier) and self.last["role"] == "assistant":
            self.last[name] = f"{earlier}{content or thought or ''}"
        else:
            self.say("assistant", content, thought)

    def since(self, identity: Any) -> list[str]:
        """Return the ids of an event and of those after it; [] if it is not known."""
        return [*dropwhile(str(identity).__ne__, self.turns)]

    def take_back(
        self,
        names: list[str],
    ) -> None:
        """Take back the turns of these events."""
        self.left.update(names)
        self.taken_back.append(_joined(map(self.turns.pop, names)))


def _joined(turns: Iterable[Messages]) -> Messages:
    return [*chain.from_iterable(turns)]


def _has_agent(turns: Messages) -> bool:
    return first_agent_turn(turns) < len(turns)


def _asks(turns: Messages) -> bool:
    """Return whether one of these turns is the user's, and no result of a tool."""
    asked = [each_at(turn, "role content.0.type") for turn in turns]
    return any(role == "user" and kind != "tool_result" for role, kind in asked)


def _without(
    arguments: Any,
    left_out: Sequence[str],
) -> Any:
    """Return the arguments of a call; where some are left out also without those that are null."""
    if not left_out or not is_object(arguments):
        return arguments
    stated = {}
    for key, value in arguments.items():
        if key not in left_out and value is not None:
            stated[key] = value
    return stated


def plain(parts: list[Any]) -> Any:
    """Return parts that are all text as one text, so that equal prompts are equal however they were written."""
    texts = [*map(part_text, parts)]
    return parts if None in texts else "\n".join(map(str, texts))


_TEXTS = (None, "text", "input_text", "output_text")


def part_text(part: Any) -> str | None:
    """The text of a part of a message; None if it is something else."""
    if is_object(part) and part.get("type") in _TEXTS:
        part = part.get("text")
    return part if is_text(part) else None


def content_parts(content: Any) -> list[Any]:
    """Content as a list of its parts, each with a type."""
    parts = []
    for part in items(content) or filter(None, [content]):
        is_typed = is_text(part) or lookup(part, "type")
        parts.append(part if is_typed else normalize_part(part))
    return parts


def _returned(content: list[Any]) -> Any:
    """The content of a result; of parts of Gemini's API what the function returned."""
    parts = []
    for part in content_parts(content):
        response = first_at(part, *_RESPONSES)
        parts.append(part if response is None else response)
    return plain(parts)


_LISTS = words("events messages steps history context")


def events_of(record: JsonObject) -> list[Any]:
    """The events of a session, in the order of its file."""
    return items(first_at(record, *_LISTS))


class Cursor(Session):
    """A session that Cursor's command printed."""

    kind = KINDS["cursor"]

    def read_event(
        self,
        event: JsonObject,
        kind: str,
    ) -> None:
        """Read one event; the name of a tool is a key."""
        for name, called in (event.get("tool_call") or {}).items():
            event = {**event, "name": name, "called": called}
        super().read_event(event, kind)


class Claude(Session):
    """A session of Claude Code."""

    kind = KINDS["claude-code"]

    @classmethod
    def is_sub_agent(
        cls,
        record: JsonObject,
    ) -> bool:
        """Return whether all turns are of sub-agents."""
        events = objects(events_of(record))
        return all(cls.is_side(event) for event in events if "message" in event)

    def read_event(
        self,
        event: JsonObject,
        kind: str,
    ) -> None:
        """Read one event; the harness writes into turns of the user, too (`isMeta`)."""
        # a command that the user typed: /review, and behind it what it stands for
        role, earlier = map(self.last.get, ("role", "content"))
        is_typed = role == "user" and str(earlier).startswith("<command-")
        is_note = event.get("isMeta") and not is_typed
        if event.get("isCompactSummary"):
            is_note = self.begun
        if is_typed and str(lookup(event, "message.content")).startswith(
            "<local-command-std"
        ):
            # a command to the harness, e.g. /model, which no agent answers
            self.last["role"] = "system"
        super().read_event(event, "note" if is_note else kind)


def __getattr__(name: str) -> type[Session]:
    kind = KINDS.get(name.replace("_", "-"))
    if kind is None:
        raise AttributeError(name)
    # its row says all of these events
    return type(name, (Session,), {"kind": kind})
