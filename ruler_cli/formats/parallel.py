"""Lists that run parallel to the rollouts of a record: which of them lose an item when a rollout is left out.

A list that loses an item too few, or one that was not parallel and loses one, pairs every later item with
another rollout, and nothing tells. So what a format does not know is refused, not guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.interface import ParallelLists, item_index, printable
from ruler_cli.types import Path


def all_lists(*apart: str) -> ParallelLists:
    """Every list of the record has an item for each rollout, but for what stands in these fields."""

    def lists(record: Mapping[str, Any], size: int) -> list[Path]:
        names = [name for name, value in record.items() if isinstance(value, list) and name not in apart]
        return parallel_lists(record, size, [(name,) for name in names if record[name]], apart)

    return lists


def lists_at(*names: str) -> ParallelLists:
    """These lists do, where the record has them, and no others."""

    def lists(record: Mapping[str, Any], size: int) -> list[Path]:
        return _of_size(record, size, [(name,) for name in names])

    return lists


def parallel_lists(
    record: Mapping[str, Any], size: int, paths: Iterable[Path], apart: Iterable[str] = ()
) -> list[Path]:
    """The lists at these paths do, where there are any; others of as many items might, and are refused.

    `apart` are fields that are read as something else.
    """
    found = _of_size(record, size, paths)
    # what ruler writes is parallel, or the group's
    where = _unknown_list(record, size, (), {("ruler",), *found, *((name,) for name in apart)})
    if where:
        shown = printable(".".join(where))
        raise UnreadableError(
            f"has as many items at `{shown}` as rollouts, and nothing tells whether they belong together; "
            f"take `{shown}` out, or write the dump with a rollout per line"
        )
    return found


def no_removal(reason: str) -> ParallelLists:
    """No rollout of such a record can be left out; the reason follows the place of the record."""

    def lists(_record: Mapping[str, Any], _size: int) -> list[Path]:
        raise UnreadableError(reason)

    return lists


def path_of(record: Any, dotted: str) -> Path:
    """Where `interface.lookup` finds the value at a dotted path; () where there is none."""
    if isinstance(record, dict) and dotted in record:
        return (dotted,)
    found: list[str | int] = []
    for part in dotted.split("."):
        if isinstance(record, list) and (at := item_index(part, len(record))) is not None:
            found.append(at)
            record = record[at]
        elif isinstance(record, dict) and part in record:
            found.append(part)
            record = record[part]
        else:
            return ()
    return tuple(found)


def value_at(record: Any, path: Path) -> Any:
    """What stands at a path; None where nothing does."""
    for part in path:
        if isinstance(record, list) and isinstance(part, int) and part < len(record):
            record = record[part]
        elif isinstance(record, dict):
            record = record.get(str(part))
        else:
            return None
    return record


def _of_size(record: Mapping[str, Any], size: int, paths: Iterable[Path]) -> list[Path]:
    found = []
    for path in paths:
        value = value_at(record, path)
        if not isinstance(value, list):
            continue
        if len(value) != size:
            where = printable(".".join(map(str, path)))
            raise UnreadableError(
                f"has {len(value)} items at `{where}` for {size} rollouts: nobody knows which of them belong "
                "to a rollout that is left out"
            )
        found.append(path)
    return found


def _unknown_list(value: Any, size: int, at: tuple[str, ...], known: Collection[Path]) -> tuple[str, ...]:
    """Where another list of this size stands, in an object or in objects below it; () for nowhere."""
    if at in known:
        return ()
    if isinstance(value, list):
        return at if len(value) == size else ()
    if isinstance(value, Mapping):
        return next(
            (found for k, v in value.items() if (found := _unknown_list(v, size, (*at, k), known))), ()
        )
    return ()
