"""Files whose lines or items are the events of a rollout → records, one a rollout.

A conversation may be a file of messages, or a line that is a list of them; an agent's session is a file
of events; a trace is all spans with one id, anywhere in the file. The record holds the events' own bytes:
`{"file": …, "folder": …, "events": [event, …]}`, `{"trace_id": …, "spans": […]}`, `{"messages": LINE}`. An
event that is no JSON object, such as a torn last line, becomes text and spoils no other event.

Kinds of events are known by their keys and never by their texts.
"""

from __future__ import annotations

import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
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
from ruler_cli.messages.dialects import is_langchain
from ruler_cli.types import Line, value

Event = Mapping[str, Any]
Matches = Callable[[Event], bool]

_INNER = ("message", "info", "context")
"""Members whose own keys count too, as `message.role`."""
_CONVERSATIONS = (
    "conversation_id conversationId session_id thread_id trajectory_id rollout_id "
    "episode_id run_id chat_id dialog_id dialogue_id"
)
"""Members by which the messages of a table belong together, beside `sessionId`."""
_TRACES = ("trace_id", "traceId", "context.trace_id")
_ROWS = tomllib.loads(Path(__file__).with_name("events.toml").read_text("utf-8"))
TURNS: dict[str, dict[str, str]] = {
    name: row.get("turns", {}) for name, row in _ROWS.items()
}
"""By the name of a kind of events, the turns that its events are, by patterns of their types."""


def _clue(row: Mapping[str, str]) -> Matches:
    """Return a test for events by their keys and the patterns of their type and role."""
    words = (row.get(name, "").split() for name in ("has", "some", "lacks", "only"))
    has, some, lacks, only = map(frozenset, words)
    patterns = {
        name: re.compile("|".join(row[name].split()))
        for name in ("type", "role")
        if name in row
    }

    def matches(event: Event) -> bool:
        keys = _keys(event)
        texts = ((p, str(event.get(name))) for name, p in patterns.items())
        return (
            has <= keys
            and lacks.isdisjoint(keys)
            and (not some or not some.isdisjoint(keys))
            and (not only or keys <= only)
            and all(pattern.fullmatch(text) for pattern, text in texts)
        )

    return matches


def _keys(event: Event) -> set[str]:
    keys = set(event)
    for name in _INNER:
        inner = event.get(name)
        if isinstance(inner, dict):
            keys.update(f"{name}.{key}" for key in inner)
    return keys


def _kind(clues: list[Mapping[str, str]]) -> Matches:
    tests = [*map(_clue, clues)]
    return lambda event: any(test(event) for test in tests)


KINDS = {name: _kind(row["clues"]) for name, row in _ROWS.items()}
"""By the name of a kind of events, the test for one."""


def conversation_id(event: Event) -> str | None:
    """Return the id of the conversation that a message names; None if it names none."""
    return _first_id(event, (*_CONVERSATIONS.split(), "sessionId"))


def trace_id(span: Event) -> str | None:
    """Return the id of the trace that a span names; None if it names none."""
    context = span.get("context")
    inner = context if isinstance(context, dict) else {}
    return _first_id(span, _TRACES) or _first_id(inner, _TRACES)


def _first_id(event: Event, names: tuple[str, ...]) -> str | None:
    value = next((event[name] for name in names if event.get(name) is not None), None)
    return str(value) if isinstance(value, str | int) else None


def is_span(event: Event) -> bool:
    """Tell if it is a span, with its trace and its own id, or an object of many (OTLP, APIs)."""
    if spans_in(event):
        return True
    if trace_id(event) is None or event.get("observations") or event.get("child_runs"):
        return False  # it holds its trace
    return KINDS["span"](event)


def spans_in(event: Event) -> list[Event]:
    """Return the spans in an object of many; [] if it is a span itself."""
    spans: list[Event] = []
    for batch in _listed(event, "resourceSpans", "resource_spans", "batches"):
        for scope in _listed(
            batch, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"
        ):
            spans += _listed(scope, "spans")
    spans += _listed(event, "data", "runs")
    holders = {"data", "runs", "resourceSpans"}
    single = all(not holders & span.keys() and is_span(span) for span in spans)
    return spans if single else []


def spans_apart(raw: bytes) -> list[bytes]:
    """Return the JSON of each span in an object; the object itself if it holds none, or cannot be read."""
    try:
        return [dump(span) for span in spans_in(parse(raw))] or [raw]
    except (UnreadableError, RecursionError):
        return [raw]


def _listed(value: Event, *keys: str) -> list[Event]:
    """Return the objects of the first of these members, if it is a list; else []."""
    listed = next((value[key] for key in keys if key in value), None)
    items = listed if isinstance(listed, list) else []
    return [item for item in items if isinstance(item, dict)]


Raw = bytes | int
"""The bytes of an event or a record; of one that is larger than the bound, only its size."""

_SAMPLE = 20
"""First records that show if they are events."""
_UNREADABLE = {"messages": ("role", "content"), "conversations": ("from", "value")}
"""Members of a message that is made of a line which cannot be read: the speaker, and the text."""


@value
class EventRule:
    """One kind of events, and the record to make of them.

    `member` is the name of their list in the record. `key` returns the rollout of an event; None: the file
    is one rollout. `key_name` is the member of the record with that key. With `most`, up to half of the
    events may be of further kinds.
    """

    matches: Matches
    member: str
    key: Callable[[Event], str | None] | None = None
    key_name: str = ""
    most: bool = False


KINDS["langchain"] = is_langchain


def _rules(matches: Matches, row: Mapping[str, Any]) -> Iterator[EventRule]:
    """Yield the rules of a row: for events that name one of many conversations, and for those of a file."""
    member = row.get("member", "")
    if row.get("conversations"):
        yield EventRule(
            lambda event: conversation_id(event) is not None and matches(event),
            member,
            key=conversation_id,
            key_name="conversation_id",
            most=True,
        )
    if member:
        yield EventRule(matches, member, most=row.get("most", False))


RULES = (
    *(rule for name, row in _ROWS.items() for rule in _rules(KINDS[name], row)),
    EventRule(is_span, "spans", key=trace_id, key_name="trace_id"),
)
"""Every kind of events; the first rule that fits is taken."""


def may_be_event(raw: bytes) -> bool:
    """Tell if a first record could be an event."""
    event = _event(raw)
    return event is not None and _rule([event]) is not None


def assemble_rollouts(container: Container, file: str, stack: ExitStack) -> Container:
    """Return a container of events as one of rollouts; any other container as it is.

    `file` is the file's name for the record, relative to INPUT; empty if it has none.
    """
    lines = list[bytes]()
    with suppress(UsageError):  # a reader of the records raises it again
        lines += (line.raw for line in islice(container.records(), _SAMPLE))
    first = [event for event in map(_event, lines) if event is not None]
    if any(map(_list_member, lines)):
        return container if first else MessageLists(container)
    rule = _rule(first)
    if rule is None:
        return container
    return AssembledRollouts(container, rule, file, stack)


def _rule(first: list[Event]) -> EventRule | None:
    """Return the rule that first events follow; None if they are records, or of no known kind."""
    if not first or any(RECORD_MEMBERS & event.keys() for event in first):
        return None
    for rule in RULES:
        fitting = sum(map(rule.matches, first))
        if fitting == len(first) or (rule.most and 2 * fitting >= len(first)):
            return rule
    return None


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
        items = parse_value(raw)
    except (UnreadableError, RecursionError):
        return None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return None
    rule = _rule(items[:_SAMPLE])
    return rule.member if rule is not None and rule.member in _UNREADABLE else None


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
            raw = line.raw if member is None else b"{%s: %s}" % (dump(member), line.raw)
            yield replace(line, raw=raw)


class AssembledRollouts(Container):
    """Rollouts that are made of events, in the order of their first events."""

    unit = "rollout"

    def __init__(
        self, source: Container, rule: EventRule, file: str, stack: ExitStack
    ) -> None:
        super().__init__(source.name, source.most)
        self._source = source
        self._rule = rule
        self._stack = stack
        folder = "/".join(PurePath(file).parts[:-1])
        named = {"file": file, "folder": folder}
        self._head = {name: dump(text) for name, text in named.items() if text}

    @cached_property
    def _events(self) -> sqlite3.Connection:
        """All events in a temporary database; one without a key, which is a number then, is a rollout by itself."""
        db = temporary_database(_TABLE, cache=2000)
        self._stack.callback(db.close)
        is_trace = self._rule.key is trace_id
        with temporary():
            for line in self._source.records():
                raw: Raw = line.skipped or line.raw
                for each in spans_apart(line.raw) if is_trace else [raw]:
                    db.execute(_ADD, self._keyed(each))
            db.execute("UPDATE event SET key = id WHERE key IS NULL")
            db.execute("CREATE INDEX by_rollout ON event (key, id)")
        return db

    def _keyed(self, raw: Raw) -> tuple[bytes | None, Raw]:
        """Return the key of an event, as JSON, and what is kept of it."""
        event = None if isinstance(raw, int) else _event(raw)
        rule = self._rule
        if rule.key is not None:
            key = None if event is None else rule.key(event)
            return None if key is None else dump(key), raw
        if isinstance(raw, bytes) and event is None:
            text: object = raw.decode("utf-8", "replace")
            if rule.member in _UNREADABLE:
                speaker, content = _UNREADABLE[rule.member]
                text = {speaker: "unreadable", content: text}
            raw = dump(text)
        return b"", raw

    def records(self) -> Iterator[Line]:
        """Yield every record."""
        rollouts = self._events.execute(_ROLLOUTS)
        for number, (key,) in enumerate(rollouts, 1):
            events = self._events.execute(_EVENTS, (key,))
            yield self._record(number, key, (raw for (raw,) in events))

    def _record(self, number: int, key: bytes | int, events: Iterator[Raw]) -> Line:
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
        named = {self._rule.key_name: key} if key else {}
        listed = {self._rule.member: b"[%s]" % b", ".join(parts)}
        members = encode_members({**named, **self._head, **listed})
        return self.line(number, 0, b"{%s}" % members)


_TABLE = "CREATE TABLE event (id INTEGER PRIMARY KEY, key BLOB, raw BLOB)"
_ADD = "INSERT INTO event (key, raw) VALUES (?, ?)"
_ROLLOUTS = "SELECT key FROM event GROUP BY key ORDER BY min(id)"
_EVENTS = "SELECT raw FROM event WHERE key = ? ORDER BY id"

EVENTS = Events(may_be_event, assemble_rollouts)


def open_records(
    name: str, stack: ExitStack, file: str | None = None, **more: Any
) -> Container:
    """Open INPUT as `open_container` does, with events gathered into records."""
    return open_container(name, stack, file, events=EVENTS, **more)
