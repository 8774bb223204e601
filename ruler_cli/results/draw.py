"""Scored groups → pairs of rollouts that people are to compare: half at random, half where opinions differ.

All pairs are those of two rollouts of a group that differ, have a score of the judges and can be read. Each of them
has a number at random, and those of the largest numbers are drawn: any pair is as likely as any other, so a share of
them is one of all pairs. The others are those on whose order passes or judges disagree most. Where too few do, more
are drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nlargest
from itertools import combinations
from typing import Any, NamedTuple

import orjson

from ruler_cli.results.highlights import Best, Keep
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.labels import DISPUTED, RANDOM
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.types import Group

_OF_ONE_GROUP = 2
"""Disputed pairs of one group."""
_AT_ONCE = 128
"""Rollouts of a group whose pairs may be drawn; of more, a sample."""


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A pair of rollouts: the name of its group, and their ids and indices in the group, left and right.

    `chance` is the probability with which it was drawn at random; None if it was chosen. `kept` is what was kept of
    the group.
    """

    group: str
    ids: tuple[str, ...]
    indices: tuple[int, ...]
    drawn: str
    chance: float | None
    kept: Any


class _Entry(NamedTuple):
    """A pair that may be drawn: the name of the group, the ids of the rollouts, and the indices of all ids."""

    group: str
    ids: tuple[str, str]
    indices: Mapping[str, int]
    kept: list[Any]


class PairDraw:
    """Draws `most` pairs from groups that are added one after another; it holds twice as many groups at most.

    The seed and the content of the groups decide, not their order.
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._seed = blake2b(str(seed).encode(), digest_size=32).digest()
        self.pairs = 0
        self._random = Best[_Entry](most)
        self._disputed = Best[_Entry](most // 2)

    def add(self, group: Group, scored: GroupRecord, keep: Keep) -> None:
        """Add the next group; `keep` is called if it may be drawn from."""
        indices: dict[str, int] = {}
        for index, name in enumerate(rollout_ids(group, scored)):
            rollout = scored.rollouts[index]
            unread = any(group.rollouts[part].error for part in rollout.indices)
            if not unread and rollout.judge_score is not None:
                indices.setdefault(name, index)
        ids = sorted(indices)
        key = group_name(scored.key)
        content = orjson.dumps([key, *ids])
        dice = random.Random(
            blake2b(content, digest_size=8, key=self._seed).digest()
        )
        if len(ids) > _AT_ONCE:
            ids = dice.sample(ids, _AT_ONCE)
        kept = list[Any]()
        disputes = list[tuple[float, float, _Entry]]()
        for pair in combinations(ids, 2):
            self.pairs += 1
            entry = _Entry(key, pair, indices, kept)
            number = dice.random()
            drawn = self._random.add((number,), entry)
            sides = [scored.rollouts[indices[name]] for name in pair]
            dispute = _dispute(*sides)
            if dispute:
                disputes.append((dispute, number, entry))
            if drawn and not kept:
                kept.append(keep(group, scored))
        for dispute, number, entry in nlargest(_OF_ONE_GROUP, disputes):
            if self._disputed.add((dispute, number), entry) and not kept:
                kept.append(keep(group, scored))

    def drawn(self) -> list[DrawnPair]:
        """Return the drawn pairs in random order, after the last group."""
        entries: dict[tuple[str, ...], _Entry] = {}
        if self._most < self.pairs:
            for entry in self._disputed.ranked():
                entries[entry.group, *entry.ids] = entry
        at_random = set[tuple[str, ...]]()
        for entry in self._random.ranked():
            about: tuple[str, ...] = (entry.group, *entry.ids)
            if len(entries) < self._most:
                entries[about] = entry
                at_random.add(about)
        dice = random.Random(self._seed)
        pairs = []
        for key in dice.sample(sorted(entries), len(entries)):
            entry = entries[key]
            sides = tuple(dice.sample(entry.ids, 2))
            way = DISPUTED
            chance = None
            if key in at_random:
                way = RANDOM
                chance = len(at_random) / self.pairs
            indices = tuple(entry.indices[name] for name in sides)
            pair = DrawnPair(
                entry.group, sides, indices, way, chance, *entry.kept
            )
            pairs.append(pair)
        return pairs


def _dispute(first: RolloutRecord, second: RolloutRecord) -> float:
    """Return how far passes and judges differ on the order of two rollouts, 0 if they agree.

    Of the opinions for either side the strongest counts, and of these two the weaker one.
    """
    apart = [0.0]
    for a, b in zip(first.pass_scores, second.pass_scores, strict=False):
        apart.append(a - b)
    for judge in first.panel.keys() & second.panel.keys():
        apart.append(first.panel[judge] - second.panel[judge])
    return min(max(apart), -min(apart))
