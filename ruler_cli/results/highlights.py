"""Scored groups → those worth a look, by a stated rule, so that nobody has to trust an opaque choice."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Iterator,
    Sequence,
)
from heapq import heappush, heappushpop
from operator import itemgetter
from typing import (
    Any,
    Generic,
    NamedTuple,
    TypeVar,
)

from ruler_cli.results.figures import (
    ENOUGH,
    ReportFigures,
    ScoredFile,
    TextLookup,
    Wanted,
)
from ruler_cli.results.identity import rollout_ids
from ruler_cli.results.label_agreement import LabelAgreement
from ruler_cli.results.record import GroupRecord, Json
from ruler_cli.types import Group

UNRELIABLE = 0.5
"""Reliability below which differences within a group are more noise than signal."""
JUDGES_APART = 0.2
"""Distance between two judges of a rollout: a fifth of the scale."""
DISPUTED = 0.25
"""Share of pairs scored against their labels from which on a group is disputed: half of what chance gives."""
FAR_APART = 0.5
"""Distance of a group's best score from its worst that is large: half of the scale."""
LISTED = 10
"""Groups in a list, at most."""
_NOT_ASKED = ("budget", "interrupted")
"""Kinds of failures that say nothing about a group: the run ended before it."""
_WORST = ("suspect", "disagrees", "tied", "unsure", "failed")
"""Reasons from the worst on."""
Rank = tuple[float, ...]
Keep = Callable[[Group, GroupRecord], Any]
"""Returns what a page keeps of the text of a group."""
Reason = tuple[float, str]
"""A weight, the higher the worse, and words for a list of the worst groups; 0 and empty if it is not so bad."""
_Item = TypeVar("_Item")


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


def reasons(group: GroupRecord) -> dict[str, Reason]:
    """Return all reasons to look at a group by their names; the kind of a failure is text of the input.

    It has no scores (`failed`), a rollout addresses the judge (`suspect`), scores contradict labels (`disagrees`),
    are equal (`tied`), more noise than signal (`unsure`) or far apart (`spread`).
    """
    if group.failed:
        asked = group.kind not in _NOT_ASKED
        return {"failed": (asked, f"failed: {group.kind}" if asked else "")}
    because: dict[str, Reason] = {}
    if not group.scores:
        return because
    pairs = group.pairs
    # ties alone are no dispute
    if pairs.lost > 0 and pairs.against >= DISPUTED * pairs.pairs:
        words = (
            f"{pairs.against:,.10g} of {pairs.pairs:,} pairs against rewards"
        )
        because["disagrees"] = (pairs.against, words)
    suspects = sum(rollout.suspect for rollout in group.rollouts)
    if suspects:
        because["suspect"] = (suspects, "suspect")
    contested = group.is_tied and pairs.pairs > 0
    if group.is_tied:
        words = "tied, rewards differ" if contested else ""
        because["tied"] = (contested, words)
    elif max(group.scores) - min(group.scores) >= FAR_APART:
        because["spread"] = (0, "")
    reliability = group.reliability
    if reliability is not None and reliability < UNRELIABLE:
        words = "" if contested else f"reliability {reliability:.2f}"
        because["unsure"] = (1 - reliability, words)
    return because


class RunGroup(NamedTuple):
    """A group with its number in the file, from 1, its rank, the worst first, and what is `kept` of its text."""

    number: int
    first: GroupRecord
    rank: Rank
    kept: Any = None
    why: str = ""
    """The reasons to look at it in a few words."""
    second: None = None

    def as_json(self) -> Json:
        """Return the group as JSON, without the rollouts."""
        return self.first.as_json()


class Run:
    """One scored file, group by group, and the worst of the groups so far.

    Worst: the first failed group of each kind, but not one that the run did not reach; then those with most
    rollouts that address the judge; then those that contradict their labels, with most pairs against them
    first; then tied ones although labels differ; then those whose reliability is below UNRELIABLE, the lowest
    first; then the other failed ones. All others follow, those with most pairs against their labels first.
    """

    def __init__(
        self,
        file: ScoredFile,
        labels: LabelAgreement | None = None,
    ) -> None:
        """With `labels` its scores are compared with them."""
        self.files = [file]
        self._labels = labels
        self._worst = Best[RunGroup](LISTED)
        self._kinds: set[str] = set()
        self._number = 0

    def groups(
        self,
        keep: Keep,
        wanted: Wanted = None,
    ) -> Iterator[RunGroup]:
        """Yield each group, or those with a `wanted` key; what `keep` returns of a group is `kept` with it."""
        for number, group, scored in self.files[0].groups(wanted):
            self._number += 1
            if self._labels:
                self._labels.add(rollout_ids(group, scored), scored)
            because = reasons(scored)
            worst = [because.get(name, (0, "")) for name in _WORST]
            failed = worst[-1][0] > 0
            new_kind = failed and scored.kind not in self._kinds
            if new_kind:
                self._kinds.add(scored.kind)
            weights = [weight for weight, _ in worst]
            rank = (new_kind, *weights, scored.pairs.against, len(because))
            why = "; ".join([words for _, words in worst if words])
            ranked = RunGroup(
                number,
                scored,
                rank,
                why=why,
            )
            self._worst.add(rank, ranked)
            yield ranked._replace(kept=keep(group, scored))

    def worst(self) -> list[RunGroup]:
        """Return the worst groups; of a file with fewer than ENOUGH also those without a reason."""
        listed = self._worst.ranked()
        if self._number >= ENOUGH:
            listed = [group for group in listed if group.why]
        return listed

    def figures(self, lookup: TextLookup) -> ReportFigures:
        """Return the figures of all groups so far."""
        return self.files[0].figures.figures(lookup)

    def as_json(
        self,
        heads: Sequence[Json],
        figures: ReportFigures,
    ) -> Json:
        """Return the figures and the lists as JSON; `heads` has what describes the file."""
        worst = self.worst_as_json()
        return {**heads[0], "figures": figures, "worst": worst}

    def worst_as_json(self) -> list[Json]:
        """Return the worst groups as JSON, without the rollouts."""
        return [
            {
                "why": group.why,
                "ordinal": group.number,
                "group": group.as_json(),
            }
            for group in self.worst()
        ]
