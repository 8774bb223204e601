"""Rows of reply files → a ledger, in any order and as often as they come.

An answer replaces a failure, and the first of two answers to one request stays. So a file may be imported
twice, and several files at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from ruler_cli.errors import UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers.lines import lines
from ruler_cli.files.location import Location
from ruler_cli.files.source import decompressed
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.runs.batch.reply_rows import MAX_LINE_BYTES, TOO_LONG, ReplyRow, read_row
from ruler_cli.types import Line, Reply, clean

Row = tuple[str, int, bytes | str]
"""Place, line number and text of a row; or why it cannot be read, in half a sentence."""
_KEY = re.compile(r"[0-9a-fA-F]{32}")
_ROWS, _BYTES = 2000, 8 << 20
"""Rows, or bytes of rows, that are written together."""
_MAX_REJECTED = 20
"""Rejected rows that are listed one by one."""


class RejectedRow(NamedTuple):
    """A malformed or foreign row: its place for a message, line number, and reason (half a sentence)."""

    where: str
    number: int
    reason: str


@dataclass(slots=True)
class ImportResult:
    """Counts of an import of `rows` rows.

    `new` answers were added, `known` are rows whose request had an answer. `foreign` rows have a custom_id
    that is not ours, `unreadable` rows are no replies; `rejected` lists the first of both. `open` maps each
    request without an answer to (failed for good, its error kind or reason). `messages` holds the first
    sentence of each kind or reason. `answered` are requests with an answer, of an import with `keys`.
    """

    rows: int = 0
    new: int = 0
    known: int = 0
    foreign: int = 0
    unreadable: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)
    open: dict[bytes, tuple[bool, str]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict, compare=False)
    answered: set[bytes] | None = None

    @property
    def failed(self) -> dict[str, int]:
        """Numbers of requests that failed for good, by kind."""
        return self._count_open(for_good=True)

    @property
    def again(self) -> dict[str, int]:
        """Numbers of requests to send again, by reason."""
        return self._count_open(for_good=False)

    @property
    def complete(self) -> bool:
        """Tell if every row was read, and every request of the rows has an answer."""
        return not (self.open or self.foreign or self.unreadable)

    def _count_open(self, *, for_good: bool) -> dict[str, int]:
        labels = sorted(label for kind, label in self.open.values() if kind == for_good)
        return dict(Counter(labels).most_common())


def import_rows(
    ledger: Ledger,
    rows: Iterable[Row],
    model: str | None = None,
    keys: Container[bytes] | None = None,
) -> ImportResult:
    """Write rows to a ledger, many together; OutputError if it cannot be written.

    `model` is the ledger's name of the model; by default the name in each reply. With `keys`, rows of other
    requests are foreign.
    """
    result = ImportResult(answered=None if keys is None else set())
    waiting, size = list[tuple[bytes, ReplyRow]](), 0
    for where, number, text in rows:
        result.rows += 1
        row = text if isinstance(text, str) else read_row(text)
        if isinstance(row, str):
            result.unreadable += 1
            result.rejected.append(RejectedRow(where, number, row))
        elif not _KEY.fullmatch(row.custom_id) or not (
            keys is None or bytes.fromhex(row.custom_id) in keys
        ):
            result.foreign += 1
            reason = f"has a foreign custom_id: {clean(row.custom_id[:64])!r}"
            result.rejected.append(RejectedRow(where, number, reason))
        else:
            waiting.append((bytes.fromhex(row.custom_id), row))
            size += len(text)
        del result.rejected[_MAX_REJECTED:]
        if len(waiting) >= _ROWS or size >= _BYTES:
            _write(ledger, waiting, model, result)
            waiting, size = [], 0
    _write(ledger, waiting, model, result)
    return result


def _write(
    ledger: Ledger,
    rows: list[tuple[bytes, ReplyRow]],
    model: str | None,
    result: ImportResult,
) -> None:
    # sorted keys touch fewer pages of the index; rows of one request keep their order
    rows.sort(key=itemgetter(0))
    answers = [
        (
            key,
            model or getattr(row.answer, "model", "") or "unknown",
            row.answer if row.lasts else None,
        )
        for key, row in rows
    ]
    earlier = ledger.keep_all(answers) if rows else []
    for (key, row), before in zip(rows, earlier, strict=True):
        answer = row.answer
        answered = before in ("answer", "truncated", "refusal")
        if isinstance(answer, Reply):
            result.known += answered
            result.new += not answered
        if isinstance(answer, Reply) or answered:
            result.open.pop(key, None)
            if result.answered is not None:
                result.answered.add(key)
            continue
        for_good = answer.scope == "group"
        failed = for_good or before == "fault"
        label: str = answer.kind if for_good else "before" if failed else row.label
        if label != "before":
            result.messages.setdefault(label, answer.reason)
        result.open[key] = max((failed, label), result.open.get(key, (False, "")))


def rows_of(names: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of files; a damaged file ends with a row that says so."""
    for name in names:
        shown = Location(name).shown
        try:
            with ExitStack() as stack:
                for line in _lines(name, stack):
                    text = TOO_LONG if line.skipped else line.raw
                    yield f"{shown} {line.where}", line.number, text
        except UsageError as error:
            why = str(error).removeprefix(f"{shown}: ").partition(";")[0]
            yield shown, 0, f"cannot be read: {why}"


def _lines(name: str, stack: ExitStack) -> Iterator[Line]:
    """Open a file of lines, plain or compressed, or of Parquet, until `stack` ends."""
    if name.endswith(".parquet"):
        return open_container(name, stack).records()
    location = Location(name)
    text = decompressed(location.shown, stack.enter_context(location.open()))
    return lines(location.shown, text, MAX_LINE_BYTES)


def reply_files(replies: Sequence[str]) -> list[str]:
    """List the files of the arguments, in order; UsageError if one is missing, before any is read."""
    names: list[str] = []
    for given in replies:
        location = Location(given)
        if location.many:
            listing = location.listed()
            names += [listing.at(name).name for name in listing.names]
            continue
        if location.local:
            with location.open():
                pass
        names.append(given)
    return names
