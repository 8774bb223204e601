"""Scored groups → pairs of rollouts that people are to compare: half at random, half where opinions differ.

All pairs are those of two rollouts of a group that differ, have a score of the judges and can be read. Each of them
has a number at random, and those of the least numbers are drawn: any pair is as likely as any other, so a share of
them is one of all pairs. The others are those on whose order passes, judges or the reward disagree most. Where too
few do, more are drawn at random.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nlargest
from itertools import accumulate
from typing import Any, Literal

import orjson

from ruler_cli.results.annotations import ScoredGroup, ScoredRollout
from ruler_cli.results.highlights import Best, Keep
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.types import Group

Drawn = Literal["random", "disputed"]
"""The way a pair was drawn: at random, or since opinions on its order differ."""
_OF_ONE_GROUP = 2
"""Disputed pairs of one group."""
_LOOKED_AT = 2_016
"""Pairs of one group to choose disputed ones from: all those of 64 rollouts."""
_Opinions = Mapping[Hashable, float]
"""The numbers that passes, judges and the reward give to a rollout."""
_Places = tuple[int, int]
"""The places of two entries of a group."""


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


@dataclass(order=True, slots=True)
class _Entry:
    """A rollout that may be in a pair; two of the same `value` are in none.

    Without values, and if identical rollouts have several, its id is the value.
    """

    value: tuple[bool, str]
    id: str
    index: int = field(compare=False)
    opinions: _Opinions = field(compare=False)


@dataclass(slots=True)
class _Pool:
    """The pairs of a group, as numbers from 0 on: row by row of a matrix of its rollouts, which are in order.

    `ends` are the numbers at which each row ends. `dice` is a number that the seed and the content decide.
    """

    name: str
    entries: Sequence[_Entry]
    dice: int
    ends: Sequence[int] = ()
    kept: Any = None

    def __post_init__(self) -> None:
        values = [entry.value for entry in self.entries]
        rows = (len(values) - bisect_right(values, value) for value in values)
        self.ends = [*accumulate(rows)]

    @property
    def size(self) -> int:
        """The number of pairs."""
        return self.ends[-1] if self.ends else 0

    def pair(self, number: int) -> _Places:
        """Return the places of a pair, counted from the end of its row."""
        row = bisect_right(self.ends, number)
        return row, len(self.entries) + number - self.ends[row]

    def dispute(self, places: _Places) -> float:
        """Return how far opinions on the order of a pair differ, 0 if they do not.

        Of the opinions for either side the strongest counts, and of these two the weaker one.
        """
        one, other = [self.entries[place].opinions for place in places]
        apart = [one[name] - other[name] for name in one.keys() & other.keys()]
        return max(0.0, min(max(apart), -min(apart)))


class PairDraw:
    """Draws `most` pairs from groups that are added one after another; it holds twice as many groups at most.

    The seed and the content of the groups decide, not their order.
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._seed = blake2b(str(seed).encode(), digest_size=32).digest()
        self.pairs = 0
        self._random = Best[tuple[_Pool, _Places]](most)
        self._disputed = Best[tuple[_Pool, _Places]](most // 2)

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
        self.pairs += pool.size
        dice = random.Random(pool.dice)
        count = min(pool.size, max(self._most, _LOOKED_AT))
        pairs = [*map(pool.pair, dice.sample(range(pool.size), count))]
        kept = False
        number = 0.0
        for i, places in enumerate(pairs):
            # the next larger one of as many random numbers as there are pairs
            number = 1 - (1 - number) * dice.random() ** (1 / (pool.size - i))
            if not self._random.add((-number,), (pool, places)):
                break
            kept = True
        for places in nlargest(_OF_ONE_GROUP, pairs[:_LOOKED_AT], pool.dispute):
            rank = pool.dispute(places)
            if rank and self._disputed.add((rank, dice.random()), (pool, places)):
                kept = True
        if kept:
            pool.kept = keep(group, scored)

    def _pool(
        self, group: Group, scored: ScoredGroup, values: Sequence[str | None] | None
    ) -> _Pool:
        ids = rollout_ids(group, scored)
        entries: dict[str, _Entry] = {}
        for index, rollout in enumerate(scored.rollouts):
            unread = any(group.rollouts[i].error for i in rollout.indices)
            text = values[index] if values else ids[index]
            if unread or rollout.judge_score is None or text is None:
                continue
            value = bool(values), text
            entry = _Entry(value, ids[index], index, _opinions(rollout))
            first = entries.setdefault(entry.id, entry)
            if first.value != value:
                first.value = False, first.id
        name = group_name(scored.key)
        content = orjson.dumps([name, *sorted(entries)])
        dice = blake2b(content, digest_size=8, key=self._seed).digest()
        return _Pool(name, sorted(entries.values()), int.from_bytes(dice))

    def drawn(self) -> list[DrawnPair]:
        """Return the drawn pairs in random order, after the last group."""
        drawn: dict[tuple[int, _Places], tuple[_Pool, Drawn]] = {}
        if self._most < self.pairs:
            for pool, places in self._disputed.ranked():
                drawn[pool.dice, places] = pool, "disputed"
        taken = 0
        for pool, places in self._random.ranked():
            if len(drawn) >= self._most:
                break
            taken += 1
            drawn[pool.dice, places] = pool, "random"
        dice = random.Random(self._seed)
        keys = sorted(drawn)
        dice.shuffle(keys)
        found = []
        for key in keys:
            pool, word = drawn[key]
            one, other = dice.sample([pool.entries[place] for place in key[1]], 2)
            sides = (one.id, other.id), (one.index, other.index)
            chance = taken / self.pairs if word == "random" else None
            found.append(DrawnPair(pool.name, *sides, word, chance, pool.kept))
        return found


def _opinions(rollout: ScoredRollout) -> _Opinions:
    """Return what is said of a rollout with a score."""
    said: list[tuple[Hashable, float | None]] = [
        ("score", rollout.judge_score),
        ("reward", rollout.label),
        *enumerate(rollout.pass_scores),
        *((("judge", name), score) for name, score in rollout.judges.items()),
    ]
    return {name: value for name, value in said if value is not None}
