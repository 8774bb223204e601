"""Which groups are worth a look: a stated rule, so that nobody has to trust a choice made for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappush, heappushpop

from ruler_cli.formats.chat import first_turn
from ruler_cli.marked.values import MarkedGroup, MarkedRollout
from ruler_cli.report.values import Because, Telling

RULE = (
    "One in turn of: failed groups, the first of each kind before others; most pairs of rollouts scored "
    "against their labels; most rollouts that address the judge; least reliable; scores furthest apart; "
    "tied ones, most unlike labels first; then the rest in input order."
)
"""How groups are chosen for a page that cannot hold all of them."""

_ORDER: tuple[Because, ...] = ("failed", "disagrees", "suspect", "unsure", "spread", "tied")
_MOST_KINDS, _LONGEST = 32, 100
"""Kinds of failures that are told apart, and how much of their names is looked at."""
_Much = tuple[float, ...]


class _Most:
    """Those of most worth among all that were offered; of equal worth the first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[_Much, int, Telling | None]] = []

    def add(self, much: _Much, number: int) -> None:
        self._push((much, -number, None))

    def wants(self, much: _Much, number: int) -> bool:
        """Whether it would be kept now."""
        return len(self._heap) < self._most or (self._most > 0 and (much, -number) > self._heap[0][:2])

    def keep(self, much: _Much, number: int, telling: Telling) -> None:
        self._push((much, -number, telling))

    def _push(self, item: tuple[_Much, int, Telling | None]) -> None:
        if len(self._heap) < self._most:
            heappush(self._heap, item)
        elif self._heap:
            heappushpop(self._heap, item)  # numbers differ, so that no Telling is compared

    def numbers(self) -> Iterator[int]:
        return (-number for _, number, _ in sorted(self._heap, reverse=True))

    def tellings(self) -> tuple[Telling, ...]:
        ranked = sorted(self._heap, key=lambda item: item[:2], reverse=True)
        return tuple(telling for _, _, telling in ranked if telling is not None)


class _Kinds:
    """Which kinds of failures were seen before; a stranger's file cannot fill it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def new(self, kind: str) -> bool:
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
        self._kept: dict[Because, _Most] = {because: _Most(most) for because in _ORDER}
        self._first: list[int] = []
        self._kinds = _Kinds()
        self._found: dict[int, Because] | None = None

    def add(self, ordinal: int, group: MarkedGroup) -> None:
        """Count a group; ordinals grow in input order."""
        self._found = None
        if len(self._first) < self._most:
            self._first.append(ordinal)
        if group.failed:
            self._kept["failed"].add((float(self._kinds.new(group.kind)),), ordinal)
        elif group.scores:
            for because, much in _reasons(group):
                self._kept[because].add(much, ordinal)

    def chosen(self) -> list[int]:
        """The ordinals of the groups chosen, the most telling first."""
        return list(self._ranked())

    def because(self, ordinal: int) -> Because:
        """Why a group was chosen; `rest` where it was not."""
        return self._ranked().get(ordinal, "rest")

    def _ranked(self) -> dict[int, Because]:
        if self._found is None:
            found: dict[int, Because] = {}
            turns = [(because, self._kept[because].numbers()) for because in _ORDER]
            while turns and len(found) < self._most:
                turns = [(because, left) for because, left in turns if self._take(because, left, found)]
            for ordinal in self._first:
                if len(found) < self._most:
                    found.setdefault(ordinal, "rest")
            self._found = found
        return self._found

    def _take(self, because: Because, left: Iterator[int], found: dict[int, Because]) -> bool:
        """Choose the next one of a kind that is not chosen yet; False where there is none."""
        if len(found) >= self._most:
            return False
        for ordinal in left:
            if ordinal not in found:
                found[ordinal] = because
                return True
        return False


class Shortlist:
    """The few groups that a page names first; what the agent did is not kept of them, the task is.

    Worst: failed groups, the first of each kind before others; then those with most rollouts that
    address the judge; then by reliability, the lowest first, where equal the one with more pairs of
    unlike labels; without a reliability a group that is tied although labels differ counts as 0, any
    other by its widest spread over passes. A group that nothing speaks against is not named.

    Disputed: most pairs of rollouts that scores order against their labels, a tie as half of one: the
    disagreement times the pairs. In a file that has no two unlike labels in a group: where the judges
    of a panel are furthest apart on one rollout, or without a panel, its passes.
    """

    def __init__(self, n: int = 5) -> None:
        self._worst, self._labels, self._judges = _Most(n), _Most(n), _Most(n)
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
        self, kept: _Most, rank: _Much, group: MarkedGroup, because: Because, much: float = 1.0
    ) -> None:
        if kept.wants(rank, self._number):
            kept.keep(rank, self._number, Telling(_short(group), because, much))

    def worst(self) -> tuple[Telling, ...]:
        """The groups least to be trusted, the worst first."""
        return self._worst.tellings()

    def disputed(self) -> tuple[Telling, ...]:
        """The groups that judges and labels, or else judges, disagree about most, the widest first."""
        return (self._labels if self._labelled else self._judges).tellings()


def _apart(rollout: MarkedRollout) -> float:
    told = rollout.judges.values()
    return max(told) - min(told) if len(told) > 1 else rollout.spread or 0.0


def _short(group: MarkedGroup) -> MarkedGroup:
    """A group without what its agents did: of the prompt, which all share, one copy."""

    def prompt(i: int, marked: MarkedRollout) -> MarkedRollout:
        messages = marked.rollout.messages
        kept = messages[: first_turn(messages)] if i == 0 else []
        return replace(marked, rollout=replace(marked.rollout, messages=kept, histories=(), tools=None))

    return replace(group, rollouts=tuple(prompt(i, r) for i, r in enumerate(group.rollouts)))
