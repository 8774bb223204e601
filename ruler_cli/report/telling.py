"""Which groups are worth a look: a stated rule, so that nobody has to trust a choice made for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappush, heappushpop
from typing import Any, Generic, Literal, TypeVar

from ruler_cli.marked.values import MarkedGroup, MarkedRollout
from ruler_cli.records import Rollout
from ruler_cli.report.group import summary

RULE = (
    "One in turn of: failed groups, the first of each kind before others; most pairs of rollouts scored "
    "against their labels; most rollouts that address the judge; least reliable; scores furthest apart; "
    "tied ones, most unlike labels first; then the rest in input order."
)
"""How groups are chosen for a page that cannot hold all of them."""

Because = Literal["failed", "disagrees", "suspect", "unsure", "spread", "tied", "rest"]
"""Why a group is worth a look: no scores; scores against labels; a rollout that addresses the judge;
few passes for its noise; scores far apart; nothing to learn from; nothing of all that."""
_ORDER: tuple[Because, ...] = ("failed", "disagrees", "suspect", "unsure", "spread", "tied")
_MOST_KINDS, _LONGEST = 32, 100
"""Kinds of failures that are told apart, and how much of their names is looked at."""
_NOTHING = Rollout([])
_Much = tuple[float, ...]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Telling:
    """A group worth a look, why, and how much so by that: larger is more. Its rollouts have no text."""

    group: MarkedGroup
    because: Because
    much: float

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        return {"because": self.because, "much": self.much, "group": summary(self.group)}


class _Most(Generic[_Item]):
    """The items of most worth among all that were offered; of equal worth the first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[_Much, int, _Item]] = []

    def wants(self, much: _Much, number: int) -> bool:
        """True if it would be kept now."""
        return len(self._heap) < self._most or (self._most > 0 and (much, -number) > self._heap[0][:2])

    def add(self, much: _Much, number: int, item: _Item) -> None:
        """Offer the `number`th item; numbers differ, so that no two items are compared."""
        if len(self._heap) < self._most:
            heappush(self._heap, (much, -number, item))
        elif self._heap:
            heappushpop(self._heap, (much, -number, item))

    def ranked(self) -> Iterator[_Item]:
        """The items, that of most worth first."""
        return (item for _, _, item in sorted(self._heap, key=lambda one: one[:2], reverse=True))


class _Kinds:
    """Kinds of failures that were seen before; a stranger's file cannot fill it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def new(self, kind: str) -> bool:
        """Note a kind; True the first time."""
        kind = kind[:_LONGEST]
        if kind in self._seen or len(self._seen) >= _MOST_KINDS:
            return False
        self._seen.add(kind)
        return True


def _unsure(group: MarkedGroup) -> _Much:
    """How little a group's scores are to be trusted: by reliability, else by their spread over passes."""
    widest = max((r.spread for r in group.rollouts if r.spread is not None), default=0.0)
    return (widest, 0.0) if group.reliability is None else (1 - group.reliability, widest)


def _reasons(group: MarkedGroup) -> Iterator[tuple[Because, _Much]]:
    """Why a group that has scores is worth a look, and how much."""
    against, pairs = group.disputes
    if against > 0:
        yield "disagrees", (against,)
    suspects = sum(r.suspect for r in group.rollouts)
    if suspects:
        yield "suspect", (float(suspects),)
    unsure = _unsure(group)
    if unsure[0] > 0:
        yield "unsure", unsure
    if group.tied:
        yield "tied", (float(pairs),)
    elif group.sd:
        yield "spread", (group.sd,)


class Ranking:
    """Orders groups by RULE, in memory for `most` of them, whatever the file holds.

    Of each kind no more than `most` can ever be chosen, so no more are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[Because, _Most[int]] = {because: _Most(most) for because in _ORDER}
        self._first: list[int] = []
        self._kinds = _Kinds()

    def add(self, ordinal: int, group: MarkedGroup) -> None:
        """Count a group; ordinals grow in input order."""
        if len(self._first) < self._most:
            self._first.append(ordinal)
        if group.failed:
            self._kept["failed"].add((float(self._kinds.new(group.kind)),), ordinal, ordinal)
        elif group.scores:
            for because, much in _reasons(group):
                self._kept[because].add(much, ordinal, ordinal)

    def chosen(self) -> dict[int, Because]:
        """The ordinals of the groups chosen, the most telling first, and why each was."""
        found: dict[int, Because] = {}
        turns = {because: self._kept[because].ranked() for because in _ORDER}
        while turns:
            for because, left in list(turns.items()):
                ordinal = next((one for one in left if one not in found), None)
                if ordinal is None:
                    del turns[because]
                elif len(found) < self._most:
                    found[ordinal] = because
                else:
                    return found
        for ordinal in self._first:
            if len(found) < self._most:
                found.setdefault(ordinal, "rest")
        return found


class Shortlist:
    """The few groups that a page names first; no messages are kept of them.

    Worst: failed groups, the first of each kind before others; then those with most rollouts that
    address the judge; then by reliability, the lowest first, if equal the one with more pairs of
    unlike labels; without a reliability a group that is tied although labels differ counts as 0, any
    other by its widest spread over passes. A group that nothing speaks against is not named.

    Disputed: most pairs of rollouts that scores order against their labels, a tie as half of one: the
    disagreement times the pairs. In a file that has no two unlike labels in a group: the widest distance
    between the judges of a panel on one rollout, or without a panel, between its passes.
    """

    def __init__(self, n: int = 5) -> None:
        self._worst, self._labels, self._judges = (_Most[Telling](n) for _ in range(3))
        self._kinds = _Kinds()
        self._labelled = False
        self._number = 0

    def add(self, group: MarkedGroup) -> None:
        """Look at the next group of the file."""
        self._number += 1
        if group.failed:
            self._offer(self._worst, (1.0, float(self._kinds.new(group.kind))), group, "failed")
            return
        if not group.scores:
            return
        against, pairs = group.disputes
        self._doubt(group, pairs)
        self._labelled = self._labelled or pairs > 0
        if against > 0:
            self._offer(self._labels, (against,), group, "disagrees", against)
        apart = 0.0 if self._labelled else max(map(_apart, group.rollouts))
        if apart > 0:
            self._offer(self._judges, (apart,), group, "unsure", apart)

    def _doubt(self, group: MarkedGroup, pairs: int) -> None:
        suspects = sum(r.suspect for r in group.rollouts)
        doubt, widest = _unsure(group)
        untold = group.reliability is None and group.tied and pairs > 0
        if untold:
            doubt = 1.0
        if not suspects and doubt <= 0:
            return
        because: Because = "suspect" if suspects else "tied" if untold else "unsure"
        much = (0.0, float(suspects), doubt, float(pairs), widest)
        self._offer(self._worst, much, group, because, suspects or doubt)

    def _offer(
        self, kept: _Most[Telling], rank: _Much, group: MarkedGroup, because: Because, much: float = 1.0
    ) -> None:
        if kept.wants(rank, self._number):
            rollouts = tuple(replace(rollout, rollout=_NOTHING) for rollout in group.rollouts)
            kept.add(rank, self._number, Telling(replace(group, rollouts=rollouts), because, much))

    def worst(self) -> list[Telling]:
        """The groups least to be trusted, the worst first."""
        return list(self._worst.ranked())

    def disputed(self) -> list[Telling]:
        """The groups that judges and labels, or else judges, disagree about most, the widest first."""
        return list((self._labels if self._labelled else self._judges).ranked())


def _apart(rollout: MarkedRollout) -> float:
    told = rollout.judges.values()
    return max(told) - min(told) if len(told) > 1 else rollout.spread or 0.0
