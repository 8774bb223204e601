"""Scores against labels within one group: concordant pairs, τ_b, regret, and pairs by kind."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

_AT_ONCE = 128
"""Rollouts whose pairs are all looked at; of a larger group the pairs inside random parts of this size."""
_ALIKE = 0.05
"""Two rollouts are of like length when the longer one is longer by at most this share."""


@dataclass(frozen=True, slots=True)
class Concordance:
    """Pairs of rollouts with different labels: how often the better one has the higher score.

    `spread` counts pairs with different scores, whatever their labels.
    """

    pairs: int
    won: int
    tied: int
    spread: int

    @property
    def lost(self) -> int:
        """Pairs in which the worse one has the higher score."""
        return self.pairs - self.won - self.tied

    @property
    def tau_b(self) -> float | None:
        """Kendall's τ_b; None where all labels or all scores are equal."""
        if not self.pairs or not self.spread:
            return None
        return (self.won - self.lost) / math.sqrt(self.pairs * self.spread)


def concordance(scores: Sequence[float], labels: Sequence[float]) -> Concordance:
    """Count pairs, in far less time than it takes to look at each."""
    lower: list[float] = []  # scores of what has a lower label than the rollouts that are looked at
    pairs = won = tied = 0
    for _, same in groupby(sorted(zip(labels, scores, strict=True)), key=lambda item: item[0]):
        found = [score for _, score in same]
        for score in found:
            below, upto = bisect_left(lower, score), bisect_right(lower, score)
            won += below
            tied += upto - below
        pairs += len(found) * len(lower)
        for score in found:
            insort(lower, score)
    equal = sum(n * (n - 1) // 2 for n in Counter(scores).values())
    return Concordance(pairs, won, tied, len(scores) * (len(scores) - 1) // 2 - equal)


def regret(scores: Sequence[float], labels: Sequence[float]) -> tuple[float, float]:
    """The best label less that of the top-scored rollout, the mean of several; and less that of any."""
    top = max(scores)
    picked = [label for score, label in zip(scores, labels, strict=True) if score == top]
    best = max(labels)
    return best - math.fsum(picked) / len(picked), best - math.fsum(labels) / len(labels)


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to tell pairs apart: its name, a sentence, and its bins."""

    name: str
    told: str
    bins: tuple[str, ...]


_GAPS = (0.05, 0.1, 0.2, 0.4)
_SIZES = (1_000, 4_000, 16_000, 64_000)
GAP = Kind("gap", "by score gap", ("to 0.05", "to 0.1", "to 0.2", "to 0.4", "above 0.4"))
SLOT = Kind("slot", "by slot: the better one stood", ("earlier", "later", "alike"))
PLACE = Kind("place", "by place of the better one", ("first third", "middle", "last third"))
LENGTH = Kind("length", "by length: the better one is", ("shorter", "longer", "alike"))
SIZE = Kind(
    "size", "by bytes of the longer one", ("to 1,000", "to 4,000", "to 16,000", "to 64,000", "above 64,000")
)
KINDS = (GAP, SLOT, PLACE, LENGTH, SIZE)


@dataclass(frozen=True, slots=True)
class Item:
    """A rollout that has a score and a label; `place` and `size` as far as they are known."""

    score: float
    label: float
    place: float | None = None
    size: int | None = None


def slices(items: Sequence[Item]) -> Mapping[tuple[str, int], tuple[int, float]]:
    """(kind, number of its bin) → how many pairs, and how many of them won, a tie being one half.

    A tied pair has no score gap and is in no bin of that kind.
    """
    found: dict[tuple[str, int], tuple[int, float]] = {}
    for part in _parts(items):
        for one, other in combinations(part, 2):
            if one.label == other.label:
                continue
            better, worse = (one, other) if one.label > other.label else (other, one)
            won = 1.0 if better.score > worse.score else 0.0 if better.score < worse.score else 0.5
            for key in _bins(better, worse):
                pairs, sum_ = found.get(key, (0, 0.0))
                found[key] = (pairs + 1, sum_ + won)
    return found


def _bins(better: Item, worse: Item) -> Iterator[tuple[str, int]]:
    gap = round(abs(better.score - worse.score), 9)
    if gap:
        yield GAP.name, bisect_left(_GAPS, gap)
    if better.place is not None and worse.place is not None:
        later = round(better.place - worse.place, 9)
        yield SLOT.name, 0 if later < 0 else 1 if later > 0 else 2
        yield PLACE.name, min(2, int(better.place * 3))
    if better.size is not None and worse.size is not None:
        longer = max(better.size, worse.size)
        alike = abs(better.size - worse.size) <= _ALIKE * longer
        yield LENGTH.name, 2 if alike else 0 if better.size < worse.size else 1
        yield SIZE.name, bisect_left(_SIZES, longer)


def _parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    if len(items) <= _AT_ONCE:
        yield items
        return
    mixed = random.Random(len(items)).sample(items, len(items))
    for start in range(0, len(mixed), _AT_ONCE):
        yield mixed[start : start + _AT_ONCE]
