"""Lists with one item for each rollout of a record, which lose an item when a rollout is left out.

If the wrong list loses an item, or the right one does not, every later item belongs to another rollout, and
nobody notices. So lists that a format does not know are refused, not guessed at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.fields import item_index
from ruler_cli.formats.interface import ParallelLists, printable
from ruler_cli.formats.turns import answer_turns, make_rollout
from ruler_cli.types import Path, Rollout


def column(record: Mapping[str, Any], name: str, size: int) -> list[Any]:
    """Return a field that holds one item for each of `size` rollouts, all None if it is absent.

    UnreadableError if it is no list of that length.
    """
    values = record.get(name)
    if values is None:
        return [None] * size
    if not isinstance(values, list):
        raise UnreadableError(
            f"`{name}` is no list, though it should hold one item for each rollout"
        )
    if len(values) != size:
        raise UnreadableError(f"`{name}` has {len(values)} items for {size} rollouts")
    return values


def answer_rollout(
    prompt: Messages, value: Any, where: str, i: int, **fields: Any
) -> Rollout:
    """Return item i of parallel lists as a rollout; if it cannot be read, with its prompt and the reason."""
    try:
        return make_rollout(
            prompt, answer_turns(value, f"{where}[{i}]"), (i,), **fields
        )
    except UnreadableError as error:
        return Rollout(prompt, (i,), error=str(error), **fields)


def all_lists(*apart: str) -> ParallelLists:
    """Take every list of the record as parallel, except in these fields."""

    def lists(record: Mapping[str, Any], size: int) -> list[Path]:
        names = [
            name
            for name, value in record.items()
            if isinstance(value, list) and name not in apart
        ]
        return parallel_lists(
            record, size, [(name,) for name in names if record[name]], apart
        )

    return lists


def lists_at(*names: str) -> ParallelLists:
    """Take only the lists in these fields as parallel, if the record has them."""

    def lists(record: Mapping[str, Any], size: int) -> list[Path]:
        return _of_size(record, size, [(name,) for name in names])

    return lists


def parallel_lists(
    record: Mapping[str, Any],
    size: int,
    paths: Iterable[Path],
    apart: Iterable[str] = (),
) -> list[Path]:
    """Return those of these paths that lead to lists; UnreadableError if another list has `size` items.

    Lists in the fields `apart` are of another kind and are ignored.
    """
    lists = _of_size(record, size, paths)
    # ruler's own lists are parallel, or belong to the group
    unknown = _unknown_list(
        record, size, (), {("ruler",), *lists, *((name,) for name in apart)}
    )
    if unknown:
        where = printable(".".join(unknown))
        raise UnreadableError(
            f"has as many items at `{where}` as rollouts, and nothing tells whether they belong together; "
            f"take `{where}` out, or write the dump with a rollout per line"
        )
    return lists


def no_removal(reason: str) -> ParallelLists:
    """Refuse to leave a rollout of such a record out; the reason follows the name of the record."""

    def lists(_record: Mapping[str, Any], _size: int) -> list[Path]:
        raise UnreadableError(reason)

    return lists


def path_of(record: Any, dotted: str) -> Path:
    """Return the path to the value that `interface.lookup` returns for a dotted path; () if there is none."""
    if isinstance(record, dict) and dotted in record:
        return (dotted,)
    path: list[str | int] = []
    for part in dotted.split("."):
        if (
            isinstance(record, list)
            and (index := item_index(part, len(record))) is not None
        ):
            path.append(index)
            record = record[index]
        elif isinstance(record, dict) and part in record:
            path.append(part)
            record = record[part]
        else:
            return ()
    return tuple(path)


def value_at(record: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    for part in path:
        if isinstance(record, list) and isinstance(part, int) and part < len(record):
            record = record[part]
        elif isinstance(record, dict):
            record = record.get(str(part))
        else:
            return None
    return record


def _of_size(record: Mapping[str, Any], size: int, paths: Iterable[Path]) -> list[Path]:
    """Return the paths that lead to lists; UnreadableError if one has not `size` items."""
    lists = []
    for path in paths:
        value = value_at(record, path)
        if not isinstance(value, list):
            continue
        if len(value) != size:
            where = printable(".".join(map(str, path)))
            raise UnreadableError(
                f"has {len(value)} items at `{where}` for {size} rollouts: nothing tells which of them "
                "belong to a rollout that is left out"
            )
        lists.append(path)
    return lists


def _unknown_list(
    value: Any, size: int, path: tuple[str, ...], known: Collection[Path]
) -> tuple[str, ...]:
    """Return the path of a list of `size` items that is not known, here or in objects below; () if none."""
    if path in known:
        return ()
    if isinstance(value, list):
        return path if len(value) == size else ()
    if not isinstance(value, Mapping):
        return ()
    below = (
        _unknown_list(inner, size, (*path, key), known) for key, inner in value.items()
    )
    return next(filter(None, below), ())
