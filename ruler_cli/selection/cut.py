"""A record without some of its rollouts: just their bytes are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import parse
from ruler_cli.files.splice import Patches, at, read_array
from ruler_cli.formats.interface import Format
from ruler_cli.formats.parallel import path_of, value_at
from ruler_cli.records import Group, Line, Path


class Cutter:
    """Groups and the places of what is kept of them → what each record becomes.

    A columnar line is several groups, and is done when the last of them is.
    """

    def __init__(self, form: Format, named: Sequence[str] = ()) -> None:
        """`form` tells where rollouts stand, `named` are paths of what the user said each of them has."""
        self._form, self._named = form, named
        self._open: dict[int, tuple[list[Path], list[Path]]] = {}

    def bodies(self, group: Group, kept: Collection[int] | None) -> list[tuple[int, bytes]]:
        """The number and the new bytes of each record that is done; no bytes: it is left out.

        `kept` are places among the group's rollouts, None: the group is left out. UsageError for a record
        that cannot lose a rollout.
        """
        batch, at = [], 0
        for record in group.records:
            stay, lost = self._open.pop(record.line.number, ([], []))
            for i, rollout in enumerate(record.rollouts, at):
                (stay if kept is not None and i in kept else lost).append(rollout.path)
            at += len(record.rollouts)
            if record.part + 1 < record.parts:
                self._open[record.line.number] = (stay, lost)
            elif kept is not None and not lost:
                batch.append((record.line.number, record.line.raw))
            else:
                batch.append((record.line.number, self._cut(record.line, stay, lost)))
        return batch

    def _cut(self, line: Line, stay: list[Path], lost: list[Path]) -> bytes:
        if not stay:
            return b""
        if not lost:
            return line.raw
        try:
            return cut(line.raw, self._form, lost, len(stay) + len(lost), self._named)
        except (UnreadableError, RecursionError) as error:
            why = "is nested too deeply" if isinstance(error, RecursionError) else error
            raise UsageError(
                f"{line.where} cannot lose a rollout exactly: it {why}; conditions about groups leave out "
                "whole ones only"
            ) from None


def cut(raw: bytes, form: Format, lost: Collection[Path], size: int, named: Iterable[str] = ()) -> bytes:
    """A record without these of its `size` rollouts; UnreadableError where nobody knows what that is.

    `named` are dotted paths of the user's, at which a list has an item for each rollout.
    """
    layout = form.layout
    gone = {int(path[-1]) for path in lost}
    paths = dict.fromkeys(path[:-1] for path in lost if len(path) > 1)
    if layout.lists is not None:
        value = parse(raw)
        paths |= dict.fromkeys(_taken(value, named, size) if layout.listed else ())
        paths |= dict.fromkeys(layout.lists(value, size))
    if layout.listed:
        ours: Path = ("ruler",) if form.shape == "columns" else ("ruler", "rollouts")
        paths |= dict.fromkeys(path for path in (ours, layout.reward) if path)
    patches = Patches(raw)
    for path in paths:
        span = at(raw, path)
        if span is None or raw[span[0]] != ord("["):
            continue
        items = read_array(raw, span[0])
        if layout.listed and len(items) != size:
            where = ".".join(map(str, path))
            raise UnreadableError(f"has {len(items)} items at `{where}` for {size} rollouts")
        patches.drop(items, [i in gone for i in range(len(items))])
    return patches.apply()


def _taken(value: dict[str, Any], named: Iterable[str], size: int) -> Iterator[Path]:
    """The user's own lists, each taken out of the value: nobody need doubt them."""
    for dotted in named:
        path = path_of(value, dotted)
        found, holder = value_at(value, path), value_at(value, path[:-1])
        if path and isinstance(found, list) and len(found) == size:
            if isinstance(holder, dict):
                del holder[str(path[-1])]
            yield path
