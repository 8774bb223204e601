"""Arrow values → JSON, and JSON values → Arrow arrays.

JSON holds less than Arrow does: binary becomes its size, dates and times become text. pyarrow is an extra:
only Parquet files lead here.
"""

from __future__ import annotations

import decimal
import json
import math
from collections.abc import Iterable
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

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
        return _structs(column)
    if types.is_map(kind):
        pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        rows = _lists(column.cast(pairs))
        return [row and {str(x["key"]): x["value"] for x in row} for row in rows]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):  # fmt: skip
        return _lists(column)
    if types.is_temporal(kind):
        return _times(column)
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


def _structs(column: Any) -> list[Any]:
    names = [field.name for field in column.type]
    members = zip(*map(_values, column.flatten()), strict=True)
    rows = members if names else [()] * len(column)
    nulls = column.is_null().to_pylist()
    return [
        None if null else dict(zip(names, row, strict=True))
        for null, row in zip(nulls, rows, strict=True)
    ]


def _lists(column: Any) -> list[Any]:
    items, lists, at = _values(column.flatten()), [], 0
    for size in pc.list_value_length(column).to_pylist():
        lists.append(None if size is None else items[at : at + size])
        at += size or 0
    return lists


def _times(column: Any) -> list[Any]:
    """Return dates and times as ISO 8601 text, and durations as integers in the unit of the column."""
    if types.is_duration(column.type):
        return list(column.cast("int64").to_pylist())
    try:
        texts = column.cast("string").to_pylist()
    except pa.ArrowException:  # a time zone that this machine does not know
        texts = column.cast(pa.timestamp(column.type.unit)).cast("string").to_pylist()
    return [text and text.replace(" ", "T") for text in texts]


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


def array_of(values: Iterable[Any], kind: Any) -> Any:
    """Return JSON values as an array of the type of their shape."""
    return pa.array([_fitted(value, kind) for value in values], kind)


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
