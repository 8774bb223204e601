"""Records that stand inside those of another container, at a path that the user gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ruler_cli.errors import UnreadableError
from ruler_cli.files.containers import Container
from ruler_cli.files.parse import too_large
from ruler_cli.files.splice import DAMAGED, skip, value_end
from ruler_cli.files.walk import NoRecordsError, steps_of, values_at
from ruler_cli.types import Line


class InnerRecords(Container):
    """All values to which a path leads in each line of a container, numbered through.

    A line that is damaged, or in which the path leads nowhere, cannot be read.
    """

    unit = "record"
    may_hold_events = True

    def __init__(self, source: Container, path: str) -> None:
        """Take a container that is open, and the path."""
        super().__init__(source.name, source.most)
        self._source = source
        self._steps = steps_of(path)
        self.once = source.once
        if "{}" not in self._steps:  # else a record is more than bytes of it
            self.fd = source.fd

    def records(self) -> Iterator[Line]:
        """Yield every record; ForeignError if the path leads nowhere in the first line that can be read."""
        number = 0
        any_whole = False
        for line in self._source.records():
            try:
                records = self._inside(line)
            except UnreadableError as error:
                # the first line shows if the path is right
                if isinstance(error, NoRecordsError) and not any_whole:
                    place = f"{self.name} {line.where}"
                    raise error.for_input(place) from None
                number += 1
                yield replace(
                    line, number=number, place=line.where, error=error.reason
                )
                continue
            any_whole = True
            for offset, raw in records:
                number += 1
                yield self.line(number, line.offset + offset, raw)

    def _inside(self, line: Line) -> list[tuple[int, bytes]]:
        """Return the records of a line; UnreadableError with the reason if there are none."""
        raw = line.raw
        if line.skipped:
            raise UnreadableError(too_large(line.skipped))
        if line.error:
            raise UnreadableError(line.error)
        start = skip(raw, 0)
        is_whole = skip(raw, value_end(raw, start)) == len(raw)
        if not is_whole or raw[start] not in b"{[":
            raise UnreadableError(DAMAGED)
        return list(values_at(raw, 0, self._steps))
