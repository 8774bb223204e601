"""Scored groups → pairs of rollouts that people are to compare: half at random, half where opinions differ.

All pairs are those of two rollouts of a group that differ, have a score of the judges and can be read. Each of them
has a number at random, and those of the largest numbers are drawn: any pair is as likely as any other, so a share of
them is one of all pairs. The others are those on whose order passes or judges disagree most. Where too few do, more
are drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
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


class DrawnPair(NamedTuple):
    """A pair of rollouts: the name of its group, and their ids and indices in the group, left and right.

    `chance` is the probability with which it was drawn at random; None if it was chosen. `kept` has what was kept of
    the group.
    """

    group: str
    ids: Sequence[str]
    indices: Sequence[int]
    kept: list[Any]
    drawn: str = DISPUTED
    chance: float | None = None

    @property
    def about(self) -> tuple[str, ...]:
        """The group and the rollouts, in an order of their own until pairs are drawn."""
        return (self.group, *self.ids)


class PairDraw:
    """Draws `most` pairs from groups that are added one after another; it holds twice as many groups at most.

    The seed and the content of the groups decide, not their order.
    """

    def __init__(
        self,
        most: int,
        seed: int,
    ) -> None:
        self._most = most
        self._seed = blake2b(str(seed).encode(), digest_size=32).digest()
        self.pairs = 0
        self._random = Best[DrawnPair](most)
        self._disputed = Best[DrawnPair](most // 2)

    def add(
        self,
        group: Group,
        scored: GroupRecord,
        keep: Keep,
    ) -> None:
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
        seed = blake2b(
            content,
            digest_size=8,
            key=self._seed,
        )
        dice = random.Random(seed.digest())
        if len(ids) > _AT_ONCE:
            ids = dice.sample(ids, _AT_ONCE)
        kept = list[Any]()
        may_be_drawn = False
        disputes = []
        for pair in combinations(ids, 2):
            places = [indices[name] for name in pair]
            entry = DrawnPair(
                key,
                pair,
                places,
                kept,
            )
            number = dice.random()
            may_be_drawn |= self._random.add((number,), entry)
            dispute = _dispute(*[scored.rollouts[i] for i in places])
            if dispute:
                disputes.append((dispute, number, entry))
            self.pairs += 1
        for dispute, number, entry in nlargest(_OF_ONE_GROUP, disputes):
            may_be_drawn |= self._disputed.add((dispute, number), entry)
        if may_be_drawn:
            kept.append(keep(group, scored))

    def drawn(self) -> list[DrawnPair]:
        """Return the drawn pairs in random order, after the last group."""
        chosen = self._disputed.ranked() if self._most < self.pairs else []
        entries = {pair.about: pair for pair in chosen}
        at_random = set[tuple[str, ...]]()
        for pair in self._random.ranked():
            if len(entries) < self._most:
                # also if it is chosen besides: any pair is as likely
                entries[pair.about] = pair
                at_random.add(pair.about)
        dice = random.Random(self._seed)
        pairs = []
        for about in dice.sample(sorted(entries), len(entries)):
            pair = entries[about]
            left, right = dice.sample((0, 1), 2)
            pair = pair._replace(
                ids=(pair.ids[left], pair.ids[right]),
                indices=(pair.indices[left], pair.indices[right]),
            )
            if about in at_random:
                chance = len(at_random) / self.pairs
                pair = pair._replace(drawn=RANDOM, chance=chance)
            pairs.append(pair)
        return pairs


def _dispute(
    first: RolloutRecord,
    second: RolloutRecord,
) -> float:
    """Return how far passes and judges differ on the order of two rollouts, 0 if they agree.

    Of the opinions for either side the strongest counts, and of these two the weaker one.
    """
    apart = [0.0]
    for a, b in zip(
        first.pass_scores,
        second.pass_scores,
        strict=False,
    ):
        apart.append(a - b)
    for judge in first.panel.keys() & second.panel.keys():
        apart.append(first.panel[judge] - second.panel[judge])
    return min(max(apart), -min(apart))
