"""Files whose lines or items are the events of a rollout → records, one a rollout.

A conversation may be a file of messages, or a line that is a list of them; an agent's session is a file
of events; a trace is all spans with one id, anywhere in the file. The record holds the events' own bytes:
`{"file": …, "folder": …, "events": [event, …]}`, `{"trace_id": …, "spans": […]}`, `{"messages": LINE}`. An
event that is no JSON object, such as a torn last line, becomes text and spoils no other event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import PurePath
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files import event_kinds as kinds
from ruler_cli.files.container import Container
from ruler_cli.files.event_kinds import Event
from ruler_cli.files.parse import dump, parse, parse_value
from ruler_cli.files.scratch import temporary, temporary_database
from ruler_cli.types import Line

Raw = bytes | int
"""The bytes of an event or a record; of one that is larger than the bound, only its size."""

_SAMPLE = 20
"""First records that show if they are events."""
_RECORD_MEMBERS = frozenset(
    ("messages", "messages_and_choices", "trajectories", "trajectory", "conversations", "prompt",
     "completion", "completions", "response", "responses", "chosen", "rejected", "ruler")
)  # fmt: skip
"""Members that make an object a record, and no event, whatever else it holds."""
_UNREADABLE = {"messages": ("role", "content"), "conversations": ("from", "value")}
"""Members of a message that is made of a line which cannot be read: the speaker, and the text."""


@dataclass(frozen=True, slots=True)
class EventRule:
    """One kind of events, and the record to make of them.

    `member` is the name of their list in the record. `key` returns the rollout of an event; None: the file
    is one rollout. `key_name` is the member of the record with that key. With `most`, up to half of the
    events may be of further kinds. `split` returns the events of a line that holds several.
    """

    matches: kinds.Matches
    member: str
    key: Callable[[Event], str | None] | None = None
    key_name: str = ""
    most: bool = False
    split: Callable[[bytes], list[bytes]] = lambda raw: [raw]


def _messages(
    matches: kinds.Matches, member: str = "messages"
) -> tuple[EventRule, EventRule]:
    """Make two rules: for messages that name one of many conversations, and for the one of a file."""
    named = EventRule(
        lambda event: kinds.conversation_id(event) is not None and matches(event),
        member,
        key=kinds.conversation_id,
        key_name="conversation_id",
        most=True,
    )
    return named, EventRule(matches, member)


RULES = (
    *_messages(kinds.is_message),
    *_messages(kinds.is_sharegpt, "conversations"),
    EventRule(kinds.is_claude, "events", most=True),
    EventRule(kinds.is_codex, "events", most=True),
    EventRule(kinds.is_gemini, "events", most=True),
    EventRule(kinds.is_pi, "events", most=True),
    EventRule(kinds.is_opencode, "messages"),
    EventRule(kinds.is_openhands, "events"),
    *_messages(kinds.is_autogen),
    *_messages(kinds.is_langchain),
    EventRule(
        kinds.is_span,
        "spans",
        key=kinds.trace_id,
        key_name="trace_id",
        split=kinds.spans_apart,
    ),
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
    first, lists = list[Event](), 0
    with suppress(UsageError):  # a reader of the records raises it again
        for number, line in enumerate(container.records(), 1):
            event = _event(line.raw)
            if event is not None:
                first.append(event)
            elif _list_member(line.raw) is not None:
                lists += 1
            unknown = number == 1 and first and _rule(first) is None
            if unknown or number == _SAMPLE:
                break
    if lists:
        listed = partial(_from_lists, container)
        return container if first else AssembledRollouts(container, "", listed)
    rule = _rule(first)
    if rule is None:
        return container
    if rule.key is None:
        whole = partial(_from_file, container, rule, file)
        return AssembledRollouts(container, "rollout", whole)
    read = cache(partial(_read_keyed, container, rule, stack))
    keyed = partial(_from_keyed, read, rule, file, container.most)
    return AssembledRollouts(container, "rollout", keyed)


def _rule(first: list[Event]) -> EventRule | None:
    """Return the rule that first events follow; None if they are records, or of no known kind."""
    if not first or any(_RECORD_MEMBERS & event.keys() for event in first):
        return None
    for rule in RULES:
        fitting = sum(map(rule.matches, first))
        if fitting == len(first) or (rule.most and 2 * fitting >= len(first)):
            return rule
    return None


def _event(raw: bytes) -> dict[str, Any] | None:
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


class AssembledRollouts(Container):
    """Records that are made of other records; a file cannot hold them in the same shape."""

    def __init__(
        self,
        source: Container,
        unit: str,
        assemble: Callable[[], Iterator[tuple[int, Raw]]],
    ) -> None:
        """`assemble` yields the number and the bytes of each record, again each time."""
        super().__init__(source.name, source.most)
        self.unit, self._assemble = unit or source.unit, assemble

    def records(self) -> Iterator[Line]:
        """Yield every record, with offsets as if they were written one after another."""
        offset = 0
        for number, raw in self._assemble():
            if isinstance(raw, int):
                line = self.skipped(number, offset, raw)
            else:
                line = self.line(number, offset, raw)
            yield line
            offset = line.end


def _from_lists(container: Container) -> Iterator[tuple[int, Raw]]:
    """Yield a record for every list of messages; any other record as it is, to be reported."""
    for line in container.records():
        member = None if line.skipped else _list_member(line.raw)
        if member is None:
            yield line.number, line.skipped or line.raw
        else:
            yield line.number, b'{"%s": %s}' % (member.encode(), line.raw)


def _from_file(
    container: Container, rule: EventRule, file: str
) -> Iterator[tuple[int, Raw]]:
    """Yield the one record of a file that is one rollout."""

    def events() -> Iterator[Raw]:
        for line in container.records():
            if line.skipped:
                yield line.skipped
            elif _event(line.raw) is None:
                yield _unreadable(line.raw, rule.member)
            else:
                yield line.raw

    yield 1, _record(_file_members(file), rule.member, events(), container.most)


def _from_keyed(
    read: Callable[[], sqlite3.Connection], rule: EventRule, file: str, most: int
) -> Iterator[tuple[int, Raw]]:
    """Yield every rollout of a file that holds many, in the order of their first events."""
    db = read()
    for number, key in db.execute("SELECT number, key FROM rollout ORDER BY number"):
        events = (raw for (raw,) in db.execute(_EVENTS, (number,)))
        if key is None:
            yield number, next(events)
        else:
            head = {rule.key_name: key.decode("utf-8", "surrogatepass")}
            yield number, _record(head | _file_members(file), rule.member, events, most)


_TABLES = (
    "CREATE TABLE rollout (number INTEGER PRIMARY KEY, key BLOB UNIQUE)",
    "CREATE TABLE event (id INTEGER PRIMARY KEY, rollout INT, raw BLOB)",
)
_EVENTS = "SELECT raw FROM event WHERE rollout = ? ORDER BY id"
_FIND_ROLLOUT = "SELECT number FROM rollout WHERE key = ?"
_ADD_ROLLOUT = "INSERT INTO rollout (key) VALUES (?)"
_ADD_EVENT = "INSERT INTO event (rollout, raw) VALUES (?, ?)"


def _read_keyed(
    container: Container, rule: EventRule, stack: ExitStack
) -> sqlite3.Connection:
    """Write all events to a temporary database; an event without a key is a rollout of its own."""
    db = temporary_database(*_TABLES, cache=2000)
    stack.callback(db.close)
    with temporary():
        for line in container.records():
            for raw in [line.skipped] if line.skipped else rule.split(line.raw):
                key = (_key(raw, rule),)
                row = db.execute(_FIND_ROLLOUT, key).fetchone()
                rollout = row[0] if row else db.execute(_ADD_ROLLOUT, key).lastrowid
                db.execute(_ADD_EVENT, (rollout, raw))
        db.execute("CREATE INDEX by_rollout ON event (rollout, id)")
    return db


def _key(raw: Raw, rule: EventRule) -> bytes | None:
    """Return the key of an event as bytes: SQLite takes no lone surrogates in text."""
    event = None if isinstance(raw, int) else _event(raw)
    key = None if event is None or rule.key is None else rule.key(event)
    return None if key is None else key.encode("utf-8", "surrogatepass")


def _file_members(file: str) -> dict[str, str]:
    """Return the members of a record that name its file."""
    if not file:
        return {}
    folder = str(PurePath(file).parent)
    return {"file": file} if folder == "." else {"file": file, "folder": folder}


def _record(
    head: Mapping[str, str], member: str, events: Iterator[Raw], most: int
) -> Raw:
    """Make one record of the bytes of its events.

    Return its size if that, or the size of one event, is more than `most` bytes: the least that it has.
    """
    parts, size = list[bytes](), 0
    for event in events:
        if isinstance(event, int):
            return event
        parts.append(event)
        size += len(event)
        if size > most:
            return size
    named = b"".join(b"%s: %s, " % (dump(k), dump(v)) for k, v in head.items())
    return b"{%s%s: [%s]}" % (named, dump(member), b", ".join(parts))


def _unreadable(raw: bytes, member: str) -> bytes:
    """Turn a line that is no JSON object into text, or a message of the speaker `unreadable`."""
    text = raw.decode("utf-8", "replace")
    if member not in _UNREADABLE:
        return dump(text)
    speaker, content = _UNREADABLE[member]
    return dump({speaker: "unreadable", content: text})
