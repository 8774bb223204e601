"""Scored groups → those worth a look, by a stated rule, so that nobody has to trust an opaque choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappush, heappushpop
from typing import Any, Generic, Literal, TypeVar

from ruler_cli.results.report.group_text import summary
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout

RULE = (
    "One in turn of: failed groups, the first of each kind before others; most pairs of rollouts scored "
    "against their labels; most rollouts that address the judge; least reliable; scores furthest apart; "
    "tied ones, most unlike labels first; then the rest in input order."
)
"""The rule that chooses groups for a page that cannot hold all of them."""

HighlightReason = Literal["failed", "disagrees", "suspect", "unsure", "spread", "tied", "rest"]
"""The reason why a group is worth a look: it has no scores; its scores contradict its labels; a rollout
addresses the judge; it has few passes for its noise; its scores are far apart; they are tied; none of it."""
_ORDER: tuple[HighlightReason, ...] = ("failed", "disagrees", "suspect", "unsure", "spread", "tied")
_MOST_KINDS, _LONGEST = 32, 100
"""Kinds of failures that are distinguished, and characters of their names that count."""
_Rank = tuple[float, ...]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Highlight:
    """A group worth a look, the reason, and its degree: larger is more."""

    group: ScoredGroup
    because: HighlightReason
    degree: float

    def as_json(self) -> dict[str, Any]:
        """Return the highlight as JSON, without the rollouts."""
        return {"because": self.because, "much": self.degree, "group": summary(self.group)}


class Best(Generic[_Item]):
    """The `most` items of the highest rank; of equals the first."""

    def __init__(self, most: int) -> None:
        self._most, self._number = most, 0
        self._heap: list[tuple[_Rank, int, _Item]] = []

    def add(self, rank: _Rank, item: _Item) -> bool:
        """Add an item; true if it is among them so far."""
        self._number += 1
        one = (rank, -self._number, item)  # numbers differ, so no two items are compared
        if len(self._heap) < self._most:
            heappush(self._heap, one)
            return True
        return self._most > 0 and heappushpop(self._heap, one) is not one

    def ranked(self) -> list[_Item]:
        """Return them, the highest rank first."""
        return [item for _, _, item in sorted(self._heap, key=lambda one: one[:2], reverse=True)]


def _is_new(kind: str, kinds: set[str]) -> float:
    """Note a kind of failure: 1 the first time. A hostile file cannot fill the set."""
    kind = kind[:_LONGEST]
    new = kind not in kinds and len(kinds) < _MOST_KINDS
    kinds |= {kind} if new else set()
    return float(new)


def _doubt(group: ScoredGroup) -> _Rank:
    """Return 1 - reliability, or the largest spread over passes if the reliability is not known."""
    widest = max((r.spread for r in group.rollouts if r.spread is not None), default=0.0)
    return (widest, 0.0) if group.reliability is None else (1 - group.reliability, widest)


def _reasons(group: ScoredGroup, kinds: set[str]) -> Iterator[tuple[HighlightReason, _Rank]]:
    """Yield the reasons to look at a group, each with its rank; `kinds` are those of earlier failures."""
    if group.failed:
        yield "failed", (_is_new(group.kind, kinds),)
    if not group.scores:
        return
    against, pairs = group.disputes
    if against > 0:
        yield "disagrees", (against,)
    suspects = sum(r.suspect for r in group.rollouts)
    if suspects:
        yield "suspect", (float(suspects),)
    doubt = _doubt(group)
    if doubt[0] > 0:
        yield "unsure", doubt
    if group.tied:
        yield "tied", (float(pairs),)
    elif group.sd:
        yield "spread", (group.sd,)


class Ranking:
    """Orders groups by RULE; memory holds at most `most` groups of each kind.

    No more of a kind can ever be chosen.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._best = {because: Best[int](most) for because in _ORDER}
        self._first: list[int] = []
        self._asked: dict[int, HighlightReason] = {}
        self._kinds: set[str] = set()

    def add(self, ordinal: int, group: ScoredGroup, *, asked: bool = False) -> bool:
        """Count a group; true if it may be chosen, as far as is known. Ordinals grow in input order.

        The first group that is `asked` for is chosen before all others.
        """
        wanted = len(self._first) < self._most
        if wanted:
            self._first.append(ordinal)
        reasons = list(_reasons(group, self._kinds))
        for because, rank in reasons:
            wanted |= self._best[because].add(rank, ordinal)
        if asked and not self._asked:
            self._asked[ordinal] = reasons[0][0] if reasons else "rest"
            return True
        return wanted

    def chosen(self) -> dict[int, HighlightReason]:
        """Return the ordinals of the chosen groups, the most telling first, each with its reason."""
        chosen = dict(self._asked)
        remaining = {because: iter(best.ranked()) for because, best in self._best.items()}
        while remaining and len(chosen) < self._most:
            for because, ordinals in list(remaining.items()):
                ordinal = next((one for one in ordinals if one not in chosen), None)
                if ordinal is None:
                    del remaining[because]
                elif len(chosen) < self._most:
                    chosen[ordinal] = because
        for ordinal in self._first:
            if len(chosen) < self._most:
                chosen.setdefault(ordinal, "rest")
        return chosen


class Shortlist:
    """The few groups that a page names first.

    Worst: failed groups, the first of each kind before others; then those with most rollouts that
    address the judge; then by reliability, the lowest first, if equal the one with more pairs of
    different labels. Without a reliability a group that is tied although labels differ counts as 0, any
    other by its largest spread over passes. A group without doubt is not named.

    Disputed: most pairs of rollouts that scores order against their labels, a tie as half of one: the
    disagreement times the pairs. In a file without different labels in a group: the largest distance
    between the judges of a panel on one rollout, or without a panel, between its passes.
    """

    def __init__(self, n: int = 5) -> None:
        self._worst, self._by_labels, self._by_judges = (Best[Highlight](n) for _ in range(3))
        self._kinds: set[str] = set()
        self._labelled = False

    def add(self, group: ScoredGroup) -> None:
        """Look at the next group of the file."""
        if group.failed:
            self._worst.add((1.0, _is_new(group.kind, self._kinds)), Highlight(group, "failed", 1.0))
        if not group.scores:
            return
        against, pairs = group.disputes
        suspects = sum(r.suspect for r in group.rollouts)
        doubt, widest = _doubt(group)
        tied = group.reliability is None and group.tied and pairs > 0
        doubt = 1.0 if tied else doubt
        if suspects or doubt > 0:
            because: HighlightReason = "suspect" if suspects else "tied" if tied else "unsure"
            rank = (0.0, float(suspects), doubt, float(pairs), widest)
            self._worst.add(rank, Highlight(group, because, suspects or doubt))
        self._labelled = self._labelled or pairs > 0
        if against > 0:
            self._by_labels.add((against,), Highlight(group, "disagrees", against))
        distance = 0.0 if self._labelled else max(map(_distance, group.rollouts))
        if distance > 0:
            self._by_judges.add((distance,), Highlight(group, "unsure", distance))

    def worst(self) -> list[Highlight]:
        """Return the least trustworthy groups, the worst first."""
        return self._worst.ranked()

    def disputed(self) -> list[Highlight]:
        """Return the groups with the largest disagreement with labels, or else between judges."""
        return (self._by_labels if self._labelled else self._by_judges).ranked()


def _distance(rollout: ScoredRollout) -> float:
    """Return the distance between the judges of a rollout, or its spread over passes."""
    scores = rollout.judges.values()
    return max(scores) - min(scores) if len(scores) > 1 else rollout.spread or 0.0
