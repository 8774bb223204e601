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
from operator import itemgetter
from typing import Any, BinaryIO, Literal, cast

from ruler_cli.files.error_map import temporary
from ruler_cli.types import Record

Place = tuple[int, int, int, int]
"""A line: its number, where it starts, its size in bytes, and a hash of them that holds in this process."""
_BATCH = 2_000
_TABLES = (
    # `id` is the line's number and the part of a columnar line, which is several groups
    "CREATE TABLE line (id INTEGER PRIMARY KEY, start INT, size INT, hash INT, key BLOB, rollouts INT, "
    "mine INT, opening INT, source INT, draw INT)",
    "CREATE TABLE mark (number INTEGER PRIMARY KEY, body BLOB)",
    "CREATE TABLE seen (key BLOB PRIMARY KEY, number INT) WITHOUT ROWID",
)
PARTS = 20
"""Bits of a record's number that tell the parts of one line."""
_NEXT = (
    f"SELECT number, body FROM mark WHERE number = (SELECT id >> {PARTS} FROM line "  # noqa: S608 - a number
    "WHERE mine AND id >= ? ORDER BY id LIMIT 1)"
)
_PLACE = f"id >> {PARTS}, start, size, hash"


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
        # of bytes still buffered; a full disk was reported already
        with suppress(OSError):
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
        self._lock = threading.Lock()
        self.seed = seed
        self.by: Literal["key", "id"] = "key"
        """Tells if records of one key are a group, or each record is."""
        # pages beyond the cache go to the file, and sorting keeps to the same bounds: memory stays flat
        limit = "PRAGMA soft_heap_limit = 1500000"
        self._db = temporary_database(limit, *_TABLES, cache=500)
        self._rows: list[tuple[object, ...]] = []
        self._sources: dict[str, int] = {}
        self._asked_about = 0
        self._next = 0
        """The first line that `in_turn` has not taken."""

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Let one statement run at a time; OutputError if there is no room on disk."""
        with self._lock, temporary():
            yield

    def _all(
        self, query: str, values: tuple[object, ...] = ()
    ) -> list[tuple[Any, ...]]:
        with self._statement():
            return self._db.execute(query, values).fetchall()

    def _found(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Yield rows, some at a time."""
        with self._statement():
            rows = self._db.execute(query)
        while True:
            with self._statement():
                batch = rows.fetchmany(_BATCH)
            if not batch:
                return
            yield from batch

    def add(
        self,
        record: Record,
        key: str,
        opening: int | None,
        *,
        mine: bool,
    ) -> tuple[bytes, int]:
        """Note one record; return the digest of its key, and the number of its rollouts.

        `opening` is a number that rollouts of one task share. One that is not `mine` is counted, and
        nothing else.
        """
        line = record.line
        short = digest(key)
        rollouts = self.rollouts(record, short if self.by == "key" else b"")
        source = self._sources.setdefault(line.source, len(self._sources))
        drawn = None
        if self.seed is not None:  # only the seed, of any size, and the bytes decide
            seed = blake2b(str(self.seed).encode(), digest_size=32).digest()
            draw = blake2b(line.raw, digest_size=8, person=b"draw", key=seed)
            drawn = int.from_bytes(draw.digest(), signed=True)
        at = place(record), line.offset, len(line.raw), hash(line.raw)
        # a later part of a rollout may begin otherwise
        begins = opening if rollouts else None
        self._rows.append((*at, short, rollouts, mine, begins, source, drawn))
        if len(self._rows) >= _BATCH:
            self.flush()
        return short, rollouts

    def rollouts(self, record: Record, group: bytes) -> int:
        """Count the rollouts that begin in a record: a part of one that another record began is none.

        `group` is the digest of its group's key; empty if the record is all of it.
        """
        members = [rollout.member for rollout in record.rollouts]
        if not any(member is not None for member in members):
            return len(members)
        group = group or place(record).to_bytes(8)
        return sum(
            member is None or self._is_new(group + digest(member)) for member in members
        )

    def _is_new(self, key: bytes, number: int = 0) -> bool:
        """Tell if a key was not seen yet, and note it with a number."""
        query = "INSERT OR IGNORE INTO seen VALUES (?, ?)"
        with self._statement():
            return bool(self._db.execute(query, (key, number)).rowcount)

    def flush(self) -> None:
        """Hand the noted lines to SQLite."""
        query = "INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        with self._statement():
            self._db.executemany(query, self._rows)
        self._rows.clear()

    def first_seen(self, key: str, number: int) -> int:
        """Return the line on which a key was seen first; `number` itself the first time."""
        short = digest(key)
        if self._is_new(short, number):
            return number
        ((first,),) = self._all("SELECT number FROM seen WHERE key = ?", (short,))
        return int(first)

    def among_first(self, key: bytes, limit: int) -> bool:
        """Tell if a group, by the digest of its key, is one of the first `limit` that are asked about."""
        if self._asked_about < limit:
            self._asked_about += self._is_new(key)
            return True
        return bool(self._all("SELECT 1 FROM seen WHERE key = ?", (key,)))

    def sizes(self) -> list[int]:
        """Count groups: all, smallest, largest, those of one rollout, and the run's own."""
        (row,) = self._all(
            "SELECT count(*), min(n), max(n), sum(n = 1), sum(own) FROM "  # noqa: S608 - one of two names
            f"(SELECT sum(rollouts) n, max(mine) own FROM line GROUP BY {self.by})"
        )
        return [int(x or 0) for x in row]

    def mixed(self, labels: Mapping[str, str] | None = None) -> tuple[int, int]:
        """Count groups whose rollouts have different openings; return the first one's first line, too.

        With `labels`, the names of files → labels, what one label has of a group counts as a group.
        """
        by = "key"
        if labels is not None:
            label = {
                self._sources[name]: own
                for name, own in labels.items()
                if name in self._sources  # of some files nothing can be read
            }
            with self._statement():
                self._db.create_function("label", 1, label.get)
            by = "key, label(source)"
        (row,) = self._all(
            f"SELECT count(*), min(first) FROM (SELECT min(id) first FROM line GROUP BY {by} "  # noqa: S608 - one of two
            "HAVING min(opening) <> max(opening))"
        )
        return int(row[0]), int(row[1] or 0) >> PARTS

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """Yield the first record, the rollouts and the bytes of own groups, in the order of digests of keys."""
        yield from self._found(
            "SELECT min(id), sum(rollouts), sum(size) FROM line "  # noqa: S608 - the same
            f"WHERE mine GROUP BY {self.by} HAVING sum(rollouts) ORDER BY key, id"
        )

    def chosen(self, firsts: Iterable[int]) -> Iterator[tuple[int, list[Place]]]:
        """Yield some groups, each given by its first record: that one, and the places of all."""
        self._all("CREATE INDEX IF NOT EXISTS by_key ON line (key)")
        query = (
            f"SELECT {_PLACE} FROM line WHERE {self.by} = "  # noqa: S608 - the same
            f"(SELECT {self.by} FROM line WHERE id = ?) ORDER BY id"
        )
        for first in sorted(firsts):
            yield first, self._all(query, (first,))

    def repeated_key(self, *, apart: bool = False) -> tuple[int, int] | None:
        """Return the first line whose key was there before, after the line that had it.

        With `apart` other keys stand between them.
        """
        rows = self._all(
            "SELECT prior, id FROM (SELECT id, key, lag(key) OVER (ORDER BY id) before,"
            " lag(id) OVER (PARTITION BY key ORDER BY id) prior FROM line) "
            "WHERE prior IS NOT NULL AND (NOT ? OR before != key) ORDER BY id LIMIT 1",
            (apart,),
        )
        for before, again in rows:
            return before >> PARTS, again >> PARTS
        return None

    def close(self) -> None:
        """Forget everything; a statement that runs in another thread is broken off."""
        self._db.interrupt()
        with self._lock:
            self._db.close()

    def places(self) -> Iterator[tuple[int, list[Place]]]:
        """Yield the first record of each own group and the places of all, in the order of these, or as drawn."""
        self._all(f"CREATE INDEX IF NOT EXISTS by_group ON line ({self.by}, id)")
        rows = self._found(
            f"SELECT first, {_PLACE} FROM "  # noqa: S608 - the same
            # beside min(id) SQLite returns the draw of that row
            f"(SELECT {self.by} own, min(id) first, draw drawn FROM line WHERE mine GROUP BY {self.by}) "
            f"JOIN line ON {self.by} = own ORDER BY drawn, first, id"
        )
        for first, members in itertools.groupby(rows, key=itemgetter(0)):
            yield first, [member[1:] for member in members]

    def lines(self) -> Iterator[Place]:
        """Yield the lines of the own groups, in input order."""
        own = f"mine AND NOT id & {(1 << PARTS) - 1}"
        yield from self._found(f"SELECT {_PLACE} FROM line WHERE {own} ORDER BY id")  # noqa: S608 - a number

    def in_turn(
        self, bodies: Iterable[tuple[int, bytes]]
    ) -> Iterator[tuple[int, bytes]]:
        """Keep the bodies of lines, and take those that have their turn, in the order of `lines`."""
        for body in bodies:
            self._all("INSERT INTO mark VALUES (?, ?)", body)
        while found := self._all(_NEXT, (self._next << PARTS,)):
            ((number, ready),) = found
            self._all("DELETE FROM mark WHERE number = ?", (number,))
            yield number, ready
            self._next = number + 1


def place(record: Record) -> int:
    """Return a number for each record of a file, in input order."""
    return record.line.number << PARTS | record.part


def digest(key: str) -> bytes:
    """Return 16 bytes that stand for a group key."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
