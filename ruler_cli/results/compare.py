"""Two scored files of one input → the figures of both, and the groups on which their judges differ.

Groups are paired as `ruler agree` pairs them. The scores compared are the judges' own. The figures are one
JSON object, which `ruler report A B --json` prints and the page embeds: docs/json.md describes it.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.results.agree import Agreement, measure_two
from ruler_cli.results.pairing import (
    DigestedGroup,
    GroupPair,
    LeftOutGroup,
    OnLeftOut,
    with_digests,
)
from ruler_cli.results.report.bins import Bins, quantile
from ruler_cli.results.report.figures import FiguresBuilder
from ruler_cli.results.report.group_text import summary
from ruler_cli.results.report.highlights import (
    DISPUTED,
    JUDGES_APART,
    Best,
    group_option,
)
from ruler_cli.results.report.made_by import TextLookup, differences, no_texts
from ruler_cli.results.scored_file import ScoredFile
from ruler_cli.results.scored_groups import ScoredGroup
from ruler_cli.scoring.sums import Moments, concordance
from ruler_cli.types import Group

ScoredGroups = Iterable[tuple[Group, ScoredGroup]]
"""The groups of a file as `ScoredFile.groups` yields them."""
ComparisonFigures = dict[str, Any]
"""The figures of two files: a list of two holds the value of the first and that of the second."""
_CELLS = 20
"""Bins of a score."""
_LISTED = 5
"""Groups that are listed as those on which two judges differ most."""


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """A group of both files; `number` is that in the first file, from 1.

    Of the `pairs` of rollouts to which at least one judge gives different scores, `against` are ordered
    differently by the other, a pair with equal scores (`tied`) half. `distance` is the mean distance between
    both scores of a rollout; None if no rollout has both.
    """

    one: ScoredGroup
    other: ScoredGroup
    number: int
    pairs: int
    against: float
    tied: int
    distance: float | None

    @classmethod
    def of(cls, pair: GroupPair) -> ComparedGroup:
        """Compare both scores of each rollout; `one` and `other` have the judges' own scores."""
        both = common_scores(pair.one, pair.other)
        first, second = [a for a, _ in both], [b for _, b in both]
        order = concordance(first, second)
        told_by_both = order.won + order.lost
        tied_by_one = order.pairs + order.spread - 2 * told_by_both
        distance = math.fsum(abs(a - b) for a, b in both) / len(both) if both else None
        pairs, against = told_by_both + tied_by_one, order.lost + tied_by_one / 2
        own = _own_scores(pair.one), _own_scores(pair.other)
        return cls(*own, pair.number, pairs, against, tied_by_one, distance)

    @property
    def rank(self) -> tuple[float, ...]:
        """Order of groups by difference: pairs in another order, then the distance of scores."""
        return (-1.0, 0.0) if self.distance is None else (self.against, self.distance)

    @property
    def disagreement(self) -> float | None:
        """The share of pairs that both judges order differently, from 0 to 1; None without pairs."""
        return self.against / self.pairs if self.pairs else None

    @property
    def reasons(self) -> list[str]:
        """The reasons to look at it, as words: the judges order many pairs differently, and the like."""
        reasons = {
            "order": self.against > 0 and self.against >= DISPUTED * self.pairs,
            "distance": self.distance is not None and self.distance >= JUDGES_APART,
            "only_a": bool(self.one.scores) and not self.other.scores,
            "only_b": bool(self.other.scores) and not self.one.scores,
        }
        return [name for name, holds in reasons.items() if holds]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON, without the rollouts."""
        return {
            "key": self.one.key,
            "pairs": self.pairs,
            "against": self.against,
            "distance": self.distance,
            "a": summary(self.one),
            "b": summary(self.other),
        }


def common_scores(one: ScoredGroup, other: ScoredGroup) -> list[tuple[float, float]]:
    """Return both judges' own scores of each rollout that has them."""
    both = (
        (a.judge_score, b.judge_score)
        for a, b in zip(one.rollouts, other.rollouts, strict=True)
    )
    return [(a, b) for a, b in both if a is not None and b is not None]


def _own_scores(group: ScoredGroup) -> ScoredGroup:
    """Put the judges' own scores in place of those that an outcome or a reward moved."""
    if all(rollout.score == rollout.judge_score for rollout in group.rollouts):
        return group
    return replace(
        group, rollouts=tuple([replace(r, score=r.judge_score) for r in group.rollouts])
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two scored files compared: `figures` are those of `ruler report`, `agreement` that of `ruler agree`.

    `differing` are the few groups on which the judges differ most, of equals the first: they order some pair
    differently, or their scores are JUDGES_APART on average.
    """

    figures: ComparisonFigures
    agreement: Agreement
    differing: list[ComparedGroup]


def compare_files(
    files: Sequence[ScoredFile],
    *,
    on_left_out: OnLeftOut,
    on_group: Callable[[ComparedGroup], object] = lambda _: None,
    texts: TextLookup = no_texts,
    groups_of: Callable[[ScoredFile], ScoredGroups] = ScoredFile.groups,
) -> Comparison:
    """Compare two files; `on_group` gets each group that both have, `on_left_out` any other.

    UsageError if no rollout has a score in both. `texts` finds those of rubrics and parameters. Memory holds
    the annotations of groups that wait for their like in the other file, and no messages.
    """
    builders = [FiguresBuilder(texts) for _ in files]
    sums, unlike, best = _ComparisonSums(), list[str](), Best[ComparedGroup](_LISTED)

    def digested(side: int) -> Iterator[DigestedGroup]:
        for group, scored_group in groups_of(files[side]):
            builders[side].add(scored_group, group.rubric)
            yield with_digests(group, scored_group)

    def add(pair: GroupPair) -> None:
        group = ComparedGroup.of(pair)
        sums.add(group)
        if group.against > 0 or (group.distance or 0.0) >= JUDGES_APART:
            best.add(group.rank, group)
        on_group(group)

    def leave_out(group: LeftOutGroup) -> None:
        if not unlike and not group.alone:
            unlike.append(group.sentence)
        on_left_out(group)

    agreement = measure_two(digested(0), digested(1), leave_out, add)
    paired = agreement["paired"]
    figures = {
        "files": [{"figures": builder.figures()} for builder in builders],
        "paired": paired,
        **sums.figures(),
        **_measured(agreement),
    }
    if not figures["rollouts"]:
        raise _unrelated(files, paired, unlike)
    figures["differs"] = differences(
        [file["figures"] for file in figures["files"]], figures["rubric_groups"]
    )
    return Comparison(figures, agreement, best.ranked())


def _unrelated(
    files: Sequence[ScoredFile], paired: dict[str, Any], unlike: Sequence[str]
) -> UsageError:
    """Make the error if no rollout has a score in both; `unlike` may say how groups of one key differ."""
    names = " and ".join(file.name for file in files)
    if not paired["groups"] and unlike:
        keys = f"{paired['unlike']} {'key is' if paired['unlike'] == 1 else 'keys are'}"
        problem = f"no group is the same in both, although {keys}: {unlike[0].removesuffix('; it is left out')}"
        return UsageError(
            f"{names}: {problem}; give two scored files of the same input"
        )
    if not paired["groups"]:
        return UsageError(
            f"{names}: no group in common; give two scored files of the same input"
        )
    for file in files:
        if not file.counts["scored"]:
            return UsageError(
                f"{file.name}: no rollout has a score; `ruler report {file.name}` shows why"
            )
    return UsageError(f"{names}: no rollout has a score in both files")


def _measured(agreement: Agreement) -> dict[str, Any]:
    """Take over the figures that have an interval."""
    scorers = agreement["scorers"]
    labels = {
        "pairs": scorers[0]["pairs"],
        "accuracy": [scorer["pairwise_accuracy"] for scorer in scorers],
        "difference": agreement["differences"].get("pairwise_accuracy"),
    }
    labelled = any(scorer["pairs"] for scorer in scorers)
    (correlation,) = agreement["correlations"]
    return {
        "correlation": correlation["scores"],
        "labels": labels if labelled else None,
    }


class _ComparisonSums:
    """Sums and counts over compared groups."""

    def __init__(self) -> None:
        self._groups, self._one_scored, self._tied = 0, [0, 0], [0, 0]
        self._moments, self._distances = (Moments(), Moments()), Moments()
        self._spreads = array("d"), array("d")
        self._farthest = 0.0
        self._rubrics = {"same": 0, "other": 0}
        self._pairs, self._against, self._ties = 0, 0.0, 0
        self._bins = Bins(1, _CELLS), Bins(1, _CELLS)
        self._cells = Counter[tuple[int, int]]()

    def add(self, group: ComparedGroup) -> None:
        """Count a group."""
        for side, (own, like) in enumerate(
            ((group.one, group.other), (group.other, group.one))
        ):
            self._one_scored[side] += bool(own.scores) and not like.scores
        both = common_scores(group.one, group.other)
        if group.one.rubric and group.other.rubric:
            self._rubrics[
                "same" if group.one.rubric == group.other.rubric else "other"
            ] += 1
        if not both:
            return
        self._groups += 1
        for side, scores in enumerate(zip(*both, strict=True)):
            self._moments[side].add(scores)
            self._spreads[side].append(_deviation(scores))
            self._tied[side] += (group.one, group.other)[side].tied
        distances = [abs(a - b) for a, b in both]
        self._distances.add(distances)
        self._farthest = max(self._farthest, *distances)
        self._pairs += group.pairs
        self._against += group.against
        self._ties += group.tied
        first, second = self._bins
        self._cells.update((first.add(a), second.add(b)) for a, b in both)

    def figures(self) -> dict[str, Any]:
        """Return the figures of all groups so far."""
        rollouts, pairs = self._distances.number, self._pairs
        first, second = self._bins
        return {
            "one_scored": self._one_scored,
            "groups": self._groups,
            "rollouts": rollouts,
            "means": [moments.mean if rollouts else None for moments in self._moments],
            "spreads": [quantile(spreads, 0.5) for spreads in self._spreads],
            "tied": self._tied,
            "rubric_groups": self._rubrics,
            "distance": {
                "mean": self._distances.mean if rollouts else None,
                "max": self._farthest if rollouts else None,
            },
            "order": {
                "pairs": pairs,
                "against": self._against,
                "tied": self._ties,
                "agreement": 1 - self._against / pairs if pairs else None,
            },
            "cells": [
                {
                    "a": first.ends(a),
                    "b": second.ends(b),
                    "n": n,
                    "values": {"a": first.values(a), "b": second.values(b)},
                }
                for (a, b), n in sorted(self._cells.items())
            ],
        }


def _deviation(scores: Sequence[float]) -> float:
    mean = math.fsum(scores) / len(scores)
    return math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))


def next_commands(
    sources: Sequence[str], differing: Sequence[ComparedGroup]
) -> list[list[str]]:
    """Return the commands to type next after two files, as words without quotes."""
    names = [f"./{one}" if one.startswith("-") else one for one in sources]
    commands = [
        ["report", *names, *group_option(group.one.key)] for group in differing[:1]
    ]
    return [*commands, ["report", *names, "-o", "compare.html"], ["agree", *names]]
