"""Records of a surveyed file → their places, and the groups that they are.

A row of numbers for each record stands in an unnamed temporary file; memory holds a few numbers of each group.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from ruler_cli.files.scratch import KeyTable, Scratch, digest
from ruler_cli.types import Record

PARTS = 20
"""Bits of a record's place that tell the parts of one line."""
_ROW = Struct("=QQQqIIIIB")
_CHUNK = 1000
"""Rows that are read at once."""
_IN_MEMORY = 1 << 20
"""Bytes of rows that are held in memory before they go to disk."""
_LENGTH = Struct("=I")


class Row(NamedTuple):
    """Numbers that are noted of a record; `hashed` holds in this process, `opening` is 0 where `opens` is."""

    place: int
    start: int
    key: int
    opening: int
    size: int
    hashed: int
    group: int
    source: int
    opens: int

    @property
    def number(self) -> int:
        """The number of the line."""
        return self.place >> PARTS


def place(record: Record) -> int:
    """Return a number for each record of a file, in input order."""
    return record.line.number << PARTS | record.part


def short_hash(raw: bytes) -> int:
    """Return a hash of bytes that holds in this process."""
    return hash(raw) & 0xFFFF_FFFF


class MemberTable:
    """Counts rollouts of which several records hold a part."""

    def __init__(self) -> None:
        self._parts = KeyTable()

    def begun(self, record: Record, group: bytes) -> int:
        """Count the rollouts that begin in a record; `group` is the digest of its group's key."""
        begun = 0
        for rollout in record.rollouts:
            if rollout.member is None:
                begun += 1
                continue
            before = len(self._parts)
            part = blake2b(group + digest(rollout.member), digest_size=8)
            begun += self._parts.number(part.digest()) == before
        return begun


class Index:
    """The records of a surveyed file, and their groups in the order of their first records.

    Records of one key are a group or, with `alone`, each record is. With a `seed` the groups of `places` are in an
    order that only it and their contents decide.
    """

    def __init__(self, seed: int | None = None, *, alone: bool = False) -> None:
        self.seed = seed
        self.repeated: tuple[int, int] | None = None
        """The first line whose key was there before, after the line that had it."""
        self.apart: tuple[int, int] | None = None
        """The first line of a group with others between, after the line of it before them."""
        self._alone = alone
        self._closed = False
        self._rows = bytearray()
        """The newest ones; those before them are on disk."""
        self._disk: Scratch | None = None
        self._keys = KeyTable()
        self._members = MemberTable()
        self._group_of = array("I")
        self._rollouts = array("I")
        self._newest = array("Q")
        self._openings = array("q")
        self._opened = bytearray()
        self._mixed = bytearray()
        self._mine = bytearray()
        self._draws = array("q")
        self._sources: dict[str, int] = {}

    def close(self) -> None:
        """Free the disk; a thread that adds a record ends with an error."""
        self._closed = True
        if self._disk is not None:
            self._disk.close()

    def group(self, key: bytes) -> int:
        """Return the number of the group of a record, by the digest of its key, before it is added."""
        return len(self._rollouts) if self._alone else self._keys.number(key)

    def add(
        self, record: Record, key: bytes, opening: int | None, *, mine: bool
    ) -> int:
        """Note one record; return the number of rollouts that begin in it.

        `key` is the digest of its key, `opening` a number that rollouts of one task share. One that is not `mine` is
        counted, and nothing else.
        """
        if self._closed:
            raise ValueError("the index is closed")
        line = record.line
        here = place(record)
        group = self.group(key)
        if self._alone:
            first = self._keys.number(key)
            if first < group and self.repeated is None:
                # until now each record had a key of its own
                self.repeated = self._newest[first] >> PARTS, line.number
        is_new = group == len(self._rollouts)
        if is_new:
            self._begin(line.raw, mine=mine)
        elif self._group_of[-1] != group and self.apart is None:
            self.apart = self._newest[group] >> PARTS, line.number
        parent = here.to_bytes(8) if self._alone else key
        rollouts = self._members.begun(record, parent)
        self._group_of.append(group)
        self._rollouts[group] += rollouts
        self._newest[group] = here
        # a later part of a rollout may begin otherwise
        opens = opening is not None and rollouts > 0
        begins = opening if opening is not None and opens else 0
        if opens and not self._opened[group]:
            self._opened[group] = 1
            self._openings[group] = begins
        elif opens and self._openings[group] != begins:
            self._mixed[group] = 1
        row = _ROW.pack(
            here,
            line.offset,
            int.from_bytes(key[:8]),
            begins,
            len(line.raw),
            short_hash(line.raw),
            group,
            self._sources.setdefault(line.source, len(self._sources)),
            opens,
        )
        self._rows += row
        if len(self._rows) >= _IN_MEMORY:
            self._disk = self._disk or Scratch()
            self._disk.write(bytes(self._rows))
            self._rows.clear()
        return rollouts

    def _begin(self, raw: bytes, *, mine: bool) -> None:
        """Begin a group with a record of these bytes."""
        self._rollouts.append(0)
        self._newest.append(0)
        self._openings.append(0)
        self._opened.append(0)
        self._mixed.append(0)
        self._mine.append(mine)
        if (
            self.seed is not None
        ):  # only the seed, of any size, and the bytes decide
            seed = blake2b(str(self.seed).encode(), digest_size=32).digest()
            draw = blake2b(
                raw, digest_size=8, person=b"draw", key=seed
            ).digest()
            self._draws.append(int.from_bytes(draw, signed=True))

    def _read(self, rows: int, at: int) -> bytes:
        """Read so many rows, or fewer; none behind the last."""
        size = rows * _ROW.size
        at *= _ROW.size
        on_disk = 0 if self._disk is None else self._disk.size
        if self._disk is not None and at < on_disk:
            return self._disk.read(size, at)
        return bytes(self._rows[at - on_disk : at - on_disk + size])

    def _row(self, at: int) -> Row:
        return Row(*_ROW.unpack(self._read(1, at)))

    def _all(self) -> Iterator[Row]:
        """Yield all rows."""
        at = 0
        while chunk := self._read(_CHUNK, at):
            at += len(chunk) // _ROW.size
            for values in _ROW.iter_unpack(chunk):
                yield Row(*values)

    def sizes(self) -> list[int]:
        """Count groups: all, smallest, largest, those of one rollout, and the run's own."""
        sizes = self._rollouts
        least = min(sizes, default=0)
        most = max(sizes, default=0)
        return [len(sizes), least, most, sizes.count(1), self._mine.count(1)]

    def mixed(self, labels: Mapping[str, str] | None = None) -> tuple[int, int]:
        """Count groups whose rollouts have different openings; return the first one's first line, too.

        With `labels`, the names of files → labels, what one label has of a group counts as a group.
        """
        if labels is None:
            count = self._mixed.count(1)
            if not count:
                return 0, 0
            first = self._group_of.index(self._mixed.index(1))
            return count, self._row(first).number
        names = list(self._sources)
        openings: dict[tuple[int, str | None], int] = {}
        mixed = set[tuple[int, str | None]]()
        for row in self._all():
            part = row.group, labels.get(names[row.source])
            if (
                row.opens
                and openings.setdefault(part, row.opening) != row.opening
            ):
                mixed.add(part)
        return len(mixed), 0

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """Yield the first record, the rollouts and the bytes of own groups, in the order of the digests of keys."""
        firsts = array("Q")
        keys = array("Q")
        sizes = array("Q")
        for row in self._all():
            if row.group == len(firsts):
                firsts.append(row.place)
                keys.append(row.key)
                sizes.append(0)
            sizes[row.group] += row.size
        for group in sorted(range(len(keys)), key=keys.__getitem__):
            if self._mine[group] and self._rollouts[group]:
                yield firsts[group], self._rollouts[group], sizes[group]

    def places(
        self, chosen: Collection[int] | None = None
    ) -> Iterator[tuple[int, list[Row]]]:
        """Yield the first record of each own group and the rows of all, in the order of these, or as drawn.

        With `chosen` only of the groups that have these first records.
        """
        ends = array("I", bytes(4 * len(self._rollouts)))
        for group in self._group_of:
            ends[group] += 1
        ends = array("I", accumulate(ends))
        members = array("I", bytes(4 * len(self._group_of)))
        at = array("I", [0, *ends[:-1]] if ends else [])
        for record, group in enumerate(self._group_of):
            members[at[group]] = record
            at[group] += 1
        order: Iterable[int] = range(len(ends))
        if self.seed is not None:
            order = sorted(order, key=self._draws.__getitem__)
        for group in order:
            if not self._mine[group]:
                continue
            begin = ends[group - 1] if group else 0
            first = self._row(members[begin])
            if chosen is not None and first.place not in chosen:
                continue
            rows = [
                self._row(record) for record in members[begin : ends[group]]
            ]
            yield first.place, rows

    def lines(self) -> Iterator[Row]:
        """Yield the lines of the own groups, in input order."""
        first_part = (1 << PARTS) - 1
        for row in self._all():
            if self._mine[row.group] and not row.place & first_part:
                yield row


class OutputOrder:
    """Holds the bodies of lines on disk until those before them are there."""

    def __init__(self, index: Index) -> None:
        """Take the index of the lines."""
        self._bodies = Scratch()
        self._offsets = array("Q")
        """By the number of a line: one more than the offset of its body, or 0."""
        self._lines = index.lines()
        self._next = next(self._lines, None)

    def in_turn(
        self, bodies: Iterable[tuple[int, bytes]]
    ) -> Iterator[tuple[int, bytes]]:
        """Keep the bodies of lines, and yield those whose turn it is, in the order of INPUT."""
        for number, body in bodies:
            if number >= len(self._offsets):
                missing = number + 1 - len(self._offsets)
                self._offsets.frombytes(bytes(8 * missing))
            length = _LENGTH.pack(len(body))
            self._offsets[number] = 1 + self._bodies.write(length + body)
        while self._next is not None:
            number = self._next.number
            at = self._offsets[number] if number < len(self._offsets) else 0
            if not at:
                return
            (size,) = _LENGTH.unpack(self._bodies.read(_LENGTH.size, at - 1))
            yield number, self._bodies.read(size, at - 1 + _LENGTH.size)
            self._next = next(self._lines, None)

    def close(self) -> None:
        """Free the disk."""
        self._bodies.close()
