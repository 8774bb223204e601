"""Groups of an input that was read → some of them again, whatever the input is: also a pipe."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import cast

from ruler_cli.errors import UsageError
from ruler_cli.groups import fetched, part_of
from ruler_cli.index import Place, place
from ruler_cli.reading import Input
from ruler_cli.records import Group
from ruler_cli.scratch import Scratch

_NUMBERS = 4
"""Numbers that are noted of a record, 8 bytes each."""


class Again:
    """Where each group stands, in temporary files: 8 bytes of memory a group.

    What a pipe brings is kept as it is, since nobody can ask for it again.
    """

    def __init__(self, opened: Input, stack: ExitStack) -> None:
        """`opened` must hold records; the temporary files go with `stack`."""
        self._opened = opened
        self._once = opened.plain is None and opened.again is None
        self._notes, self._lines = (stack.enter_context(Scratch()) for _ in range(2))
        self._ends = array("q", [0])
        self._first = 0
        self._last: tuple[bytes, int] = (b"", 0)

    def note(self, ordinal: int, group: Group) -> None:
        """Note the next group; the first may have any number, and none behind it may be left out."""
        self._first = self._first or ordinal
        for record in group.records:
            line = record.line
            start = self._kept(line.raw) if self._once else 0
            self._notes.write(array("q", [place(record), line.number, start, len(line.raw)]).tobytes())
        self._ends.append(self._ends[-1] + len(group.records))

    def groups(self, ordinals: Sequence[int]) -> Iterator[tuple[int, Group]]:
        """The groups with these numbers, which grow; UsageError where the input has changed."""
        if self._once:
            yield from ((ordinal, self._fetched(ordinal)) for ordinal in ordinals)
            return
        wanted = [[record[0] for record in self._places(ordinal)] for ordinal in ordinals]
        found = self._opened.picked(wanted)
        for ordinal in ordinals:
            group = next(found, None)
            if group is None:
                raise UsageError("the input changed while it was read; run again when it is whole")
            yield ordinal, group

    def _kept(self, raw: bytes) -> int:
        """Where a line of a pipe is kept; the groups of one columnar line share it."""
        if self._last[0] is not raw:
            self._last = (raw, self._lines.write(raw))
        return self._last[1]

    def _places(self, ordinal: int) -> list[Sequence[int]]:
        start, end = self._ends[ordinal - self._first], self._ends[ordinal - self._first + 1]
        size = _NUMBERS * 8
        found = array("q", self._notes.read((end - start) * size, start * size))
        return [found[at : at + _NUMBERS] for at in range(0, len(found), _NUMBERS)]

    def _fetched(self, ordinal: int) -> Group:
        places = self._places(ordinal)
        reader = self._opened.reader
        assert reader is not None  # noqa: S101 - of an input without records no group was noted
        lines = [cast(Place, tuple(numbers[1:])) for numbers in places]
        return part_of(fetched(self._lines, reader, lines), places[0][0])
