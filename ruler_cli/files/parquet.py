"""A Parquet file as records, each row one JSON object, and annotated records as a Parquet file.

Rows come in small batches, so memory depends on the size of rows and pages, and not on that of row groups.

A file needs its schema before its first row, and the last row may show that a score does not fit its
column. So `put` only keeps what differs from the row's own values, on disk, and `end` writes the file.
Columns that did not change are the source's own, in its row groups, with their types and metadata. `ruler`
and new objects are JSON text, other new columns float64, text or a list of these. A column whose type is
too narrow gets a wider one, or becomes JSON text as a whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import orjson

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.arrow import OURS, MisfitError, cells, encodable, fitted, is_text, plain
from ruler_cli.files.container import Container, Encoder
from ruler_cli.files.parse import parse_text
from ruler_cli.files.splice import read_object
from ruler_cli.records import Line
from ruler_cli.scratch import Scratch, room

_BATCH = 4 << 20
"""Bytes of rows that are decoded at once."""
_ROWS = 256
"""The most rows at once: a dictionary makes a column look much smaller in the file than its rows are."""
_PAGES = 1 << 20
"""Bytes that are read ahead in each column."""
_GROUP = 64 << 20
"""Bytes of Arrow data that one row group is made of at most."""
_NULL = b"null"
_DIGITS = 15
"""As many of a number any float holds."""

Row = dict[str, bytes]
"""The values of a row that are not its own, as JSON."""


class Parquet(Container):
    """A Parquet file that is open; rows are numbered from 1."""

    unit = "row"

    def __init__(self, name: str, stream: BinaryIO) -> None:
        """`stream` can be searched, stays open, and must not be used by anybody else meanwhile.

        Raises UsageError if it is no Parquet file, or pyarrow is missing.
        """
        super().__init__(name)
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise UsageError(
                f"{name}: is Parquet; install the reader with: pip install 'ruler-cli[parquet]'"
            ) from None
        # One handle for every reader: it takes care that two of them do not move each other.
        self._file = pa.PythonFile(stream, mode="r")
        with _damage(name):
            self.metadata = pq.read_metadata(self._file)
            self.schema = self.metadata.schema.to_arrow_schema()

    def records(self) -> Iterator[Line]:
        """Every row as the JSON text of one object, its keys in the order of the columns."""
        keys = [orjson.dumps(name) + b":" for name in self.schema.names]
        for row, found in enumerate(self.rows()):
            raw = b"{" + b",".join(map(bytes.__add__, keys, found)) + b"}"
            yield Line(row + 1, row, raw, f"row {row + 1}")

    def rows(self) -> Iterator[tuple[bytes, ...]]:
        """Every row: the JSON of each column."""
        for _, batch in self.batches():
            with _damage(self.name):
                columns = list(map(cells, batch.columns, self.schema.names))
            yield from zip(*columns, strict=True) if columns else [()] * batch.num_rows

    def batches(self) -> Iterator[tuple[int, Any]]:
        """The rows as Arrow record batches, each with the number of its row group."""
        import pyarrow.parquet as pq

        with _damage(self.name):
            # `pre_buffer` would hold a whole row group in memory, threads would hold a batch each.
            file = pq.ParquetFile(self._file, metadata=self.metadata, pre_buffer=False, buffer_size=_PAGES)
            for number in range(self.metadata.num_row_groups):
                group = self.metadata.row_group(number)
                rows = max(1, min(_ROWS, _BATCH * group.num_rows // max(1, group.total_byte_size)))
                for batch in file.iter_batches(rows, [number], use_threads=False):
                    yield number, batch

    def encoder(self, stream: BinaryIO) -> Encoder:
        """Writes annotated rows as a Parquet file with this one's schema and what is new."""
        return _Rewritten(self, stream)


class _Column:
    """A column on its way out: one of the source, or a new one behind those."""

    def __init__(self, at: int, field: Any, *, new: bool = False) -> None:
        """`at` is its place among the columns, and `field` its Arrow field."""
        import pyarrow as pa

        self.at, self.field, self.new = at, field, new
        self.changed = False
        self._kept, self._large = 0, False
        """Rows that keep a value of their own; if a float may not hold one of these."""
        self._nested = pa.types.is_nested(field.type)
        self._verbatim = field.name == OURS
        self._wide, self._fresh = field.type, pa.null()
        """The types for its own values and the new ones, and for the new ones alone; None: there is none."""

    def sees(self, own: bytes, value: bytes) -> bool:
        """Learn a row's value; tell if it is another than its own."""
        if value == own:
            self._kept += own != _NULL
            self._large |= len(own) > _DIGITS
            return False
        self.changed = True
        if value != _NULL and not self._verbatim:
            new, was = _parsed(value), _parsed(own) if self._nested else None
            self._wide, self._fresh = _wider(self._wide, new, was), _wider(self._fresh, new)
        return True

    def settle(self) -> None:
        """Decide on the type, once all rows are seen."""
        import pyarrow as pa

        if not self.changed:
            return
        own, kind = plain(self.field.type), self._wide and plain(self._wide)
        if self._large and kind != own and kind == pa.float64():
            kind = None
        if kind is None and not self._kept:
            kind = self._fresh
        if kind is None or (self._verbatim and not is_text(kind)):
            kind, self._verbatim = pa.string(), not is_text(own)
        self.field = self.field.with_type(kind).with_nullable(True)

    def array(self, batch: Any, changes: list[Row]) -> Any:
        """Its values for the rows of a batch, given what changed in each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        own = pa.nulls(len(changes)) if self.new else batch.column(self.at)
        if not self.changed:
            return own
        kind, name = self.field.type, self.field.name
        old = cells(own) if self._nested else [_NULL] * len(own)
        rows = zip(changes, old, own, strict=True)
        found = pa.array([self._value(c.get(name, _NULL), was, at) for c, was, at in rows], kind)
        if not self._kept:
            return found
        return pc.if_else(pa.array([name in c for c in changes]), found, self._converted(own))

    def _value(self, value: bytes, was: bytes, own: Any) -> Any:
        if value == _NULL:
            return None
        if is_text(self.field.type) and (self._verbatim or value[:1] != b'"'):
            return encodable(value.decode("utf-8", "surrogatepass"))
        return fitted(self.field.type, _parsed(value), _parsed(was), own)[1]

    def _converted(self, own: Any) -> Any:
        """The column's own values in the type that it is written with."""
        import pyarrow as pa

        if is_text(self.field.type) and not is_text(plain(own.type)):
            texts = [None if cell == _NULL else cell.decode() for cell in cells(own)]
            return pa.array(texts, self.field.type)
        return own.cast(self.field.type)


class _Rewritten:
    """The table with other rows; nothing reaches the stream before `end`."""

    def __init__(self, source: Parquet, stream: BinaryIO) -> None:
        self._source, self._stream = source, stream
        self._own = enumerate(source.rows(), 1)
        # Of equal names the last is the record's value.
        self._columns = {field.name: _Column(at, field) for at, field in enumerate(source.schema)}
        self._width = len(source.schema)
        self._spool = Scratch()
        weakref.finalize(self, self._spool.close)

    def put(self, number: int, body: bytes) -> None:
        """Take the annotated row with this number."""
        import pyarrow as pa

        own = next((found for row, found in self._own if row == number), None)
        if own is None:
            raise UsageError(f"{self._source.name}: changed while it was read; run again when it is whole")
        members = read_object(body).members
        for name in [key for key in members if key not in self._columns]:
            self._columns[name] = _Column(self._width, pa.field(name, pa.null()), new=True)
            self._width += 1
        new: Row = {}
        for name, column in self._columns.items():
            value = body[slice(*members[name][1:])] if name in members else _NULL
            if column.sees(_NULL if column.new else own[column.at], value):
                new[name] = value
        self._spool.write(pickle.dumps((number, new)))

    def end(self) -> None:
        """Write the file: every row that was put, in a schema that holds all of them."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for column in self._columns.values():
            column.settle()
        schema, metadata = self._schema(), self._source.metadata
        codec = metadata.row_group(0).column(0).compression if metadata.num_rows else "SNAPPY"
        how = {"compression": codec.replace("UNCOMPRESSED", "NONE")}
        try:
            with pq.ParquetWriter(pa.PythonFile(self._stream, "w"), schema, **how) as writer:
                for table in _row_groups(self._written(schema)):
                    writer.write_table(table, len(table))
        except pa.ArrowException as error:  # a type that this version reads and does not write
            raise OutputError(
                f"{self._source.name}: this version of pyarrow cannot write it again ({_said(error)}); "
                "update pyarrow, or leave out the column that is meant"
            ) from None
        self._spool.close()

    def _schema(self) -> Any:
        """The source's, with types that hold what is new, new columns behind, and metadata that agrees."""
        import pyarrow as pa

        columns = self._columns.values()
        fields = [*self._source.schema, *(column.field for column in columns if column.new)]
        metadata = dict(self._source.schema.metadata or {})
        for column in columns:
            fields[column.at] = column.field
        with contextlib.suppress(KeyError, ValueError, TypeError, AttributeError):
            notes = json.loads(metadata[b"pandas"])  # not of columns that have another type now
            other = {column.field.name for column in columns if column.changed}
            notes["columns"] = [note for note in notes["columns"] if note["field_name"] not in other]
            metadata[b"pandas"] = json.dumps(notes).encode()
        return pa.schema(fields, metadata or None)

    def _written(self, schema: Any) -> Iterator[tuple[int, Any]]:
        """Batches of the rows that were put, as they are written, with their row group's number."""
        import pyarrow as pa

        with room():
            self._spool.file.seek(0)
        number, row = self._next()
        end = 0
        for group, batch in self._source.batches():
            start, end = end, end + batch.num_rows
            new: dict[int, Row] = {}
            while start < number <= end:
                new[number - start - 1] = row
                number, row = self._next()
            if not new:
                continue
            if len(new) < batch.num_rows:  # slice by slice, because `take` does not know every type
                batch = pa.concat_batches([batch.slice(at, 1) for at in new])  # noqa: PLW2901
            arrays = [*batch.columns, *[None] * (len(schema) - batch.num_columns)]
            with _damage(self._source.name):
                for column in self._columns.values():
                    arrays[column.at] = column.array(batch, list(new.values()))
            yield group, pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _next(self) -> tuple[int, Row]:
        """The number of the next row that was put, and what is new in it; 0 behind the last."""
        try:
            found: tuple[int, Row] = pickle.load(self._spool.file)  # noqa: S301 - it was written here
        except EOFError:
            return 0, {}
        return found


def _row_groups(batches: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    """Batches of one row group of the source as one table, or as several where it is large."""
    import pyarrow as pa

    held: list[Any] = []
    now = size = 0
    for group, batch in batches:
        if held and (group != now or size > _GROUP):
            yield pa.Table.from_batches(held)
            held, size = [], 0
        held.append(batch)
        size, now = size + batch.nbytes, group
    if held:
        yield pa.Table.from_batches(held)


def _parsed(value: bytes) -> Any:
    return parse_text(value.decode("utf-8", "surrogatepass"))


def _wider(kind: Any, new: Any, was: Any = None) -> Any:
    """A type that holds a new value too; None: there is none."""
    try:
        return None if kind is None else fitted(kind, new, was)[0]
    except MisfitError:
        return None


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Turn what pyarrow cannot read into a sentence."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno:
            raise UsageError(f"{name}: cannot be read: {os.strerror(error.errno)}") from None
        raise UsageError(
            f"{name}: is damaged, or no whole Parquet file ({_said(error)}); write it anew, or copy it again"
        ) from None


def _said(error: BaseException) -> str:
    """The library's own words as far as they are safe to print."""
    first = (str(error).splitlines() or [""])[0]
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in first)[:150].rstrip(". ")
