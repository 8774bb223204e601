"""CSV and TSV: each row is a record, an object of texts under the names in the first row.

Text is a table only if its first rows leave no doubt, whatever the file's name is: JSON lines, a log and prose
hold commas too. A cell may hold line breaks. A row that is damaged spoils no other,
unless it opens a quote that nothing closes.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import BinaryIO, Self

import orjson

from ruler_cli.files.containers import Container
from ruler_cli.files.error_map import reading
from ruler_cli.files.source import BOM, Source
from ruler_cli.types import Line

_HEAD = 1 << 23
"""Bytes that show if text is a table."""
_FIRST_ROWS = 5
"""Rows that must have a cell for each name, and none may begin as JSON does."""
_NAME = re.compile(r"\[?[^\W\d](.*\S)?", re.DOTALL)
_JSON = re.compile(rb'\s*[\[{]\s*["\[{\]}\d-]')


@dataclass(slots=True)
class _Row:
    """A row: its first line, the bytes held of it, its cells, its size, and the reason why it cannot be read."""

    line: int
    raw: bytearray
    cells: Sequence[str] = ()
    size: int = 0
    error: str = ""


def _rows(text: BinaryIO, delimiter: str, most: int) -> Iterator[_Row]:
    """Yield the rows in which a cell is not empty; of one of more than `most` bytes only the first are held."""

    def lines() -> Iterator[str]:
        quotes = 0
        while piece := text.readline(most + 2):
            if not reader.line_num:
                piece = piece.removeprefix(BOM)
            row.size += len(piece)
            if row.size <= most:
                row.raw += piece
                # bytes that are not UTF-8 become characters that JSON cannot hold
                yield piece.decode("utf-8", "surrogateescape")
                continue
            # the part that is not held only shows where the row ends
            quotes += piece.count(b'"')
            if piece.endswith(b"\n"):
                yield '"' * (quotes % 2)
                quotes = 0

    csv.field_size_limit(sys.maxsize)
    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    ended = False
    while not ended:
        row = _Row(reader.line_num + 1, bytearray())
        try:
            row.cells = next(reader)
        except StopIteration:
            ended = True
        except csv.Error as error:  # its bytes are a row without cells
            if str(error) == "unexpected end of data":
                row.error = "opens a quote that is never closed"
        if row.raw.strip(b"\r\n" + delimiter.encode()) or row.size > most:
            yield row


class CsvTable(Container):
    """A table of rows, numbered from 1 behind the header."""

    unit = "row"
    may_hold_events = True

    def __init__(
        self, source: Source, delimiter: str, names: Sequence[str]
    ) -> None:
        """Take text, which can be opened again."""
        super().__init__(source.name, source.most)
        self._source = source
        self._delimiter = delimiter
        self._names = names

    @classmethod
    def open(cls, source: Source) -> Self | None:
        """Open text whose first rows are those of a table; one from a pipe is kept in a file."""
        if _JSON.match(source.first_line):
            return None
        if source.once:
            source.keep_text()
        with source.open_text() as text, reading(source.name):
            head = text.read(_HEAD)
        for delimiter in ",;\t":
            names = _names(head, delimiter)
            if names:
                return cls(source, delimiter, names)
        return None

    def records(self) -> Iterator[Line]:
        """Yield every row; one that is damaged with the number of its line."""
        width = len(self._names)
        with self._source.open_text() as text, reading(self.name):
            rows = _rows(text, self._delimiter, self.most)
            for number, row in enumerate(islice(rows, 1, None), 1):
                raw = bytes(row.raw).rstrip(b"\r\n")
                error = row.error
                count = len(row.cells)
                if count == width:
                    try:
                        raw = orjson.dumps(
                            dict(zip(self._names, row.cells, strict=True))
                        )
                    except TypeError:
                        error = "is not UTF-8; convert it, e.g. with iconv"
                elif not error:
                    error = f"has {count} cells where the header has {width}; check its quotes"
                line = self.line(
                    number, number - 1, raw, max(row.size, len(raw))
                )
                if error:
                    place = f"{line.place} (line {row.line})"
                    line = replace(line, place=place, error=error)
                yield line


def _names(head: bytes, delimiter: str) -> list[str]:
    """Return the names in the first row of a text; [] if the text may be something else than a table.

    A column without a name, as the index that pandas writes, is named by its number. A repeated name gets a number,
    too: `Status 2`.
    """
    rows = list(
        islice(_rows(io.BytesIO(head), delimiter, _HEAD), 1 + _FIRST_ROWS)
    )
    if len(head) == _HEAD:
        del rows[-1:]  # it may be cut
    if len(rows) < 2:
        return []
    cells = rows[0].cells
    names = list[str]()
    for number, cell in enumerate(cells, 1):
        name = cell or f"column {number}"
        again = cells[:number].count(cell)
        names.append(f"{name} {again}" if cell and again > 1 else name)
    several = len({*filter(None, cells)}) > 1
    good = all(map(_NAME.fullmatch, names)) and several
    fitting = all(
        len(row.cells) == len({*names}) and not _JSON.match(row.raw)
        for row in rows
    )
    return names if good and fitting else []
