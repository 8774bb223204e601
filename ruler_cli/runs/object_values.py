"""Python objects → the values that JSON has, and copies of them with other members."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar, cast

import orjson

from ruler_cli.errors import UnreadableError, WrongShapeError

G = TypeVar("G")
_PLAIN = frozenset((str, int, float, bool, type(None)))


def plain(value: Any, name: str) -> Any:
    """Return a value as JSON has it; UnreadableError, with its name, for a type that has no such form."""
    try:
        return as_json(value)
    except UnreadableError as error:
        raise UnreadableError(
            f"`{name}` holds a value that {error}; give dicts, lists, texts and numbers"
        ) from None


def as_json(value: Any) -> Any:
    """Return a mapping, a model or an object with fields as a dict, an array as a list, an enum's value."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list and _PLAIN.issuperset(
        map(type, value)
    ):  # token ids, of which there are many
        return value.copy()
    if kind is list:
        return [as_json(inner) for inner in value]
    if kind is dict or isinstance(value, Mapping):
        pairs = value.items()
        return {
            key if type(key) is str else str(as_json(key)): as_json(inner)
            for key, inner in pairs
        }
    if isinstance(value, Enum):
        return as_json(value.value)
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Sequence) and not isinstance(
        value, bytes | bytearray | memoryview
    ):
        return [as_json(inner) for inner in value]
    unknown = UnreadableError(f"is of type {kind.__name__}")
    try:
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        if hasattr(value, "__float__"):  # of numpy, torch, decimal
            convert = (
                getattr(value, "tolist", None)
                or getattr(value, "item", None)
                or value.__float__
            )
            return as_json(convert())
        with suppress(TypeError):
            return orjson.loads(
                orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS)
            )  # a date
        slots = [
            name for base in kind.__mro__ for name in vars(base).get("__slots__", ())
        ]
        names = [] if callable(value) else [*getattr(value, "__dict__", ()), *slots]
        fields = [
            name for name in names if not name.startswith("_") and hasattr(value, name)
        ]
        if fields:
            return {name: as_json(getattr(value, name)) for name in fields}
    except (UnreadableError, RecursionError):
        raise
    except Exception:  # noqa: BLE001 - of the value's own class
        raise unknown from None
    raise unknown


def as_text(value: Any) -> bytes:
    """Return a dict as JSON, with null for what has no such form; empty if a text or a number has none."""
    try:
        return orjson.dumps(value, _dumped, orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return b""


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else None


def member(value: Any, name: str) -> Any:
    """Return a member of a mapping, or an attribute of an object; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def with_members(value: G, changes: dict[str, Any]) -> G:
    """Return a shallow copy with other members; an object gets only those that its kind has."""
    if isinstance(value, Mapping):
        own = isinstance(value, dict) or hasattr(
            type(value), "__copy__"
        )  # a copy of others may share items
        try:
            items = (
                copy.copy(value)
                if own and isinstance(value, MutableMapping)
                else dict(value)
            )
            items.update(changes)
        except Exception:  # noqa: BLE001 - of a kind that refuses a change
            items = {**value, **changes}
        return cast("G", items)
    copied: G = copy.copy(value)
    for name, changed in changes.items():
        if name == "ruler":
            continue
        try:
            setattr(copied, name, changed)
        except Exception:  # noqa: BLE001 - it is frozen, or has no such member
            if hasattr(value, name):
                object.__setattr__(copied, name, changed)
    return copied


def snapshot(value: G, changes: dict[str, Any], name: str) -> G:
    """Return a shallow copy to annotate later; WrongShapeError if its kind allows none, before any call."""
    try:
        return with_members(value, changes)
    except Exception as error:
        reason = f"no copy of this {type(value).__name__} can be annotated ({error})"
        raise WrongShapeError(f"{name}: {reason}; give a dict") from error
