"""A scored file → its groups one after another, and the figures of the run; no group stays in memory.

The figures are one JSON object, which `ruler report` prints as JSON, a page for a browser embeds and the
terminal's page puts into sentences: docs/output.md describes it. Names are stable; new ones may be added.
Counts are bounded, whatever words a file has.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import asdict, astuple
from itertools import pairwise

from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.judges.providers import EMBEDDED
from ruler_cli.ledger.database import digest_of
from ruler_cli.prompting.templates import DEFAULT_RUBRIC
from ruler_cli.results.annotations import AnnotationReader, refuse_unannotated
from ruler_cli.results.record import (
    GroupRecord,
    Json,
    RolloutRecord,
)
from ruler_cli.results.source import ScoredSource
from ruler_cli.scoring.figures import Figures
from ruler_cli.scoring.statistics import PositionBias, quantile
from ruler_cli.types import (
    Group,
    iso,
    printable,
    shorten,
    words_of,
)

ReportFigures = Json
"""The figures of a run; None: not known."""
TextLookup = Callable[[Iterable[str]], Mapping[str, str]]
"""Returns the texts that are known, by digest."""
Wanted = Callable[[str], bool] | None
"""Tells if a group is wanted, by its key; None: all are."""
ENOUGH = 10
"""Groups from which on a chart shows more than a list of them."""
BUILT_IN = digest_of(DEFAULT_RUBRIC)
"""The digest of the built-in rubric."""
OTHER = "other"
"""The word under which further different words are counted, once there are too many."""
_WORDS, _LISTED, _LONGEST_NAME = 1000, 24, 200
"""Different words that are counted, those that are listed, and characters of one."""
_PATTERNS, _LONGEST_REASON = 500, 600
"""Different reasons that are counted, and characters of one, and of the key of a group."""
_COMMONEST = 6
"""Reasons that are listed."""
_NUMBERS = re.compile(r"(?=[\w-]*\d)[A-Za-z0-9_-]{16,}|\d+(?:[.,:]\d+)*")
"""Ids and numbers: reasons that differ in these only are alike."""
_MOST_LABELS = 12
"""Different labels up to which each has a cell; more are in as many bins."""
WAYS = {
    "judge": "judge",
    "served": "served model",
    "rubric": "rubric",
    "parameters": "parameters",
    "version": "version of ruler",
    "passes": "passes",
}
"""The things that make scores, by the names of their words, for people."""
_GROUPS = words_of(
    "all scored failed unmarked tied live alone one_score explained "
    "same_explanations"
)
_USAGE = words_of("calls prompt_tokens completion_tokens cached_tokens")
_ROLLOUTS = words_of("all scored failed labelled suspect moved")
_TENTHS = [i / 10 for i in range(11)]
TWENTIETHS = [i / 20 for i in range(21)]
"""Edges of the bins of a score."""
_HALVED = [i / 40 for i in range(21)]
"""Edges of a standard deviation of scores, which is hardly above a half."""
_POWERS = [0.0, *(2.0**n for n in range(64))]
"""Edges of bytes."""


class ScoredFile:
    """A scored file; its `figures` and their counts are complete once all groups were read."""

    def __init__(self, opened: ScoredSource) -> None:
        """UsageError if it holds no records."""
        self.input = opened
        self.source = opened.settings.source
        self.name = Location(self.source).shown
        self._labels = opened.settings.outcome
        if self.input.reader is None:
            problem = f"{self.name}: holds no records"
            raise UsageError(f"{problem}; give a file that `ruler score` wrote")
        at_path = self._labels is not None
        self.annotations = AnnotationReader(self.input.reader, at_path=at_path)
        self.figures = FileFigures()

    def groups(
        self, wanted: Wanted = None
    ) -> Iterator[tuple[int, Group, GroupRecord]]:
        """Yield each group with its number, from 1, and its annotations; or those with a `wanted` key.

        After all groups UsageError if none has an annotation, or none a label at the user's path.
        """
        for number, group in enumerate(self.input.groups, 1):
            if wanted is None or wanted(group.key):
                scored = self.annotations.group(group)
                self.figures.add(scored)
                if group.rubric is not None:
                    self.figures.words["own rubric"].count(scored.rubric)
                yield number, group, scored
        if wanted is not None:
            return
        groups = self.figures.groups
        refuse_unannotated(
            self.name,
            groups["all"],
            groups["unmarked"],
        )
        if self._labels is not None and not self.figures.rollouts["labelled"]:
            raise UsageError(
                f"no rollout of {self.name} has a usable label there",
                "a label is a number, true or false, or a word such as passed",
                place=f"--labels {printable(self._labels)}",
            )

    @property
    def warning(self) -> str:
        """Warn if every label equals its score: then the labels are probably ruler's own scores."""
        rollouts = self.figures.rollouts
        if not 1 < rollouts["own_labels"] == rollouts["scored"]:
            return ""
        return (
            f"--labels {printable(self._labels or '')}: every label of {self.name} equals its score; "
            "if ruler wrote it there, leave out --labels to use the original rewards"
        )


class WordCounts(Counter[str]):
    """Counts of words: the first thousand different ones, the rest as `other`."""

    def count(self, word: str) -> None:
        """Count a word; a very long one counts by its beginning."""
        word = word[:_LONGEST_NAME]
        counted = word in self or len(self) < _WORDS
        self[word if counted else OTHER] += 1

    def listed(self) -> dict[str, int]:
        """Return the counts of the most frequent words, and of all other ones."""
        ranked = sorted(self.items(), key=lambda item: (-item[1], item[0]))
        listed = Counter(dict(ranked[:_LISTED]))
        listed[OTHER] += sum(n for _, n in ranked[_LISTED:])
        return dict(+listed)


class FileFigures:
    """The figures of a scored file, group by group; it stores some numbers of a group and of a rollout.

    `groups` and `rollouts` are counts by name: those of the figures, and of values that cannot be used:
    `odd_scores`, `odd_labels`, `unlabelled`; `outcomes` counts labels that a verifier gave instead of a reward,
    `own_labels` labels at the user's path that equal the score. `sums` are those of all groups with scores.
    """

    def __init__(self) -> None:
        self.groups = Counter[str]()
        # not empty, else the first update would store truth values
        self.rollouts = Counter[str](all=0)
        self.words: defaultdict[str, WordCounts] = defaultdict(WordCounts)
        """Words of groups, by what they name."""
        self.sums = Figures()
        # by kind and pattern
        self._reasons: dict[tuple[str, str], Json] = {}
        self._usage = Counter[str](calls=0)
        self._costs = array("d")
        self._times = array("d")

    def add(self, group: GroupRecord) -> None:
        """Count the next group of the file."""
        self.groups.update(["all", group.status])
        for rollout in group.rollouts:
            self._add_rollout(rollout)
        words = {
            "flag": group.flags,
            "kind": [group.kind],
            "judge": [group.judge],
            "passes": [str(group.passes or "")],
            "served": group.served,
            "version": [group.version],
            "rubric": [group.rubric],
            "parameters": [group.params],
        }
        for name, listed in words.items():
            for word in filter(None, listed):
                self.words[name].count(word)
        if group.cost_usd is not None:
            self._costs.append(group.cost_usd)
        if group.time is not None:
            self._times.append(group.time)
        self._usage.update(group.usage)
        if group.failed:
            self._add_reason(group)
        if group.scores:
            # embedded judges say the same of many by design
            own_words = not {*EMBEDDED} & {*group.judge.split(", ")}
            self.sums.add(group.values, own_words=own_words)

    def _add_reason(self, group: GroupRecord) -> None:
        """Count the reason of a failure; two are alike if they differ in numbers and ids only."""
        reason = shorten(group.reason, _LONGEST_REASON)
        pattern = (group.kind, _NUMBERS.sub("0", reason))
        if pattern in self._reasons or len(self._reasons) < _PATTERNS:
            first = {
                "kind": group.kind,
                "reason": reason,
                "groups": 0,
                "first": group.key[:_LONGEST_REASON],
            }
            self._reasons.setdefault(pattern, first)["groups"] += 1

    def _add_rollout(self, rollout: RolloutRecord) -> None:
        label = rollout.label
        source = rollout.label_source
        counts = {
            "all": True,
            "odd_scores" if rollout.odd_score else rollout.status: True,
            "suspect": rollout.suspect,
            "moved": rollout.judge_score not in (None, rollout.score),
            "labelled": label is not None,
            "unlabelled": not source,
            "odd_labels": label is None and source != "",
            "outcomes": source == "outcome",
            "own_labels": source == "given" and label == rollout.score,
        }
        if rollout.ended:
            counts[rollout.ended] = True
        self.rollouts.update(counts)

    def figures(self, lookup: TextLookup) -> ReportFigures:
        """Return the figures of all groups so far; `lookup` finds texts of rubrics and parameters."""
        words = self.words
        groups = self.groups + self.sums.counts
        rollouts = {name: self.rollouts[name] for name in _ROLLOUTS}
        rollouts["failed"] += self.rollouts["odd_scores"]
        reasons = sorted(
            self._reasons.values(), key=lambda reason: -reason["groups"]
        )
        scores = self.sums.scores
        numbers = self.sums.numbers
        return {
            "groups": {name: groups[name] for name in _GROUPS},
            "rollouts": rollouts,
            "failed_by_kind": words["kind"].listed(),
            "reasons": reasons[:_COMMONEST],
            "flags": words["flag"].listed(),
            "judges": words["judge"].listed(),
            "passes": words["passes"].listed(),
            "made_by": self._made_by(lookup),
            "cost_usd": math.fsum(self._costs) if self._costs else None,
            "cost_groups": len(self._costs),
            "usage": {name: self._usage[name] for name in _USAGE},
            "started_at": iso(min(self._times, default=None)),
            "ended_at": iso(max(self._times, default=None)),
            "scores": {
                "bins": histogram(numbers["score"], TWENTIETHS),
                "mean": scores.mean if scores.number else None,
                "sd": scores.spread if scores.number else None,
            },
            "spread": _middle(numbers["spread"], _HALVED),
            "against_label": self._against_label(),
            "slots": self._position_bias(),
            "lengths": self._length_bias(),
            "criteria": self._criteria(),
            "reliability": {
                **_middle(numbers["reliability"], _TENTHS),
                "groups": len(numbers["reliability"]),
            },
        }

    def _made_by(self, lookup: TextLookup) -> Json:
        """Return what made the scores, the most frequent first, with the texts that are known."""
        made: Json = {
            "served": self.words["served"].listed(),
            "versions": self.words["version"].listed(),
            "own_rubrics": self.words["own rubric"].listed(),
        }
        texts = {BUILT_IN: DEFAULT_RUBRIC, digest_of(""): ""}
        for name, way in (("rubrics", "rubric"), ("params", "parameters")):
            listed = self.words[way].listed()
            listed.pop(OTHER, None)
            texts.update(lookup(listed))
            made[name] = []
            for digest, groups in listed.items():
                text = texts.get(digest)
                row = {"digest": digest, "groups": groups, "text": text}
                made[name].append(row)
        return made

    def _against_label(self) -> Json:
        numbers = self.sums.numbers
        labels = sorted({*numbers["label"]})
        edges = labels
        exact = len(labels) <= _MOST_LABELS
        if not exact:
            step = (labels[-1] - labels[0]) / _MOST_LABELS
            edges = [labels[0] + step * i for i in range(_MOST_LABELS)]
        listed = cells(
            zip(
                numbers["labelled"],
                numbers["label"],
                strict=True,
            ),
            score=_TENTHS,
            label=[*edges, *labels[-1:]],
        )
        for cell in listed if exact else ():
            cell["label"] = cell["values"]["label"]
        pairs = self.sums.pairs
        return {
            "cells": listed,
            "pairs": pairs.pairs,
            "against": pairs.against,
            "tied": pairs.tied,
            "agreement": pairs.agreement,
            "groups": self.sums.counts["labelled"],
        }

    def _length_bias(self) -> Json:
        numbers = self.sums.numbers
        trend = self.sums.lengths.trend()
        figures: Json = dict.fromkeys(("slope", "error", "correlation"))
        figures = asdict(trend) if trend else {**figures, "groups": 0}
        points = zip(
            numbers["score"],
            numbers["bytes"],
            strict=True,
        )
        return {
            "cells": cells(
                points,
                score=_TENTHS,
                bytes=_POWERS,
            ),
            **figures,
        }

    def _criteria(self) -> list[Json]:
        """Return the figures of each criterion, the most frequent first, of these the one that decides the most."""
        figures = []
        for name, sums in self.sums.criteria.items():
            bins = sums.positions.bins()
            bias = bins[0].mean - bins[-1].mean if bins else None
            row = {
                "name": name,
                "rollouts": sums.values.number,
                "mean": sums.values.mean,
                "with_score": sums.with_score,
                "reliability": sums.reliability,
                "first_less_last": bias,
            }
            figures.append(row)
        # of rubrics of single records the common criteria come first
        return sorted(
            figures,
            key=lambda row: (-row["rollouts"], -abs(row["with_score"] or 0.0)),
        )

    def _position_bias(self) -> Json:
        positions = self.sums.positions
        in_order = self.sums.counts["in_order"]
        if in_order >= ENOUGH and positions.groups == in_order:
            # a position says what the rollout is, not how the judge is biased; few may be so by chance
            positions = PositionBias()
        names = ("from", "to", "mean", "error", "n")
        bins = [
            dict(
                zip(
                    names,
                    astuple(bar),
                    strict=True,
                )
            )
            for bar in positions.bins()
        ]
        return {
            "bins": bins,
            "groups": positions.groups,
            "corrected": self.sums.counts["corrected"],
        }


def differences(
    first: FileFigures,
    second: FileFigures,
) -> dict[str, bool | None]:
    """Return for each thing that makes scores if two files differ in it; None: at least one does not say it."""
    differs = {}
    for name in WAYS:
        a = first.words[name]
        b = second.words[name]
        differs[name] = a.keys() != b.keys() if a and b else None
    if differs["judge"]:
        # their digest is of the judges' names, too
        differs["parameters"] = None
    return differs


def _middle(
    numbers: Sequence[float],
    edges: Sequence[float],
) -> Json:
    return {
        "bins": histogram(numbers, edges),
        "median": quantile(numbers, 0.5),
    }


def histogram(
    values: Iterable[float],
    edges: Sequence[float],
) -> list[Json]:
    """Count values between edges, `n` in each bin; no bins without values."""
    filled = {cell["x"][0]: cell for cell in cells(zip(values), x=edges)}
    bins = []
    empty: Json = {"n": 0, "values": {"x": None}}
    for start, stop in pairwise(edges):
        cell = filled.get(start, empty)
        values_in = cell["values"]["x"]
        row = {"from": start, "to": stop, "n": cell["n"], "values": values_in}
        bins.append(row)
    return bins if filled else []


def cells(
    points: Iterable[Sequence[float]], **axes: Sequence[float]
) -> list[Json]:
    """Count points between the edges of axes, which have names; empty cells are left out.

    An edge is in the cell above it, what is outside in the first or last.
    """
    held = defaultdict[tuple[int, ...], list[Sequence[float]]](list)
    for point in points:
        place = [
            bisect_right(
                edges,
                value,
                1,
                len(edges) - 1,
            )
            - 1
            for edges, value in zip(
                axes.values(),
                point,
                strict=True,
            )
        ]
        held[tuple(place)].append(point)
    filled = []
    for numbers, inside in sorted(held.items()):
        cell: Json = {
            "n": len(inside),
            "values": {},
        }
        columns = zip(*inside, strict=True)
        for name, number, column in zip(
            axes,
            numbers,
            columns,
            strict=True,
        ):
            cell[name] = [*axes[name][number : number + 2]]
            cell["values"][name] = [min(column), max(column)]
        filled.append(cell)
    return filled
