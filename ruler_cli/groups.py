"""Records → groups: by line, consecutive, or scattered.

A file is surveyed first (`survey`): every line is read, its group key noted, and nothing is judged
before the whole input is known to be readable. The notes stand in a temporary SQLite file, so
memory does not grow with the dump. From stdin there is no second look: groups must be adjacent.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.reader import Reader
from ruler_cli.records import Group, Line, Problem, Record

OnProblem = Callable[[Problem], None]
Where = Callable[[int], str]
"""The number of a record → how a sentence names its place."""
_BATCH = 2_000


def line_of(number: int) -> str:
    """The place of a record of JSON lines."""
    return f"line {number}"


@dataclass(slots=True)
class Survey:
    """What a first look at a file found; sizes are rollouts per group.

    `end` is the number of the last line and the offset behind it: what is appended later is not read.
    """

    reader: Reader
    grouping: Literal["line", "consecutive", "scattered"]
    records: int = 0
    groups: int = 0
    rollouts: int = 0
    smallest: int = 0
    largest: int = 0
    singles: int = 0
    problems: int = 0
    repeated: tuple[int, int] | None = None
    end: tuple[int, int] = (0, 0)
    where: Where = line_of

    def warnings(self) -> list[str]:
        """What makes the group key look wrong, a sentence each."""
        key, out = self.reader.key, []
        way = "if that is not meant, name the key with --group-by PATH"
        if self.groups > 1 and self.singles == self.groups:
            lies = "" if self.reader.format.shape == "group" else f" (key `{key}`)"
            out.append(
                f"every group has one rollout{lies}: nothing can be compared" + (f"; {way}" if lies else "")
            )
        elif self.groups == 1 and self.records > 1 and self.reader.format.shape == "trajectory":
            out.append(f"all {self.records} records are one group (key `{key}`); {way}")
        elif self.groups > 1 and self.largest > 8 * max(1, self.rollouts // self.groups):
            out.append(f"group sizes are very uneven, {self.smallest} to {self.largest} (key `{key}`); {way}")
        if self.repeated:
            first, second = self.repeated
            out.append(
                f"{self.where(first)} and {self.where(second)} have the same `{key}`; each is judged as a "
                "group of its own"
            )
        return out


class Index:
    """Line → group key and place, in a temporary file that SQLite keeps and deletes.

    A run that stops closes it while a thread may still be reading the input into it: SQLite itself
    would crash, so each statement holds a lock, and the thread finds the index closed instead.
    """

    def __init__(self) -> None:
        """An empty index."""
        self._lock = threading.Lock()
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        # pages beyond these go to the file, and sorting keeps to the same bounds: memory stays flat
        self._db.execute("PRAGMA cache_size = -500")
        self._db.execute("PRAGMA soft_heap_limit = 1500000")
        self._db.execute("BEGIN")
        self._db.execute(
            "CREATE TABLE line (number INTEGER PRIMARY KEY, start INT, size INT, key BLOB, rollouts INT)"
        )
        self._db.execute("CREATE TABLE mark (number INTEGER PRIMARY KEY, body BLOB)")
        self._db.execute("CREATE TABLE seen (key BLOB PRIMARY KEY, number INT) WITHOUT ROWID")
        self._rows: list[tuple[int, int, int, bytes, int]] = []

    def add(self, line: Line, key: str, rollouts: int) -> None:
        """Note one readable line."""
        self._rows.append((line.number, line.offset, len(line.raw), digest(key), rollouts))
        if len(self._rows) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Hand the noted lines to SQLite."""
        with self._lock:
            self._db.executemany("INSERT INTO line VALUES (?, ?, ?, ?, ?)", self._rows)
        self._rows.clear()

    def first_seen(self, key: str, number: int) -> int:
        """The line on which a key was first told here; `number` itself the first time."""
        row = (digest(key), number)
        with self._lock:
            if self._db.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", row).rowcount:
                return number
        (found,) = self._all("SELECT number FROM seen WHERE key = ?", row[:1])
        return int(found[0])

    def sizes(self, *, each_line: bool = False) -> tuple[int, int, int, int]:
        """Groups, smallest, largest, and how many have one rollout; a line may be a group of its own."""
        by = "number" if each_line else "key"
        (row,) = self._all(
            f"SELECT count(*), min(n), max(n), sum(n = 1) FROM (SELECT sum(rollouts) n FROM line GROUP BY {by})"  # noqa: S608, E501 - one of two column names
        )
        return tuple(int(x or 0) for x in row)  # type: ignore[return-value]  # four columns

    def runs(self) -> int:
        """How many stretches of equal keys the file has; as many as groups: adjacent."""
        (row,) = self._all(
            "SELECT count(*) FROM (SELECT key, lag(key) OVER (ORDER BY number) before FROM line) "
            "WHERE before IS NULL OR before != key"
        )
        return int(row[0])

    def repeated_key(self, *, apart: bool = False) -> tuple[int, int] | None:
        """The first line whose key was there before, after the line that had it; `apart`: not adjacent."""
        rows = self._all(
            "SELECT prior, number FROM (SELECT number, key, lag(key) OVER (ORDER BY number) before,"
            " lag(number) OVER (PARTITION BY key ORDER BY number) prior FROM line) "
            "WHERE prior IS NOT NULL AND (NOT ? OR before != key) ORDER BY number LIMIT 1",
            (apart,),
        )
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def close(self) -> None:
        """Forget everything; a statement that runs in another thread is broken off."""
        self._db.interrupt()
        with self._lock:
            self._db.close()

    def _all(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def places(self) -> Iterator[list[tuple[int, int, int]]]:
        """(number, start, size) of each group's lines, groups in the order of their first line."""
        self._db.execute("CREATE INDEX IF NOT EXISTS by_key ON line (key, number)")
        self._db.execute(
            "CREATE TEMP TABLE ranked AS SELECT l.number, l.start, l.size, f.first FROM line l "
            "JOIN (SELECT key, min(number) first FROM line GROUP BY key) f ON f.key = l.key "
            "ORDER BY f.first, l.number"
        )
        rows = self._db.execute("SELECT number, start, size, first FROM ranked ORDER BY rowid")
        for _, members in itertools.groupby(rows, key=lambda row: row[3]):
            yield [(int(n), int(start), int(size)) for n, start, size, _ in members]

    def lines(self) -> Iterator[tuple[int, int, int]]:
        """(number, start, size) of every readable line, in input order."""
        with self._lock:
            rows = self._db.execute("SELECT number, start, size FROM line ORDER BY number")
        while True:
            with self._lock:
                row = rows.fetchone()
            if row is None:
                return
            yield row

    def keep(self, number: int, body: bytes) -> None:
        """Keep what will be written for a line until its turn comes."""
        with self._lock:
            self._db.execute("INSERT INTO mark VALUES (?, ?)", (number, body))

    def take(self, number: int) -> bytes | None:
        """What was kept for a line, if its group is done; it is forgotten here."""
        with self._lock:
            row = self._db.execute("SELECT body FROM mark WHERE number = ?", (number,)).fetchone()
            if row is None:
                return None
            self._db.execute("DELETE FROM mark WHERE number = ?", (number,))
        return bytes(row[0])


def digest(key: str) -> bytes:
    """16 bytes that stand for a group key."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def records(lines: Iterable[Line], reader: Reader, on_problem: OnProblem) -> Iterator[Record]:
    """Read each line; one that cannot be read goes to `on_problem`, with its reason."""
    for line in lines:
        try:
            found = reader.read(line)
        except UnreadableError as error:
            on_problem(Problem(line.number, str(error), line.raw, line.place))
            continue
        yield from found


def survey(
    lines: Iterable[Line],
    reader: Reader,
    grouping: str,
    index: Index,
    on_problem: OnProblem,
    where: Where = line_of,
) -> Survey:
    """Read the whole input once; decide how its groups lie."""
    whole = reader.format.shape != "trajectory"
    if whole and grouping in ("consecutive", "scattered"):
        raise UsageError(f"--grouping {grouping}: every record of this file already is a group")
    found = Survey(reader, "line", where=where)

    def count(problem: Problem) -> None:
        found.problems += 1
        on_problem(problem)

    def noted() -> Iterator[Line]:
        for line in lines:
            found.end = (line.number, line.offset + len(line.raw))
            yield line

    for record in records(noted(), reader, count):
        found.records += 1
        found.rollouts += len(record.rollouts)
        key = f"\n{record.line.number}" if grouping == "line" else str(record.key)
        index.add(record.line, key, len(record.rollouts))
    index.flush()
    found.groups, found.smallest, found.largest, found.singles = index.sizes(each_line=whole)
    if whole:
        found.repeated = index.repeated_key()
    elif grouping == "line":
        found.grouping = "line"
    else:
        adjacent = index.runs() == found.groups
        found.grouping = "consecutive" if adjacent and grouping != "scattered" else "scattered"
        if grouping == "consecutive" and not adjacent:
            one, other = index.repeated_key(apart=True) or (0, 0)
            raise UsageError(
                f"--grouping consecutive: {where(one)} and {where(other)} are one group with others "
                "between; leave --grouping at auto"
            )
    return found


def by_line(found: Iterable[Record]) -> Iterator[Group]:
    """Each record is a group."""
    for record in found:
        yield Group(str(record.key), (record,))


def consecutive(found: Iterable[Record], index: Index) -> Iterator[Group]:
    """Adjacent records of one key are a group; a key that comes back is a UsageError."""
    for key, members in itertools.groupby(found, key=lambda record: record.key):
        group = Group(str(key), tuple(members))
        number = group.records[0].line.number
        before = index.first_seen(group.key, number)
        if before != number:
            raise UsageError(
                f"line {number}: group {group.key!r} comes back after it ended (it began at line "
                f"{before}); from stdin groups must be adjacent: give the input as a file, or sort "
                "it by its group key"
            )
        yield group


def scattered(
    fd: int, reader: Reader, index: Index, place: Callable[[int], str] | None = None
) -> Iterator[Group]:
    """Groups whose records lie apart, fetched by offset from a file, in the order of their first record.

    `place` makes `Line.place` of a record's number.
    """
    for places in index.places():
        found: list[Record] = []
        for number, start, size in places:
            raw = os.pread(fd, size, start)
            found += reader.read(Line(number, start, raw, place(number) if place else ""))
        yield Group(str(found[0].key), tuple(found))
