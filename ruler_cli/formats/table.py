"""The table of formats, `table.toml`, with the functions that its rows name.

It has a row for each shape, in the words of `RecordPaths`, which users have too, and of `Format`. A row says by which
keys a record is known, where its parts and its group key stand and where the score goes, or which function reads it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from ruler_cli.files.values import (
    EMPTY,
    JsonObject,
    is_list,
    is_object,
    lookup,
)
from ruler_cli.formats import rows
from ruler_cli.formats.format import UNFIT, Code, Format, holds
from ruler_cli.formats.keys import hashed_key, key_text
from ruler_cli.formats.paths import present
from ruler_cli.types import Rollout


@cache
def _named(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = resolve_name(f"{__package__}.{name}")
    return function


def code(name: Code) -> Callable[..., Any]:
    """Return a function of a row, which may name one, such as `trainers.read_gym`.

    The module of one that it names is imported when a record needs it.
    """
    assert name  # noqa: S101 - the caller looks
    return _named(name) if isinstance(name, str) else name


def rollouts_of(
    form: Format,
    record: JsonObject,
) -> list[Rollout]:
    """Read the rollouts of a record; UnreadableError if there are none."""
    if form.read:
        rollouts = code(form.read)(record)
    else:
        rollouts = rows.read_row(form, record)
    if not is_list(rollouts):
        rollouts = [rollouts]
    if not form.finish:
        return rollouts
    finish = code(form.finish)
    return [r if r.error else finish(record, r) for r in rollouts]


def key_of(
    form: Format,
    record: JsonObject,
) -> str | None:
    """Return the group key that is made of parts, or computed; None if a record has none."""
    if form.compute_key:
        key: str | None = code(form.compute_key)(record)
        return key
    values = []
    for names in form.key_parts:
        path = present(record, names.rstrip("?"))
        value = lookup(record, path)
        optional = names.endswith("?")
        if is_object(value):
            value = None if optional else hashed_key("task", value)
        if value not in EMPTY:
            values.append(value)
        elif not optional:
            return None
    if not values:
        return None
    return key_text(values if len(values) > 1 else values[0])


def fits(
    form: Format,
    record: JsonObject,
) -> bool:
    """Return whether a record is of a format by its keys; False if its test raises an error."""
    try:
        if not holds(record, form.has):
            return False
        return form.test is None or bool(code(form.test)(record))
    except UNFIT:
        return False


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
NO_LONGER_READ: dict[str, str] = _TABLE.pop("no_longer_read")
"""Names of frameworks whose dumps earlier versions read → JSON that only their records hold."""
FORMATS = tuple(
    [Format(family=name, **row) for name in _TABLE for row in _TABLE[name]]
)
FAMILIES = tuple(dict.fromkeys(form.family for form in FORMATS))
"""The values of the option `format` other than `auto`, without the user's own."""
