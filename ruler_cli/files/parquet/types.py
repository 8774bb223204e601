"""Which Arrow type holds a column's own values and the new ones, and new values as that type takes them.

A type is kept wherever it can hold what is new, exactly:

- A number that an integer, a boolean, a decimal or a float32 cannot hold makes the column float64, so
  that a score reads 0.7 and not 0.699999988.
- A struct grows by the new members, a list by what its items need.
- In a text column an object or a list stands as JSON text.
- Where nothing holds both, `Misfit`: the column then becomes JSON text as a whole.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from ruler_cli.files.parse import dump

OURS = "ruler"
"""The member that is JSON text in every file: as a struct it would need all its optional fields."""


class Misfit(Exception):  # noqa: N818 - a question that was answered with no
    """No Arrow type but text holds all of a column's values."""


def widened(kind: Any, value: Any, name: str = "", before: Any = None) -> Any:
    """The type that holds what `kind` does and this JSON value too; Misfit where there is none.

    `before` is what stood there: a part that did not change needs nothing.
    """
    import pyarrow as pa

    if before is not None and dump(value) == dump(before):
        return kind
    if isinstance(kind, pa.BaseExtensionType):
        return kind if value is None else widened(kind.storage_type, value, name, before)
    if pa.types.is_dictionary(kind):
        plain = kind.value_type
        wide = widened(plain, value, name, before)
        return kind if wide.equals(plain) else wide
    if pa.types.is_string_view(kind):
        kind = pa.string()  # Arrow can hardly do anything with views yet
    if name == OURS:
        return kind if is_text(kind) else pa.string()
    if value is None:
        return kind
    if pa.types.is_null(kind):
        return _fresh(value, name)
    if is_text(kind):
        if isinstance(value, str | dict | list):
            return kind
    elif isinstance(value, bool):
        if pa.types.is_boolean(kind):
            return kind
    elif isinstance(value, int | float):
        return _number(kind, value)
    elif pa.types.is_struct(kind) and isinstance(value, dict):
        return _struct(kind, value, before or {})
    elif pa.types.is_map(kind) and isinstance(value, dict):
        items = kind.item_type
        for key, item in value.items():
            items = widened(items, item, before=(before or {}).get(key))
        return kind if items.equals(kind.item_type) else pa.map_(kind.key_type, items)
    elif is_list(kind) and isinstance(value, list):
        return _list(kind, value, before or [])
    raise Misfit


def told(kind: Any) -> Any:
    """A type that was made for new values, with text where none of them told what it holds."""
    import pyarrow as pa

    if pa.types.is_null(kind):
        return pa.string()
    return pa.list_(pa.string()) if is_list(kind) and pa.types.is_null(kind.value_type) else kind


def is_text(kind: Any) -> bool:
    """Whether a type is text of some width."""
    import pyarrow as pa

    found: bool = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return found


def is_list(kind: Any) -> bool:
    """Whether a type is a list of any make."""
    import pyarrow as pa

    of = pa.types
    found: bool = of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind)
    return found


def is_nested(kind: Any) -> bool:
    """Whether values of a type hold values."""
    import pyarrow as pa

    return bool(pa.types.is_nested(kind))


def fitted(value: Any, kind: Any, old: Any = None, before: Any = None) -> Any:
    """A JSON value as `pyarrow.array` takes it for a type.

    `old` is what stood there, as Arrow has it, and `before` the same as JSON: a part that did not
    change is taken from there, because JSON does not hold binary, nor a date as one.
    """
    import pyarrow as pa

    if old is not None and dump(value) == dump(before):
        return old
    if value is None:
        return None
    if is_text(kind):
        return value if isinstance(value, str) else dump(value).decode()
    if pa.types.is_struct(kind) and isinstance(value, dict):
        had, was = _members(old), _members(before)
        return {
            field.name: fitted(value.get(field.name), field.type, had.get(field.name), was.get(field.name))
            for field in kind
        }
    if pa.types.is_map(kind) and is_text(kind.key_type) and isinstance(value, dict):
        had, was = dict(_items(old)), _members(before)
        return [(k, fitted(v, kind.item_type, had.get(k), was.get(k))) for k, v in value.items()]
    if is_list(kind) and isinstance(value, list):
        had_items, was_items = _items(old)[: len(value)], _items(before)[: len(value)]
        return [fitted(v, kind.value_type, *pair) for v, *pair in zip_longest(value, had_items, was_items)]
    if pa.types.is_floating(kind):
        return float(value)
    return value


def _items(value: Any) -> list[Any]:
    """The type of a column may have changed, and then what stood there is of another kind."""
    return value if isinstance(value, list) else []


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _fresh(value: Any, name: str = "") -> Any:
    """The type of a column or member that was not there: simple ones, JSON text for anything deeper."""
    import pyarrow as pa

    if name != OURS:
        if isinstance(value, bool):
            return pa.bool_()
        if isinstance(value, int | float):
            return pa.float64()
        if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
            try:
                return _list(pa.list_(pa.null()), value, [])
            except Misfit:
                pass
    return pa.string()


def _number(kind: Any, value: float) -> Any:
    import pyarrow as pa

    if pa.types.is_integer(kind) and isinstance(value, int):
        signed = pa.types.is_signed_integer(kind)
        low, high = (
            (-(1 << kind.bit_width - 1), 1 << kind.bit_width - 1) if signed else (0, 1 << kind.bit_width)
        )
        if low <= value < high:
            return kind
    if not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)) or pa.types.is_temporal(kind):
        raise Misfit
    if isinstance(value, int) and abs(value) > 1 << 53:
        raise Misfit
    return pa.float64()


def _struct(kind: Any, value: dict[str, Any], before: dict[str, Any]) -> Any:
    import pyarrow as pa

    names = [field.name for field in kind]
    if len(set(names)) < len(names):
        raise Misfit
    fields = [_field(field, value.get(field.name), before.get(field.name)) for field in kind]
    fields += [pa.field(k, widened(pa.null(), v, k)) for k, v in value.items() if k not in names]
    return pa.struct(fields)


def _field(field: Any, value: Any, before: Any) -> Any:
    if value is None:
        return field.with_nullable(True)
    return field.with_type(widened(field.type, value, field.name, before))


def _list(kind: Any, value: list[Any], before: list[Any]) -> Any:
    import pyarrow as pa

    item = kind.value_field
    for part, was in zip_longest(value, before[: len(value)]):
        item = _field(item, part, was)
    if pa.types.is_fixed_size_list(kind) and len(value) == kind.list_size:
        return pa.list_(item, kind.list_size)
    return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
