"""Files whose lines or items are the events of a rollout → records, one a rollout.

A conversation may be a file of messages, or a line that is a list of them; an agent's session is a file
of events; a trace is all spans with one id, anywhere in the file. The record holds the events' own bytes:
`{"file": …, "folder": …, "events": [event, …]}`, `{"trace_id": …, "spans": […]}`, `{"messages": LINE}`. An
event that is not a JSON object, such as a torn last line, becomes text and spoils no other event.

Kinds of events are known by their keys and never by their texts.
"""

from __future__ import annotations

import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers import RECORD_MEMBERS, Container
from ruler_cli.files.error_map import temporary
from ruler_cli.files.parse import dump, parse, parse_value
from ruler_cli.files.scratch import temporary_database
from ruler_cli.files.source import Events
from ruler_cli.files.splice import encode_members
from ruler_cli.files.values import (
    Names,
    first_at,
    first_of,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.format import holds
from ruler_cli.types import Line, value

Event = Mapping[str, Any]
Matches = Callable[[Event], bool]
Steps = Sequence[tuple[str, str]]
"""Steps to take for an event of a type, each with the places of its values."""

_CONVERSATIONS = words(
    "conversation_id conversationId session_id thread_id trajectory_id rollout_id "
    "episode_id run_id chat_id dialog_id dialogue_id sessionId"
)
"""Members by which the messages of a table belong together."""
_TRACES = words("trace_id traceId context.trace_id context.traceId")
_BATCHES = words("resourceSpans resource_spans batches")
_SCOPES = words("scopeSpans scope_spans instrumentationLibrarySpans")
_PAGES = words("data runs")
"""Lists of the spans of OTLP and of the APIs' pages."""
_TEXTS = words("removed dropped noted rules")
_NOTHING = "(?!)"


@value
class EventKind:
    """A row of `events.toml`: a kind of events.

    `member` is the name of their list in a record. With `most`, up to half of the events of a file may be of further
    kinds. Each pattern of `needs` is found in the keys and the type of one event. With `conversations`, events may name
    one of many conversations. `steps_of` returns what its row says of events of a type, which stands at `by`; None if
    nothing. `texts` are patterns of what the harness writes in the user's place, `tried` is the version whose output
    was read. An event has its id at `id`; one that comes again is a copy, or with `replaces` a change. Its member
    `parent` has the id of the event before: a user's turn behind an earlier one begins a branch, or any event if they
    are `linear`. Events with a value at one of `sides` are not turns of the session's agent.
    """

    matches: Matches
    steps_of: Callable[[str], Steps | None]
    member: str = ""
    most: bool = False
    conversations: bool = False
    texts: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    needs: Sequence[str] = ()
    by: str = "type"
    tried: str = ""
    id: str = "id"
    parent: str = ""
    linear: bool = False
    replaces: bool = False
    sides: str = ""

    def type_of(self, event: Event) -> str:
        """Return the type of an event, of all values at `by`."""
        values = [lookup(event, path) for path in words(self.by)]
        names = [str(value) for value in values if value is not None]
        return " ".join(names) or "event"

    def is_made_of(
        self,
        events: Sequence[Event],
    ) -> bool:
        """Return whether at least half of the events, and one, are of this kind."""
        fitting = [*filter(self.matches, events)]
        lines = [f"{' '.join(e)} type={self.type_of(e)}" for e in fitting]
        text = "\n".join(lines)
        needed = all(re.search(pattern, text) for pattern in self.needs)
        return needed and bool(fitting) and 2 * len(fitting) >= len(events)


def _kind(row: dict[str, Any]) -> EventKind:
    """Return the kind of a row."""
    clues = [*map(_clue, row.pop("clues"))]
    stated = row.pop("texts", {})
    texts = {name: re.compile(stated.get(name, _NOTHING)) for name in _TEXTS}
    turns = row.pop("turns", {})

    @lru_cache(1000)
    def steps_of(kind: str) -> Steps | None:
        for pattern, steps in turns.items():
            if re.fullmatch(pattern, kind):
                return re.findall(r"([^ ;]+) ([^;]+)", steps)
        return None

    return EventKind(
        lambda event: any(clue(event) for clue in clues),
        steps_of,
        texts=texts,
        **row,
    )


def _clue(row: dict[str, str]) -> Matches:
    """Return a test for events by their keys and the patterns of their type and role."""
    terms = row.pop("has", "")
    patterns = {}
    for name, names in row.items():
        patterns[name] = re.compile("|".join(words(names)), re.DOTALL)

    def matches(event: Event) -> bool:
        return holds(event, terms) and all(
            pattern.fullmatch(str(event.get(name)))
            for name, pattern in patterns.items()
        )

    return matches


_TABLE = Path(__file__).with_name("events.toml").read_text("utf-8")
KINDS = {name: _kind(row) for name, row in tomllib.loads(_TABLE).items()}
"""Every kind of events by its name; the first that fits is taken."""


def _first_id(
    event: Event,
    paths: Names,
) -> str | None:
    """Return the id of the conversation or of the trace that an event names; None if it names none."""
    identity = first_at(event, *paths)
    if paths is _TRACES and event.get("object") == "trace":
        identity = event.get("id")  # beside its spans, of OpenAI's agents
    if isinstance(identity, str | int):
        return str(identity)
    return None


def is_span(event: Event) -> bool:
    """Return whether an object is a span, with the id of its trace and its own, and without the trace inside."""
    if event.get("observations") or event.get("child_runs"):
        return False
    if _first_id(event, _TRACES) is None:
        return False
    return KINDS["span"].matches(event)


def spans_in(event: Event) -> list[dict[str, Any]]:
    """Return the spans in an object of many (OTLP, APIs); [] if it is another one."""
    spans = objects(first_of(event, _PAGES))
    for batch in objects(first_of(event, _BATCHES)):
        for scope in objects(first_of(batch, _SCOPES)):
            spans += objects(scope.get("spans"))
    return spans if all(map(is_span, spans)) else []


def spans_apart(raw: bytes) -> list[bytes]:
    """Return the JSON of each span in an object; the object itself if it holds none, or cannot be read."""
    with suppress(UnreadableError, RecursionError):
        return [*map(dump, spans_in(parse(raw)))] or [raw]
    return [raw]


_SAMPLE = 20
"""First records that show if they are events."""
_UNREADABLE = {
    "messages": ("role", "content"),
    "conversations": ("from", "value"),
}
"""Lists of messages → the names in one that stands for a line that cannot be read."""

Gathering = tuple[str, Names]
"""The way in which events become records: the list of each record, and the paths of the id of an event's rollout, whose
name in the record is the first of them; none: the file is one rollout."""
_LISTS: Gathering = ("", ())
"""The gathering of lines that are lists of messages: each is a rollout by itself."""


def _gathering(events: Sequence[Event]) -> Gathering | None:
    """Return the way in which first events are gathered; None if they are records, or of an unknown kind."""
    if not events:
        return None
    for event in events:
        # a response in the log of llm or LiteLLM is a step of its conversation
        is_step = "response_json" in event or "litellm_call_id" in event
        if RECORD_MEMBERS & event.keys() and not is_step:
            return None
    for kind in KINDS.values():
        fitting = [*filter(kind.matches, events)]
        named = [_first_id(event, _CONVERSATIONS) for event in fitting]
        stated = [identity for identity in named if identity is not None]
        if kind.conversations and 2 * len(stated) >= len(events):
            return kind.member, _CONVERSATIONS
        is_made = fitting == events or (kind.most and kind.is_made_of(events))
        if kind.member and is_made:
            return kind.member, ()
    for event in events:
        if not is_span(event) and not spans_in(event):
            return None
    return "spans", _TRACES


def may_be_event(raw: bytes) -> bool:
    """Return whether a first record could be an event."""
    event = _event(raw)
    return event is not None and _gathering([event]) is not None


def assemble_rollouts(
    container: Container,
    file: str,
    stack: ExitStack,
) -> Container:
    """Turn a container of events into one of rollouts; return any other container unchanged.

    `file` is the file's name for the record, relative to INPUT; empty if it has none.
    """
    lines = list[bytes]()
    with suppress(UsageError):  # a reader of the records raises it again
        for line in islice(container.records(), _SAMPLE):
            lines.append(line.raw)
    events = [*filter(None, map(_event, lines))]
    gathering = _gathering(events)
    if any(map(_list_member, lines)):
        gathering = None if events else _LISTS
    if gathering is None:
        return container
    return AssembledRollouts(
        container,
        gathering,
        file,
        stack,
    )


def _event(raw: bytes) -> Event | None:
    try:
        return parse(raw, exact=False)
    except UnreadableError:
        return None


def _list_member(raw: bytes) -> str | None:
    """Return the member for a record that is a list of messages; None if it is anything else."""
    if raw.lstrip().startswith(b"["):
        with suppress(UnreadableError, RecursionError):
            messages = parse_value(raw)
            events = objects(messages)
            member, _ = _gathering(events[:_SAMPLE]) or ("", ())
            if events == messages and member in _UNREADABLE:
                return member
    return None


class AssembledRollouts(Container):
    """Rollouts that are made of events, in the order of their first events."""

    unit = "rollout"

    def __init__(
        self,
        source: Container,
        gathering: Gathering,
        file: str,
        stack: ExitStack,
    ) -> None:
        super().__init__(source.name, source.most)
        self._source = source
        self._member, self._paths = gathering
        if not self._member:
            self.unit = source.unit
        self._stack = stack
        folder = "/".join(PurePath(file).parts[:-1])
        self._place = {"file": file, "folder": folder}

    @cached_property
    def _events(self) -> sqlite3.Connection:
        """All events in a temporary database; one without a key, which is a number then, is a rollout by itself."""
        db = temporary_database(_SCHEMA, cache=2000)
        self._stack.callback(db.close)
        is_trace = self._paths is _TRACES
        with temporary():
            for line in self._source.records():
                events = spans_apart(line.raw) if is_trace else [line.raw]
                for event in events:
                    size = line.skipped or len(event)
                    key, kept = self._keyed(event)
                    identity = None if self._member else line.number
                    db.execute(_ADD, (identity, key, kept, size))
            db.execute("UPDATE event SET key = id WHERE key IS NULL")
            db.execute("CREATE INDEX by_rollout ON event (key, id)")
        return db

    def _keyed(
        self,
        raw: bytes,
    ) -> tuple[bytes | None, bytes]:
        """Return the key of an event, as JSON, and the event; None for one that is a record by itself."""
        event = _event(raw)
        if self._paths:
            key = _first_id(event or {}, self._paths)
            return None if key is None else dump(key), raw
        if not self._member:
            member = _list_member(raw)
            listed = encode_members({str(member): raw})
            return None, b"{%s}" % listed if member else raw
        if event is None:
            text: Any = raw.decode("utf-8", "replace")
            names = _UNREADABLE.get(self._member)
            if names:
                text = dict(zip(names, ("unreadable", text), strict=True))
            raw = dump(text)
        return b"", raw

    def records(self) -> Iterator[Line]:
        """Yield every record; one that is larger than the bound is not held."""
        rollouts = self._events.execute(_ROLLOUTS)
        for number, (key, size) in enumerate(rollouts, 1):
            if not self._member:
                number = key  # noqa: PLW2901 - that of the line
            if size > self.most:
                yield self.line(
                    number,
                    0,
                    b"{",
                    size,
                )
                continue
            raws = [raw for (raw,) in self._events.execute(_EVENTS, (key,))]
            record = raws[0]
            if isinstance(key, bytes):
                members = {self._paths[0]: key} if key else {}
                for name, text in self._place.items():
                    if text:
                        members[name] = dump(text)
                members[self._member] = b"[%s]" % b", ".join(raws)
                record = b"{%s}" % encode_members(members)
            yield self.line(number, 0, record)


_SCHEMA = (
    "CREATE TABLE event (id INTEGER PRIMARY KEY, key BLOB, raw BLOB, size INT)"
)
_ADD = "INSERT INTO event VALUES (?, ?, ?, ?)"
_ROLLOUTS = "SELECT key, sum(size) FROM event GROUP BY key ORDER BY min(id)"
_EVENTS = "SELECT raw FROM event WHERE key = ? ORDER BY id"

EVENTS = Events(may_be_event, assemble_rollouts)


def open_records(
    name: str,
    stack: ExitStack,
    file: str | None = None,
    **more: Any,
) -> Container:
    """Open INPUT as `open_container` does, with events gathered into records."""
    return open_container(
        name,
        stack,
        file,
        events=EVENTS,
        **more,
    )
