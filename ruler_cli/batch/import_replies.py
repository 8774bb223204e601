"""Rows of reply files → a ledger: whatever answered the requests, in any order, as often as it comes.

An answer beats a failure wherever the two stand, and of two answers to one request the one that is
there already stays: so a file may be taken twice, and several at once.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import AsyncIterable, Callable, Container, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, Self

import anyio
import anyio.to_thread

from ruler_cli.answer import clean
from ruler_cli.batch.reply_rows import BIGGEST, ReplyRow, read_row
from ruler_cli.errors import UsageError
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.reading.compression import PARQUET_MAGIC, capped, decompressed, lines, readable
from ruler_cli.reading.location import Location
from ruler_cli.reading.open import open_container
from ruler_cli.types import Reply

Fate = Literal["answer", "failed", "again"]
"""What a request came to: it has an answer, it failed for good, it is to be asked again."""

_KEY = re.compile(r"[0-9a-fA-F]{32}")
_ROWS, _BYTES = 2000, 8 << 20
"""Rows, or bytes of them, that are put on record together."""
_DATABASE = b"SQLite format 3\0"
_NAMED = 20
"""How many rows that are none are named one by one."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A row that is none, or not ours: its line, half a sentence, and how a sentence names its place."""

    number: int
    reason: str
    where: str


@dataclass(slots=True)
class Imported:
    """What became of so many `rows`.

    `new` answers were added, `known` are rows whose request had one. `foreign` rows have a custom_id that is
    none of ours, `unreadable` ones are no replies at all; `odd` names the first of both. `open` has each
    request that has no answer after it all: whether it failed for good, and its kind or reason. `said` holds
    a sentence for a kind or a reason, the first that came.
    """

    rows: int = 0
    new: int = 0
    known: int = 0
    foreign: int = 0
    unreadable: int = 0
    odd: list[Unread] = field(default_factory=list)
    open: dict[bytes, tuple[bool, str]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def failed(self) -> dict[str, int]:
        """How many requests failed for good, by kind."""
        return self._open(failed=True)

    @property
    def again(self) -> dict[str, int]:
        """How many requests are to be asked again, by reason."""
        return self._open(failed=False)

    @property
    def whole(self) -> bool:
        """Whether every row is an answer that the ledger holds, or was beside one."""
        return not (self.open or self.foreign or self.unreadable)

    def _open(self, *, failed: bool) -> dict[str, int]:
        labels = Counter(sorted(label for for_good, label in self.open.values() if for_good == failed))
        return dict(labels.most_common())


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
        self.result = Imported()
        """What has come of the rows that were flushed."""

    def add(self, line: bytes, number: int, where: str = "") -> bool:
        """Take a row, unless the line is blank, without writing; whether it is time to `flush`."""
        line = line.strip()
        if line:
            self._waiting.append((line, number, where or f"line {number}"))
            self._bytes += len(line)
        return len(self._waiting) >= _ROWS or self._bytes >= _BYTES

    def take(self, name: str) -> None:
        """Take all rows of a file; those before one that is damaged stay, and it is counted as unreadable."""
        number, shown = 0, Location(name).shown
        try:
            with ExitStack() as stack:
                stream = stack.enter_context(Location(name).open())
                with readable(shown):
                    parquet = name != "-" and stream.peek(4).startswith(PARQUET_MAGIC)
                rows = (
                    open_container(name, stack).records()
                    if parquet
                    else lines(shown, capped(decompressed(shown, stream), BIGGEST))
                )
                for line in rows:
                    number = line.number
                    if self.add(line.raw, number, f"{shown} {line.where}"):
                        self.flush()
        except UsageError as error:
            why = str(error).removeprefix(f"{shown}: ").partition(";")[0]
            end = f"cannot be read behind line {number}" if number else "cannot be read"
            way = "pipe what can be unpacked into `ruler ledger import -`"
            self.refuse(number, f"{end}: {why}; {way}", shown)

    def refuse(self, number: int, reason: str, where: str) -> None:
        """Count what is no row, and name it if it is among the first."""
        self.result.unreadable += 1
        self._name(number, reason, where)

    def flush(self) -> None:
        """Put on record what was taken; OutputError where the ledger cannot be written."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        rows = [found for one in waiting if (found := self._read(*one)) is not None]
        # neighbours share a page of the ledger's index; two rows of one request keep their order
        rows.sort(key=itemgetter(0))
        model = self._model
        answers = [(k, model or row.model or "unknown", row.answer if row.lasts else None) for k, row in rows]
        for (key, row), held in zip(rows, self._ledger.keep_all(answers) if rows else (), strict=True):
            fate = self._settled(key, row, held)
            if self._on_key is not None:
                self._on_key(key, fate)

    def __enter__(self) -> Self:
        """The importer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Put the rest on record, also where reading failed."""
        self.flush()

    def _name(self, number: int, reason: str, where: str) -> None:
        if len(self.result.odd) < _NAMED:
            self.result.odd.append(Unread(number, reason, where))

    def _read(self, line: bytes, number: int, where: str) -> tuple[bytes, ReplyRow] | None:
        """A row and its key; None where it is none of ours."""
        self.result.rows += 1
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
        self.result.foreign += 1
        self._name(number, reason, where)
        return None

    def _settled(self, key: bytes, row: ReplyRow, before: str | None) -> Fate:
        """Count a row whose request had this status before it; what the request has come to."""
        found, answer = self.result, row.answer
        answered = before in ("answer", "truncated", "refusal")
        if isinstance(answer, Reply):
            found.known, found.new = found.known + answered, found.new + (not answered)
        if isinstance(answer, Reply) or answered:
            found.open.pop(key, None)
            return "answer"
        for_good = answer.scope == "group"
        failed = for_good or before == "fault"
        label: str = answer.kind if for_good else "before" if failed else row.label
        if label != "before":
            found.said.setdefault(label, answer.reason)
        found.open[key] = max((failed, label), found.open.get(key, (False, "")))
        return "failed" if failed else "again"


def reply_files(replies: Sequence[str]) -> list[str]:
    """List every file that is meant, in order; UsageError where one is not there, before any is read."""
    if replies.count("-") > 1:
        raise UsageError("`-` is given twice; stdin can be read once")
    names: list[str] = []
    for given in replies:
        place = Location(given)
        if place.many:
            listing = place.listed()
            names += [listing.at(name).name for name in listing.names]
            continue
        if place.local:
            with place.open() as stream, readable(given):
                if stream.peek(16).startswith(_DATABASE):
                    raise UsageError(
                        f"{given}: is a database, no file of replies; a ledger is read beside another with "
                        f"`ruler score … --ledger PATH --ledger {shlex.quote(given)}`"
                    )
        names.append(given)
    return names
