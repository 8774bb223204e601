"""Arrow values → JSON, and records → a Parquet table. pyarrow is an extra: only Parquet files lead here.

JSON holds less than Arrow does: binary becomes its size, dates and times become text.

A file needs its schema before its first row, and the last record may hold a score that does not fit its
column. So records are spooled, and the file is written at the end. Columns of a Parquet INPUT that did not
change are its own, with their types and metadata. All others are made of the records'
JSON: objects such as `ruler` are structs, and a column of several types becomes JSON text.
"""

from __future__ import annotations

import contextlib
import decimal
import json
import math
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from ruler_cli.errors import InputChanged, OutputError, RulerError, UsageError
from ruler_cli.files.containers import Writer
from ruler_cli.files.error_map import message_of
from ruler_cli.files.parse import parse_value
from ruler_cli.files.scratch import Scratch
from ruler_cli.files.splice import read_object
from ruler_cli.settings.models import OnFailure
from ruler_cli.types import Path

BATCH = 4 << 20
"""Bytes of rows that are decoded at once."""
MAX_ROWS = 256
"""Most rows decoded at once: a column with a dictionary is much smaller in the file than in memory."""
_GROUP = 64 << 20
"""Bytes of Arrow data that one row group is made of at most."""
_NO_JSON = re.compile(r": (\w+_)?binary|extension<")
"""Members of an Arrow type, as text, that JSON does not hold."""
_EXACT = 1 << 53
"""Integers up to this are floats too."""


def cells(column: Any) -> list[bytes]:
    """Encode every value of an Arrow array as JSON."""
    return [orjson.dumps(value, default=_other_type) for value in _values(column)]


def _values(column: Any) -> list[Any]:
    """Return every value of an Arrow array as a type that orjson writes."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _values(column.storage)
    if types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if types.is_struct(kind):
        names = [field.name for field in kind]
        members = zip(*map(_values, column.flatten()), strict=True)
        found = members if names else [()] * len(column)
        there = column.is_valid().to_pylist()
        dicts = (dict(zip(names, row, strict=True)) for row in found)
        return [row if valid else None for row, valid in zip(dicts, there, strict=True)]
    if types.is_map(kind):
        pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        rows = _lists(column.cast(pairs))
        return [row and {str(x["key"]): x["value"] for x in row} for row in rows]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):  # fmt: skip
        return _lists(column)
    if types.is_duration(kind):  # an integer in the unit of the column
        return list(column.cast("int64").to_pylist())
    if types.is_temporal(kind):  # ISO 8601
        try:
            texts = column.cast("string").to_pylist()
        except pa.ArrowException:  # a time zone that this machine does not know
            texts = column.cast(pa.timestamp(kind.unit)).cast("string").to_pylist()
        return [text and text.replace(" ", "T") for text in texts]
    if types.is_floating(kind):
        numbers = column.cast("float64").to_pylist()
        return [
            x if x is None or math.isfinite(x) else orjson.Fragment(json.dumps(x))
            for x in numbers
        ]
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # text that is no UTF-8
        raws = column.cast("large_binary").to_pylist()
        return [raw and raw.decode(errors="replace") for raw in raws]


def _other_type(value: Any) -> Any:
    """Return a value that orjson writes in place of one that it does not know."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(str(value))
    return str(value)


def _lists(column: Any) -> list[Any]:
    items = _values(column.flatten())
    lists = []
    at = 0
    for size in pc.list_value_length(column).to_pylist():
        lists.append(None if size is None else items[at : at + size])
        at += size or 0
    return lists


class ColumnShape:
    """The JSON values that a column, a member of its objects or an item of its lists has."""

    def __init__(self) -> None:
        self._kinds: set[type] = set()
        self._members: dict[str, ColumnShape] = {}
        self._items: ColumnShape | None = None
        self._largest = 0

    def add(self, value: Any) -> None:
        """Add a value."""
        if value is None:
            return
        self._kinds.add(type(value))
        if isinstance(value, dict):
            for name, member in value.items():
                self._members.setdefault(_encodable(name), ColumnShape()).add(member)
        elif isinstance(value, list):
            self._items = self._items or ColumnShape()
            for item in value:
                self._items.add(item)
        elif isinstance(value, int):
            self._largest = max(self._largest, abs(value))

    @property
    def type(self) -> Any:
        """The Arrow type that holds all values; text if there is none but JSON text."""
        kinds = self._kinds
        if not kinds:
            return pa.null()
        if kinds == {dict} and self._members:  # Parquet has no struct without members
            members = [(name, shape.type) for name, shape in self._members.items()]
            return pa.struct(members)
        if kinds == {list} and self._items is not None:
            return pa.list_(self._items.type)
        if kinds == {bool}:
            return pa.bool_()
        if kinds == {int} and self._largest < 1 << 63:
            return pa.int64()
        # a score may stand beside rewards that are true or false
        if kinds <= {bool, int, float} and self._largest <= _EXACT:
            return pa.float64()
        return pa.string()


def _fitted(value: Any, kind: Any) -> Any:
    """Return a JSON value as pyarrow takes it for a type."""
    if value is None:
        return None
    if types.is_struct(kind):
        members = ((_encodable(name), member) for name, member in value.items())
        return {name: _fitted(item, kind.field(name).type) for name, item in members}
    if types.is_list(kind):
        return [_fitted(item, kind.value_type) for item in value]
    if types.is_floating(kind):
        return float(value)
    if types.is_string(kind):
        is_text = isinstance(value, str)
        return _encodable(value if is_text else json.dumps(value, ensure_ascii=False))
    return value


def _encodable(text: str) -> str:
    r"""Return text that Arrow takes: it is UTF-8, so a lone surrogate becomes its \u escape."""
    return text.encode("utf-8", "backslashreplace").decode()


class TableWriter(Writer):
    """Spools records, and writes them as a table at the end; rows of `table`, a Parquet INPUT, keep the rest."""

    def __init__(self, stream: BinaryIO, name: str, table: Any) -> None:
        super().__init__(stream, name, table)
        self._table = table
        self._schema = pa.schema([]) if self._table is None else self._table.schema
        self._rows = iter(()) if self._table is None else self._table.records()
        self._spool = Scratch()
        weakref.finalize(self, self._spool.close)  # a run that stops never calls `end`
        types_of = {field.name: str(field.type) for field in self._schema}
        self._fixed = {name for name, kind in types_of.items() if _NO_JSON.search(kind)}
        self._shapes: dict[str, ColumnShape] = {}
        """Columns that are made anew, in order."""

    def begin(
        self, ruler: Path, columns: Callable[[], set[str]], on_failure: OnFailure
    ) -> None:
        """Raise UsageError for a column of INPUT that gets a score and cannot be made of its JSON."""
        if self._fixed:
            self._refuse(columns(), UsageError)

    def _refuse(self, names: Iterable[str], kind: type[RulerError]) -> None:
        for name in self._fixed.intersection(names):
            raise kind(
                f"the column `{name}` gets a score, and holds binary data that JSON does not",
                "name OUTPUT .jsonl",
                place=self.name,
            )

    def put(self, number: int, record: bytes) -> None:
        """Spool a record, and note the columns that it changes."""
        new = _members(record)
        old = dict[str, bytes]()
        if self._table is not None:
            row = next((line for line in self._rows if line.number == number), None)
            if row is None:
                raise InputChanged(self._table.name, f"row {number} is gone")
            old = _members(row.raw)
        for name in {**new, **old}:
            if name not in self._shapes and old.get(name) != new.get(name):
                self._refuse([name], OutputError)
                self._shapes[name] = ColumnShape()
        self._spool.put((number, record))

    def end(self) -> None:
        """Write every record, in a schema that holds all of them."""
        with self._spool:
            schema = self._new_schema()
            try:
                with pq.ParquetWriter(pa.PythonFile(self.stream, "w"), schema) as file:
                    for table in _tables(self._batches(schema)):
                        file.write_table(table, len(table))
            except pa.ArrowException as error:
                # a type that this version reads and does not write
                raise OutputError(
                    f"pyarrow cannot write it ({message_of(error)})",
                    "update pyarrow, or leave out the column that it names",
                    place=self.name,
                ) from None

    def _new_schema(self) -> Any:
        """Return the schema of the source, with other types for columns that changed, and new ones behind."""
        for _, record in self._spool.all():
            members = _members(record)
            for name, shape in self._shapes.items():
                shape.add(parse_value(members.get(name, b"null")))
        fields = {field.name: field for field in self._schema}
        for name, shape in self._shapes.items():
            field = fields.get(name, pa.field(name, pa.float64()))
            kind = shape.type
            if not types.is_null(kind):
                field = field.with_type(kind)
            fields[name] = field.with_nullable(True)
        metadata = dict(self._schema.metadata or {})
        # what pandas notes of columns that changed is left out
        with contextlib.suppress(KeyError, ValueError, TypeError, AttributeError):
            pandas = json.loads(metadata[b"pandas"])
            noted = pandas["columns"]
            pandas["columns"] = [
                x for x in noted if x["field_name"] not in self._shapes
            ]
            metadata[b"pandas"] = json.dumps(pandas).encode()
        return pa.schema(fields.values(), metadata or None)

    def _batches(self, schema: Any) -> Iterator[Any]:
        """Yield the records as batches in the schema."""
        for kept, records in self._with_rows():
            rows = list(map(_members, records))
            arrays = []
            for field in schema:
                if field.name in self._shapes:
                    values = (parse_value(row.get(field.name, b"null")) for row in rows)
                    fitted = [_fitted(value, field.type) for value in values]
                    arrays.append(pa.array(fitted, field.type))
                else:
                    arrays.append(kept.column(field.name))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _with_rows(self) -> Iterator[tuple[Any, list[bytes]]]:
        """Yield the records in pieces of a bounded size, each with its rows of a Parquet INPUT."""
        spooled = self._spool.all()
        if self._table is None:
            records = list[bytes]()
            size = 0
            for _, record in spooled:
                records.append(record)
                size += len(record)
                if len(records) == MAX_ROWS or size > BATCH:
                    yield None, records
                    records = []
                    size = 0
            if records:
                yield None, records
            return
        put = next(spooled, None)
        start = 0
        for batch in self._table.batches():
            rows = list[Any]()
            records = []
            while put is not None and put[0] <= start + len(batch):
                # slice by slice, because `take` does not know every type
                rows.append(batch.slice(put[0] - start - 1, 1))
                records.append(put[1])
                put = next(spooled, None)
            start += len(batch)
            if rows:
                yield pa.concat_batches(rows), records


def _members(record: bytes) -> dict[str, bytes]:
    """Return name → JSON of the members of an object."""
    members = read_object(record).members
    return {name: record[start:end] for name, (_, start, end) in members.items()}


def _tables(batches: Iterator[Any]) -> Iterator[Any]:
    """Join batches into tables of bounded size, each of which becomes a row group."""
    pending = list[Any]()
    size = 0
    for batch in batches:
        pending.append(batch)
        size += batch.nbytes
        if size > _GROUP:
            yield pa.Table.from_batches(pending)
            pending = []
            size = 0
    if pending:
        yield pa.Table.from_batches(pending)
