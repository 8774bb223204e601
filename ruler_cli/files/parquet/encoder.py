"""Annotated rows → Parquet: the columns of the source as they are, but for what ruler wrote.

A Parquet file needs its schema before its first row, and whether a score fits a column shows with the
last one. So `put` only keeps what differs from the row's own values, on disk where it is much, and
`end` writes the file: unchanged columns pass through in Arrow's own form, with types, nullability,
metadata, codecs and row groups (a row group of more than 64 MiB becomes several, for memory's sake).

What is new: `ruler` is JSON text, which ruler reads again as it reads an object; as a struct it would
need all its optional fields in every file. A new number is float64, a new list of numbers or text a
list of those, a new object (`metrics`) JSON text. `arrow_types` says what becomes of a column whose type
is too narrow.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, BinaryIO

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.parquet.column import Column
from ruler_cli.files.parquet.rows import Rows, damage, said
from ruler_cli.files.parquet.schema import settings_like, written_schema
from ruler_cli.files.splice import members, read_object

_IN_MEMORY = 16 << 20
"""Bytes of changes that are kept without a file."""
_GROUP = 64 << 20
"""Bytes of Arrow data that one row group is made of at most."""

Changes = tuple[int, dict[str, bytes]]
"""A row's number from 0, and its new values as JSON."""


class ParquetEncoder:
    """An `Encoder` of rows; nothing reaches the stream before `end`."""

    def __init__(self, source: Rows, stream: BinaryIO) -> None:
        """`source` is what the rows came from and is read again; `stream` is open for writing."""
        self._source, self._stream = source, stream
        self._own = source.rows()
        self._columns: dict[str, Column] = {}
        for at, field in enumerate(source.schema):  # of equal names the last is the record's value
            self._columns[field.name] = Column(field.name, at, field)
        self._rows = 0
        self._done = False
        self._spool = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed with the encoder
        weakref.finalize(self, self._spool.close)

    def put(self, number: int, body: bytes) -> None:
        """Take the annotated row with this number."""
        fields = self._row(number - 1)
        found = read_object(body)
        new: dict[str, bytes] = {}
        for column in self._columns.values():
            member = found.members.get(column.name)
            value = b"null" if member is None else body[member[1] : member[2]]
            if column.sees(fields, value):
                new[column.name] = value
        for name in [key for key in found.members if key not in self._columns]:
            column = self._columns[name] = Column(name, None, None)
            value = body[slice(*found.members[name][1:])]
            column.sees(fields, value)
            new[name] = value
        self._rows += 1
        text = b"{" + members(new).replace(b"\n", b" ") + b"}"
        try:
            self._spool.write(b"%d %s\n" % (number - 1, text))
        except OSError as error:
            raise OutputError(
                f"{tempfile.gettempdir()}: cannot be written: {error.strerror}; make room there, or name "
                "another directory in TMPDIR, then run the same command again"
            ) from None

    def end(self) -> None:
        """Write the file: every row that was put, in a schema that holds all of them."""
        if self._done:
            return
        self._done = True
        import pyarrow as pa
        import pyarrow.parquet as pq

        plan = list(self._columns.values())
        for column in plan:
            column.settle(self._rows, self._source)
        schema = written_schema(self._source.schema, plan)
        sink = pa.PythonFile(self._stream, mode="w")
        try:
            with pq.ParquetWriter(sink, schema, **settings_like(self._source, schema)) as writer:
                for table in _row_groups(self._written(schema)):
                    writer.write_table(table, len(table))
        except pa.ArrowException as error:  # a type that this version reads and does not write
            raise OutputError(
                f"{self._source.name}: this version of pyarrow cannot write it again ({said(error)}); update "
                "pyarrow, or leave out the column that is meant"
            ) from None
        self._spool.close()

    def _row(self, number: int) -> list[bytes]:
        for row, fields in self._own:
            if row == number:
                return fields
        raise self._changed()

    def _changed(self) -> UsageError:
        return UsageError(f"{self._source.name}: changed while it was read; run again when it is whole")

    def _written(self, schema: Any) -> Iterator[tuple[int, Any]]:
        """Batches of the rows that were put, as they are written, with their row group's number."""
        import pyarrow as pa

        self._spool.seek(0)
        waiting = map(_change, self._spool)
        following = next(waiting, None)
        start = 0
        for group, batch in self._source.batches():
            new: dict[int, dict[str, bytes]] = {}
            while following is not None and following[0] < start + batch.num_rows:
                new[following[0] - start] = following[1]
                following = next(waiting, None)
            start += batch.num_rows
            if not new:
                continue
            if len(new) < batch.num_rows:
                batch = _only(batch, list(new))  # noqa: PLW2901 - the rows that are left
            arrays = list(batch.columns)
            with damage(self._source.name):
                for column in self._columns.values():
                    arrays[column.place(arrays)] = column.array(batch, list(new.values()))
            yield group, pa.RecordBatch.from_arrays(arrays, schema=schema)
        if following is not None:
            raise self._changed()


def _change(line: bytes) -> Changes:
    number, _, text = line.partition(b" ")
    found = read_object(text)
    return int(number), {key: text[at:end] for key, (_, at, end) in found.members.items()}


def _only(batch: Any, rows: list[int]) -> Any:
    """Some rows of a batch; slice by slice, because `take` does not know every type."""
    import pyarrow as pa

    edges = [i for i, row in enumerate(rows) if not i or row != rows[i - 1] + 1]
    runs = zip(edges, [*edges[1:], len(rows)], strict=True)
    return pa.concat_batches([batch.slice(rows[first], end - first) for first, end in runs])


def _row_groups(batches: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    """Batches of one row group of the source as one table, or as several where it is large."""
    import pyarrow as pa

    held: list[Any] = []
    size, now = 0, -1
    for group, batch in batches:
        if held and (group != now or size > _GROUP):
            yield pa.Table.from_batches(held)
            held, size = [], 0
        held.append(batch)
        size, now = size + batch.nbytes, group
    if held:
        yield pa.Table.from_batches(held)
