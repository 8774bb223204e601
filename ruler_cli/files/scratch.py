"""Temporary files of a run, which have no name and end with it: bytes by offset, and SQLite's tables."""

from __future__ import annotations

import itertools
import os
import pickle
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import blake2b
from typing import Any, BinaryIO, cast

from ruler_cli.files.error_map import temporary
from ruler_cli.types import Record

Place = tuple[int, int, int, int]
"""A line: its number, where it starts, its size in bytes, and a hash of them that holds in this process."""
_BATCH = 2_000
_TABLES = (
    # `id` is the line's number and the part of a columnar line, which is several groups
    "CREATE TABLE line (id INTEGER PRIMARY KEY, start INT, size INT, key BLOB, rollouts INT, mine INT, "
    "opening INT, source INT, hash INT)",
    "CREATE TABLE draw (id INTEGER PRIMARY KEY, number INT)",
    "CREATE TABLE mark (number INTEGER PRIMARY KEY, body BLOB)",
    "CREATE TABLE part (grp BLOB, member BLOB, PRIMARY KEY (grp, member)) WITHOUT ROWID",
    "CREATE TABLE seen (key BLOB PRIMARY KEY, number INT) WITHOUT ROWID",
)
PARTS = 20
"""Bits of a record's number that tell the parts of one line."""


class Scratch(AbstractContextManager["Scratch"]):
    """An unnamed temporary file. Writing raises OutputError if the disk is full."""

    def __init__(self) -> None:
        with temporary():
            self.file = cast(BinaryIO, tempfile.TemporaryFile(buffering=1 << 16))  # noqa: SIM115 - see `close`
        self.size = 0

    def write(self, data: bytes) -> int:
        """Append bytes and return their offset."""
        offset = self.size
        with temporary():
            self.size += self.file.write(data)
        return offset

    def put(self, value: object) -> None:
        """Append a value, which `all` reads."""
        # pickle: the file has no name and only this process writes and reads it
        with temporary():
            pickle.dump(value, self.file, pickle.HIGHEST_PROTOCOL)

    def all(self) -> Iterator[Any]:
        """Yield every value that was put, in order; call it after the last `put`."""
        with temporary():
            self.file.seek(0)
        while True:
            try:
                with temporary():
                    value = pickle.load(self.file)  # noqa: S301 - our own file, see `put`
            except EOFError:
                return
            yield value

    def skip(self, to: int) -> None:
        """Leave a hole up to an offset, which takes no space on disk."""
        if to != self.size:
            with temporary():
                self.size = self.file.seek(to)

    def read(self, size: int, at: int) -> bytes:
        """Read `size` bytes from the offset `at`."""
        return os.pread(self.fileno(), size, at)

    def fileno(self) -> int:
        """Flush the file and return its descriptor."""
        with temporary():
            self.file.flush()
        return self.file.fileno()

    def close(self) -> None:
        """Close the file, which frees the disk."""
        with suppress(
            OSError
        ):  # of bytes still buffered; a full disk was reported already
            self.file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def temporary_database(*statements: str, cache: int) -> sqlite3.Connection:
    """Open a temporary SQLite database and run the statements; it keeps `cache` kilobytes in memory."""
    db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = OFF",
        f"PRAGMA cache_size = -{cache}",
        "BEGIN",
        *statements,
    ):
        db.execute(statement).fetchall()
    return db


class Index:
    """Line → group key and place, in a temporary file that SQLite keeps and deletes.

    A run that stops closes it while a thread may still be reading the input into it: SQLite itself
    would crash, so each statement holds a lock, and the thread finds the index closed instead.
    """

    def __init__(self, seed: int | None = None) -> None:
        """With a `seed` the groups of `places` are in an order that only it and their contents decide."""
        self._lock, self.seed = threading.Lock(), seed
        self._draws: list[tuple[int, int]] = []
        # pages beyond the cache go to the file, and sorting keeps to the same bounds: memory stays flat
        self._db = temporary_database(
            "PRAGMA soft_heap_limit = 1500000", *_TABLES, cache=500
        )
        self._rows: list[
            tuple[int, int, int, bytes, int, bool, int | None, int, int]
        ] = []
        self._sources: dict[str, int] = {}
        self._asked_about = 0

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """One at a time; OutputError where there is no room on disk."""
        with self._lock, temporary():
            yield

    def add(
        self,
        record: Record,
        key: str,
        opening: int | None = None,
        *,
        whole: bool = False,
        mine: bool = True,
    ) -> tuple[bytes, int]:
        """Note one record, which may be a `whole` group: the digest of its key, and its rollouts.

        `opening` is a number that rollouts of one task share. One that is not `mine` is counted, and
        nothing else.
        """
        line, short = record.line, digest(key)
        rollouts = self.rollouts(record, b"" if whole else short)
        source = self._sources.setdefault(line.source, len(self._sources))
        begins = (
            opening if rollouts else None
        )  # a later part of a rollout may begin otherwise
        size, hashed = len(line.raw), hash(line.raw)
        self._rows.append(
            (
                place(record),
                line.offset,
                size,
                short,
                rollouts,
                mine,
                begins,
                source,
                hashed,
            )
        )
        if self.seed is not None:
            drawn = blake2b(
                line.raw, digest_size=8, person=b"draw", key=_seed_key(self.seed)
            ).digest()
            self._draws.append((place(record), int.from_bytes(drawn, signed=True)))
        if len(self._rows) >= _BATCH:
            self.flush()
        return short, rollouts

    def rollouts(self, record: Record, group: bytes) -> int:
        """Count the rollouts that begin in a record: a part of one that another record began is none.

        `group` is what its group is known by, nothing where the record is all of it.
        """
        if not [rollout for rollout in record.rollouts if rollout.member is not None]:
            return len(record.rollouts)
        group = group or place(record).to_bytes(8)
        return sum(
            r.member is None or self._first(group, r.member) for r in record.rollouts
        )

    def _first(self, group: bytes, member: str) -> bool:
        row = (group, digest(member))
        with self._statement():
            return bool(
                self._db.execute(
                    "INSERT OR IGNORE INTO part VALUES (?, ?)", row
                ).rowcount
            )

    def flush(self) -> None:
        """Hand the noted lines to SQLite."""
        with self._statement():
            self._db.executemany(
                "INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", self._rows
            )
            self._db.executemany("INSERT INTO draw VALUES (?, ?)", self._draws)
        self._rows.clear()
        self._draws.clear()

    def first_seen(self, key: str, number: int) -> int:
        """The line on which a key was first told here; `number` itself the first time."""
        seen = (digest(key), number)
        with self._statement():
            if self._db.execute(
                "INSERT OR IGNORE INTO seen VALUES (?, ?)", seen
            ).rowcount:
                return number
        (row,) = self._all("SELECT number FROM seen WHERE key = ?", seen[:1])
        return int(row[0])

    def among_first(self, key: bytes, limit: int) -> bool:
        """Tell if a group, by the digest of its key, is one of the first `limit` that are asked about."""
        with self._statement():
            if self._db.execute("SELECT 1 FROM seen WHERE key = ?", (key,)).fetchone():
                return True
            if self._asked_about < limit:
                self._db.execute("INSERT INTO seen VALUES (?, 0)", (key,))
                self._asked_about += 1
                return True
        return False

    def sizes(self, *, each_line: bool = False) -> list[int]:
        """Groups, smallest, largest, how many have one rollout, and how many are the run's own.

        A line may be a group of its own.
        """
        by = "id" if each_line else "key"
        (row,) = self._all(
            "SELECT count(*), min(n), max(n), sum(n = 1), sum(own) FROM "  # noqa: S608 - one of two names
            f"(SELECT sum(rollouts) n, max(mine) own FROM line GROUP BY {by})"
        )
        return [int(x or 0) for x in row]

    def mixed(self, labels: Mapping[str, str] | None = None) -> tuple[int, int]:
        """Groups whose rollouts have different openings, and the number of the first one's first line.

        With `labels`, the names of files → labels, what one label has of a group counts as a group.
        """
        by = "key"
        if labels is not None:
            numbers = {
                label: n for n, label in enumerate(dict.fromkeys(labels.values()))
            }
            known = (
                (self._sources.get(name), numbers[label])
                for name, label in labels.items()
            )
            rows = [
                row for row in known if row[0] is not None
            ]  # of some files nothing can be read
            with self._statement():
                self._db.execute("DROP TABLE IF EXISTS label")
                self._db.execute(
                    "CREATE TEMP TABLE label (source INTEGER PRIMARY KEY, label INT)"
                )
                self._db.executemany("INSERT INTO label VALUES (?, ?)", rows)
            by = "key, (SELECT label FROM label WHERE label.source = line.source)"
        (row,) = self._all(
            f"SELECT count(*), min(first) FROM (SELECT min(id) first FROM line GROUP BY {by} "  # noqa: S608 - one of two
            "HAVING min(opening) <> max(opening))"
        )
        return int(row[0]), int(row[1] or 0) >> PARTS

    def volume(self) -> int:
        """Bytes of the own records, those of a line for each of its parts."""
        ((size,),) = self._all("SELECT sum(size) FROM line WHERE mine")
        return int(size)

    def groups(self, *, each_line: bool = False) -> Iterator[tuple[int, int, int]]:
        """The first record, the rollouts and the bytes of own groups, in the order of the keys' digests."""
        by = "key, id" if each_line else "key"
        query = (
            "SELECT min(id), sum(rollouts), sum(size) FROM line "  # noqa: S608 - the same
            f"WHERE mine GROUP BY {by} HAVING sum(rollouts)"
        )
        with self._statement():
            rows = self._db.execute(query)
        yield from rows

    def chosen(
        self, firsts: Iterable[int], *, each_line: bool = False
    ) -> Iterator[tuple[int, list[Place]]]:
        """The records of some groups, each given by its first record: that one, and the places of all."""
        by = "id" if each_line else "key"
        with self._statement():
            self._db.execute("DROP TABLE IF EXISTS wanted")
            self._db.execute("CREATE TABLE wanted (grp PRIMARY KEY)")
            query = f"INSERT INTO wanted SELECT {by} FROM line WHERE id = ?"  # noqa: S608 - one of two names
            self._db.executemany(query, ((first,) for first in firsts))
        query = f"SELECT {by}, id, start, size, hash FROM line WHERE {by} IN wanted ORDER BY id"  # noqa: S608 - the same
        groups: dict[object, tuple[int, list[Place]]] = {}
        for group, at, *there in self._all(query):
            groups.setdefault(group, (at, []))[1].append(_place(at, *there))
        yield from groups.values()

    def repeated_key(self, *, apart: bool = False) -> tuple[int, int] | None:
        """The first line whose key was there before, after the line that had it; `apart`: not adjacent."""
        rows = self._all(
            "SELECT prior, id FROM (SELECT id, key, lag(key) OVER (ORDER BY id) before,"
            " lag(id) OVER (PARTITION BY key ORDER BY id) prior FROM line) "
            "WHERE prior IS NOT NULL AND (NOT ? OR before != key) ORDER BY id LIMIT 1",
            (apart,),
        )
        return (int(rows[0][0]) >> PARTS, int(rows[0][1]) >> PARTS) if rows else None

    def close(self) -> None:
        """Forget everything; a statement that runs in another thread is broken off."""
        self._db.interrupt()
        with self._lock:
            self._db.close()

    def _all(
        self, query: str, values: tuple[object, ...] = ()
    ) -> list[tuple[Any, ...]]:
        with self._statement():
            return self._db.execute(query, values).fetchall()

    def places(self, *, each_line: bool = False) -> Iterator[list[Place]]:
        """The places of the lines of each own group, groups in the order of their first line, or as drawn.

        A line may be a group of its own, or several: then it comes once for each.
        """
        by = f"id >> {PARTS}" if each_line else "key"
        with self._statement():
            self._db.execute(f"CREATE INDEX IF NOT EXISTS by_group ON line ({by}, id)")
            self._db.execute(
                "CREATE TEMP TABLE IF NOT EXISTS ranked AS SELECT l.id, l.start, l.size, l.hash, f.first "  # noqa: S608 - one of two
                f"FROM (SELECT {by} own, min(id) first FROM line WHERE mine GROUP BY {by}) f "
                f"JOIN line l ON l.{by} = f.own LEFT JOIN draw d ON d.id = f.first "
                "ORDER BY d.number, f.first, l.id"
            )
        rows = self._db.execute(
            "SELECT id, start, size, hash, first FROM ranked ORDER BY rowid"
        )
        for _, members in itertools.groupby(rows, key=lambda row: row[4]):
            yield [_place(*row[:4]) for row in members]

    def lines(self) -> Iterator[Place]:
        """Every readable line of the own groups, in input order; once for each group of a columnar line."""
        with self._statement():
            rows = self._db.execute(
                "SELECT id, start, size, hash FROM line WHERE mine ORDER BY id"
            )
        while True:
            with self._statement():
                batch = rows.fetchmany(_BATCH)
            if not batch:
                return
            yield from (_place(*row) for row in batch)

    def keep(self, number: int, body: bytes) -> None:
        """Keep the body of a line until it can be written in its order."""
        with self._statement():
            self._db.execute("INSERT INTO mark VALUES (?, ?)", (number, body))

    def take(self, number: int) -> bytes | None:
        """Take the body of a line, if its group is done; it is removed here."""
        with self._statement():
            row = self._db.execute(
                "SELECT body FROM mark WHERE number = ?", (number,)
            ).fetchone()
            if row is None:
                return None
            self._db.execute("DELETE FROM mark WHERE number = ?", (number,))
        return bytes(row[0])


def _place(at: int, start: int, size: int, hashed: int) -> Place:
    """Return the place of a record, which has the number `at` among the parts of all lines."""
    return at >> PARTS, start, size, hashed


def place(record: Record) -> int:
    """A number for each record of a file, in input order."""
    return record.line.number << PARTS | record.part


def _seed_key(seed: int) -> bytes:
    """The key of a hash for a seed; a seed of a hundred digits is one too."""
    return blake2b(str(seed).encode(), digest_size=32).digest()


def digest(key: str) -> bytes:
    """16 bytes that stand for a group key."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
