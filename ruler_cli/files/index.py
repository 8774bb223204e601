"""Records of a surveyed file → their places, and the groups that they are.

A row for each record stands in a temporary table, so memory does not grow with the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from operator import itemgetter
from typing import NamedTuple

from ruler_cli.files.scratch import KeyTable, Table, digest
from ruler_cli.types import Record

PARTS = 20
"""Bits of a record's place that tell the parts of one line."""
_LINE = "line (id INTEGER PRIMARY KEY, start, size, hash, key, rollouts, mine, opening, source, draw)"
"""`id` is the place of the record, `draw` the place of its group in an order that is drawn."""
_BUFFERED = 1_000
"""Rows that are added at once."""


class Row(NamedTuple):
    """The place of a record, the offset of its line, and a hash of the line, which is valid in this process."""

    place: int
    start: int
    size: int
    hashed: int

    @property
    def number(self) -> int:
        """The number of the line."""
        return self.place >> PARTS

    @property
    def part(self) -> int:
        """The number of the record in its line."""
        return self.place % (1 << PARTS)


_ROW = "id, start, size, hash"


def place(record: Record) -> int:
    """Return a number for each record of a file, in input order."""
    return record.line.number << PARTS | record.part


def short_hash(raw: bytes) -> int:
    """Return a hash of bytes that is valid in this process."""
    return hash(raw) & 0xFFFF_FFFF


class Index:
    """The records of a surveyed file, and their groups in the order of their first records.

    Records of one key are a group or, with `alone`, each record is. With a `seed` the groups of `places` are in an
    order that depends only on the seed and their contents.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self.seed = seed
        self._alone = alone
        self._by = "id" if alone else "key"
        self._lines = Table(_LINE)
        self._new: list[tuple[object, ...]] = []
        """Rows that are not in the table yet."""
        self._keys = KeyTable()
        self._members = KeyTable()
        self._sources: dict[str, int] = {}

    def close(self) -> None:
        """Free the disk; a thread that adds a record ends with an error."""
        self._lines.close()

    def group(self, key: bytes) -> int:
        """Return the number of the group of a record, by the digest of its key; ask about each, in their order."""
        return self._keys.number(key)

    def add(
        self,
        record: Record,
        key: bytes,
        opening: int | None,
        *,
        mine: bool,
    ) -> int:
        """Note one record; return the number of rollouts that begin in it.

        `key` is the digest of its key, `opening` a number that rollouts of one task share. One that is not `mine` is
        counted, and nothing else.
        """
        line = record.line
        at = place(record)
        group = at.to_bytes(8) if self._alone else key
        rollouts = 0
        for rollout in record.rollouts:
            if rollout.member is None:
                rollouts += 1
                continue
            # several records may hold a part of it
            member = blake2b(group + digest(rollout.member), digest_size=16)
            before = len(self._members)
            rollouts += self._members.number(member.digest()) == before
        if not rollouts:  # a later part of a rollout may begin otherwise
            opening = None
        draw = None if self.seed is None else _draw(self.seed, line.raw)
        source = self._sources.setdefault(line.source, len(self._sources))
        bytes_there = (at, line.offset, len(line.raw), short_hash(line.raw))
        row = (*bytes_there, key, rollouts, mine, opening, source, draw)
        self._new.append(row)
        if len(self._new) >= _BUFFERED:
            self._table()
        return rollouts

    def _table(self) -> Table:
        """Return the table, with all rows."""
        if self._new:
            query = "INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            with self._lines.locked() as db:
                db.executemany(query, self._new)
            self._new.clear()
        return self._lines

    def sizes(self) -> list[int]:
        """Count groups: all, smallest, largest, those of one rollout, and the run's own."""
        (row,) = self._table().rows(
            "SELECT count(*), min(n), max(n), sum(n = 1), sum(own) FROM "  # noqa: S608 - one of two names
            f"(SELECT sum(rollouts) n, max(mine) own FROM line GROUP BY {self._by})"
        )
        return [count or 0 for count in row]

    def returned(self, *, apart: bool = False) -> tuple[int, int] | None:
        """Return two lines, of which the second has the key of the first; None if no key comes back.

        `apart`: other groups must stand between the two.
        """
        rows = self._table().rows(
            f"SELECT prior >> {PARTS}, id >> {PARTS} FROM "  # noqa: S608 - a number
            "(SELECT id, key, lag(key) OVER (ORDER BY id) before,"
            " lag(id) OVER (PARTITION BY key ORDER BY id) prior FROM line) "
            "WHERE prior IS NOT NULL AND (NOT ? OR before != key) ORDER BY id LIMIT 1",
            apart,
        )
        return rows[0] if rows else None

    def mixed(self, labels: Mapping[str, str] | None = None) -> tuple[int, int]:
        """Count groups whose rollouts have different openings; return the first one's first line, too.

        With `labels`, the names of files → labels, what one label has of a group counts as a group.
        """
        label_of = {
            source: (labels or {}).get(name)
            for name, source in self._sources.items()
        }
        with self._lines.locked() as db:
            db.create_function(
                "label",
                1,
                label_of.get,
            )
        ((count, first),) = self._table().rows(
            "SELECT count(*), min(first) FROM (SELECT min(id) first FROM line "
            "GROUP BY key, label(source) HAVING min(opening) != max(opening))"
        )
        return count, (first or 0) >> PARTS

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """Yield the first record, the rollouts and the bytes of own groups, in the order of the digests of keys."""
        return self._table().each_row(
            "SELECT min(id), sum(rollouts), sum(size) FROM line WHERE mine "  # noqa: S608 - one of two names
            f"GROUP BY {self._by} HAVING sum(rollouts) ORDER BY key, id"
        )

    def places(
        self,
        chosen: Collection[int] | None = None,
        *,
        apart: bool,
    ) -> Iterator[list[Row]]:
        """Yield the rows of each own group, in the order of their first records, or as drawn.

        With `chosen` only of the groups that have these first records. `apart`: other groups may stand between records
        of one.
        """
        table = self._table()
        query = f"SELECT {self._by}, {_ROW} FROM line WHERE mine ORDER BY id"  # noqa: S608 - one of two names
        if apart or self.seed is not None:
            table.rows(
                f"CREATE INDEX IF NOT EXISTS by_group ON line ({self._by}, id)"
            )
            query = (
                f"SELECT first, {_ROW} FROM "  # noqa: S608 - one of two names
                # beside min(id) SQLite returns the draw of that row
                f"(SELECT {self._by} own, min(id) first, draw drawn FROM line WHERE mine GROUP BY {self._by}) "
                f"JOIN line ON {self._by} = own ORDER BY drawn, first, id"
            )
        rows = table.each_row(query)
        for _, members in itertools.groupby(rows, key=itemgetter(0)):
            group = [Row(*member[1:]) for member in members]
            if chosen is None or group[0].place in chosen:
                yield group

    def lines(self) -> Iterator[Row]:
        """Yield the lines of the own groups, in input order."""
        query = f"SELECT {_ROW} FROM line WHERE mine AND NOT id % {1 << PARTS} ORDER BY id"  # noqa: S608 - a number
        for row in self._table().each_row(query):
            yield Row(*row)


def _draw(seed: int, raw: bytes) -> int:
    """Return a number that depends only on the seed, of any size, and the bytes."""
    key = blake2b(str(seed).encode(), digest_size=32).digest()
    draw = blake2b(
        raw,
        digest_size=8,
        person=b"draw",
        key=key,
    ).digest()
    return int.from_bytes(draw, signed=True)


class OutputOrder:
    """Holds the bodies of lines on disk until all lines before them have come."""

    def __init__(self, index: Index) -> None:
        """Take the index of the lines."""
        self._bodies = Table("body (number INTEGER PRIMARY KEY, body)")
        self._lines = index.lines()
        self._next = next(self._lines, None)

    def ordered(
        self, bodies: Iterable[tuple[int, bytes]]
    ) -> Iterator[tuple[int, bytes]]:
        """Keep the bodies of lines, and yield those that come next in the order of INPUT."""
        rows = self._bodies.rows
        for number, body in bodies:
            rows(
                "INSERT INTO body VALUES (?, ?)",
                number,
                body,
            )
        while self._next is not None:
            where = "FROM body WHERE number = ?"
            ready = rows(f"SELECT number, body {where}", self._next.number)
            if not ready:
                return
            rows(f"DELETE {where}", self._next.number)
            yield from ready
            self._next = next(self._lines, None)

    def close(self) -> None:
        """Free the disk."""
        self._bodies.close()
