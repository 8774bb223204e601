"""Scored groups → pairs of rollouts that people are to compare: half at random, half where opinions differ.

All pairs are those of two rollouts of a group that differ, have a score of the judges and can be read. Each of them
has a number at random, and those of the least numbers are drawn: any pair is as likely as any other, so a share of
them is one of all pairs. The others are those on whose order passes, judges or the reward disagree most. Where too
few do, more are drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nlargest
from itertools import combinations
from typing import Any, Literal, NamedTuple

import orjson

from ruler_cli.results.highlights import Best, Keep
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.types import Group

Drawn = Literal["random", "disputed"]
"""The way a pair was drawn: at random, or since opinions on its order differ."""
_OF_ONE_GROUP = 2
"""Disputed pairs of one group."""
_AT_ONCE = 128
"""Rollouts of a group whose pairs may be drawn; of more, a sample."""
_Opinions = Mapping[Hashable, float]
"""The numbers that passes, judges and the reward give to a rollout."""


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


class _Entry(NamedTuple):
    """A rollout that may be in a pair."""

    id: str
    place: int
    opinions: _Opinions


class _Pool(NamedTuple):
    """A group to draw from, by a number that the seed and the content decide; `kept` holds what is kept of it."""

    dice: int
    name: str
    kept: list[Any]


_Pair = tuple[_Entry, _Entry]


class PairDraw:
    """Draws `most` pairs from groups that are added one after another; it holds twice as many groups at most.

    The seed and the content of the groups decide, not their order.
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._seed = blake2b(str(seed).encode(), digest_size=32).digest()
        self.pairs = 0
        self._random = Best[tuple[_Pool, _Pair]](most)
        self._disputed = Best[tuple[_Pool, _Pair]](most // 2)

    def add(self, group: Group, scored: GroupRecord, keep: Keep) -> None:
        """Add the next group; `keep` is called if it may be drawn from."""
        entries = _entries(group, scored)
        name = group_name(scored.key)
        content = orjson.dumps([name, *(one.id for one in entries)])
        digest = blake2b(content, digest_size=8, key=self._seed).digest()
        pool = _Pool(int.from_bytes(digest), name, [])
        dice = random.Random(pool.dice)
        if len(entries) > _AT_ONCE:
            entries = dice.sample(entries, _AT_ONCE)
        pairs = [*combinations(entries, 2)]
        self.pairs += len(pairs)
        for pair in pairs:
            drawn = self._random.add((dice.random(),), (pool, pair))
            if drawn and not pool.kept:
                pool.kept.append(keep(group, scored))
        for pair in nlargest(_OF_ONE_GROUP, pairs, _dispute):
            rank = _dispute(pair), dice.random()
            if rank[0] and self._disputed.add(rank, (pool, pair)) and not pool.kept:
                pool.kept.append(keep(group, scored))

    def drawn(self) -> list[DrawnPair]:
        """Return the drawn pairs in random order, after the last group."""
        drawn: dict[tuple[int, str, str], tuple[_Pool, _Pair, Drawn]] = {}

        def draw(pool: _Pool, pair: _Pair, way: Drawn) -> None:
            drawn[pool.dice, pair[0].id, pair[1].id] = pool, pair, way

        if self._most < self.pairs:
            for item in self._disputed.ranked():
                draw(*item, "disputed")
        taken = 0
        for item in self._random.ranked():
            if len(drawn) < self._most:
                taken += 1
                draw(*item, "random")
        dice = random.Random(self._seed)
        found = []
        for _, (pool, pair, way) in dice.sample(sorted(drawn.items()), len(drawn)):
            one, other = dice.sample(pair, 2)
            sides = (one.id, other.id), (one.place, other.place)
            chance = taken / self.pairs if way == "random" else None
            found.append(DrawnPair(pool.name, *sides, way, chance, *pool.kept))
        return found


def _entries(group: Group, scored: GroupRecord) -> list[_Entry]:
    """Return the rollouts that may be in a pair, by their ids; identical ones are one."""
    entries: dict[str, _Entry] = {}
    for index, (id_, rollout) in enumerate(
        zip(rollout_ids(group, scored), scored.rollouts, strict=True)
    ):
        unread = any(group.rollouts[i].error for i in rollout.indices)
        if not unread and rollout.judge_score is not None:
            entries.setdefault(id_, _Entry(id_, index, _opinions(rollout)))
    return [entries[id_] for id_ in sorted(entries)]


def _dispute(pair: _Pair) -> float:
    """Return how far opinions on the order of a pair differ, 0 if they do not.

    Of the opinions for either side the strongest counts, and of these two the weaker one.
    """
    one, other = (entry.opinions for entry in pair)
    apart = [one[name] - other[name] for name in one.keys() & other.keys()]
    return max(0.0, min(max(apart), -min(apart)))


def _opinions(rollout: RolloutRecord) -> _Opinions:
    """Return what is said of a rollout with a score."""
    said: list[tuple[Hashable, float | None]] = [
        ("score", rollout.judge_score),
        ("reward", rollout.label),
        *enumerate(rollout.pass_scores),
        *((("judge", name), score) for name, score in rollout.panel.items()),
    ]
    return {name: value for name, value in said if value is not None}
