"""Records → what a page about the whole input needs, in one pass and in memory that does not grow.

Each rollout is a row in a temporary file that SQLite keeps and deletes; groups are put together from
those rows at the end, however far apart their records lay. Laying out a gigabyte takes minutes, so of a
large input some groups are laid out for all of their kind: those with about as many rollouts, as many of
them different, and about as many bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ruler_cli.errors import UnreadableError
from ruler_cli.files.container import Container
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.detect import SAMPLE
from ruler_cli.formats.interface import PROMPT_HASH, Layout, fits
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import given, number
from ruler_cli.index import place
from ruler_cli.records import Group, Problem, Record, Rollout
from ruler_cli.scratch import room, tables
from ruler_cli.settings import InputSettings

_OWN = "where the format has it"
SMALL = 64 << 20
"""Bytes of input up to which every group is laid out."""
_SAMPLE, _ENOUGH = (32, 128), 6 << 20
"""Groups that are laid out of a large input, the fewest and the most, beside one of each kind; and the bytes
of groups that tell enough."""
_ROWS, _END = 2_000, 400
"""Rows that are written at once, and characters of a rollout's last text that are looked at."""


@dataclass(slots=True)
class Share:
    """Groups that one of `size` bytes is laid out for, itself included: bytes of all and of the longest."""

    size: int = 1
    groups: int = 1
    bytes: int = 1
    longest: int = 1

    @property
    def mean(self) -> float:
        """How long they are on average, to the one that is laid out."""
        return self.bytes / self.groups / self.size

    @property
    def most(self) -> float:
        """How long the longest is, to the one that is laid out."""
        return self.longest / self.size


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
        self.lowest = min(self.lowest, found) if self.numbers else found
        self.highest = max(self.highest, found) if self.numbers else found
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
    """What the groups of an input are like; `sizes` counts groups of each number of rollouts.

    Rollouts are counted after the parts of one are joined. `equal` groups have rewards that are all the
    same, so that their own rewards teach nothing; `spread` is the mean of highest less lowest reward.
    """

    groups: int = 0
    rollouts: int = 0
    equal: int = 0
    spread: float | None = None
    sizes: Counter[int] = field(default_factory=Counter)


class _Noted(NamedTuple):
    """One group: its number, rollouts, how many of them differ, bytes, and how many have which rewards."""

    number: int
    rollouts: int
    distinct: int
    size: int
    rewards: int
    lowest: float | None
    highest: float | None

    @property
    def kind(self) -> tuple[int, int, int]:
        """Kind of the group: numbers up to 63 as they are, and its size to the first three binary digits."""
        return _leading(self.rollouts, 6), _leading(self.distinct, 6), _leading(self.size, 3)


class Notes:
    """Rows of rollouts, tallies of their rewards, and the first records, until `close`."""

    def __init__(self, on_problem: Callable[[Problem], None]) -> None:
        """`on_problem` is told what cannot be judged of records, once."""
        self._on_problem = on_problem
        self.unit = "record"
        self._begin()

    def _begin(self) -> None:
        table = "CREATE TABLE note (grp INT, at INT, member INT, size INT, body INT, reward REAL)"
        self._db = tables(table, cache=500)
        self._rows: list[tuple[Any, ...]] = []
        self._grouped = False
        self.bytes = self.records = self._rollouts = 0
        self.rewards, self.outcomes = Tally(), Tally()
        self.first: list[Record] = []

    def opened(self, container: Container) -> None:
        """Take in what holds the records."""
        self.unit = container.unit

    def again(self) -> None:
        """Begin anew, since other records belong together; what cannot be judged is told already."""
        self.close()
        self._begin()
        self._on_problem = lambda _: None

    def add(self, record: Record, group: int, rollouts: int) -> None:
        """Note one record, the number of its group, and how many rollouts begin in it."""
        line, size = record.line, len(record.line.raw) // record.parts
        self.records += 1
        self.bytes += size
        if len(self.first) < SAMPLE:
            self.first.append(record)
        if not record.rollouts:
            self._on_problem(Problem(line.number, "is a group without trajectories", b"", line.place))
        for rollout in record.rollouts:
            if rollout.fault is not None:
                self._on_problem(Problem(line.number, rollout.problem, b"", line.place))
                continue
            if rollouts > 0:  # no later part of one that was noted
                self.rewards.add(rollout.reward)
                self.outcomes.add(rollout.outcome)
            rollouts -= 1
            self._rollouts += 1
            member = self._rollouts if rollout.member is None else hash(rollout.member)
            each, reward = max(1, size // len(record.rollouts)), number(rollout.reward)
            self._rows.append((group, place(record), member, each, _look(rollout), reward))
        if len(self._rows) >= _ROWS:
            self._flush()

    def format(self, reader: Reader | None) -> dict[str, Any] | None:
        """The format, and how many of the first records have its keys."""
        if reader is None:
            return None
        form, agreed = reader.format, 0
        lines = {record.line.number: record.line for record in self.first}
        for line in lines.values():
            try:
                agreed += bool(fits(form, parse(line.raw)))
            except UnreadableError:
                continue
        about = {"name": form.name, "family": form.family, "shape": form.shape, "tells": form.tells}
        return about | {"agreed": agreed, "first": len(lines)}

    def paths(self, reader: Reader | None, told: InputSettings) -> dict[str, dict[str, Any]]:
        """Where messages, key, reward and outcome stand, who says so, and what the first record has there."""
        if reader is None:
            return {}
        rewards, outcomes = self.rewards, self.outcomes
        one = next((r for record in self.first for r in record.rollouts if r.fault is None), None)
        key = self.first[0].key if self.first else None
        hashed = "the line" if reader.format.shape == "group" else "hash of the prompt"
        where = hashed if reader.key == PROMPT_HASH else reader.key
        outcome = told.outcome or (_OWN if outcomes.numbers + outcomes.other else "")
        reward = told.reward or _reward(reader.format.layout, rewards.numbers + rewards.other)
        found = {
            "messages": _path(told.messages or _OWN, told.messages, _said(one)),
            "prompt": _path(told.prompt or "", told.prompt, _opening(one)),
            "group key": _path(where, told.group_by, None if key is None else _value(key)),
            "reward": _path(reward, told.reward, _value(one.reward) if one else None, rewards.absent),
            "outcome": _path(
                outcome, told.outcome, _value(one.outcome) if one and outcome else None, outcomes.absent
            ),
        }
        return {name: path for name, path in found.items() if name != "prompt" or told.prompt}

    def overview(self) -> Overview:
        """What all groups are like."""
        found, spread, spreads = Overview(), 0.0, 0
        for group in self._groups():
            found.groups += 1
            found.rollouts += group.rollouts
            found.sizes[group.rollouts] += 1
            if group.rewards > 1 and group.lowest is not None and group.highest is not None:
                spread += group.highest - group.lowest
                spreads += 1
                found.equal += group.rewards == group.rollouts and group.highest == group.lowest
        found.spread = spread / spreads if spreads else None
        return found

    def sample(
        self, fetch: Callable[[Sequence[Sequence[int]]], Iterable[Group]]
    ) -> Iterator[tuple[Group, Share]]:
        """Some groups of each kind, the same each time; `fetch` reads groups by their records' numbers."""
        shares = self._shares()
        records = self._records(shares)
        by_first = {found[0]: shares[number] for number, found in records.items()}
        for group in fetch(list(records.values())):
            yield group, by_first[place(group.records[0])]

    def close(self) -> None:
        """Forget everything."""
        self._db.close()

    def _shares(self) -> dict[int, Share]:
        """Of each kind the first group and every so many of those that follow, each for those up to the next.

        A kind has as many as it has part in the bytes.
        """
        groups = sum(1 for _ in self._groups())
        most = self.bytes / min(_SAMPLE[1], max(_SAMPLE[0], _ENOUGH * groups // self.bytes))
        shares: dict[int, Share] = {}
        last: dict[tuple[int, int, int], Share] = {}
        for group in self._groups():
            share = last.get(group.kind)
            if share is None or share.bytes + group.size > most:
                last[group.kind] = shares[group.number] = Share(group.size, 1, group.size, group.size)
                continue
            share.groups, share.bytes = share.groups + 1, share.bytes + group.size
            share.longest = max(share.longest, group.size)
        return shares

    def _groups(self) -> Iterator[_Noted]:
        """Every group that has something to judge, in an order that has nothing to do with the input's."""
        if not self._grouped:
            self._grouped = True
            self._flush()
            with room():
                self._db.execute(
                    "CREATE TABLE noted AS SELECT grp, count(*), count(DISTINCT body), sum(size),"
                    " count(reward), min(reward), max(reward) FROM (SELECT grp, sum(size) size,"
                    " CASE count(*) WHEN 1 THEN body ELSE group_concat(body) END body, max(reward) reward"
                    " FROM note GROUP BY grp, member) GROUP BY grp"  # parts of one rollout are one
                )
        yield from map(_Noted._make, self._db.execute("SELECT * FROM noted ORDER BY rowid"))

    def _records(self, groups: Iterable[int]) -> dict[int, list[int]]:
        """The records of some groups, in input order."""
        self._db.execute("CREATE TABLE wanted (grp INT PRIMARY KEY)")
        self._db.executemany("INSERT INTO wanted VALUES (?)", ((group,) for group in groups))
        found: dict[int, list[int]] = {}
        for group, at in self._db.execute(
            "SELECT DISTINCT grp, at FROM note WHERE grp IN wanted ORDER BY at"
        ):
            found.setdefault(group, []).append(at)
        return found

    def _flush(self) -> None:
        with room():
            self._db.executemany("INSERT INTO note VALUES (?, ?, ?, ?, ?, ?)", self._rows)
        self._rows.clear()


def _look(rollout: Rollout) -> int:
    """A number that rollouts share if they look the same: rendering takes ten times as long as parsing."""
    texts = [message.get("content") for message in rollout.messages]
    lengths = [len(text) if isinstance(text, str | list) else 0 for text in texts]
    end = texts[-1][-_END:] if texts and isinstance(texts[-1], str) else ""
    return hash((end, len(rollout.histories), *lengths))


def _leading(number: int, digits: int) -> int:
    """A number to its first binary digits."""
    less = max(0, number.bit_length() - digits)
    return number >> less << less


def _path(path: str, by: str | None, example: str | None, absent: int = 0) -> dict[str, Any]:
    return {"path": path, "given": bool(by), "example": example, "absent": absent}


def _reward(layout: Layout, seen: int) -> str:
    """Where a format has its rewards; empty where it has none, and so no room for a score either."""
    path = layout.source or layout.reward
    return ".".join(map(str, path)) if path else _OWN if seen else ""


def _said(rollout: Rollout | None) -> str | None:
    """The beginning of the last message of a conversation."""
    if rollout is None or not rollout.messages:
        return None
    content = rollout.messages[-1].get("content")
    return _value(rollout.messages[-1] if content is None else content)


def _opening(rollout: Rollout | None) -> str | None:
    """The beginning of the first message that is no system prompt."""
    messages = rollout.messages if rollout is not None else []
    first = next((m for m in messages if m.get("role") not in ("system", "developer")), None)
    return None if first is None else _value(first.get("content"))


def _value(value: Any) -> str:
    """A value as JSON, short."""
    return shortened(dump(given(value)).decode("utf-8", "replace"))


def shortened(text: str, most: int = 60) -> str:
    """Text that fits on a line."""
    return text if len(text) <= most else text[: most - 1] + "…"
