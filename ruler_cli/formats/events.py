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
from dataclasses import field, replace
from functools import cached_property
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
    first,
    first_stated,
    is_list,
    is_object,
    objects,
    words,
)
from ruler_cli.messages.dialects import is_langchain
from ruler_cli.types import Line, value

Event = Mapping[str, Any]
Matches = Callable[[Event], bool]

_INNER = ("message", "info", "context")
"""Members whose own keys count too, as `message.role`."""
_CONVERSATIONS = words(
    "conversation_id conversationId session_id thread_id trajectory_id rollout_id "
    "episode_id run_id chat_id dialog_id dialogue_id sessionId"
)
"""Members by which the messages of a table belong together."""
_TRACES = words("trace_id traceId context.trace_id")
_BATCHES = words("resourceSpans resource_spans batches")
_SCOPES = words("scopeSpans scope_spans instrumentationLibrarySpans")
_PAGES = words("data runs")
"""Lists of the spans of OTLP and of the APIs' pages."""


@value
class EventKind:
    """A row of `events.toml`: a kind of events.

    `member` is the name of their list in a record. With `most`, up to half of the events of a file may be of further
    kinds. With `conversations`, events may name one of many conversations. `turns` are those that its events are, by
    patterns of their types, `texts` patterns of what the harness writes in the user's place.
    """

    matches: Matches
    member: str = ""
    most: bool = False
    conversations: bool = False
    turns: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, re.Pattern[str]] = field(default_factory=dict)

    def is_made_of(self, events: Sequence[Event]) -> bool:
        """Return whether at least half of the events, and one, are of this kind."""
        fitting = [*filter(self.matches, events)]
        return bool(fitting) and 2 * len(fitting) >= len(events)


_TEXTS = words("removed dropped noted rules")
_NOTHING = "(?!)"


def _kind(
    clues: list[Mapping[str, str]],
    texts: Mapping[str, str] | None = None,
    **row: Any,
) -> EventKind:
    """Return the kind of a row."""
    tests = [*map(_clue, clues)]
    patterns = {}
    for name in _TEXTS:
        patterns[name] = re.compile((texts or {}).get(name, _NOTHING))

    def matches(event: Event) -> bool:
        return any(test(event) for test in tests)

    return EventKind(matches, texts=patterns, **row)


def _clue(row: Mapping[str, str]) -> Matches:
    """Return a test for events by their keys and the patterns of their type and role."""
    has = frozenset(words(row.get("has", "")))
    some = frozenset(words(row.get("some", "")))
    lacks = frozenset(words(row.get("lacks", "")))
    only = frozenset(words(row.get("only", "")))
    patterns = {}
    for name in ("type", "role"):
        if name in row:
            patterns[name] = re.compile("|".join(words(row[name])))

    def matches(event: Event) -> bool:
        keys = _keys(event)
        if not has <= keys or not lacks.isdisjoint(keys):
            return False
        if some and some.isdisjoint(keys):
            return False
        if only and not keys <= only:
            return False
        return all(
            pattern.fullmatch(str(event.get(name)))
            for name, pattern in patterns.items()
        )

    return matches


def _keys(event: Event) -> set[str]:
    keys = set(event)
    for name in _INNER:
        inner = event.get(name)
        if is_object(inner):
            keys.update(f"{name}.{key}" for key in inner)
    return keys


_TABLE = Path(__file__).with_name("events.toml")
_ROWS = tomllib.loads(_TABLE.read_text("utf-8"))
KINDS = {name: _kind(**row) for name, row in _ROWS.items()}
"""Every kind of events by its name; the first that fits is taken."""
KINDS["langchain"] = replace(KINDS["langchain"], matches=is_langchain)


def conversation_id(event: Event) -> str | None:
    """Return the id of the conversation that a message names; None if it names none."""
    return _first_id(event, _CONVERSATIONS)


def trace_id(span: Event) -> str | None:
    """Return the id of the trace that a span names; None if it names none."""
    context = span.get("context")
    inner = context if is_object(context) else {}
    return _first_id(span, _TRACES) or _first_id(inner, _TRACES)


def _first_id(event: Event, names: Names) -> str | None:
    identity = first_stated(event, names)
    return str(identity) if isinstance(identity, str | int) else None


def is_span(event: Event) -> bool:
    """Return whether it is a span, with its trace and its own id, or an object of many (OTLP, APIs)."""
    if spans_in(event):
        return True
    if (
        trace_id(event) is None
        or event.get("observations")
        or event.get("child_runs")
    ):
        return False  # it holds its trace
    return KINDS["span"].matches(event)


def spans_in(event: Event) -> list[Event]:
    """Return the spans in an object of many; [] if it is a span itself."""
    spans: list[Event] = []
    for batch in _listed(event, _BATCHES):
        for scope in _listed(batch, _SCOPES):
            spans += objects(scope.get("spans"))
    spans += _listed(event, _PAGES)
    holders = {"data", "runs", "resourceSpans"}
    single = all(not holders & span.keys() and is_span(span) for span in spans)
    return spans if single else []


def _listed(holder: Event, names: Names) -> list[dict[str, Any]]:
    """Return the objects of the first of these members, if it is a list; else []."""
    return objects(first(holder[name] for name in names if name in holder))


def spans_apart(raw: bytes) -> list[bytes]:
    """Return the JSON of each span in an object; the object itself if it holds none, or cannot be read."""
    try:
        return [*map(dump, spans_in(parse(raw)))] or [raw]
    except (UnreadableError, RecursionError):
        return [raw]


Raw = bytes | int
"""The bytes of an event or a record; of one that is larger than the bound, only its size."""

_SAMPLE = 20
"""First records that show if they are events."""
_UNREADABLE = {
    "messages": ("role", "content"),
    "conversations": ("from", "value"),
}
"""Members of a message that is made of a line which cannot be read: the speaker, and the text."""


@value
class Gathering:
    """The way in which events become records, in a list `member` of each.

    `key` returns the rollout of an event; None: the file is one rollout. `key_name` is the member of the record with
    that key.
    """

    member: str
    key: Callable[[Event], str | None] | None = None
    key_name: str = ""


def _gathering(events: Sequence[Event]) -> Gathering | None:
    """Return how first events are gathered; None if they are records, or of no known kind."""
    if not events or any(RECORD_MEMBERS & event.keys() for event in events):
        return None
    for kind in KINDS.values():
        if kind.conversations:
            named = [
                event for event in events if conversation_id(event) is not None
            ]
            fitting = [*filter(kind.matches, named)]
            if 2 * len(fitting) >= len(events):
                return Gathering(
                    kind.member, conversation_id, "conversation_id"
                )
        if not kind.member:
            continue
        if all(map(kind.matches, events)) or (
            kind.most and kind.is_made_of(events)
        ):
            return Gathering(kind.member)
    if all(map(is_span, events)):
        return Gathering("spans", trace_id, "trace_id")
    return None


def may_be_event(raw: bytes) -> bool:
    """Return whether a first record could be an event."""
    event = _event(raw)
    return event is not None and _gathering([event]) is not None


def assemble_rollouts(
    container: Container, file: str, stack: ExitStack
) -> Container:
    """Return a container of events as one of rollouts; any other container as it is.

    `file` is the file's name for the record, relative to INPUT; empty if it has none.
    """
    lines = list[bytes]()
    with suppress(UsageError):  # a reader of the records raises it again
        lines += (line.raw for line in islice(container.records(), _SAMPLE))
    events = [event for event in map(_event, lines) if event is not None]
    if any(map(_list_member, lines)):
        return container if events else MessageLists(container)
    gathering = _gathering(events)
    if gathering is None:
        return container
    return AssembledRollouts(container, gathering, file, stack)


def _event(raw: bytes) -> Event | None:
    try:
        return parse(raw, exact=False)
    except UnreadableError:
        return None


def _list_member(raw: bytes) -> str | None:
    """Return the member for a record that is a list of messages; None if it is anything else."""
    if raw.lstrip()[:1] != b"[":
        return None
    try:
        messages = parse_value(raw)
    except (UnreadableError, RecursionError):
        return None
    if not is_list(messages) or not all(map(is_object, messages)):
        return None
    gathering = _gathering(messages[:_SAMPLE])
    if gathering is None or gathering.member not in _UNREADABLE:
        return None
    return gathering.member


class MessageLists(Container):
    """Records that are lists of messages; any other record stays as it is, to be reported."""

    def __init__(self, source: Container) -> None:
        super().__init__(source.name, source.most)
        self.unit = source.unit
        self._source = source

    def records(self) -> Iterator[Line]:
        """Yield an object for every list."""
        for line in self._source.records():
            member = None if line.skipped else _list_member(line.raw)
            raw = (
                line.raw
                if member is None
                else b"{%s: %s}" % (dump(member), line.raw)
            )
            yield replace(line, raw=raw)


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
        self._gathering = gathering
        self._stack = stack
        folder = "/".join(PurePath(file).parts[:-1])
        place = {"file": file, "folder": folder}
        self._head = {name: dump(text) for name, text in place.items() if text}

    @cached_property
    def _events(self) -> sqlite3.Connection:
        """All events in a temporary database; one without a key, which is a number then, is a rollout by itself."""
        db = temporary_database(_SCHEMA, cache=2000)
        self._stack.callback(db.close)
        is_trace = self._gathering.key is trace_id
        with temporary():
            for line in self._source.records():
                events: Sequence[Raw] = [line.skipped or line.raw]
                if is_trace:
                    events = spans_apart(line.raw)
                for event in events:
                    db.execute(_ADD, self._keyed(event))
            db.execute("UPDATE event SET key = id WHERE key IS NULL")
            db.execute("CREATE INDEX by_rollout ON event (key, id)")
        return db

    def _keyed(self, raw: Raw) -> tuple[bytes | None, Raw]:
        """Return the key of an event, as JSON, and what is kept of it."""
        event = None if isinstance(raw, int) else _event(raw)
        if self._gathering.key is not None:
            key = None if event is None else self._gathering.key(event)
            return None if key is None else dump(key), raw
        if isinstance(raw, int) or event is not None:
            return b"", raw
        text = raw.decode("utf-8", "replace")
        names = _UNREADABLE.get(self._gathering.member)
        if names is None:
            return b"", dump(text)
        speaker, content = names
        return b"", dump({speaker: "unreadable", content: text})

    def records(self) -> Iterator[Line]:
        """Yield every record."""
        rollouts = self._events.execute(_ROLLOUTS)
        for number, (key,) in enumerate(rollouts, 1):
            events = self._events.execute(_EVENTS, (key,))
            yield self._record(number, key, (raw for (raw,) in events))

    def _record(
        self, number: int, key: bytes | int, events: Iterator[Raw]
    ) -> Line:
        """Make one record of the bytes of its events; it is not held if it is larger than the bound."""
        parts = list[bytes]()
        size = 0
        for event in events:
            size += event if isinstance(event, int) else len(event)
            if isinstance(event, int) or size > self.most:
                return self.line(number, 0, b"{", size)
            parts.append(event)
        if isinstance(key, int):
            return self.line(number, 0, parts[0])
        members = {self._gathering.key_name: key} if key else {}
        members |= self._head
        members[self._gathering.member] = b"[%s]" % b", ".join(parts)
        return self.line(number, 0, b"{%s}" % encode_members(members))


_SCHEMA = "CREATE TABLE event (id INTEGER PRIMARY KEY, key BLOB, raw BLOB)"
_ADD = "INSERT INTO event (key, raw) VALUES (?, ?)"
_ROLLOUTS = "SELECT key FROM event GROUP BY key ORDER BY min(id)"
_EVENTS = "SELECT raw FROM event WHERE key = ? ORDER BY id"

EVENTS = Events(may_be_event, assemble_rollouts)


def open_records(
    name: str, stack: ExitStack, file: str | None = None, **more: Any
) -> Container:
    """Open INPUT as `open_container` does, with events gathered into records."""
    return open_container(name, stack, file, events=EVENTS, **more)
