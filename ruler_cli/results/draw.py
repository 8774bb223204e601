"""Scored groups → pairs of rollouts that people are to compare: most at random, the others where they teach most.

All pairs are those of two rollouts of a group that differ, have a score of the judges and can be read. About
two thirds of the drawn pairs are drawn at random. Each group gives equally many of them, as far as it has as
many; the chance of each pair is known, so that a mean that weighs a pair by the inverse of its chance is one of
all pairs. The others are those on whose order passes, judges or the reward disagree most, and where none do,
those of nearest scores.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from heapq import nlargest
from itertools import accumulate
from operator import itemgetter
from typing import Any, Literal

import orjson

from ruler_cli.results.annotations import ScoredGroup, ScoredRollout
from ruler_cli.results.highlights import Best, Keep
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.types import Group

Drawn = Literal["random", "disputed", "close"]
"""The way a pair was drawn: at random, since opinions on its order differ, or since its scores are near."""
_OF_ONE_GROUP = 2
"""Pairs that are chosen of one group before all other groups had their turn."""
_LOOKED_AT = 2_016
"""Pairs of one group to choose from, and those that are drawn at random: all those of 64 rollouts."""
_SCORE = "score"
_Opinions = Mapping[Hashable, float]
"""The numbers that passes, judges and the reward give to a rollout."""
_Places = tuple[int, int]
"""The places of two entries of a group."""
_Key = tuple[int, _Places]
"""The dice of a group, and the places of a pair."""
_Rank = tuple[int, float, float]


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A pair of rollouts: the name of its group, and their ids and indices in the group, left and right.

    `chance` is the probability with which it was drawn at random; None if it was chosen. `kept` is what was kept
    of the group.
    """

    group: str
    ids: tuple[str, str]
    indices: tuple[int, int]
    drawn: Drawn
    chance: float | None
    kept: Any


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rollout that may be in a pair; two of the same `value` are in none.

    None is like no other: there are no values, or identical rollouts have several.
    """

    id: str
    index: int
    value: str | None
    opinions: _Opinions


@dataclass(slots=True)
class _Pool:
    """The pairs of a group, as numbers from 0 on: row by row of a matrix of its rollouts.

    `ends` are the numbers at which each row ends. `dice` is a number that the seed and the content decide.
    """

    name: str
    entries: Sequence[_Entry]
    dice: int
    ends: Sequence[int] = ()
    kept: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        values = [entry.value for entry in self.entries]
        later = Counter(values)
        rows = []
        for row, value in enumerate(values):
            alike = 1 if value is None else later[value]
            rows.append(len(values) - row - alike)
            later[value] -= 1
        self.ends = [*accumulate(rows)]

    @property
    def size(self) -> int:
        """The number of pairs."""
        return self.ends[-1] if self.ends else 0

    def drawn(self, count: int) -> list[_Places]:
        """Return so many different pairs at random, or all, by the places of their entries."""
        numbers: Iterable[int] = range(self.size)
        if count < self.size:
            numbers = random.Random(self.dice).sample(range(self.size), count)
        rows: dict[int, list[int]] = {}
        pairs = []
        for number in numbers:
            row = bisect_right(self.ends, number)
            if row not in rows:
                rows[row] = [*self._partners(row)]
            # counted from the end of the row
            pairs.append((row, rows[row][number - self.ends[row]]))
        return pairs

    def _partners(self, row: int) -> Iterator[int]:
        own = self.entries[row].value
        for place in range(row + 1, len(self.entries)):
            if own is None or self.entries[place].value != own:
                yield place

    def dispute(self, places: _Places) -> tuple[float, float]:
        """Return how far opinions on the order of a pair differ, 0 if they do not, and how near its scores are.

        Of the opinions for either side the strongest counts, and of these two the weaker one.
        """
        one, other = [self.entries[place].opinions for place in places]
        apart = [one[name] - other[name] for name in one.keys() & other.keys()]
        gap = abs(one[_SCORE] - other[_SCORE])
        return max(0.0, min(max(apart), -min(apart))), -gap


class PairDraw:
    """Draws `most` pairs from groups that are added one after another; it holds twice as many groups at most.

    The seed and the content of the groups decide, not their order.
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._seed = blake2b(str(seed).encode(), digest_size=32).digest()
        # groups by their number of pairs
        self._sizes = Counter[int]()
        # groups to draw from at random, and those to choose from
        self._any = Best[_Pool](most)
        self._telling = Best[_Pool](most)

    @property
    def pairs(self) -> int:
        """The number of all pairs of the groups so far."""
        return sum(size * groups for size, groups in self._sizes.items())

    def add(
        self,
        group: Group,
        scored: ScoredGroup,
        keep: Keep,
        values: Sequence[str | None] | None = None,
    ) -> None:
        """Add the next group; `keep` is called if it may be drawn from.

        With `values`, one of each rollout, only rollouts of different values make a pair, and None makes none.
        """
        pool = self._pool(group, scored, values)
        if not pool.size:
            return
        self._sizes[pool.size] += 1
        telling = max(map(pool.dispute, self._looked_at(pool)))
        among_any = self._any.add((pool.dice,), pool)
        if self._telling.add((*telling, pool.dice), pool) or among_any:
            pool.kept = keep(group, scored)

    def _pool(
        self, group: Group, scored: ScoredGroup, values: Sequence[str | None] | None
    ) -> _Pool:
        ids = rollout_ids(group, scored)
        entries: dict[str, _Entry] = {}
        for index, rollout in enumerate(scored.rollouts):
            value = values[index] if values else None
            unread = any(group.rollouts[i].error for i in rollout.indices)
            if unread or rollout.judge_score is None or (values and value is None):
                continue
            entry = _Entry(ids[index], index, value, _opinions(rollout))
            first = entries.setdefault(entry.id, entry)
            if first.value != value:
                entries[entry.id] = replace(first, value=None)
        name = group_name(scored.key)
        ordered = [entries[one] for one in sorted(entries)]
        content = orjson.dumps([name, *sorted(entries)])
        dice = blake2b(content, digest_size=8, key=self._seed).digest()
        return _Pool(name, ordered, int.from_bytes(dice))

    def _looked_at(self, pool: _Pool) -> list[_Places]:
        # some are left even if all pairs that are drawn at random are among them
        return pool.drawn(_LOOKED_AT + self._most)

    def drawn(self) -> list[DrawnPair]:
        """Return the drawn pairs in random order, after the last group."""
        pairs = self.pairs
        at_random = pairs if self._most >= pairs else -(-2 * self._most // 3)
        drawn: dict[_Key, tuple[_Pool, Drawn, float | None]] = {}
        for pool, places, known in self._random(at_random):
            drawn[pool.dice, places] = pool, "random", known
        for pool, places, word in self._chosen(self._most - len(drawn), drawn.keys()):
            drawn[pool.dice, places] = pool, word, None
        dice = random.Random(self._seed)
        keys = sorted(drawn)
        dice.shuffle(keys)
        found = []
        for key in keys:
            pool, word, chance = drawn[key]
            one, other = [pool.entries[place] for place in key[1]]
            if dice.random() < 0.5:
                one, other = other, one
            sides = (one.id, other.id), (one.index, other.index)
            found.append(DrawnPair(pool.name, *sides, word, chance, pool.kept))
        return found

    def _random(self, count: int) -> Iterator[tuple[_Pool, _Places, float]]:
        """Yield pairs at random with their chance: `share` of each group, and one more of `left` groups.

        These are drawn from the `over` groups that have more. Groups come in the order of their dice.
        """
        share, left = 0, count
        while 0 < (over := self._larger(share)) <= left:
            share += 1
            left -= over
        more = left
        for pool in self._any.ranked():
            taken, chance = pool.size, 1.0
            if pool.size > share:
                taken = share + (more > 0)
                more -= 1
                chance = (share + left / over) / pool.size
            for places in pool.drawn(taken) if taken else ():
                yield pool, places, chance

    def _larger(self, size: int) -> int:
        """Count groups of more than so many pairs."""
        return sum(groups for own, groups in self._sizes.items() if own > size)

    def _chosen(
        self, count: int, drawn: Container[_Key]
    ) -> Iterator[tuple[_Pool, _Places, Drawn]]:
        """Yield pairs that are not drawn yet, those that teach most first, few of each group in turn."""

        def ranked() -> Iterator[tuple[_Rank, _Pool, _Places]]:
            for pool in self._telling.ranked():
                pairs = self._looked_at(pool)
                left = [one for one in pairs if (pool.dice, one) not in drawn]
                left.sort(key=pool.dispute, reverse=True)
                for i, places in enumerate(left):
                    turn = -(i // _OF_ONE_GROUP)
                    yield (turn, *pool.dispute(places)), pool, places

        for (_, dispute, _), pool, places in nlargest(count, ranked(), itemgetter(0)):
            yield pool, places, "disputed" if dispute else "close"


def _opinions(rollout: ScoredRollout) -> _Opinions:
    """Return what is said of a rollout with a score."""
    said: list[tuple[Hashable, float | None]] = [
        (_SCORE, rollout.judge_score),
        ("reward", rollout.label),
        *enumerate(rollout.pass_scores),
        *((("judge", name), score) for name, score in rollout.judges.items()),
    ]
    return {name: value for name, value in said if value is not None}
