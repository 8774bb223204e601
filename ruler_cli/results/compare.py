"""Two scored files of one input → their groups side by side, and the figures of both judges.

Groups are paired by key and content. The scores compared are the judges' own. The figures are one JSON
object, which `ruler report A B --json` prints and the page embeds: docs/json.md describes it.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain, zip_longest
from statistics import fmean
from typing import Any, NamedTuple

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.results.agree import Agreement, AgreementBuilder
from ruler_cli.results.counts import cells, equal_bins, quantile
from ruler_cli.results.group_text import group_json
from ruler_cli.results.highlights import (
    DISPUTED,
    JUDGES_APART,
    LISTED,
    Best,
    Keep,
    Rank,
)
from ruler_cli.results.made_by import TextLookup, differences
from ruler_cli.results.scored_file import ScoredFile, Wanted
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout, deviation
from ruler_cli.scoring.statistics import Concordance, concordance
from ruler_cli.types import Group, Rollout

ComparisonFigures = dict[str, Any]
"""The figures of two files: a list of two holds the value of the first and that of the second."""
_FILES = ("first", "second")
_CELLS = 20
"""Bins of a score."""


class DigestedGroup(NamedTuple):
    """A group with its number in the file, and a digest of the messages of each rollout.

    The digests identify the rollouts in another file. `kept` is what the page keeps of the group's text.
    """

    number: int
    group: ScoredGroup
    digests: Sequence[bytes]
    kept: Any = None


@dataclass(frozen=True)
class ComparedGroup:
    """A group of both files with the judges' own scores, its rollouts in the order of the first file.

    `number` and `kept` are those of the first file.
    """

    number: int
    one: ScoredGroup
    other: ScoredGroup
    kept: Any = None

    @cached_property
    def common_scores(self) -> list[tuple[float, float]]:
        """Both scores of each rollout that has them."""
        both = zip(self.one.rollouts, self.other.rollouts, strict=True)
        return [
            (a.score, b.score)
            for a, b in both
            if a.score is not None and b.score is not None
        ]

    @cached_property
    def _order(self) -> Concordance:
        return concordance(
            [a for a, _ in self.common_scores], [b for _, b in self.common_scores]
        )

    @property
    def tied(self) -> int:
        """The pairs of rollouts to which one judge gives equal scores, and the other different ones."""
        told_by_both = self._order.won + self._order.lost
        return self._order.pairs + self._order.spread - 2 * told_by_both

    @property
    def pairs(self) -> int:
        """The pairs of rollouts to which at least one judge gives different scores."""
        return self._order.won + self._order.lost + self.tied

    @property
    def against(self) -> float:
        """The pairs that both judges order differently, a tied one as a half."""
        return self._order.lost + self.tied / 2

    @cached_property
    def distance(self) -> float | None:
        """The mean distance between both scores of a rollout; None if no rollout has both."""
        distances = [abs(a - b) for a, b in self.common_scores]
        return fmean(distances) if distances else None

    @property
    def rank(self) -> Rank:
        """Order of groups by difference: pairs in another order, then the distance of scores."""
        return (-1.0, 0.0) if self.distance is None else (self.against, self.distance)

    @property
    def reasons(self) -> list[str]:
        """The reasons to look at it, as words: the judges order many pairs differently, and the like."""
        one, other = self.one.scores, self.other.scores
        reasons = {
            "order": self.against > 0 and self.against >= DISPUTED * self.pairs,
            "distance": (self.distance or 0.0) >= JUDGES_APART,
            "only_a": one and not other,
            "only_b": other and not one,
        }
        return [name for name, holds in reasons.items() if holds]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON, without the rollouts."""
        return {
            "ordinal": self.number,
            "key": self.one.key,
            "pairs": self.pairs,
            "against": self.against,
            "distance": self.distance,
            "a": group_json(self.one),
            "b": group_json(self.other),
        }


class LeftOutGroup(NamedTuple):
    """A group that is not compared, and why; `side` is the file (0 or 1) that alone has its key, else None."""

    key: str
    reason: str
    side: int | None = None

    @property
    def alone(self) -> bool:
        """True if the other file lacks its key."""
        return self.side is not None

    @property
    def sentence(self) -> str:
        """The group and the reason."""
        return f"group {self.key!r} left out: {self.reason}"


OnLeftOut = Callable[[LeftOutGroup], object]
_Waiting = dict[str, dict[tuple[bytes, ...], deque[DigestedGroup]]]
"""Groups of a file that have not found their like, by key and digests."""


def digests_of(group: Group, scored_group: ScoredGroup) -> list[bytes]:
    """Return a digest of the messages of each rollout."""
    parts = group.rollouts
    contents = (
        b"".join(_messages(parts[i], i) for i in one.indices)
        for one in scored_group.rollouts
    )
    return [blake2b(one, digest_size=8).digest() for one in contents]


def _messages(rollout: Rollout, place: int) -> bytes:
    try:
        return b"".join(map(_canonical, (rollout.messages, *rollout.histories)))
    # so deep that it can be read but not written: the same one has the same place
    except RecursionError:
        return b"%d" % place


def _canonical(messages: list[Any]) -> bytes:
    """Encode messages alike, in any order of keys; a null member of a message is as good as none."""
    shown = [
        {name: value for name, value in message.items() if value is not None}
        if isinstance(message, dict)
        else message
        for message in messages
    ]
    try:
        return orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, a huge integer
        return json.dumps(shown, sort_keys=True).encode()


def pair_groups(
    first: Iterator[DigestedGroup], second: Iterator[DigestedGroup]
) -> Iterator[ComparedGroup | LeftOutGroup]:
    """Yield the groups that stand in both files with the same rollouts, each in any order, and all others.

    A rollout with a label in one file has it in both. Both files are read side by side; memory holds the
    groups that may still find their like in the other file.
    """
    waiting: tuple[_Waiting, _Waiting] = ({}, {})
    for row in zip_longest(first, second):
        for side, one in enumerate(row):
            if one is None:
                continue
            key, content = one.group.key, tuple(sorted(one.digests))
            others = waiting[1 - side].get(key, {})
            if content in others:
                other = others[content].popleft()
                if not others[content]:
                    del others[content]
                yield _paired(other, one) if side else _paired(one, other)
            elif row[1 - side] is None and not others:  # the other file has ended
                yield _alone(key, side)
            else:
                like = waiting[side].setdefault(key, {})
                like.setdefault(content, deque()).append(one)
    for key in dict.fromkeys(chain(*waiting)):
        left = [chain(*side.get(key, {}).values()) for side in waiting]
        for one, other in zip_longest(*left):
            if one and other:
                yield LeftOutGroup(key, _difference(one.digests, other.digests))
            else:
                yield _alone(key, int(one is None))


def _alone(key: str, side: int) -> LeftOutGroup:
    return LeftOutGroup(key, f"only in the {_FILES[side]} file", side)


def _difference(one: Sequence[bytes], other: Sequence[bytes]) -> str:
    """Say how the rollouts of two groups of one key differ."""
    if len(one) != len(other):
        return f"{len(one)} rollouts in the first file, {len(other)} in the second"
    unlike = (Counter(other) - Counter(one)).total()
    return f"{unlike} of its {len(one)} rollouts differ between the files"


def _paired(one: DigestedGroup, other: DigestedGroup) -> ComparedGroup | LeftOutGroup:
    """Put the rollouts of the second group in the order of the first; equal ones stay in their order."""
    by_digest: dict[bytes, deque[ScoredRollout]] = {}
    for digest, rollout in zip(other.digests, other.group.rollouts, strict=True):
        by_digest.setdefault(digest, deque()).append(rollout)
    first = one.group.rollouts
    second = [by_digest[digest].popleft() for digest in one.digests]
    labels = [(a.label, b.label) for a, b in zip(first, second, strict=True)]
    if any(None not in pair and pair[0] != pair[1] for pair in labels):
        return LeftOutGroup(one.group.key, "labels differ between the files")
    known = [a if b is None else b for a, b in labels]

    def own(group: ScoredGroup, rollouts: Sequence[ScoredRollout]) -> ScoredGroup:
        # not the scores that an outcome or a reward moved
        each = zip(rollouts, known, strict=True)
        own = [replace(r, label=label, score=r.judge_score) for r, label in each]
        return replace(group, rollouts=tuple(own))

    compared = own(one.group, first), own(other.group, second)
    return ComparedGroup(one.number, *compared, one.kept)


class Comparison:
    """Two scored files, compared group by group; figures and agreement are those of the groups so far.

    `differing` are the few groups on which the judges differ most, of equals the first: they order some pair
    differently, or their scores are JUDGES_APART on average.
    """

    def __init__(self, files: Sequence[ScoredFile], on_left_out: OnLeftOut) -> None:
        """`on_left_out` gets each group that is not compared."""
        self.files = files
        self._on_left_out = on_left_out
        self._agreement = AgreementBuilder("A", "B")
        self._unlike: list[str] = []
        self._differing = Best[ComparedGroup](LISTED)
        self._paired = {"groups": 0, "unlike": 0}
        self._alone = [0, 0]
        self._one_scored = [0, 0]
        self._tied = [0, 0]
        self._rubrics = {"same": 0, "other": 0}
        self._order = Counter[str]()
        self._against = 0.0
        # of each judge a score of each rollout, and the spread of each group
        self._scores = array("d"), array("d")
        self._spreads = array("d"), array("d")

    def groups(self, keep: Keep, wanted: Wanted = None) -> Iterator[ComparedGroup]:
        """Yield each group that both files have; or those with a `wanted` key.

        `keep` gets each group of the first file, and what it returns is `kept` with the compared group.
        Memory holds the annotations of groups that wait for their like in the other file, and no messages.
        """

        def digested(side: int) -> Iterator[DigestedGroup]:
            for number, group, scored in self.files[side].groups(wanted):
                kept = None if side else keep(group, scored)
                yield DigestedGroup(number, scored, digests_of(group, scored), kept)

        for group in pair_groups(digested(0), digested(1)):
            if isinstance(group, LeftOutGroup):
                self._leave_out(group)
            else:
                self._add(group)
                yield group

    def _leave_out(self, group: LeftOutGroup) -> None:
        if group.side is not None:
            self._alone[group.side] += 1
        else:
            self._paired["unlike"] += 1
            self._unlike = self._unlike or [group.sentence]
        self._on_left_out(group)

    def _add(self, group: ComparedGroup) -> None:
        self._agreement.add(group.one, group.other)
        self._paired["groups"] += 1
        if group.against > 0 or "distance" in group.reasons:
            self._differing.add(group.rank, group)
        self._one_scored[0] += "only_a" in group.reasons
        self._one_scored[1] += "only_b" in group.reasons
        judges = (group.one, group.other)
        if all(judge.rubric for judge in judges):
            same = group.one.rubric == group.other.rubric
            self._rubrics["same" if same else "other"] += 1
        if not group.common_scores:
            return
        for side, scores in enumerate(zip(*group.common_scores, strict=True)):
            self._scores[side].extend(scores)
            self._spreads[side].append(deviation(scores))
            self._tied[side] += judges[side].tied
        self._order.update(pairs=group.pairs, tied=group.tied)
        self._against += group.against

    @property
    def differing(self) -> list[ComparedGroup]:
        """The groups on which the judges differ most."""
        return self._differing.ranked()

    @cached_property
    def agreement(self) -> Agreement:
        """The figures of `ruler agree`, after the last group."""
        return self._agreement.agreement({**self._paired, "alone": self._alone})

    def figures(self, lookup: TextLookup) -> ComparisonFigures:
        """Return the figures of `ruler report`; UsageError if no rollout has a score in both files."""
        one, other = self._scores
        if not one:
            raise self._unrelated()
        agreement = self.agreement
        scorers = agreement["scorers"]
        labels = {
            "pairs": scorers[0]["pairs"],
            "accuracy": [scorer["pairwise_accuracy"] for scorer in scorers],
            "difference": agreement["differences"].get("pairwise_accuracy"),
        }
        distances = [abs(a - b) for a, b in zip(one, other, strict=True)]
        pairs = self._order["pairs"]
        files = [file.figures.figures(lookup) for file in self.files]
        axes = {"a": equal_bins(1, _CELLS), "b": equal_bins(1, _CELLS)}
        return {
            "files": [{"figures": figures} for figures in files],
            "paired": agreement["paired"],
            "one_scored": self._one_scored,
            "groups": len(self._spreads[0]),
            "rollouts": len(one),
            "means": [fmean(scores) for scores in self._scores],
            "spreads": [quantile(spreads, 0.5) for spreads in self._spreads],
            "tied": self._tied,
            "rubric_groups": self._rubrics,
            "distance": {"mean": fmean(distances), "max": max(distances)},
            "order": {
                "pairs": pairs,
                "against": self._against,
                "tied": self._order["tied"],
                "agreement": 1 - self._against / pairs if pairs else None,
            },
            "cells": cells(zip(one, other, strict=True), **axes),
            "correlation": agreement["correlations"][0]["scores"],
            "labels": labels if labels["pairs"] else None,
            "differs": differences(files, self._rubrics),
        }

    def as_json(
        self, heads: Sequence[Mapping[str, Any]], figures: ComparisonFigures
    ) -> dict[str, Any]:
        """Return the figures and the list as JSON; `heads` has what describes each file."""
        files = zip(heads, figures["files"], strict=True)
        differ = [one.as_json() for one in self.differing]
        described = [{**head, **own} for head, own in files]
        return figures | {"files": described, "differ": differ}

    def _unrelated(self) -> UsageError:
        names = " and ".join(file.name for file in self.files)
        if self._paired["groups"]:
            return UsageError(
                f"{names}: no rollout has a score in both files",
                f"see why with `ruler report {self.files[1].name}`",
            )
        problem = "; ".join([f"{names}: no group in common", *self._unlike])
        return UsageError(problem, "give two scored files of the same input")
