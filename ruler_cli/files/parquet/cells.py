"""Arrow columns → JSON: each value as the bytes that stand for it in a record.

Whole columns are converted at once, by type. orjson writes what it can; what it has no token for is
handed to it ready-made: NaN and ±Infinity, decimals with all their digits, text that is no UTF-8 (the
record then fails to be read, with that reason).
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import orjson

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse

_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')


def cells(column: Any, name: str = "") -> list[bytes]:
    """Every value of the column `name` as JSON."""
    return [orjson.dumps(value, default=str) for value in values(column, name)]


def values(column: Any, name: str = "") -> list[Any]:
    """Every value of an Arrow array, column or member `name`, as something that orjson writes.

    Struct and map with text keys become an object, any other map a list of pairs; dates and times ISO
    8601 text; binary its size, as text. What an earlier run wrote into `ruler` is an object again.
    """
    import pyarrow as pa

    if name == "ruler":
        return [_verdict(value) for value in values(column)]

    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        flag = kind.extension_name == "arrow.bool8"
        return values(column.storage.cast("bool") if flag else column.storage)
    if pa.types.is_dictionary(kind):
        return _looked_up(column)
    for known, convert in _conversions():
        if known(kind):
            found: list[Any] = convert(column)
            return found
    return [None if value is None else str(value) for value in column.to_pylist()]


def _verdict(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(UnreadableError):
            parse(value.encode())
            return orjson.Fragment(value)
    return value


def _conversions() -> list[tuple[Any, Any]]:
    from pyarrow import types as t

    return [
        (lambda kind: t.is_string(kind) or t.is_large_string(kind), _texts),
        (t.is_string_view, lambda column: _texts(column.cast("large_string"))),
        (lambda kind: t.is_integer(kind) or t.is_boolean(kind) or t.is_null(kind), _plain),
        (t.is_floating, _floats),
        (t.is_struct, _structs),
        (t.is_map, _maps),
        (lambda kind: t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind), _lists),
        (t.is_decimal, _decimals),
        (t.is_timestamp, lambda column: _moments(column, " ", "T")),
        (lambda kind: t.is_date(kind) or t.is_time(kind), lambda column: _moments(column, " ", "T")),
        (t.is_duration, lambda column: column.cast("int64").to_pylist()),
        (lambda kind: t.is_binary(kind) or t.is_large_binary(kind), _binaries),
        (lambda kind: t.is_fixed_size_binary(kind) or t.is_binary_view(kind), _binaries),
    ]


def _plain(column: Any) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return found


def _looked_up(column: Any) -> list[Any]:
    words = values(column.dictionary)
    return [None if at is None else words[at] for at in column.indices.to_pylist()]


def _texts(column: Any) -> list[Any]:
    try:
        return _plain(column)
    except UnicodeDecodeError:
        wide = "large_binary" if "large" in str(column.type) else "binary"
        return [None if raw is None else _text(raw) for raw in column.cast(wide).to_pylist()]


def _text(raw: bytes) -> Any:
    """Text as it is, or bytes that are no UTF-8 as they are, so that the reader of records says so."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        quoted = _ESCAPED.sub(lambda found: b"\\u%04x" % found[0][0], raw)
        return orjson.Fragment(b'"' + quoted + b'"')


def _floats(column: Any) -> list[Any]:
    import pyarrow.compute as pc

    wide = column.cast("float64")
    found = _plain(wide)
    if pc.all(pc.is_finite(wide)).as_py() is False:
        return [_NO_NUMBER.get(repr(value), value) for value in found]
    return found


_NO_NUMBER = {
    "nan": orjson.Fragment(b"NaN"),
    "inf": orjson.Fragment(b"Infinity"),
    "-inf": orjson.Fragment(b"-Infinity"),
}


def _decimals(column: Any) -> list[Any]:
    texts = _plain(column.cast("string"))
    return [None if text is None else orjson.Fragment(text.encode()) for text in texts]


def _moments(column: Any, old: str, new: str) -> list[Any]:
    import pyarrow as pa

    try:
        texts = _plain(column.cast("string"))
    except pa.ArrowException:  # a time zone that this machine does not know
        texts = _plain(column.cast(pa.timestamp(column.type.unit)).cast("string"))
    return [None if text is None else text.replace(old, new) for text in texts]


def _binaries(column: Any) -> list[Any]:
    return [f"<{len(value.as_buffer())} bytes>" if value.is_valid else None for value in column]


def _structs(column: Any) -> list[Any]:
    names = [field.name for field in column.type]
    if names:
        rows = zip(*map(values, column.flatten(), names), strict=True)
        found: list[Any] = [dict(zip(names, row, strict=True)) for row in rows]
    else:
        found = [{} for _ in range(len(column))]
    if column.null_count:
        found = [None if null else row for null, row in zip(_plain(column.is_null()), found, strict=True)]
    return found


def _lists(column: Any) -> list[Any]:
    import pyarrow.compute as pc

    items, found, at = values(column.flatten()), [], 0
    for size in _plain(pc.list_value_length(column)):
        found.append(None if size is None else items[at : at + size])
        at += size or 0
    return found


def _maps(column: Any) -> list[Any]:
    import pyarrow as pa

    kind = column.type
    pairs = _lists(column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))))
    texts = pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type)
    make = dict if texts else list
    return [None if row is None else make([(p["key"], p["value"]) for p in row]) for row in pairs]
