"""Rows of reply files → a ledger, in any order and as often as they come.

An answer replaces a failure, and the first of two answers to one request stays. So a file may be imported
twice, and several files at once.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import AsyncIterable, Callable, Container, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal

import anyio.to_thread

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import PARQUET_MAGIC, decompressed, lines, readable
from ruler_cli.files.location import Location
from ruler_cli.files.open import open_container
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.runs.batch.reply_rows import MAX_LINE_BYTES, TOO_LONG, ReplyRow, read_row
from ruler_cli.types import Reply, clean

RequestStatus = Literal["answer", "failed", "again"]
"""Status of a request after the import: answered, failed for good, to be sent again."""

_KEY = re.compile(r"[0-9a-fA-F]{32}")
_ROWS, _BYTES = 2000, 8 << 20
"""Rows, or bytes of rows, that are written together."""
_SQLITE_MAGIC = b"SQLite format 3\0"
_MAX_REJECTED = 20
"""Rejected rows that are listed one by one."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A malformed or foreign row: line number, reason (half a sentence), and its place for a message."""

    number: int
    reason: str
    where: str


@dataclass(slots=True)
class ImportResult:
    """Counts of an import of `rows` rows.

    `new` answers were added, `known` are rows whose request had an answer. `foreign` rows have a custom_id
    that is not ours, `unreadable` rows are no replies; `rejected` lists the first of both. `open` maps each
    request without an answer to (failed for good, its error kind or reason). `messages` holds the first
    sentence of each kind or reason.
    """

    rows: int = 0
    new: int = 0
    known: int = 0
    foreign: int = 0
    unreadable: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)
    open: dict[bytes, tuple[bool, str]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def failed(self) -> dict[str, int]:
        """Numbers of requests that failed for good, by kind."""
        return self._count_open(failed=True)

    @property
    def again(self) -> dict[str, int]:
        """Numbers of requests to send again, by reason."""
        return self._count_open(failed=False)

    @property
    def complete(self) -> bool:
        """Tell if every row was read, and every request of the rows has an answer."""
        return not (self.open or self.foreign or self.unreadable)

    def _count_open(self, *, failed: bool) -> dict[str, int]:
        labels = Counter(
            sorted(
                label for for_good, label in self.open.values() if for_good == failed
            )
        )
        return dict(labels.most_common())


class Importer(AbstractContextManager["Importer"]):
    """Import rows one by one; `flush`, also at the end of the context, writes them to the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        model: str | None = None,
        keys: Container[bytes] | None = None,
        on_key: Callable[[bytes, RequestStatus], None] | None = None,
    ) -> None:
        """Take the ledger's name of the model; by default the name in each reply.

        With `keys`, rows of other requests are foreign. `on_key` gets the status of a row's request once it
        is written, in the thread that flushes; a later call may report a better status, never a worse one.
        """
        self._ledger, self._model, self._keys, self._on_key = (
            ledger,
            model,
            keys,
            on_key,
        )
        self._waiting: list[tuple[bytes, ReplyRow]] = []
        self._bytes = 0
        self.result = ImportResult()

    def add(self, line: bytes, number: int, where: str = "") -> bool:
        """Read a row, unless the line is blank, without writing; tell if it is time to `flush`."""
        line, where = line.strip(), where or f"line {number}"
        if line:
            self.result.rows += 1
            self._bytes += len(line)
            row = read_row(line)
            if isinstance(row, str):
                self._reject(number, row, where)
            elif not _KEY.fullmatch(row.custom_id):
                reason = f"has the custom_id {clean(row.custom_id[:64])!r}, which is none of ours"
                self._reject(number, reason, where, foreign=True)
            elif (
                self._keys is not None
                and bytes.fromhex(row.custom_id) not in self._keys
            ):
                reason = f"has the custom_id {row.custom_id}, which was not asked for"
                self._reject(number, reason, where, foreign=True)
            else:
                self._waiting.append((bytes.fromhex(row.custom_id), row))
        return len(self._waiting) >= _ROWS or self._bytes >= _BYTES

    async def import_stream(self, lines: AsyncIterable[bytes]) -> None:
        """Add lines that come over a network; a thread writes the ledger."""
        number = 0
        async for line in lines:
            number += 1
            if self.add(line, number):
                await anyio.to_thread.run_sync(self.flush)

    def import_file(self, name: str) -> None:
        """Import all rows of a file; a damaged file counts as unreadable, the rows before the damage stay."""
        number, shown = 0, Location(name).shown
        try:
            with ExitStack() as stack:
                stream = stack.enter_context(Location(name).open())
                with readable(shown):
                    parquet = name != "-" and stream.peek(4).startswith(PARQUET_MAGIC)
                rows = (
                    open_container(name, stack).records()
                    if parquet
                    else lines(shown, decompressed(shown, stream), MAX_LINE_BYTES)
                )
                for line in rows:
                    number = line.number
                    if line.skipped:
                        self.result.rows += 1
                        self._reject(number, TOO_LONG, f"{shown} {line.where}")
                    elif self.add(line.raw, number, f"{shown} {line.where}"):
                        self.flush()
        except UsageError as error:
            why = str(error).removeprefix(f"{shown}: ").partition(";")[0]
            end = f"cannot be read behind line {number}" if number else "cannot be read"
            advice = "pipe what can be unpacked into `ruler ledger import -`"
            self._reject(number, f"{end}: {why}; {advice}", shown)

    def flush(self) -> None:
        """Write the waiting rows; OutputError if the ledger cannot be written."""
        rows, self._waiting, self._bytes = self._waiting, [], 0
        # sorted keys touch fewer pages of the index; rows of one request keep their order
        rows.sort(key=itemgetter(0))
        model = self._model
        answers = [
            (k, model or row.model or "unknown", row.answer if row.lasts else None)
            for k, row in rows
        ]
        for (key, row), before in zip(
            rows, self._ledger.keep_all(answers) if rows else (), strict=True
        ):
            status = self._record(key, row, before)
            if self._on_key is not None:
                self._on_key(key, status)

    def __exit__(self, *_: object) -> None:
        """Write the rest, also after an error."""
        self.flush()

    def _reject(
        self, number: int, reason: str, where: str, *, foreign: bool = False
    ) -> None:
        """Count a row as foreign or unreadable, and list it if it is among the first."""
        self.result.foreign += foreign
        self.result.unreadable += not foreign
        if len(self.result.rejected) < _MAX_REJECTED:
            self.result.rejected.append(RejectedRow(number, reason, where))

    def _record(self, key: bytes, row: ReplyRow, before: str | None) -> RequestStatus:
        """Count a row, given its request's status in the ledger before; return the status after it."""
        result, answer = self.result, row.answer
        answered = before in ("answer", "truncated", "refusal")
        if isinstance(answer, Reply):
            result.known, result.new = (
                result.known + answered,
                result.new + (not answered),
            )
        if isinstance(answer, Reply) or answered:
            result.open.pop(key, None)
            return "answer"
        for_good = answer.scope == "group"
        failed = for_good or before == "fault"
        label: str = answer.kind if for_good else "before" if failed else row.label
        if label != "before":
            result.messages.setdefault(label, answer.reason)
        result.open[key] = max((failed, label), result.open.get(key, (False, "")))
        return "failed" if failed else "again"


def reply_files(replies: Sequence[str]) -> list[str]:
    """List the files of the arguments, in order; UsageError if one is missing, before any is read."""
    if replies.count("-") > 1:
        raise UsageError("`-` is given twice; stdin can be read once")
    names: list[str] = []
    for given in replies:
        location = Location(given)
        if location.many:
            listing = location.listed()
            names += [listing.at(name).name for name in listing.names]
            continue
        if location.local:
            with location.open() as stream, readable(given):
                if stream.peek(16).startswith(_SQLITE_MAGIC):
                    raise UsageError(
                        f"{given}: is a database, no file of replies; a ledger is read beside another with "
                        f"`ruler score … --ledger PATH --ledger {shlex.quote(given)}`"
                    )
        names.append(given)
    return names
