"""Records → groups: adjacent ones, each alone, or fetched by their places in a file.

A file that was surveyed is read again for the groups, and refused if it has changed in the meantime.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter

from ruler_cli.errors import InputChanged, UnreadableError
from ruler_cli.files.index import Row, short_hash
from ruler_cli.files.parse import too_large
from ruler_cli.types import Group, Line, Problem, Record

OnProblem = Callable[[Problem], None]
Read = Callable[[Line], tuple[Record, ...]]
"""Reads a line as one record, or one for each group in it; UnreadableError says why it cannot."""
LineOf = Callable[[int, int, bytes], Line]
"""The number of a record, its offset and its bytes → the line that it is."""
Where = Callable[[int], str]
"""The number of a record → the name of its place in a sentence."""


def records(
    lines: Iterable[Line], read: Read, on_problem: OnProblem
) -> Iterator[Record]:
    """Read each line; one that cannot be read goes to `on_problem`, with its reason."""
    for line in lines:
        number = line.number
        where = line.place
        if line.skipped:
            reason = too_large(line.skipped)
            on_problem(
                Problem(
                    number,
                    reason,
                    b"",
                    where,
                    too_large=True,
                )
            )
            continue
        try:
            if line.error:
                raise UnreadableError(line.error)
            parts = read(line)
        except UnreadableError as error:
            on_problem(
                Problem(
                    number,
                    error.reason,
                    line.raw,
                    where,
                )
            )
            continue
        yield from parts


def first_groups(read: Iterable[Record], limit: int) -> Iterator[Record]:
    """Yield the records of the first groups, each of which is a record by itself.

    Nothing behind them is read. A columnar line, which is several groups, is not cut.
    """
    for groups, record in enumerate(read, 1):
        yield record
        is_last_part = record.part == record.parts - 1
        if groups >= limit and is_last_part:
            return


def grouped(read: Iterable[Record], *, alone: bool) -> Iterator[Group]:
    """Make groups of adjacent records of one key, or of each record alone."""
    if alone:
        for record in read:
            yield Group(str(record.key), (record,))
        return
    for key, members in itertools.groupby(read, attrgetter("key")):
        yield Group(str(key), tuple(members))


def fetched(
    fd: int, read: Read, groups: Iterable[list[Row]], line_of: LineOf
) -> Iterator[Group]:
    """Yield groups, each by the rows of its records in a file.

    UnreadableError if other bytes stand there now.
    """
    number = 0
    parts: tuple[Record, ...] = ()
    for rows in groups:
        members = []
        for row in rows:
            # a columnar line is several groups, and read once
            if row.number != number:
                # past buffers: each record would fill one
                raw = os.pread(
                    fd,
                    row.size,
                    row.start,
                )
                line = line_of(
                    row.number,
                    row.start,
                    raw,
                )
                if short_hash(line.raw) != row.hashed:
                    raise UnreadableError(line.where)
                number = row.number
                parts = read(line)
            members.append(parts[row.part])
        yield Group(str(members[0].key), tuple(members))


@contextmanager
def unchanged(name: str) -> Iterator[None]:
    """Raise InputChanged if the records of a surveyed file have changed since."""
    try:
        yield
    except UnreadableError as error:
        raise InputChanged(name, str(error)) from None
