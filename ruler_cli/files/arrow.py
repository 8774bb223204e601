"""Arrow values → JSON, and records → a Parquet table. pyarrow is an extra: only Parquet files lead here.

JSON holds less than Arrow does: binary becomes its size, dates and times become text, durations seconds.

A file needs its schema before its first row, and the last record may hold a score that does not fit its
column. So records are spooled, and the file is written at the end. Columns of a Parquet INPUT that did not
change are its own, with their types and metadata. All others are made of the records' JSON, with the type that
pyarrow infers: objects such as `ruler` are structs, and a column that no type holds is JSON text. Such a column is
marked, and read again as the JSON that it is.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
import uuid
import weakref
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from ruler_cli.errors import InputChanged, OutputError, UnreadableError
from ruler_cli.files.containers import Container, Writer
from ruler_cli.files.error_map import message_of
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.scratch import Scratch
from ruler_cli.files.splice import read_object

BATCH = 4 << 20
"""Bytes of rows that are decoded at once."""
MAX_ROWS = 256
"""Most rows decoded at once: a column with a dictionary is much smaller in the file than in memory."""
_NO_JSON = re.compile(r": (\w+_)?binary|extension<")
"""Members of an Arrow type, as text, that JSON does not hold."""
_NOT_HELD = (
    pa.ArrowException,
    TypeError,
    ValueError,
    RecursionError,
    UnreadableError,
)
"""Errors for values that no type, or not this one, holds."""
_MARK = {b"ruler": b"JSON"}
"""Metadata of a column of JSON text."""


def objects(batch: Any) -> list[bytes]:
    """Encode every row of a batch as a JSON object, its keys in the order of the columns."""
    columns = []
    for field, column in zip(
        batch.schema,
        batch.columns,
        strict=True,
    ):
        # asked for where there are none, it makes the rest four times as slow
        maps = "lossy" if "map<" in str(field.type) else None
        values = column.to_pylist(maps_as_pydicts=maps)
        is_json = _MARK.items() <= (field.metadata or {}).items()
        key = dump(field.name)
        members = []
        for value in values:
            text = value if is_json and value else _encode(value)
            members.append(key + b":" + text.encode())
        columns.append(members)
    rows = zip(*columns, strict=True)
    return [b"{%s}" % b",".join(row) for row in rows]


_DEEPEST = 64
"""Levels of lists and objects in a column; one that is nested more deeply is JSON text as a whole."""


def _json_value(value: Any) -> Any:
    """Return a value of JSON in place of one that JSON does not hold."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, decimal.Decimal):
        is_integer = value == value.to_integral_value()
        return int(value) if is_integer else float(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, uuid.UUID):
        return str(value)
    return value.isoformat()


# NaN and Infinity, for which orjson writes null, are read by every JSON library
_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=_json_value
).encode


def _wider(kind: Any, values: Sequence[Any]) -> Any:
    """Return the type of a column that holds these values as well; None if it can only be JSON text."""
    # refuses what Arrow cannot hold: lone surrogates, integers of any size
    orjson.dumps(values)
    inferred = pa.infer_type(values)
    schemas = [pa.schema([("x", member)]) for member in (kind, inferred)]
    unified = pa.unify_schemas(schemas, promote_options="permissive")
    wider = unified.field("x").type
    name = str(wider)
    depth = max(accumulate((sign == "<") - (sign == ">") for sign in name))
    # no file holds an object without members
    return None if "struct<>" in name or depth > _DEEPEST else wider


def _held(kind: Any, values: Sequence[Any]) -> Any:
    """Return the type if it holds these values."""
    pa.array(values, kind)
    return kind


def _text(raw: bytes) -> str | None:
    """Return JSON as it stands, None for null."""
    if raw == b"null":
        return None
    return _encodable(raw.decode("utf-8", "surrogatepass"))


def _encodable(text: str) -> str:
    r"""Return text that Arrow takes: it is UTF-8, so a lone surrogate becomes its \u escape."""
    return text.encode("utf-8", "backslashreplace").decode()


class TableWriter(Writer):
    """Spools records, and writes them as a table at the end; rows of a Parquet INPUT keep the rest."""

    form = "table"

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        source: Container | None,
    ) -> None:
        super().__init__(
            stream,
            name,
            source,
        )
        is_table = source is not None and source.form == self.form
        table: Any = source if is_table else None
        self._table = table
        self._schema = pa.schema([]) if table is None else table.schema
        self._lines = iter(()) if table is None else table.records()
        self._spool = Scratch()
        # a run that stops never calls `end`
        weakref.finalize(self, self._spool.close)
        self._types: dict[str, Any] = {}
        """Columns that are made anew, in order, with their types; None: JSON text."""

    def put(
        self,
        number: int,
        record: bytes,
    ) -> None:
        """Spool a record, and note the columns that it changes."""
        new = _members(record)
        old = dict[str, bytes]()
        if self._table is not None:
            lines = (line for line in self._lines if line.number == number)
            line = next(lines, None)
            if line is None:
                raise InputChanged(self._table.name, f"row {number} is gone")
            old = _members(line.raw)
        for name in {**new, **old}:
            if name in self._types or old.get(name) == new.get(name):
                continue
            if name in old and _NO_JSON.search(
                str(self._schema.field(name).type)
            ):
                raise OutputError(
                    f"the column `{name}` gets a score, and holds binary data that JSON does not",
                    "name OUTPUT .jsonl",
                    place=self.name,
                )
            self._types[name] = pa.null()
        self._spool.put((number, record))

    def end(self) -> None:
        """Write every record, in a schema that holds all of them."""
        with self._spool:
            self._infer_types()
            schema = self._new_schema()
            try:
                stream = pa.PythonFile(self.stream, "w")
                with pq.ParquetWriter(stream, schema) as file:
                    for kept, records in self._pieces():
                        arrays = []
                        for field in schema:
                            if field.name in self._types:
                                arrays.append(self._array(field, records))
                            else:
                                arrays.append(kept.column(field.name))
                        batch = pa.RecordBatch.from_arrays(
                            arrays, schema=schema
                        )
                        file.write_batch(batch)
            except pa.ArrowException as error:
                # a type that this version reads and does not write
                raise OutputError(
                    f"pyarrow cannot write it ({message_of(error)})",
                    "update pyarrow, or leave out the column that it names",
                    place=self.name,
                ) from None

    def _infer_types(self) -> None:
        """Find a type for each column that changed; one is text if no type holds all of its values."""
        for narrowed in (_wider, _held):
            for _, records in self._pieces():
                for name, kind in self._types.items():
                    if kind is None:
                        continue
                    try:
                        values = list(map(parse_value, _column(records, name)))
                        self._types[name] = narrowed(kind, values)
                    except _NOT_HELD:
                        self._types[name] = None

    def _new_schema(self) -> Any:
        """Return the schema of the source, with other types for columns that changed, and new ones behind."""
        fields = {field.name: field for field in self._schema}
        for name, kind in self._types.items():
            if kind is None:
                field = pa.field(
                    name,
                    pa.string(),
                    metadata=_MARK,
                )
            elif types.is_null(kind):
                # a new column of nothing but null is a score that every record lacks
                field = fields.get(name, pa.field(name, pa.float64()))
                field = field.with_nullable(True)
            else:
                field = pa.field(name, kind)
            fields[name] = field
        metadata = dict(self._schema.metadata or {})
        # what pandas notes of columns may hold no more
        metadata.pop(b"pandas", None)
        return pa.schema(fields.values(), metadata or None)

    def _pieces(self) -> Iterator[tuple[Any, list[dict[str, bytes]]]]:
        """Yield the rows of INPUT in pieces of a bounded size, if it is a table, and the members of their records."""
        slices = _slices(self._table)
        kept = list[Any]()
        records = list[dict[str, bytes]]()
        size = 0
        for number, record in self._spool.all():
            if self._table is not None:
                kept.append(next(row for at, row in slices if at == number))
            records.append(_members(record))
            size += len(record)
            if size > BATCH:
                yield kept and pa.concat_batches(kept), records
                kept, records, size = [], [], 0
        if records:
            yield kept and pa.concat_batches(kept), records

    def _array(
        self,
        field: Any,
        records: Sequence[dict[str, bytes]],
    ) -> Any:
        """Return a column that is made anew."""
        raws = _column(records, field.name)
        if self._types[field.name] is None:
            return pa.array(map(_text, raws), field.type)
        return pa.array(list(map(parse_value, raws)), field.type)


def _slices(table: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number of each row of a Parquet INPUT, and the row."""
    number = 0
    for batch in table.batches() if table is not None else ():
        for at in range(len(batch)):
            number += 1
            # because `take` does not know every type
            yield number, batch.slice(at, 1)


def _column(records: Sequence[dict[str, bytes]], name: str) -> list[bytes]:
    return [members.get(name, b"null") for members in records]


def _members(record: bytes) -> dict[str, bytes]:
    """Return name → JSON of the members of an object, the names as Arrow takes them."""
    members = read_object(record).members
    return {
        _encodable(name): record[start:end]
        for name, (_, start, end) in members.items()
    }
