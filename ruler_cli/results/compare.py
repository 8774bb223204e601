"""Two scored files of one input → their groups side by side, and the figures of both judges.

Groups are paired by key and content. The scores compared are the judges' own. The figures are one JSON
object, which `ruler compare A B` prints as JSON and the page embeds: docs/output.md describes it.
"""

from __future__ import annotations

from array import array
from collections import (
    Counter,
    defaultdict,
    deque,
)
from collections.abc import (
    Callable,
    Iterator,
    Sequence,
)
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
from ruler_cli.results.record import (
    GroupRecord,
    Json,
    RolloutRecord,
)
from ruler_cli.scoring.statistics import (
    Moments,
    concordance,
    quantile,
)

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


@dataclass(frozen=True)
class ComparedGroup:
    """A group of both files with the judges' own scores, its rollouts in the order of the first file.

    `number` and `kept` are those of the first file. `unlike` counts rollouts with different labels in both files.
    """

    number: int
    first: GroupRecord
    second: GroupRecord
    kept: Any = None
    unlike: int = 0

    @cached_property
    def common_scores(self) -> dict[int, tuple[float, float]]:
        """Both scores of each rollout that has them, by its index."""
        sides = zip(self.first.rollouts, self.second.rollouts, strict=True)
        return {
            i: (a.score, b.score)
            for i, (a, b) in enumerate(sides)
            if a.score is not None and b.score is not None
        }

    @cached_property
    def order(self) -> Json:
        """The counts of its `pairs` of rollouts to which at least one judge gives different scores.

        `tied` are those to which the other one gives equal scores, `against` those that both order differently, a tied
        one as a half.
        """
        scores = self.common_scores.values()
        first = concordance(scores)
        second = concordance([(b, a) for a, b in scores])
        tied = round(first.tied + second.tied)
        pairs = round(first.pairs + second.tied)
        against = first.lost + tied / 2
        return {"pairs": pairs, "against": against, "tied": tied}

    @property
    def distance(self) -> float | None:
        """The mean distance of both scores; None if no rollout has them."""
        distances = [abs(a - b) for a, b in self.common_scores.values()]
        return fmean(distances) if distances else None

    @property
    def furthest(self) -> int | None:
        """The index of the rollout whose scores are the furthest apart; None if no rollout has both."""
        scores = self.common_scores
        distances = {i: abs(a - b) for i, (a, b) in scores.items()}
        return max(distances, key=distances.__getitem__, default=None)

    @property
    def rank(self) -> Rank:
        """Order of groups by difference: pairs in another order, then the distance of scores."""
        if self.distance is None:
            return (-1.0,)
        return (self.order["against"], self.distance)

    @property
    def reasons(self) -> list[str]:
        """The reasons to look at it, as words: the judges order many pairs differently, and the like."""
        first = self.first.scores
        second = self.second.scores
        against = self.order["against"]
        reasons = {
            "order": against > 0 and against >= DISPUTED * self.order["pairs"],
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
            "pairs": self.order["pairs"],
            "against": self.order["against"],
            "distance": self.distance,
            "a": self.first.as_json(),
            "b": self.second.as_json(),
        }


class LeftOutGroup(NamedTuple):
    """A group of the file `side` (0 or 1) that is not compared: the other has no group of its key and rollouts."""

    key: str
    side: int

    @property
    def sentence(self) -> str:
        """The group and the reason."""
        here, there = (("first", "second"), ("second", "first"))[self.side]
        return f"group {self.key!r} of the {here} file left out: the {there} has none with its key and rollouts"


_Waiting = defaultdict[Any, deque[DigestedGroup]]
"""Groups of a file by their key and the digests of their rollouts in any order, in the order of the file."""


def pair_groups(
    first: Iterator[DigestedGroup],
    second: Iterator[DigestedGroup],
) -> Iterator[ComparedGroup | LeftOutGroup]:
    """Yield the groups that stand in both files with the same rollouts, each in any order, and all others.

    Both files are read side by side; memory holds the groups that have not found their like in the other file.
    """
    waiting: tuple[_Waiting, _Waiting] = (
        defaultdict(deque),
        defaultdict(deque),
    )
    for row in zip_longest(first, second):
        for side, digested in enumerate(row):
            if digested is None:
                continue
            content = (digested.group.key, tuple(sorted(digested.digests)))
            alike = waiting[1 - side].pop(content, None)
            if alike is None:
                waiting[side][content].append(digested)
                continue
            match = alike.popleft()
            if alike:
                waiting[1 - side][content] = alike
            pair = (match, digested) if side else (digested, match)
            yield _paired(*pair)
    for side, groups in enumerate(waiting):
        for (key, _), left in groups.items():
            yield from [LeftOutGroup(key, side)] * len(left)


def _paired(first: DigestedGroup, second: DigestedGroup) -> ComparedGroup:
    """Put the rollouts of the second group in the order of the first; equal ones stay in their order.

    A rollout with a label in one file has it in both; one with different labels has none.
    """
    unlike = 0
    by_digest = defaultdict[bytes, deque[RolloutRecord]](deque)
    for digest, b in zip(second.digests, second.group.rollouts, strict=True):
        by_digest[digest].append(b)
    sides = []
    for digest, a in zip(first.digests, first.group.rollouts, strict=True):
        b = by_digest[digest].popleft()
        label = b.label if a.label is None else a.label
        if b.label not in (None, label):
            label = None
            unlike += 1
        # not the scores that an outcome or a reward moved
        sides.append(
            [replace(r, label=label, score=r.judge_score) for r in (a, b)]
        )
    return ComparedGroup(
        first.number,
        replace(first.group, rollouts=tuple([a for a, _ in sides])),
        replace(second.group, rollouts=tuple([b for _, b in sides])),
        first.kept,
        unlike,
    )


class Comparison:
    """Two scored files, compared group by group; figures and agreement are those of the groups so far."""

    def __init__(
        self,
        files: Sequence[ScoredFile],
        on_left_out: Callable[[LeftOutGroup], object],
    ) -> None:
        """`on_left_out` gets each group that is not compared."""
        self.files = files
        self._on_left_out = on_left_out
        self._agreement = AgreementBuilder("A", "B")
        self._differing = Best[ComparedGroup](LISTED)
        self._counts = Counter[str]()
        # by the file that alone has them
        self._left_out = [0, 0]
        # of both judges, on the rollouts that both scored
        self._order = Counter[str](
            pairs=0,
            against=0,
            tied=0,
        )
        self._scores = (array("d"), array("d"))
        self._spreads = (array("d"), array("d"))
        self._tied = [0, 0]

    def groups(self, keep: Keep) -> Iterator[ComparedGroup]:
        """Yield each group that both files have.

        `keep` gets each group of the first file, and what it returns is `kept` with the compared group.
        Memory holds the annotations of groups that wait for their like in the other file, and no messages.
        """

        def digested(side: int) -> Iterator[DigestedGroup]:
            for number, group, scored in self.files[side].groups():
                kept = None if side else keep(group, scored)
                digests = digests_of(group, scored)
                yield DigestedGroup(
                    number,
                    scored,
                    digests,
                    kept,
                )

        for group in pair_groups(digested(0), digested(1)):
            if isinstance(group, ComparedGroup):
                self._add(group)
                yield group
                continue
            self._left_out[group.side] += 1
            self._on_left_out(group)

    def _add(self, group: ComparedGroup) -> None:
        self._agreement.add(group.first, group.second)
        if group.order["against"] > 0 or "distance" in group.reasons:
            self._differing.add(group.rank, group)
        self._counts["paired"] += 1
        self._counts["unlike"] += group.unlike
        if not group.common_scores:
            return
        self._counts["groups"] += 1
        self._order.update(group.order)
        judged = (group.first, group.second)
        columns = zip(*group.common_scores.values(), strict=True)
        for side, scores in enumerate(columns):
            self._scores[side].extend(scores)
            self._tied[side] += judged[side].is_tied
            if len(scores) > 1:
                self._spreads[side].append(Moments().add(scores).spread)

    @property
    def differing(self) -> list[ComparedGroup]:
        """The few groups on which the judges differ most, in the order of some pair or by JUDGES_APART."""
        return self._differing.ranked()

    def figures(self, lookup: TextLookup) -> ComparisonFigures:
        """Return the figures of `ruler report`; UsageError if no rollout has a score in both files."""
        a_scores, b_scores = self._scores
        counts = self._counts
        if not a_scores:
            names = " and ".join(file.name for file in self.files)
            problem = f"{names}: no group in common"
            remedy = "give two scored files of the same input; three or more make a trend"
            if counts["paired"]:
                problem = f"{names}: no rollout has a score in both files"
                remedy = f"see why with `ruler report {self.files[1].name}`"
            raise UsageError(problem, remedy)
        agreement = self._agreement.agreement()
        both = [*zip(a_scores, b_scores, strict=True)]
        distances = [abs(a - b) for a, b in both]
        files = [file.figures for file in self.files]
        pairs = self._order["pairs"]
        same_order = 1 - self._order["against"] / pairs if pairs else None
        return {
            "files": [{"figures": file.figures(lookup)} for file in files],
            "paired": {
                "groups": counts["paired"],
                "alone": self._left_out,
                "labels_differ": counts["unlike"],
            },
            "groups": counts["groups"],
            "rollouts": len(both),
            "means": [fmean(scores) for scores in self._scores],
            "spreads": [quantile(spreads, 0.5) for spreads in self._spreads],
            "tied": self._tied,
            "distance": {"mean": fmean(distances), "max": max(distances)},
            "order": {**self._order, "agreement": same_order},
            "cells": cells(
                both,
                a=TWENTIETHS,
                b=TWENTIETHS,
            ),
            "pairwise_accuracy": [
                judge["pairwise_accuracy"] for judge in agreement["scorers"]
            ],
            "difference": agreement["difference"],
            "differs": differences(*files),
        }

    def as_json(
        self,
        heads: Sequence[Json],
        figures: ComparisonFigures,
    ) -> Json:
        """Return the figures and the list as JSON; `heads` has what describes each file."""
        files = zip(
            heads,
            figures["files"],
            strict=True,
        )
        return figures | {
            "files": [{**head, **figures} for head, figures in files],
            "differ": [group.as_json() for group in self.differing],
        }
