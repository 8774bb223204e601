"""Rows of reply files → a ledger: whatever answered the requests, in any order, as often as it comes.

An answer beats a failure wherever the two stand, and of two answers to one request the one that is
there already stays: so a file may be taken twice, and several at once.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterable, Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from types import TracebackType
from typing import Literal, Self

import anyio
import anyio.to_thread

from ruler_cli.errors import OutputError
from ruler_cli.judges.faults import clean
from ruler_cli.judges.rows import Odd, Row, read_row
from ruler_cli.ledger import Ledger
from ruler_cli.records import Fault, Reply

Fate = Literal["answer", "failed", "again"]
"""What a request came to: it has an answer, it failed for good, it is to be asked again."""

_KEY = re.compile(r"[0-9a-fA-F]{32}")
_ROWS, _BYTES = 2000, 8 << 20
"""Rows, or bytes of them, that are put on record together."""
_NAMED = 20
"""How many rows that are none are named one by one."""
_OPEN = "CREATE TABLE open (key BLOB PRIMARY KEY, failed INT, label TEXT) WITHOUT ROWID"
_FAILED = (
    "INSERT INTO open VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET failed = excluded.failed, "
    "label = excluded.label WHERE (excluded.failed, excluded.label) > (failed, label)"
)


@dataclass(frozen=True, slots=True)
class Unread:
    """A row that is none, or not ours: where it stands, and half a sentence.

    `place` is how a sentence names it where it is not simply `line NUMBER`.
    """

    number: int
    reason: str
    place: str = ""

    @property
    def where(self) -> str:
        """How a sentence names it."""
        return self.place or f"line {self.number}"


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of so many `rows`.

    `new` answers were added, `known` are rows whose request had one. `failed` (by kind) and `again` (by
    reason) count requests, each once, that have no answer after it all: those failed for good, these are
    to be asked again. `foreign` rows have a custom_id that is none of ours, `unreadable` ones are no
    replies at all; `odd` names the first of both. `said` holds a sentence for a kind or a reason, the first
    that came.
    """

    rows: int = 0
    new: int = 0
    known: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    again: Mapping[str, int] = field(default_factory=dict)
    foreign: int = 0
    unreadable: int = 0
    odd: tuple[Unread, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def failed_for_good(self) -> int:
        """How many requests failed for good."""
        return sum(self.failed.values())

    @property
    def to_ask(self) -> int:
        """How many requests are to be asked again."""
        return sum(self.again.values())

    @property
    def whole(self) -> bool:
        """Whether every row is an answer that the ledger holds, or was beside one."""
        return not (self.failed or self.again or self.foreign or self.unreadable)


def take_in(lines: Iterable[bytes], ledger: Ledger, model: str | None = None) -> Imported:
    """Put every row of a reply file on record, in flat memory; what was read is, also where reading fails.

    `model` is what the ledger calls the model; without it the name that each reply gives. OutputError
    where the ledger cannot be written.
    """
    with Importer(ledger, model) as importer:
        try:
            for number, line in enumerate(lines, 1):
                importer.add(line, number)
        finally:
            importer.flush()
        return importer.result


async def take_in_stream(lines: AsyncIterable[bytes], importer: Importer) -> Imported:
    """`take_in` of lines that come over a network; the ledger is written in a thread."""
    number = 0
    try:
        async for line in lines:
            number += 1
            importer.put(line, number)
            if importer.full:
                await anyio.to_thread.run_sync(importer.flush)
    finally:
        with anyio.CancelScope(shield=True):  # what came is paid for
            await anyio.to_thread.run_sync(importer.flush)
    return importer.result


class Importer:
    """Takes rows one by one; on record is what was flushed. A context: it keeps a temporary file."""

    def __init__(
        self,
        ledger: Ledger,
        model: str | None = None,
        keys: Container[bytes] | None = None,
        on_key: Callable[[bytes, Fate], None] | None = None,
    ) -> None:
        """With `keys` every other request is a foreign one.

        `on_key` is told the fate of a row's request once it is on record, in the thread that flushes; a
        better one may follow, never a worse.
        """
        self._ledger, self._model, self._keys, self._on_key = ledger, model, keys, on_key
        self._waiting: list[tuple[bytes, int, str]] = []
        self._bytes = 0
        self._any_open = False
        self._rows = self._new = self._known = self._foreign = self._unreadable = 0
        self._odd: list[Unread] = []
        self._said: dict[str, str] = {}
        # of requests without an answer there may be as many as rows: they stand on disk
        self._open = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _OPEN):
            self._open.execute(statement).fetchall()

    @property
    def full(self) -> bool:
        """Whether it is time to `flush`."""
        return len(self._waiting) >= _ROWS or self._bytes >= _BYTES

    def add(self, line: bytes, number: int, place: str = "") -> None:
        """Take a row and put it on record, together with others; blank lines are none."""
        self.put(line, number, place)
        if self.full:
            self.flush()

    def put(self, line: bytes, number: int, place: str = "") -> None:
        """Take a row, without writing; `flush` when it is `full`."""
        line = line.strip()
        if line:
            self._waiting.append((line, number, place))
            self._bytes += len(line)

    def refuse(self, number: int, reason: str, place: str = "") -> None:
        """Count what could not be read as a row at all."""
        self._unreadable += 1
        self._name(number, reason, place)

    def flush(self) -> None:
        """Put on record what was taken; OutputError where the ledger cannot be written."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        rows = [found for one in waiting if (found := self._read(*one)) is not None]
        # neighbours share a page of the ledger's index; two rows of one request keep their order
        rows.sort(key=itemgetter(0))
        kept = [(key, self._model or row.model or "unknown", row.answer) for key, row in rows if _lasts(row)]
        held = iter(self._ledger.keep_all(kept) if kept else ())
        fates = []
        try:
            for key, row in rows:
                before = next(held) if _lasts(row) else self._ledger.status(key)
                fates.append((key, self._settled(key, row, before)))
        except sqlite3.Error as error:
            way = "make room, or name another directory for what waits on disk with TMPDIR"
            raise OutputError(f"what is to be asked again cannot be counted: {error}; {way}") from None
        if self._on_key is not None:
            for key, fate in fates:
                self._on_key(key, fate)

    @property
    def result(self) -> Imported:
        """What has come of the rows that were flushed."""
        counted = (
            "SELECT failed, label, count(*) FROM open GROUP BY failed, label ORDER BY count(*) DESC, label"
        )
        found = self._open.execute(counted).fetchall()
        return Imported(
            self._rows,
            self._new,
            self._known,
            {label: number for failed, label, number in found if failed},
            {label: number for failed, label, number in found if not failed},
            self._foreign,
            self._unreadable,
            tuple(self._odd),
            dict(self._said),
        )

    def close(self) -> None:
        """Give the temporary file back."""
        self._open.close()

    def __enter__(self) -> Self:
        """The importer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _read(self, line: bytes, number: int, place: str) -> tuple[bytes, Row] | None:
        """A row and its key; None where it is none of ours."""
        self._rows += 1
        row = read_row(line)
        if isinstance(row, Odd):
            self._unreadable += 1
            self._name(number, row.reason, place)
            return None
        if _KEY.fullmatch(row.custom_id):
            key = bytes.fromhex(row.custom_id)
            if self._keys is None or key in self._keys:
                return key, row
            reason = f"has the custom_id {row.custom_id}, which was not asked for"
        else:
            reason = f"has the custom_id {clean(row.custom_id[:64])!r}, which is none of ours"
        self._foreign += 1
        self._name(number, reason, place)
        return None

    def _name(self, number: int, reason: str, place: str) -> None:
        if len(self._odd) < _NAMED:
            self._odd.append(Unread(number, reason, place))

    def _settled(self, key: bytes, row: Row, before: str | None) -> Fate:
        """Count a row whose request had this status before it; what the request has come to."""
        answered = before in ("answer", "truncated", "refusal")
        if isinstance(row.answer, Reply) or answered:
            if isinstance(row.answer, Reply):
                self._new, self._known = self._new + (not answered), self._known + answered
            if self._any_open:
                self._open.execute("DELETE FROM open WHERE key = ?", (key,))
            return "answer"
        failed = before == "fault" or row.answer.scope == "group"
        label: str = row.answer.kind if row.answer.scope == "group" else "before" if failed else row.label
        if label != "before" and label not in self._said:
            self._said[label] = row.answer.reason
        self._any_open = True
        self._open.execute(_FAILED, (key, failed, label))
        return "failed" if failed else "again"


def _lasts(row: Row) -> bool:
    """Whether an answer is kept: what only says that the request is to be asked again is not."""
    answer = row.answer
    return (
        not isinstance(answer, Fault)
        or answer.scope == "group"
        or (answer.scope == "call" and bool(answer.body))
    )
