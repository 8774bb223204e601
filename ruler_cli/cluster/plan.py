"""Survey → where each group stands, in a temporary file: a read task knows only its own range of it."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ruler_cli.cluster.chunk import Chunk, Cutter, Member
from ruler_cli.groups import Survey
from ruler_cli.index import Index
from ruler_cli.records import Line

_ENTRY = struct.Struct("<QQQB")
_GROUP, _CHUNK = 1, 2
"""An entry is the first of a group, of a chunk."""
_PARTS = 20
_PART = (1 << _PARTS) - 1
_RANGE = 64 << 20
"""Bytes of input that one read task reads."""
_TOGETHER = 4 << 20
"""Bytes of input that are read at once where lines stand near one another."""

_Row = tuple[int, int, int]
"""A record: its number and part as the index has them, where its line starts, its bytes."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a read task reads: entries of the plan, how many chunks they are, their bytes of input."""

    begin: int
    end: int
    chunks: int
    size: int


def write_plan(found: Survey, index: Index, together: bool, plan: BinaryIO) -> list[Range]:
    """Write where each group's lines are, in the order of the groups, and cut it into ranges."""
    ranges, cutter = list[Range](), Cutter(together)
    at = begin = chunks = size = 0
    for rows, amount in _groups(found, index):
        first = cutter.begins(amount)
        if first and size >= _RANGE:
            ranges.append(Range(begin, at, chunks, size))
            begin, chunks, size = at, 0, 0
        flags = _GROUP | _CHUNK * first
        for row in rows:
            plan.write(_ENTRY.pack(*row, flags))
            flags = 0
        at, chunks, size = at + len(rows), chunks + first, size + amount
    ranges.append(Range(begin, at, chunks, size))
    plan.flush()
    return ranges


def _groups(found: Survey, index: Index) -> Iterator[tuple[list[_Row], int]]:
    """Each group's records, and its bytes as `Group.size` has them."""
    if found.grouping == "scattered":
        for places in index.places():
            yield (
                [(number << _PARTS, start, size) for number, start, size in places],
                sum(p[2] for p in places),
            )
    elif found.grouping == "line":
        for _, parts in itertools.groupby(index.keyed(), key=lambda row: row[0] >> _PARTS):
            records = list(parts)
            for number, start, size, _ in records:
                yield [(number, start, size)], size // len(records)
    else:
        for _, rows in itertools.groupby(index.keyed(), key=lambda row: row[3]):
            mine = [row[:3] for row in rows]
            yield mine, sum(row[2] for row in mine)


def read_chunks(plan: str, source: str, unit: str, part: Range) -> Iterator[Chunk]:
    """The chunks of a range; both are paths of plain files, `unit` is what a record's place is called."""
    with open(plan, "rb") as places, open(source, "rb") as lines:  # noqa: PTH123 - may be a path of a descriptor
        for entries in _by_chunk(_entries(places, part)):
            yield _chunk(lines.fileno(), entries, unit)


def _entries(plan: BinaryIO, part: Range) -> Iterator[tuple[int, int, int, int]]:
    plan.seek(part.begin * _ENTRY.size)
    left = (part.end - part.begin) * _ENTRY.size
    while left:
        found = plan.read(min(left, 4096 * _ENTRY.size))
        left -= len(found)
        yield from _ENTRY.iter_unpack(found)


def _by_chunk(entries: Iterable[tuple[int, int, int, int]]) -> Iterator[list[tuple[int, int, int, int]]]:
    found = list[tuple[int, int, int, int]]()
    for entry in entries:
        if entry[3] & _CHUNK and found:
            yield found
            found = []
        found.append(entry)
    if found:
        yield found


def _chunk(fd: int, entries: list[tuple[int, int, int, int]], unit: str) -> Chunk:
    lines, groups, at = list[Line](), list[list[Member]](), dict[int, int]()
    texts = _texts(fd, entries)
    for (number, start, _, flags), raw in zip(entries, texts, strict=True):
        line = number >> _PARTS
        if line not in at:
            at[line] = len(lines)
            lines.append(Line(line, start, raw, "" if unit == "line" else f"{unit} {line}"))
        if flags & _GROUP:
            groups.append([])
        groups[-1].append((at[line], number & _PART))
    return Chunk(lines, groups)


def _texts(fd: int, entries: list[tuple[int, int, int, int]]) -> Iterator[bytes]:
    """Each line; neighbours are read at once."""
    begin, held = 0, b""
    for i, (_, start, size, _) in enumerate(entries):
        if not begin <= start <= start + size <= begin + len(held):
            end = start + size
            for _, other, more, _ in entries[i + 1 :]:
                if not start <= other <= end + 256 or other + more - start > _TOGETHER:
                    break
                end = max(end, other + more)
            begin, held = start, os.pread(fd, end - start, start)
        yield held[start - begin : start - begin + size]
