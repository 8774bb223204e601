"""Scored groups → those worth a look, by a stated rule, so that nobody has to trust an opaque choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
LISTED = 5
"""Groups in a list, at most."""
WORST = "failed, suspect, tied though rewards differ, unreliable"
"""The worst groups in their order, in words."""

HighlightReason = Literal[
    "failed", "disagrees", "suspect", "unsure", "spread", "tied", "rest"
]
"""The reason why a group is worth a look: it has no scores; its scores contradict its labels; a rollout
addresses the judge; its scores are more noise than signal; they are far apart; they are tied; none of it."""
_NOT_ASKED = ("budget", "interrupted")
"""Kinds of failures that say nothing about a group: the run ended before it."""
Rank = tuple[float, ...]
Keep = Callable[[Group, GroupRecord], Any]
"""Returns what a page keeps of the text of a group."""
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Highlight:
    """A group worth a look, its number in the file, and the reason.

    `why` is the reason in a few words; the kind of a failure in it is text of the input.
    """

    group: GroupRecord
    ordinal: int
    because: HighlightReason
    why: str

    def as_json(self) -> Json:
        """Return the highlight as JSON, without the rollouts."""
        return {
            "because": self.because,
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
    """The groups of a file, the worst first, and the few that a page names first.

    Worst: the first failed group of each kind, but not one that the run did not reach; then those with most
    rollouts that address the judge; then tied ones although labels differ; then those whose reliability is
    below UNRELIABLE, the lowest first; then the other failed ones. Without a reliability the largest spread
    over passes counts, from UNSTEADY on. All others follow, those with most pairs against their labels first.

    Disputed: at least DISPUTED of the pairs of different labels ordered against them; most such pairs first,
    a tie as half of one. In a file without different labels in a group: the largest distance between the
    judges of a panel on one rollout, from JUDGES_APART on, or without a panel between its passes, from
    UNSTEADY on.
    """

    def __init__(self, most: int = LISTED) -> None:
        self._worst = Best[Highlight](most)
        self._by_labels = Best[Highlight](most)
        self._by_judges = Best[Highlight](most)
        self._first: list[Highlight] = []
        self._kinds: set[str] = set()
        self._labelled = self._panel = False
        self._number = 0

    def add(self, group: GroupRecord) -> Rank:
        """Look at the next group of the file, and rank it among all."""
        self._number += 1
        because_of = reasons(group)
        doubt = _doubt(group)
        against = group.pairs.against
        asked = group.failed and group.kind not in _NOT_ASKED
        new_kind = asked and group.kind not in self._kinds
        if asked:
            self._kinds.add(group.kind)
        suspects = sum(r.suspect for r in group.rollouts) if group.scores else 0
        tied = group.is_tied and group.pairs.pairs > 0
        unsure = "unsure" in because_of
        words = f"passes ± {doubt:.2f}"
        if group.reliability is not None:
            words = f"reliability {group.reliability:.2f}"
        elif tied:
            doubt = 1.0
        doubted = doubt if tied or unsure else 0.0
        rank = (
            new_kind,
            suspects,
            tied,
            doubted,
            asked,
            against,
            len(because_of),
        )
        worst: dict[HighlightReason, str] = {
            "failed": f"failed: {group.kind}" if asked else "",
            "suspect": "suspect" if suspects else "",
            "tied": "tied, rewards differ" if tied else "",
            "unsure": words if unsure else "",
        }
        for because, why in worst.items():
            if why:
                self._worst.add(
                    rank,
                    Highlight(
                        group,
                        self._number,
                        because,
                        why,
                    ),
                )
                break
        if "disagrees" in because_of:
            why = f"{against:,.10g} of {group.pairs.pairs:,} pairs"
            highlight = Highlight(
                group,
                self._number,
                "disagrees",
                why,
            )
            self._by_labels.add((against,), highlight)
        self._labelled |= bool(group.scores) and group.pairs.pairs > 0
        if group.scores and not self._labelled:
            self._add_disputed(group)
        if self._number < ENOUGH:
            state = "not judged" if group.status == "unmarked" else ""
            state = "tied" if group.is_tied else state
            self._first.append(
                Highlight(
                    group,
                    self._number,
                    "rest",
                    state,
                )
            )
        return rank

    def _add_disputed(self, group: GroupRecord) -> None:
        distance = 0.0
        for rollout in group.rollouts:
            judges = rollout.panel.values()
            apart = rollout.spread or 0.0
            least = UNSTEADY
            if len(judges) > 1:
                apart = max(judges) - min(judges)
                least = JUDGES_APART
            if apart >= max(least, distance):
                distance = apart
                self._panel |= len(judges) > 1
        if distance:
            why = f"apart by {distance:.2f}"
            highlight = Highlight(
                group,
                self._number,
                "unsure",
                why,
            )
            self._by_judges.add((distance,), highlight)

    def lists(self) -> dict[str, list[Highlight]]:
        """Return the `worst` groups, the most `disputed` ones, and the `others` of a small file.

        Disputed are those with the largest disagreement with labels, or else between judges. A file with
        ENOUGH groups has no others.
        """
        disputed = self._by_labels if self._labelled else self._by_judges
        lists = {"worst": self._worst.ranked(), "disputed": disputed.ranked()}
        named = {
            highlight.ordinal
            for listed in lists.values()
            for highlight in listed
        }
        others = [
            highlight
            for highlight in self._first
            if highlight.ordinal not in named
        ]
        return lists | {"others": others if self._number < ENOUGH else []}

    @property
    def dispute(self) -> str:
        """The two sides of the disputes, in words."""
        if self._labelled:
            return "scores against the original reward"
        judges = "the judges of the panel" if self._panel else "passes"
        return f"{judges} furthest apart"


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
        lists = self.lists_as_json()
        del lists["others"]
        return {
            **heads[0],
            "figures": figures,
            **lists,
        }

    def lists_as_json(self) -> Json:
        """Return the lists of groups as JSON."""
        lists = self.shortlist.lists()
        return {
            name: [highlight.as_json() for highlight in listed]
            for name, listed in lists.items()
        }
