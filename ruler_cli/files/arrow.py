"""Arrow values → JSON, and records → a Parquet table. pyarrow is an extra: only Parquet files lead here.

JSON holds less than Arrow does: binary becomes its size, dates and times become text, durations seconds.

A file needs its schema before its first row, and the last record may hold a score that does not fit its column. So
records are spooled, and the file is written at the end, with the types that pyarrow infers from the JSON: objects such
as `ruler` are structs, and a column that no type holds is JSON text. Such a column is marked, and read again as the
JSON that it is. A Parquet INPUT with a column that JSON does not hold is refused, so that no value changes.
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

from ruler_cli.errors import OutputError, UnreadableError, UsageError
from ruler_cli.files.containers import Container, Writer
from ruler_cli.files.error_map import message_of
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.scratch import Scratch
from ruler_cli.files.splice import read_object

BATCH = 4 << 20
"""Bytes of rows that are decoded at once."""
MAX_ROWS = 256
"""Most rows decoded at once: a column with a dictionary is much smaller in the file than in memory."""
_NO_JSON = re.compile(
    r"(?:^|: )(?:\w+_)?(?:binary|decimal|duration|map<|extension<)"
)
"""The types, as text, whose values change in JSON."""
_NOT_HELD = (
    pa.ArrowException,
    TypeError,
    ValueError,
    OverflowError,
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
    """Return a JSON value in place of a value that JSON cannot hold."""
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
    """Return the type of a column that also holds these values; None if the column can only be JSON text."""
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
    """Spools records, and writes them as a table at the end, with the metadata of a Parquet INPUT."""

    form = "table"

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        source: Container | None,
    ) -> None:
        """UsageError if INPUT is a table with values that would change."""
        super().__init__(stream, name, source)
        self._types: dict[str, Any] = {}
        """Columns in order, with their types; None: JSON text."""
        self._metadata: dict[bytes, bytes] = {}
        schema = source.schema if source is not None else None
        for field in schema or ():
            if _NO_JSON.search(str(field.type)):
                raise UsageError(
                    f"the column `{field.name}` of INPUT is {field.type}, which OUTPUT cannot hold unchanged",
                    "give OUTPUT a name that ends in .jsonl, or leave out the column",
                    place=name,
                )
            self._types[field.name] = pa.null()
        if schema is not None:
            self._metadata |= schema.metadata or {}
        # what they note of columns may hold no more
        for key in (b"pandas", b"huggingface"):
            self._metadata.pop(key, None)
        self._spool = Scratch()
        # a run that stops never calls `end`
        weakref.finalize(self, self._spool.close)

    def put(
        self,
        number: int,
        record: bytes,
    ) -> None:
        """Spool a record."""
        for name in _members(record):
            self._types.setdefault(name, pa.null())
        self._spool.put(record)

    def end(self) -> None:
        """Write every record, in a schema that holds all of them."""
        with self._spool:
            self._infer_types()
            fields = []
            for name, kind in self._types.items():
                if kind is None:
                    field = pa.field(name, pa.string(), metadata=_MARK)
                elif types.is_null(kind):
                    # a score that every record lacks
                    field = pa.field(name, pa.float64())
                else:
                    field = pa.field(name, kind)
                fields.append(field)
            schema = pa.schema(fields, self._metadata or None)
            try:
                stream = pa.PythonFile(self.stream, "w")
                with pq.ParquetWriter(stream, schema) as file:
                    for records in self._pieces():
                        arrays = [
                            self._array(field, records) for field in fields
                        ]
                        file.write_batch(
                            pa.RecordBatch.from_arrays(arrays, schema=schema)
                        )
            except pa.ArrowException as error:
                # a type that this version reads and does not write
                raise OutputError(
                    f"pyarrow cannot write it ({message_of(error)})",
                    "update pyarrow, or leave out the column that it names",
                    place=self.name,
                ) from None

    def _infer_types(self) -> None:
        """Find a type for each column; one is text if no type holds all of its values."""
        for narrowed in (_wider, _held):
            for records in self._pieces():
                for name, kind in self._types.items():
                    if kind is None:
                        continue
                    try:
                        values = list(map(parse_value, _column(records, name)))
                        self._types[name] = narrowed(kind, values)
                    except _NOT_HELD:
                        self._types[name] = None

    def _pieces(self) -> Iterator[list[dict[str, bytes]]]:
        """Yield the members of the records in pieces of a bounded size."""
        records = list[dict[str, bytes]]()
        size = 0
        for record in self._spool.all():
            records.append(_members(record))
            size += len(record)
            if size > BATCH:
                yield records
                records = []
                size = 0
        if records:
            yield records

    def _array(
        self,
        field: Any,
        records: Sequence[dict[str, bytes]],
    ) -> Any:
        raws = _column(records, field.name)
        if self._types[field.name] is None:
            return pa.array(map(_text, raws), field.type)
        return pa.array(list(map(parse_value, raws)), field.type)


def _column(records: Sequence[dict[str, bytes]], name: str) -> list[bytes]:
    return [members.get(name, b"null") for members in records]


def _members(record: bytes) -> dict[str, bytes]:
    """Return name → JSON of the members of an object, the names as Arrow takes them."""
    members = read_object(record).members
    return {
        _encodable(name): record[start:end]
        for name, (_, start, end) in members.items()
    }
