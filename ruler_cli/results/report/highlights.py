"""Scored groups → those worth a look, by a stated rule, so that nobody has to trust an opaque choice."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappush, heappushpop
from typing import Any, Generic, Literal, TypeVar

from ruler_cli.results.report.figures import ENOUGH, ReportFigures
from ruler_cli.results.report.group_text import page_key, summary
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout

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
RULE = (
    "The first failed group of each kind, then those with most flags, and of these those with most pairs of "
    "rollouts scored against their labels."
)
"""The rule that chooses groups for a page that cannot hold all of them."""

HighlightReason = Literal[
    "failed", "disagrees", "suspect", "unsure", "spread", "tied", "rest"
]
"""The reason why a group is worth a look: it has no scores; its scores contradict its labels; a rollout
addresses the judge; its scores are more noise than signal; they are far apart; they are tied; none of it."""
_NOT_ASKED = ("budget", "interrupted")
"""Kinds of failures that say nothing about a group: the run ended before it."""
_MOST_KINDS, _LONGEST = 32, 100
"""Kinds of failures that are distinguished, and characters of their names that count."""
_Rank = tuple[float, ...]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Highlight:
    """A group worth a look, its number in the file, and the reason; the degree is larger for more.

    `why` is the reason in a few words; the kind of a failure in it is text of the input.
    """

    group: ScoredGroup
    ordinal: int
    because: HighlightReason
    degree: float
    why: str

    def as_json(self) -> dict[str, Any]:
        """Return the highlight as JSON, without the rollouts."""
        named = {
            "because": self.because,
            "much": self.degree,
            "why": self.why,
            "ordinal": self.ordinal,
        }
        return named | {"group": summary(self.group)}


class Best(Generic[_Item]):
    """The `most` items of the highest rank; of equals the first."""

    def __init__(self, most: int) -> None:
        self._most, self._number = most, 0
        self._heap: list[tuple[_Rank, int, _Item]] = []

    def add(self, rank: _Rank, item: _Item) -> bool:
        """Add an item; true if it is among them so far."""
        self._number += 1
        one = (
            rank,
            -self._number,
            item,
        )  # numbers differ, so no two items are compared
        if len(self._heap) < self._most:
            heappush(self._heap, one)
            return True
        return self._most > 0 and heappushpop(self._heap, one) is not one

    def ranked(self) -> list[_Item]:
        """Return them, the highest rank first."""
        return [
            item
            for _, _, item in sorted(self._heap, key=lambda one: one[:2], reverse=True)
        ]


def _is_new(kind: str, kinds: set[str]) -> float:
    """Note a kind of failure: 1 the first time. A hostile file cannot fill the set."""
    kind = kind[:_LONGEST]
    new = kind not in kinds and len(kinds) < _MOST_KINDS
    kinds |= {kind} if new else set()
    return float(new)


def _widest(group: ScoredGroup) -> float:
    """Return the largest spread of a rollout over passes."""
    return max((r.spread for r in group.rollouts if r.spread is not None), default=0.0)


def _doubt(group: ScoredGroup) -> float:
    """Return 1 - reliability, or the largest spread over passes if the reliability is not known."""
    return _widest(group) if group.reliability is None else 1 - group.reliability


def _unsure(group: ScoredGroup) -> bool:
    """Tell if the scores are more noise than signal."""
    if group.reliability is None:
        return _widest(group) >= UNSTEADY
    return group.reliability < UNRELIABLE


def _disputed(group: ScoredGroup) -> bool:
    """Tell if the judge orders some pairs against their labels, and many; ties alone are no dispute."""
    against, pairs = group.disputes
    return group.pairs.lost > 0 and against >= DISPUTED * pairs


def reasons(group: ScoredGroup) -> list[HighlightReason]:
    """Return all reasons to look at a group."""
    if not group.scores:
        return ["failed"] if group.failed else []
    wide = bool(group.sd) and max(group.scores) - min(group.scores) >= FAR_APART
    found: dict[HighlightReason, bool] = {
        "disagrees": _disputed(group),
        "suspect": any(r.suspect for r in group.rollouts),
        "unsure": _unsure(group),
        "spread": wide and not group.tied,
        "tied": group.tied,
    }
    return [because for because, holds in found.items() if holds]


def telling(group: ScoredGroup, kinds: set[str]) -> _Rank:
    """Rank a group by RULE; `kinds` are those of earlier failures."""
    if group.failed:
        asked = group.kind not in _NOT_ASKED
        return (_is_new(group.kind, kinds) if asked else 0.0, float(asked), 0.0, 0.0)
    return (0.0, float(len(reasons(group))), group.disputes[0], _doubt(group))


class Ranking:
    """The `most` groups of a page: the first one asked for, then those of the highest rank."""

    def __init__(self, most: int) -> None:
        self._most, self._best = most, Best[int](most)
        self._asked: list[int] = []

    def add(self, ordinal: int, rank: _Rank, *, asked: bool = False) -> bool:
        """Count a group; true if it may be chosen, as far as is known."""
        if asked and not self._asked:
            self._asked.append(ordinal)
        return self._best.add(rank, ordinal) or ordinal in self._asked

    def chosen(self) -> list[int]:
        """Return the ordinals of the chosen groups, the highest rank first."""
        return list(dict.fromkeys((*self._asked, *self._best.ranked())))[: self._most]


class Shortlist:
    """The few groups that a page names first.

    Worst: the first failed group of each kind, but not one that the run did not reach; then those with most
    rollouts that address the judge; then tied ones although labels differ; then those whose reliability is
    below UNRELIABLE, the lowest first, if equal the one with more pairs of different labels; then the other
    failed ones. Without a reliability the largest spread over passes counts, from UNSTEADY on.

    Disputed: at least DISPUTED of the pairs of different labels ordered against them; most such pairs first,
    a tie as half of one. In a file without different labels in a group: the largest distance between the
    judges of a panel on one rollout, from JUDGES_APART on, or without a panel between its passes, from
    UNSTEADY on.
    """

    def __init__(self, n: int = 5) -> None:
        self._worst, self._by_labels, self._by_judges = (
            Best[Highlight](n) for _ in range(3)
        )
        self._kinds: set[str] = set()
        self._labelled = self._panel = self._half = False
        self._number, self._first = 0, list[Highlight]()

    def add(self, group: ScoredGroup) -> None:
        """Look at the next group of the file."""
        self._number += 1
        if self._number < ENOUGH:
            why = "tied" if group.tied else ""
            why = "not judged" if group.status == "unmarked" else why
            self._first.append(Highlight(group, self._number, "rest", 0.0, why))
        if group.failed and group.kind not in _NOT_ASKED:
            rank = 1.0 if _is_new(group.kind, self._kinds) else -1.0
            why = f"failed: {group.kind}"
            failed = Highlight(group, self._number, "failed", 1.0, why)
            self._worst.add((rank,), failed)
        if group.scores:
            self._add_worst(group)
            self._add_disputed(group)

    def _add_worst(self, group: ScoredGroup) -> None:
        suspects = sum(r.suspect for r in group.rollouts)
        pairs, known = group.disputes[1], group.reliability is not None
        tied = group.tied and pairs > 0
        doubt = 1.0 if tied and not known else _doubt(group)
        because: HighlightReason
        if suspects:
            because, why = "suspect", "suspect"
        elif tied:
            because, why = "tied", "tied, rewards differ"
        elif _unsure(group):
            because = "unsure"
            why = f"reliability {1 - doubt:.2f}" if known else f"passes ± {doubt:.2f}"
        else:
            return
        rank = (0.0, suspects, tied, doubt, pairs, _widest(group))
        degree = suspects or doubt
        self._worst.add(rank, Highlight(group, self._number, because, degree, why))

    def _add_disputed(self, group: ScoredGroup) -> None:
        against, pairs = group.disputes
        self._labelled = self._labelled or pairs > 0
        if _disputed(group):
            why = f"{against:,.10g} of {pairs:,} pairs"
            self._by_labels.add(
                (against,), Highlight(group, self._number, "disagrees", against, why)
            )
            self._half = self._half or against % 1 > 0
        distance = 0.0 if self._labelled else max(map(_distance, group.rollouts))
        if distance > 0:
            self._panel = self._panel or any(len(r.judges) > 1 for r in group.rollouts)
            why = f"apart by {distance:.2f}"
            self._by_judges.add(
                (distance,), Highlight(group, self._number, "unsure", distance, why)
            )

    def worst(self) -> list[Highlight]:
        """Return the least trustworthy groups, the worst first."""
        return self._worst.ranked()

    def disputed(self) -> list[Highlight]:
        """Return the groups with the largest disagreement with labels, or else between judges."""
        return (self._by_labels if self._labelled else self._by_judges).ranked()

    def others(self) -> list[Highlight]:
        """Return the groups of a small file that are in neither list; none of a file with ENOUGH groups."""
        named = {one.ordinal for one in (*self.worst(), *self.disputed())}
        return (
            [one for one in self._first if one.ordinal not in named]
            if self._number < ENOUGH
            else []
        )

    @property
    def dispute(self) -> str:
        """The two sides of the disputes, in words."""
        if self._labelled:
            return (
                "scores against the original reward"
                + ", equal scores count half" * self._half
            )
        return (
            "the judges of the panel furthest apart"
            if self._panel
            else "passes furthest apart"
        )


WORST = "failed, suspect, tied though rewards differ, unreliable"
"""The worst groups in their order, in words."""


def _distance(rollout: ScoredRollout) -> float:
    """Return the distance between the judges of a rollout, or its spread over passes; 0 if it is small."""
    judges = rollout.judges.values()
    distance = max(judges) - min(judges) if len(judges) > 1 else rollout.spread or 0.0
    return (
        distance if distance >= (JUDGES_APART if len(judges) > 1 else UNSTEADY) else 0.0
    )


def next_commands(
    source: str, shortlist: Shortlist, figures: ReportFigures
) -> list[list[str]]:
    """Return the commands to type next, as words without quotes."""
    name = f"./{source}" if source.startswith("-") else source
    commands = [
        ["report", name, *group_option(page_key(one.group.key))]
        for one in (*shortlist.disputed(), *shortlist.worst())[:1]
    ]
    commands.append(["report", name, "-o", "report.html"])
    if figures["groups"]["live"]:
        commands.append(["select", name, "train.jsonl", "--where", "live"])
    return commands


def group_option(key: str) -> list[str]:
    """Return the words that name a group; a key may begin with a dash."""
    return [f"--group={key}"] if key.startswith("-") else ["--group", key]
