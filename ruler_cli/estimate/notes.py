"""Records → what a page about the whole input needs, in one pass and in memory that does not grow.

Each rollout is a row in a temporary file that SQLite keeps and deletes; groups are put together from
those rows at the end, however far apart their records lay.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ruler_cli.formats.rewards import number
from ruler_cli.index import place
from ruler_cli.quantiles import rounded
from ruler_cli.records import Record, Rollout
from ruler_cli.scoring.weight import weigh

_BATCH = 2_000


class Noted(NamedTuple):
    """One group: its number, its first record's, and of its rollouts how many there are and differ.

    `size` is bytes of all that differ, with the opening once where all share it; rewards are None
    where no rollout has a number.
    """

    number: int
    first: int
    rollouts: int
    distinct: int
    size: int
    rewards: int
    lowest: float | None
    highest: float | None


@dataclass(slots=True)
class Tally:
    """Values at one place of all rollouts: how many are absent, no number, and what the others come to."""

    absent: int = 0
    other: int = 0
    numbers: int = 0
    total: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    of_truth: bool = True

    def add(self, value: Any) -> float | None:
        """Count one; the number it comes to."""
        if value is None:
            self.absent += 1
            return None
        found = number(value)
        if found is None:
            self.other += 1
            return None
        if self.numbers:
            self.lowest, self.highest = min(self.lowest, found), max(self.highest, found)
        else:
            self.lowest = self.highest = found
        self.numbers += 1
        self.total += found
        self.of_truth = self.of_truth and found in (0.0, 1.0)
        return found

    @property
    def mean(self) -> float | None:
        """The mean of the numbers; the share of true ones where all are 0 or 1."""
        return self.total / self.numbers if self.numbers else None


@dataclass(slots=True)
class Overview:
    """What the groups of an input are like; `sizes` counts groups of each size, `lengths` rollouts.

    `identical` rollouts repeat another, `alike` groups hold such: as far as a look tells.
    Sizes are rollouts after the parts of one are joined. `equal` groups have rewards that are all the
    same, so that their own rewards teach nothing; `spread` is the mean of highest less lowest reward.
    """

    groups: int = 0
    rollouts: int = 0
    identical: int = 0
    alike: int = 0
    tied: int = 0
    equal: int = 0
    spread: float | None = None
    sizes: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)


class Notes:
    """What is noted of each record."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA cache_size = -500")
        self._db.execute("BEGIN")
        self._db.execute(
            "CREATE TABLE note (grp INT, at INT, member INT, opening_size INT, size INT, opening INT,"
            " body INT, reward REAL)"
        )
        self._rows: list[tuple[Any, ...]] = []
        self._parts = self._grouped = False
        self.bytes = self.records = 0
        self.rewards, self.outcomes = Tally(), Tally()

    def add(self, record: Record, group: int, rollouts: int) -> bool:
        """Note one record, the number of its group, and how many rollouts begin in it.

        Whether all of it can be judged.
        """
        at, fine = place(record), bool(record.rollouts)
        self.records += 1
        self.bytes += len(record.line.raw) // record.parts
        for rollout in record.rollouts:
            if rollout.fault is not None:
                fine = False
                continue
            weight = weigh(record, rollout)
            reward = self._tally(rollout) if rollouts > 0 else number(rollout.reward)
            rollouts -= 1
            member = None
            if rollout.member is not None:
                member, self._parts = hash(rollout.member), True
            self._rows.append((group, at, member, *weight, reward))
        if len(self._rows) >= _BATCH:
            self._flush()
        return fine

    def _tally(self, rollout: Rollout) -> float | None:
        if rollout.outcome is None:  # as in most dumps
            self.outcomes.absent += 1
        else:
            self.outcomes.add(rollout.outcome)
        return self.rewards.add(rollout.reward)

    def _flush(self) -> None:
        self._db.executemany("INSERT INTO note VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._rows)
        self._rows.clear()

    def groups(self) -> Iterator[Noted]:
        """Every group that has something to judge, in an order that has nothing to do with the input's."""
        if not self._grouped:
            self._group()
        yield from map(Noted._make, self._db.execute("SELECT * FROM noted ORDER BY rowid"))

    def _group(self) -> None:
        self._grouped = True
        self._flush()
        self._join()
        self._db.execute(
            "CREATE TABLE noted AS SELECT grp, min(at), count(*), count(DISTINCT body),"
            " sum(size) * count(DISTINCT body) / count(*) +"
            " CASE WHEN min(opening) = max(opening) THEN max(opening_size) ELSE sum(opening_size) END,"
            " count(reward), min(reward), max(reward) FROM note GROUP BY grp"
        )

    def places(self, groups: Iterable[int]) -> dict[int, list[int]]:
        """The records of some groups, in input order."""
        wanted = list(groups)
        found: dict[int, list[int]] = {group: [] for group in wanted}
        for start in range(0, len(wanted), 500):
            some = wanted[start : start + 500]
            marks = ", ".join("?" * len(some))
            rows = self._db.execute(
                f"SELECT DISTINCT grp, at FROM note WHERE grp IN ({marks}) ORDER BY at",  # noqa: S608 - marks
                some,
            )
            for group, at in rows:
                found[group].append(at)
        return found

    def overview(self) -> Overview:
        """What all groups are like."""
        found, spread, spreads = Overview(), 0.0, 0
        for group in self.groups():
            found.groups += 1
            found.rollouts += group.rollouts
            found.identical += group.rollouts - group.distinct
            found.alike += group.distinct < group.rollouts
            found.tied += group.distinct == 1
            found.sizes[group.rollouts] += 1
            if group.rewards > 1 and group.lowest is not None and group.highest is not None:
                spread += group.highest - group.lowest
                spreads += 1
                found.equal += group.rewards == group.rollouts and group.highest == group.lowest
        found.spread = spread / spreads if spreads else None
        for size, count in self._db.execute("SELECT opening_size + size, count(*) FROM note GROUP BY 1"):
            found.lengths[rounded(size)] += count
        return found

    def close(self) -> None:
        """Forget everything."""
        self._db.close()

    def _join(self) -> None:
        """Make one row of the parts of a rollout, once."""
        if not self._parts:
            return
        self._parts = False
        self._db.execute("ALTER TABLE note RENAME TO part")
        self._db.execute(
            "CREATE TABLE note AS SELECT grp, min(at) at, member, opening_size, sum(size) size, opening,"
            " CASE WHEN count(*) = 1 THEN body ELSE group_concat(body) END body, max(reward) reward"
            " FROM part GROUP BY grp, ifnull(member, -rowid), member IS NULL"
        )
