"""Arrow values → JSON, and changed JSON values → Arrow arrays.

JSON holds less than Arrow does: binary is shown by its size, dates and times are text. So what a record
leaves alone is never made of its JSON again. pyarrow is an extra, imported where it is used.
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

from ruler_cli.errors import UnreadableError
from ruler_cli.reading.parse import parse, parse_text

_EXACT = 15
"""Decimal digits that every float64 holds."""
OURS = "ruler"
"""The member that is JSON text in every file: as a struct it would need all its optional fields."""


def cells(column: Any, name: str = "") -> list[bytes]:
    """Every value of the Arrow array `name` as JSON."""
    return [orjson.dumps(value, default=_foreign) for value in _values(column, name)]


def parsed(cell: bytes) -> Any:
    """A value of a row."""
    return parse_text(cell.decode("utf-8", "surrogatepass"))


def _values(column: Any, name: str = "") -> list[Any]:
    """Every value of an Arrow array as something that orjson writes."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _values(column.storage)
    if types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if types.is_struct(kind):
        return _structs(column)
    if types.is_map(kind):
        pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        rows = _lists(column.cast(pairs))
        return [None if row is None else {str(x["key"]): x["value"] for x in row} for row in rows]
    if _is_list(kind):
        return _lists(column)
    if types.is_temporal(kind):
        return _moments(column)
    if types.is_floating(kind):
        numbers = column.cast("float64").to_pylist()
        return [x if x is None or math.isfinite(x) else orjson.Fragment(json.dumps(x)) for x in numbers]
    try:
        found = column.to_pylist()
    except UnicodeDecodeError:  # text that is no UTF-8
        found = [raw and raw.decode(errors="replace") for raw in column.cast("large_binary").to_pylist()]
    return [_annotation(value) for value in found] if name == OURS else list(found)


def _foreign(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return orjson.Fragment(str(value)) if isinstance(value, decimal.Decimal) else str(value)


def _annotation(value: Any) -> Any:
    """What an earlier run wrote as text, as the object that it is."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(UnreadableError):
            parse(value.encode())
            return orjson.Fragment(value)
    return value


def _structs(column: Any) -> list[Any]:
    names = [field.name for field in column.type]
    rows = zip(*map(_values, column.flatten(), names), strict=True) if names else [()] * len(column)
    made = (dict(zip(names, row, strict=True)) for row in rows)
    return [None if null else row for null, row in zip(column.is_null().to_pylist(), made, strict=True)]


def _lists(column: Any) -> list[Any]:
    import pyarrow.compute as pc

    items, found, at = _values(column.flatten()), [], 0
    for size in pc.list_value_length(column).to_pylist():
        found.append(None if size is None else items[at : at + size])
        at += size or 0
    return found


def _moments(column: Any) -> list[Any]:
    """ISO 8601 text, and the number of a duration."""
    import pyarrow as pa

    if pa.types.is_duration(column.type):
        return list(column.cast("int64").to_pylist())
    try:
        texts = column.cast("string").to_pylist()
    except pa.ArrowException:  # a time zone that this machine does not know
        texts = column.cast(pa.timestamp(column.type.unit)).cast("string").to_pylist()
    return [text and text.replace(" ", "T") for text in texts]


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return types.is_list(kind) or types.is_large_list(kind) or bool(types.is_fixed_size_list(kind))


def _by_members(kind: Any) -> bool:
    """Tell if a type is a struct whose members have names of their own."""
    from pyarrow import types

    names = [field.name for field in kind] if types.is_struct(kind) else []
    return 0 < len(names) == len(set(names))


def merged(own: Any, was: list[Any], new: list[Any], name: str = "") -> Any:
    """The array `own` with `new` JSON values in place of `was`, its own as JSON.

    Members of structs and items of lists that did not change are taken from `own`.
    """

    if repr(was) == repr(new):
        return own
    if _by_members(own.type) and name != OURS and all(isinstance(x, dict | None) for x in new):
        return _merged_structs(own, was, new)
    if _is_list(own.type) and all(isinstance(x, list | None) for x in new):
        return _merged_lists(own, was, new)
    return _inferred(new, name)


def _merged_structs(own: Any, was: list[Any], new: list[Any]) -> Any:
    import pyarrow as pa

    fields = {field.name: field for field in own.type}
    children, parts = dict(zip(fields, own.flatten(), strict=True)), []
    for name in dict.fromkeys([*fields, *(key for value in new for key in value or ())]):
        child = children.get(name, pa.nulls(len(own)))
        before, now = ([(value or {}).get(name) for value in values] for values in (was, new))
        parts.append(merged(child, before, now, name))
        if parts[-1] is not child or name not in fields:
            fields[name] = pa.field(name, parts[-1].type)
    missing = pa.array([value is None for value in new])
    return pa.StructArray.from_arrays(parts, fields=list(fields.values()), mask=missing)


def _merged_lists(own: Any, was: list[Any], new: list[Any]) -> Any:
    import pyarrow as pa

    values, before = own.flatten(), [item for old in was for item in old or ()]
    origins, ends, base = list[int | None](), [0], 0
    for old, now in zip(was, new, strict=True):
        origins += [None if at is None else base + at for at in _origins(old or [], now or [])]
        base += len(old or ())
        ends.append(len(origins))
    if origins != list(range(base)):  # slice by slice, because `take` does not know every type
        none = pa.nulls(1, values.type)
        slices = [none if at is None else values.slice(at, 1) for at in origins]
        values = pa.concat_arrays(slices) if slices else values.slice(0, 0)
        before = [None if at is None else before[at] for at in origins]
    held = merged(values, before, [item for now in new for item in now or ()])
    item = own.type.value_field.with_type(held.type).with_nullable(True)
    kind = pa.large_list(item) if pa.types.is_large_list(own.type) else pa.list_(item)
    return _listed(ends, held, kind, pa.array([value is None for value in new]))


def _origins(old: list[Any], new: list[Any]) -> list[int | None]:
    """The place that each item of a list had: the next equal one, if some are gone or added."""
    if len(old) == len(new):
        return list(range(len(old)))
    places, found, last = defaultdict[str, list[int]](list), list[int | None](), -1
    for at, value in enumerate(old):
        places[repr(value)].append(at)
    for value in new:
        equal = places[repr(value)]
        at = bisect_right(equal, last)
        last = equal[at] if at < len(equal) else last
        found.append(last if at < len(equal) else None)
    return found


def _inferred(values: list[Any], name: str) -> Any:
    """JSON values of one type, or lists of these, as pyarrow infers it; anything else is JSON text."""
    import pyarrow as pa

    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    if name != OURS and not any(isinstance(item, dict | list) for item in items):
        if {bool, float} <= set(map(type, values)):  # a score beside rewards that are true or false
            values = [float(value) if isinstance(value, bool) else value for value in values]
        with contextlib.suppress(pa.ArrowException, OverflowError):
            return pa.array(_encodable(values))
    return _texts(values)


def _texts(values: list[Any]) -> Any:
    import pyarrow as pa

    plain = (x if x is None or isinstance(x, str) else json.dumps(x, ensure_ascii=False) for x in values)
    return pa.array(_encodable(list(plain)), pa.string())


def _encodable(value: Any) -> Any:
    r"""Text that Arrow takes: it is UTF-8, so a lone surrogate becomes its \u escape."""
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def wider(one: Any, other: Any, *, text: bool = False) -> Any:
    """The type that holds the values of both, member by member; `text` where two leaves differ at all."""
    import pyarrow as pa

    types = pa.types
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if _by_members(one) and _by_members(other):
        kinds = {field.name: field.type for field in one}
        for field in other:
            kinds[field.name] = wider(kinds.get(field.name, pa.null()), field.type, text=text)
        return pa.struct(list(kinds.items()))
    if _is_list(one) and _is_list(other):
        large = types.is_large_list(one) or types.is_large_list(other)
        return (pa.large_list if large else pa.list_)(wider(one.value_type, other.value_type, text=text))
    both = (one, other)
    exact = any(types.is_decimal(kind) and kind.precision > _EXACT for kind in both)
    if text or (exact and any(map(types.is_floating, both))):
        return pa.string()
    with contextlib.suppress(pa.ArrowException):
        schemas = [pa.schema([("", pa.float64() if types.is_boolean(kind) else kind)]) for kind in both]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        if not (types.is_binary(kind) or types.is_large_binary(kind)):  # text there could not be read again
            return kind
    return pa.string()


def conformed(array: Any, kind: Any) -> Any:
    """An array in a wider type; ArrowException where it does not hold a value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.type == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if _by_members(array.type) and _by_members(kind):
        own = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
        nothing = pa.nulls(len(array))
        parts = [conformed(own.get(field.name, nothing), field.type) for field in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if _is_list(array.type) and _is_list(kind):
        sizes = pc.list_value_length(array).fill_null(0).to_pylist()
        return _listed(
            [0, *accumulate(sizes)], conformed(array.flatten(), kind.value_type), kind, array.is_null()
        )
    if kind != pa.string():
        return array.cast(kind)
    # a number keeps all of its digits
    return _texts([parsed(cell) if cell[:1] in b'"n' else cell.decode() for cell in cells(array)])


def _listed(ends: list[int], values: Any, kind: Any, missing: Any) -> Any:
    """An array of lists, each of the values between two ends."""
    import pyarrow as pa

    if pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values, kind, mask=missing)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, kind, mask=missing)
