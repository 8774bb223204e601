"""Records that stand inside those of another container, at a path that the user gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ruler_cli.errors import UnreadableError
from ruler_cli.files.containers import Container
from ruler_cli.files.parse import too_large
from ruler_cli.files.walk import OPENING, JsonText, damaged, nowhere, steps_of
from ruler_cli.types import Line


class InnerRecords(Container):
    """All values to which a path leads in each line of a container, numbered through.

    `[1:]` stands for the lines behind the first. A line that is damaged, or in which the path leads nowhere,
    is one that cannot be read.
    """

    unit = "record"
    may_hold_events = True

    def __init__(self, source: Container, path: str) -> None:
        """Take a container that is open, and the path."""
        super().__init__(source.name, source.most)
        self._source = source
        self._path = path
        steps = steps_of(path)
        self._header = int(steps[0] == "[1:]")
        self._steps = steps[self._header :]
        self.once = source.once
        if "{}" not in steps:  # else a record is more than bytes of its line
            self.fd = source.fd

    def records(self) -> Iterator[Line]:
        """Yield every record; UsageError if the path leads nowhere in the first line that can be read."""
        lines = islice(self._source.records(), self._header, None)
        number = 0
        any_reached = False
        for line in lines:
            text = JsonText(line.raw)
            opens = text.byte()
            try:
                if line.skipped:
                    raise UnreadableError(too_large(line.skipped))
                if line.error:
                    raise UnreadableError(line.error)
                records = list(text.walk(self._steps))
                if text.byte():
                    raise damaged()
                if opens in OPENING and not (text.reached or any_reached):
                    place = f"{self.name} {line.where}"
                    raise nowhere(place, self._path, line.raw)
                if not text.reached:
                    raise UnreadableError(f"holds nothing at `{self._path}`")
            except UnreadableError as error:
                reason = error.reason
                number += 1
                yield replace(
                    line, number=number, place=line.where, error=reason
                )
                continue
            any_reached = True
            for offset, raw in records:
                number += 1
                yield self.line(number, line.offset + offset, raw)
