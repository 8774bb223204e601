"""JSON lines: a record on each line, in a file, compressed, at an address or from a pipe."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import BinaryIO, Self

from ruler_cli.files.containers import Container, Writer
from ruler_cli.files.error_map import reading
from ruler_cli.files.location import BUFFER
from ruler_cli.files.source import BOM, Source
from ruler_cli.types import Line

_HEAD = 64
"""Bytes that are yielded of a line that is too long."""


class LinesWriter(Writer):
    """Writes lines; line breaks between members of a record, as in a document, become spaces."""

    form = "lines"

    def put(
        self,
        number: int,
        record: bytes,
    ) -> None:
        """Append a line."""
        self.stream.write(record.replace(b"\n", b" ") + b"\n")


class JsonLines(Container):
    """JSON lines; those of a pipe are read `once`."""

    form = LinesWriter.form
    may_hold_events = True

    def __init__(self, source: Source) -> None:
        """Take text, which is open."""
        super().__init__(source.name, source.most)
        self._source = source
        self.fd = source.fd
        self.once = source.once and source.fd is None

    @classmethod
    def open(cls, source: Source) -> Self:
        """Open any text; a pipe that may hold events is kept, since a rollout ends with its last event."""
        events = source.events
        if source.once and (
            source.keep or (events and events.begin(source.first_line))
        ):
            source.keep_text()
        return cls(source)

    def records(self) -> Iterator[Line]:
        """Yield every line that is not blank."""
        first = self._source.first if self.once else ()
        with self._source.open_text() as text:
            yield from lines(
                self.name,
                text,
                self.most,
                first,
            )


def lines(
    name: str, stream: BinaryIO, most: int, first: Iterable[bytes] = ()
) -> Iterator[Line]:
    """Yield every line that is not blank, split at LF only (U+2028 and U+0085 are text).

    `first` are lines that were read from the stream already. Of a line of more than `most` bytes only the
    beginning is yielded, and the rest is read without being held.
    """
    offset = 0
    read = iter(partial(stream.readline, most + 2), b"")
    with reading(name):
        for number, whole in enumerate(itertools.chain(first, read), 1):
            start = offset
            offset += len(whole)
            raw = whole.removesuffix(b"\n")
            if len(raw) > most:
                head = raw[:_HEAD]
                last = whole[-1:]
                raw = whole = b""  # noqa: PLW2901 - frees it
                while last and not last.endswith(b"\n"):
                    last = stream.readline(BUFFER)
                    offset += len(last)
                size = offset - start - last.endswith(b"\n")
                yield Line(
                    number,
                    start,
                    head,
                    skipped=size,
                )
                continue
            if number == 1 and raw.startswith(BOM):
                raw = raw[3:]
                start += 3
            if raw and not raw.isspace():
                yield Line(
                    number,
                    start,
                    raw,
                )
