"""Arrow values → JSON, and JSON values → the Arrow type that holds them.

JSON holds less than Arrow does: binary is shown by its size, dates and times are text. So a value that a
record leaves alone is never made of its JSON again. pyarrow is an extra, imported where it is used.
"""

from __future__ import annotations

import contextlib
import decimal
import json
import math
from typing import Any

import orjson

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse

OURS = "ruler"
"""The member that is JSON text in every file: as a struct it would need all its optional fields."""


class MisfitError(Exception):
    """No Arrow type but text holds all of a column's values."""


def cells(column: Any, name: str = "") -> list[bytes]:
    """Every value of the Arrow array `name` as JSON."""
    return [orjson.dumps(value, default=_foreign) for value in _values(column, name)]


def _values(column: Any, name: str = "") -> list[Any]:
    """Every value of an Arrow array as something that orjson writes."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _values(
            column.storage.cast("bool" if kind.extension_name == "arrow.bool8" else kind.storage_type)
        )
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


def is_text(kind: Any) -> bool:
    """Tell if a type is text of some width."""
    from pyarrow import types

    return types.is_string(kind) or bool(types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return types.is_list(kind) or types.is_large_list(kind) or bool(types.is_fixed_size_list(kind))


def plain(kind: Any) -> Any:
    """The type of a column's values, without extension, dictionary or view: all of them can be cast to it."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    return pa.string() if pa.types.is_string_view(kind) else kind


def encodable(text: str) -> str:
    r"""Text that Arrow takes: it is UTF-8, so a lone surrogate becomes its \u escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def fitted(kind: Any, new: Any, was: Any = None, own: Any = None) -> tuple[Any, Any]:
    """The type that holds what `kind` does and a new JSON value too, and the value as Arrow takes it.

    `was` is the JSON that stood there and `own` the same as an Arrow scalar, of which what did not change
    is taken. Raises MisfitError if no type holds both.
    """
    import pyarrow as pa

    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if new is None:
        return kind, None
    if was is not None and dump(new) == dump(was):
        return kind, own if own is None or own.type == kind else own.cast(kind)
    kind = plain(kind)
    if pa.types.is_null(kind):
        return _fresh(new)
    if is_text(kind) and isinstance(new, str | dict | list):
        return kind, encodable(new if isinstance(new, str) else dump(new).decode())
    if isinstance(new, bool) and pa.types.is_boolean(kind):
        return kind, new
    if isinstance(new, int | float) and not isinstance(new, bool):
        return _number(kind, new)
    if isinstance(new, dict) and pa.types.is_struct(kind):
        return _struct(kind, new, *((was, own) if isinstance(was, dict) else ({}, None)))
    if isinstance(new, list) and _is_list(kind):
        return _list(kind, new, *((was, own) if isinstance(was, list) else ([], None)))
    raise MisfitError


def _fresh(new: Any) -> tuple[Any, Any]:
    """A column or member that was not there: simple ones as they are, anything deeper as JSON text."""
    import pyarrow as pa

    if isinstance(new, bool):
        return pa.bool_(), new
    if isinstance(new, int | float):
        return _number(pa.float64(), new)
    if isinstance(new, list) and not any(isinstance(item, list | dict) for item in new):
        with contextlib.suppress(MisfitError):
            return _list(pa.list_(pa.null()), new, [], None)
    return fitted(pa.string(), new)


def _number(kind: Any, new: float) -> tuple[Any, Any]:
    """An integer if the type holds it, else float64, so that a score reads 0.7 and not 0.699999988."""
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind) and isinstance(new, int):
        with contextlib.suppress(pa.ArrowException, OverflowError):
            pa.scalar(new, kind)
            return kind, new
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(number(kind) for number in numbers) or (isinstance(new, int) and abs(new) > 1 << 53):
        raise MisfitError
    return pa.float64(), float(new)


def _struct(kind: Any, new: dict[str, Any], was: dict[str, Any], own: Any) -> tuple[Any, Any]:
    import pyarrow as pa

    names = [field.name for field in kind]
    if len(set(names)) < len(names):
        raise MisfitError
    fields, found = [], {}
    for field in [*kind, *(pa.field(name, pa.null()) for name in new if name not in names)]:
        name, value = field.name, new.get(field.name)
        part = own[name] if own is not None and name in was else None
        wide, found[name] = fitted(field.type, value, was.get(name), part)
        fields.append(_typed(field, wide, value))
    return pa.struct(fields), found


def _list(kind: Any, new: list[Any], was: list[Any], own: Any) -> tuple[Any, Any]:
    import pyarrow as pa

    item, found = kind.value_field, []
    for at, value in enumerate(new):
        part = own[at] if own is not None and at < len(was) else None
        wide, held = fitted(item.type, value, was[at] if at < len(was) else None, part)
        item = _typed(item, wide, value)
        found.append(held)
    return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item), found


def _typed(field: Any, kind: Any, new: Any) -> Any:
    return field.with_type(kind).with_nullable(field.nullable or new is None)
