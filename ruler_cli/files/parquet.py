"""A Parquet file as records, each row one JSON object, and annotated records as a Parquet file.

Rows come in small batches, so memory depends on the size of rows and pages, and not on that of row groups.

A file needs its schema before its first row, and the last row may hold a score that does not fit its
column. So the columns that changed are spooled, and the file is written at the end. If INPUT is Parquet,
columns that did not change are the source's own, in its row groups, with their types and metadata; of any
other INPUT all columns are new. New values have the type that pyarrow infers, and new objects, such as
`ruler`, are structs. A column of several types gets one that holds them all, or becomes JSON text as a whole.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.arrow import ANNOTATION, cells, merge_values, widened, wider
from ruler_cli.files.container import Container, Rewrite
from ruler_cli.files.parse import parse_value
from ruler_cli.files.scratch import Scratch
from ruler_cli.files.splice import read_object
from ruler_cli.settings.models import MAX_RECORD
from ruler_cli.types import Line

_BATCH = 4 << 20
"""Bytes of rows that are decoded at once."""
_MAX_ROWS = 256
"""Most rows decoded at once: a column with a dictionary is much smaller in the file than in memory."""
_READ_AHEAD = 1 << 20
"""Bytes that are read ahead in each column."""
_GROUP = 64 << 20
"""Bytes of Arrow data that one row group is made of at most."""


class Parquet(Container):
    """A Parquet file that is open; rows are numbered from 1."""

    unit = "row"
    form = "table"

    def __init__(
        self, name: str, stream: BinaryIO, most: int = MAX_RECORD << 20
    ) -> None:
        """`stream` is seekable, stays open, and has no other reader; UsageError if it is no Parquet file."""
        super().__init__(name, most)
        # One handle for every reader: it keeps an offset for each of them.
        self._file = pa.PythonFile(stream, mode="r")
        with _damage(name):
            self.metadata = pq.read_metadata(self._file)
            self.schema = self.metadata.schema.to_arrow_schema()
        names = self.schema.names
        if duplicate := next(
            (column for column in names if names.count(column) > 1), ""
        ):
            raise UsageError(
                f"{name}: two columns are named `{duplicate}`; rename one of them"
            )

    def records(self) -> Iterator[Line]:
        """Yield every row as the JSON text of one object, its keys in the order of the columns."""
        keys = [orjson.dumps(name) + b":" for name in self.schema.names]
        number = 0
        for _, batch in self.batches():
            alone = batch.nbytes > self.most  # text is made of one row at a time
            for piece in (
                (batch.slice(row, 1) for row in range(len(batch)))
                if alone
                else (batch,)
            ):
                if piece.nbytes > self.most:
                    number += 1
                    yield self.skipped(number, number - 1, piece.nbytes)
                    continue
                with _damage(self.name):
                    columns = list(map(cells, piece.columns, self.schema.names))
                for row in zip(*columns, strict=True):
                    number += 1
                    raw = b"{" + b",".join(map(bytes.__add__, keys, row)) + b"}"
                    if len(raw) > self.most:
                        yield self.skipped(number, number - 1, len(raw))
                    else:
                        yield self.line(number, number - 1, raw)

    @property
    def compression(self) -> str:
        """The codec of the first column, for pyarrow's writer."""
        if not self.metadata.num_rows:
            return "SNAPPY"
        codec: str = self.metadata.row_group(0).column(0).compression
        return codec.replace("UNCOMPRESSED", "NONE")

    def batches(self) -> Iterator[tuple[int, Any]]:
        """Yield the rows as Arrow record batches, each with the number of its row group."""
        with _damage(self.name):
            # `pre_buffer` would hold a whole row group in memory, threads would hold a batch each
            file = pq.ParquetFile(
                self._file,
                metadata=self.metadata,
                pre_buffer=False,
                buffer_size=_READ_AHEAD,
            )
            for number in range(self.metadata.num_row_groups):
                group = self.metadata.row_group(number)
                rows = max(
                    1,
                    min(
                        _MAX_ROWS,
                        _BATCH * group.num_rows // max(1, group.total_byte_size),
                    ),
                )
                for batch in file.iter_batches(rows, [number], use_threads=False):
                    yield number, batch


def write_table(stream: BinaryIO, name: str, source: Parquet | None) -> Rewrite:
    """Write records of INPUT `name` as a table; rows of `source` keep its schema, with new columns behind.

    Nothing is written before the end.
    """
    with Scratch() as spool:
        put = yield
        if source is not None:
            table, end = _ChangedTable(source, spool), 0
            for _, batch in source.batches():
                start, end = end + 1, end + len(batch)
                rows: dict[int, bytes] = {}
                while put is not None and put[0] <= end:
                    rows[put[0] - start] = put[1]
                    put = yield
                table.add(batch, rows)
                if put is None:
                    break
        else:
            no_columns = _NoColumns(name)
            table = _ChangedTable(no_columns, spool)
            while put is not None:
                records, size = list[bytes](), 0
                while put is not None and len(records) < _MAX_ROWS and size < _BATCH:
                    records.append(put[1])
                    size += len(put[1])
                    put = yield
                table.add(no_columns.rows(len(records)), dict(enumerate(records)))
        table.write(stream)


class _NoColumns:
    """Rows without a column: the table of an INPUT that is none."""

    compression = "SNAPPY"

    def __init__(self, name: str) -> None:
        self.name, self.schema = name, pa.schema([])
        self._batches: list[Any] = []

    def rows(self, number: int) -> Any:
        """Append a batch of rows, and return it."""
        batch = pa.RecordBatch.from_arrays([pa.nulls(number)], names=[""])
        self._batches.append(batch)
        return batch

    def batches(self) -> Iterator[tuple[int, Any]]:
        """Yield the batches, all of row group 0."""
        return ((0, batch) for batch in self._batches)


class _ChangedTable:
    """The table with other rows: what changed is spooled."""

    def __init__(self, source: Parquet | _NoColumns, spool: Scratch) -> None:
        self._source, self._spool = source, spool
        self._types: dict[str, list[Any]] = {name: [] for name in source.schema.names}
        """Column → the types of its values in all batches."""
        self._changed: set[str] = set()

    def add(self, batch: Any, rows: dict[int, bytes]) -> None:
        """Spool the changed columns of a batch, for the rows that were put: index → record."""
        changed = {}
        if rows:
            with _damage(self._source.name):
                changed = self._changed_columns(
                    _select(batch, list(rows)), list(rows.values())
                )
        self._spool.put((list(rows), changed))

    def write(self, stream: BinaryIO) -> None:
        """Write every row that was put, in a schema that holds all of them."""
        schema, compression = self._schema(), self._source.compression
        try:
            with pq.ParquetWriter(
                pa.PythonFile(stream, "w"), schema, compression=compression
            ) as writer:
                for table in _row_groups(self._rows(schema)):
                    writer.write_table(table, len(table))
        except (
            pa.ArrowException
        ) as error:  # a type that this version reads and does not write
            raise OutputError(
                f"{self._source.name}: this version of pyarrow cannot write it again ({_message(error)}); "
                "update pyarrow, or leave out the column that it names"
            ) from None

    def _changed_columns(self, batch: Any, records: list[bytes]) -> dict[str, Any]:
        """Return the columns of a batch that the records changed or added."""
        columns, changed = _columns(batch), {}
        members = [read_object(record).members for record in records]
        for name in dict.fromkeys(
            [*self._types, *(key for keys in members for key in keys)]
        ):
            array = columns.get(name, pa.nulls(len(records)))
            old, new = cells(array, name), []
            for record, spans in zip(records, members, strict=True):
                new.append(
                    record[slice(*spans[name][1:])] if name in spans else b"null"
                )
            if new != old or name not in self._types or name == ANNOTATION:
                array = merge_values(
                    array,
                    list(map(parse_value, old)),
                    list(map(parse_value, new)),
                    name,
                )
                changed[name] = array
            types = self._types.setdefault(name, [])
            if array.null_count < len(array) and array.type not in types:
                types.append(array.type)
        self._changed |= changed.keys()
        return changed

    def _schema(self) -> Any:
        """Return the source's schema with types for the new values, new columns behind, and its metadata."""
        fields = {field.name: field for field in self._source.schema}
        for name in [name for name in self._types if name in self._changed]:
            field, types = (
                fields.get(name, pa.field(name, pa.float64())),
                self._types[name],
            )
            fields[name] = field.with_type(
                reduce(wider, types or [field.type])
            ).with_nullable(True)
            with contextlib.suppress(pa.ArrowException):
                # a float does not hold large integers
                if len(types) < 2 or all(
                    len(rows) for _, rows in self._rows(pa.schema([fields[name]]))
                ):
                    continue
            fields[name] = fields[name].with_type(
                reduce(partial(wider, text=True), types)
            )
        metadata = dict(self._source.schema.metadata or {})
        with contextlib.suppress(KeyError, ValueError, TypeError, AttributeError):
            pandas = json.loads(metadata[b"pandas"])  # without columns of another type
            pandas["columns"] = [
                x for x in pandas["columns"] if x["field_name"] not in self._changed
            ]
            metadata[b"pandas"] = json.dumps(pandas).encode()
        return pa.schema(fields.values(), metadata or None)

    def _rows(self, schema: Any) -> Iterator[tuple[int, Any]]:
        """Yield the rows that were put, as batches in the schema, each with its row group's number."""
        for (group, batch), (rows, changed) in zip(
            self._source.batches(), self._spool.all(), strict=False
        ):
            if rows:
                columns = _columns(_select(batch, rows)) | changed
                arrays = (
                    columns.get(name, pa.nulls(len(rows))) for name in schema.names
                )
                widest = list(map(widened, arrays, schema.types))
                yield group, pa.RecordBatch.from_arrays(widest, schema=schema)


def _columns(batch: Any) -> dict[str, Any]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _select(batch: Any, rows: list[int]) -> Any:
    """Return some rows of a batch, slice by slice, because `take` does not know every type."""
    return (
        batch
        if len(rows) == len(batch)
        else pa.concat_batches([batch.slice(at, 1) for at in rows])
    )


def _row_groups(batches: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    """Join the batches of each row group of the source into one table, or several if it is large."""
    pending: list[Any] = []
    current = size = 0
    for group, batch in batches:
        if pending and (group != current or size > _GROUP):
            yield pa.Table.from_batches(pending)
            pending, size = [], 0
        pending.append(batch)
        size, current = size + batch.nbytes, group
    if pending:
        yield pa.Table.from_batches(pending)


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Turn pyarrow's errors of reading into a UsageError."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno:
            raise UsageError(
                f"{name}: cannot be read: {os.strerror(error.errno)}"
            ) from None
        raise UsageError(
            f"{name}: is damaged, or no whole Parquet file ({_message(error)}); write it anew, or copy it "
            "again"
        ) from None


def _message(error: BaseException) -> str:
    """Return the first line of the library's own message, in characters that are safe to print."""
    first = (str(error).splitlines() or [""])[0]
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in first)[
        :150
    ].rstrip(". ")
