"""Scored groups → those worth a look, by a stated rule, so that nobody has to trust an opaque choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappush, heappushpop
from operator import itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from ruler_cli.results.figures import (
    ENOUGH,
    ReportFigures,
    ScoredFile,
    TextLookup,
    Wanted,
)
from ruler_cli.results.record import GroupRecord, Json
from ruler_cli.types import Group

UNRELIABLE = 0.5
"""Reliability below which differences within a group are more noise than signal."""
UNSTEADY = 0.15
"""Spread of a rollout over passes at which two passes differ by about a fifth of the scale."""
JUDGES_APART = 0.2
"""Distance between two judges of a rollout: a fifth of the scale."""
DISPUTED = 0.25
"""Share of pairs scored against their labels from which on a group is disputed: half of what chance gives."""
FAR_APART = 0.5
"""Distance of a group's best score from its worst that is large: half of the scale."""
LISTED = 10
"""Groups in a list, at most."""
HighlightReason = Literal[
    "failed", "disagrees", "suspect", "unsure", "spread", "tied"
]
"""The reason why a group is worth a look: it has no scores; its scores contradict its labels; a rollout
addresses the judge; its scores are more noise than signal; they are far apart; they are tied."""
_NOT_ASKED = ("budget", "interrupted")
"""Kinds of failures that say nothing about a group: the run ended before it."""
Rank = tuple[float, ...]
Keep = Callable[[Group, GroupRecord], Any]
"""Returns what a page keeps of the text of a group."""
_Item = TypeVar("_Item")


class Highlight(NamedTuple):
    """A group with its number in the file, and the reasons to look at it in a few words; empty without any.

    The kind of a failure in it is text of the input.
    """

    group: GroupRecord
    ordinal: int
    why: str

    def as_json(self) -> Json:
        """Return the highlight as JSON, without the rollouts."""
        return {
            "why": self.why,
            "ordinal": self.ordinal,
            "group": self.group.as_json(),
        }


class Best(Generic[_Item]):
    """The `most` items of the highest rank; of equals the first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._number = 0
        self._heap: list[tuple[Rank, int, _Item]] = []

    def add(
        self,
        rank: Rank,
        item: _Item,
    ) -> bool:
        """Add an item; true if it is among them so far."""
        self._number += 1
        # numbers differ, so no two items are compared
        entry = (rank, -self._number, item)
        if len(self._heap) < self._most:
            heappush(self._heap, entry)
            return True
        return self._most > 0 and heappushpop(self._heap, entry) is not entry

    def ranked(self) -> list[_Item]:
        """Return them, the highest rank first."""
        ordered = sorted(self._heap, key=itemgetter(0, 1), reverse=True)
        return [item for *_, item in ordered]


def _doubt(group: GroupRecord) -> float:
    """Return 1 - reliability, or the largest spread over passes if the reliability is not known."""
    if group.reliability is not None:
        return 1 - group.reliability
    return max(
        (r.spread for r in group.rollouts if r.spread is not None), default=0.0
    )


def reasons(group: GroupRecord) -> list[HighlightReason]:
    """Return all reasons to look at a group."""
    if not group.scores:
        return ["failed"] if group.failed else []
    pairs = group.pairs
    doubt = _doubt(group)
    has_reliability = group.reliability is not None
    wide = max(group.scores) - min(group.scores) >= FAR_APART
    holding: dict[HighlightReason, bool] = {
        # ties alone are no dispute
        "disagrees": pairs.lost > 0 and pairs.against >= DISPUTED * pairs.pairs,
        "suspect": any(r.suspect for r in group.rollouts),
        "unsure": doubt > 1 - UNRELIABLE
        if has_reliability
        else doubt >= UNSTEADY,
        "spread": wide and not group.is_tied,
        "tied": group.is_tied,
    }
    return [because for because, holds in holding.items() if holds]


class RunGroup(NamedTuple):
    """A group with its number in the file, from 1, its rank, the worst first, and what is `kept` of its text."""

    number: int
    first: GroupRecord
    rank: Rank
    kept: Any
    second: None = None

    def as_json(self) -> Json:
        """Return the group as JSON, without the rollouts."""
        return self.first.as_json()


class Shortlist:
    """The groups of a file, the worst first, and the few that a page names.

    Worst: the first failed group of each kind, but not one that the run did not reach; then those with most
    rollouts that address the judge; then those that contradict their labels, with most pairs against them
    first; then tied ones although labels differ; then those whose reliability is below UNRELIABLE, the lowest
    first; then the other failed ones. Without a reliability the largest spread over passes counts, from
    UNSTEADY on. All others follow, those with most pairs against their labels first.
    """

    def __init__(self) -> None:
        self._worst = Best[Highlight](LISTED)
        self._kinds: set[str] = set()
        self._number = 0

    def add(self, group: GroupRecord) -> Rank:
        """Look at the next group of the file, and rank it among all."""
        self._number += 1
        because_of = reasons(group)
        doubt = _doubt(group)
        pairs = group.pairs
        asked = group.failed and group.kind not in _NOT_ASKED
        new_kind = asked and group.kind not in self._kinds
        if asked:
            self._kinds.add(group.kind)
        suspects = sum(r.suspect for r in group.rollouts) if group.scores else 0
        tied = group.is_tied and pairs.pairs > 0
        unsure = "unsure" in because_of
        words = f"passes ± {doubt:.2f}"
        if group.reliability is not None:
            words = f"reliability {group.reliability:.2f}"
        elif tied:
            doubt = 1.0
        doubted = doubt if tied or unsure else 0.0
        disputed = pairs.against if "disagrees" in because_of else 0.0
        rank = (
            new_kind,
            suspects,
            disputed,
            tied,
            doubted,
            asked,
            pairs.against,
            len(because_of),
        )
        against = (
            f"{pairs.against:,.10g} of {pairs.pairs:,} pairs against rewards"
        )
        holding = {
            f"failed: {group.kind}": asked,
            "suspect": suspects > 0,
            against: disputed > 0,
            "tied, rewards differ": tied,
            words: unsure and not tied,
        }
        why = "; ".join(word for word, holds in holding.items() if holds)
        self._worst.add(rank, Highlight(group, self._number, why))
        return rank

    def listed(self) -> list[Highlight]:
        """Return the worst groups; of a file with fewer than ENOUGH also those without a reason."""
        listed = self._worst.ranked()
        if self._number >= ENOUGH:
            listed = [highlight for highlight in listed if highlight.why]
        return listed


class Run:
    """One scored file, group by group, and a shortlist of the groups so far."""

    def __init__(self, file: ScoredFile) -> None:
        self.file = file
        self.shortlist = Shortlist()

    def groups(
        self,
        keep: Keep,
        wanted: Wanted = None,
    ) -> Iterator[RunGroup]:
        """Yield each group, or those with a `wanted` key; what `keep` returns of a group is `kept` with it."""
        for number, group, scored in self.file.groups(wanted):
            rank = self.shortlist.add(scored)
            yield RunGroup(
                number,
                scored,
                rank,
                keep(group, scored),
            )

    def figures(self, lookup: TextLookup) -> ReportFigures:
        """Return the figures of all groups so far."""
        return self.file.figures.figures(lookup)

    def as_json(
        self,
        heads: Sequence[Json],
        figures: ReportFigures,
    ) -> Json:
        """Return the figures and the lists as JSON; `heads` has what describes the file."""
        return {
            **heads[0],
            "figures": figures,
            "worst": self.worst_as_json(),
        }

    def worst_as_json(self) -> list[Json]:
        """Return the worst groups as JSON."""
        return [highlight.as_json() for highlight in self.shortlist.listed()]
