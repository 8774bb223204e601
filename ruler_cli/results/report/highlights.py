"""Which groups are worth a look: a stated rule, so that nobody has to trust a choice made for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappush, heappushpop
from typing import Any, Literal, TypeVar

from ruler_cli.results.report.group_text import summary
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout

RULE = (
    "One in turn of: failed groups, the first of each kind before others; most pairs of rollouts scored "
    "against their labels; most rollouts that address the judge; least reliable; scores furthest apart; "
    "tied ones, most unlike labels first; then the rest in input order."
)
"""How groups are chosen for a page that cannot hold all of them."""

HighlightReason = Literal["failed", "disagrees", "suspect", "unsure", "spread", "tied", "rest"]
"""Why a group is worth a look: no scores; scores against labels; a rollout that addresses the judge;
few passes for its noise; scores far apart; nothing to learn from; nothing of all that."""
_ORDER: tuple[HighlightReason, ...] = ("failed", "disagrees", "suspect", "unsure", "spread", "tied")
_MOST_KINDS, _LONGEST = 32, 100
"""Kinds of failures that are told apart, and how much of their names is looked at."""
_Much = tuple[float, ...]
_Item = TypeVar("_Item")
_Kept = list[tuple[_Much, int, _Item]]
"""Items with how much each is worth, and less the number of its group: a heap."""


@dataclass(frozen=True, slots=True)
class Highlight:
    """A group worth a look, why, and how much so by that: larger is more."""

    group: ScoredGroup
    because: HighlightReason
    much: float

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        return {"because": self.because, "much": self.much, "group": summary(self.group)}


def _keep(kept: _Kept[_Item], most: int, much: _Much, number: int, item: _Item) -> bool:
    """Keep an item if it is among the `most` of most worth, of equal worth the first; True if it is now."""
    one = (much, -number, item)  # numbers differ, so no two items are compared
    if len(kept) < most:
        heappush(kept, one)
        return True
    return most > 0 and heappushpop(kept, one) is not one


def _is_new(kind: str, kinds: set[str]) -> float:
    """Note a kind of failure: 1 the first time. A stranger's file cannot fill the set."""
    kind = kind[:_LONGEST]
    new = kind not in kinds and len(kinds) < _MOST_KINDS
    kinds |= {kind} if new else set()
    return float(new)


def _ranked(kept: _Kept[_Item]) -> Iterator[_Item]:
    """The items, that of most worth first."""
    return (item for _, _, item in sorted(kept, key=lambda one: one[:2], reverse=True))


def _unsure(group: ScoredGroup) -> _Much:
    """How little a group's scores are to be trusted: by reliability, else by their spread over passes."""
    widest = max((r.spread for r in group.rollouts if r.spread is not None), default=0.0)
    return (widest, 0.0) if group.reliability is None else (1 - group.reliability, widest)


def _reasons(group: ScoredGroup) -> Iterator[tuple[HighlightReason, _Much]]:
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
        self._kept: dict[HighlightReason, _Kept[int]] = {because: [] for because in _ORDER}
        self._first: list[int] = []
        self._kinds: set[str] = set()

    def add(self, ordinal: int, group: ScoredGroup) -> bool:
        """Count a group; True if it may be chosen, as far as is known. Ordinals grow in input order."""
        wanted = len(self._first) < self._most
        if wanted:
            self._first.append(ordinal)
        reasons = _reasons(group) if group.scores else iter(())
        if group.failed:
            reasons = iter([("failed", (_is_new(group.kind, self._kinds),))])
        for because, much in reasons:
            wanted |= _keep(self._kept[because], self._most, much, ordinal, ordinal)
        return wanted

    def chosen(self) -> dict[int, HighlightReason]:
        """The ordinals of the groups chosen, the most telling first, and why each was."""
        found: dict[int, HighlightReason] = {}
        turns = {because: _ranked(self._kept[because]) for because in _ORDER}
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
    """The few groups that a page names first.

    Worst: failed groups, the first of each kind before others; then those with most rollouts that
    address the judge; then by reliability, the lowest first, if equal the one with more pairs of
    unlike labels; without a reliability a group that is tied although labels differ counts as 0, any
    other by its widest spread over passes. A group that nothing speaks against is not named.

    Disputed: most pairs of rollouts that scores order against their labels, a tie as half of one: the
    disagreement times the pairs. In a file that has no two unlike labels in a group: the widest distance
    between the judges of a panel on one rollout, or without a panel, between its passes.
    """

    def __init__(self, n: int = 5) -> None:
        self._n, self._number = n, 0
        self._worst: _Kept[Highlight] = []
        self._labels: _Kept[Highlight] = []
        self._judges: _Kept[Highlight] = []
        self._kinds: set[str] = set()
        self._labelled = False

    def add(self, group: ScoredGroup) -> None:
        """Look at the next group of the file."""
        self._number += 1
        if group.failed:
            self._keep(self._worst, (1.0, _is_new(group.kind, self._kinds)), group, "failed")
            return
        if not group.scores:
            return
        against, pairs = group.disputes
        self._doubt(group, pairs)
        self._labelled = self._labelled or pairs > 0
        if against > 0:
            self._keep(self._labels, (against,), group, "disagrees", against)
        apart = 0.0 if self._labelled else max(map(_apart, group.rollouts))
        if apart > 0:
            self._keep(self._judges, (apart,), group, "unsure", apart)

    def _doubt(self, group: ScoredGroup, pairs: int) -> None:
        suspects = sum(r.suspect for r in group.rollouts)
        doubt, widest = _unsure(group)
        tied = group.reliability is None and group.tied and pairs > 0
        doubt = 1.0 if tied else doubt
        if suspects or doubt > 0:
            because: HighlightReason = "suspect" if suspects else "tied" if tied else "unsure"
            much = (0.0, float(suspects), doubt, float(pairs), widest)
            self._keep(self._worst, much, group, because, suspects or doubt)

    def _keep(
        self,
        kept: _Kept[Highlight],
        rank: _Much,
        group: ScoredGroup,
        because: HighlightReason,
        much: float = 1.0,
    ) -> None:
        _keep(kept, self._n, rank, self._number, Highlight(group, because, much))

    def worst(self) -> list[Highlight]:
        """The groups least to be trusted, the worst first."""
        return list(_ranked(self._worst))

    def disputed(self) -> list[Highlight]:
        """The groups that judges and labels, or else judges, disagree about most, the widest first."""
        return list(_ranked(self._labels if self._labelled else self._judges))


def _apart(rollout: ScoredRollout) -> float:
    told = rollout.judges.values()
    return max(told) - min(told) if len(told) > 1 else rollout.spread or 0.0
