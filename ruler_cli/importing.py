"""Rows of reply files → a ledger: whatever answered the requests, in any order, as often as it comes.

An answer beats a failure wherever the two stand, and of two answers to one request the one that is
there already stays: so a file may be taken twice, and several at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterable, Callable, Container, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, Self

import anyio
import anyio.to_thread

from ruler_cli.judges.faults import clean
from ruler_cli.judges.rows import Row, read_row
from ruler_cli.ledger import Ledger
from ruler_cli.records import Fault, Reply

Fate = Literal["answer", "failed", "again"]
"""What a request came to: it has an answer, it failed for good, it is to be asked again."""

_KEY = re.compile(r"[0-9a-fA-F]{32}")
_ROWS, _BYTES = 2000, 8 << 20
"""Rows, or bytes of them, that are put on record together."""
_NAMED = 20
"""How many rows that are none are named one by one."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A row that is none, or not ours: its line, half a sentence, and how a sentence names its place."""

    number: int
    reason: str
    where: str


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
    def whole(self) -> bool:
        """Whether every row is an answer that the ledger holds, or was beside one."""
        return not (self.failed or self.again or self.foreign or self.unreadable)


async def take_in_stream(lines: AsyncIterable[bytes], importer: Importer) -> Imported:
    """Take lines that come over a network; the ledger is written in a thread."""
    number = 0
    try:
        async for line in lines:
            number += 1
            if importer.add(line, number):
                await anyio.to_thread.run_sync(importer.flush)
    finally:
        with anyio.CancelScope(shield=True):  # what came is paid for
            await anyio.to_thread.run_sync(importer.flush)
    return importer.result


class Importer:
    """Takes rows one by one; on record is what was flushed, as at the end of the context."""

    def __init__(
        self,
        ledger: Ledger,
        model: str | None = None,
        keys: Container[bytes] | None = None,
        on_key: Callable[[bytes, Fate], None] | None = None,
    ) -> None:
        """`model` is what the ledger calls the model; without it the name that each reply gives.

        With `keys` every other request is a foreign one. `on_key` gets the fate of a row's request once it
        is on record, in the thread that flushes; a better one may follow, never a worse.
        """
        self._ledger, self._model, self._keys, self._on_key = ledger, model, keys, on_key
        self._waiting: list[tuple[bytes, int, str]] = []
        self._bytes = 0
        self._counts: Counter[str] = Counter()
        self._odd: list[Unread] = []
        self._said: dict[str, str] = {}
        self._open: dict[bytes, tuple[bool, str]] = {}
        """Requests without an answer: whether each failed for good, and its kind or reason."""

    def add(self, line: bytes, number: int, where: str = "") -> bool:
        """Take a row, unless the line is blank, without writing; whether it is time to `flush`."""
        line = line.strip()
        if line:
            self._waiting.append((line, number, where or f"line {number}"))
            self._bytes += len(line)
        return len(self._waiting) >= _ROWS or self._bytes >= _BYTES

    def refuse(self, number: int, reason: str, where: str, count: str = "unreadable") -> None:
        """Count what is no row, or none of ours, and name it if it is among the first."""
        self._counts[count] += 1
        if len(self._odd) < _NAMED:
            self._odd.append(Unread(number, reason, where))

    def flush(self) -> None:
        """Put on record what was taken; OutputError where the ledger cannot be written."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        rows = [found for one in waiting if (found := self._read(*one)) is not None]
        # neighbours share a page of the ledger's index; two rows of one request keep their order
        rows.sort(key=itemgetter(0))
        kept = [(key, self._model or row.model or "unknown", row.answer) for key, row in rows if _lasts(row)]
        held = iter(self._ledger.keep_all(kept) if kept else ())
        for key, row in rows:
            fate = self._settled(key, row, next(held) if _lasts(row) else self._ledger.status(key))
            if self._on_key is not None:
                self._on_key(key, fate)

    @property
    def result(self) -> Imported:
        """What has come of the rows that were flushed."""
        found = sorted(Counter(self._open.values()).items(), key=lambda one: (-one[1], one[0][1]))
        counts = self._counts
        return Imported(
            counts["rows"],
            counts["new"],
            counts["known"],
            {label: number for (failed, label), number in found if failed},
            {label: number for (failed, label), number in found if not failed},
            counts["foreign"],
            counts["unreadable"],
            tuple(self._odd),
            dict(self._said),
        )

    def __enter__(self) -> Self:
        """The importer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Put the rest on record, also where reading failed."""
        self.flush()

    def _read(self, line: bytes, number: int, where: str) -> tuple[bytes, Row] | None:
        """A row and its key; None where it is none of ours."""
        self._counts["rows"] += 1
        row = read_row(line)
        if isinstance(row, str):
            self.refuse(number, row, where)
            return None
        reason = f"has the custom_id {clean(row.custom_id[:64])!r}, which is none of ours"
        if _KEY.fullmatch(row.custom_id):
            key = bytes.fromhex(row.custom_id)
            if self._keys is None or key in self._keys:
                return key, row
            reason = f"has the custom_id {row.custom_id}, which was not asked for"
        self.refuse(number, reason, where, "foreign")
        return None

    def _settled(self, key: bytes, row: Row, before: str | None) -> Fate:
        """Count a row whose request had this status before it; what the request has come to."""
        answered = before in ("answer", "truncated", "refusal")
        if isinstance(row.answer, Reply):
            self._counts["known" if answered else "new"] += 1
        if isinstance(row.answer, Reply) or answered:
            self._open.pop(key, None)
            return "answer"
        failed = before == "fault" or row.answer.scope == "group"
        label: str = row.answer.kind if row.answer.scope == "group" else "before" if failed else row.label
        if label != "before":
            self._said.setdefault(label, row.answer.reason)
        self._open[key] = max((failed, label), self._open.get(key, (False, "")))
        return "failed" if failed else "again"


def _lasts(row: Row) -> bool:
    """Whether an answer is kept: what only says that the request is to be asked again is not."""
    answer = row.answer
    return (
        not isinstance(answer, Fault)
        or answer.scope == "group"
        or (answer.scope == "call" and bool(answer.body))
    )
