"""Arrow values → JSON, and changed JSON values → Arrow arrays.

JSON holds less than Arrow does: binary becomes its size, dates and times become text. So an unchanged value
is taken from the Arrow array, never from its JSON. pyarrow is an extra: only Parquet files lead here.
"""

from __future__ import annotations

import contextlib
import decimal
import json
import math
from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse, parse_value

_EXACT_DIGITS = 15
"""Decimal digits that every float64 holds."""
ANNOTATION = "ruler"
"""The member that is JSON text in the files of earlier versions."""


def cells(column: Any, name: str = "") -> list[bytes]:
    """Encode every value of the Arrow array `name` as JSON."""
    return [orjson.dumps(value, default=_other_type) for value in _values(column, name)]


def _values(column: Any, name: str = "") -> list[Any]:
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
        return [
            None if row is None else {str(x["key"]): x["value"] for x in row}
            for row in rows
        ]
    if _is_list(kind):
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
        values = column.to_pylist()
    except UnicodeDecodeError:  # text that is no UTF-8
        values = [
            raw and raw.decode(errors="replace")
            for raw in column.cast("large_binary").to_pylist()
        ]
    return (
        [_annotation(value) for value in values] if name == ANNOTATION else list(values)
    )


def _other_type(value: Any) -> Any:
    """Return a value that orjson writes in place of one that it does not know."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return (
        orjson.Fragment(str(value))
        if isinstance(value, decimal.Decimal)
        else str(value)
    )


def _annotation(value: Any) -> Any:
    """Turn the text that an earlier run wrote into the object that it holds."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(UnreadableError):
            parse(value.encode())
            return orjson.Fragment(value)
    return value


def _structs(column: Any) -> list[Any]:
    names = [field.name for field in column.type]
    rows = (
        zip(*map(_values, column.flatten(), names), strict=True)
        if names
        else [()] * len(column)
    )
    structs = (dict(zip(names, row, strict=True)) for row in rows)
    return [
        None if null else row
        for null, row in zip(column.is_null().to_pylist(), structs, strict=True)
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


def _is_list(kind: Any) -> bool:
    return (
        types.is_list(kind)
        or types.is_large_list(kind)
        or bool(types.is_fixed_size_list(kind))
    )


def _is_struct(kind: Any) -> bool:
    """Tell if a type is a struct with members, each with a different name."""
    names = [field.name for field in kind] if types.is_struct(kind) else []
    return 0 < len(names) == len(set(names))


def merge_values(array: Any, old: list[Any], new: list[Any], name: str = "") -> Any:
    """Return the array with the values `new` in place of `old`, which are its own as JSON.

    Members of structs and items of lists that did not change are taken from the array.
    """
    as_text = name == ANNOTATION and not _is_struct(
        array.type
    )  # as earlier versions wrote it
    if repr(old) == repr(new) and not as_text:
        return array
    if _is_struct(array.type) and all(isinstance(x, dict | None) for x in new):
        return _merge_structs(array, old, new)
    if _is_list(array.type) and all(isinstance(x, list | None) for x in new):
        return _merge_lists(array, old, new)
    return _structured(new) if types.is_null(array.type) or as_text else _inferred(new)


def _merge_structs(array: Any, old: list[Any], new: list[Any]) -> Any:
    fields = {field.name: field for field in array.type}
    children, merged = dict(zip(fields, array.flatten(), strict=True)), []
    for name in dict.fromkeys(
        [*fields, *(key for value in new for key in value or ())]
    ):
        child = children.get(name, pa.nulls(len(array)))
        before, after = (
            [(value or {}).get(name) for value in values] for values in (old, new)
        )
        merged.append(merge_values(child, before, after, name))
        if merged[-1] is not child or name not in fields:
            fields[name] = pa.field(name, merged[-1].type)
    nulls = pa.array([value is None for value in new])
    return pa.StructArray.from_arrays(merged, fields=list(fields.values()), mask=nulls)


def _merge_lists(array: Any, old: list[Any], new: list[Any]) -> Any:
    values, old_items = array.flatten(), [item for items in old for item in items or ()]
    origins, ends, base = list[int | None](), [0], 0
    for before, after in zip(old, new, strict=True):
        origins += [
            None if at is None else base + at
            for at in _origins(before or [], after or [])
        ]
        base += len(before or ())
        ends.append(len(origins))
    if origins != list(
        range(base)
    ):  # slice by slice, because `take` does not know every type
        null = pa.nulls(1, values.type)
        slices = [null if at is None else values.slice(at, 1) for at in origins]
        values = pa.concat_arrays(slices) if slices else values.slice(0, 0)
        old_items = [None if at is None else old_items[at] for at in origins]
    merged = merge_values(
        values, old_items, [item for items in new for item in items or ()]
    )
    item = array.type.value_field.with_type(merged.type).with_nullable(True)
    kind = pa.large_list(item) if types.is_large_list(array.type) else pa.list_(item)
    return _list_array(ends, merged, kind, pa.array([value is None for value in new]))


def _origins(old: list[Any], new: list[Any]) -> list[int | None]:
    """Return the old index of each new item: the next equal one if the length changed, else None."""
    if len(old) == len(new):
        return list(range(len(old)))
    indices, origins, last = defaultdict[str, list[int]](list), list[int | None](), -1
    for index, value in enumerate(old):
        indices[repr(value)].append(index)
    for value in new:
        equal = indices[repr(value)]
        at = bisect_right(equal, last)
        last = equal[at] if at < len(equal) else last
        origins.append(last if at < len(equal) else None)
    return origins


def _structured(values: list[Any]) -> Any:
    """Make an array of structs for objects, of lists for lists, and of what is inferred for the rest."""
    nulls, items = (
        pa.array([value is None for value in values]),
        [item for item in values if item is not None],
    )
    if items and all(isinstance(item, dict) for item in items):
        names = list(dict.fromkeys(name for item in items for name in item))
        members = [
            _structured([(value or {}).get(name) for value in values]) for name in names
        ]
        if names:  # Parquet has no struct without members
            return pa.StructArray.from_arrays(members, names=names, mask=nulls)
    if any(isinstance(item, list) for item in items) and all(
        isinstance(item, list) for item in items
    ):
        inner = _structured([one for item in items for one in item])
        ends = [0, *accumulate(len(value or ()) for value in values)]
        return _list_array(ends, inner, pa.list_(inner.type), nulls)
    return _inferred(values)


def _inferred(values: list[Any]) -> Any:
    """Make an array of the type that pyarrow infers for scalars or lists of these; else of JSON text."""
    items = [
        item
        for value in values
        for item in (value if isinstance(value, list) else [value])
    ]
    if not any(isinstance(item, dict | list) for item in items):
        if {bool, float} <= set(
            map(type, values)
        ):  # a score beside rewards that are true or false
            values = [
                float(value) if isinstance(value, bool) else value for value in values
            ]
        with contextlib.suppress(pa.ArrowException, OverflowError):
            return pa.array(_encodable(values))
    return _texts(values)


def _texts(values: list[Any]) -> Any:
    plain = (
        x if x is None or isinstance(x, str) else json.dumps(x, ensure_ascii=False)
        for x in values
    )
    return pa.array(_encodable(list(plain)), pa.string())


def _encodable(value: Any) -> Any:
    r"""Return text that Arrow takes: it is UTF-8, so a lone surrogate becomes its \u escape."""
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return (
        value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str)
        else value
    )


def wider(one: Any, other: Any, *, text: bool = False) -> Any:
    """Return the type that holds the values of both; with `text`, members that differ become strings."""
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if _is_struct(one) and _is_struct(other):
        kinds = {field.name: field.type for field in one}
        for field in other:
            kinds[field.name] = wider(
                kinds.get(field.name, pa.null()), field.type, text=text
            )
        return pa.struct(list(kinds.items()))
    if _is_list(one) and _is_list(other):
        large = types.is_large_list(one) or types.is_large_list(other)
        return (pa.large_list if large else pa.list_)(
            wider(one.value_type, other.value_type, text=text)
        )
    both = (one, other)
    exact = any(
        types.is_decimal(kind) and kind.precision > _EXACT_DIGITS for kind in both
    )
    if text or (exact and any(map(types.is_floating, both))):
        return pa.string()
    with contextlib.suppress(pa.ArrowException):
        schemas = [
            pa.schema([("", pa.float64() if types.is_boolean(kind) else kind)])
            for kind in both
        ]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        if not (
            types.is_binary(kind) or types.is_large_binary(kind)
        ):  # text there could not be read again
            return kind
    return pa.string()


def widened(array: Any, kind: Any) -> Any:
    """Return an array in a wider type; ArrowException if that does not hold a value."""
    if array.type == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if _is_struct(array.type) and _is_struct(kind):
        children = dict(
            zip([field.name for field in array.type], array.flatten(), strict=True)
        )
        nulls = pa.nulls(len(array))
        members = [
            widened(children.get(field.name, nulls), field.type) for field in kind
        ]
        return pa.StructArray.from_arrays(
            members, fields=list(kind), mask=array.is_null()
        )
    if _is_list(array.type) and _is_list(kind):
        sizes = pc.list_value_length(array).fill_null(0).to_pylist()
        items = widened(array.flatten(), kind.value_type)
        return _list_array([0, *accumulate(sizes)], items, kind, array.is_null())
    if kind != pa.string():
        return array.cast(kind)
    # a number keeps all of its digits
    return _texts(
        [
            parse_value(cell) if cell[:1] in b'"n' else cell.decode()
            for cell in cells(array)
        ]
    )


def _list_array(ends: list[int], values: Any, kind: Any, nulls: Any) -> Any:
    """Make an array of lists, each of the values between two ends; `nulls` tells which lists are null."""
    if types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(
            pa.array(ends, pa.int64()), values, kind, mask=nulls
        )
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), values, kind, mask=nulls
    )
