"""Values of a program: their form in JSON, their members, and annotated copies."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar, cast

import orjson

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.splice import NewMembers, edited, inner_object

G = TypeVar("G")
_PLAIN = frozenset((str, int, float, bool, type(None)))


def plain(value: Any, name: str) -> Any:
    """Return a value as JSON has it; UnreadableError, with its name, for a type that has no such form."""
    # token ids, of which there are many
    if type(value) is list and _PLAIN.issuperset(map(type, value)):
        return value.copy()
    try:
        text = json.dumps(value, default=_json_of, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        if "Circular" in str(error):
            raise RecursionError from None
        raise UnreadableError(
            f"`{name}` holds a value that {error}; give dicts, lists, texts and numbers"
        ) from None
    return json.loads(text)


def _json_of(value: Any) -> Any:
    """Return the JSON form of a value that JSON does not know: a dict, a list, a number or a text."""
    form = None
    with suppress(Exception):  # of the value's own class
        form = _form_of(value)
    if form is None:
        raise TypeError(f"is of type {type(value).__name__}")
    return form


def _form_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return None
    if isinstance(value, Sequence):
        return list(value)
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):  # of numpy, torch
        return value.tolist()
    if hasattr(value, "__float__"):
        return float(value)
    with suppress(TypeError):
        # a date; a dataclass is an object with fields
        raw = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS)
        return orjson.loads(raw)
    # of its attributes, and of its slots
    state = None if callable(value) else object.__getstate__(value)
    members = dict[str, Any]()
    for attributes in state if isinstance(state, tuple) else (state,):
        for name, inner in (attributes or {}).items():
            if not name.startswith("_"):
                members[name] = inner
    return members or None


def member(value: Any, name: str) -> Any:
    """Return a member of a mapping, or an attribute of an object; None if there is none."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def with_members(value: G, changes: Mapping[str, Any]) -> G:
    """Return a shallow copy with other members; an object gets only those that its kind has.

    It raises what the kind of the object raises, if that allows no change.
    """
    if isinstance(value, Mapping):
        copies_itself = isinstance(value, dict) or hasattr(
            type(value), "__copy__"
        )
        # a copy of others may share items
        twin: Any = copy.copy(value) if copies_itself else dict(value)
        twin.update(changes)
        return cast("G", twin)
    copied: G = copy.copy(value)
    for name, changed in changes.items():
        if name == "ruler":
            continue
        try:
            setattr(copied, name, changed)
        except Exception:
            if hasattr(value, name):
                raise
    return copied


def snapshot(value: G, changes: Mapping[str, Any]) -> G:
    """Return a shallow copy to annotate later; UnreadableError if its kind allows none, before any call."""
    try:
        return with_members(value, changes)
    except Exception as error:
        kind = type(value).__name__
        reason = f"no copy of this {kind} can be annotated ({error})"
        raise UnreadableError(f"{reason}; give a dict") from error


def with_changes(value: Any, changes: NewMembers) -> Any:
    """Return a copy of a value with new members, as bytes of JSON are given them; what has no members stays."""
    if isinstance(value, str):
        # the trajectory once more, as JSON text
        text = inner_object(dump(value))
        return edited(text, changes) if text else value
    if isinstance(value, list):
        return [
            _changed(item, changes.get(str(i))) for i, item in enumerate(value)
        ]
    new = dict[str, Any]()
    removed = set[str]()
    for name, change in changes.items():
        if change is None:
            removed.add(name)
        else:
            new[name] = _changed(member(value, name), change)
    copied = with_members(value, new)
    if isinstance(copied, MutableMapping):
        for name in removed & copied.keys():
            del copied[name]
    return copied


def _changed(value: Any, change: NewMembers | bytes | None) -> Any:
    """Return a value after a change; a value of a class of its own becomes its JSON form."""
    if change is None:
        return value
    if isinstance(change, bytes):
        return parse_value(change)
    if not isinstance(value, Mapping | list | str):
        try:
            value = plain(value, "")
        except UnreadableError:
            return value
    return with_changes({} if value is None else value, change)
