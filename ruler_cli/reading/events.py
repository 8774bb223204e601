"""Files whose lines or items are the events of a rollout → records, one a rollout.

A conversation may be a file of messages, or a line that is a list of them; an agent's session is a file
of events; a trace is all spans of one id, wherever they stand in the file. The record is made of the
events' own bytes: `{"file": …, "folder": …, "events": [event, …]}`, `{"trace_id": …, "spans": […]}`,
`{"messages": LINE}`. An event that is no JSON object is kept as text, so that a torn last line does not
take the others along. Such an INPUT is not written again in its own shape.
"""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.reading import event_kinds as kinds
from ruler_cli.reading.container import Container
from ruler_cli.reading.parse import dump, parse, parse_text
from ruler_cli.reading.scratch import placed, room, tables
from ruler_cli.types import Line

Event = Mapping[str, Any]

_SAMPLE = 20
"""First records that tell if they are events."""
_RECORD = frozenset(
    ("messages", "messages_and_choices", "trajectories", "trajectory", "conversations", "prompt",
     "completion", "completions", "response", "responses", "chosen", "rejected", "ruler")
)  # fmt: skip
"""Members of a record of its own: what has one is no event, whatever else it has."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Events of one kind: how each is known, and what is made of them.

    `member` is the name of their list in the record. `key` names the rollout of an event, None: the file
    is the rollout; it stands in the record as `named`. `most`: events of further kinds may be among them.
    `parts` are the events of one that holds several, of several rollouts.
    """

    matches: Callable[[Event], bool]
    member: str
    key: Callable[[Event], str | None] | None = None
    named: str = ""
    most: bool = False
    parts: Callable[[bytes], list[bytes]] = lambda raw: [raw]


def _messages(matches: Callable[[Event], bool], member: str = "messages") -> tuple[Rule, Rule]:
    """Messages that name their conversations, of which a file may hold many: a few may name none; others."""
    named = Rule(
        lambda event: kinds.conversation_id(event) is not None and matches(event),
        member,
        key=kinds.conversation_id,
        named="conversation_id",
        most=True,
    )
    return named, Rule(matches, member)


RULES = (
    *_messages(kinds.is_message),
    *_messages(kinds.is_spoken, "conversations"),
    *(
        Rule(matches, "events", most=True)
        for matches in (kinds.is_claude, kinds.is_codex, kinds.is_gemini, kinds.is_pi)
    ),
    Rule(kinds.is_exported, "messages"),
    Rule(kinds.is_openhands, "events"),
    *_messages(kinds.is_autogen),
    *_messages(kinds.is_langchain),
    Rule(kinds.is_span, "spans", key=kinds.trace_id, named="trace_id", parts=kinds.spans_apart),
)
"""Every kind of events; the first rule that fits is taken."""


def may_be_event(raw: bytes) -> bool:
    """Tell if a first record could be an event."""
    event = _event(raw)
    return event is not None and _rule([event]) is not None


def gathered(found: Container, file: str, stack: ExitStack) -> Container:
    """A container of events as one of rollouts; any other as it is.

    `file` is what the record says of where it stood: a name relative to INPUT, empty where it has none.
    """
    first: list[Event] = []
    lists = 0
    try:
        for number, line in enumerate(found.records(), 1):
            event = _event(line.raw)
            lists += event is None and _list_of(line.raw) is not None
            first += [] if event is None else [event]
            if number == _SAMPLE or (number == 1 and not lists and _rule(first) is None and first):
                break
    except UsageError:
        pass  # it is damaged, which whoever reads it is told
    if lists and not first:
        return Gathered(found.name, found.unit, partial(_lists, found))
    rule = None if lists else _rule(first)
    if rule is None:
        return found
    made = (
        partial(_whole, found, rule, file)
        if rule.key is None
        else _Scattered(found, rule, file, stack).records
    )
    return Gathered(found.name, "rollout", made)


def _rule(first: list[Event]) -> Rule | None:
    """The rule that first events follow; None where they are records, or nothing that is known."""
    if not first or any(_RECORD & event.keys() for event in first):
        return None
    for rule in RULES:
        fit = sum(map(rule.matches, first))
        if fit == len(first) or (rule.most and 2 * fit >= len(first)):
            return rule
    return None


def _event(raw: bytes) -> dict[str, Any] | None:
    try:
        return parse(raw, exact=False)
    except UnreadableError:
        return None


def _list_of(raw: bytes) -> str | None:
    """The member for a record that is a list of messages; None where it is anything else."""
    if raw.lstrip()[:1] != b"[":
        return None
    try:
        found = parse_text(raw.decode("utf-8", "surrogatepass"))
    except (UnreadableError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        return None
    rule = _rule(found[:_SAMPLE])
    return rule.member if rule is not None and rule.member in ("messages", "conversations") else None


class Gathered(Container):
    """Records that are made of other records; they have no place in a file of their own."""

    rewritable = False

    def __init__(self, name: str, unit: str, made: Callable[[], Iterator[Line]]) -> None:
        """`made` yields the records, anew each time."""
        super().__init__(name)
        self.unit, self._made = unit, made

    def records(self) -> Iterator[Line]:
        """Every record, as if they stood one after another."""
        return placed(self._made())


def _lists(inner: Container) -> Iterator[Line]:
    """Every list as the messages of a record; anything else as it is, to be told."""
    for line in inner.records():
        member = _list_of(line.raw)
        raw = line.raw if member is None else b'{"%s": %s}' % (member.encode(), line.raw)
        yield Line(line.number, 0, raw, line.place)


def _whole(inner: Container, rule: Rule, file: str) -> Iterator[Line]:
    """The one record of a file that is one rollout."""
    raws = (line.raw for line in inner.records())
    events = (raw if _event(raw) is not None else _unreadable(raw, rule.member) for raw in raws)
    yield Line(1, 0, _record(_told(file), rule.member, events), "rollout 1")


class _Scattered:
    """A file of events of many rollouts, in the order in which these begin; a text is a record of its own.

    All events are kept in a temporary file of SQLite.
    """

    def __init__(self, inner: Container, rule: Rule, file: str, stack: ExitStack) -> None:
        """`stack` holds the temporary file."""
        self._inner, self._rule, self._file, self._stack = inner, rule, file, stack
        self._db: sqlite3.Connection | None = None

    def records(self) -> Iterator[Line]:
        """Every rollout; the first pass finds them."""
        db = self._db = self._db or self._found()
        for number, key in db.execute("SELECT number, key FROM rollout ORDER BY number"):
            found = db.execute("SELECT raw FROM event WHERE rollout = ? ORDER BY id", (number,))
            events = (raw for (raw,) in found)
            if key is None:
                raw = next(events)
            else:
                head = {self._rule.named: key.decode("utf-8", "surrogatepass")} | _told(self._file)
                raw = _record(head, self._rule.member, events)
            yield Line(number, 0, raw, f"rollout {number}")

    def _found(self) -> sqlite3.Connection:
        db = tables(*_TABLES, cache=2000)
        self._stack.callback(db.close)
        with room():
            for line in self._inner.records():
                for raw in self._rule.parts(line.raw):
                    db.execute(_NOTE, (self._number(db, raw), raw))
            db.execute("CREATE INDEX by_rollout ON event (rollout, id)")
        return db

    def _number(self, db: sqlite3.Connection, raw: bytes) -> int:
        """The rollout of an event; one that names none, or is no record, is one of its own."""
        event = _event(raw)
        key = self._rule.key(event) if event is not None and self._rule.key is not None else None
        told = None if key is None else key.encode("utf-8", "surrogatepass")
        known = db.execute("SELECT number FROM rollout WHERE key = ?", (told,)).fetchone()
        return int(known[0] if known else db.execute(_BEGIN, (told,)).lastrowid or 0)


_TABLES = (
    "CREATE TABLE rollout (number INTEGER PRIMARY KEY, key BLOB UNIQUE)",
    "CREATE TABLE event (id INTEGER PRIMARY KEY, rollout INT, raw BLOB)",
)
_BEGIN = "INSERT INTO rollout (key) VALUES (?)"
_NOTE = "INSERT INTO event (rollout, raw) VALUES (?, ?)"


def _told(file: str) -> dict[str, str]:
    """The fields that say where a record stood."""
    folder = str(PurePath(file).parent)
    return {} if not file else {"file": file} if folder == "." else {"file": file, "folder": folder}


def _record(head: Mapping[str, str], member: str, events: Iterator[bytes]) -> bytes:
    """One record; its events are copied once, as a rollout may be large."""
    out = io.BytesIO()
    out.write(b"{")
    for name, value in head.items():
        out.write(b"%s: %s, " % (dump(name), dump(value)))
    out.write(b"%s: [" % dump(member))
    for number, event in enumerate(events):
        out.write(b", " if number else b"")
        out.write(event)
    out.write(b"]}")
    return out.getvalue()


def _unreadable(raw: bytes, member: str) -> bytes:
    """A line that is no JSON object, e.g. a torn one, as text: among messages, as one of its own role."""
    text = raw.decode("utf-8", "replace")
    named = {"messages": ("role", "content"), "conversations": ("from", "value")}.get(member)
    return dump(text if named is None else {named[0]: "unreadable", named[1]: text})
