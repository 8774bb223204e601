"""Two scored files of one input → their groups side by side, and the figures of both judges.

Groups are paired by key and content. The scores compared are the judges' own. The figures are one JSON
object, which `ruler compare A B` prints as JSON and the page embeds: docs/output.md describes it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from statistics import fmean
from typing import Any, NamedTuple

from ruler_cli.errors import UsageError
from ruler_cli.results.agreement import AgreementBuilder
from ruler_cli.results.figures import (
    TWENTIETHS,
    ScoredFile,
    TextLookup,
    cells,
    differences,
)
from ruler_cli.results.highlights import (
    DISPUTED,
    JUDGES_APART,
    LISTED,
    Best,
    Keep,
    Rank,
)
from ruler_cli.results.identity import digests_of
from ruler_cli.results.record import GroupRecord, Json, RolloutRecord
from ruler_cli.scoring.figures import Figures
from ruler_cli.scoring.statistics import (
    Concordance,
    concordance,
    quantile,
)
from ruler_cli.types import GroupScores, RolloutValues

ComparisonFigures = Json
"""The figures of two files: a list of two holds the value of the first and that of the second."""


class DigestedGroup(NamedTuple):
    """A group with its number in the file, and a digest of the messages of each rollout.

    The digests identify the rollouts in another file. `kept` is what the page keeps of the group's text.
    """

    number: int
    group: GroupRecord
    digests: Sequence[bytes]
    kept: Any = None


class Order(NamedTuple):
    """Counts of the pairs of rollouts to which at least one judge gives different scores.

    `tied` are those to which the other one gives equal scores, `against` those that both order differently, a tied one
    as a half.
    """

    pairs: int
    against: float
    tied: int

    @classmethod
    def of(
        cls,
        first: Concordance,
        second: Concordance,
    ) -> Order:
        """Return the order by two judges, from that of the scores of each with those of the other as labels."""
        tied = round(first.tied + second.tied)
        pairs = round(first.pairs + second.tied)
        return cls(pairs, first.lost + tied / 2, tied)


@dataclass(frozen=True)
class ComparedGroup:
    """A group of both files with the judges' own scores, its rollouts in the order of the first file.

    `number` and `kept` are those of the first file.
    """

    number: int
    first: GroupRecord
    second: GroupRecord
    kept: Any = None

    @cached_property
    def common_scores(self) -> dict[int, tuple[float, float]]:
        """Both scores of each rollout that has them, by its index."""
        sides = zip(self.first.rollouts, self.second.rollouts, strict=True)
        scores = {}
        for i, (a, b) in enumerate(sides):
            if a.score is not None and b.score is not None:
                scores[i] = (a.score, b.score)
        return scores

    @cached_property
    def order(self) -> Order:
        """The order of its rollouts by both judges."""
        scores = self.common_scores.values()
        turned = [(b, a) for a, b in scores]
        return Order.of(concordance(scores), concordance(turned))

    @cached_property
    def distances(self) -> dict[int, float]:
        """The distance between both scores of each rollout that has them, by its index."""
        return {i: abs(a - b) for i, (a, b) in self.common_scores.items()}

    @property
    def distance(self) -> float | None:
        """The mean distance; None if no rollout has both scores."""
        return fmean(self.distances.values()) if self.distances else None

    @property
    def furthest(self) -> int | None:
        """The index of the rollout whose scores are the furthest apart; None if no rollout has both."""
        return max(self.distances, key=self.distances.__getitem__, default=None)

    def values(self, side: int) -> GroupScores:
        """Return the scores of one judge, with those of the other as labels, of the rollouts that have both."""
        rollouts = []
        for scores in self.common_scores.values():
            score = scores[side]
            label = scores[1 - side]
            rollouts.append(
                RolloutValues(
                    score,
                    "",
                    score,
                    label=label,
                )
            )
        group = (self.first, self.second)[side]
        return GroupScores(tuple(rollouts), tied=group.is_tied)

    @property
    def rank(self) -> Rank:
        """Order of groups by difference: pairs in another order, then the distance of scores."""
        if self.distance is None:
            return (-1.0,)
        return (self.order.against, self.distance)

    @property
    def reasons(self) -> list[str]:
        """The reasons to look at it, as words: the judges order many pairs differently, and the like."""
        first = self.first.scores
        second = self.second.scores
        against = self.order.against
        reasons = {
            "order": against > 0 and against >= DISPUTED * self.order.pairs,
            "distance": (self.distance or 0.0) >= JUDGES_APART,
            "only_a": first and not second,
            "only_b": second and not first,
        }
        return [name for name, holds in reasons.items() if holds]

    def as_json(self) -> Json:
        """Return the comparison as JSON, without the rollouts."""
        return {
            "ordinal": self.number,
            "key": self.first.key,
            "pairs": self.order.pairs,
            "against": self.order.against,
            "distance": self.distance,
            "a": self.first.as_json(),
            "b": self.second.as_json(),
        }


class LeftOutGroup(NamedTuple):
    """A group that is not compared, and why; `side` is the file (0 or 1) that alone has its key, else None."""

    key: str
    reason: str
    side: int | None = None

    @property
    def sentence(self) -> str:
        """The group and the reason."""
        return f"group {self.key!r} left out: {self.reason}"


OnLeftOut = Callable[[LeftOutGroup], object]
_Content = tuple[str, tuple[bytes, ...]]
"""The key of a group, and the digests of its rollouts in any order."""


def pair_groups(
    first: Iterator[DigestedGroup],
    second: Iterator[DigestedGroup],
) -> Iterator[ComparedGroup | LeftOutGroup]:
    """Yield the groups that stand in both files with the same rollouts, each in any order, and all others.

    A rollout with a label in one file has it in both. Both files are read side by side; memory holds the
    groups that may still find their like in the other file.
    """
    # of each file the groups by key and content, in the order of the file
    waiting: tuple[defaultdict[_Content, deque[DigestedGroup]], ...]
    waiting = defaultdict(deque), defaultdict(deque)
    keys = [Counter[str](), Counter[str]()]
    for row in zip_longest(first, second):
        for side, digested in enumerate(row):
            if digested is None:
                continue
            content = digested.group.key, tuple(sorted(digested.digests))
            if not waiting[1 - side][content]:
                del waiting[1 - side][content]
                if row[1 - side] is None:  # the other file has ended
                    keys[side][digested.group.key] += 1
                else:
                    waiting[side][content].append(digested)
                continue
            match = waiting[1 - side][content].popleft()
            yield _paired(match, digested) if side else _paired(digested, match)
    for side, groups in enumerate(waiting):
        for (key, _), left in groups.items():
            keys[side][key] += len(left)
    for key in dict.fromkeys([*keys[0], *keys[1]]):
        unlike = min(keys[0][key], keys[1][key])
        group = LeftOutGroup(key, "its rollouts differ between the files")
        yield from [group] * unlike
        for side, name in enumerate(("first", "second")):
            group = LeftOutGroup(key, f"only in the {name} file", side)
            yield from [group] * (keys[side][key] - unlike)


def _paired(
    first: DigestedGroup,
    second: DigestedGroup,
) -> ComparedGroup | LeftOutGroup:
    """Put the rollouts of the second group in the order of the first; equal ones stay in their order."""
    by_digest: dict[bytes, deque[RolloutRecord]] = {}
    for digest, rollout in zip(
        second.digests, second.group.rollouts, strict=True
    ):
        by_digest.setdefault(digest, deque()).append(rollout)
    first_rollouts = []
    second_rollouts = []
    for digest, a in zip(first.digests, first.group.rollouts, strict=True):
        b = by_digest[digest].popleft()
        label = a.label if b.label is None else b.label
        if a.label not in (None, label):
            return LeftOutGroup(
                first.group.key, "labels differ between the files"
            )
        # not the scores that an outcome or a reward moved
        first_rollouts.append(replace(a, label=label, score=a.judge_score))
        second_rollouts.append(replace(b, label=label, score=b.judge_score))
    return ComparedGroup(
        first.number,
        replace(first.group, rollouts=tuple(first_rollouts)),
        replace(second.group, rollouts=tuple(second_rollouts)),
        first.kept,
    )


class Comparison:
    """Two scored files, compared group by group; figures and agreement are those of the groups so far.

    `differing` are the few groups on which the judges differ most, of equals the first: they order some pair
    differently, or their scores are JUDGES_APART on average.
    """

    def __init__(
        self,
        files: Sequence[ScoredFile],
        on_left_out: OnLeftOut,
    ) -> None:
        """`on_left_out` gets each group that is not compared."""
        self.files = files
        self._on_left_out = on_left_out
        self._agreement = AgreementBuilder("A", "B")
        self._unlike = ""
        self._differing = Best[ComparedGroup](LISTED)
        self._counts = Counter[str]()
        # by the file that alone has them
        self._left_out = Counter[int | None]()
        # of each judge, on the rollouts that both scored
        self._sums = (Figures(), Figures())

    def groups(self, keep: Keep) -> Iterator[ComparedGroup]:
        """Yield each group that both files have.

        `keep` gets each group of the first file, and what it returns is `kept` with the compared group.
        Memory holds the annotations of groups that wait for their like in the other file, and no messages.
        """

        def digested(side: int) -> Iterator[DigestedGroup]:
            for number, group, scored in self.files[side].groups():
                kept = None if side else keep(group, scored)
                yield DigestedGroup(
                    number, scored, digests_of(group, scored), kept
                )

        for group in pair_groups(digested(0), digested(1)):
            if isinstance(group, ComparedGroup):
                self._add(group)
                yield group
                continue
            if group.side is None:
                self._unlike = self._unlike or f"; {group.sentence}"
            self._left_out[group.side] += 1
            self._on_left_out(group)

    def _add(self, group: ComparedGroup) -> None:
        reasons = group.reasons
        self._agreement.add(group.first, group.second)
        if group.order.against > 0 or "distance" in reasons:
            self._differing.add(group.rank, group)
        self._counts.update(["groups", *reasons])
        if group.common_scores:
            for side, sums in enumerate(self._sums):
                sums.add(group.values(side))

    @property
    def differing(self) -> list[ComparedGroup]:
        """The groups on which the judges differ most."""
        return self._differing.ranked()

    @property
    def paired(self) -> Json:
        """Counts of the groups of both files, of those that differ, and of those of one file alone."""
        return {
            "groups": self._counts["groups"],
            "unlike": self._left_out[None],
            "alone": [self._left_out[0], self._left_out[1]],
        }

    def figures(self, lookup: TextLookup) -> ComparisonFigures:
        """Return the figures of `ruler report`; UsageError if no rollout has a score in both files."""
        first, second = self._sums
        if not first.scores.number:
            names = " and ".join(file.name for file in self.files)
            problem = f"{names}: no group in common{self._unlike}"
            remedy = "give two scored files of the same input; three or more make a trend"
            if self._counts["groups"]:
                problem = f"{names}: no rollout has a score in both files"
                remedy = f"see why with `ruler report {self.files[1].name}`"
            raise UsageError(problem, remedy)
        agreement = self._agreement.agreement()
        order = Order.of(first.pairs, second.pairs)
        scores = (first.numbers["score"], second.numbers["score"])
        both = [*zip(*scores, strict=True)]
        distances = [abs(a - b) for a, b in both]
        figures = [file.figures for file in self.files]
        same_order = None
        if order.pairs:
            same_order = 1 - order.against / order.pairs
        return {
            "files": [{"figures": file.figures(lookup)} for file in figures],
            "paired": self.paired,
            "one_scored": [self._counts["only_a"], self._counts["only_b"]],
            "groups": first.counts["groups"],
            "rollouts": len(both),
            "means": [sums.scores.mean for sums in self._sums],
            "spreads": [
                quantile(sums.numbers["spread"], 0.5) for sums in self._sums
            ],
            "tied": [sums.counts["tied"] for sums in self._sums],
            "distance": {"mean": fmean(distances), "max": max(distances)},
            "order": {**order._asdict(), "agreement": same_order},
            "cells": cells(
                both,
                a=TWENTIETHS,
                b=TWENTIETHS,
            ),
            "pairwise_accuracy": [
                judge["pairwise_accuracy"] for judge in agreement["scorers"][:2]
            ],
            "difference": agreement["difference"],
            "differs": differences(*figures),
        }

    def as_json(
        self,
        heads: Sequence[Json],
        figures: ComparisonFigures,
    ) -> Json:
        """Return the figures and the list as JSON; `heads` has what describes each file."""
        files = zip(heads, figures["files"], strict=True)
        return figures | {
            "files": [{**head, **figures} for head, figures in files],
            "differ": [group.as_json() for group in self.differing],
        }
