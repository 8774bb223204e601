"""A surveyed file read again: the groups in order; UsageError where the file is another one now."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.reader import Reader
from ruler_cli.groups import Survey, by_line, records
from ruler_cli.records import Group, Line, Problem, Record


def in_order(name: str, lines: Iterator[Line], reader: Reader, found: Survey) -> Iterator[Group]:
    """Groups that are lines, or adjacent lines, of a file that was surveyed."""
    return grouped(name, surveyed(name, lines, found), reader, found, met=found.problems)


def grouped(name: str, lines: Iterator[Line], reader: Reader, found: Survey, met: int = 0) -> Iterator[Group]:
    """The same of lines as the survey read them; as many as were `met` could not be read then either."""
    problems = 0

    def unlike(problem: Problem) -> None:
        nonlocal problems
        problems += 1
        if problems > met:
            raise _changed(name, problem.where)

    read = records(lines, reader.read, unlike)
    return by_line(read) if found.grouping == "line" else _adjacent(read)


def _changed(name: str, where: str) -> UsageError:
    return UsageError(f"{name}: changed while it was read ({where}); run again when it is whole")


def surveyed(name: str, again: Iterator[Line], found: Survey) -> Iterator[Line]:
    """The lines that the survey read: none that were appended since, and the last one unchanged."""
    number = found.end[0]
    at = (0, 0)
    for line in again:
        if line.number > number:
            break
        at = (line.number, line.offset + len(line.raw))
        if line.number == number and at != found.end:
            break
        yield line
    if at != found.end:
        raise _changed(name, found.where(number))


def _adjacent(read: Iterator[Record]) -> Iterator[Group]:
    """Consecutive records of one key, in a file that was surveyed."""
    for key, members in itertools.groupby(read, key=lambda record: record.key):
        yield Group(str(key), tuple(members))


def unchanged(name: str, groups: Iterator[Group]) -> Iterator[Group]:
    """Groups that are fetched by their places; UsageError where something else stands there now."""
    try:
        yield from groups
    except UnreadableError as error:
        raise _changed(name, str(error)) from None
