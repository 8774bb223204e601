"""Parquet: each row is a record, as one JSON object; records → a table.

Rows come in small batches, so memory depends on the size of rows and pages, and not on that of row groups.

A file needs its schema before its first row, and the last record may hold a score that does not fit its
column. So records are spooled, and the file is written at the end. Columns of a Parquet INPUT that did not
change are its own, with their types and metadata. All others are made of the records'
JSON: objects such as `ruler` are structs, and a column of several types becomes JSON text.
"""

from __future__ import annotations

import contextlib
import json
import re
import weakref
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib.util import find_spec
from typing import Any, BinaryIO, Self

import orjson

from ruler_cli.errors import InputChanged, OutputError, UsageError
from ruler_cli.files.container import MAX_BYTES, Container, Writer
from ruler_cli.files.error_map import message_of, reading
from ruler_cli.files.parse import parse_value
from ruler_cli.files.scratch import Scratch
from ruler_cli.files.source import Source
from ruler_cli.files.splice import read_object
from ruler_cli.types import Line

MAGIC = b"PAR1"
_BATCH = 4 << 20
"""Bytes of rows that are decoded at once."""
_MAX_ROWS = 256
"""Most rows decoded at once: a column with a dictionary is much smaller in the file than in memory."""
_READ_AHEAD = 1 << 20
"""Bytes that are read ahead in each column."""
_GROUP = 64 << 20
"""Bytes of Arrow data that one row group is made of at most."""
_NO_JSON = re.compile(r": (\w+_)?binary|extension<")
"""Members of an Arrow type, as text, that JSON does not hold."""
_DECODER = (ValueError, OverflowError, OSError)
"""Errors of pyarrow beside its own; its OSErrors have no number."""


class Parquet(Container):
    """A Parquet file that is open; rows are numbered from 1."""

    rank = 3
    endings = (".parquet",)
    packed = (".parquet",)
    form = "Parquet"
    unit = "row"
    rewritable = True

    def __init__(self, name: str, stream: BinaryIO, most: int = MAX_BYTES) -> None:
        """`stream` is seekable, stays open, and has no other reader; UsageError if it is no Parquet file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        super().__init__(name, most)
        # one handle for every reader: it keeps an offset for each of them
        self._file = pa.PythonFile(stream, mode="r")
        self._errors = (pa.ArrowException, *_DECODER)
        with reading(name, *self._errors):
            self.metadata = pq.read_metadata(self._file)
            self.schema = self.metadata.schema.to_arrow_schema()
        names = self.schema.names
        twice = next((column for column in names if names.count(column) > 1), None)
        if twice is not None:
            problem = f"two columns are named `{twice}`"
            raise UsageError(problem, "rename one of them", place=name)

    @classmethod
    def open(cls, source: Source) -> Self | None:
        """Open a Parquet file; one from a pipe is kept on disk."""
        if not source.head.startswith(MAGIC):
            return None
        cls.refuse_writing(source.name)
        remote = source.location.remote
        stream = source.stream if remote else source.seekable()
        return cls(source.name, stream, source.most)

    @classmethod
    def refuse_writing(cls, name: str) -> None:
        """Raise UsageError if pyarrow is not installed."""
        if find_spec("pyarrow") is None:
            remedy = "install it with: pip install pyarrow"
            raise UsageError("Parquet needs the package pyarrow", remedy, place=name)

    @classmethod
    def writer(cls, stream: BinaryIO, name: str, source: Container | None) -> Writer:
        """Return a writer of a table."""
        table = source if isinstance(source, Parquet) else None
        return _TableWriter(stream, name, table)

    def records(self) -> Iterator[Line]:
        """Yield every row as the JSON text of one object, its keys in the order of the columns."""
        number = 0
        for batch in self.batches():
            large = batch.nbytes > self.most  # text is made of one row at a time
            rows = (
                (batch.slice(at, 1) for at in range(len(batch))) if large else [batch]
            )
            for piece in rows:
                if piece.nbytes > self.most:
                    number += 1
                    yield self.skipped(number, number - 1, piece.nbytes)
                    continue
                for raw in self._encoded(piece):
                    number += 1
                    if len(raw) > self.most:
                        yield self.skipped(number, number - 1, len(raw))
                    else:
                        yield self.line(number, number - 1, raw)

    def _encoded(self, batch: Any) -> Iterator[bytes]:
        """Yield the rows of a batch as JSON."""
        from ruler_cli.files.arrow import cells

        with reading(self.name, *self._errors):
            columns = list(map(cells, batch.columns))
        for row in zip(*columns, strict=True):
            yield b"{" + b",".join(map(bytes.__add__, self._keys, row)) + b"}"

    @cached_property
    def _keys(self) -> list[bytes]:
        return [orjson.dumps(name) + b":" for name in self.schema.names]

    def batches(self) -> Iterator[Any]:
        """Yield the rows as Arrow record batches."""
        import pyarrow.parquet as pq

        with reading(self.name, *self._errors):
            # `pre_buffer` would hold a whole row group in memory, threads would hold a batch each
            file = pq.ParquetFile(
                self._file,
                metadata=self.metadata,
                pre_buffer=False,
                buffer_size=_READ_AHEAD,
            )
            for number in range(self.metadata.num_row_groups):
                group = self.metadata.row_group(number)
                fitting = _BATCH * group.num_rows // max(1, group.total_byte_size)
                rows = max(1, min(_MAX_ROWS, fitting))
                yield from file.iter_batches(rows, [number], use_threads=False)


class _TableWriter:
    """Spools records, and writes them as a table at the end; rows of `source` keep unchanged columns."""

    def __init__(self, stream: BinaryIO, name: str, source: Parquet | None) -> None:
        self._stream, self._name, self._source = stream, name, source
        self._rows = iter(()) if source is None else source.records()
        self._spool = Scratch()
        weakref.finalize(self, self._spool.close)  # a run that stops never calls `end`
        self._changed: dict[str, None] = {}
        """Names of columns that are made anew, in order."""

    def put(self, number: int, record: bytes) -> None:
        """Spool a record, and note the columns that it changes."""
        new, old = _members(record), self._old(number)
        for name in {**new, **old}:
            if name not in self._changed and old.get(name) != new.get(name):
                self._refuse_binary(name)
                self._changed[name] = None
        self._spool.put((number, record))

    def _refuse_binary(self, name: str) -> None:
        """Raise OutputError for a column of INPUT that cannot be made of its JSON."""
        schema = None if self._source is None else self._source.schema
        if schema is None or name not in schema.names:
            return
        if _NO_JSON.search(str(schema.field(name).type)):
            problem = f"the column `{name}` gets a score, and holds binary data that JSON does not"
            raise OutputError(problem, "name OUTPUT .jsonl", place=self._name)

    def _old(self, number: int) -> dict[str, bytes]:
        """Return the members of the source's row with this number, which are read one after another."""
        if self._source is None:
            return {}
        row = next((line for line in self._rows if line.number == number), None)
        if row is None:
            raise InputChanged(self._source.name, f"row {number} is gone")
        return _members(row.raw)

    def end(self) -> None:
        """Write every record, in a schema that holds all of them."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with self._spool:
            schema = self._schema()
            target = pa.PythonFile(self._stream, "w")
            try:
                with pq.ParquetWriter(target, schema) as file:
                    for table in _tables(self._batches(schema)):
                        file.write_table(table, len(table))
            except pa.ArrowException as error:
                # a type that this version reads and does not write
                problem = f"pyarrow cannot write it ({message_of(error)})"
                remedy = "update pyarrow, or leave out the column that it names"
                raise OutputError(problem, remedy, place=self._name) from None

    def _schema(self) -> Any:
        """Return the schema of the source, with other types for columns that changed, and new ones behind."""
        import pyarrow as pa

        from ruler_cli.files.arrow import ColumnShape

        shapes = {name: ColumnShape() for name in self._changed}
        for _, record in self._spool.all():
            members = _members(record)
            for name, shape in shapes.items():
                shape.add(parse_value(members.get(name, b"null")))
        before = pa.schema([]) if self._source is None else self._source.schema
        fields = {field.name: field for field in before}
        for name, shape in shapes.items():
            field, kind = fields.get(name, pa.field(name, pa.float64())), shape.type
            if not pa.types.is_null(kind):
                field = field.with_type(kind)
            fields[name] = field.with_nullable(True)
        return pa.schema(fields.values(), self._metadata(before.metadata))

    def _metadata(self, own: Any) -> dict[bytes, bytes] | None:
        """Return the metadata of the source; what pandas notes of columns that changed is left out."""
        metadata = dict(own or {})
        with contextlib.suppress(KeyError, ValueError, TypeError, AttributeError):
            pandas = json.loads(metadata[b"pandas"])
            columns = pandas["columns"]
            pandas["columns"] = [
                x for x in columns if x["field_name"] not in self._changed
            ]
            metadata[b"pandas"] = json.dumps(pandas).encode()
        return metadata or None

    def _batches(self, schema: Any) -> Iterator[Any]:
        """Yield the records as batches in the schema."""
        import pyarrow as pa

        from ruler_cli.files.arrow import array_of

        for kept, records in self._with_rows():
            rows = list(map(_members, records))
            arrays = []
            for field in schema:
                if field.name in self._changed:
                    values = (row.get(field.name, b"null") for row in rows)
                    arrays.append(array_of(map(parse_value, values), field.type))
                else:
                    arrays.append(kept.column(field.name))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _with_rows(self) -> Iterator[tuple[Any, list[bytes]]]:
        """Yield the records in pieces, each with its rows of the source if INPUT is Parquet."""
        spooled = self._spool.all()
        if self._source is None:
            yield from ((None, records) for records in _pieces(spooled))
            return
        put, start = next(spooled, None), 0
        for batch in self._source.batches():
            rows, records = list[int](), list[bytes]()
            while put is not None and put[0] <= start + len(batch):
                rows.append(put[0] - start - 1)
                records.append(put[1])
                put = next(spooled, None)
            start += len(batch)
            if rows:
                yield _select(batch, rows), records


def _members(record: bytes) -> dict[str, bytes]:
    """Return name → JSON of the members of an object."""
    members = read_object(record).members
    return {name: record[start:end] for name, (_, start, end) in members.items()}


def _pieces(spooled: Iterable[tuple[int, bytes]]) -> Iterator[list[bytes]]:
    """Yield records in lists of a bounded number and size."""
    piece, size = list[bytes](), 0
    for _, record in spooled:
        piece.append(record)
        size += len(record)
        if len(piece) == _MAX_ROWS or size > _BATCH:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _select(batch: Any, rows: list[int]) -> Any:
    """Return some rows of a batch, slice by slice, because `take` does not know every type."""
    import pyarrow as pa

    if len(rows) == len(batch):
        return batch
    return pa.concat_batches([batch.slice(at, 1) for at in rows])


def _tables(batches: Iterator[Any]) -> Iterator[Any]:
    """Join batches into tables of bounded size, each of which becomes a row group."""
    import pyarrow as pa

    pending, size = list[Any](), 0
    for batch in batches:
        pending.append(batch)
        size += batch.nbytes
        if size > _GROUP:
            yield pa.Table.from_batches(pending)
            pending, size = [], 0
    if pending:
        yield pa.Table.from_batches(pending)
